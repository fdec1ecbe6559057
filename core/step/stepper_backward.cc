// See stepper.cc.

#include "stepper.h"

#include <algorithm>

#include "../base/check.h"
#include "../base/ieee_arithmetic.h"
#include "../compute/row_loops.h"
#include "../layers/layer_loops.h"

namespace ringlet {
namespace {

// For calls with shared weights. The stepper reports when their gradient is
// final.
class NoSink final : public GradientSink {
 public:
  void OnGradientsFinal(int64_t) override {}
  void ConsumeGradients(int64_t, const float*) override {
    RINGLET_CHECK(false);
  }
  void ConsumeRows(int64_t, const GradientRows&) override {
    RINGLET_CHECK(false);
  }
};

}  // namespace

void Stepper::Unpack(size_t pass) {
  const int64_t begin = timer_.Now();
  const StepSchedule& schedule = memory_.schedule();
  const int i = schedule.passes()[pass].node;
  memory_.PoisonAllBut(schedule.loss() + 1 + static_cast<int>(pass), count_);
  const uint16_t* const from = memory_.node(i).packed;
  float* const to = memory_.pass_output(pass);
  const int64_t n = count_ * graph_.node(i).floats();
  config_.pool->Run([&](int t) {
    const Range part = Split(n, config_.pool->threads(), t, 64);
    BestRowLoops().unpack_bfloat16(from + part.begin, part.size(),
                                   to + part.begin);
  });
  timer_.Report(graph_.node(i).layer.name.c_str(), "backward", begin);
}

// Repeats a forward pass with a dropped output.
Status Stepper::RecomputeForward(int i) {
  const int64_t begin = timer_.Now();
  const NodeSpans& spans = memory_.node(i);
  OpCall call = MakeCall(i);
  call.training = call.repeats_forward = true;
  call.x = spans.x_for_recompute.data();
  const StepSchedule& schedule = memory_.schedule();
  const int now = schedule.recompute_time(i);
  call.y = memory_.pass_output(static_cast<size_t>(now - schedule.loss() - 1));
  call.scratch = spans.recompute_scratch;
  memory_.PoisonAllBut(now, count_);
  RINGLET_RETURN_IF_ERROR(Run(&Op::Forward, i, call));
  StoreBFloat16(i, call.y, graph_.node(i).rounds_output, spans.packed);
  timer_.Report(graph_.node(i).layer.name.c_str(), "backward", begin);
  return Status();
}

Status Stepper::BackwardNode(int i) {
  const GraphNode& node = graph_.node(i);
  const NodeSpans& spans = memory_.node(i);
  const int64_t begin = timer_.Now();
  const bool shared = graph_.SharesTrained(i);
  NoSink no_sink;
  OpCall call = MakeCall(i);
  call.training = true;
  call.x = spans.x_for_backward.data();
  call.y = spans.y_for_backward;
  call.scratch = spans.backward_scratch;
  call.sink_consumes = update_when_final_ && !shared;
  call.skips_zeros =
      call.sink_consumes && node.num_variables == 1 &&
      updater_.KeepsWithoutGradient(graph_.variables()[node.first_variable]);
  if (shared) call.sink = &no_sink;
  if (node.overwriting_reader >= 0) call.without_activation = true;
  const GraphNode& input = graph_.node(graph_.node(node.inputs[0]).root);
  if (input.overwriting_reader == i) {
    call.x_activation = input.op->fused_activation();
  }
  memory_.PoisonAllBut(memory_.schedule().backward(i),
                       std::max<int64_t>(count_, 1));
  StoreBFloat16(i, call.dy, node.rounds_gradient, nullptr);
  RINGLET_RETURN_IF_ERROR(Run(&Op::Backward, i, call));
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    if (spans.extra_dx[k] == nullptr) continue;
    const int to = node.inputs[k];
    AddTo(spans.extra_dx[k], count_ * graph_.node(to).output.elements(),
          memory_.node(to).dy);
  }
  if (shared) AddSharedGradients(i);
  timer_.Report(node.layer.name.c_str(), "backward", begin);
  return Status();
}

// Adds the gradients of weights that several calls share. The last call has
// written its gradient, and the calls before it add theirs. After the first
// call the sum is final.
void Stepper::AddSharedGradients(int i) {
  const GraphNode& node = graph_.node(i);
  const NodeSpans& spans = memory_.node(i);
  for (int v = node.num_variables - 1; v >= 0; --v) {
    const Variable& variable = graph_.variables()[node.first_variable + v];
    if (!variable.trained()) continue;
    float* const sum =
        memory_.persistent().gradients + variable.gradient_offset;
    if (spans.d_weights[v] != sum) {
      AddTo(spans.d_weights[v], variable.size(), sum);
    }
    if (node.call_index == 0) OnGradientsFinal(variable.gradient_offset);
  }
}

Status Stepper::Backward(bool update_when_final) {
  if (!results_.gradient_of_loss) {
    return InvalidArgument(
        "Backward needs Forward(training) and ComputeLoss before it");
  }
  const IeeeArithmetic ieee;
  results_.gradient_of_loss = false;
  update_when_final_ = update_when_final;
  final_from_ = graph_.num_trained();
  active_exchange_->Begin(replica_, config_.job_replicas.own().count);
  if (count_ == 0) {
    RINGLET_RETURN_IF_ERROR(BackwardWithoutExamples());
  } else {
    const std::vector<StepPass>& passes = memory_.schedule().passes();
    for (size_t k = 0; k < passes.size(); ++k) {
      const StepPass& pass = passes[k];
      if (pass.kind == StepPass::Kind::kUnpack) {
        Unpack(k);
        continue;
      }
      RINGLET_RETURN_IF_ERROR(pass.kind == StepPass::Kind::kRecompute
                                  ? RecomputeForward(pass.node)
                                  : BackwardNode(pass.node));
    }
    memory_.PoisonAllBut(memory_.schedule().after(), count_);
  }
  RINGLET_CHECK(final_from_ == 0);
  results_.gradients = true;
  // Waits also for operations that started before the error.
  return active_exchange_->failed() ? FinishGradients() : Status();
}

// Makes the backward pass without examples: zero gradients, final in the order
// of the other ranks.
Status Stepper::BackwardWithoutExamples() {
  std::fill_n(memory_.persistent().gradients, graph_.num_trained(), 0.0f);
  for (int i = graph_.size() - 1; i > 0; --i) {
    const GraphNode& node = graph_.node(i);
    if (!node.has_backward()) continue;
    if (SynchronizesRanks(i)) {
      RINGLET_RETURN_IF_ERROR(BackwardNode(i));
    } else if (node.call_index == 0) {
      const int64_t first = graph_.GradientOffset(node);
      if (first >= 0) OnGradientsFinal(first);
    }
  }
  OnGradientsFinal(0);
  return Status();
}

void Stepper::OnGradientsFinal(int64_t begin) {
  const int64_t end = final_from_;
  final_from_ = begin;
  if (update_when_final_) {
    updater_.Update(begin, end, memory_.persistent().gradients + begin);
  } else {
    active_exchange_->OnGradientsFinal(begin);
  }
}

void Stepper::ConsumeGradients(int64_t begin, const float* gradients) {
  updater_.Update(begin, final_from_, gradients);
  final_from_ = begin;
}

void Stepper::ConsumeRows(int64_t begin, const GradientRows& rows) {
  for (const Variable& v : graph_.variables()) {
    if (v.gradient_offset == begin) updater_.UpdateRows(v, rows);
  }
  final_from_ = begin;
}

Status Stepper::Apply() {
  if (!results_.gradients) {
    return InvalidArgument("ApplyGradients needs Backward before it");
  }
  const IeeeArithmetic ieee;
  const Status finished = FinishGradients();
  results_.gradients = false;
  RINGLET_RETURN_IF_ERROR(finished);
  if (!update_when_final_) {
    updater_.Begin();
    updater_.UpdateAll();
  }
  updater_.ApplyConstraints();
  updater_.ApplyLayerStateChanges(config_.job_replicas.count());
  updater_.End();
  return Status();
}

}  // namespace ringlet
