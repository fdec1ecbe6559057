// Replaces sealing.cc in a build without libsodium.

#include "../../core/base/left_out.h"
#include "sealing.h"

namespace ringlet {

Status BeginSealing() {
  return LeftOut("sealed files", "secure", "-Dsecure=enabled");
}
Status SealNew(const JobKeys&, std::unique_ptr<File>*) {
  return BeginSealing();
}
Status Unseal(std::unique_ptr<File>, const JobKeys&, const std::string&,
              std::unique_ptr<File>*) {
  return BeginSealing();
}

}  // namespace ringlet
