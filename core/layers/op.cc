#include "op.h"

#include <cmath>

#include "../base/check.h"
#include "layer_table.h"

namespace ringlet {
namespace {

// The first setter that was called and sets nothing of this layer.
Status CheckSettings(const Layer& layer) {
  uint32_t foreign = layer.settings;
  for (const LayerField& field : ClassOf(layer).fields) {
    foreign &= ~field.setting;
  }
  if (foreign == 0) return Status();
  const uint32_t first = foreign & (~foreign + 1);
  for (const LayerClass& row : AllLayers()) {
    for (const LayerField& field : row.fields) {
      if (field.setting != first) continue;
      return InvalidArgument("%s has no %s", ClassName(layer), field.name);
    }
  }
  RINGLET_CHECK(false);  // a setter is some field's
  return Status();
}

Status CheckInputs(LayerInputs takes, size_t inputs) {
  const int count = static_cast<int>(inputs);
  switch (takes) {
    case LayerInputs::kNone:
      break;
    case LayerInputs::kOne:
      if (count == 1) break;
      return InvalidArgument("takes one input, not %d", count);
    case LayerInputs::kList:
      if (count >= 2) break;
      return InvalidArgument("needs two or more inputs, has %d", count);
    case LayerInputs::kAny:
      if (count >= 1) break;
      return InvalidArgument("takes one input or more, not 0");
  }
  return Status();
}

// A shape whose elements fit in memory many times over, so that sizes of
// batches and scratch do not overflow.
Status CheckSize(const Shape& shape) {
  constexpr int64_t kMost = int64_t{1} << 31;
  int64_t elements = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] < 1 || elements > kMost / shape[i]) {
      return InvalidArgument("a shape of %s is empty or too large",
                             shape.ToString().c_str());
    }
    elements *= shape[i];
  }
  return Status();
}

}  // namespace

Status Op::Make(const Layer& layer, const std::vector<Shape>& inputs,
                std::unique_ptr<Op>* op) {
  const LayerClass& row = ClassOf(layer);
  RINGLET_RETURN_IF_ERROR(CheckSettings(layer));
  RINGLET_RETURN_IF_ERROR(CheckInputs(row.inputs, inputs.size()));
  RINGLET_RETURN_IF_ERROR(row.make_op(layer, inputs, op));
  (*op)->set_frozen(!layer.trainable);
  RINGLET_RETURN_IF_ERROR(CheckSize((*op)->output()));
  for (const WeightSpec& weight : (*op)->weights()) {
    RINGLET_RETURN_IF_ERROR(
        CheckSize(weight.shape).Annotate("%s", weight.name.c_str()));
    const Regularizer& r = weight.regularizer;
    if (r.l1 >= 0 && r.l2 >= 0 && std::isfinite(r.l1 + r.l2)) continue;
    return InvalidArgument(
        "%s: a regularizer's l1 and l2 must be numbers >= 0, not %g and %g",
        weight.name.c_str(), r.l1, r.l2);
  }
  return Status();
}

}  // namespace ringlet
