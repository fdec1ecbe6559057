// Replaces jpeg.cc in a build without libjpeg-turbo.

#include "../../core/base/left_out.h"
#include "decoders.h"

namespace ringlet {

bool ReadsJpeg() { return false; }

Status DecodeJpeg(std::string_view, bool, bool, Picture*) {
  return LeftOut("is a JPEG, which can be converted to PNG", "jpeg",
                 "-Djpeg=enabled");
}

}  // namespace ringlet
