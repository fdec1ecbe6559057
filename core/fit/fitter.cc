// What must be known to change this file: a fit that loses a worker runs
// TrainAll again, from the state in memory (Recovery) or a callback's backup,
// so TrainAll sets up everything anew. fit_ names the next step from StepEnded
// on; what a save point writes then resumes exactly there.

#include "fitter.h"

#include <algorithm>
#include <cinttypes>
#include <vector>

#include "../base/clock.h"
#include "../base/guarded.h"
#include "../base/ieee_arithmetic.h"
#include "../base/message.h"
#include "../model/model_impl.h"
#include "evaluation.h"

namespace ringlet {

Fitter::Fitter(Model* model, const Dataset& dataset, const FitOptions& options)
    : model_(model),
      dataset_(dataset),
      options_(options),
      plan_(model, model->impl_->fits + 1, &dataset, &options),
      messages_(model, plan_.number(), &options),
      lines_(*model->collective(), options.verbose, options.out),
      recovery_(model, &fit_) {}

template <typename... Parameters, typename... Arguments>
Status Fitter::Tell(Status (Callback::*method)(FitState&, Parameters...),
                    Arguments&&... arguments) {
  for (const auto& callback : options_.callbacks) {
    RINGLET_RETURN_IF_ERROR(
        Guarded<Parameters...>(callback.get(), method, fit_, arguments...)
            .Annotate("%s", callback->name()));
    // Of a Compile that was refused.
    RINGLET_RETURN_IF_ERROR(model_->status());
  }
  return Status();
}

// --- the whole ------------------------------------------------------------

Status Fitter::Run(History* history) {
  RINGLET_RETURN_IF_ERROR(Check());
  Status status;
  do {
    status = TrainAll(history);
  } while (Recovers(&status));
  Ended(status, static_cast<int64_t>(history->epoch.size()));
  return status;
}

Status Fitter::Check() {
  Model::Impl& m = *model_->impl_;
  if (m.fitting) {
    return InvalidArgument(
        "model '%s': a callback calls Fit, or a TrainingLoop begins, while one "
        "of them runs",
        model_->name().c_str());
  }
  if (m.compiled) WarnOfThreads(model_->threads());
  const Status checked = plan_.Check();
  TellOthers(checked);
  m.fitting = checked.ok();
  return checked;
}

bool Fitter::Recovers(Status* status) {
  CloseData();
  if (!agreed_ && !model_->impl_->replicas.judged()) TellOthers(*status);
  requests_.Restore(&fit_);
  const bool elastic = model_->collective()->elastic();
  const bool resumes = status->code() == Code::kPeerLost &&
                       (elastic || AnyRestoresAfterLoss(options_.callbacks));
  // Before the callbacks let go of it.
  if (resumes || fit_.replacing) KeepState();
  FitReturns(*status);
  // Who is told to stop waits for nobody. An elastic job waits for none that is
  // lost: it stops, and saves, once the others have met.
  if (!resumes || (fit_.interrupted && !elastic)) return false;
  // A first signal while this worker waits ends the wait.
  if (!elastic || !fit_.interrupted) signals_.reset();
  requests_.Keep(fit_);
  messages_.MeetAnew(*status, /*lets_in=*/agreed_);
  *status = recovery_.Rejoin(status->rank());
  if (!status->ok()) return false;
  requests_.HaveMet();
  return true;
}

void Fitter::Ended(const Status& status, int64_t epochs) {
  CloseData();
  signals_.reset();
  lines_.End(status, epochs, model_->iterations());
  model_->impl_->fitting = false;
  model_->impl_->check_examples = 0;
  if (status.ok()) ++model_->impl_->fits;
}

// Of an error that they do not know.
void Fitter::TellOthers(const Status& status) {
  const CompileConfig& config = model_->impl_->config;
  config.arrivals.AbortOthers(config.collective, status);
}

void Fitter::FitReturns(const Status& status) {
  NoteSignal();  // in the step that was cut off
  for (const auto& callback : options_.callbacks) {
    const Status left = GuardedFitReturn(callback.get(), fit_, status);
    if (left.ok()) continue;
    Notice("warning: %s: %s", callback->name(), left.message());
  }
  NoteSignal();
}

void Fitter::NoteSignal() {
  if (signals_ != nullptr) Interrupts::Note(&fit_);
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
  fit_.goes_on = recovery_.begun();
  fit_.comes = model_->impl_->config.arrivals.comes(collective.rank());
  fit_.uncompared = &model_->impl_->replicas.uncompared();
  fit_.disbelief = &model_->impl_->replicas.disbelief();
  fit_.step_metrics = model_->step_metrics();
  fit_.metrics.assign(model_->num_metric_states(), MetricState());
  const CompileConfig& config = model_->impl_->config;
  fit_.local_steps = config.chooses_steps() ? config.chosen_steps
                     : config.local()       ? config.options.local.steps
                                            : 0;
  agreed_ = leaves_ = chose_ = false;
}

// Up to where the first step can be trained.
Status Fitter::SetUp() {
  RINGLET_RETURN_IF_ERROR(plan_.TryOut(model_));
  SetUpChecks();
  const Status same = plan_.Agree(model_->impl_->config.arrivals);
  agreed_ = same.code() == Code::kInvalidArgument;
  RINGLET_RETURN_IF_ERROR(same);
  lines_.Begin(fit_, model_->impl_->config.own, dataset_);
  RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnSetup));
  if (fit_.takes_signals) {
    signals_ = std::make_unique<Interrupts>(/*says=*/fit_.chief);
  }
  if (!recovery_.whole()) model_->impl_->stepper.BeginRounds();
  RINGLET_RETURN_IF_ERROR(recovery_.TakeUpState());
  if (!fit_.in_memory) {
    requests_.Clear();
    model_->impl_->replicas.ForgetMarks();
  }
  RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnTrainBegin));
  if (fit_.lost) return NobodyHasTheState();
  model_->impl_->replicas.Restored();
  // All had passed a comparison before a backup was saved.
  if (fit_.replaced) model_->impl_->replicas.SetUncompared({});
  recovery_.Begin();
  fit_.replaced = false;
  requests_.GoOnFrom(fit_);
  RINGLET_RETURN_IF_ERROR(requests_.Agree(model_->collective(), &fit_));
  RINGLET_RETURN_IF_ERROR(CheckAtBegin());
  model_->impl_->config.arrivals.Settle();
  BeginShares();
  fit_.comes = false;
  return Status();
}

Status Fitter::TrainAll(History* history) {
  RINGLET_RETURN_IF_ERROR(Begin());
  while (HasEpoch()) RINGLET_RETURN_IF_ERROR(Epoch(history));
  // What was to be trained again, and was not, is no history. One that goes
  // back may pass over some by a backup.
  while (!history->epoch.empty() && history->epoch.back() >= fit_.epoch) {
    history->epoch.pop_back();
    history->logs.pop_back();
  }
  return End();
}

Status Fitter::Begin() {
  Reset();
  RINGLET_RETURN_IF_ERROR(SetUp());
  messages_.WhereItGoesOn(fit_);
  return Status();
}

bool Fitter::HasEpoch() {
  if (fit_.epoch >= fit_.epochs) return false;
  // An epoch that was stopped in the middle, and resumed, still ends.
  if (fit_.step > 0) return true;
  if (fit_.stop_training != 0) return false;
  // No epoch of no steps.
  if (!plan_.RunsOut(fit_.epoch, 0)) return true;
  messages_.RanOut(fit_);
  fit_.stop_training = 1;
  return false;
}

Status Fitter::End() {
  // A loop of the program's own may leave its last epoch.
  Stepper& stepper = model_->impl_->stepper;
  RINGLET_RETURN_IF_ERROR(stepper.EndRounds());
  model_->impl_->updater.Finalize();
  // No round comes that what they have kept is for: no rank lacks any.
  stepper.BeginRounds();
  recovery_.TakeSnapshot();
  RINGLET_RETURN_IF_ERROR(CheckReplicas());
  messages_.WarnOfDivergence(fit_);
  // What callbacks do to the weights now, they would do a second time.
  recovery_.TakeWholeSnapshot();
  recovery_.CopyWeights();
  RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnTrainEnd, last_));
  // Nobody has completed the fit before all have: what fails on one rank in
  // OnTrainEnd reaches the others here.
  return model_->collective()->Barrier();
}

// --- an epoch -------------------------------------------------------------

Status Fitter::Epoch(History* history) {
  RINGLET_RETURN_IF_ERROR(BeginEpoch());
  messages_.EpochBegins(fit_);
  Progress progress(messages_.shows(fit_) ? options_.verbose : Verbose::kSilent,
                    options_.out, fit_.steps_per_epoch, Clock::System(),
                    fit_.step);
  while (HasStep()) RINGLET_RETURN_IF_ERROR(TakeStep(&progress));
  const int64_t epoch = fit_.epoch;
  Logs logs;
  const Status ended = EndEpoch(&progress, &logs);
  if (fit_.epoch == epoch) return ended;
  NoteEpoch(epoch, logs, history);
  return ended;
}

// Sums of metrics and learning rates follow from no mode of the caller's.
Status Fitter::BeginEpoch() {
  const IeeeArithmetic ieee;
  // Its snapshot is of before what callbacks do here, which a loss repeats.
  if (HasStep()) RINGLET_RETURN_IF_ERROR(ChooseRoundSteps());
  if (fit_.step == 0) {
    recovery_.TakeWholeSnapshot();
    for (MetricState& state : fit_.metrics) state = MetricState();
    RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnEpochBegin));
  }
  if (HasStep()) requests_.BeginEpoch(*model_->collective(), fit_);
  return Status();
}

Status Fitter::EndEpoch(Progress* progress, Logs* logs) {
  const IeeeArithmetic ieee;
  CloseData();
  RINGLET_RETURN_IF_ERROR(AtStep(model_->impl_->stepper.EndRounds()));
  recovery_.TakeWholeSnapshot();
  SetEpochMetrics(*model_, fit_.metrics, logs);
  if (plan_.Validates(fit_.epoch)) RINGLET_RETURN_IF_ERROR(Validate(logs));
  recovery_.CopyWeights();
  RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnEpochEnd, logs));
  NoteSignal();
  if (progress != nullptr) progress->Finish(fit_.step, *logs);
  messages_.NoteDivergence(fit_, *logs);
  last_ = *logs;
  ++fit_.epoch;
  fit_.step = 0;
  leaves_ = false;
  // No snapshot before all ranks have come here: what the chief has not done at
  // the epoch's end, as to write a row, is done again.
  RINGLET_RETURN_IF_ERROR(requests_.Agree(model_->collective(), &fit_));
  recovery_.TakeSnapshot();
  recovery_.DropWeights();
  return SavePoint(/*epoch_ended=*/true);
}

Status Fitter::Validate(Logs* logs) {
  RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnTestBegin));
  Evaluation evaluation;
  evaluation.steps = options_.validation_steps;
  evaluation.prefetch = options_.prefetch;
  evaluation.step_ended = [this](bool* stop) {
    const Status told = Tell(&Callback::OnTestBatchEnd);
    NoteSignal();
    *stop = fit_.interrupted && alone();
    return told;
  };
  Logs test;
  int64_t done = 0;
  RINGLET_RETURN_IF_ERROR(
      RunEvaluation(model_, model_->impl_->config.TestShares(),
                    options_.validation_data, evaluation, &test, &done));
  if (fit_.interrupted && alone()) return SavePoint(/*epoch_ended=*/false);
  RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnTestEnd, test));
  for (const auto& entry : test.entries()) {
    logs->Set("val_" + entry.first, entry.second);
  }
  return Status();
}

// --- a step ---------------------------------------------------------------

Status Fitter::TakeStep(Progress* progress) {
  const IeeeArithmetic ieee;
  bool moved = false;
  RINGLET_RETURN_IF_ERROR(ShareBySpeed(&moved));
  if (moved || loader_ == nullptr) RINGLET_RETURN_IF_ERROR(OpenLoader());
  leaves_ = true;
  // Alone; several ranks agree in the next step.
  if (alone() && fit_.stop_training) return Status();
  if (requests_.meets_anew()) return MeetAnew();
  if (plan_.RunsOut(fit_.epoch, fit_.step)) {
    messages_.RanOut(fit_);
    fit_.stop_training = 1;
    return Status();
  }
  if (requests_.note() != 0) {
    // As on the others: callbacks may call the collective.
    RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnTrainBatchBegin));
    RINGLET_RETURN_IF_ERROR(
        AtStep(model_->impl_->stepper.GiveUp(requests_.note())));
    return StepGivenUp();
  }
  bool taken = false;
  RINGLET_RETURN_IF_ERROR(Step(&taken));
  if (!taken) return StepGivenUp();
  leaves_ = false;
  if (progress != nullptr) progress->Update(fit_.step, logs_);
  return StepEnded();
}

Status Fitter::AtStep(const Status& status) const {
  return status.Annotate("epoch %" PRId64 ", step %" PRId64, fit_.epoch + 1,
                         fit_.step + 1);
}

Status Fitter::Step(bool* taken) {
  // A callback may use the memory that the batch will lie in (CheckReplicas).
  RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnTrainBatchBegin));
  Batch batch;
  Clock* const clock = model_->impl_->config.options.clock;
  const int64_t begin = clock->MonotonicNanos();
  RINGLET_RETURN_IF_ERROR(loader_->Next(&batch));
  model_->impl_->stepper.AddReading(clock->MonotonicNanos() - begin);
  messages_.NoteRange(fit_, batch);
  RINGLET_RETURN_IF_ERROR(AtStep(Train(&batch, taken)));
  if (!*taken) return Status();
  SetEpochMetrics(*model_, fit_.metrics, &logs_);
  fit_.step += fit_.steps_taken - 1;
  return StepMade(batch.next);
}

Status Fitter::StepEnded() {
  recovery_.TakeSnapshot();
  RINGLET_RETURN_IF_ERROR(CheckAtStep());
  const bool another =
      fit_.step < fit_.steps_per_epoch && !plan_.RunsOut(fit_.epoch, fit_.step);
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
  if (fit_.interrupted) RINGLET_RETURN_IF_ERROR(EndRoundsForGood());
  RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnSavePoint, epoch_ended));
  recovery_.TakeSnapshot();
  return fit_.interrupted ? InterruptedStatus() : TakePoint();
}

// What an interrupted fit ends with, once everything was saved.
Status Fitter::InterruptedStatus() {
  agreed_ = true;
  if (fit_.signal != 0 && !AnyRestoresAfterLoss(options_.callbacks)) {
    return Interrupted(
        fit_.signal, "interrupted after %s: %s", fit_.LastStep().c_str(),
        fit_.kept.empty() ? "nothing was saved" : fit_.kept.c_str());
  }
  // The other ranks cannot know how the chief's save went.
  return Error(Code::kCancelled,
               "interrupted before epoch %" PRId64 ", step %" PRId64
               "%s: run again to go on",
               fit_.epoch + 1, fit_.step + 1,
               fit_.chief ? "; the state was saved" : "");
}

}  // namespace ringlet
