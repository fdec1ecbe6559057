// LocalRound: what a round of local updates does to the weights.
//
// Internal to core/. The formulas are local_updates.h's. In between the calls
// the stepper trains: BeginReplica, the replica's steps, EndReplica; for each
// of this worker's replicas in turn. Until Finish, Undo takes all of it back.

#ifndef RINGLET_CORE_MODEL_LOCAL_ROUND_H_
#define RINGLET_CORE_MODEL_LOCAL_ROUND_H_

#include "graph.h"
#include "local_updates.h"
#include "model_memory.h"
#include "updater.h"

namespace ringlet {

class LocalRound {
 public:
  // All outlive it.
  LocalRound(const Graph* graph, const LocalUpdates* options,
             const ModelMemory* memory, Updater* updater)
      : graph_(*graph),
        options_(*options),
        memory_(*memory),
        updater_(*updater) {}

  void Begin();
  // `start`: the weights that it begins with; null: those of Begin.
  void BeginReplica(const float* start);
  // What it changed, times `share`, its examples as a part of all replicas',
  // lies where gradients and changes of state do.
  void EndReplica(double share);
  // It does not count: its part of the sum is zero.
  void LeaveOut() {
    Undo();
    EndReplica(0);
  }
  // The sum of these parts lies there; `scale` times it is the mean over those
  // replicas that count.
  void Scale(double scale);
  // The weights move by the replicas' mean, which lies in `mean` as gradients
  // and changes of state do. Null: they are those of Begin, with overlap.
  void Finish(const float* mean);
  // After Finish: `start` becomes where a replica begins the next round, which
  // has changed so much, times `share`, in this one.
  void Predict(const float* contribution, double share, float* start) const;
  // Weights and iterations are those of Begin.
  void Undo();

 private:
  // The step that the weight w makes, by the mean change; *m is its momentum.
  float Step(float w, float change, float* m) const {
    *m = options_.momentum * *m + change;
    const float by = options_.nesterov ? change + options_.momentum * *m : *m;
    return w - options_.learning_rate * by;
  }

  const Graph& graph_;
  const LocalUpdates& options_;
  const ModelMemory& memory_;
  Updater& updater_;
  const float* start_ = nullptr;  // of the replica under way
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_LOCAL_ROUND_H_
