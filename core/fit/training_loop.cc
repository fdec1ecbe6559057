// Between the first Begin and the end the model is as in Fit (Fitter::Check,
// Fitter::CloseRun). An epoch begins with its first Step, so that a loss in its
// callbacks is handled like any other.

#include <memory>
#include <vector>

#include "evaluation.h"
#include "fitter.h"
#include "ringlet/fit.h"

namespace ringlet {

struct TrainingLoop::Impl {
  enum class State : uint8_t {
    kIdle,       // no run, or Recover has returned false
    kMustBegin,  // Recover has returned true: Begin must be called
    kTraining,   // from Begin until End, Recover or an error
    kFailed,     // an error ended the training; `failed` has it
    kEnded,      // End has returned OK; Recover must be called
  };
  // True if an epoch must be trained, or has begun and must be ended.
  bool HasUnendedEpoch() const;
  Status Check(bool may, const char* call) const;
  Status BeginEpoch();
  // Keeps the first error: a failed run does nothing more.
  Status RecordFailure(const Status& status);

  Model* const model;
  const Dataset dataset;
  const FitOptions options;
  std::unique_ptr<Fitter> fitter = nullptr;  // made by a run's first Begin
  Logs logs = {};
  std::vector<int64_t> epochs =
      {};  // the epochs that this worker has completed
  State state = State::kIdle;
  Status failed = {};
  bool in_epoch = false;  // the callbacks have begun the epoch
};

Status TrainingLoop::Impl::Check(bool may, const char* call) const {
  if (!failed.ok()) return failed;
  if (may) return Status();
  return InvalidArgument("a training loop: %s", call);
}

Status TrainingLoop::Impl::RecordFailure(const Status& status) {
  if (status.ok()) return status;
  failed = status;
  state = State::kFailed;
  return status;
}

bool TrainingLoop::Impl::HasUnendedEpoch() const {
  return state == State::kTraining && (in_epoch || fitter->HasEpoch());
}

Status TrainingLoop::Impl::BeginEpoch() {
  if (!in_epoch) RINGLET_RETURN_IF_ERROR(fitter->BeginEpoch());
  in_epoch = true;
  return Status();
}

TrainingLoop::TrainingLoop(Model* model, const Dataset& dataset,
                           const FitOptions& options)
    : impl_(std::make_unique<Impl>(Impl{model, dataset, options})) {}

TrainingLoop::~TrainingLoop() {
  const Impl& m = *impl_;
  Status failure = m.failed;
  // The destructor does not wait for a lost worker.
  const bool waits = failure.code() == Code::kPeerLost;
  if (waits || (failure.ok() && m.state != Impl::State::kEnded)) {
    failure =
        Error(Code::kCancelled, "its training loop was destroyed before End");
  }
  (void)Recover(&failure);
}

Status TrainingLoop::Begin() {
  Impl& m = *impl_;
  const bool first = m.state == Impl::State::kIdle;
  if (!first) {
    RINGLET_RETURN_IF_ERROR(m.Check(m.state == Impl::State::kMustBegin,
                                    "Begin during a run; call Recover first"));
  } else {
    m.fitter = std::make_unique<Fitter>(m.model, m.dataset, m.options);
    m.failed = m.fitter->Check();
    RINGLET_RETURN_IF_ERROR(m.failed);
    m.epochs.clear();
  }
  m.state = Impl::State::kTraining;
  m.in_epoch = false;
  RINGLET_RETURN_IF_ERROR(m.RecordFailure(m.fitter->Begin()));
  // Epochs that will be trained again are not completed.
  while (!m.epochs.empty() && m.epochs.back() >= epoch()) m.epochs.pop_back();
  m.logs.Clear();
  SetEpochMetrics(*m.model, m.fitter->fit().metrics, &m.logs);
  return Status();
}

bool TrainingLoop::HasEpoch() const {
  const Impl& m = *impl_;
  return m.state == Impl::State::kTraining && m.fitter->HasEpoch();
}
bool TrainingLoop::HasStep() const {
  const Impl& m = *impl_;
  return m.HasUnendedEpoch() && m.fitter->HasStep();
}

Status TrainingLoop::Step() {
  Impl& m = *impl_;
  RINGLET_RETURN_IF_ERROR(m.Check(HasStep(), "Step where HasStep() is false"));
  RINGLET_RETURN_IF_ERROR(m.RecordFailure(m.BeginEpoch()));
  RINGLET_RETURN_IF_ERROR(
      m.RecordFailure(m.fitter->StepOrLeaveEpoch(/*progress=*/nullptr)));
  if (!HasStep()) CloseData();
  m.logs.Clear();
  SetEpochMetrics(*m.model, m.fitter->fit().metrics, &m.logs);
  return Status();
}

void TrainingLoop::CloseData() {
  Impl& m = *impl_;
  if (m.fitter != nullptr) m.fitter->CloseData();
}

Status TrainingLoop::EndEpoch() {
  Impl& m = *impl_;
  RINGLET_RETURN_IF_ERROR(m.Check(m.HasUnendedEpoch() && !m.fitter->HasStep(),
                                  "EndEpoch where HasStep() is true, or behind "
                                  "the last epoch"));
  RINGLET_RETURN_IF_ERROR(m.RecordFailure(m.BeginEpoch()));
  const int64_t epoch = this->epoch();
  m.logs.Clear();
  const Status ended = m.fitter->EndEpoch(/*progress=*/nullptr, &m.logs);
  if (this->epoch() > epoch) m.epochs.push_back(epoch);
  m.in_epoch = false;
  return m.RecordFailure(ended);
}

Status TrainingLoop::End() {
  Impl& m = *impl_;
  RINGLET_RETURN_IF_ERROR(
      m.Check(m.state == Impl::State::kTraining, "End without a run"));
  CloseData();
  RINGLET_RETURN_IF_ERROR(m.RecordFailure(m.fitter->End()));
  m.state = Impl::State::kEnded;
  return Status();
}

bool TrainingLoop::Recover(Status* status) {
  Impl& m = *impl_;
  if (status->ok()) *status = m.failed;
  if (m.state == Impl::State::kIdle) return false;
  if (status->ok() && m.state != Impl::State::kEnded) {
    *status =
        InvalidArgument("a training loop: it ended without a call of End");
  }
  m.failed = Status();
  const bool continues = m.fitter->Recover(status);
  if (!continues)
    m.fitter->CloseRun(*status, static_cast<int64_t>(m.epochs.size()));
  m.state = continues ? Impl::State::kMustBegin : Impl::State::kIdle;
  return continues;
}

const Logs& TrainingLoop::logs() const { return impl_->logs; }
int64_t TrainingLoop::epoch() const {
  const Impl& m = *impl_;
  return m.fitter == nullptr ? 0 : m.fitter->fit().epoch;
}
int64_t TrainingLoop::step() const {
  const Impl& m = *impl_;
  return m.fitter == nullptr ? 0 : m.fitter->fit().step;
}
bool TrainingLoop::chief() const {
  const Impl& m = *impl_;
  return m.fitter == nullptr || m.fitter->fit().chief;
}

}  // namespace ringlet
