// Part of Fitter (fitter.cc): when the replicas are compared, the choice of the
// RecoveryMode, and the history of epochs.

#include <algorithm>
#include <vector>

#include "../base/collective_numbers.h"
#include "../base/events.h"
#include "../base/text.h"
#include "../base/time_units.h"
#include "../data/dataset_parts.h"
#include "fitter.h"
#include "ringlet/collective.h"
#include "run_state.h"

namespace ringlet {

// With `cross_check` the members of an elastic job verify each other's states.
void Fitter::SetUpChecks() {
  if (options_.cross_check && options_.check_replicas_every != 0) {
    parts_.record().check_examples =
        dataset_.parts().LargestPart(model_->num_replicas());
  }
  recovery_.SetMode(ModeOfRecovery());
}

RecoveryMode Fitter::ModeOfRecovery() const {
  const Collective& collective = *model_->collective();
  if (collective.elastic()) {
    const bool verifies = parts_.record().check_examples > 0;
    return verifies ? RecoveryMode::kFromVerified : RecoveryMode::kFromBoundary;
  }
  if (collective.size() == 1 || !AnyRestoresAfterLoss(options_.callbacks)) {
    return RecoveryMode::kOff;
  }
  return model_->local_updates().keeps_state_per_worker()
             ? RecoveryMode::kFromBackup
             : RecoveryMode::kFromBoundary;
}

Status Fitter::CheckReplicas() {
  if (options_.check_replicas_every == 0) return Status();
  Clock* const clock = Clock::System();
  check_pace_.BeginCheck(model_->iterations(), clock->MonotonicNanos());
  const Status status = model_->CheckReplicas();
  all_ranks_have_error_ = status.code() == Code::kOutOfSync;
  RecordCheck(status);
  RINGLET_RETURN_IF_ERROR(status);
  recovery_.PassCheck();
  check_pace_.EndCheck(model_->iterations(), clock->MonotonicNanos());
  return checks_by_time() ? ChooseCheckPace() : Status();
}

// A check may come with every step. Of the checks that agreed, at most one in
// 10 s is recorded.
void Fitter::RecordCheck(const Status& status) {
  const bool agreed = status.ok();
  if (g_events == nullptr || alone()) return;
  if (!agreed && !all_ranks_have_error_ && !parts_.consistency().check_failed())
    return;  // no check
  const int64_t now = Clock::System()->MonotonicNanos();
  if (agreed && now < next_check_event_) return;
  next_check_event_ = now + 10 * kSecond;
  Event event("check");
  event.Int("epoch", fit_.epoch).Int("step", model_->iterations());
  if (model_->collective()->elastic() && agreed) {
    event.Text(
        "digest",
        HexText(static_cast<uint64_t>(parts_.consistency().passed_digest())));
  }
  RecordEvent(event.Add("agreed", JsonWriter().Bool(agreed)));
}

Status Fitter::ChooseCheckPace() {
  constexpr size_t kNumbers = 3;
  const CheckTimes& own_times = check_pace_.own_times();
  const int64_t numbers[kNumbers] = {own_times.step, own_times.check,
                                     check_pace_.every()};
  std::vector<int64_t> all(kNumbers *
                           static_cast<size_t>(model_->collective()->size()));
  RINGLET_RETURN_IF_ERROR(AllGatherNumbers(
      model_->collective(), numbers, sizeof(int64_t), kNumbers, all.data()));
  // A rank that came early has also measured its wait. The last one has not
  // waited, so the shortest check time is the true one.
  CheckTimes times = {all[0], all[1]};
  int64_t every = all[2];
  for (size_t i = kNumbers; i < all.size(); i += kNumbers) {
    times.step = std::max(times.step, all[i]);
    times.check = std::min(times.check, all[i + 1]);
    every = std::max(every, all[i + 2]);
  }
  check_pace_.Choose(times, every);
  return Status();
}

int64_t Fitter::StepsBetweenChecks() const {
  constexpr int64_t kUsual = 100;
  const int64_t every = options_.check_replicas_every;
  return every == kCheckByTime ? kUsual : every;
}

// Compares the members of a new view, before any of them contributes to a step.
Status Fitter::CheckReplicasAtBegin() {
  return model_->collective()->elastic() ? CheckReplicas() : Status();
}

Status Fitter::CheckReplicasAtStep() {
  if (checks_by_time()) {
    return check_pace_.due(model_->iterations()) ? CheckReplicas() : Status();
  }
  const int64_t every = StepsBetweenChecks();
  const bool due = every > 0 && model_->iterations() % every < fit_.steps_taken;
  return due ? CheckReplicas() : Status();
}

void Fitter::RecordEpoch(int64_t epoch, const Logs& logs, History* history) {
  std::vector<int64_t>& all = history->epoch;
  const auto entry = std::lower_bound(all.begin(), all.end(), epoch);
  const auto log = history->logs.begin() + (entry - all.begin());
  if (entry != all.end() && *entry == epoch) {
    *log = logs;
  } else {
    all.insert(entry, epoch);
    history->logs.insert(log, logs);
  }
}

// In an elastic job an unreachable worker may have the state.
Status Fitter::MissingStateError() const {
  if (model_->collective()->elastic()) {
    return Error(Code::kCancelled,
                 "no reachable worker has a valid state of the run, and there "
                 "is no backup: the worker that had it was lost while it sent "
                 "the state to this one. Start this worker again");
  }
  return Error(
      Code::kInternal,
      "no worker has a valid state of the run, and there is no backup; "
      "start all workers again, from the beginning");
}

}  // namespace ringlet
