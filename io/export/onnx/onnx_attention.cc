// Attention as products and a Softmax of (heads, steps, numbers).

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "onnx_converter.h"

namespace ringlet {

// Returns an input as (batch, heads, steps, numbers), in the order `turn` of
// these. The input has (steps, heads, numbers).
int OnnxConverter::Heads(size_t input, const OnnxInts& turn) {
  const Shape& shape = x(input).shape;
  const OnnxValue heads =
      builder_.Reshaped(&x(input), {shape[0], p_->heads, shape[1] / p_->heads});
  return builder_.Node("Transpose", {heads.last}, {{"perm", turn}});
}

// The scores, and `none` for each value after the query. The file has the
// places of queries and values, and not a matrix of both.
int OnnxConverter::AddCausalMask(int scores, float none) {
  const int64_t queries = x(0).shape[0], values = x(1).shape[0];
  std::vector<float> places(static_cast<size_t>(std::max(queries, values)));
  std::iota(places.begin(), places.end(), 0.0f);
  const std::string& name = p_->layer->name;
  const int query_places = graph_->AddFloats(name + "/queries", {queries, 1},
                                             places.data(), queries),
            value_places = graph_->AddFloats(name + "/values", {values},
                                             places.data(), values);
  const int is_later = builder_.Node("Less", {query_places, value_places});
  return builder_.Node("Where", {is_later, builder_.Scalar(none), scores});
}

OnnxValue OnnxConverter::Attend() {
  const float factor =
      p_->factor * (p_->gamma != nullptr ? floats_[p_->gamma->offset] : 1);
  const int query = Heads(0, {0, 2, 1, 3}), key = Heads(1, {0, 2, 3, 1}),
            value = Heads(2, {0, 2, 1, 3});
  int scores = builder_.Node("MatMul", {query, key});
  if (factor != 1) {
    scores = builder_.Node("Mul", {scores, builder_.Scalar(factor)});
  }
  // As in Keras, a query that sees no value weighs all alike.
  const float none =
      p_->masked ? -1e9f : -std::numeric_limits<float>::infinity();
  if (p_->causal) scores = AddCausalMask(scores, none);
  if (p_->masked) {
    const int axis = builder_.Ints("/heads", {1}),
              mask = builder_.Node("Unsqueeze", {builder_.Last(&x(3)), axis}),
              hidden = builder_.Node("Less", {mask, builder_.Scalar(0.5f)});
    scores = builder_.Node("Where", {hidden, builder_.Scalar(none), scores});
  }
  const int weights = builder_.Node("Softmax", {scores}, {{"axis", -1}});
  const int context =
      builder_.Node("Transpose", {builder_.Node("MatMul", {weights, value})},
                    {{"perm", OnnxInts{0, 2, 1, 3}}});
  OnnxValue y = OnnxBuilder::MakeValue(
      {p_->output[0], p_->heads, p_->output[1] / p_->heads},
      AxisOrder::kChannelsLast, context);
  return builder_.Reshaped(&y, p_->output);
}

OnnxValue OnnxConverter::Positions() {
  const Shape& shape = x().shape;
  const int64_t steps = shape[shape.rank() - 2], width = shape.back();
  const int rows = Weight(p_->kernel, {steps, width});
  const int sizes = builder_.Node("Shape", {builder_.Last(&x())});
  return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsLast,
                                builder_.Node("Expand", {rows, sizes}));
}

}  // namespace ringlet
