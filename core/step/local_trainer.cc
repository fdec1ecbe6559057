// A round becomes the state only if no rank has an error or a request to stop,
// which all ranks learn from the same reports (Receive). Whatever ends a round
// earlier calls Undo. A rank with no replica in the round still makes every
// call of the exchange. Times decide only which replicas are late. They never
// change a number of the other replicas.

#include "local_trainer.h"

#include <algorithm>

#include "../base/check.h"
#include "../base/ieee_arithmetic.h"
#include "../base/time_units.h"
#include "ringlet/collective.h"

namespace ringlet {

void LocalTrainer::SetExchange(RoundExchange* rounds) {
  rounds_ = rounds;
  is_sent_ = false;
}

Status LocalTrainer::TrainRound(const Batch& batch, int64_t steps,
                                BatchLoader* loader, Batch* last,
                                bool* applied) {
  const IeeeArithmetic ieee;
  RINGLET_CHECK(config_.local() && steps > 0);
  stepper_.WarnOfNothingToTrain();
  RINGLET_RETURN_IF_ERROR(
      stepper_.Reserve(std::max<int64_t>(batch.count, 1), /*training=*/true));
  stepper_.CancelStep();
  *last = batch;
  *applied = false;
  late_replicas_ = 0;
  round_.Begin();
  Status status = TrainReplicas(last, steps, loader, /*waits=*/false);
  stepper_.times().DropCold();
  if (status.ok()) status = stepper_.report().Receive(stepper_.exchange());
  if (status.ok() && !stepper_.report().has_request() && !HasQuorum()) {
    late_replicas_ = stepper_.report().late_replicas();
    stepper_.CancelStep();
    loader->RewindRound();
    status = loader->Next(last);
    if (status.ok()) {
      status = TrainReplicas(last, steps, loader, /*waits=*/true);
    }
    if (status.ok()) status = stepper_.report().Receive(stepper_.exchange());
  }
  if (status.ok() && !stepper_.report().has_request()) {
    status = ApplyRoundChange();
    *applied = status.ok();
  }
  stepper_.CancelStep();
  if (!status.ok()) Abandon();
  if (!*applied) round_.Undo();
  return status;
}

// Moves the weights by the change of this round or, with overlap, of the round
// before.
Status LocalTrainer::ApplyRoundChange() {
  const PersistentSpans& spans = memory_.persistent();
  state_.MarkChanged();
  if (!config_.options.local.overlap) {
    bool must_repeat = false;
    RINGLET_RETURN_IF_ERROR(rounds_->Finish(&must_repeat));
    FinishRound();
    return Status();
  }
  RINGLET_RETURN_IF_ERROR(CollectPending());
  RINGLET_RETURN_IF_ERROR(rounds_->Start());
  round_.Finish(state_.pending() ? spans.pending : nullptr);
  state_.SetPending(true);
  is_sent_ = true;
  const int64_t numbers = graph_.num_trained() + graph_.num_changes();
  for (int k = 0; k < config_.job_replicas.own().count; ++k) {
    const float* const contribution = k + 1 == config_.job_replicas.own().count
                                          ? spans.gradients
                                          : spans.contributions + k * numbers;
    round_.Predict(contribution, example_fractions_[static_cast<size_t>(k)],
                   state_.StartWeights(config_.job_replicas.own().first + k));
  }
  return Status();
}

Status LocalTrainer::CollectPending() {
  if (!is_sent_) return Status();
  is_sent_ = false;
  return rounds_->Collect(memory_.persistent().pending);
}

void LocalTrainer::Reset() {
  if (config_.local()) Abandon();
  state_.Reset();  // also the state of an earlier Compile
}

Status LocalTrainer::GatherRoundState() {
  if (!config_.options.local.keeps_state_per_worker()) return Status();
  RINGLET_RETURN_IF_ERROR(CollectPending());
  return state_.Gather();
}

Status LocalTrainer::EndRounds() {
  const IeeeArithmetic ieee;
  if (!state_.pending()) return Status();
  RINGLET_RETURN_IF_ERROR(CollectPending());
  state_.SetPending(false);
  round_.Begin();
  round_.Finish(memory_.persistent().pending);
  return Status();
}

void LocalTrainer::Abandon() {
  if (is_sent_) state_.SetPending(false);
  is_sent_ = false;
  if (rounds_ != nullptr) rounds_->Abandon();
  stepper_.CancelStep();
}

// Each replica's part is weighted by its fraction of all examples. All examples
// include the examples of replicas that do not count.
void LocalTrainer::FinishRound() {
  const double counted = stepper_.report().sums()[0].count;
  const auto job_examples = static_cast<double>(job_examples_);
  if (counted > 0 && counted != job_examples)
    round_.Scale(job_examples / counted);
  round_.Finish(memory_.persistent().gradients);
}

// `begin` is the time at which the replica's steps begin.
int64_t LocalTrainer::Deadline(int64_t begin) const {
  const double seconds = config_.options.local.round_deadline_seconds;
  if (seconds <= 0) return INT64_MAX;
  return begin + Nanos(std::min(seconds, 1e9));
}

bool LocalTrainer::HasQuorum() const {
  // If no replica was late, a second computation would give the same result.
  if (stepper_.report().late_replicas() == 0) return true;
  const std::vector<double>& examples = stepper_.report().examples();
  return std::count_if(examples.begin(), examples.end(), [](double n) {
           return n > 0;
         }) >= config_.options.local.quorum;
}

Status LocalTrainer::MeasureRound(const Batch& batch, int64_t steps,
                                  BatchLoader* loader, Times* times) {
  const IeeeArithmetic ieee;
  RINGLET_CHECK(config_.local() && steps > 0);
  RINGLET_RETURN_IF_ERROR(
      stepper_.Reserve(std::max<int64_t>(batch.count, 1), /*training=*/true));
  stepper_.CancelStep();
  Batch last = batch;
  round_.Begin();
  Clock* const clock = config_.options.clock;
  const int64_t begin = clock->MonotonicNanos();
  Status status = TrainReplicas(&last, steps, loader, /*waits=*/true);
  times->steps = clock->MonotonicNanos() - begin;
  stepper_.times().DropCold();
  // After the reports have arrived all ranks have reached the exchange.
  if (status.ok()) status = stepper_.report().Receive(stepper_.exchange());
  const int64_t met = clock->MonotonicNanos();
  bool must_repeat = false;
  if (status.ok()) status = stepper_.exchange()->Finish(&must_repeat);
  times->exchange = clock->MonotonicNanos() - met;
  stepper_.CancelStep();
  round_.Undo();
  return status;
}

// Trains this rank's replicas that take part, and gives their changes to the
// exchange.
Status LocalTrainer::TrainReplicas(Batch* batch, int64_t steps,
                                   BatchLoader* loader, bool waits) {
  const ReplicaRange replicas = config_.job_replicas.own();
  RINGLET_RETURN_IF_ERROR(participation_.Sample(updater_.round_begin()));
  example_fractions_.assign(static_cast<size_t>(replicas.count), 0);
  int num_sampled = 0, num_trained = 0;
  for (int k = 0; k < replicas.count; ++k) {
    stepper_.report().ClearResult(k);
    num_sampled += participation_.sampled(replicas.first + k) ? 1 : 0;
  }
  stepper_.exchange()->Expect(participation_.count());
  for (int k = 0; k < replicas.count; ++k) {
    RINGLET_RETURN_IF_ERROR(TrainReplica(k, batch, steps, loader, waits));
    if (!participation_.sampled(replicas.first + k)) continue;
    if (++num_trained == num_sampled) {
      RINGLET_RETURN_IF_ERROR(
          stepper_.report().Send(/*request=*/0, stepper_.exchange()));
    }
    stepper_.exchange()->Begin(num_trained - 1, num_sampled);
    stepper_.exchange()->OnGradientsFinal(0);
  }
  updater_.EndRound(steps);
  if (num_sampled > 0) return Status();
  RINGLET_RETURN_IF_ERROR(
      stepper_.report().Send(/*request=*/0, stepper_.exchange()));
  stepper_.exchange()->Begin(0, 0);
  stepper_.exchange()->OnGradientsFinal(0);
  return Status();
}

// Trains the steps of one replica, and computes its change. A late replica, or
// a replica that does not take part, only skips its data.
Status LocalTrainer::TrainReplica(int k, Batch* batch, int64_t steps,
                                  BatchLoader* loader, bool waits) {
  Clock* const clock = config_.options.clock;
  const int64_t begin = clock->MonotonicNanos();
  const int64_t deadline = waits ? INT64_MAX : Deadline(begin);
  const int replica = config_.job_replicas.own().first + k;
  // The caller has read the first batch of the first replica.
  int64_t read = k == 0 ? 1 : 0, job_examples = 0, examples = 0;
  if (read > 0) job_examples = batch->global_count;
  round_.BeginReplica(state_.StartWeights(replica));
  bool counts = participation_.sampled(replica) &&
                (waits || !participation_.late(replica));
  for (int64_t s = 0; s < steps && counts; ++s) {
    stepper_.BeginStep();
    if (s == read) {
      RINGLET_RETURN_IF_ERROR(loader->Next(batch));
      job_examples += batch->global_count;
      ++read;
    }
    RINGLET_RETURN_IF_ERROR(stepper_.TrainReplicaAlone(k, *batch));
    examples += batch->count;
    counts = clock->MonotonicNanos() <= deadline;
  }
  RINGLET_RETURN_IF_ERROR(loader->Skip(steps - read, batch, &job_examples));
  job_examples_ = job_examples;
  // The report may already be sent. It is empty for this replica.
  if (!participation_.sampled(replica)) return Status();
  if (!counts) {
    stepper_.report().MarkLate(k);
    round_.ExcludeReplica();
    return Status();
  }
  double* const fraction = &example_fractions_[static_cast<size_t>(k)];
  *fraction = static_cast<double>(examples) / static_cast<double>(job_examples);
  round_.EndReplica(*fraction);
  if (examples > 0) stepper_.times().Add(clock->MonotonicNanos() - begin);
  return Status();
}

}  // namespace ringlet
