// TimeDistributed: the op of another layer, for a batch of all steps of all
// examples.

#include <utility>

#include "../../base/text.h"
#include "../layer_table.h"
#include "../op.h"

namespace ringlet {
namespace {

class TimeDistributedOp final : public Op {
 public:
  TimeDistributedOp(const Layer& inner, int64_t steps, std::unique_ptr<Op> op)
      : steps_(steps), seed_(inner.seed), op_(std::move(op)) {
    output_ = {steps};
    for (int i = 0; i < op_->output().rank(); ++i) {
      output_.Append(op_->output()[i]);
    }
    weights_ = op_->weights();
  }

  bool is_view() const override { return op_->is_view(); }
  bool backward_reads_input() const override {
    return op_->backward_reads_input();
  }
  bool backward_reads_output() const override {
    return op_->backward_reads_output();
  }
  Activation fused_activation() const override {
    return op_->fused_activation();
  }
  bool dx_may_overwrite_x() const override { return op_->dx_may_overwrite_x(); }
  bool may_overwrite_input() const override {
    return op_->may_overwrite_input();
  }
  bool dx_may_overwrite_dy(size_t input) const override {
    return op_->dx_may_overwrite_dy(input);
  }
  Recompute recompute() const override { return op_->recompute(); }
  uint64_t forward_scratch(int64_t batch, int threads) const override {
    return op_->forward_scratch(batch * steps_, threads);
  }
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    return op_->backward_scratch(batch * steps_, threads);
  }
  uint64_t saved_floats(int64_t batch) const override {
    return op_->saved_floats(batch * steps_);
  }
  bool backward_may_fail() const override { return op_->backward_may_fail(); }
  bool has_gradient() const override { return op_->has_gradient(); }
  int64_t multiply_adds() const override {
    return steps_ * op_->multiply_adds();
  }
  uint64_t table_bytes() const override { return op_->table_bytes(); }
  void set_frozen(bool frozen) override {
    Op::set_frozen(frozen);
    op_->set_frozen(frozen);
  }

  void Forward(const OpCall& call) const override { op_->Forward(Inner(call)); }
  void Backward(const OpCall& call) const override {
    op_->Backward(Inner(call));
  }

 private:
  OpCall Inner(const OpCall& call) const {
    OpCall inner = call;
    inner.batch = call.batch * steps_;
    inner.seed += seed_ * 0x9E3779B97F4A7C15u;
    return inner;
  }

  const int64_t steps_;
  const uint64_t seed_;
  const std::unique_ptr<Op> op_;
};

// Finds the shapes of one step. `inputs` has several shapes only if
// TimeDistributed applies a whole model to each step.
Status SplitSteps(const std::vector<Shape>& inputs,
                  std::vector<Shape>* step_shapes) {
  for (const Shape& x : inputs) {
    if (x.rank() < 2) {
      return InvalidArgument(
          "TimeDistributed needs an input with steps first, as (steps, "
          "features), not %s",
          x.ToString().c_str());
    }
    if (x[0] != inputs[0][0]) {
      return InvalidArgument("inputs of %s and %s have other steps",
                             inputs[0].ToString().c_str(),
                             x.ToString().c_str());
    }
    step_shapes->emplace_back();
    for (int i = 1; i < x.rank(); ++i) step_shapes->back().Append(x[i]);
  }
  return Status();
}

}  // namespace

Status MakeTimeDistributed(const Layer& layer, const std::vector<Shape>& inputs,
                           std::unique_ptr<Op>* op) {
  if (layer.layer == nullptr) {
    return InvalidArgument("a TimeDistributed needs a layer");
  }
  Layer inner = *layer.layer;
  inner.masked_inputs = layer.masked_inputs;
  inner.zero_output_for_mask |= layer.zero_output_for_mask;
  const LayerClass& row = ClassOf(inner);
  if (inner.return_state) {
    return InvalidArgument("TimeDistributed takes no layer with return_state");
  }
  const bool takes_one =
      row.inputs == LayerInputs::kOne || row.inputs == LayerInputs::kStates;
  const size_t masks = CountMasks(layer);
  if (row.make_op == nullptr || (inputs.size() - masks == 1 && !takes_one)) {
    return InvalidArgument("TimeDistributed cannot apply %s to each step",
                           ClassName(inner));
  }
  std::vector<Shape> step_shapes;
  RINGLET_RETURN_IF_ERROR(SplitSteps(inputs, &step_shapes));
  const int64_t steps = inputs[0][0];
  inner.trainable = inner.trainable && layer.trainable;
  std::unique_ptr<Op> step_op;
  RINGLET_RETURN_IF_ERROR(Op::Make(inner, step_shapes, &step_op)
                              .Annotate("a step of %s", ClassName(inner)));
  if (step_op->changes_state() || step_op->synchronizes()) {
    return InvalidArgument(
        "TimeDistributed cannot have %s: its statistics would be those of "
        "each step; put the layer behind it without TimeDistributed",
        WithArticle(ClassName(inner)).c_str());
  }
  if (step_op->output().rank() >= Shape::kMaxRank ||
      step_op->multiply_adds() > (int64_t{1} << 44) / steps) {
    return InvalidArgument(
        "%lld steps of %s are too many: at most 8 axes, and 2^44 multiply-adds "
        "for each example, are possible",
        static_cast<long long>(steps), step_op->output().ToString().c_str());
  }
  op->reset(new TimeDistributedOp(inner, steps, std::move(step_op)));
  return Status();
}

}  // namespace ringlet
