// Attention and AdditiveAttention: the sums of attend.h over the inputs
// themselves.

#include <algorithm>
#include <vector>

#include "../layer_table.h"
#include "../normalization/channels.h"
#include "attend.h"

namespace ringlet {
namespace {

class AttentionOp final : public Op {
 public:
  AttentionOp(const Layer& layer, const Attend::Sizes& sizes, size_t inputs)
      : attend_(layer, sizes, inputs),
        has_key_(inputs == 3),
        scaled_(layer.use_scale),
        scales_(attend_.additive() ? sizes.key_dim : 1) {
    output_ = {sizes.queries, sizes.value_dim};
    if (!scaled_) return;
    if (attend_.additive()) {
      weights_.push_back({"scale", {scales_}, GlorotUniform(), {}});
    } else {
      weights_.push_back({"scale", {}, Ones(), {}});
    }
  }
  bool backward_reads_input() const override { return true; }
  int64_t multiply_adds() const override { return attend_.multiply_adds(); }
  uint64_t forward_scratch(int64_t, int threads) const override {
    return static_cast<uint64_t>(threads * attend_.forward_floats());
  }
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    return static_cast<uint64_t>((scaled_ ? batch * scales_ : 0) +
                                 threads * attend_.backward_floats());
  }

  void Forward(const OpCall& call) const override {
    attend_.Forward(call, ScaleOf(call), SpansOf(call), call.y, call.scratch);
    ClearMasked(call, call.y);
  }

  void Backward(const OpCall& call) const override {
    const bool trains = scaled_ && !frozen();
    ClearMasked(call, call.dy);
    float* const key = call.dx[has_key_ ? 2 : 1];
    attend_.Backward(call, ScaleOf(call), SpansOf(call), call.dy,
                     {call.dx[0], key, call.dx[1]},
                     trains ? call.scratch : nullptr,
                     call.scratch + (scaled_ ? call.batch * scales_ : 0));
    if (!trains) return;
    for (int64_t k = 0; k < scales_; ++k) {
      call.d_weights[0][k] =
          static_cast<float>(SumBlocks(call.scratch + k, call.batch, scales_));
    }
    call.sink->OnGradientsFinal(call.gradient_offset);
  }

 private:
  // As in Keras, the output at a masked query is zeros.
  void ClearMasked(const OpCall& call, float* y) const {
    const float* const mask = attend_.MaskOf(call, 0);
    if (mask == nullptr) return;
    const int64_t rows = call.batch * output_[0], width = output_[1];
    for (int64_t i = 0; i < rows; ++i) {
      if (mask[i] == 0) std::fill_n(y + i * width, width, 0.0f);
    }
  }
  const float* ScaleOf(const OpCall& call) const {
    static constexpr float kOne = 1;
    if (scaled_) return call.weights[0];
    return attend_.additive() ? nullptr : &kOne;
  }
  AttendSpans<const float> SpansOf(const OpCall& call) const {
    return {call.x[0], call.x[has_key_ ? 2 : 1], call.x[1]};
  }

  const Attend attend_;
  const bool has_key_, scaled_;
  const int64_t scales_;
};

}  // namespace

Status MakeAttention(const Layer& layer, const std::vector<Shape>& inputs,
                     std::unique_ptr<Op>* op) {
  Attend::Sizes sizes = {};
  std::vector<Shape> x = inputs;
  x.resize(x.size() - CountMasks(layer));
  RINGLET_RETURN_IF_ERROR(CheckAttention(layer, x, &sizes));
  const Shape &query = x[0], &value = x[1], &key = x.back();
  if (query[1] != key[1]) {
    return InvalidArgument("%s needs query and key of one size, not %s and %s",
                           ClassName(layer), query.ToString().c_str(),
                           key.ToString().c_str());
  }
  sizes.heads = 1;
  sizes.key_dim = key[1];
  sizes.value_dim = value[1];
  op->reset(new AttentionOp(layer, sizes, x.size()));
  return Status();
}

}  // namespace ringlet
