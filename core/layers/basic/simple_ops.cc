// Reshape, Flatten.

#include "../layer_kind.h"
#include "../op.h"

namespace ringlet {
namespace {

class ViewOp final : public Op {
 public:
  explicit ViewOp(const Shape& output) { output_ = output; }
  bool is_view() const override { return true; }
};

}  // namespace

Status MakeReshape(const Layer& layer, const std::vector<Shape>& inputs,
                   std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  if (layer.kind == Layer::Kind::kFlatten) {
    op->reset(new ViewOp({x.elements()}));
    return Status();
  }
  Shape target = layer.shape;
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < target.rank(); ++i) {
    if (target[i] == -1 && unknown < 0) {
      unknown = i;
    } else if (target[i] < 1 || known > x.elements() / target[i]) {
      known = 0;
      break;
    } else {
      known *= target[i];
    }
  }
  const bool divides = known > 0 && x.elements() % known == 0;
  if (divides && unknown >= 0) target[unknown] = x.elements() / known;
  if (!divides || target.elements() != x.elements()) {
    return InvalidArgument("cannot reshape %s into %s", x.ToString().c_str(),
                           layer.shape.ToString().c_str());
  }
  op->reset(new ViewOp(target));
  return Status();
}

}  // namespace ringlet
