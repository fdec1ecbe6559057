// A fit that loses a worker runs TrainAll again. It starts from the state in
// memory (Recovery) or a callback's backup, so TrainAll sets up everything
// again. From ReachStepBoundary on fit_ has the position of the next step; a
// file of a save point resumes exactly there.

#include "fitter.h"

#include <algorithm>
#include <cinttypes>
#include <vector>

#include "../base/collective_numbers.h"
#include "../base/events.h"
#include "../base/guarded.h"
#include "../base/ieee_arithmetic.h"
#include "../data/dataset_parts.h"
#include "evaluation.h"
#include "fit_details.h"
#include "ringlet/collective.h"
#include "ringlet/status.h"
#include "run_state.h"

namespace ringlet {

Fitter::Fitter(Model* model, const Dataset& dataset, const FitOptions& options)
    : model_(model),
      parts_(model),
      dataset_(dataset),
      options_(options),
      plan_(model, parts_.record().completed + 1, &dataset, &options),
      messages_(model, plan_.number(), &options),
      balancer_(parts_, &messages_),
      non_chief_output_(*model->collective(), options.verbose, options.out),
      recovery_(model, {&state_, &state_but_model_, &fit_.epoch}) {}

template <typename... Parameters, typename... Arguments>
Status Fitter::NotifyCallbacks(Status (Callback::*method)(FitState&,
                                                          Parameters...),
                               Arguments&&... arguments) {
  for (const auto& callback : options_.callbacks) {
    RINGLET_RETURN_IF_ERROR(
        CallGuarded<Parameters...>(callback.get(), method, fit_, arguments...)
            .Annotate("%s", callback->name()));
    // The error of a refused Compile.
    RINGLET_RETURN_IF_ERROR(model_->status());
  }
  return Status();
}

// --- the run --------------------------------------------------------------

Status Fitter::Run(History* history) {
  RINGLET_RETURN_IF_ERROR(Check());
  Status status;
  do {
    status = TrainAll(history);
  } while (Recover(&status));
  CloseRun(status, static_cast<int64_t>(history->epoch.size()));
  return status;
}

Status Fitter::Check() {
  FitRecord& record = parts_.record();
  if (record.running) {
    return InvalidArgument(
        "model '%s': a callback calls Fit, or a TrainingLoop begins, while one "
        "of them runs",
        model_->name().c_str());
  }
  if (model_->compiled()) WarnOfThreads(model_->threads());
  Status checked = plan_.Check();
  if (checked.ok()) checked = model_->Adapt(dataset_);
  AbortOtherRanks(checked);
  record.running = checked.ok();
  if (checked.ok() && model_->collective()->rank() == 0) {
    parts_.config().WarnOfLinearOutputs(parts_.graph());
  }
  return checked;
}

bool Fitter::Recover(Status* status) {
  CloseData();
  if (!all_ranks_have_error_ && !parts_.consistency().check_failed()) {
    AbortOtherRanks(*status);
  }
  requests_.Restore(&fit_);
  const bool elastic = model_->collective()->elastic();
  const bool resumes = status->code() == Code::kPeerLost &&
                       (elastic || AnyRestoresAfterLoss(options_.callbacks));
  if (resumes) KeepStateOfLoss();
  NotifyReturn(*status);
  if (!resumes) {
    if (status->code() == Code::kPeerLost) {
      *status = messages_.PermanentLossError(fit_, *status);
    }
    return false;
  }
  // A worker with a request to stop does not wait for a lost one. In an elastic
  // job it takes part in the next view, and then stops and saves.
  if (fit_.interrupted && !elastic) return false;
  // Restores the earlier signal handlers, so that the next signal ends a
  // process that waits.
  if (!fit_.interrupted) signals_.reset();
  requests_.Keep(fit_);
  messages_.ReportNewView(*status, /*admits_joiner=*/all_ranks_have_error_);
  *status = recovery_.Rejoin(status->rank(), fit_.details->is_joining);
  if (!status->ok()) return false;
  requests_.ViewFormed();
  return true;
}

void Fitter::KeepStateOfLoss() {
  // A backup, or a part of one, has overwritten the model, and belongs to no
  // fit.
  const RestoreSource source = fit_.details->source;
  recovery_.OnLoss(
      source == RestoreSource::kLoading ||
      (source == RestoreSource::kBackup && !recovery_.has_state()));
  // A callback may have compared the replicas and written a file before the
  // loss. The verified point must not be older than that file.
  const ReplicaConsistency& consistency = parts_.consistency();
  if (!consistency.check_failed() && consistency.PassedCheck()) {
    recovery_.PassCheck();
  }
}

void Fitter::CloseRun(const Status& status, int64_t epochs) {
  CloseData();
  signals_.reset();
  non_chief_output_.End(status, epochs, model_->iterations());
  parts_.record().running = false;
  parts_.record().check_examples = 0;
  if (!status.ok()) return;
  ++parts_.record().completed;
  parts_.record().order_seed = dataset_.parts().shuffle_seed();
  parts_.record().order_size = dataset_.size();
}

// Reports an error that the other ranks do not have.
void Fitter::AbortOtherRanks(const Status& status) {
  const CompileConfig& config = parts_.config();
  config.joining.AbortOthers(config.collective, status);
}

void Fitter::NotifyReturn(const Status& status) {
  RecordSignal();  // a signal that came in the interrupted step
  for (const auto& callback : options_.callbacks) {
    const Status returned = CallFitReturn(callback.get(), fit_, status);
    if (returned.ok()) continue;
    Notice("warning: %s: %s", callback->name(), returned.message());
  }
  RecordSignal();
}

void Fitter::RecordSignal() {
  if (signals_ != nullptr) Interrupts::CopySignal(&fit_);
}

void Fitter::Reset() {
  fit_ = FitState();
  fit_.model = model_;
  fit_.dataset = &dataset_;
  fit_.callbacks = &options_.callbacks;
  fit_.epochs = options_.epochs;
  fit_.epoch = options_.initial_epoch;
  fit_.steps_per_epoch = plan_.StepsPerEpoch();
  fit_.validation = plan_.ValidationOfAll();
  const Collective& collective = *model_->collective();
  fit_.chief = collective.rank() == 0;
  fit_.details->after_loss = recovery_.begun();
  fit_.details->is_joining = parts_.config().joining.joins(collective.rank());
  fit_.step_metrics = model_->step_metrics();
  fit_.metrics.assign(model_->num_metric_states(), MetricState());
  const CompileConfig& config = parts_.config();
  fit_.local_steps = config.chooses_steps() ? config.chosen_steps
                     : config.local()       ? config.options.local.steps
                                            : 0;
  all_ranks_have_error_ = epoch_ends_early_ = round_steps_chosen_ = false;
}

// Does all work before the first step.
Status Fitter::SetUp() {
  RINGLET_RETURN_IF_ERROR(plan_.ReserveAndProbe(model_));
  SetUpChecks();
  const Status same = plan_.Agree(parts_.config().joining);
  all_ranks_have_error_ = same.code() == Code::kInvalidArgument;
  RINGLET_RETURN_IF_ERROR(same);
  non_chief_output_.Begin(fit_, parts_.config().job_replicas.own(), dataset_);
  RINGLET_RETURN_IF_ERROR(NotifyCallbacks(&Callback::OnSetup));
  if (fit_.handles_signals) {
    signals_ = std::make_unique<Interrupts>(/*prints=*/fit_.chief);
  }
  parts_.local_trainer().Reset();
  RestoreSource found;
  const Status entered = recovery_.EnterView(&found);
  all_ranks_have_error_ = entered.code() == Code::kOutOfSync;
  RINGLET_RETURN_IF_ERROR(entered);
  if (found != RestoreSource::kStart) fit_.details->source = found;
  if (!fit_.details->in_memory()) requests_.Clear();
  RINGLET_RETURN_IF_ERROR(NotifyCallbacks(&Callback::OnTrainBegin));
  if (fit_.details->source == RestoreSource::kMissing)
    return MissingStateError();
  RINGLET_RETURN_IF_ERROR(recovery_.Begin(fit_.details->in_memory()));
  requests_.DropLaterStop(fit_);
  RINGLET_RETURN_IF_ERROR(requests_.Agree(model_->collective(), &fit_));
  check_pace_.EnterView();
  RINGLET_RETURN_IF_ERROR(CheckReplicasAtBegin());
  parts_.config().joining.AdmitAll();
  balancer_.EnterView(fit_);
  fit_.details->is_joining = false;
  return Status();
}

Status Fitter::TrainAll(History* history) {
  RINGLET_RETURN_IF_ERROR(Begin());
  while (HasEpoch()) RINGLET_RETURN_IF_ERROR(TrainEpoch(history));
  // Epochs after a rollback that were not trained again are not in the history.
  while (!history->epoch.empty() && history->epoch.back() >= fit_.epoch) {
    history->epoch.pop_back();
    history->logs.pop_back();
  }
  return End();
}

Status Fitter::Begin() {
  Reset();
  RINGLET_RETURN_IF_ERROR(SetUp());
  messages_.ReportResume(fit_);
  const FitRecord& last = parts_.record();
  const bool same_order = dataset_.parts().shuffle_seed() >= 0 &&
                          dataset_.parts().shuffle_seed() == last.order_seed &&
                          dataset_.size() == last.order_size;
  StopIfDataEnded();
  const bool begins = fit_.position == DataPosition() && HasEpoch();
  if (same_order && begins && !fit_.details->after_loss)
    messages_.ReportSameOrder(fit_);
  return Status();
}

bool Fitter::HasEpoch() const {
  if (fit_.epoch >= fit_.epochs) return false;
  // An epoch that was stopped in the middle, and resumed, still ends.
  return fit_.step > 0 || fit_.stop_training == 0;
}

// There is no epoch without steps.
void Fitter::StopIfDataEnded() {
  const bool begins_epoch = HasEpoch() && fit_.step == 0;
  if (!begins_epoch || !plan_.IsDataExhausted(fit_.epoch, 0)) return;
  messages_.WarnDataEnded(fit_);
  fit_.stop_training = 1;
}

Status Fitter::End() {
  // A custom training loop may leave its last epoch.
  LocalTrainer& rounds = parts_.local_trainer();
  RINGLET_RETURN_IF_ERROR(rounds.EndRounds());
  // The check compares the state before UseAveragedWeights, as a save at the
  // last epoch's end does: both have the same boundary.
  recovery_.OnBoundary();
  RINGLET_RETURN_IF_ERROR(CheckReplicas());
  // After a loss from here on the fit returns to the trained weights. The
  // averages of the weights are the result of the fit, and not a state to
  // continue from.
  recovery_.CopyWeights();
  parts_.updater().UseAveragedWeights();
  // No further round uses the state of the rounds.
  rounds.Reset();
  messages_.WarnOfDivergence(fit_);
  recovery_.OnWholeBoundary();
  RINGLET_RETURN_IF_ERROR(NotifyCallbacks(&Callback::OnTrainEnd, epoch_logs_));
  RINGLET_RETURN_IF_ERROR(fit_.save_error);
  // No rank completes the fit before the other ranks: an error of one rank in
  // OnTrainEnd reaches the other ranks here.
  return model_->collective()->Barrier();
}

// --- an epoch -------------------------------------------------------------

Status Fitter::TrainEpoch(History* history) {
  RINGLET_RETURN_IF_ERROR(BeginEpoch());
  messages_.PrintEpoch(fit_);
  Progress progress(
      messages_.prints_progress(fit_) ? options_.verbose : Verbose::kSilent,
      options_.out, fit_.steps_per_epoch, Clock::System(), fit_.step);
  while (HasStep()) RINGLET_RETURN_IF_ERROR(StepOrLeaveEpoch(&progress));
  const int64_t epoch = fit_.epoch;
  Logs logs;
  const Status ended = EndEpoch(&progress, &logs);
  if (fit_.epoch == epoch) return ended;
  RecordEpoch(epoch, logs, history);
  return ended;
}

// Sums of metrics and learning rates do not depend on the caller's
// floating-point mode.
Status Fitter::BeginEpoch() {
  const IeeeArithmetic ieee;
  // Before the callbacks' work at the start of the epoch, which is repeated
  // after a loss.
  if (HasStep()) RINGLET_RETURN_IF_ERROR(ChooseRoundSteps());
  if (fit_.step == 0) {
    recovery_.OnWholeBoundary();
    for (MetricState& state : fit_.metrics) state = MetricState();
    RINGLET_RETURN_IF_ERROR(NotifyCallbacks(&Callback::OnEpochBegin));
  }
  if (HasStep()) requests_.BeginEpoch(*model_->collective(), fit_);
  return Status();
}

Status Fitter::EndEpoch(Progress* progress, Logs* logs) {
  const IeeeArithmetic ieee;
  CloseData();
  RINGLET_RETURN_IF_ERROR(WithStep(parts_.local_trainer().EndRounds()));
  recovery_.OnWholeBoundary();
  SetEpochMetrics(*model_, fit_.metrics, logs);
  if (plan_.Validates(fit_.epoch)) RINGLET_RETURN_IF_ERROR(Validate(logs));
  recovery_.CopyWeights();
  RINGLET_RETURN_IF_ERROR(NotifyCallbacks(&Callback::OnEpochEnd, logs));
  RecordSignal();
  if (progress != nullptr) progress->Finish(fit_.step, *logs);
  messages_.ReportDivergence(fit_, *logs);
  epoch_logs_ = *logs;
  ++fit_.epoch;
  fit_.step = 0;
  epoch_ends_early_ = false;
  // The snapshot is taken after all ranks are here. Unfinished work of the
  // chief at the epoch's end, such as a row of a log, is then repeated.
  RINGLET_RETURN_IF_ERROR(requests_.Agree(model_->collective(), &fit_));
  recovery_.OnBoundary();
  recovery_.DropWeights();
  RINGLET_RETURN_IF_ERROR(SavePoint(/*epoch_ended=*/true));
  StopIfDataEnded();
  return Status();
}

Status Fitter::Validate(Logs* logs) {
  RINGLET_RETURN_IF_ERROR(NotifyCallbacks(&Callback::OnTestBegin));
  Evaluation evaluation;
  evaluation.steps = options_.validation_steps;
  evaluation.prefetch = options_.prefetch;
  evaluation.step_ended = [this](bool* stop) {
    const Status notified = NotifyCallbacks(&Callback::OnTestBatchEnd);
    RecordSignal();
    *stop = fit_.interrupted && alone();
    return notified;
  };
  Logs test;
  int64_t done = 0;
  RINGLET_RETURN_IF_ERROR(
      RunEvaluation(model_, parts_.config().job_replicas.TestAssignment(),
                    options_.validation_data, evaluation, &test, &done));
  if (fit_.interrupted && alone()) return SavePoint(/*epoch_ended=*/false);
  RINGLET_RETURN_IF_ERROR(NotifyCallbacks(&Callback::OnTestEnd, test));
  for (const auto& entry : test.entries()) {
    logs->Set("val_" + entry.first, entry.second);
  }
  return Status();
}

// --- a step ---------------------------------------------------------------

Status Fitter::StepOrLeaveEpoch(Progress* progress) {
  const IeeeArithmetic ieee;
  bool moved = false;
  RINGLET_RETURN_IF_ERROR(balancer_.Rebalance(fit_, &moved));
  if (moved || loader_ == nullptr) RINGLET_RETURN_IF_ERROR(OpenLoader());
  epoch_ends_early_ = true;
  // Only one worker stops here; several ranks agree in the next step.
  if (alone() && fit_.stop_training && fit_.step > 0) return Status();
  if (requests_.needs_new_view()) return FormNewView();
  if (plan_.IsDataExhausted(fit_.epoch, fit_.step)) {
    messages_.WarnDataEnded(fit_);
    fit_.stop_training = 1;
    return Status();
  }
  if (requests_.request() != 0) {
    // The other ranks call it too, and a callback may call the collective.
    RINGLET_RETURN_IF_ERROR(NotifyCallbacks(&Callback::OnTrainBatchBegin));
    RINGLET_RETURN_IF_ERROR(
        WithStep(parts_.stepper().GiveUp(requests_.request())));
    return HandleStepGivenUp();
  }
  bool applied = false;
  RINGLET_RETURN_IF_ERROR(TrainNextBatch(&applied));
  if (!applied) return HandleStepGivenUp();
  epoch_ends_early_ = false;
  if (progress != nullptr) progress->Update(fit_.step, step_logs_);
  return ReachStepBoundary();
}

Status Fitter::WithStep(const Status& status) const {
  return status.Annotate("epoch %" PRId64 ", step %" PRId64, fit_.epoch + 1,
                         fit_.step + 1);
}

Status Fitter::TrainNextBatch(bool* applied) {
  // A callback may use the batch's memory (CheckReplicas).
  RINGLET_RETURN_IF_ERROR(NotifyCallbacks(&Callback::OnTrainBatchBegin));
  Batch batch;
  Clock* const clock = parts_.config().options.clock;
  const int64_t begin = clock->MonotonicNanos();
  RINGLET_RETURN_IF_ERROR(loader_->Next(&batch));
  parts_.stepper().times().AddReading(clock->MonotonicNanos() - begin);
  messages_.ReportRange(fit_, batch);
  RINGLET_RETURN_IF_ERROR(WithStep(TrainStepOrRound(&batch, applied)));
  if (!*applied) return Status();
  SetEpochMetrics(*model_, fit_.metrics, &step_logs_);
  fit_.step += fit_.steps_taken - 1;
  return AdvancePosition(batch.next);
}

Status Fitter::ReachStepBoundary() {
  recovery_.OnBoundary();
  RINGLET_RETURN_IF_ERROR(CheckReplicasAtStep());
  const bool another = fit_.step < fit_.steps_per_epoch &&
                       !plan_.IsDataExhausted(fit_.epoch, fit_.step);
  if (another) {
    requests_.Defer(*model_->collective(), &fit_);
  } else {
    RINGLET_RETURN_IF_ERROR(requests_.Agree(model_->collective(), &fit_));
  }
  return SavePoint(/*epoch_ended=*/false);
}

// --- save points ----------------------------------------------------------

Status Fitter::SavePoint(bool epoch_ended) {
  if (epoch_ended && (fit_.epoch >= fit_.epochs || fit_.stop_training)) {
    fit_.interrupted = false;
  }
  if (fit_.interrupted) RINGLET_RETURN_IF_ERROR(EndInterruptedRounds());
  {
    const PartTimer timer(EventSink::kSave);
    RINGLET_RETURN_IF_ERROR(
        NotifyCallbacks(&Callback::OnSavePoint, epoch_ended));
  }
  recovery_.OnBoundary();
  if (fit_.interrupted) return MakeInterruptedStatus();
  // If a callback compared the replicas for its file, this state becomes the
  // verified point. So no file is newer than the verified point.
  if (parts_.consistency().PassedCheck()) recovery_.PassCheck();
  return Status();
}

// Returns the result of an interrupted fit, after everything was saved.
Status Fitter::MakeInterruptedStatus() {
  all_ranks_have_error_ = true;
  if (fit_.signal != 0 && !AnyRestoresAfterLoss(options_.callbacks)) {
    return Interrupted(fit_.signal, "interrupted after %s: %s",
                       fit_.LastStep().c_str(),
                       fit_.details->saved_message.empty()
                           ? "nothing was saved"
                           : fit_.details->saved_message.c_str());
  }
  // The other ranks do not have the result of the chief's save.
  return Error(Code::kCancelled,
               "interrupted before epoch %" PRId64 ", step %" PRId64
               "%s: run again to continue",
               fit_.epoch + 1, fit_.step + 1,
               fit_.chief ? "; the state was saved" : "");
}

}  // namespace ringlet
