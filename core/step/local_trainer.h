// LocalTrainer: trains rounds of local updates.
//
// In a round each replica of this worker makes its steps alone
// (Stepper::TrainReplicaAlone). LocalRound has the changes of the weights, and
// RoundExchange averages them over all replicas. An error changes nothing.

#ifndef RINGLET_CORE_STEP_LOCAL_TRAINER_H_
#define RINGLET_CORE_STEP_LOCAL_TRAINER_H_

#include <cstdint>
#include <vector>

#include "../exchange/compile_config.h"
#include "../exchange/participation.h"
#include "../exchange/round_exchange.h"
#include "../exchange/round_state.h"
#include "../graph/graph.h"
#include "../graph/model_memory.h"
#include "local_round.h"
#include "stepper.h"
#include "updater.h"

namespace ringlet {

class LocalTrainer {
 public:
  // All arguments outlive the LocalTrainer.
  LocalTrainer(const Graph* graph, const CompileConfig* config,
               const ModelMemory* memory, Updater* updater, Stepper* stepper)
      : graph_(*graph),
        config_(*config),
        memory_(*memory),
        updater_(*updater),
        stepper_(*stepper),
        round_(graph, &config->options.local, memory, updater),
        state_(graph, config, memory),
        participation_(config) {}

  // `rounds` is the stepper's exchange; null without local updates.
  void SetExchange(RoundExchange* rounds);

  // Trains a round of `steps` steps. `batch` is its first batch, and `loader`
  // gives the other batches: all batches of the round for one replica, then for
  // the next replica. *last becomes the last batch. *applied is false if
  // another rank gave the round up. After the call participation() has the
  // replicas that took part, and Stepper::report() has the replicas in the
  // mean.
  Status TrainRound(const Batch& batch, int64_t steps, BatchLoader* loader,
                    Batch* last, bool* applied);
  // The time of a round in nanoseconds: all its steps on this rank, and the
  // exchange.
  struct Times {
    int64_t steps = 0, exchange = 0;
  };
  // Measures a round, and undoes it.
  Status MeasureRound(const Batch& batch, int64_t steps, BatchLoader* loader,
                      Times* times);
  // Begins a fit, without state of earlier fits.
  void Reset();
  // Between two rounds, on all ranks: gathers the state of all replicas on each
  // rank.
  Status GatherRoundState();
  // Ends an epoch's rounds: applies the last change.
  Status EndRounds();
  // Drops the stepper's step, and a started exchange.
  void Abandon();

  RoundState* state() { return &state_; }
  const Participation& participation() const { return participation_; }
  // Late replicas of a last round that was computed again.
  int late_replicas() const { return late_replicas_; }

 private:
  // If `waits`, late replicas are trained too.
  Status TrainReplicas(Batch* batch, int64_t steps, BatchLoader* loader,
                       bool waits);
  Status TrainReplica(int k, Batch* batch, int64_t steps, BatchLoader* loader,
                      bool waits);
  int64_t Deadline(int64_t begin) const;
  bool HasQuorum() const;
  void FinishRound();
  Status ApplyRoundChange();
  Status CollectPending();

  const Graph& graph_;
  const CompileConfig& config_;
  const ModelMemory& memory_;
  Updater& updater_;
  Stepper& stepper_;
  LocalRound round_;
  RoundState state_;
  Participation participation_;  // the participants of the present round
  RoundExchange* rounds_ = nullptr;
  bool is_sent_ = false;  // a round's change is sent and not collected
  // The fraction of the round's examples, by own replica.
  std::vector<double> example_fractions_;
  int64_t job_examples_ = 0;  // the round's examples, of all replicas
  // The round's late replicas, before it was computed again.
  int late_replicas_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_STEP_LOCAL_TRAINER_H_
