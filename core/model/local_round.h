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
  void BeginReplica();
  // What it changed, times `share`, its examples as a part of all replicas',
  // lies where gradients and changes of state do.
  void EndReplica(double share);
  // It does not count: its part of the sum is zero.
  void LeaveOut() {
    Undo();
    EndReplica(0);
  }
  // The sum of these parts lies there; times `scale` it is the replicas' mean,
  // by which the weights move.
  void Finish(double scale);
  // Weights and iterations are those of Begin.
  void Undo();

 private:
  const Graph& graph_;
  const LocalUpdates& options_;
  const ModelMemory& memory_;
  Updater& updater_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_LOCAL_ROUND_H_
