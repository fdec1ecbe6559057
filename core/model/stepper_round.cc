// Rounds of local updates; see stepper.cc.

#include <algorithm>

#include "../base/check.h"
#include "../base/clock.h"
#include "../base/ieee_arithmetic.h"
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
  missed_ = 0;
  round_.Begin();
  Status status = TrainRoundOf(last, steps, loader, /*waits=*/false);
  DropColdTimes();
  if (status.ok()) status = report_.Receive(exchange_.get());
  if (status.ok() && !report_.has_note() && !HasQuorum()) {
    missed_ = report_.late();
    Drop();
    loader->RoundAgain();
    status = loader->Next(last);
    if (status.ok()) status = TrainRoundOf(last, steps, loader, /*waits=*/true);
    if (status.ok()) status = report_.Receive(exchange_.get());
  }
  if (status.ok() && !report_.has_note()) {
    status = EndRound();
    *taken = status.ok();
  }
  Drop();
  if (!status.ok()) Abandon();
  if (!*taken) round_.Undo();
  if (status.ok()) NoteStepEnded();
  return status;
}

// The change that moves the weights: this round's, or the one's before.
Status Stepper::EndRound() {
  const KeptSpans& kept = memory_.kept();
  round_state_.Scatter();
  if (!config_.options.local.overlap) {
    bool again = false;
    RINGLET_RETURN_IF_ERROR(rounds_->Finish(&again));
    FinishRound();
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
  if (config_.local()) Abandon();
  round_state_.Reset();  // that of another Compile too
}

Status Stepper::GatherRounds(const ReplicaShares* next) {
  if (!config_.options.local.scatters()) return Status();
  RINGLET_RETURN_IF_ERROR(CollectPending());
  return round_state_.Gather(next);
}

Status Stepper::EndRounds() {
  const IeeeArithmetic ieee;
  if (!round_state_.pending()) return Status();
  RINGLET_RETURN_IF_ERROR(CollectPending());
  round_state_.EndEpoch();
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

// The sum is of what the replicas' examples are of all that there are.
void Stepper::FinishRound() {
  const double counted = report_.sums()[0].count;
  const auto of_all = static_cast<double>(of_all_);
  if (counted > 0 && counted != of_all) round_.Scale(of_all / counted);
  round_.Finish(memory_.kept().gradients);
}

// Of a replica whose steps begin then.
int64_t Stepper::RoundDeadline(int64_t begin) const {
  const double seconds = config_.options.local.round_deadline_seconds;
  if (seconds <= 0) return INT64_MAX;
  return begin + static_cast<int64_t>(std::min(seconds, 1e9) * 1e9);
}

bool Stepper::HasQuorum() const {
  // Those without examples are no fewer a second time.
  if (report_.late() == 0) return true;
  const std::vector<double>& examples = report_.examples();
  return std::count_if(examples.begin(), examples.end(), [](double n) {
           return n > 0;
         }) >= config_.options.local.quorum;
}

Status Stepper::TryRound(const Batch& batch, int64_t steps, BatchLoader* loader,
                         RoundTimes* times) {
  const IeeeArithmetic ieee;
  RINGLET_CHECK(config_.local() && steps > 0);
  RINGLET_RETURN_IF_ERROR(
      Reserve(std::max<int64_t>(batch.count, 1), /*training=*/true));
  Drop();
  Batch last = batch;
  round_.Begin();
  Clock* const clock = config_.options.clock;
  const int64_t begin = clock->MonotonicNanos();
  Status status = TrainRoundOf(&last, steps, loader, /*waits=*/true);
  times->steps = clock->MonotonicNanos() - begin;
  DropColdTimes();
  // Once it is there all ranks have come to the exchange.
  if (status.ok()) status = report_.Receive(exchange_.get());
  const int64_t met = clock->MonotonicNanos();
  bool again = false;
  if (status.ok()) status = exchange_->Finish(&again);
  times->exchange = clock->MonotonicNanos() - met;
  Drop();
  round_.Undo();
  return status;
}

// What this rank's replicas change goes to the exchange, of those that take
// part.
Status Stepper::TrainRoundOf(Batch* batch, int64_t steps, BatchLoader* loader,
                             bool waits) {
  const ReplicaRange own = config_.own;
  RINGLET_RETURN_IF_ERROR(participation_.Draw(updater_.round_begin(), steps));
  shares_.assign(static_cast<size_t>(own.count), 0);
  int mine = 0, done = 0;
  for (int k = 0; k < own.count; ++k) {
    report_.Clear(k);
    mine += participation_.drawn(own.first + k) ? 1 : 0;
  }
  exchange_->Expect(participation_.count());
  for (replica_ = 0; replica_ < own.count; ++replica_) {
    RINGLET_RETURN_IF_ERROR(ReplicaRound(batch, steps, loader, waits));
    if (!participation_.drawn(own.first + replica_)) continue;
    if (++done == mine) {
      RINGLET_RETURN_IF_ERROR(report_.Send(/*note=*/0, exchange_.get()));
    }
    exchange_->Begin(done - 1, mine);
    exchange_->Ready(0);
  }
  updater_.EndRound(steps);
  if (mine > 0) return Status();
  RINGLET_RETURN_IF_ERROR(report_.Send(/*note=*/0, exchange_.get()));
  exchange_->Begin(0, 0);
  exchange_->Ready(0);
  return Status();
}

// The steps of one replica, and what they come to; of one that does not take
// part, or is late, nothing but where its data stand.
Status Stepper::ReplicaRound(Batch* batch, int64_t steps, BatchLoader* loader,
                             bool waits) {
  Clock* const clock = config_.options.clock;
  const int64_t begin = clock->MonotonicNanos();
  const int64_t deadline = waits ? INT64_MAX : RoundDeadline(begin);
  const int replica = config_.own.first + replica_;
  // Of the first replica the first batch is there.
  int64_t read = replica_ == 0 ? 1 : 0, of_all = 0, examples = 0;
  if (read > 0) of_all = batch->global_count;
  round_.BeginReplica(round_state_.StartOf(replica));
  bool counts =
      participation_.drawn(replica) && (waits || !participation_.late(replica));
  for (int64_t s = 0; s < steps && counts; ++s) {
    BeginStep();
    if (s == read) {
      RINGLET_RETURN_IF_ERROR(loader->Next(batch));
      of_all += batch->global_count;
      ++read;
    }
    passes_ = alone_.get();
    const Status trained = LocalStep(*batch);
    passes_ = exchange_.get();
    RINGLET_RETURN_IF_ERROR(trained);
    examples += batch->count;
    counts = clock->MonotonicNanos() <= deadline;
  }
  RINGLET_RETURN_IF_ERROR(loader->Skip(steps - read, batch, &of_all));
  of_all_ = of_all;
  // (Of one that does not take part the report, which may be on its way, has
  // nothing.)
  if (!participation_.drawn(replica)) return Status();
  if (!counts) {
    report_.LeaveOut(replica_);
    round_.LeaveOut();
    return Status();
  }
  double* const share = &shares_[static_cast<size_t>(replica_)];
  *share = static_cast<double>(examples) / static_cast<double>(of_all);
  round_.EndReplica(*share);
  if (examples > 0) AddReplica(clock->MonotonicNanos() - begin);
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
