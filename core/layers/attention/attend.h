// Attend: the sums that Attention, AdditiveAttention and MultiHeadAttention
// share. For each example and head,
//
//   weights = softmax(scale query key^T), context = weights value
//
// or, additive, weights = softmax(sum of scale tanh(query + key)), in which the
// scale has a factor for each number.
//
// Threads divide the pairs of an example and a head. The weights exist for
// kQueries queries at a time, and Backward computes them again, so no memory
// grows with the square of the steps. The blocks of queries depend only on the
// shapes, and their sums have one order, so no bits depend on the threads.
//
// A query sees the steps that its masks leave. As in Keras, the weights of a
// query that sees none are all equal; its scores have no gradient.

#ifndef RINGLET_CORE_LAYERS_ATTENTION_ATTEND_H_
#define RINGLET_CORE_LAYERS_ATTENTION_ATTEND_H_

#include <cstdint>

#include "../../compute/gemm.h"
#include "../op.h"

namespace ringlet {

// Spans of (examples, steps, heads, numbers).
template <typename T>
struct AttendSpans {
  T *query, *key, *value;
};

class Attend {
 public:
  struct Sizes {
    int64_t heads, queries, values;  // steps of query and of value
    int64_t key_dim, value_dim;      // numbers of a head
  };
  // `inputs` of query, value and perhaps key; their masks follow.
  Attend(const Layer& layer, const Sizes& sizes, size_t inputs);

  const Sizes& sizes() const { return sizes_; }
  // True for an AdditiveAttention.
  bool additive() const { return additive_; }
  // The mask of query, value or key; null if all its steps count.
  const float* MaskOf(const OpCall& call, int input) const {
    return masks_[input] == 0 ? nullptr : call.x[masks_[input]];
  }
  int64_t multiply_adds() const;
  // Scratch of a thread.
  int64_t forward_floats() const;
  int64_t backward_floats() const;

  // Writes the context of each query. `scale` has one factor. In additive
  // attention it has key_dim factors, or is null if all are 1.
  void Forward(const OpCall& call, const float* scale,
               const AttendSpans<const float>& x, float* context,
               float* scratch) const;
  // Writes the gradients d. The gradients of key and value may be one span,
  // which gets the sum of both. Null if not needed. `d_scales` is null or the
  // gradient of the scale in each pair of an example and a head.
  void Backward(const OpCall& call, const float* scale,
                const AttendSpans<const float>& x, const float* d_context,
                const AttendSpans<float>& d, float* d_scales,
                float* scratch) const;

 private:
  static constexpr int64_t kQueries = 64;

  // Some queries of a pair, and the values that they may see.
  struct Block {
    int64_t pair, begin, queries, values;
  };

  template <typename Body>
  void ForEachBlock(int64_t pair, const Body& body) const;
  // A head's rows of a span with `steps` rows an example: of query or context,
  // and of value or key.
  template <typename T>
  MatrixView<T> HeadRows(T* span, int64_t pair, int64_t steps,
                         int64_t size) const;
  template <typename T>
  MatrixView<T> QueryRows(T* span, int64_t pair, int64_t size) const {
    return HeadRows(span, pair, sizes_.queries, size);
  }
  template <typename T>
  MatrixView<T> ValueRows(T* span, int64_t pair, int64_t size) const {
    return HeadRows(span, pair, sizes_.values, size);
  }
  // Returns the number of values that a query attends to. The weights of later
  // values are 0.
  int64_t ValuesSeen(const Block& block, int64_t query) const;
  // With masks. Sets the scores that the query does not see to -1e9, so that
  // softmax makes them 0. If the query sees none, sets all scores to 0. Applied
  // to the gradients of the weights it gives these scores the gradient 0.
  void Hide(const OpCall& call, const Block& block, int64_t query,
            float* scores) const;
  void ComputeWeights(const OpCall& call, const Block& block,
                      const float* scale, ConstMatrix query, ConstMatrix key,
                      float* row, float* weights) const;
  // Computes the scores of an AdditiveAttention; `row` has room for a key.
  void AddScores(const Block& block, const float* scale, ConstMatrix query,
                 ConstMatrix key, float* row, float* scores) const;
  // Computes the gradients of AddScores' arguments from d_scores.
  void AddedGradient(const Block& block, const float* scale, ConstMatrix query,
                     ConstMatrix key, const float* d_scores, Matrix d_query,
                     Matrix d_key, float* d_scale, float* row) const;
  // The floats of scratch that additive scores need, at the end of a thread's
  // scratch.
  int64_t RowFloats() const { return additive_ ? sizes_.key_dim : 0; }
  // Sets the dropped weights to 0, and scales the remaining weights.
  void Drop(const OpCall& call, const Block& block, float* draws,
            float* weights) const;
  // Replaces the gradients of the weights by the gradients of the scores.
  void ScoreGradient(const OpCall& call, const Block& block,
                     const float* weights, float* d) const;

  const Sizes sizes_;
  const bool causal_, masked_, additive_;
  int masks_[3] = {};  // indices of inputs; 0 without a mask
  const float dropout_;
};

// Checks the shapes of query, value and key. Sets the numbers of their steps in
// *sizes.
Status CheckAttention(const Layer& layer, const std::vector<Shape>& inputs,
                      Attend::Sizes* sizes);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_ATTENTION_ATTEND_H_
