// The functions of ringlet/export.h in a build without exports.

#include "../../core/base/left_out.h"
#include "ringlet/export.h"

namespace ringlet {

Status ExportC(Model*, const std::string& path, const ExportCOptions&,
               Int8Report*) {
  return LeftOut(path, "export");
}
Status ExportOnnx(Model*, const std::string& path, const ExportOnnxOptions&) {
  return LeftOut(path, "export");
}

}  // namespace ringlet
