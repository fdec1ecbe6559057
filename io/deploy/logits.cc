#include "logits.h"

#include <algorithm>

namespace ringlet {

bool GivesItsInput(const Layer& layer) {
  using Kind = Layer::Kind;
  switch (layer.kind) {
    case Kind::kActivation:
      return layer.activation == kLinear;
    case Kind::kReshape:
    case Kind::kFlatten:
    case Kind::kDropout:
    case Kind::kSpatialDropout1D:
    case Kind::kSpatialDropout2D:
    case Kind::kGaussianNoise:
    case Kind::kGaussianDropout:
    case Kind::kAlphaDropout:
      return true;
    default:
      return false;
  }
}

Status CheckLogits(const Model& model, int node) {
  int root = node;
  while (GivesItsInput(model.layer(root))) root = model.inputs(root)[0];
  const Layer& layer = model.layer(root);
  const Activation last = layer.activation;
  if (layer.kind == Layer::Kind::kSoftmax) {
    return InvalidArgument(
        "a softmax is to follow logits, but layer '%s' is one; leave --softmax "
        "out",
        layer.name.c_str());
  }
  if (last == kSoftmax || last == kLogSoftmax || last == kSigmoid) {
    return InvalidArgument(
        "a softmax is to follow logits, but layer '%s' has the activation "
        "'%s'; leave --softmax out",
        layer.name.c_str(), ActivationName(last));
  }
  if (model.output_shape(node).back() >= 2) return Status();
  return InvalidArgument(
      "a softmax is to follow logits, but layer '%s' gives one number; leave "
      "--softmax out",
      layer.name.c_str());
}

int FirstSoftmaxAxis(const Layer& layer, int rank) {
  int first = rank;
  for (const int64_t axis : layer.axes) {
    const auto at = static_cast<int>(axis < 0 ? axis + rank : axis - 1);
    first = std::min(first, at);
  }
  return first;
}

Status CheckHasWeights(const Model& model, const std::string& path) {
  RINGLET_RETURN_IF_ERROR(model.status().Annotate("%s", path.c_str()));
  if (model.compiled()) return Status();
  return InvalidArgument(
      "%s: model '%s' has no weights yet: call Compile first", path.c_str(),
      model.name().c_str());
}

}  // namespace ringlet
