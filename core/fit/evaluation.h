// RunEvaluation: the loop of Evaluate and of validation. SetEpochMetrics: the
// metrics in the logs of an epoch.

#ifndef RINGLET_CORE_FIT_EVALUATION_H_
#define RINGLET_CORE_FIT_EVALUATION_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "../exchange/replica_assignment.h"
#include "progress.h"
#include "ringlet/dataset.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

// Sets the values of the model's metrics under their names.
void SetMetrics(const Model& model, const std::vector<MetricState>& states,
                Logs* logs);
// Sets the metrics of an epoch, or of its part so far. Without an example, as
// in rounds without a participant, they are NaN: 0 would be the best loss.
void SetEpochMetrics(const Model& model, const std::vector<MetricState>& states,
                     Logs* logs);

// Returns an error if `steps`, called `option`, is 0 for an endless dataset.
Status CheckEndless(const Dataset& dataset, int64_t steps, const char* option);

struct Evaluation {
  int64_t steps = 0;  // zero means the whole dataset
  bool prefetch = true;
  Progress* progress = nullptr;  // null shows no progress
  // Called after each step; may set *stop. May be empty.
  std::function<Status(bool* stop)> step_ended;
};

// The metrics over all ranks go to `logs`; `done` becomes the number of steps.
// If `step_ended` stops the evaluation, there are no logs. `assignment` is the
// assignment of the training.
Status RunEvaluation(Model* model, const ReplicaAssignment& assignment,
                     const Dataset& dataset, const Evaluation& evaluation,
                     Logs* logs, int64_t* done);

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_EVALUATION_H_
