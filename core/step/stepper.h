// Stepper: forward, loss, backward and update over a compiled model.
//
// It uses the nodes' addresses in memory, the exchange between the ranks, and
// the updater, which applies gradients to the weights. Parts that are called
// out of order return errors that change nothing.

#ifndef RINGLET_CORE_STEP_STEPPER_H_
#define RINGLET_CORE_STEP_STEPPER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "../exchange/compile_config.h"
#include "../exchange/gradient_exchange.h"
#include "../graph/graph.h"
#include "../graph/model_memory.h"
#include "../graph/step_timer.h"
#include "../objective/batch_loss.h"
#include "replica_times.h"
#include "ringlet/status.h"
#include "step_report.h"
#include "updater.h"

namespace ringlet {

class Stepper final : private GradientSink, private WorkerSums {
 public:
  // All arguments outlive the Stepper.
  Stepper(const Graph* graph, const CompileConfig* config, ModelMemory* memory,
          Updater* updater, const StepTimer* timer)
      : graph_(*graph),
        config_(*config),
        memory_(*memory),
        updater_(*updater),
        timer_(*timer),
        report_(config),
        no_exchange_(MakeNoExchange()) {}

  // Call after a Compile, before any step.
  void SetExchange(std::unique_ptr<GradientExchange> exchange);
  GradientExchange* exchange() { return exchange_.get(); }
  StepReport& report() { return report_; }
  ReplicaTimes& times() { return times_; }

  // ModelMemory::Reserve. If addresses change, the result of a Forward is lost.
  Status Reserve(int64_t batch, bool training);

  // `batch` is the batch of this rank's first replica. `loader` gives the
  // batches of this rank's other replicas; null if there are none. If another
  // rank gives up the step, this rank does too: *applied is false, and nothing
  // has changed but the report's notes.
  Status Train(const Batch& batch, BatchLoader* loader, bool* applied);
  // Gives up the step on all ranks, in the place of this rank's Train. Its
  // report sends `request`, which is not 0. It needs no batch, and runs only
  // layers that other ranks wait for. Only with several ranks.
  Status GiveUp(unsigned char request);
  Status Test(const Batch& batch);
  // Trains one replica of this rank for a step, without sums over other
  // replicas.
  Status TrainReplicaAlone(int replica, const Batch& batch);
  // Runs the forward pass, the loss and the backward pass of one replica, which
  // computes the gradients and *report, without an update. Drops a step under
  // way.
  Status ComputePassAlone(int replica, const Batch& batch, StepReport* report);
  // Sends the number of the step to the other workers.
  void BeginStep();
  void WarnOfNothingToTrain() const;

  // The parts of a step; see Model. If `for_loss`, the output is left as the
  // loss reads it.
  Status Forward(const float* x, int64_t examples, bool training,
                 bool for_loss);
  Status ComputeLoss(const Batch& batch, double* loss);
  // The steps of output `k` that its loss counts, of the last Forward.
  StepMask OutputMask(size_t k) const;
  // With `update_when_final` every range of the weights is updated when its
  // gradient is final, and the gradient is not kept.
  Status Backward(bool update_when_final);
  Status Apply();
  // Ends the step under way without an update.
  void CancelStep();
  // Waits until the gradients of the last Backward are sums over all replicas.
  // If they must be computed again, their inputs are read again.
  Status FinishGradients();

 private:
  // The results of the present step that exist.
  struct Results {
    bool output = false;  // input of the loss
    bool gradient_of_loss = false;
    bool gradients = false;
  };

  Status TrainReplicas(bool is_second_try);
  Status TrainReplica(const Batch& batch, bool is_second_try);
  Status TrainStep(const Batch& batch);
  Status RunPass(const Batch& batch, StepReport* report);
  Status TimeReplica(bool is_second_try, Batch* batch);
  Status ForwardAll(const float* x, int64_t examples, bool training,
                    bool for_loss);
  Status SumLosses(const Batch& batch, bool with_gradient, double* loss_sum);
  Status ComputeLosses(const Batch& batch, size_t output, float* gradient,
                       double* sum);
  bool WithoutActivation(int node) const;
  Status Report(const Batch& batch, double loss_sum);
  OpCall MakeCall(int node);
  Status Run(void (Op::*pass)(const OpCall&) const, int node, OpCall call);
  Status ForwardParts(int64_t examples, const BatchParts& parts);
  Status ForwardNodes(int begin, int end, int64_t examples);
  Status ForwardNode(int node, int64_t examples);
  // Rounds numbers of the node's size to bfloat16, and packs them if `packed`
  // is not null, in which case they may have been rounded before.
  void StoreBFloat16(int node, float* values, bool rounds, uint16_t* packed);
  void Unpack(size_t pass);
  Status RecomputeForward(int node);
  Status BackwardNode(int node);
  void AddSharedGradients(int node);
  // True if other ranks wait for this node on this rank.
  bool SynchronizesRanks(int node) const {
    const Op* const op = graph_.node(node).op.get();
    return op != nullptr && op->synchronizes() && active_exchange_ != nullptr &&
           active_exchange_->sums();
  }
  // True if the node runs in the present pass.
  bool RunsNode(int node) const {
    return count_ > 0 || (trains_ && SynchronizesRanks(node));
  }
  Status BackwardWithoutExamples();

  void OnGradientsFinal(int64_t begin) override;
  void ConsumeGradients(int64_t begin, const float* gradients) override;
  void ConsumeRows(int64_t begin, const GradientRows& rows) override;
  Status Sum(float* values, int64_t count) override {
    return exchange_->Sum(values, count);
  }

  const Graph& graph_;
  const CompileConfig& config_;
  ModelMemory& memory_;
  Updater& updater_;
  const StepTimer& timer_;
  StepReport report_;
  ReplicaTimes times_;
  std::unique_ptr<GradientExchange> exchange_;  // null before a Compile
  // The exchange of steps that a replica makes alone.
  const std::unique_ptr<GradientExchange> no_exchange_;
  // The exchange that gets the passes' gradients: one of the two above.
  GradientExchange* active_exchange_ = nullptr;

  // The step under way.
  int replica_ = 0;                // index of this rank's present replica
  Batch batch_;                    // the first replica's batch
  BatchLoader* loader_ = nullptr;  // reads the batches of the other replicas
  int64_t last_examples_ = 0;      // the examples of all ranks in the last step
  int64_t waited_nanos_ = 0;       // the present replica's wait for other ranks
  int64_t count_ = 0;              // examples
  bool trains_ = false;
  Results results_;
  bool update_when_final_ = false;
  // Outputs with a loss that takes logits still hold the logits.
  bool without_activation_ = false;
  std::vector<double> loss_sums_;  // the sum of each output
  int64_t final_from_ = 0;         // gradients from here on are final
};

}  // namespace ringlet

#endif  // RINGLET_CORE_STEP_STEPPER_H_
