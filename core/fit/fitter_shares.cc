// What a step, or a round of them, is made of: batches, and the replicas of
// this worker; see fitter.cc.

#include <algorithm>
#include <utility>
#include <vector>

#include "../base/guarded.h"
#include "../model/model_impl.h"
#include "fitter.h"

namespace ringlet {
namespace {

// Where few steps say how long a replica takes more must be gained.
constexpr int kPercent = 5, kPercentSoon = 25;
constexpr int64_t kEvery = 32;  // steps, or the round that passes as many

}  // namespace

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

void Fitter::BeginShares() {
  const CompileConfig& config = model_->impl_->config;
  met_at_ = model_->iterations();
  told_at_ = INT64_MIN / 2;
  told_ = config.shares;
  if (config.dealt_by_speed && fit_.epoch < fit_.epochs) {
    messages_.Shares(fit_, told_);
  }
}

Status Fitter::ShareBySpeed(bool* moved) {
  CompileConfig& config = model_->impl_->config;
  if (!config.collective->elastic() || alone() || config.shares.own() ||
      config.replicas <= config.collective->size()) {
    return Status();
  }
  ReplicaShares next = config.shares;
  if (config.local()) {
    RINGLET_RETURN_IF_ERROR(DealByRounds(&next, moved));
  } else {
    *moved = DealBySteps(&next);
  }
  if (*moved) {
    RINGLET_RETURN_IF_ERROR(model_->impl_->stepper.GatherRounds(&next));
    config.shares = std::move(next);
    config.own = config.shares.of(config.collective->rank());
    model_->impl_->TakeReplicas();
  }
  TellOfShares();
  return Status();
}

// Where they follow a board that is slow now and then, a line now and then; the
// last one is of those that stay.
void Fitter::TellOfShares() {
  const ReplicaShares& shares = model_->impl_->config.shares;
  const int64_t steps = model_->iterations();
  if (steps < told_at_ + kEvery || shares == told_) return;
  told_at_ = steps;
  told_ = shares;
  messages_.Shares(fit_, shares);
}

// By what the reports of the last steps have told all ranks. A worker that has
// become slow, or fast, for a while is found in five steps, or one; what comes
// between is noise, which makes a step long and never short: docs/design.md,
// "Shares follow speeds".
bool Fitter::DealBySteps(ReplicaShares* next) {
  constexpr size_t kFew = 5;
  CompileConfig& config = model_->impl_->config;
  const int64_t steps = model_->iterations();
  // Of one that came nothing may be known yet.
  const size_t least = config.measures_soon ? 2 : kFew;
  const std::vector<int64_t> last = config.speeds.Shortest(kFew, least);
  if (last.empty()) return false;
  config.measures_soon = false;
  if (steps / kEvery != (steps - fit_.steps_taken) / kEvery) {
    // Not for one step, behind which the last few say otherwise.
    ReplicaShares many = *next;
    if (many.Deal(config.speeds.Medians(kFew), kPercent) &&
        !ReplicaShares(many).Deal(last, kPercentSoon)) {
      *next = std::move(many);
      return true;
    }
  }
  return next->Deal(last, kPercentSoon);
}

// What a report of rounds tells is a whole round old, so they gather.
Status Fitter::DealByRounds(ReplicaShares* next, bool* moved) {
  // After one came of whom nothing is known; the first round since then is not
  // measured (Stepper::DropColdTimes).
  constexpr int64_t kSoon = 4;
  CompileConfig& config = model_->impl_->config;
  const int64_t steps = model_->iterations();
  const int64_t before = steps - fit_.steps_taken;
  const bool soon = config.measures_soon;
  const bool due = soon ? steps >= met_at_ + kSoon && before > met_at_
                        : steps / kEvery != before / kEvery;
  if (!due) return Status();
  config.measures_soon = false;
  const int64_t mine = model_->impl_->stepper.AverageReplicaNanos(soon);
  std::vector<int64_t> all(static_cast<size_t>(config.collective->size()));
  RINGLET_RETURN_IF_ERROR(
      GatherNumbers(config.collective, &mine, sizeof(mine), 1, all.data()));
  config.speeds.Set(all);
  *moved = next->Deal(all, soon ? kPercentSoon : kPercent);
  return Status();
}

void Fitter::NoteContributors() {
  Stepper& stepper = model_->impl_->stepper;
  const std::vector<double>& examples = stepper.report().examples();
  fit_.contributors.clear();
  for (size_t r = 0; r < examples.size(); ++r) {
    if (examples[r] > 0) fit_.contributors.push_back(static_cast<int>(r));
  }
  messages_.LeftOut(fit_, stepper.participation().count(),
                    stepper.report().late(), stepper.missed());
}

int64_t Fitter::RoundSteps() const {
  return model_->impl_->config.local() ? fit_.local_steps : 1;
}

// One step, or a round of them: *batch becomes the last one.
Status Fitter::Train(Batch* batch, bool* taken) {
  Model::Impl& m = *model_->impl_;
  RINGLET_RETURN_IF_ERROR(m.Usable());
  if (m.config.local()) {
    fit_.steps_taken =
        std::min(RoundSteps(), plan_.StepsLeft(fit_.epoch, fit_.step));
    const Batch first = *batch;
    RINGLET_RETURN_IF_ERROR(m.stepper.TrainRound(first, fit_.steps_taken,
                                                 loader_.get(), batch, taken));
  } else {
    RINGLET_RETURN_IF_ERROR(m.stepper.Train(*batch, loader_.get(), taken));
  }
  if (!*taken) return Status();
  if (m.config.local()) {
    NoteContributors();
  } else if (m.config.collective->elastic() && !m.config.shares.own()) {
    m.config.speeds.Add(m.stepper.report().replica_nanos());
  }
  recovery_.StepTaken();
  m.replicas.StepTaken();
  AddMetrics(fit_.step_metrics, &fit_.metrics);
  return Status();
}

// This rank has made the step, also where a callback then loses another: the
// other callbacks hear of its end, and the state is of behind it.
Status Fitter::StepMade(const DataPosition& next) {
  Status lost;
  for (const auto& callback : options_.callbacks) {
    Status told = Guarded<const Logs&>(callback.get(),
                                       &Callback::OnTrainBatchEnd, fit_, logs_)
                      .Annotate("%s", callback->name());
    if (told.ok()) told = model_->status();
    const bool wrong = model_->impl_->replicas.judged();  // and so goes back
    if (wrong || told.code() != Code::kPeerLost) {
      RINGLET_RETURN_IF_ERROR(told);
    }
    if (lost.ok()) lost = told;
  }
  NoteSignal();
  ++fit_.step;
  fit_.position = next;
  if (lost.ok()) return lost;
  recovery_.TakeSnapshot();
  requests_.Defer(*model_->collective(), &fit_);
  return lost;
}

// A rank asks for it: the fit is where it was before the step.
Status Fitter::StepGivenUp() {
  requests_.Merge(model_->impl_->stepper.report().notes(), &fit_);
  if (fit_.interrupted) return SavePoint(/*epoch_ended=*/false);
  const bool ends = fit_.stop_training != 0;
  return requests_.meets_anew() && !ends ? MeetAnew() : Status();
}

// Between two steps, on every rank. Nobody is lost yet.
Status Fitter::MeetAnew() {
  RINGLET_RETURN_IF_ERROR(model_->impl_->stepper.GatherRounds());
  agreed_ = true;
  return PeerLost(-1, "another worker waits to take part");
}

}  // namespace ringlet
