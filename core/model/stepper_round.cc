// Rounds of local updates; see stepper.cc.

#include <algorithm>

#include "../base/check.h"
#include "../base/clock.h"
#include "../base/ieee_arithmetic.h"
#include "../base/trail.h"
#include "stepper.h"

namespace ringlet {
namespace {

constexpr int64_t kWaits = 0;  // in place of a deadline

}  // namespace

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
  Status status = TrainRoundOf(last, steps, loader, RoundDeadline());
  DropColdTimes();
  if (status.ok()) status = report_.Receive(exchange_.get());
  if (status.ok() && !report_.has_note() && !HasQuorum()) {
    Drop();
    loader->RoundAgain();
    status = loader->Next(last);
    if (status.ok()) status = TrainRoundOf(last, steps, loader, kWaits);
    if (status.ok()) status = report_.Receive(exchange_.get());
  }
  if (status.ok() && !report_.has_note()) {
    bool again = false;
    status = exchange_->Finish(&again);
    *taken = status.ok();
  }
  if (status.ok()) {
    NoteEvent(TrailKind::kStepEnded,
              static_cast<uint64_t>(updater_.iterations()));
  }
  Drop();
  if (*taken) {
    FinishRound();
  } else {
    round_.Undo();
  }
  return status;
}

// The sum is of what the replicas' examples are of all that there are.
void Stepper::FinishRound() {
  const double counted = report_.sums()[0].count;
  const auto of_all = static_cast<double>(of_all_);
  round_.Finish(counted > 0 ? of_all / counted : 1);
}

int64_t Stepper::RoundDeadline() const {
  const double seconds = config_.options.local.round_deadline_seconds;
  if (seconds <= 0) return INT64_MAX;
  return Clock::System()->MonotonicNanos() +
         static_cast<int64_t>(std::min(seconds, 1e9) * 1e9);
}

bool Stepper::HasQuorum() const {
  const LocalUpdates& local = config_.options.local;
  // Those without examples are no fewer a second time.
  if (local.round_deadline_seconds <= 0 && local.attendance == nullptr) {
    return true;
  }
  const std::vector<double>& examples = report_.examples();
  return std::count_if(examples.begin(), examples.end(),
                       [](double n) { return n > 0; }) >= local.quorum;
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
  Clock* const clock = Clock::System();
  const int64_t begin = clock->MonotonicNanos();
  Status status = TrainRoundOf(&last, steps, loader, kWaits);
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
// part. `deadline` kWaits: whoever is late is waited for.
Status Stepper::TrainRoundOf(Batch* batch, int64_t steps, BatchLoader* loader,
                             int64_t deadline) {
  const ReplicaRange own = config_.own;
  RINGLET_RETURN_IF_ERROR(participation_.Draw(updater_.round_begin()));
  int mine = 0, done = 0;
  for (int k = 0; k < own.count; ++k) {
    report_.Clear(k);
    mine += participation_.drawn(own.first + k) ? 1 : 0;
  }
  exchange_->Expect(participation_.count());
  for (replica_ = 0; replica_ < own.count; ++replica_) {
    RINGLET_RETURN_IF_ERROR(ReplicaRound(batch, steps, loader, deadline));
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
                             int64_t deadline) {
  Clock* const clock = Clock::System();
  const int64_t begin = clock->MonotonicNanos();
  const int replica = config_.own.first + replica_;
  // Of the first replica the first batch is there.
  int64_t read = replica_ == 0 ? 1 : 0, of_all = 0, examples = 0;
  if (read > 0) of_all = batch->global_count;
  round_.BeginReplica();
  bool counts = participation_.drawn(replica) &&
                (deadline == kWaits || !participation_.late(replica));
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
    counts = deadline == kWaits || clock->MonotonicNanos() <= deadline;
  }
  RINGLET_RETURN_IF_ERROR(loader->Skip(steps - read, batch, &of_all));
  of_all_ = of_all;
  if (!counts) {
    report_.Clear(replica_);
    if (participation_.drawn(replica)) round_.LeaveOut();
    return Status();
  }
  round_.EndReplica(static_cast<double>(examples) /
                    static_cast<double>(of_all));
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
