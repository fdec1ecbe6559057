// The Collective over an MPI that is there already, for whoever has a cluster's
// fabric and its launcher. Built with -Dmpi=enabled.
//
// Internal to net/. Ranks are those of MPI_COMM_WORLD; whoever has initialized
// MPI finalizes it. A rank that is lost is the launcher's business: mpirun ends
// the whole job. So Reform() is refused, there are no heartbeats, and a wait
// has MPI's deadline: none. Abort says why on stderr and ends all ranks by
// MPI_Abort: MPI's calls cannot be woken otherwise. Sums have the same bits on
// every rank in so far as MPI's do (Open MPI's and MPICH's). Most MPIs move
// data only inside calls.

#ifndef RINGLET_NET_STRATEGY_MPI_COLLECTIVE_H_
#define RINGLET_NET_STRATEGY_MPI_COLLECTIVE_H_

#include <cstdint>
#include <memory>

#include "../../core/base/collective.h"

namespace ringlet {

struct MpiOptions {
  int64_t bytes_per_pack = 1 << 20;
  // How long the destructor waits for the other ranks'. If they do not come,
  // MPI stays as it is, and the launcher sees a rank that ended too early.
  double leave_timeout_seconds = 120;
};

// kInvalidArgument: this build has no MPI, or MPI was finalized before.
// kUnavailable: what MPI says.
Status OpenMpi(const MpiOptions& options, std::unique_ptr<Collective>* out);

}  // namespace ringlet

#endif  // RINGLET_NET_STRATEGY_MPI_COLLECTIVE_H_
