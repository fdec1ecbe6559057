// Every node is visited once, after its inputs: a graph has many more paths
// than nodes.

#include "torch_images.h"

#include <algorithm>
#include <set>
#include <string>

#include "../../core/layers/layer_table.h"

namespace ringlet {

TorchImages::TorchImages(const Model& model) : model_(model) {
  std::set<std::string> weighted;  // layers
  for (const Variable& variable : model.variables()) {
    weighted.insert(variable.path.substr(0, variable.path.rfind('/')));
  }
  for (int node = 0; node < model.num_nodes(); ++node) {
    TrackNode(node, weighted.count(model.layer(node).name) != 0);
  }
}

void TorchImages::TrackNode(int node, bool weighted) {
  const Layer& layer = model_.layer(node);
  const LayerClass& row = ClassOf(layer);
  const bool joins = row.kind == Layer::Kind::kConcatenate;
  Output output;
  output.is_sequence = row.axes == 1;
  for (const int input : model_.inputs(node)) {
    const Output& before = outputs_[static_cast<size_t>(input)];
    output.is_sequence |= (row.keeps_layout || joins) && before.is_sequence;
    if (!weighted) output.permuted = std::max(output.permuted, before.permuted);
  }
  if (row.kind == Layer::Kind::kPermute) output.permuted = node;
  if (model_.output_shape(node).rank() == 1) {
    const bool flattens =
        row.kind == Layer::Kind::kFlatten || row.kind == Layer::Kind::kReshape;
    if (flattens) TrackFlatten(node, &output);
    if (row.keeps_layout || joins) TrackMerge(node, &output);
  }
  TrackRowOrder(node, &output);
  outputs_.push_back(output);
}

// Activations and normalizations keep the order. A Reshape to images matters if
// a layer of images takes them.
void TorchImages::TrackRowOrder(int node, Output* output) {
  const LayerClass& row = ClassOf(model_.layer(node));
  const Shape& shape = model_.output_shape(node);
  // A Dense has its inputs last in both layouts. A Permute defines the order.
  if (row.kind == Layer::Kind::kPermute) return;
  if (row.kind == Layer::Kind::kDense) {
    if (shape.rank() == 1) output->source_dense = node;
    return;
  }
  for (const int input : model_.inputs(node)) {
    const int dense = outputs_[static_cast<size_t>(input)].source_dense;
    const bool was_row = model_.output_shape(input).rank() == 1;
    const bool becomes_row = shape.rank() == 1 && !was_row;
    // The row is a number for each channel in an Add or Multiply with an image.
    const bool is_broadcast =
        was_row && shape.rank() > 1 && row.kind != Layer::Kind::kReshape;
    if (dense < 0 || becomes_row || is_broadcast) continue;
    if (row.axes > 0) reshaped_.insert(dense);
    const bool has_one_order =
        shape.rank() > 1 &&
        (shape.back() == 1 || shape.elements() == shape.back());
    if (row.axes == 0 && !has_one_order) output->source_dense = dense;
  }
}

Shape TorchImages::Image(int node) const {
  const Shape& shape = model_.output_shape(node);
  if (shape.rank() == 3) return shape;
  const bool is_sequence =
      shape.rank() == 2 && outputs_[static_cast<size_t>(node)].is_sequence;
  return is_sequence ? Shape{1, shape[0], shape[1]} : Shape();
}

void TorchImages::TrackFlatten(int node, Output* output) const {
  const int from = model_.inputs(node)[0];
  const Output& before = outputs_[static_cast<size_t>(from)];
  const Shape image = Image(from);
  if (image.rank() != 3) {
    output->flattened = before.flattened;
    output->ambiguous_node = before.ambiguous_node;
  } else if (image[2] != 1 && image[0] * image[1] != 1) {
    output->flattened = image;
    output->ambiguous_node = before.permuted;
  }
}

// Merges the inputs, which must have the same order. A single element has any
// order.
void TorchImages::TrackMerge(int node, Output* output) const {
  const bool joins = model_.layer(node).kind == Layer::Kind::kConcatenate;
  const int64_t elements = model_.output_shape(node).elements();
  bool first = true;
  for (const int input : model_.inputs(node)) {
    const Output& before = outputs_[static_cast<size_t>(input)];
    const bool any = model_.output_shape(input).elements() == 1;
    if (any && (joins || elements > 1)) continue;
    const bool differs =
        joins ? !(before == Output()) : !first && !(before == *output);
    if (differs) {
      output->ambiguous_node = node;
      return;
    }
    output->flattened = before.flattened;
    output->ambiguous_node = before.ambiguous_node;
    first = false;
  }
}

Status TorchImages::CheckNotReshaped(int node) const {
  if (reshaped_.count(node) == 0) return Status();
  return InvalidArgument(
      "layer '%s': its outputs are reshaped to images, which PyTorch may have "
      "with the channels first; convert these weights to Keras's layout",
      model_.layer(node).name.c_str());
}

Status TorchImages::Flattened(int node, Shape* image) const {
  const Output& output = outputs_[static_cast<size_t>(node)];
  *image = output.flattened;
  if (output.ambiguous_node < 0) return Status();
  const Layer& layer = model_.layer(output.ambiguous_node);
  const char* problem =
      "merges flattened images, which PyTorch orders in another way, with "
      "others; convert these weights to Keras's layout";
  if (layer.kind == Layer::Kind::kPermute) {
    problem =
        "what it permutes is flattened, in an order that PyTorch may not have; "
        "convert these weights to Keras's layout";
  } else if (layer.kind == Layer::Kind::kConcatenate) {
    problem =
        "joins flattened images, which PyTorch orders in another way; "
        "concatenate them before they are flattened";
  }
  return InvalidArgument("layer '%s': %s", layer.name.c_str(), problem);
}

}  // namespace ringlet
