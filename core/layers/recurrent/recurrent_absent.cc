// In place of recurrent.cc, lstm.cc and gru.cc in a build without them.

#include "../../base/left_out.h"
#include "../layer_table.h"
#include "../op.h"

namespace ringlet {

Status MakeRecurrent(const Layer& layer, const std::vector<Shape>&,
                     std::unique_ptr<Op>*) {
  return LeftOut(ClassName(layer), "recurrent");
}

Status MakeRecurrentOutput(const Layer& layer, const std::vector<Shape>&,
                           std::unique_ptr<Op>*) {
  return LeftOut(ClassName(layer), "recurrent");
}

}  // namespace ringlet
