// What must be known to change this file: between the first Begin and the end
// the model is as while Fit runs (Fitter::Check, Fitter::Ended). An epoch
// begins with its first Step, so that a loss in what its callbacks do then is
// answered as any other.

#include "training_loop.h"

#include "evaluation.h"
#include "fitter.h"

namespace ringlet {

TrainingLoop::TrainingLoop(Model* model, const Dataset& dataset,
                           const FitOptions& options)
    : model_(model), dataset_(dataset), options_(options) {}

TrainingLoop::~TrainingLoop() {
  Status left = Error(Code::kCancelled, "its training loop was left");
  (void)Recovers(&left);
}

Status TrainingLoop::Begin() {
  if (!running_) {
    fitter_ = std::make_unique<Fitter>(model_, dataset_, options_);
    RINGLET_RETURN_IF_ERROR(fitter_->Check());
    running_ = true;
  }
  in_epoch_ = false;
  RINGLET_RETURN_IF_ERROR(fitter_->Begin());
  logs_.Clear();
  SetMetrics(*model_, fitter_->fit().metrics, &logs_);
  return Status();
}

bool TrainingLoop::HasEpoch() const { return running_ && fitter_->HasEpoch(); }
bool TrainingLoop::HasStep() const { return running_ && fitter_->HasStep(); }

Status TrainingLoop::BeginEpoch() {
  if (!running_) return InvalidArgument("a training loop: call Begin first");
  if (!in_epoch_) RINGLET_RETURN_IF_ERROR(fitter_->BeginEpoch());
  in_epoch_ = true;
  return Status();
}

Status TrainingLoop::Step() {
  if (!HasStep()) {
    return InvalidArgument("a training loop: Step where HasStep() is false");
  }
  RINGLET_RETURN_IF_ERROR(BeginEpoch());
  RINGLET_RETURN_IF_ERROR(fitter_->TakeStep(/*progress=*/nullptr));
  if (!HasStep()) fitter_->CloseData();
  logs_.Clear();
  SetMetrics(*model_, fitter_->fit().metrics, &logs_);
  return Status();
}

Status TrainingLoop::EndEpoch() {
  if (HasStep()) {
    return InvalidArgument("a training loop: EndEpoch where HasStep() is true");
  }
  RINGLET_RETURN_IF_ERROR(BeginEpoch());
  const int64_t epoch = this->epoch();
  logs_.Clear();
  const Status ended = fitter_->EndEpoch(/*progress=*/nullptr, &logs_);
  if (this->epoch() > epoch) ++epochs_;
  in_epoch_ = false;
  return ended;
}

Status TrainingLoop::End() {
  if (!running_) return InvalidArgument("a training loop: call Begin first");
  return fitter_->End();
}

bool TrainingLoop::Recovers(Status* status) {
  if (!running_) return false;
  if (fitter_->Recovers(status)) return true;
  fitter_->Ended(*status, epochs_);
  running_ = false;
  return false;
}

int64_t TrainingLoop::epoch() const {
  return fitter_ == nullptr ? 0 : fitter_->fit().epoch;
}
int64_t TrainingLoop::step() const {
  return fitter_ == nullptr ? 0 : fitter_->fit().step;
}
bool TrainingLoop::chief() const {
  return fitter_ == nullptr || fitter_->fit().chief;
}

}  // namespace ringlet
