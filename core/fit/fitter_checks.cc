// When the ranks compare what they have, and where the fit goes on from after
// one of them has something else; see fitter.cc.

#include "../model/model_impl.h"
#include "fitter.h"

namespace ringlet {

void Fitter::SetUpChecks() {
  if (!options_.cross_check) return;
  model_->impl_->check_examples = dataset_.LargestPart(model_->num_replicas());
}

Status Fitter::CheckReplicas() {
  if (options_.check_replicas_every <= 0) return Status();
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

void Fitter::Proven() {
  if (model_->impl_->check_examples == 0 || alone() ||
      options_.check_replicas_every <= 0 || !model_->collective()->elastic()) {
    return;
  }
  recovery_.Proven();
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
// that was in the run may have spoiled it.
void Fitter::KeepState() {
  if (model_->impl_->replicas.spoiled()) {
    recovery_.GoBack();
  } else if (model_->impl_->replicas.undecided()) {
    recovery_.GoBackInDoubt();
  } else {
    recovery_.Preserve();
  }
}

}  // namespace ringlet
