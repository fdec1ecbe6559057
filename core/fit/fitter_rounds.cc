// Part of Fitter (fitter.cc): measures the length of a round of local updates,
// and ends the last round of a fit that ends early. Trial rounds are undone, so
// the run depends only on the chosen number of steps. All ranks compute the
// number from the same integers.

#include <algorithm>
#include <vector>

#include "../base/collective_numbers.h"
#include "auto_steps.h"
#include "fitter.h"
#include "run_state.h"

namespace ringlet {
// The number of steps is in the state: a worker that was in the run, or has its
// backup, does not measure again.
Status Fitter::ChooseRoundSteps() {
  CompileConfig& config = parts_.config();
  if (!config.chooses_steps() || round_steps_chosen_) return Status();
  std::vector<int64_t> all(static_cast<size_t>(config.collective->size()));
  RINGLET_RETURN_IF_ERROR(AllGatherNumbers(config.collective, &fit_.local_steps,
                                           sizeof(int64_t), 1, all.data()));
  int64_t chosen = *std::max_element(all.begin(), all.end());
  if (chosen == 0) RINGLET_RETURN_IF_ERROR(MeasureRounds(&chosen));
  round_steps_chosen_ = true;
  fit_.local_steps = config.chosen_steps = chosen;
  recovery_.OnBoundary();
  return Status();
}

// Each rank takes the shorter times of two rounds, since the first one also
// warms up caches and memory. Then the longest times of all ranks are used.
Status Fitter::MeasureRounds(int64_t* chosen) {
  Collective* const collective = model_->collective();
  const int64_t steps =
      std::min(kFewestAutoSteps, plan_.StepsLeft(fit_.epoch, fit_.step));
  *chosen = kFewestAutoSteps;
  if (steps <= 0) return Status();  // the data end here
  fit_.local_steps = steps;         // the loader reads it
  LocalTrainer::Times shortest = {INT64_MAX, INT64_MAX};
  Status status;
  for (int i = 0; i < 2 && status.ok(); ++i) {
    Batch batch;
    LocalTrainer::Times times;
    status = OpenLoader();
    if (status.ok()) status = loader_->Next(&batch);
    if (status.ok()) {
      status = parts_.local_trainer().MeasureRound(batch, steps, loader_.get(),
                                                   &times);
    }
    shortest.steps = std::min(shortest.steps, times.steps);
    shortest.exchange = std::min(shortest.exchange, times.exchange);
  }
  CloseData();
  fit_.local_steps = 0;
  RINGLET_RETURN_IF_ERROR(WithStep(status));
  const int64_t own_times[] = {shortest.steps / steps, shortest.exchange};
  std::vector<int64_t> all(2 * static_cast<size_t>(collective->size()));
  RINGLET_RETURN_IF_ERROR(
      AllGatherNumbers(collective, own_times, sizeof(int64_t), 2, all.data()));
  int64_t step = 1, exchange = 0;
  for (size_t i = 0; i < all.size(); i += 2) {
    step = std::max(step, all[i]);
    exchange = std::max(exchange, all[i + 1]);
  }
  const int64_t balanced = (exchange + step - 1) / step;
  *chosen = std::max(kFewestAutoSteps, std::min(kMaxAutoSteps, balanced));
  fit_.local_steps = *chosen;
  messages_.ReportRoundSteps(fit_, step, exchange);
  return Status();
}

// Applies the change that is still being sent, unless a callback has saved it
// in a backup.
Status Fitter::EndInterruptedRounds() {
  if (AnyRestoresAfterLoss(options_.callbacks)) return Status();
  RINGLET_RETURN_IF_ERROR(WithStep(parts_.local_trainer().EndRounds()));
  recovery_.OnBoundary();
  return Status();
}

}  // namespace ringlet
