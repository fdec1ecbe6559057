// OnnxBuilder: makes ONNX nodes, and values of them in either order of axes.
//
// Keras has (batch, height, width, channels); ONNX's convolutions and pools
// have (batch, channels, height, width). A value is made in one order, and
// transposed once if a layer needs the other order. Layers that work in any
// order use the existing value. So a chain of convolutions has one Transpose at
// each end. A Flatten of channels first keeps that order, and the kernel of the
// Dense after it is reordered.

#ifndef RINGLET_IO_EXPORT_ONNX_ONNX_BUILDER_H_
#define RINGLET_IO_EXPORT_ONNX_ONNX_BUILDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "onnx_graph.h"
#include "ringlet/layers.h"

namespace ringlet {

enum class AxisOrder : uint8_t { kChannelsLast, kChannelsFirst };

struct OnnxValue {
  Shape shape;  // the shape in Keras, without the batch
  // The number of channels, if the value was flattened with its channels first.
  // Otherwise 0.
  int64_t flattened = 0;
  int last = -1, first = -1;  // tensors; -1 for a missing order

  int& tensor(AxisOrder order) {
    return order == AxisOrder::kChannelsFirst ? first : last;
  }
  // The existing order; channels first if both exist.
  AxisOrder order() const {
    return first >= 0 ? AxisOrder::kChannelsFirst : AxisOrder::kChannelsLast;
  }
};

// Makes nodes over values, and constants.
class OnnxBuilder {
 public:
  explicit OnnxBuilder(OnnxGraph* graph) : graph_(graph) {}

  // Sets the prefix of nodes' names.
  void set_layer(const std::string& layer) { layer_ = layer; }

  int Node(const char* op, std::initializer_list<int> inputs,
           OnnxAttributes attributes = {}) {
    return graph_->AddNode(op, inputs.begin(), inputs.size(), attributes,
                           layer_);
  }
  int Scalar(float value);
  int Ints(const char* name, const OnnxInts& values) {
    return graph_->AddInts(layer_ + name, values);
  }
  // One number for all channels of `like`, or one for each, in a shape that
  // broadcasts to its tensor of this order.
  int ChannelConstant(const std::vector<float>& values, const OnnxValue& like,
                      AxisOrder order);
  // The axis of the channels.
  static int64_t ChannelAxis(AxisOrder order) {
    return order == AxisOrder::kChannelsFirst ? 1 : -1;
  }

  // Returns the tensor in this order, and adds a node that makes it if it is
  // missing. A value with fewer than two dimensions has only one order, unless
  // it was flattened from the other order.
  int Get(OnnxValue* value, AxisOrder order);
  int Last(OnnxValue* value) { return Get(value, AxisOrder::kChannelsLast); }
  int First(OnnxValue* value) { return Get(value, AxisOrder::kChannelsFirst); }

  // A value with the shape of `value` and this tensor.
  static OnnxValue Like(const OnnxValue& value, AxisOrder order, int tensor);
  // A value with this shape and tensor.
  static OnnxValue MakeValue(const Shape& shape, AxisOrder order, int tensor);
  // `batch` is the batch's number in ONNX: 0 keeps it, -1 follows from the
  // rest.
  int Reshape(int tensor, const OnnxInts& dims, int64_t batch = 0);
  OnnxValue Reshaped(OnnxValue* value, const Shape& shape, int64_t batch = 0);
  OnnxValue Flattened(OnnxValue* value);
  OnnxValue Activated(OnnxValue value, Activation activation);

 private:
  OnnxGraph* const graph_;
  std::string layer_;
  std::vector<std::pair<float, int>> scalars_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_ONNX_ONNX_BUILDER_H_
