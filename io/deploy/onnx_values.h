// OnnxValues: outputs of Keras layers as tensors of ONNX, in either order of
// axes.
//
// Internal to io/deploy. Keras has (batch, height, width, channels); ONNX's
// convolutions and pools take (batch, channels, height, width). A value is made
// in one order and turned where a layer asks for the other, once; layers to
// which the order is all the same take the one that is there. So a chain of
// convolutions has one Transpose at each end. What Flatten makes of channels
// first stays so, too, and a Dense behind it has the rows of its kernel turned.

#ifndef RINGLET_IO_DEPLOY_ONNX_VALUES_H_
#define RINGLET_IO_DEPLOY_ONNX_VALUES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../../core/layers/layers.h"
#include "onnx_graph.h"

namespace ringlet {

enum class AxisOrder : uint8_t { kChannelsLast, kChannelsFirst };

struct OnnxValue {
  Shape shape;  // Keras's, without the batch
  // Of one that was flattened from channels first: how many; else 0.
  int64_t flattened = 0;
  int last = -1, first = -1;  // tensors, -1 where it is not in this order

  int& tensor(AxisOrder order) {
    return order == AxisOrder::kChannelsFirst ? first : last;
  }
  // The one that is there; channels first, where both are.
  AxisOrder order() const {
    return first >= 0 ? AxisOrder::kChannelsFirst : AxisOrder::kChannelsLast;
  }
};

// What layers are made of: nodes over values, and constants.
class OnnxValues {
 public:
  explicit OnnxValues(OnnxGraph* graph) : graph_(graph) {}

  // What names of nodes begin with.
  void set_layer(const std::string& layer) { layer_ = layer; }

  int Node(const char* op, std::initializer_list<int> inputs,
           OnnxAttributes attributes = {}) {
    return graph_->AddNode(op, inputs.begin(), inputs.size(), attributes,
                           layer_);
  }
  int Scalar(float value);
  int Ints(const char* what, const OnnxInts& values) {
    return graph_->AddInts(layer_ + what, values);
  }
  // One number for all channels of `like`, or one for each, so that they meet
  // those of its tensor of this order.
  int OfChannels(const std::vector<float>& values, const OnnxValue& like,
                 AxisOrder order);
  // The axis of the channels.
  static int64_t ChannelAxis(AxisOrder order) {
    return order == AxisOrder::kChannelsFirst ? 1 : -1;
  }

  // The tensor of this order, made where it is not there. One of less than two
  // dimensions has no other order, unless it was flattened so.
  int Get(OnnxValue* value, AxisOrder order);
  int Last(OnnxValue* value) { return Get(value, AxisOrder::kChannelsLast); }
  int First(OnnxValue* value) { return Get(value, AxisOrder::kChannelsFirst); }

  // `tensor` in the place of the value's, of the same shape.
  static OnnxValue Like(const OnnxValue& value, AxisOrder order, int tensor);
  // One of this shape.
  static OnnxValue Of(const Shape& shape, AxisOrder order, int tensor);
  OnnxValue Reshaped(OnnxValue* value, const Shape& shape);
  OnnxValue Flattened(OnnxValue* value);
  OnnxValue Activated(OnnxValue value, Activation activation);

 private:
  int Reshape(int tensor, const OnnxInts& dims);

  OnnxGraph* const graph_;
  std::string layer_;
  std::vector<std::pair<float, int>> scalars_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_DEPLOY_ONNX_VALUES_H_
