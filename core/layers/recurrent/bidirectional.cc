#include "bidirectional.h"

#include <utility>

#include "../../base/text.h"
#include "../layer_table.h"

namespace ringlet {
namespace {

// Returns "forward_lstm" for "lstm", "forward_lstm" and an LSTM without a name.
std::string NameOf(const Layer& layer, const std::string& prefix) {
  return prefix + WithoutPrefix(layer.name.empty() ? SnakeCase(ClassName(layer))
                                                   : layer.name,
                                prefix);
}

Layer MergeOf(MergeMode mode) {
  switch (mode) {
    case kMergeConcat:
      return Concatenate();
    case kMergeSum:
      return Add();
    case kMergeMul:
      return Multiply();
    case kMergeAve:
      return Average();
  }
  return Concatenate();
}

Status CheckBoth(const Layer& layer) {
  if (layer.layer == nullptr || layer.backward_layer == nullptr) {
    return InvalidArgument("a Bidirectional needs a layer");
  }
  if (layer.settings != 0) {
    return InvalidArgument(
        "a Bidirectional has no settings except Name and Trainable; its layer "
        "has them");
  }
  for (const Layer* inner : {layer.layer.get(), layer.backward_layer.get()}) {
    if (IsRecurrent(inner->kind)) continue;
    return InvalidArgument(
        "a Bidirectional takes a SimpleRNN, LSTM or GRU, not %s",
        WithArticle(ClassName(*inner)).c_str());
  }
  if (layer.layer->go_backwards || !layer.backward_layer->go_backwards) {
    return InvalidArgument(
        "go_backwards must be false in the forward layer, and true in the "
        "backward layer");
  }
  if (layer.layer->return_state || layer.backward_layer->return_state) {
    return InvalidArgument(
        "return_state must be false in the layers of a Bidirectional");
  }
  if (layer.layer->return_sequences == layer.backward_layer->return_sequences) {
    return Status();
  }
  return InvalidArgument(
      "both or none of the layers must have return_sequences");
}

}  // namespace

Status ExpandBidirectional(const Shape& input, Layer* layer) {
  RINGLET_RETURN_IF_ERROR(CheckBoth(*layer));
  NestedModel model;
  model.class_name = kBidirectional;
  model.layers.resize(4);
  model.layers[0] = Input(input).Name("input");
  Layer& forward = model.layers[BidirectionalParts::kForward];
  forward = *layer->layer;
  forward.name = NameOf(forward, "forward_");
  Layer& backward = model.layers[BidirectionalParts::kBackward];
  backward = *layer->backward_layer;
  backward.name = NameOf(backward, "backward_");
  backward.keeps_order = true;
  model.layers[3] = MergeOf(layer->merge_mode).Name("merge");
  model.calls = {{0, {}, input}, {1, {0}, {}}, {2, {0}, {}}, {3, {1, 2}, {}}};
  model.outputs = {3};
  model.num_nodes = 3;
  layer->kind = Layer::Kind::kModel;
  layer->model = std::make_shared<NestedModel>(std::move(model));
  layer->layer = layer->backward_layer = nullptr;
  return Status();
}

}  // namespace ringlet
