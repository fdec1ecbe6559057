// Attention: the sums of attend.h over the inputs themselves.

#include <vector>

#include "../normalization/channels.h"
#include "attend.h"

namespace ringlet {
namespace {

class AttentionOp final : public Op {
 public:
  AttentionOp(const Layer& layer, const Attend::Sizes& sizes, bool has_key)
      : attend_(layer, sizes), has_key_(has_key), scaled_(layer.use_scale) {
    output_ = {sizes.queries, sizes.value_dim};
    if (scaled_) weights_.push_back({"scale", {}, Ones(), {}});
  }
  bool backward_reads_input() const override { return true; }
  int64_t multiply_adds() const override { return attend_.multiply_adds(); }
  uint64_t forward_scratch(int64_t, int threads) const override {
    return static_cast<uint64_t>(threads * attend_.forward_floats());
  }
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    return static_cast<uint64_t>((scaled_ ? batch : 0) +
                                 threads * attend_.backward_floats());
  }

  void Forward(const OpCall& call) const override {
    attend_.Forward(call, ScaleOf(call), SpansOf(call), call.y, call.scratch);
  }

  void Backward(const OpCall& call) const override {
    const bool trains = scaled_ && !frozen();
    float* const key = call.dx[has_key_ ? 2 : 1];
    attend_.Backward(call, ScaleOf(call), SpansOf(call), call.dy,
                     {call.dx[0], key, call.dx[1]},
                     trains ? call.scratch : nullptr,
                     call.scratch + (scaled_ ? call.batch : 0));
    if (!trains) return;
    *call.d_weights[0] =
        static_cast<float>(SumBlocks(call.scratch, call.batch, 1));
    call.sink->OnGradientsFinal(call.gradient_offset);
  }

 private:
  float ScaleOf(const OpCall& call) const {
    return scaled_ ? *call.weights[0] : 1;
  }
  AttendSpans<const float> SpansOf(const OpCall& call) const {
    return {call.x[0], call.x[has_key_ ? 2 : 1], call.x[1]};
  }

  const Attend attend_;
  const bool has_key_, scaled_;
};

}  // namespace

Status MakeAttention(const Layer& layer, const std::vector<Shape>& inputs,
                     std::unique_ptr<Op>* op) {
  Attend::Sizes sizes = {};
  RINGLET_RETURN_IF_ERROR(CheckAttention(layer, inputs, &sizes));
  const Shape &query = inputs[0], &value = inputs[1], &key = inputs.back();
  if (query[1] != key[1]) {
    return InvalidArgument(
        "Attention needs query and key of one size, not %s and %s",
        query.ToString().c_str(), key.ToString().c_str());
  }
  sizes.heads = 1;
  sizes.key_dim = key[1];
  sizes.value_dim = value[1];
  op->reset(new AttentionOp(layer, sizes, inputs.size() == 3));
  return Status();
}

}  // namespace ringlet
