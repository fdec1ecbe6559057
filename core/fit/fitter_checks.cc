// When the ranks compare what they have, and where the fit goes on from after
// one of them has something else; see fitter.cc.

#include <algorithm>
#include <vector>

#include "../model/model_impl.h"
#include "fitter.h"

namespace ringlet {

void Fitter::SetUpChecks() {
  if (!options_.cross_check) return;
  model_->impl_->check_examples = dataset_.LargestPart(model_->num_replicas());
}

// What rounds keep that scatter their state is gone back to after a verdict,
// and so is compared, however seldom the ranks are to.
bool Fitter::checks() const {
  const Model::Impl& m = *model_->impl_;
  return options_.check_replicas_every > 0 ||
         (model_->collective()->elastic() && m.check_examples > 0 &&
          m.config.options.local.scatters());
}

Status Fitter::CheckReplicas() {
  if (!checks()) return Status();
  const Status status = model_->CheckReplicas();
  agreed_ = status.code() == Code::kOutOfSync;
  return status;
}

// Those who have met, before any of them adds to a step.
Status Fitter::CheckAtBegin() {
  if (!model_->collective()->elastic()) return Status();
  RINGLET_RETURN_IF_ERROR(CheckReplicas());
  Proven();
  return Status();
}

// One that is alone has nobody to compare with, and goes back no further for
// one that comes.
void Fitter::Proven() {
  Model::Impl& m = *model_->impl_;
  if (!model_->collective()->elastic()) return;
  if (m.config.options.local.scatters()) {
    if (!m.stepper.round_state()->whole()) return;
  } else if (m.check_examples == 0 || options_.check_replicas_every <= 0) {
    return;
  }
  recovery_.Proven();
}

// At a boundary, where all ranks are. A backup has gathered the state, or it is
// time to.
Status Fitter::TakePoint() {
  Model::Impl& m = *model_->impl_;
  if (!model_->collective()->elastic() || !m.config.options.local.scatters()) {
    return Status();
  }
  if (m.stepper.round_state()->GatherIsDue()) {
    RINGLET_RETURN_IF_ERROR(m.stepper.GatherRounds());
  }
  if (!m.stepper.round_state()->whole()) return Status();
  if (!m.replicas.checked(model_->iterations())) {
    RINGLET_RETURN_IF_ERROR(CheckReplicas());
  }
  Proven();
  return Status();
}

Status Fitter::CheckAtStep() {
  const int64_t every = options_.check_replicas_every;
  if (every <= 0 || model_->iterations() % every >= fit_.steps_taken) {
    return Status();
  }
  RINGLET_RETURN_IF_ERROR(CheckReplicas());
  model_->impl_->replicas.Mark();
  Proven();
  return Status();
}

// What the fit goes on from: the last snapshot, or one from before a worker
// that was in the run may have spoiled it, or has taken a part of it with it.
void Fitter::KeepState() {
  const Replicas& replicas = model_->impl_->replicas;
  if (fit_.replacing || fit_.replaced) {
    recovery_.Replaced();
  } else if (replicas.spoiled() || recovery_.scattered()) {
    recovery_.GoBack();
  } else if (replicas.undecided() || replicas.MayDoubt(replicas.uncompared())) {
    recovery_.GoBackInDoubt();
  } else {
    recovery_.Preserve();
  }
}

void Fitter::NoteEpoch(int64_t epoch, const Logs& logs, History* history) {
  std::vector<int64_t>& all = history->epoch;
  const auto at = std::lower_bound(all.begin(), all.end(), epoch);
  const auto log = history->logs.begin() + (at - all.begin());
  if (at != all.end() && *at == epoch) {
    *log = logs;
  } else {
    all.insert(at, epoch);
    history->logs.insert(log, logs);
  }
}

// In an elastic job others may have it, who are elsewhere.
Status Fitter::NobodyHasTheState() const {
  if (model_->collective()->elastic()) {
    return Error(Code::kCancelled,
                 "the state of the run was cut off on its way to this worker, "
                 "and nobody holds the state of the run whole who is there: no "
                 "worker's memory and no backup; start this worker again");
  }
  return Error(Code::kInternal,
               "the workers are together again, but nobody holds the state of "
               "the run: no worker's memory and no backup; start all of them "
               "anew");
}

}  // namespace ringlet
