// The Collective over an installed MPI, for a cluster's fabric and its
// launcher. Built with -Dmpi=enabled.
//
// Ranks are the ranks of MPI_COMM_WORLD. The code that has initialized MPI
// finalizes it. A loss ends the job: mpirun ends all ranks. So Reform() is
// refused, there are no heartbeats, and a wait has no deadline. Abort prints
// the reason on stderr and ends all ranks by MPI_Abort: MPI's calls cannot be
// woken otherwise. Sums have the same bits on every rank if MPI's sums have
// (Open MPI, MPICH). Most MPIs move data only inside calls.

#ifndef RINGLET_NET_STRATEGY_MPI_COLLECTIVE_H_
#define RINGLET_NET_STRATEGY_MPI_COLLECTIVE_H_

#include <cstdint>
#include <memory>

#include "ringlet/collective.h"

namespace ringlet {

struct MpiOptions {
  int64_t bytes_per_pack = 1 << 20;
  // How long the destructor waits for the destructors of the other ranks. After
  // that time MPI is not finalized, and the launcher reports a rank that ended
  // too early.
  double leave_timeout_seconds = 120;
};

// kUnimplemented: this build has no MPI. kInvalidArgument: MPI was finalized
// before.
// kUnavailable: MPI failed, with MPI's message.
Status OpenMpi(const MpiOptions& options, std::unique_ptr<Collective>* out);

}  // namespace ringlet

#endif  // RINGLET_NET_STRATEGY_MPI_COLLECTIVE_H_
