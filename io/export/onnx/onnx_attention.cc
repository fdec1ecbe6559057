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

int OnnxConverter::Scores() {
  const float factor =
      p_->factor * (p_->gamma != nullptr ? floats_[p_->gamma->offset] : 1);
  const int query = Heads(0, {0, 2, 1, 3}), key = Heads(1, {0, 2, 3, 1});
  const int scores = builder_.Node("MatMul", {query, key});
  if (factor == 1) return scores;
  return builder_.Node("Mul", {scores, builder_.Scalar(factor)});
}

// The scores of each query and key: a sum over their numbers, as a product with
// the scale.
int OnnxConverter::AddedScores() {
  const int64_t size = x(0).shape.back();
  const std::vector<float> ones(static_cast<size_t>(size), 1.0f);
  const int scale = p_->gamma != nullptr
                        ? Weight(p_->gamma, {size, 1})
                        : graph_->AddFloats(p_->layer->name + "/ones",
                                            {size, 1}, ones.data(), size);
  const int query = builder_.Node("Unsqueeze", {Heads(0, {0, 2, 1, 3}),
                                                builder_.Ints("/keys", {3})}),
            key = builder_.Node("Unsqueeze", {Heads(1, {0, 2, 1, 3}),
                                              builder_.Ints("/rows", {2})});
  const int tanh = builder_.Node("Tanh", {builder_.Node("Add", {query, key})});
  return builder_.Node("Squeeze", {builder_.Node("MatMul", {tanh, scale}),
                                   builder_.Ints("/sum", {4})});
}

OnnxValue OnnxConverter::Attend() {
  int scores =
      p_->kind == Primitive::Kind::kAddAttend ? AddedScores() : Scores();
  const int value = Heads(2, {0, 2, 1, 3});
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
