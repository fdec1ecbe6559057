#include "onnx_builder.h"

#include "../../../core/base/check.h"
#include "../../../core/base/float16.h"

namespace ringlet {
namespace {

// Returns the permutation from one order of `rank` axes after the batch to the
// other.
OnnxInts Turn(int rank, AxisOrder to) {
  OnnxInts axes = {0};
  if (to == AxisOrder::kChannelsFirst) axes.Add(rank);
  for (int i = 1; i < rank; ++i) {
    axes.Add(to == AxisOrder::kChannelsFirst ? i : i + 1);
  }
  if (to == AxisOrder::kChannelsLast) axes.Add(1);
  return axes;
}

// Activations that are one operator.
constexpr struct {
  Activation activation;
  const char* op;
} kOperators[] = {
    {kRelu, "Relu"},         {kSigmoid, "Sigmoid"},   {kTanh, "Tanh"},
    {kElu, "Elu"},           {kSelu, "Selu"},         {kExponential, "Exp"},
    {kSoftsign, "Softsign"}, {kSoftplus, "Softplus"},
};

}  // namespace

int OnnxBuilder::Scalar(float value) {
  for (const auto& [number, tensor] : scalars_) {
    if (BitsOfFloat(number) == BitsOfFloat(value)) return tensor;
  }
  const int tensor = graph_->AddFloats("number", {}, &value, 1);
  scalars_.emplace_back(value, tensor);
  return tensor;
}

int OnnxBuilder::ChannelConstant(const std::vector<float>& values,
                                 const OnnxValue& like, AxisOrder order) {
  if (values.size() == 1) return Scalar(values[0]);
  const auto count = static_cast<int64_t>(values.size());
  OnnxInts dims = {count};
  for (int i = 1; order == AxisOrder::kChannelsFirst && i < like.shape.rank();
       ++i)
    dims.Add(1);
  return graph_->AddFloats(layer_ + "/channels", dims, values.data(), count);
}

int OnnxBuilder::Reshape(int tensor, const OnnxInts& dims, int64_t batch) {
  OnnxInts all = {batch};
  for (const int64_t dim : dims) all.Add(dim);
  return Node("Reshape", {tensor, Ints("/shape", all)});
}

int OnnxBuilder::Get(OnnxValue* value, AxisOrder order) {
  const int rank = value->shape.rank();
  if (rank < 2 && value->flattened == 0) return value->last;
  int& tensor = value->tensor(order);
  if (tensor >= 0) return tensor;
  if (rank >= 2) {
    const int other = value->tensor(order == AxisOrder::kChannelsFirst
                                        ? AxisOrder::kChannelsLast
                                        : AxisOrder::kChannelsFirst);
    return tensor = Node("Transpose", {other}, {{"perm", Turn(rank, order)}});
  }
  const int64_t channels = value->flattened, all = value->shape[0];
  const int image = Reshape(value->first, {channels, all / channels});
  const int transposed =
      Node("Transpose", {image}, {{"perm", Turn(2, AxisOrder::kChannelsLast)}});
  return tensor = Reshape(transposed, {all});
}

OnnxValue OnnxBuilder::MakeValue(const Shape& shape, AxisOrder order,
                                 int tensor) {
  OnnxValue value;
  value.shape = shape;
  value.tensor(order) = tensor;
  return value;
}

OnnxValue OnnxBuilder::Like(const OnnxValue& value, AxisOrder order,
                            int tensor) {
  OnnxValue like = MakeValue(value.shape, order, tensor);
  like.flattened = value.flattened;
  return like;
}

OnnxValue OnnxBuilder::Reshaped(OnnxValue* value, const Shape& shape,
                                int64_t batch) {
  OnnxInts dims;
  for (int i = 0; i < shape.rank(); ++i) dims.Add(shape[i]);
  return MakeValue(shape, AxisOrder::kChannelsLast,
                   Reshape(Last(value), dims, batch));
}

OnnxValue OnnxBuilder::Flattened(OnnxValue* value) {
  const Shape& x = value->shape;
  if (x.rank() == 1) return *value;
  const AxisOrder order = value->order();
  OnnxValue flat =
      MakeValue({x.elements()}, order,
                Node("Flatten", {value->tensor(order)}, {{"axis", 1}}));
  if (order == AxisOrder::kChannelsFirst) flat.flattened = x.back();
  return flat;
}

OnnxValue OnnxBuilder::Activated(OnnxValue value, Activation activation) {
  if (activation == kLinear) return value;
  const bool over_row = activation == kSoftmax || activation == kLogSoftmax;
  const AxisOrder order = over_row && value.flattened > 0
                              ? AxisOrder::kChannelsLast
                              : value.order();
  const int x = Get(&value, order);
  const auto hard_sigmoid = [&] {
    return Node("HardSigmoid", {x}, {{"alpha", 1.0f / 6}, {"beta", 0.5f}});
  };
  int y = -1;
  for (const auto& row : kOperators) {
    if (row.activation == activation) y = Node(row.op, {x});
  }
  if (over_row) {
    y = Node(activation == kSoftmax ? "Softmax" : "LogSoftmax", {x},
             {{"axis", ChannelAxis(order)}});
  } else if (activation == kRelu6) {
    y = Node("Clip", {x, Scalar(0), Scalar(6)});
  } else if (activation == kLeakyRelu) {
    y = Node("LeakyRelu", {x}, {{"alpha", 0.2f}});
  } else if (activation == kHardSigmoid) {
    y = hard_sigmoid();
  } else if (activation == kHardSigmoidKeras2) {
    y = Node("HardSigmoid", {x}, {{"alpha", 0.2f}, {"beta", 0.5f}});
  } else if (activation == kGelu) {
    const int erf = Node("Erf", {Node("Mul", {x, Scalar(0.70710678f)})});
    const int half = Node("Mul", {x, Scalar(0.5f)});
    y = Node("Mul", {half, Node("Add", {erf, Scalar(1)})});
  } else if (activation == kSilu) {
    y = Node("Mul", {x, Node("Sigmoid", {x})});
  } else if (activation == kHardSilu) {
    y = Node("Mul", {x, hard_sigmoid()});
  } else if (activation == kMish) {
    y = Node("Mul", {x, Node("Tanh", {Node("Softplus", {x})})});
  }
  RINGLET_CHECK(y >= 0);  // every activation has an operator
  return Like(value, order, y);
}

}  // namespace ringlet
