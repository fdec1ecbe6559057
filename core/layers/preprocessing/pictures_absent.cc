// In place of augmentation.cc and resizing.cc in a build without them.

#include "../../base/left_out.h"
#include "../layer_table.h"
#include "../op.h"
#include "resizing.h"

namespace ringlet {

Status MakeWarp(const Layer& layer, const std::vector<Shape>&,
                std::unique_ptr<Op>*) {
  return LeftOut(ClassName(layer), "pictures");
}
Status MakeColorChange(const Layer& layer, const std::vector<Shape>&,
                       std::unique_ptr<Op>*) {
  return LeftOut(ClassName(layer), "pictures");
}
Status MakeResizing(const Layer& layer, const std::vector<Shape>&,
                    std::unique_ptr<Op>*) {
  return LeftOut(ClassName(layer), "pictures");
}
// No model has such a layer to export.
ImageBox BoxOf(const Layer&, const Shape&) { return {}; }
Tap MakeTap(int64_t, int64_t, int64_t, int64_t, int64_t, Interpolation) {
  return {};
}

}  // namespace ringlet
