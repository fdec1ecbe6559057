// snapshot_ has all of the state except weights and slots, which are in the
// model. So the two are one state only from a boundary to the next OnUpdate.
// StepSnapshot::Restore requires that the callbacks are set up as they were at
// Plan.

#include "recovery.h"

#include <algorithm>
#include <cinttypes>
#include <new>

#include "../base/collective_numbers.h"
#include "../model/model_parts.h"
#include "ringlet/collective.h"
#include "ringlet/status.h"

namespace ringlet {

void Recovery::SetMode(RecoveryMode mode) {
  if (mode == mode_) return;
  mode_ = mode;
  state_ = RecoveryState(mode == RecoveryMode::kFromVerified);
}

// --- a view forms ---------------------------------------------------------

StateSummary Recovery::Summarize() const {
  StateSummary summary;
  summary.has_trained = begun_ ? 1 : 0;
  summary.valid = state_.valid() ? 1 : 0;
  summary.progress = state_.progress();
  summary.epoch = *parts_.epoch;
  if (state_.valid()) summary.digest = model_parts_.consistency().StateDigest();
  if (!state_.has_point()) return summary;
  summary.point_step = state_.point().step;
  summary.point_epoch = point_.epoch();
  summary.point_digest = point_.digest();
  return summary;
}

// Rolls back by the members of the present and of the last view. Call it before
// Summarize.
OnViewAction Recovery::RollBack() {
  uint64_t members = 0, staying = 0;
  std::array<int64_t, kMaxElasticWorkers> incarnations = {};
  for (const Member& member : model_parts_.consistency().members()) {
    const auto w = static_cast<size_t>(member.worker);
    // Only a job that is not elastic has such numbers.
    if (member.worker < 0 || w >= incarnations.size()) continue;
    incarnations[w] = member.state_incarnation;
    members |= uint64_t{1} << w;
    if (incarnations_[w] == member.state_incarnation) {
      staying |= uint64_t{1} << w;
    }
  }
  incarnations_ = incarnations;
  return state_.EnterView(members, staying);
}

Status Recovery::EnterView(RestoreSource* source) {
  *source = RestoreSource::kStart;
  Collective* const collective = model_.collective();
  if (RollBack() == OnViewAction::kRollBack) point_.Restore(&snapshot_);
  if (collective->size() == 1 && !collective->elastic()) return Status();
  if (state_.valid()) RINGLET_RETURN_IF_ERROR(snapshot_.Restore(parts_.all));
  const StateSummary own_summary = Summarize();
  constexpr size_t kNumbers = sizeof(StateSummary) / sizeof(int64_t);
  std::vector<StateSummary> summaries(static_cast<size_t>(collective->size()));
  RINGLET_RETURN_IF_ERROR(AllGatherNumbers(
      collective, &own_summary, sizeof(int64_t), kNumbers, summaries.data()));
  RINGLET_RETURN_IF_ERROR(CheckConflict(summaries));
  const int donor = ChooseDonor(summaries);
  if (donor >= 0) {
    *source = RestoreSource::kMemory;
    return Transfer(donor, summaries);
  }
  const bool had_state =
      std::any_of(summaries.begin(), summaries.end(),
                  [](const StateSummary& s) { return s.has_trained != 0; });
  if (had_state) *source = RestoreSource::kMissing;
  return Status();
}

// Partitions of a job have one history, unless each worker trains on its own
// examples, or the partitions may have chosen different numbers of local steps.
Status Recovery::CheckConflict(const std::vector<StateSummary>& all) const {
  const CompileConfig& config = model_parts_.config();
  if (config.owns_replicas() || config.chooses_steps()) return Status();
  int first = 0, second = 0;
  if (!FindConflict(all, &first, &second)) return Status();
  return Error(
      Code::kOutOfSync,
      "model '%s': rank %d and rank %d have verified different weights "
      "or optimizer slots after %" PRId64
      " steps, while the workers were apart: the processor or the "
      "memory of a machine is at fault. All stop. What one part of the "
      "job has saved may be wrong. Find that machine (ringlet verify), "
      "and start without it",
      model_.name().c_str(), first, second,
      all[static_cast<size_t>(first)].point_step);
}

Status Recovery::Transfer(int donor,
                          const std::vector<StateSummary>& summaries) {
  const StateSummary& donor_summary = summaries[static_cast<size_t>(donor)];
  const auto rank = static_cast<size_t>(model_.collective()->rank());
  begun_ = true;
  // A rank with this state does not change.
  if (!HoldsStateOf(donor_summary, summaries[rank])) state_.BeginChange();
  const bool all_have_model = std::all_of(
      summaries.begin(), summaries.end(), [&](const StateSummary& s) {
        return s.valid != 0 && s.digest == donor_summary.digest;
      });
  Saveable* const state = all_have_model ? parts_.all_but_model : parts_.all;
  RINGLET_RETURN_IF_ERROR(BroadcastState(model_.collective(), {state}, donor));
  state_.EndTransfer(donor_summary.progress);
  RINGLET_RETURN_IF_ERROR(Begin(/*in_memory=*/true));
  snapshot_
      .CopyLargeSpans();  // callbacks may change their memory in OnTrainBegin
  return Status();
}

Status Recovery::Begin(bool in_memory) {
  weights_.reset();
  if (mode_ == RecoveryMode::kOff) return Status();
  begun_ = true;
  if (!keeps_boundaries()) return Status();
  if (state_.verifies()) RINGLET_RETURN_IF_ERROR(point_.Reserve());
  snapshot_.Plan(parts_.all);
  if (!in_memory) state_.Start(model_.iterations());
  OnBoundary();
  return Status();
}

// --- while it runs --------------------------------------------------------

void Recovery::OnBoundary() {
  if (!keeps_boundaries()) return;
  state_.ReachBoundary(model_.iterations());
  snapshot_.Take();
}

void Recovery::OnWholeBoundary() {
  if (!keeps_boundaries()) return;
  OnBoundary();
  snapshot_.CopyLargeSpans();
}

// Callbacks may change the weights at the end of an epoch and of the training.
// After a loss they start again from the copy. Without memory for a copy they
// start from the changed weights.
void Recovery::CopyWeights() {
  if (!keeps_boundaries()) return;
  const auto n = static_cast<size_t>(model_.num_weights());
  weights_.reset(new (std::nothrow) float[n]);
  if (weights_ != nullptr) std::copy_n(model_.weights(), n, weights_.get());
}

void Recovery::PassCheck() {
  if (!state_.PassCheck()) return;
  snapshot_.CopyLargeSpans();
  const ReplicaConsistency& consistency = model_parts_.consistency();
  const bool alone = model_.collective()->size() == 1;  // compares nothing
  point_.Keep(snapshot_, *parts_.epoch,
              alone ? consistency.StateDigest() : consistency.passed_digest());
}

// --- after a loss ---------------------------------------------------------

void Recovery::OnLoss(bool overwritten) {
  if (overwritten) {
    state_.BeginChange();
    begun_ = true;
  }
  snapshot_.CopyLargeSpans();
  if (weights_ == nullptr) return;
  std::copy_n(weights_.get(), model_.num_weights(), model_.weights());
  weights_.reset();
}

Status Recovery::Rejoin(int lost_rank, bool joins) {
  for (;;) {
    // A joining worker that has not begun joins again.
    const Status rejoined = model_parts_.Rejoin(/*incumbent=*/begun_ || !joins,
                                                /*has_state=*/begun_);
    if (rejoined.code() == Code::kDeadlineExceeded) {  // a worker is missing
      return PeerLost(lost_rank, "%s", rejoined.message());
    }
    if (rejoined.code() != Code::kPeerLost) return rejoined;
    Notice("warning: %s, while the workers formed a ring again; still waiting",
           rejoined.message());
  }
}

}  // namespace ringlet
