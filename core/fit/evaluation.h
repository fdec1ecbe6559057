// A pass of TestSteps over a dataset.
//
// Internal to core/.

#ifndef RINGLET_CORE_FIT_EVALUATION_H_
#define RINGLET_CORE_FIT_EVALUATION_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "../base/status.h"
#include "../data/dataset.h"
#include "../model/model.h"
#include "../model/replica_shares.h"
#include "callback.h"
#include "progress.h"

namespace ringlet {

// Sets the values of the model's metrics under their names.
void SetMetrics(const Model& model, const std::vector<MetricState>& states,
                Logs* logs);
// Those of an epoch, or of what has passed of it. Where nobody has seen an
// example, as in rounds that nobody attends, they are no numbers: 0 would be
// the best loss of all.
void SetEpochMetrics(const Model& model, const std::vector<MetricState>& states,
                     Logs* logs);

// An error where `steps`, called `what`, is 0 for a dataset without end.
Status CheckEndless(const Dataset& dataset, int64_t steps, const char* what);

struct Evaluation {
  int64_t steps = 0;  // 0: to the end of the dataset
  bool prefetch = true;
  Progress* progress = nullptr;  // null: none
  // Told of each step's end; may set *stop. May be empty.
  std::function<Status(bool* stop)> step_ended;
};

// The metrics over all ranks go to `logs`; `done` becomes the steps taken.
// Where `step_ended` stops it there are no logs.
// `shares` are those that the model is trained by.
Status RunEvaluation(Model* model, const ReplicaShares& shares,
                     const Dataset& dataset, const Evaluation& evaluation,
                     Logs* logs, int64_t* done);

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_EVALUATION_H_
