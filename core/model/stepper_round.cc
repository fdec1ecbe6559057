// Rounds of local updates; see stepper.cc.

#include <algorithm>

#include "../base/check.h"
#include "../base/clock.h"
#include "../base/ieee_arithmetic.h"
#include "../base/trail.h"
#include "stepper.h"

namespace ringlet {

Status Stepper::TrainRound(const Batch& batch, int64_t steps,
                           BatchLoader* loader, Batch* last, bool* taken) {
  const IeeeArithmetic ieee;
  RINGLET_CHECK(config_.local() && steps > 0);
  WarnOfNothingToTrain();
  RINGLET_RETURN_IF_ERROR(
      Reserve(std::max<int64_t>(batch.count, 1), /*training=*/true));
  Drop();
  *last = batch;
  *taken = false;
  round_.Begin();
  Status status = TrainRoundOf(last, steps, loader);
  DropColdTimes();
  if (status.ok()) status = report_.Receive(exchange_.get());
  if (status.ok() && !report_.has_note()) {
    status = EndRound();
    *taken = status.ok();
  }
  if (status.ok()) {
    NoteEvent(TrailKind::kStepEnded,
              static_cast<uint64_t>(updater_.iterations()));
  }
  Drop();
  if (!status.ok()) Abandon();
  if (!*taken) round_.Undo();
  return status;
}

// The change that moves the weights: this round's, or the one's before.
Status Stepper::EndRound() {
  const KeptSpans& kept = memory_.kept();
  round_state_.Scatter();
  if (!config_.options.local.overlap) {
    bool again = false;
    RINGLET_RETURN_IF_ERROR(rounds_->Finish(&again));
    round_.Finish(kept.gradients);
    return Status();
  }
  RINGLET_RETURN_IF_ERROR(CollectPending());
  RINGLET_RETURN_IF_ERROR(rounds_->Start());
  round_.Finish(round_state_.pending() ? kept.pending : nullptr);
  round_state_.SetPending(true);
  travels_ = true;
  const int64_t numbers = graph_.num_trained() + graph_.num_changes();
  for (int k = 0; k < config_.own.count; ++k) {
    const float* const contribution = k + 1 == config_.own.count
                                          ? kept.gradients
                                          : kept.contributions + k * numbers;
    round_.Predict(contribution, shares_[static_cast<size_t>(k)],
                   round_state_.StartOf(config_.own.first + k));
  }
  return Status();
}

Status Stepper::CollectPending() {
  if (!travels_) return Status();
  travels_ = false;
  return rounds_->Collect(memory_.kept().pending);
}

void Stepper::BeginRounds() {
  if (!config_.local()) return;
  Abandon();
  round_state_.Reset();
}

Status Stepper::GatherRounds() {
  if (!config_.local()) return Status();
  RINGLET_RETURN_IF_ERROR(CollectPending());
  return round_state_.Gather();
}

Status Stepper::EndRounds() {
  const IeeeArithmetic ieee;
  if (!round_state_.pending()) return Status();
  RINGLET_RETURN_IF_ERROR(CollectPending());
  round_state_.SetPending(false);
  round_.Begin();
  round_.Finish(memory_.kept().pending);
  return Status();
}

void Stepper::Abandon() {
  if (travels_) round_state_.SetPending(false);
  travels_ = false;
  if (rounds_ != nullptr) rounds_->Abandon();
  Drop();
}

// What this rank's replicas change goes to the exchange.
Status Stepper::TrainRoundOf(Batch* batch, int64_t steps, BatchLoader* loader) {
  const int replicas = config_.own.count;
  shares_.assign(static_cast<size_t>(replicas), 0);
  for (int k = 0; k < replicas; ++k) {
    replica_ = k;
    round_.BeginReplica(round_state_.StartOf(config_.own.first + k));
    report_.Clear(k);
    const int64_t begin = Clock::System()->MonotonicNanos();
    int64_t examples = 0, of_all = 0;
    for (int64_t s = 0; s < steps; ++s) {
      BeginStep();
      if (k + s > 0) RINGLET_RETURN_IF_ERROR(loader->Next(batch));
      passes_ = alone_.get();
      const Status trained = LocalStep(*batch);
      passes_ = exchange_.get();
      RINGLET_RETURN_IF_ERROR(trained);
      examples += batch->count;
      of_all += batch->global_count;
    }
    shares_[static_cast<size_t>(k)] =
        static_cast<double>(examples) / static_cast<double>(of_all);
    round_.EndReplica(shares_[static_cast<size_t>(k)]);
    if (examples > 0) AddReplica(Clock::System()->MonotonicNanos() - begin);
    if (k + 1 == replicas) {
      RINGLET_RETURN_IF_ERROR(report_.Send(/*note=*/0, exchange_.get()));
    }
    exchange_->Begin(k, replicas);
    exchange_->Ready(0);
  }
  return Status();
}

// One of this replica alone, on its own examples.
Status Stepper::LocalStep(const Batch& batch) {
  if (batch.count > 0) {
    Batch own = batch;
    own.global_count = batch.count;
    double loss_sum = 0;
    RINGLET_RETURN_IF_ERROR(ForwardAll(own.x, own.count, true, true));
    RINGLET_RETURN_IF_ERROR(SumLosses(own, true, &loss_sum));
    RINGLET_RETURN_IF_ERROR(Report(own, loss_sum));
    report_.Add(replica_);
    const bool at_once = !config_.optimizer.clips() && !graph_.may_fail();
    updater_.Begin();
    RINGLET_RETURN_IF_ERROR(Backward(at_once));
    have_.gradients = false;
    if (!at_once) updater_.UpdateAll();
    updater_.ChangeState(/*replicas=*/1);
  }
  updater_.End();
  return Status();
}

}  // namespace ringlet
