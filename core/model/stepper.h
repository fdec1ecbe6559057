// Stepper: forward, loss, backward and update over a compiled model.
//
// Internal to core/. Of the memory it takes the nodes' places, of the exchange
// what the ranks send each other, of the updater what a gradient does to the
// weights. Pieces that are called out of order are errors that change nothing.

#ifndef RINGLET_CORE_MODEL_STEPPER_H_
#define RINGLET_CORE_MODEL_STEPPER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "../base/status.h"
#include "compile_config.h"
#include "gradient_exchange.h"
#include "graph.h"
#include "local_round.h"
#include "model_memory.h"
#include "participation.h"
#include "round_exchange.h"
#include "round_state.h"
#include "step_report.h"
#include "step_timer.h"
#include "updater.h"

namespace ringlet {

// What comes of a pass, equal on all machines that made the same one.
struct PassDigests {
  uint64_t metrics = 0;    // and losses
  uint64_t gradients = 0;  // and what the step changes state by
};

class Stepper final : private GradientSink, private WorkerSums {
 public:
  // All outlive it.
  Stepper(const Graph* graph, const CompileConfig* config, ModelMemory* memory,
          Updater* updater, const StepTimer* timer)
      : graph_(*graph),
        config_(*config),
        memory_(*memory),
        updater_(*updater),
        timer_(*timer),
        report_(config),
        round_(graph, &config->options.local, memory, updater),
        round_state_(graph, config, memory),
        participation_(config),
        alone_(MakeNoExchange()) {}

  // After a Compile, before any step. `rounds`: with local updates, that too.
  void SetExchange(std::unique_ptr<GradientExchange> exchange,
                   RoundExchange* rounds);
  StepReport& report() { return report_; }

  // What a replica takes on the average, its examples and its passes: of rounds
  // those since the last call count a quarter, what was before the rest. 0: not
  // known. Waiting for other ranks does not count, nor do replicas without
  // examples and the first step with an exchange, which takes memory.
  // `soon`: after few steps, some of them the first of all; what they say of a
  // rank that nothing was known of does not count the next time. What single
  // steps take is in the reports.
  int64_t AverageReplicaNanos(bool soon);

  // ModelMemory::Reserve; where places move, what a Forward has left is gone.
  Status Reserve(int64_t batch, bool training);

  // `batch` is that of this rank's first replica; `loader`, null where there is
  // one only, gives those of the others. Where another rank gives the step up
  // it is given up here too: *taken is false, and nothing has changed but the
  // report's notes.
  Status Train(const Batch& batch, BatchLoader* loader, bool* taken);
  // The same of a round of `steps` local updates, of which `batch` is the first
  // and `loader` gives the others in order: of each replica all of the round.
  // *last becomes its last one. After an error too all is as before. Which
  // replicas take part, and are in the mean: see participation() and report().
  Status TrainRound(const Batch& batch, int64_t steps, BatchLoader* loader,
                    Batch* last, bool* taken);
  // Of local updates: a fit begins, which knows nothing of those before.
  void BeginRounds();
  // Between two rounds, on all ranks: all of their state is on each of them, or
  // with `next` what RoundState::Gather says.
  Status GatherRounds(const ReplicaShares* next = nullptr);
  // An epoch ends: so do its rounds, the last one's change being applied.
  Status EndRounds();
  RoundState* round_state() { return &round_state_; }
  const Participation& participation() const { return participation_; }
  // Replicas that were late in the last round, which was computed again.
  int missed() const { return missed_; }
  // What a round costs, in nanoseconds: all its steps, on this rank, and the
  // exchange.
  struct RoundTimes {
    int64_t steps = 0, exchange = 0;
  };
  // A round that changes nothing.
  Status TryRound(const Batch& batch, int64_t steps, BatchLoader* loader,
                  RoundTimes* times);
  // This rank's part of a step that it gives up on all ranks: `note`, which is
  // not 0, goes to them with its report. It needs no batch, and runs no layer
  // but those that the other ranks' wait for. Only with several ranks.
  Status GiveUp(unsigned char note);
  Status Test(const Batch& batch);
  // Between two steps: a training pass over so many made-up examples, which
  // follow from seed and iterations and are the same on every rank. Nothing but
  // the gradients' place is changed by it.
  PassDigests ComputeCheck(int64_t examples);
  // What the next step's first examples took.
  void AddReading(int64_t nanos) { computed_nanos_ += nanos; }

  // The pieces; see Model. `for_loss`: the output is left as the loss takes it.
  Status Forward(const float* x, int64_t examples, bool training,
                 bool for_loss);
  Status ComputeLoss(const Batch& batch, double* loss);
  // With `update` every range of the weights is updated as soon as its gradient
  // is final, and the gradient is not kept.
  Status Backward(bool update);
  Status Apply();
  // Ends the step under way without an update.
  void Drop();
  // That, and what travels from round to round: nobody waits for it any more.
  void Abandon();
  // The gradients of the last Backward are sums over all replicas. What that
  // was computed of is read again where it has to be computed again.
  Status FinishGradients();

 private:
  // What of the step under way is there.
  struct Have {
    bool output = false;  // for a loss to be computed of
    bool gradient_of_loss = false;
    bool gradients = false;
  };

  void WarnOfNothingToTrain() const;
  // Tell the trail; and the others, where this worker is.
  void BeginStep();
  void NoteStepEnded() const;
  Status TrainReplicas(bool again);
  Status TrainReplica(const Batch& batch, bool again);
  // `waits`: for whoever is late.
  Status TrainRoundOf(Batch* batch, int64_t steps, BatchLoader* loader,
                      bool waits);
  Status ReplicaRound(Batch* batch, int64_t steps, BatchLoader* loader,
                      bool waits);
  int64_t RoundDeadline(int64_t begin) const;
  bool HasQuorum() const;
  void FinishRound();
  Status LocalStep(const Batch& batch);
  Status EndRound();
  Status CollectPending();
  Status TimeReplica(bool again, Batch* batch);
  int64_t TakeReplicaNanos();  // of those since the last call; 0: of none
  Batch MadeUpBatch(int64_t count) const;
  Status CheckPass(const Batch& batch, StepReport* report);
  void AddReplica(int64_t nanos) {
    computed_nanos_ += nanos;
    ++computed_replicas_;
  }
  // Those of the first step or round of an exchange.
  void DropColdTimes() {
    if (!warm_) computed_nanos_ = computed_replicas_ = 0;
    warm_ = true;
  }
  Status ForwardAll(const float* x, int64_t examples, bool training,
                    bool for_loss);
  Status SumLosses(const Batch& batch, bool with_gradient, double* loss_sum);
  Status ComputeLosses(const Batch& batch, size_t output, float* gradient,
                       double* sum);
  bool WithoutActivation(int node) const;
  Status Report(const Batch& batch, double loss_sum);
  OpCall CallOf(int node);
  Status Run(void (Op::*pass)(const OpCall&) const, int node, OpCall call);
  Status ForwardNode(int node);
  Status ForwardAgain(int node);
  Status BackwardNode(int node);
  void AddShared(int node);
  // Other ranks wait for this node of this one.
  bool Waits(int node) const {
    const Op* const op = graph_.node(node).op.get();
    return op != nullptr && op->synchronizes() && passes_ != nullptr &&
           passes_->sums();
  }
  // It has something to do in the pass under way.
  bool Takes(int node) const { return count_ > 0 || (trains_ && Waits(node)); }
  Status BackwardOfNothing();

  void Ready(int64_t begin) override;
  void Take(int64_t begin, const float* gradients) override;
  Status Sum(float* values, int64_t count) override {
    return exchange_->Sum(values, count);
  }

  const Graph& graph_;
  const CompileConfig& config_;
  ModelMemory& memory_;
  Updater& updater_;
  const StepTimer& timer_;
  StepReport report_;
  LocalRound round_;
  RoundState round_state_;
  bool travels_ = false;         // a round's change, to be collected
  std::vector<double> shares_;   // of a round's examples, by own replica
  Participation participation_;  // in the round under way
  int64_t of_all_ = 0;           // its examples, if all took part
  int missed_ = 0;               // replicas, before it was computed again
  std::unique_ptr<GradientExchange> exchange_;  // null before a Compile
  RoundExchange* rounds_ = nullptr;  // the same, with local updates; else null
  // Of steps that a replica makes on its own.
  const std::unique_ptr<GradientExchange> alone_;
  // Which of the two the passes' gradients go to.
  GradientExchange* passes_ = nullptr;

  // The step under way.
  int replica_ = 0;                // of this rank's, the one that is computed
  Batch batch_;                    // of the first one
  BatchLoader* loader_ = nullptr;  // gives the others'
  int64_t computed_nanos_ = 0, computed_replicas_ = 0, replica_nanos_ = 0;
  bool soon_ = false;          // replica_nanos_ is of few steps
  int64_t last_examples_ = 0;  // of all ranks, in the last step
  int64_t waited_nanos_ = 0;   // for other ranks, by the replica under way
  bool warm_ = false;
  int64_t count_ = 0;  // examples
  bool trains_ = false;
  Have have_;
  bool apply_when_ready_ = false;
  // Of the outputs, whose loss takes them, there are still the logits.
  bool without_activation_ = false;
  std::vector<double> loss_sums_;  // of each output
  int64_t ready_ = 0;              // gradients from here on are final
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_STEPPER_H_
