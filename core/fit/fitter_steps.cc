// Part of Fitter (fitter.cc): a step, or a round of steps.

#include <algorithm>
#include <vector>

#include "../base/guarded.h"
#include "fitter.h"

namespace ringlet {
Status Fitter::OpenLoader() {
  loader_.reset();
  LoaderOptions loading;
  loading.start = fit_.position;
  loading.background = options_.prefetch;
  loading.class_weight = options_.class_weight;
  loading.round = RoundSteps();
  loading.steps = plan_.StepsLeft(fit_.epoch, fit_.step);
  return model_->OpenLoader(dataset_, loading, &loader_);
}

void Fitter::RecordContributors() {
  Stepper& stepper = parts_.stepper();
  const std::vector<double>& examples = stepper.report().examples();
  fit_.round_replicas.clear();
  for (size_t r = 0; r < examples.size(); ++r) {
    if (examples[r] > 0) fit_.round_replicas.push_back(static_cast<int>(r));
  }
  const LocalTrainer& rounds = parts_.local_trainer();
  messages_.ReportLeftOut(fit_, rounds.participation().count(),
                          stepper.report().late_replicas(),
                          rounds.late_replicas());
}

int64_t Fitter::RoundSteps() const {
  return parts_.config().local() ? fit_.local_steps : 1;
}

Status Fitter::TrainStepOrRound(Batch* batch, bool* applied) {
  CompileConfig& config = parts_.config();
  Stepper& stepper = parts_.stepper();
  RINGLET_RETURN_IF_ERROR(parts_.CheckUsable());
  if (config.local()) {
    fit_.steps_taken =
        std::min(RoundSteps(), plan_.StepsLeft(fit_.epoch, fit_.step));
    const Batch first = *batch;
    RINGLET_RETURN_IF_ERROR(parts_.local_trainer().TrainRound(
        first, fit_.steps_taken, loader_.get(), batch, applied));
  } else {
    RINGLET_RETURN_IF_ERROR(stepper.Train(*batch, loader_.get(), applied));
  }
  if (!*applied) return Status();
  if (config.local()) {
    RecordContributors();
  } else if (config.collective->elastic() &&
             !config.job_replicas.assignment().is_fixed()) {
    config.job_replicas.throughput().Add(stepper.report().replica_nanos());
  }
  recovery_.OnUpdate();
  AddMetrics(fit_.step_metrics, &fit_.metrics);
  return Status();
}

// This rank has made the step, even if a callback then reports a lost worker.
// The remaining callbacks are called in this case too, and the state is the
// state after the step.
Status Fitter::AdvancePosition(const DataPosition& next) {
  Status lost;
  for (const auto& callback : options_.callbacks) {
    Status notified =
        CallGuarded<const Logs&>(callback.get(), &Callback::OnTrainBatchEnd,
                                 fit_, step_logs_)
            .Annotate("%s", callback->name());
    if (notified.ok()) notified = model_->status();
    if (notified.code() != Code::kPeerLost) RINGLET_RETURN_IF_ERROR(notified);
    if (lost.ok()) lost = notified;
  }
  RecordSignal();
  ++fit_.step;
  fit_.position = next;
  if (lost.ok()) return lost;
  recovery_.OnBoundary();
  requests_.Defer(*model_->collective(), &fit_);
  return lost;
}

// Ends a step that all ranks have given up because a rank requested it. The fit
// is at its position before the step.
Status Fitter::HandleStepGivenUp() {
  requests_.Merge(parts_.stepper().report().requests(), &fit_);
  if (fit_.interrupted) return SavePoint(/*epoch_ended=*/false);
  const bool ends = fit_.stop_training != 0;
  return requests_.needs_new_view() && !ends ? FormNewView() : Status();
}

// Called between two steps, on every rank, when a joining worker waits. The
// error makes all ranks form a new view, although no worker is lost.
Status Fitter::FormNewView() {
  all_ranks_have_error_ = true;
  return PeerLost(-1, "another worker waits to take part");
}

}  // namespace ringlet
