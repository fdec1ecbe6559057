// How many steps a round of local updates has, where the link is to say it, and
// the last one of a fit that is cut off; see fitter.cc. What is tried is taken
// back, so that the run is that of the number alone; the number comes from
// integers that all ranks have.

#include <algorithm>
#include <vector>

#include "../model/model_impl.h"
#include "auto_steps.h"
#include "fitter.h"

namespace ringlet {
// One that has been in the run, or has its backup, knows it.
Status Fitter::ChooseRoundSteps() {
  CompileConfig& config = model_->impl_->config;
  if (!config.chooses_steps() || chose_) return Status();
  std::vector<int64_t> all(static_cast<size_t>(config.collective->size()));
  RINGLET_RETURN_IF_ERROR(GatherNumbers(config.collective, &fit_.local_steps,
                                        sizeof(int64_t), 1, all.data()));
  int64_t chosen = *std::max_element(all.begin(), all.end());
  if (chosen == 0) RINGLET_RETURN_IF_ERROR(TryRounds(&chosen));
  chose_ = true;
  fit_.local_steps = config.chosen_steps = chosen;
  recovery_.TakeSnapshot();
  return Status();
}

// The first is cold, so of two the shorter times count: as long as the slowest
// rank's.
Status Fitter::TryRounds(int64_t* chosen) {
  Collective* const collective = model_->collective();
  const int64_t steps =
      std::min(kFewestAutoSteps, plan_.StepsLeft(fit_.epoch, fit_.step));
  *chosen = kFewestAutoSteps;
  if (steps <= 0) return Status();  // the data end here
  fit_.local_steps = steps;         // of the loader
  Stepper::RoundTimes least = {INT64_MAX, INT64_MAX};
  Status status;
  for (int i = 0; i < 2 && status.ok(); ++i) {
    Batch batch;
    Stepper::RoundTimes times;
    status = OpenLoader();
    if (status.ok()) status = loader_->Next(&batch);
    if (status.ok()) {
      status =
          model_->impl_->stepper.TryRound(batch, steps, loader_.get(), &times);
    }
    least.steps = std::min(least.steps, times.steps);
    least.exchange = std::min(least.exchange, times.exchange);
  }
  CloseData();
  fit_.local_steps = 0;
  RINGLET_RETURN_IF_ERROR(AtStep(status));
  const int64_t mine[] = {least.steps / steps, least.exchange};
  std::vector<int64_t> all(2 * static_cast<size_t>(collective->size()));
  RINGLET_RETURN_IF_ERROR(
      GatherNumbers(collective, mine, sizeof(int64_t), 2, all.data()));
  int64_t step = 1, exchange = 0;
  for (size_t i = 0; i < all.size(); i += 2) {
    step = std::max(step, all[i]);
    exchange = std::max(exchange, all[i + 1]);
  }
  const int64_t balanced = (exchange + step - 1) / step;
  *chosen = std::max(kFewestAutoSteps, std::min(kMostAutoSteps, balanced));
  fit_.local_steps = *chosen;
  messages_.RoundSteps(fit_, step, exchange);
  return Status();
}

// Without a backup, which has what travels, it would be lost to the model.
Status Fitter::EndRoundsForGood() {
  if (AnyRestoresAfterLoss(options_.callbacks)) return Status();
  RINGLET_RETURN_IF_ERROR(AtStep(model_->impl_->stepper.EndRounds()));
  recovery_.TakeSnapshot();
  return Status();
}

}  // namespace ringlet
