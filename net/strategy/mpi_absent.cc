// Replaces mpi_collective.cc in a build without MPI.

#include "../../core/base/left_out.h"
#include "mpi_collective.h"

namespace ringlet {

Status OpenMpi(const MpiOptions&, std::unique_ptr<Collective>*) {
  return LeftOut("communication implementation MPI, in place of AUTO or RING",
                 "mpi", "-Dmpi=enabled");
}

}  // namespace ringlet
