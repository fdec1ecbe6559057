// The order of sums is fixed by the loops over pairs and blocks of queries,
// and each thread has scratch of its own. Forward and Backward draw the same
// dropout, by the number of the weight in the step. In Backward, `scores` has
// first the dropped weights, then their gradient, and the products follow this
// order.

#include "attend.h"

#include <algorithm>

#include "../../compute/row_loops.h"
#include "../../compute/sums.h"
#include "../layer_loops.h"
#include "../layer_table.h"

namespace ringlet {
namespace {

void MultiplyBy(float factor, int64_t n, float* values) {
  if (factor == 1) return;
  for (int64_t i = 0; i < n; ++i) values[i] *= factor;
}

// row = tanh(query + key)
void SumTanh(const float* query, const float* key, int64_t n, float* row) {
  for (int64_t k = 0; k < n; ++k) row[k] = query[k] + key[k];
  BiasActivation(kTanh, nullptr, 1, n, row);
}

// Returns the sum of the products, added in their order.
double SumOfProducts(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

}  // namespace

Attend::Attend(const Layer& layer, const Sizes& sizes, size_t inputs)
    : sizes_(sizes),
      causal_(layer.use_causal_mask),
      masked_(layer.masked_inputs != 0),
      additive_(layer.kind == Layer::Kind::kAdditiveAttention),
      dropout_(layer.dropout) {
  auto next = static_cast<int>(inputs);
  for (int i = 0; i < 3; ++i) {
    if ((layer.masked_inputs >> i & 1) != 0) masks_[i] = next++;
  }
}

int64_t Attend::multiply_adds() const {
  return sizes_.values * sizes_.queries * sizes_.heads *
         (sizes_.key_dim + sizes_.value_dim);
}

int64_t Attend::forward_floats() const {
  const int64_t draws = dropout_ > 0 ? RoundUpToFour(sizes_.values) : 0;
  return std::min(kQueries, sizes_.queries) * sizes_.values + draws +
         RowFloats();
}

int64_t Attend::backward_floats() const {
  return forward_floats() + std::min(kQueries, sizes_.queries) * sizes_.values;
}

template <typename Body>
void Attend::ForEachBlock(int64_t pair, const Body& body) const {
  for (int64_t at = 0; at < sizes_.queries; at += kQueries) {
    const int64_t queries = std::min(kQueries, sizes_.queries - at);
    const bool sees_all = !causal_ || masked_;
    body(Block{
        pair, at, queries,
        sees_all ? sizes_.values : std::min(sizes_.values, at + queries)});
  }
}

template <typename T>
MatrixView<T> Attend::HeadRows(T* span, int64_t pair, int64_t steps,
                               int64_t size) const {
  const int64_t row = sizes_.heads * size, example = pair / sizes_.heads,
                head = pair % sizes_.heads;
  return {span + example * steps * row + head * size, steps, size, row, 1};
}

int64_t Attend::ValuesSeen(const Block& block, int64_t query) const {
  return causal_ ? std::min(block.values, block.begin + query + 1)
                 : block.values;
}

void Attend::Hide(const OpCall& call, const Block& block, int64_t query,
                  float* scores) const {
  const int64_t example = block.pair / sizes_.heads,
                seen = ValuesSeen(block, query);
  const float *const of_query = MaskOf(call, 0),
                     *const of_value = MaskOf(call, 1),
                     *const of_key = MaskOf(call, 2);
  const bool counts =
      of_query == nullptr ||
      of_query[example * sizes_.queries + block.begin + query] != 0;
  bool sees_any = false;
  for (int64_t v = 0; v < block.values; ++v) {
    const int64_t at = example * sizes_.values + v;
    const bool sees = counts && v < seen &&
                      (of_value == nullptr || of_value[at] != 0) &&
                      (of_key == nullptr || of_key[at] != 0);
    sees_any |= sees;
    if (!sees) scores[v] = -1e9f;
  }
  if (!sees_any) std::fill_n(scores, block.values, 0.0f);
}

void Attend::AddScores(const Block& block, const float* scale,
                       ConstMatrix query, ConstMatrix key, float* row,
                       float* scores) const {
  const int64_t size = sizes_.key_dim;
  for (int64_t i = 0; i < block.queries; ++i) {
    const float* const q = query.data + (block.begin + i) * query.row_stride;
    for (int64_t v = 0; v < block.values; ++v) {
      SumTanh(q, key.data + v * key.row_stride, size, row);
      *scores++ = static_cast<float>(LaneSum<float>(size, [=](int64_t k) {
        return scale == nullptr ? row[k] : scale[k] * row[k];
      }));
    }
  }
}

void Attend::AddedGradient(const Block& block, const float* scale,
                           ConstMatrix query, ConstMatrix key,
                           const float* d_scores, Matrix d_query, Matrix d_key,
                           float* d_scale, float* row) const {
  const int64_t size = sizes_.key_dim;
  for (int64_t i = 0; i < block.queries; ++i) {
    const int64_t at = block.begin + i;
    const float* const q = query.data + at * query.row_stride;
    float* const dq = d_query.data + at * d_query.row_stride;
    if (d_query.data != nullptr) std::fill_n(dq, size, 0.0f);
    for (int64_t v = 0; v < block.values; ++v) {
      const float d = *d_scores++;
      SumTanh(q, key.data + v * key.row_stride, size, row);
      if (d_scale != nullptr) {
        for (int64_t k = 0; k < size; ++k) d_scale[k] += d * row[k];
      }
      for (int64_t k = 0; k < size; ++k) {
        const float by = scale == nullptr ? d : d * scale[k];
        row[k] = by * (1 - row[k] * row[k]);
      }
      if (d_query.data != nullptr) AddTo(row, size, dq);
      if (d_key.data == nullptr) continue;
      AddTo(row, size, d_key.data + v * d_key.row_stride);
    }
  }
}

void Attend::ComputeWeights(const OpCall& call, const Block& block,
                            const float* scale, ConstMatrix query,
                            ConstMatrix key, float* row, float* weights) const {
  const int64_t rows = block.queries, n = block.values;
  if (additive_) {
    AddScores(block, scale, query, key, row, weights);
  } else {
    // W(Q,V) = Q(Q,K) * K(V,K)^T
    Gemm(query.Rows(block.begin, block.begin + rows),
         key.Rows(0, n).Transposed(), /*add=*/false,
         RowMajor(weights, rows, n));
    MultiplyBy(*scale, rows * n, weights);
  }
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t seen = masked_ ? n : ValuesSeen(block, i);
    if (masked_) Hide(call, block, i, weights + i * n);
    BiasActivation(kSoftmax, nullptr, 1, seen, weights + i * n);
    std::fill(weights + i * n + seen, weights + (i + 1) * n, 0.0f);
  }
}

void Attend::Drop(const OpCall& call, const Block& block, float* draws,
                  float* weights) const {
  if (dropout_ == 0 || !call.training) return;
  const int64_t row = RoundUpToFour(sizes_.values);
  const float times = 1 / (1 - dropout_);
  for (int64_t i = 0; i < block.queries; ++i, weights += block.values) {
    const int64_t query = block.pair * sizes_.queries + block.begin + i;
    BestRowLoops().uniform(call.seed, call.counter,
                           static_cast<uint64_t>(query * row),
                           RoundUpToFour(block.values), draws);
    for (int64_t j = 0; j < block.values; ++j) {
      weights[j] = draws[j] >= dropout_ ? weights[j] * times : 0;
    }
  }
}

void Attend::ScoreGradient(const OpCall& call, const Block& block,
                           const float* weights, float* d) const {
  const int64_t n = block.values;
  for (int64_t i = 0; i < block.queries; ++i, weights += n, d += n) {
    const int64_t seen = masked_ ? n : ValuesSeen(block, i);
    if (masked_) Hide(call, block, i, d);
    ActivationGradient(kSoftmax, weights, 1, seen, d);
    std::fill(d + seen, d + n, 0.0f);
  }
}

void Attend::Forward(const OpCall& call, const float* scale,
                     const AttendSpans<const float>& x, float* context,
                     float* scratch) const {
  ForEachIndex(call, call.batch * sizes_.heads, [&](int64_t pair, int t) {
    float* const weights = scratch + t * forward_floats();
    float* const draws =
        weights + std::min(kQueries, sizes_.queries) * sizes_.values;
    float* const row = scratch + (t + 1) * forward_floats() - RowFloats();
    const ConstMatrix query = QueryRows(x.query, pair, sizes_.key_dim),
                      key = ValueRows(x.key, pair, sizes_.key_dim),
                      value = ValueRows(x.value, pair, sizes_.value_dim);
    const Matrix to = QueryRows(context, pair, sizes_.value_dim);
    ForEachBlock(pair, [&](const Block& block) {
      const int64_t rows = block.queries, n = block.values;
      ComputeWeights(call, block, scale, query, key, row, weights);
      Drop(call, block, draws, weights);
      // C(Q,D) = W(Q,V) * V(V,D)
      Gemm(RowMajor(static_cast<const float*>(weights), rows, n),
           value.Rows(0, n), /*add=*/false,
           to.Rows(block.begin, block.begin + rows));
    });
  });
}

void Attend::Backward(const OpCall& call, const float* scale,
                      const AttendSpans<const float>& x, const float* d_context,
                      const AttendSpans<float>& d, float* d_scales,
                      float* scratch) const {
  const int64_t floats = std::min(kQueries, sizes_.queries) * sizes_.values;
  const auto clear = [&](float* span, int64_t pair, int64_t size) {
    if (span == nullptr) return;
    const Matrix head = ValueRows(span, pair, size);
    for (int64_t i = 0; i < head.rows; ++i) {
      std::fill_n(head.data + i * head.row_stride, size, 0.0f);
    }
  };
  ForEachIndex(call, call.batch * sizes_.heads, [&](int64_t pair, int t) {
    float* const weights = scratch + t * backward_floats();
    float *const scores = weights + floats, *const draws = scores + floats;
    float* const row = scratch + (t + 1) * backward_floats() - RowFloats();
    const ConstMatrix query = QueryRows(x.query, pair, sizes_.key_dim),
                      key = ValueRows(x.key, pair, sizes_.key_dim),
                      value = ValueRows(x.value, pair, sizes_.value_dim),
                      dc = QueryRows(d_context, pair, sizes_.value_dim);
    clear(d.key, pair, sizes_.key_dim);
    clear(d.value, pair, sizes_.value_dim);
    double d_scale = 0;
    float* const d_factors = additive_ && d_scales != nullptr
                                 ? d_scales + pair * sizes_.key_dim
                                 : nullptr;
    if (d_factors != nullptr) std::fill_n(d_factors, sizes_.key_dim, 0.0f);
    ForEachBlock(pair, [&](const Block& block) {
      const int64_t begin = block.begin, end = begin + block.queries,
                    n = block.values, all = block.queries * n;
      const ConstMatrix block_scores =
          RowMajor(static_cast<const float*>(scores), block.queries, n);
      ComputeWeights(call, block, scale, query, key, row, weights);
      if (d.value != nullptr) {
        std::copy_n(weights, all, scores);
        Drop(call, block, draws, scores);
        // dV(V,D) += W(Q,V)^T * dC(Q,D)
        Gemm(block_scores.Transposed(), dc.Rows(begin, end), /*add=*/true,
             ValueRows(d.value, pair, sizes_.value_dim).Rows(0, n));
      }
      // dW(Q,V) = dC(Q,D) * V(V,D)^T
      Gemm(dc.Rows(begin, end), value.Rows(0, n).Transposed(), /*add=*/false,
           RowMajor(scores, block.queries, n));
      Drop(call, block, draws, scores);
      ScoreGradient(call, block, weights, scores);
      if (additive_) {
        const Matrix none = {};
        AddedGradient(
            block, scale, query, key, scores,
            d.query == nullptr ? none
                               : QueryRows(d.query, pair, sizes_.key_dim),
            d.key == nullptr ? none : ValueRows(d.key, pair, sizes_.key_dim),
            d_factors, row);
        return;
      }
      if (d_scales != nullptr) {
        Gemm(query.Rows(begin, end), key.Rows(0, n).Transposed(),
             /*add=*/false, RowMajor(weights, block.queries, n));
        d_scale += SumOfProducts(scores, weights, all);
      }
      MultiplyBy(*scale, all, scores);
      if (d.query != nullptr) {
        // dQ(Q,K) = dS(Q,V) * K(V,K)
        Gemm(block_scores, key.Rows(0, n), /*add=*/false,
             QueryRows(d.query, pair, sizes_.key_dim).Rows(begin, end));
      }
      if (d.key == nullptr) return;
      // dK(V,K) += dS(Q,V)^T * Q(Q,K)
      Gemm(block_scores.Transposed(), query.Rows(begin, end), /*add=*/true,
           ValueRows(d.key, pair, sizes_.key_dim).Rows(0, n));
    });
    if (d_scales == nullptr || additive_) return;
    d_scales[pair] = static_cast<float>(d_scale);
  });
}

Status CheckAttention(const Layer& layer, const std::vector<Shape>& inputs,
                      Attend::Sizes* sizes) {
  const char* const name = ClassName(layer);
  for (const Shape& x : inputs) {
    if (x.rank() == 2) continue;
    return InvalidArgument("%s needs inputs (steps, size), not %s", name,
                           x.ToString().c_str());
  }
  constexpr int64_t kMaxSteps = int64_t{1} << 24;
  if (inputs[0][0] > kMaxSteps || inputs[1][0] > kMaxSteps) {
    return InvalidArgument("%s takes at most 2^24 steps, not %s and %s", name,
                           inputs[0].ToString().c_str(),
                           inputs[1].ToString().c_str());
  }
  if (inputs.size() > 3) {
    return InvalidArgument("%s takes query, value and key, not %zu inputs",
                           name, inputs.size());
  }
  if (inputs.back()[0] != inputs[1][0]) {
    return InvalidArgument("%s needs as many keys as values, not %s and %s",
                           name, inputs.back().ToString().c_str(),
                           inputs[1].ToString().c_str());
  }
  sizes->queries = inputs[0][0];
  sizes->values = inputs[1][0];
  return Status();
}

}  // namespace ringlet
