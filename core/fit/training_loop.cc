// Between the first Begin and the end the model is as in Fit (Fitter::Check,
// Fitter::CloseRun). An epoch begins with its first Step, so that a loss in its
// callbacks is handled like any other.

#include "ringlet/fit.h"

#include "evaluation.h"
#include "fitter.h"

namespace ringlet {

TrainingLoop::TrainingLoop(Model* model, const Dataset& dataset,
                           const FitOptions& options)
    : model_(model), dataset_(dataset), options_(options) {}

TrainingLoop::~TrainingLoop() {
  Status failure = failed_;
  // The destructor does not wait for a lost worker.
  const bool waits = failure.code() == Code::kPeerLost;
  if (waits || (failure.ok() && state_ != State::kEnded)) {
    failure =
        Error(Code::kCancelled, "its training loop was destroyed before End");
  }
  (void)Recover(&failure);
}

Status TrainingLoop::Check(bool may, const char* call) const {
  if (!failed_.ok()) return failed_;
  if (may) return Status();
  return InvalidArgument("a training loop: %s", call);
}

// Keeps the first error: a failed run does nothing more.
Status TrainingLoop::RecordFailure(const Status& status) {
  if (status.ok()) return status;
  failed_ = status;
  state_ = State::kFailed;
  return status;
}

Status TrainingLoop::Begin() {
  const bool first = state_ == State::kIdle;
  if (!first) {
    RINGLET_RETURN_IF_ERROR(Check(state_ == State::kMustBegin,
                                  "Begin during a run; call Recover first"));
  } else {
    fitter_ = std::make_unique<Fitter>(model_, dataset_, options_);
    failed_ = fitter_->Check();
    RINGLET_RETURN_IF_ERROR(failed_);
    epochs_.clear();
  }
  state_ = State::kTraining;
  in_epoch_ = false;
  RINGLET_RETURN_IF_ERROR(RecordFailure(fitter_->Begin()));
  // Epochs that will be trained again are not completed.
  while (!epochs_.empty() && epochs_.back() >= epoch()) epochs_.pop_back();
  logs_.Clear();
  SetEpochMetrics(*model_, fitter_->fit().metrics, &logs_);
  return Status();
}

bool TrainingLoop::HasEpoch() const {
  return state_ == State::kTraining && fitter_->HasEpoch();
}
bool TrainingLoop::HasUnendedEpoch() const {
  return state_ == State::kTraining && (in_epoch_ || fitter_->HasEpoch());
}
bool TrainingLoop::HasStep() const {
  return HasUnendedEpoch() && fitter_->HasStep();
}

Status TrainingLoop::BeginEpoch() {
  if (!in_epoch_) RINGLET_RETURN_IF_ERROR(fitter_->BeginEpoch());
  in_epoch_ = true;
  return Status();
}

Status TrainingLoop::Step() {
  RINGLET_RETURN_IF_ERROR(Check(HasStep(), "Step where HasStep() is false"));
  RINGLET_RETURN_IF_ERROR(RecordFailure(BeginEpoch()));
  RINGLET_RETURN_IF_ERROR(
      RecordFailure(fitter_->StepOrLeaveEpoch(/*progress=*/nullptr)));
  if (!HasStep()) CloseData();
  logs_.Clear();
  SetEpochMetrics(*model_, fitter_->fit().metrics, &logs_);
  return Status();
}

void TrainingLoop::CloseData() {
  if (fitter_ != nullptr) fitter_->CloseData();
}

Status TrainingLoop::EndEpoch() {
  RINGLET_RETURN_IF_ERROR(Check(HasUnendedEpoch() && !fitter_->HasStep(),
                                "EndEpoch where HasStep() is true, or behind "
                                "the last epoch"));
  RINGLET_RETURN_IF_ERROR(RecordFailure(BeginEpoch()));
  const int64_t epoch = this->epoch();
  logs_.Clear();
  const Status ended = fitter_->EndEpoch(/*progress=*/nullptr, &logs_);
  if (this->epoch() > epoch) epochs_.push_back(epoch);
  in_epoch_ = false;
  return RecordFailure(ended);
}

Status TrainingLoop::End() {
  RINGLET_RETURN_IF_ERROR(
      Check(state_ == State::kTraining, "End without a run"));
  CloseData();
  RINGLET_RETURN_IF_ERROR(RecordFailure(fitter_->End()));
  state_ = State::kEnded;
  return Status();
}

bool TrainingLoop::Recover(Status* status) {
  if (status->ok()) *status = failed_;
  if (state_ == State::kIdle) return false;
  if (status->ok() && state_ != State::kEnded) {
    *status =
        InvalidArgument("a training loop: it ended without a call of End");
  }
  failed_ = Status();
  const bool again = fitter_->Recover(status);
  if (!again) fitter_->CloseRun(*status, static_cast<int64_t>(epochs_.size()));
  state_ = again ? State::kMustBegin : State::kIdle;
  return again;
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
