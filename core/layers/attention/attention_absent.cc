// In place of attend.cc and both layers of attention in a build without them.

#include "../../base/left_out.h"
#include "../layer_table.h"
#include "../op.h"

namespace ringlet {

Status MakeAttention(const Layer& layer, const std::vector<Shape>&,
                     std::unique_ptr<Op>*) {
  return LeftOut(ClassName(layer), "attention");
}
Status MakeMultiHeadAttention(const Layer& layer, const std::vector<Shape>&,
                              std::unique_ptr<Op>*) {
  return LeftOut(ClassName(layer), "attention");
}

}  // namespace ringlet
