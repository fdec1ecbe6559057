// The recurrent layers with mixed_bfloat16: gates and states wait for the
// backward pass as bfloat16.
//
// A few examples at a time pass through all steps, forward and backward, with
// float32 in scratch. What the layer saves of them is rounded and packed in
// between. So outputs are those of float32, and gradients follow from rounded
// gates and states. Gradients of weights are summed over the groups in their
// order, so no bit depends on the threads.

#include <algorithm>
#include <utility>

#include "../../base/check.h"
#include "../../compute/row_loops.h"
#include "recurrent.h"

namespace ringlet {
namespace {

constexpr int64_t kGroup = 8;      // examples
constexpr size_t kMostInputs = 4;  // x, two states and a mask

class PackedRecurrentOp final : public Op {
 public:
  PackedRecurrentOp(std::unique_ptr<RecurrentOp> op,
                    const std::vector<Shape>& inputs)
      : op_(std::move(op)) {
    output_ = op_->output();
    weights_ = op_->weights();
    for (const Shape& input : inputs) widths_.push_back(input.elements());
    RINGLET_CHECK(widths_.size() <= kMostInputs);
  }
  bool backward_reads_input() const override {
    return op_->backward_reads_input();
  }
  int64_t multiply_adds() const override { return op_->multiply_adds(); }
  void set_frozen(bool frozen) override {
    Op::set_frozen(frozen);
    op_->set_frozen(frozen);
  }
  uint64_t saved_floats(int64_t batch) const override {
    return (op_->saved_floats(batch) + 1) / 2;
  }
  uint64_t forward_scratch(int64_t batch, int threads) const override {
    const int64_t n = std::min(batch, kGroup);
    return std::max(op_->saved_floats(n) + op_->saving_scratch(n, threads),
                    op_->forward_scratch(n, threads));
  }
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    const int64_t n = std::min(batch, kGroup);
    return op_->saved_floats(n) + op_->backward_scratch(n, threads);
  }

  void Forward(const OpCall& call) const override {
    ForEachGroup(call, [&](int64_t first, OpCall group) {
      if (!call.training || call.saved == nullptr) {
        return op_->ForwardFrom(first, group);
      }
      UseSavedInScratch(&group);
      op_->ForwardFrom(first, group);
      uint16_t* const to = PackedOf(call, first);
      ForEachPart(call, SavedOf(group), 64, [&](Range part) {
        BestRowLoops().round_to_bfloat16(part.size(), group.saved + part.begin,
                                         to + part.begin);
      });
    });
  }

  void Backward(const OpCall& call) const override {
    ForEachGroup(call, [&](int64_t first, OpCall group) {
      UseSavedInScratch(&group);
      const uint16_t* const from = PackedOf(call, first);
      ForEachPart(call, SavedOf(group), 64, [&](Range part) {
        BestRowLoops().unpack_bfloat16(from + part.begin, part.size(),
                                       group.saved + part.begin);
      });
      op_->BackwardFrom(first, group);
    });
    if (!frozen()) call.sink->OnGradientsFinal(call.gradient_offset);
  }

 private:
  // Calls body(first, group) for each group: the number of its first example,
  // and the call of its examples.
  template <typename Body>
  void ForEachGroup(const OpCall& call, const Body& body) const {
    for (int64_t first = 0; first < call.batch; first += kGroup) {
      const float* x[kMostInputs] = {};
      float* dx[kMostInputs] = {};
      for (size_t k = 0; k < widths_.size(); ++k) {
        x[k] = call.x[k] + first * widths_[k];
        if (call.dx == nullptr || call.dx[k] == nullptr) continue;
        dx[k] = call.dx[k] + first * widths_[k];
      }
      OpCall group = call;
      group.batch = std::min(kGroup, call.batch - first);
      group.x = x;
      group.dx = dx;
      group.y += first * output_.elements();
      if (call.dy != nullptr) group.dy += first * output_.elements();
      body(first, group);
    }
  }
  int64_t SavedOf(const OpCall& group) const {
    return static_cast<int64_t>(op_->saved_floats(group.batch));
  }
  void UseSavedInScratch(OpCall* group) const {
    group->saved = group->scratch;
    group->scratch += SavedOf(*group);
  }
  // Where the saved numbers of the examples from `first` on are packed.
  uint16_t* PackedOf(const OpCall& call, int64_t first) const {
    return reinterpret_cast<uint16_t*>(call.saved) + op_->saved_floats(first);
  }

  const std::unique_ptr<RecurrentOp> op_;
  std::vector<int64_t> widths_;  // of an example of each input
};

}  // namespace

std::unique_ptr<Op> PackSaved(std::unique_ptr<Op> recurrent,
                              const std::vector<Shape>& inputs) {
  return std::make_unique<PackedRecurrentOp>(
      std::unique_ptr<RecurrentOp>(
          static_cast<RecurrentOp*>(recurrent.release())),
      inputs);
}

}  // namespace ringlet
