// Every Op is made by Op::Make, which checks what all layers have alike:
// setters of other layers, the number of inputs, sizes, regularizers and
// constraints. The limits of CheckSize and CheckWork let sums over a model's
// layers stay within 64 bits.

#include "op.h"

#include <bitset>
#include <cinttypes>
#include <cmath>
#include <utility>

#include "../base/check.h"
#include "basic/activation_layers.h"
#include "constraints.h"
#include "layer_loops.h"
#include "layer_table.h"

namespace ringlet {
namespace {

// Returns an error for the first called setter that sets no field of this
// layer.
Status CheckSettings(const Layer& layer) {
  auto foreign = layer.settings;
  for (const LayerField& field : ClassOf(layer).fields) {
    foreign.reset(field.setting);
  }
  if (foreign.none()) return Status();
  size_t first = 0;
  while (!foreign[first]) ++first;
  for (const LayerClass& row : AllLayers()) {
    for (const LayerField& field : row.fields) {
      if (field.setting != first) continue;
      return InvalidArgument("%s has no %s", ClassName(layer), field.name);
    }
  }
  RINGLET_CHECK(false);  // every setter has a field
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
    case LayerInputs::kQuery:
      if (count == 2 || count == 3) break;
      return InvalidArgument(
          "takes two or three inputs, query, value and key, not %d", count);
    case LayerInputs::kStates:
      if (count >= 1 && count <= 3) break;
      return InvalidArgument(
          "takes one input, and perhaps its initial states, not %d", count);
    case LayerInputs::kAny:
      if (count >= 1) break;
      return InvalidArgument("takes one input or more, not 0");
  }
  return Status();
}

// Limits a shape's elements, so that sizes of batches and scratch do not
// overflow.
Status CheckSize(const Shape& shape) {
  constexpr int64_t kMax = int64_t{1} << 31;
  int64_t elements = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] < 1 || elements > kMax / shape[i]) {
      return InvalidArgument("a shape of %s is empty or too large",
                             shape.ToString().c_str());
    }
    elements *= shape[i];
  }
  return Status();
}

Status CheckOnes(const WeightSpec& weight) {
  const Range& ones = weight.ones;
  if (ones.begin >= 0 && ones.begin <= ones.end &&
      ones.end <= weight.shape.elements()) {
    return Status();
  }
  return InvalidArgument(
      "%s: `ones` has elements %lld to %lld, and a weight of %s has fewer",
      weight.name.c_str(), static_cast<long long>(ones.begin),
      static_cast<long long>(ones.end), weight.shape.ToString().c_str());
}

// Limits the work, so that sums over the layers of a model do not overflow.
Status CheckWork(const Op& op) {
  constexpr int64_t kMax = int64_t{1} << 44;
  if (op.multiply_adds() <= kMax) return Status();
  return InvalidArgument(
      "%lld multiply-adds for each example are too many: at most 2^44 are "
      "possible; give the layer fewer units or a smaller input",
      static_cast<long long>(op.multiply_adds()));
}

// An activation with a gradient that needs its input becomes its own layer.
Status MakeBare(const LayerClass& row, const Layer& layer,
                const std::vector<Shape>& inputs, std::unique_ptr<Op>* op) {
  if (row.kind == Layer::Kind::kActivation || IsRecurrent(row.kind) ||
      !GradientReadsInput(layer.activation)) {
    return row.make_op(layer, inputs, op);
  }
  Layer linear = layer;
  linear.activation = kLinear;
  RINGLET_RETURN_IF_ERROR(row.make_op(linear, inputs, op));
  *op = AppendActivation(layer.activation, std::move(*op));
  return Status();
}

}  // namespace

void Op::AddBias(const Layer& layer, int64_t units) {
  if (!layer.use_bias) return;
  weights_.push_back({"bias",
                      {units},
                      layer.bias_initializer,
                      layer.bias_regularizer,
                      layer.bias_constraint});
}

size_t CountMasks(const Layer& layer) {
  return std::bitset<32>(layer.masked_inputs).count();
}

Status CheckAtLeastOne(const char* name, int64_t value) {
  if (value >= 1) return Status();
  return InvalidArgument("%s must be at least 1, not %" PRId64, name, value);
}

Status Op::Make(const Layer& layer, const std::vector<Shape>& inputs,
                std::unique_ptr<Op>* op) {
  const LayerClass& row = ClassOf(layer);
  RINGLET_RETURN_IF_ERROR(CheckSettings(layer));
  RINGLET_RETURN_IF_ERROR(CheckNumbers(layer));
  RINGLET_RETURN_IF_ERROR(
      CheckInputs(row.inputs, inputs.size() - CountMasks(layer)));
  RINGLET_RETURN_IF_ERROR(MakeBare(row, layer, inputs, op));
  (*op)->set_frozen(!layer.trainable);
  RINGLET_RETURN_IF_ERROR(CheckSize((*op)->output()));
  for (const WeightSpec& weight : (*op)->weights()) {
    RINGLET_RETURN_IF_ERROR(
        CheckSize(weight.shape).Annotate("%s", weight.name.c_str()));
    RINGLET_RETURN_IF_ERROR(CheckOnes(weight));
    RINGLET_RETURN_IF_ERROR(CheckConstraint(weight.constraint, weight.shape)
                                .Annotate("%s", weight.name.c_str()));
    const Regularizer& r = weight.regularizer;
    if (r.l1 >= 0 && r.l2 >= 0 && std::isfinite(r.l1 + r.l2)) continue;
    return InvalidArgument(
        "%s: a regularizer's l1 and l2 must be numbers >= 0, not %g and %g",
        weight.name.c_str(), r.l1, r.l2);
  }
  return CheckWork(**op);
}

}  // namespace ringlet
