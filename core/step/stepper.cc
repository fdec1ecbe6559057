// Gradients become final from the last weight to the first (OnGradientsFinal,
// ConsumeGradients). The exchange then owns them until FinishGradients, which
// precedes any use of them. A step happens on all ranks or on none, so weights
// change only after every rank's gradients have arrived. If no other rank's
// gradients are needed, no layer can fail and nothing needs the whole gradient,
// each range of weights is updated immediately instead.
//
// A step's state changes are final after Forward, are sent with the gradients,
// and are added in Apply. Some layers sum over the ranks within a pass
// (SynchronizesRanks). A rank without examples, or a rank that gives up the
// step, runs these layers too. So all ranks start the same sums in the same
// order.

#include "stepper.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>

#include "../base/check.h"
#include "../base/ieee_arithmetic.h"
#include "../compute/row_loops.h"
#include "../layers/layer_loops.h"
#include "../objective/batch_loss.h"
#include "ringlet/collective.h"
#include "ringlet/status.h"

namespace ringlet {

void Stepper::SetExchange(std::unique_ptr<GradientExchange> exchange) {
  exchange_ = std::move(exchange);
  active_exchange_ = exchange_.get();
  results_ = Results();
  times_.SetExchange();
}

Status Stepper::Reserve(int64_t batch, bool training) {
  bool moved = false;
  const Status status = memory_.Reserve(batch, training, &moved);
  if (moved) results_.output = results_.gradient_of_loss = false;
  return status;
}

void Stepper::CancelStep() {
  if (exchange_ != nullptr) exchange_->Drop();
  results_.gradient_of_loss = results_.gradients = false;
}

Status Stepper::FinishGradients() {
  bool must_repeat = exchange_ != nullptr;
  while (must_repeat) {
    RINGLET_RETURN_IF_ERROR(exchange_->Finish(&must_repeat));
    if (must_repeat) {
      RINGLET_RETURN_IF_ERROR(TrainReplicas(/*is_second_try=*/true));
    }
  }
  return Status();
}

// --- whole steps ----------------------------------------------------------

// Warns once in a process, as Keras does.
void Stepper::WarnOfNothingToTrain() const {
  static std::atomic<bool> warned{false};
  if (graph_.num_trained() > 0 || warned.exchange(true)) return;
  Notice(
      "warning: model '%s' does not have any trainable weights; training "
      "leaves it as it is",
      graph_.name().c_str());
}

void Stepper::BeginStep() {
  config_.collective->SetStep(static_cast<uint64_t>(updater_.iterations()) + 1);
}

Status Stepper::Train(const Batch& batch, BatchLoader* loader, bool* applied) {
  const IeeeArithmetic ieee;
  WarnOfNothingToTrain();
  BeginStep();
  RINGLET_RETURN_IF_ERROR(
      Reserve(std::max<int64_t>(batch.count, 1), /*training=*/true));
  CancelStep();
  batch_ = batch;
  loader_ = loader;
  RINGLET_RETURN_IF_ERROR(TrainReplicas(/*is_second_try=*/false));
  times_.DropCold();
  RINGLET_RETURN_IF_ERROR(report_.Receive(exchange_.get()));
  *applied = !report_.has_request();
  if (*applied) {
    RINGLET_RETURN_IF_ERROR(Apply());
  } else {
    CancelStep();
  }
  // A short last batch takes less time, and not on every rank.
  const int64_t nanos = times_.Take();
  const bool is_short = batch.global_count < last_examples_;
  last_examples_ = batch.global_count;
  report_.SetReplicaNanos(is_short ? 0 : nanos);
  return Status();
}

// Runs the passes of all replicas of this rank. `is_second_try` means the
// second time in one step. The report of the first time stays.
Status Stepper::TrainReplicas(bool is_second_try) {
  Batch batch = batch_;
  if (is_second_try && loader_ != nullptr &&
      config_.job_replicas.own().count > 1) {
    loader_->RewindStep();
    RINGLET_RETURN_IF_ERROR(loader_->Next(&batch));
  }
  for (replica_ = 0; replica_ < config_.job_replicas.own().count; ++replica_) {
    RINGLET_RETURN_IF_ERROR(TimeReplica(is_second_try, &batch));
  }
  return Status();
}

// Reads the batch of each replica but the first, and measures its time.
Status Stepper::TimeReplica(bool is_second_try, Batch* batch) {
  const int64_t begin = config_.options.clock->MonotonicNanos();
  if (replica_ > 0) RINGLET_RETURN_IF_ERROR(loader_->Next(batch));
  waited_nanos_ = 0;
  RINGLET_RETURN_IF_ERROR(TrainReplica(*batch, is_second_try));
  if (batch->count == 0) return Status();
  times_.Add(config_.options.clock->MonotonicNanos() - begin - waited_nanos_);
  return Status();
}

Status Stepper::TrainReplica(const Batch& batch, bool is_second_try) {
  double loss_sum = 0;
  RINGLET_RETURN_IF_ERROR(
      ForwardAll(batch.x, batch.count, /*training=*/true, /*for_loss=*/true));
  RINGLET_RETURN_IF_ERROR(SumLosses(batch, /*with_gradient=*/true, &loss_sum));
  if (!is_second_try) {
    RINGLET_RETURN_IF_ERROR(Report(batch, loss_sum));
    report_.StoreResult(replica_);
    if (replica_ + 1 == config_.job_replicas.own().count) {
      const int64_t begin = config_.options.clock->MonotonicNanos();
      RINGLET_RETURN_IF_ERROR(report_.Send(/*request=*/0, exchange_.get()));
      waited_nanos_ = config_.options.clock->MonotonicNanos() - begin;
    }
  }
  const bool update_when_final = !active_exchange_->sums() &&
                                 !config_.optimizer.clips() &&
                                 !graph_.backward_may_fail();
  if (update_when_final) updater_.Begin();
  return Backward(update_when_final);
}

Status Stepper::GiveUp(unsigned char request) {
  RINGLET_CHECK(request != 0 && exchange_->sums());
  BeginStep();
  CancelStep();
  replica_ = 0;
  // Layers that sum over the ranks (SynchronizesRanks) wait for this rank, so
  // it runs them, without examples.
  for (int i = 1; i < graph_.size(); ++i) {
    if (!SynchronizesRanks(i)) continue;
    RINGLET_RETURN_IF_ERROR(
        Forward(nullptr, 0, /*training=*/true, /*for_loss=*/true));
    break;
  }
  RINGLET_RETURN_IF_ERROR(report_.Send(request, exchange_.get()));
  if (graph_.num_changes() > 0) {
    std::fill_n(memory_.persistent().layer_state_changes, graph_.num_changes(),
                0.0f);
  }
  count_ = 0;
  update_when_final_ = false;
  final_from_ = graph_.num_trained();
  exchange_->Begin(0, 1);
  RINGLET_RETURN_IF_ERROR(BackwardWithoutExamples());
  if (exchange_->failed()) return FinishGradients();
  RINGLET_RETURN_IF_ERROR(report_.Receive(exchange_.get()));
  CancelStep();
  return Status();
}

Status Stepper::TrainReplicaAlone(int replica, const Batch& batch) {
  replica_ = replica;
  active_exchange_ = no_exchange_.get();
  const Status trained = TrainStep(batch);
  active_exchange_ = exchange_.get();
  return trained;
}

Status Stepper::TrainStep(const Batch& batch) {
  if (batch.count > 0) {
    Batch local_batch = batch;
    local_batch.global_count = batch.count;
    double loss_sum = 0;
    RINGLET_RETURN_IF_ERROR(ForwardAll(local_batch.x, local_batch.count,
                                       /*training=*/true, /*for_loss=*/true));
    RINGLET_RETURN_IF_ERROR(
        SumLosses(local_batch, /*with_gradient=*/true, &loss_sum));
    RINGLET_RETURN_IF_ERROR(Report(local_batch, loss_sum));
    report_.AddResult(replica_);
    const bool update_when_final =
        !config_.optimizer.clips() && !graph_.backward_may_fail();
    updater_.Begin();
    RINGLET_RETURN_IF_ERROR(Backward(update_when_final));
    results_.gradients = false;
    if (!update_when_final) updater_.UpdateAll();
    updater_.ApplyConstraints();
    updater_.ApplyLayerStateChanges(/*replicas=*/1);
  }
  updater_.End();
  return Status();
}

Status Stepper::ComputePassAlone(int replica, const Batch& batch,
                                 StepReport* report) {
  replica_ = replica;
  active_exchange_ = no_exchange_.get();
  const Status computed = RunPass(batch, report);
  active_exchange_ = exchange_.get();
  replica_ = 0;
  results_ = Results();
  return computed;
}

Status Stepper::RunPass(const Batch& batch, StepReport* report) {
  double loss_sum = 0;
  RINGLET_RETURN_IF_ERROR(
      ForwardAll(batch.x, batch.count, /*training=*/true, /*for_loss=*/true));
  RINGLET_RETURN_IF_ERROR(SumLosses(batch, /*with_gradient=*/true, &loss_sum));
  loss_sum += updater_.Penalty() * static_cast<double>(count_);
  RINGLET_RETURN_IF_ERROR(
      report->Compute(batch, loss_sum, loss_sums_, graph_, memory_));
  return Backward(/*update_when_final=*/false);
}

Status Stepper::Test(const Batch& batch) {
  double loss_sum = 0;
  RINGLET_RETURN_IF_ERROR(
      Forward(batch.x, batch.count, /*training=*/false, /*for_loss=*/true));
  RINGLET_RETURN_IF_ERROR(SumLosses(batch, /*with_gradient=*/false, &loss_sum));
  return Report(batch, loss_sum);
}

Status Stepper::Report(const Batch& batch, double loss_sum) {
  const IeeeArithmetic ieee;
  loss_sum += updater_.Penalty() * static_cast<double>(count_);
  return report_.Compute(batch, loss_sum, loss_sums_, graph_, memory_);
}

// --- forward --------------------------------------------------------------

bool Stepper::WithoutActivation(int node) const {
  if (!without_activation_) return false;
  for (const CompileConfig::Output& output : config_.outputs) {
    if (output.node == node) return output.takes_logits;
  }
  return false;
}

OpCall Stepper::MakeCall(int i) {
  const GraphNode& node = graph_.node(i);
  const NodeSpans& spans = memory_.node(i);
  const auto replicas = static_cast<uint64_t>(config_.job_replicas.count());
  const auto replica =
      static_cast<uint64_t>(config_.job_replicas.own().first + replica_);
  OpCall call;
  call.batch = count_;
  call.x = spans.x.data();
  call.y = spans.y;
  call.weights = spans.weights.data();
  call.scratch = spans.forward_scratch;
  call.saved = spans.saved;
  call.without_activation = WithoutActivation(i);
  call.seed = config_.options.seed + node.layer.seed * 0x9E3779B97F4A7C15u +
              graph_.RandomStreamOf(i);
  call.counter =
      static_cast<uint64_t>(updater_.iterations()) * replicas + replica;
  call.pool = config_.pool.get();
  if (SynchronizesRanks(i)) call.workers = this;
  call.dy = spans.dy;
  call.dx = spans.dx.data();
  call.d_weights = spans.d_weights.data();
  call.gradient_offset = graph_.GradientOffset(node);
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

void Stepper::StoreBFloat16(int i, float* values, bool rounds,
                            uint16_t* packed) {
  if (!rounds && packed == nullptr) return;
  const int64_t n = count_ * graph_.node(i).floats();
  config_.pool->Run([&](int t) {
    const Range part = Split(n, config_.pool->threads(), t, 64);
    BestRowLoops().round_to_bfloat16(
        part.size(), values + part.begin,
        packed == nullptr ? nullptr : packed + part.begin);
  });
}

Status Stepper::ForwardNode(int i, int64_t examples) {
  const int64_t begin = timer_.Now();
  OpCall call = MakeCall(i);
  call.training = trains_;
  call.layer_state_changes = memory_.node(i).layer_state_changes.data();
  memory_.PoisonAllBut(memory_.schedule().forward(i),
                       std::max<int64_t>(examples, 1));
  RINGLET_RETURN_IF_ERROR(Run(&Op::Forward, i, call));
  const bool packs = trains_ && memory_.schedule().recompute_time(i) < 0;
  StoreBFloat16(i, call.y, graph_.node(i).rounds_output,
                packs ? memory_.node(i).packed : nullptr);
  timer_.Report(graph_.node(i).layer.name.c_str(), "forward", begin);
  return Status();
}

Status Stepper::Forward(const float* x, int64_t examples, bool training,
                        bool for_loss) {
  if (examples < 0) {
    return InvalidArgument("Forward: a batch of %" PRId64
                           " examples; it must not be negative",
                           examples);
  }
  RINGLET_RETURN_IF_ERROR(Reserve(std::max<int64_t>(examples, 1), training));
  CancelStep();
  replica_ = 0;
  return ForwardAll(x, examples, training, for_loss);
}

Status Stepper::ForwardAll(const float* x, int64_t examples, bool training,
                           bool for_loss) {
  const IeeeArithmetic ieee;
  count_ = examples;
  trains_ = training;
  without_activation_ = for_loss && config_.takes_logits;
  results_.output = false;
  memory_.SetInput(x, count_);
  if (training) {
    std::fill_n(memory_.persistent().layer_state_changes, graph_.num_changes(),
                0.0f);
  }
  BatchParts parts = memory_.parts(training);
  Status status = ForwardParts(examples, parts);
  // An error reports places in the whole batch.
  if (!status.ok() && parts.examples < examples &&
      memory_.frozen_parts().empty()) {
    parts.examples = examples;
    status = ForwardParts(examples, parts);
  }
  RINGLET_RETURN_IF_ERROR(status);
  memory_.PoisonAllBut(memory_.schedule().loss(), count_);
  results_.output = true;
  return Status();
}

// See BatchParts.
Status Stepper::ForwardParts(int64_t examples, const BatchParts& parts) {
  RINGLET_RETURN_IF_ERROR(
      ForwardNodes(graph_.num_inputs(), parts.begin, examples));
  int64_t begin = 0;
  do {
    memory_.SetFirstExample(begin);
    count_ = std::min(parts.examples, examples - begin);
    RINGLET_RETURN_IF_ERROR(ForwardNodes(parts.begin, parts.end, examples));
    begin += count_;
  } while (begin < examples);
  memory_.SetFirstExample(0);
  count_ = examples;
  return ForwardNodes(parts.end, graph_.size(), examples);
}

Status Stepper::ForwardNodes(int begin, int end, int64_t examples) {
  for (int i = begin; i < end; ++i) {
    if (!RunsNode(i)) continue;
    RINGLET_RETURN_IF_ERROR(ForwardNode(i, examples));
  }
  return Status();
}

// --- loss -----------------------------------------------------------------

StepMask Stepper::OutputMask(size_t k) const {
  const int mask = graph_.output_mask(k);
  if (mask < 0) return {};
  return {memory_.node(mask).y, graph_.node(mask).output.elements()};
}

Status Stepper::ComputeLosses(const Batch& batch, size_t k, float* gradient,
                              double* sum) {
  const CompileConfig::Output& end = config_.outputs[k];
  const GraphNode& last = graph_.node(end.node);
  const bool from_logits = without_activation_ && end.takes_logits;
  float* const output = memory_.node(end.node).y;
  float* const per_example = memory_.step().per_example;
  const LossScale scale = ScaleOf(end.loss, last.output, batch.global_count);
  RINGLET_RETURN_IF_ERROR(ringlet::ComputeLoss(
      from_logits ? end.step_loss : end.output_loss, last.output, count_,
      output, config_.TargetsOf(k, batch), scale.gradient * end.weight,
      per_example, gradient, batch.weights, OutputMask(k)));
  for (int64_t i = 0; i < count_; ++i) *sum += per_example[i];
  *sum *= scale.sum;
  if (from_logits) {
    const int64_t width = last.output.back();
    BiasActivation(last.op->fused_activation(), nullptr,
                   count_ * last.output.elements() / width, width, output);
  }
  return Status();
}

// Computes the sum of the examples' losses, with each output's weight. The sum
// divided by global_count is the step's loss, also for a loss with reduction
// kSum. With a gradient, it computes the gradient of this quotient.
Status Stepper::SumLosses(const Batch& batch, bool with_gradient,
                          double* loss_sum) {
  if (batch.count != count_ || batch.global_count < 1) {
    return InvalidArgument("loss of %" PRId64 " examples of %" PRId64
                           " after a forward pass of %" PRId64,
                           batch.count, batch.global_count, count_);
  }
  const IeeeArithmetic ieee;
  const int64_t begin = timer_.Now();
  *loss_sum = 0;
  loss_sums_.assign(config_.outputs.size(), 0);
  for (size_t k = 0; k < loss_sums_.size() && count_ > 0; ++k) {
    const CompileConfig::Output& output = config_.outputs[k];
    if (!output.has_loss) continue;
    const bool keeps = with_gradient && graph_.node(output.node).needs_gradient;
    RINGLET_RETURN_IF_ERROR(
        ComputeLosses(batch, k, keeps ? memory_.node(output.node).dy : nullptr,
                      &loss_sums_[k]));
    *loss_sum += output.weight * loss_sums_[k];
  }
  results_.gradient_of_loss = with_gradient;
  results_.output = !with_gradient && !without_activation_;
  timer_.Report("loss", "forward", begin);
  return Status();
}

Status Stepper::ComputeLoss(const Batch& batch, double* loss) {
  if (!results_.output) {
    return InvalidArgument("ComputeLoss needs a Forward before it");
  }
  RINGLET_RETURN_IF_ERROR(SumLosses(batch, trains_, loss));
  batch_ = batch;
  batch_.x = memory_.node(0).y;
  loader_ = nullptr;
  *loss = *loss / static_cast<double>(batch.global_count) +
          updater_.Penalty() / config_.job_replicas.count();
  return Status();
}

}  // namespace ringlet
