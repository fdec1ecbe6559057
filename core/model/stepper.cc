// What must be known to change this file: gradients become final from the last
// weight to the first (Ready, Take). From there on they belong to the exchange
// until FinishGradients, which comes before any use of them: a step happens on
// all ranks or on none, so weights change only after every rank's gradients
// have arrived. Where nobody else's are awaited, no layer can fail and nothing
// needs the whole gradient, each range of weights is updated at once instead.

#include "stepper.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>

#include "../base/check.h"
#include "../base/flush_denormals.h"
#include "../base/message.h"
#include "../layers/kernels.h"

namespace ringlet {

void Stepper::SetExchange(std::unique_ptr<GradientExchange> exchange) {
  exchange_ = std::move(exchange);
  have_ = Have();
}

Status Stepper::Reserve(int64_t batch, bool training) {
  bool moved = false;
  const Status status = memory_.Reserve(batch, training, &moved);
  if (moved) have_.output = have_.gradient_of_loss = false;
  return status;
}

void Stepper::Drop() {
  if (exchange_ != nullptr) exchange_->Drop();
  have_.gradient_of_loss = have_.gradients = false;
}

Status Stepper::FinishGradients() {
  return exchange_ == nullptr ? Status() : exchange_->Finish();
}

// --- whole steps ----------------------------------------------------------

// Once in a process, as Keras.
void Stepper::WarnOfNothingToTrain() const {
  static std::atomic<bool> warned{false};
  if (graph_.num_trained() > 0 || warned.exchange(true)) return;
  Notice(
      "warning: model '%s' does not have any trainable weights; training "
      "leaves it as it is",
      graph_.name().c_str());
}

Status Stepper::Train(const Batch& batch, bool* taken) {
  WarnOfNothingToTrain();
  double loss_sum = 0;
  config_.collective->SetStep(static_cast<uint64_t>(updater_.iterations()) + 1);
  RINGLET_RETURN_IF_ERROR(Forward(batch.x, batch.count, true, true));
  RINGLET_RETURN_IF_ERROR(SumLosses(batch, true, &loss_sum));
  RINGLET_RETURN_IF_ERROR(Report(batch, loss_sum));
  RINGLET_RETURN_IF_ERROR(report_.Send(/*note=*/0, exchange_.get()));
  const bool at_once =
      !exchange_->sums() && !config_.optimizer.clips() && !graph_.may_fail();
  if (at_once) updater_.Begin();
  RINGLET_RETURN_IF_ERROR(Backward(at_once));
  RINGLET_RETURN_IF_ERROR(report_.Receive(exchange_.get()));
  *taken = !report_.has_note();
  if (*taken) return Apply();
  Drop();
  return Status();
}

Status Stepper::GiveUp(unsigned char note) {
  RINGLET_CHECK(note != 0 && exchange_->sums());
  config_.collective->SetStep(static_cast<uint64_t>(updater_.iterations()) + 1);
  Drop();
  RINGLET_RETURN_IF_ERROR(report_.Send(note, exchange_.get()));
  // The others sum theirs.
  std::fill_n(memory_.kept().gradients, graph_.num_trained(), 0.0f);
  exchange_->Begin();
  exchange_->Ready(0);
  if (exchange_->failed()) return exchange_->Finish();
  RINGLET_RETURN_IF_ERROR(report_.Receive(exchange_.get()));
  Drop();
  return Status();
}

Status Stepper::Test(const Batch& batch) {
  double loss_sum = 0;
  RINGLET_RETURN_IF_ERROR(Forward(batch.x, batch.count, false, true));
  RINGLET_RETURN_IF_ERROR(SumLosses(batch, false, &loss_sum));
  return Report(batch, loss_sum);
}

Status Stepper::Report(const Batch& batch, double loss_sum) {
  loss_sum += updater_.Penalty() * static_cast<double>(count_);
  return report_.Compute(batch, loss_sum, graph_.output().output,
                         memory_.output());
}

// --- forward --------------------------------------------------------------

OpCall Stepper::CallOf(int i) {
  const GraphNode& node = graph_.node(i);
  const NodeSpans& spans = memory_.node(i);
  const auto world = static_cast<uint64_t>(config_.collective->size());
  const auto rank = static_cast<uint64_t>(config_.collective->rank());
  OpCall call;
  call.batch = count_;
  call.x = spans.x.data();
  call.y = spans.y;
  call.weights = spans.weights.data();
  call.scratch = spans.forward_scratch;
  call.without_activation = without_activation_ && i == graph_.size() - 1;
  call.seed = config_.options.seed + node.layer.seed * 0x9E3779B97F4A7C15u + i;
  call.counter = static_cast<uint64_t>(updater_.iterations()) * world + rank;
  call.pool = config_.pool.get();
  call.dy = spans.dy;
  call.dx = spans.dx.data();
  call.d_weights = spans.d_weights.data();
  if (node.num_variables > 0) {
    call.gradient_offset =
        graph_.variables()[node.first_variable].gradient_offset;
  }
  call.sink = this;
  return call;
}

Status Stepper::Run(void (Op::*pass)(const OpCall&) const, int i, OpCall call) {
  const GraphNode& node = graph_.node(i);
  Status failed;
  call.status = &failed;
  (*node.op.*pass)(call);
  if (failed.ok()) return failed;
  return failed.Annotate("layer '%s' (%s)", node.layer.name.c_str(),
                         ClassName(node.layer));
}

Status Stepper::ForwardNode(int i) {
  const int64_t begin = timer_.Now();
  OpCall call = CallOf(i);
  call.training = trains_;
  memory_.ShowOnly(StepTimes(graph_).forward(i), count_);
  RINGLET_RETURN_IF_ERROR(Run(&Op::Forward, i, call));
  timer_.Piece(graph_.node(i).layer.name.c_str(), "forward", begin);
  return Status();
}

Status Stepper::Forward(const float* x, int64_t examples, bool training,
                        bool for_loss) {
  if (examples < 0) {
    return InvalidArgument("a batch of %" PRId64 " examples", examples);
  }
  RINGLET_RETURN_IF_ERROR(Reserve(std::max<int64_t>(examples, 1), training));
  Drop();
  const FlushDenormals flush;
  count_ = examples;
  trains_ = training;
  without_activation_ = for_loss && config_.loss_takes_logits;
  have_.output = false;
  memory_.SetInput(x);
  for (int i = 1; i < graph_.size() && count_ > 0; ++i) {
    RINGLET_RETURN_IF_ERROR(ForwardNode(i));
  }
  memory_.ShowOnly(StepTimes(graph_).loss(), count_);
  have_.output = true;
  return Status();
}

// --- loss -----------------------------------------------------------------

Status Stepper::ComputeLosses(const Batch& batch, float* gradient,
                              double* sum) {
  const GraphNode& last = graph_.output();
  float* const output = memory_.node(graph_.size() - 1).y;
  float* const per_example = memory_.step().per_example;
  RINGLET_RETURN_IF_ERROR(ringlet::ComputeLoss(
      without_activation_ ? config_.step_loss : config_.output_loss,
      last.output, count_, output, batch.y,
      1.0f / static_cast<float>(batch.global_count), per_example, gradient));
  for (int64_t i = 0; i < count_; ++i) *sum += per_example[i];
  if (without_activation_) {
    const int64_t width = last.output.back();
    BiasActivation(last.op->fused_activation(), nullptr,
                   count_ * last.output.elements() / width, width, output);
  }
  return Status();
}

// The sum of the examples' losses; with a gradient, also that of
// sum / global_count.
Status Stepper::SumLosses(const Batch& batch, bool with_gradient,
                          double* loss_sum) {
  if (batch.count != count_ || batch.global_count < 1) {
    return InvalidArgument("loss of %" PRId64 " examples of %" PRId64
                           " after a forward pass of %" PRId64,
                           batch.count, batch.global_count, count_);
  }
  const int64_t begin = timer_.Now();
  const bool keeps = with_gradient && graph_.output().needs_gradient;
  float* const gradient = keeps ? memory_.node(graph_.size() - 1).dy : nullptr;
  *loss_sum = 0;
  if (count_ > 0) {
    RINGLET_RETURN_IF_ERROR(ComputeLosses(batch, gradient, loss_sum));
  }
  have_.gradient_of_loss = with_gradient;
  have_.output = !with_gradient && !without_activation_;
  timer_.Piece("loss", "forward", begin);
  return Status();
}

Status Stepper::ComputeLoss(const Batch& batch, double* loss) {
  if (!have_.output) {
    return InvalidArgument("ComputeLoss needs a Forward before it");
  }
  RINGLET_RETURN_IF_ERROR(SumLosses(batch, trains_, loss));
  *loss = *loss / static_cast<double>(batch.global_count) +
          updater_.Penalty() / config_.collective->size();
  return Status();
}

// --- backward -------------------------------------------------------------

Status Stepper::BackwardNode(int i) {
  const GraphNode& node = graph_.node(i);
  if (!node.has_backward()) return Status();
  const NodeSpans& spans = memory_.node(i);
  const int64_t begin = timer_.Now();
  OpCall call = CallOf(i);
  call.training = true;
  call.scratch = spans.backward_scratch;
  call.sink_takes = apply_when_ready_;
  if (node.replaced_by >= 0) call.without_activation = true;
  const GraphNode& input = graph_.node(graph_.node(node.inputs[0]).root);
  if (input.replaced_by == i) call.x_activation = input.op->fused_activation();
  memory_.ShowOnly(StepTimes(graph_).backward(i), count_);
  RINGLET_RETURN_IF_ERROR(Run(&Op::Backward, i, call));
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    if (spans.extra_dx[k] == nullptr) continue;
    const int to = node.inputs[k];
    AddTo(spans.extra_dx[k], count_ * graph_.node(to).output.elements(),
          memory_.node(to).dy);
  }
  timer_.Piece(node.layer.name.c_str(), "backward", begin);
  return Status();
}

Status Stepper::Backward(bool update) {
  if (!have_.gradient_of_loss) {
    return InvalidArgument(
        "Backward needs Forward(training) and ComputeLoss before it");
  }
  const FlushDenormals flush;
  have_.gradient_of_loss = false;
  apply_when_ready_ = update;
  ready_ = graph_.num_trained();
  exchange_->Begin();
  if (count_ == 0) {
    std::fill_n(memory_.kept().gradients, graph_.num_trained(), 0.0f);
    Ready(0);
  } else {
    for (int i = graph_.size() - 1; i > 0; --i) {
      RINGLET_RETURN_IF_ERROR(BackwardNode(i));
    }
    memory_.ShowOnly(StepTimes(graph_).after(), count_);
  }
  RINGLET_CHECK(ready_ == 0);
  have_.gradients = true;
  // Of what was started before the error too.
  return exchange_->failed() ? exchange_->Finish() : Status();
}

void Stepper::Ready(int64_t begin) {
  const int64_t end = ready_;
  ready_ = begin;
  if (apply_when_ready_) {
    updater_.Update(begin, end, memory_.kept().gradients + begin);
  } else {
    exchange_->Ready(begin);
  }
}

void Stepper::Take(int64_t begin, const float* gradients) {
  updater_.Update(begin, ready_, gradients);
  ready_ = begin;
}

Status Stepper::Apply() {
  if (!have_.gradients) {
    return InvalidArgument("ApplyGradients needs Backward before it");
  }
  const FlushDenormals flush;
  have_.gradients = false;
  RINGLET_RETURN_IF_ERROR(exchange_->Finish());
  if (!apply_when_ready_) {
    updater_.Begin();
    updater_.UpdateAll();
  }
  updater_.End();
  return Status();
}

}  // namespace ringlet
