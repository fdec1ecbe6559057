#include "bidirectional.h"

#include <utility>

#include "../../base/text.h"
#include "../layer_table.h"

namespace ringlet {
namespace {

// Returns "forward_lstm" for "lstm", "forward_lstm" and an LSTM without a name.
std::string DirectionName(const Layer& layer, const std::string& prefix) {
  return prefix + WithoutPrefix(layer.name.empty() ? SnakeCase(ClassName(layer))
                                                   : layer.name,
                                prefix);
}

Layer MergeOf(MergeMode mode) {
  switch (mode) {
    case kMergeConcat:
    case kMergeNone:
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
  if (layer.settings.any()) {
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
  if (layer.layer->return_sequences != layer.backward_layer->return_sequences ||
      layer.layer->return_state != layer.backward_layer->return_state) {
    return InvalidArgument(
        "both or none of the layers must have return_sequences, and both or "
        "none return_state");
  }
  return Status();
}

}  // namespace

Status ExpandBidirectional(const std::vector<Shape>& inputs, Layer* layer) {
  RINGLET_RETURN_IF_ERROR(CheckBoth(*layer));
  if (inputs.size() % 2 == 0) {
    return InvalidArgument(
        "a Bidirectional takes an input and, if any, as many initial states "
        "for its layer as for its backward layer");
  }
  NestedModel model;
  model.class_name = kBidirectional;
  // Adds a layer and its call.
  const auto add = [&](const Layer& each, const std::vector<int>& taken,
                       const Shape& output) {
    const auto call = static_cast<int>(model.layers.size());
    model.calls.push_back({call, taken, output});
    model.layers.push_back(each);
    return call;
  };
  for (const Shape& input : inputs) {
    const std::string suffix =
        model.layers.empty() ? "" : "_" + std::to_string(model.layers.size());
    add(Input(input).Name("input" + suffix), {}, input);
  }
  const auto count = static_cast<int>(inputs.size());
  std::vector<int> of_forward = {0}, of_backward = {0};
  for (int i = 1; i < count; ++i) {
    (i <= count / 2 ? of_forward : of_backward).push_back(i);
  }
  Layer forward = *layer->layer, backward = *layer->backward_layer;
  forward.name = DirectionName(forward, "forward_");
  backward.name = DirectionName(backward, "backward_");
  backward.keeps_order = true;
  std::vector<int> outputs = {add(forward, of_forward, {}),
                              add(backward, of_backward, {})};
  if (forward.return_state) {
    size_t i = 0;
    for (const Layer* each : {&forward, &backward}) {
      Layer output =
          RecurrentOutput(0).Name(each->name + "_output").DType(layer->dtype);
      output.layer = std::make_shared<Layer>(*each);
      outputs[i] = add(output, {outputs[i]}, {});
      ++i;
    }
  }
  model.outputs = {
      add(MergeOf(layer->merge_mode).Name("merge").DType(layer->dtype), outputs,
          {})};
  model.num_inputs = count;
  model.num_nodes = NodesOfBidirectional(*layer);
  layer->kind = Layer::Kind::kModel;
  layer->model = std::make_shared<NestedModel>(std::move(model));
  layer->layer = layer->backward_layer = nullptr;
  return Status();
}

}  // namespace ringlet
