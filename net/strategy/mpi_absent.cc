// Replaces mpi_collective.cc in a build without MPI.

#include "mpi_collective.h"

namespace ringlet {

Status OpenMpi(const MpiOptions&, std::unique_ptr<Collective>*) {
  return InvalidArgument(
      "communication implementation MPI: this build has no MPI; use AUTO or "
      "RING, or build with meson's -Dmpi=enabled");
}

}  // namespace ringlet
