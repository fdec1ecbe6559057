// LocalRound: the changes of the weights in a round of local updates.
//
// local_updates.h has the formulas. For each replica of this worker in turn,
// the stepper calls BeginReplica, trains the replica's steps and calls
// EndReplica. Until Finish, Undo restores the state of Begin.

#ifndef RINGLET_CORE_STEP_LOCAL_ROUND_H_
#define RINGLET_CORE_STEP_LOCAL_ROUND_H_

#include "../graph/graph.h"
#include "../graph/model_memory.h"
#include "ringlet/local_updates.h"
#include "updater.h"

namespace ringlet {

// Refuses sparse changes and overlap in an elastic job. With them a lost worker
// takes a part of the state with it.
Status CheckStateOutlivesLoss(const LocalUpdates& local);

class LocalRound {
 public:
  // All arguments outlive the LocalRound.
  LocalRound(const Graph* graph, const LocalUpdates* options,
             const ModelMemory* memory, Updater* updater)
      : graph_(*graph),
        options_(*options),
        memory_(*memory),
        updater_(*updater) {}

  void Begin();
  // `start` has the replica's first weights; null means the weights at Begin.
  void BeginReplica(const float* start);
  // Writes the replica's changes, times `fraction`, to the spans of gradients
  // and state changes. With overlap it writes the state itself. `fraction` is
  // the replica's part of all replicas' examples.
  void EndReplica(double fraction);
  // Excludes the replica from the round: its part of the sum is zero.
  void ExcludeReplica() {
    Undo();
    EndReplica(0);
  }
  // Multiplies the sum of the replicas' parts by `scale`, which makes it the
  // mean over the replicas that count.
  void Scale(double scale);
  // Moves the weights by `mean`, the replicas' mean, which has the layout of
  // gradients and state changes. If `mean` is null (with overlap), the weights
  // become again what they were at Begin.
  void Finish(const float* mean);
  // After Finish: writes to `start` the weights with which a replica begins the
  // next round. `contribution` is what EndReplica wrote for it, with this
  // `fraction`.
  void Predict(const float* contribution, double fraction, float* start) const;
  // Restores the weights and iterations of Begin.
  void Undo();

 private:
  // The new weight after the mean change `change`. *m is the weight's momentum.
  float Step(float w, float change, float* m) const {
    *m = options_.momentum * *m + change;
    const float by = options_.nesterov ? change + options_.momentum * *m : *m;
    return w - options_.learning_rate * by;
  }

  const Graph& graph_;
  const LocalUpdates& options_;
  const ModelMemory& memory_;
  Updater& updater_;
  const float* start_ = nullptr;  // first weights of the present replica
};

}  // namespace ringlet

#endif  // RINGLET_CORE_STEP_LOCAL_ROUND_H_
