#include "op.h"

#include <cmath>

namespace ringlet {
namespace {

// The settings that a kind of layer has.
uint32_t Settings(Layer::Kind kind) {
  constexpr uint32_t kWeights =
      Layer::kSetUseBias | Layer::kSetKernelInitializer |
      Layer::kSetBiasInitializer | Layer::kSetKernelRegularizer |
      Layer::kSetBiasRegularizer;
  switch (kind) {
    case Layer::Kind::kDense:
      return kWeights;
    case Layer::Kind::kConv2D:
      return kWeights | Layer::kSetStrides | Layer::kSetPadding;
    case Layer::Kind::kMaxPooling2D:
    case Layer::Kind::kAveragePooling2D:
      return Layer::kSetStrides | Layer::kSetPadding;
    case Layer::Kind::kDropout:
      return Layer::kSetSeed;
    default:
      return 0;
  }
}

const char* SettingName(uint32_t setting) {
  switch (setting) {
    case Layer::kSetStrides:
      return "strides";
    case Layer::kSetPadding:
      return "padding";
    case Layer::kSetUseBias:
      return "use_bias";
    case Layer::kSetKernelInitializer:
      return "kernel_initializer";
    case Layer::kSetBiasInitializer:
      return "bias_initializer";
    case Layer::kSetKernelRegularizer:
      return "kernel_regularizer";
    case Layer::kSetBiasRegularizer:
      return "bias_regularizer";
    default:
      return "seed";
  }
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

Status MakeUnchecked(const Layer& layer, const std::vector<Shape>& inputs,
                     std::unique_ptr<Op>* op) {
  const bool merges = layer.kind == Layer::Kind::kAdd ||
                      layer.kind == Layer::Kind::kConcatenate;
  if (merges) return MakeMerge(layer, inputs, op);
  if (layer.kind == Layer::Kind::kCustom) return MakeCustom(layer, inputs, op);
  if (inputs.size() != 1) {
    return InvalidArgument("takes one input, not %d",
                           static_cast<int>(inputs.size()));
  }
  switch (layer.kind) {
    case Layer::Kind::kDense:
      return MakeDense(layer, inputs[0], op);
    case Layer::Kind::kConv2D:
      return MakeConv2D(layer, inputs[0], op);
    case Layer::Kind::kMaxPooling2D:
    case Layer::Kind::kAveragePooling2D:
      return MakePooling2D(layer, inputs[0], op);
    case Layer::Kind::kActivation:
      return MakeActivation(layer, inputs[0], op);
    case Layer::Kind::kDropout:
      return MakeDropout(layer, inputs[0], op);
    default:
      return MakeReshape(layer, inputs[0], op);
  }
}

}  // namespace

Status Op::Make(const Layer& layer, const std::vector<Shape>& inputs,
                std::unique_ptr<Op>* op) {
  const uint32_t foreign = layer.settings & ~Settings(layer.kind);
  if (foreign != 0) {
    return InvalidArgument("%s has no %s", ClassName(layer),
                           SettingName(foreign & (~foreign + 1)));
  }
  RINGLET_RETURN_IF_ERROR(MakeUnchecked(layer, inputs, op));
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
