// ModelMemory: owns and places the memory of a model and of its step.
//
// There are two blocks. The persistent block has weights, gradients and
// optimizer slots, each one span in the order of the graph's variables. State
// is after the other weights; the other spans have only trained variables. The
// step's block has a batch and the buffers that StepPlan placed by lifetime,
// for a largest batch. With caller's memory it is after the persistent block.
// The addresses in a block are valid until it is allocated again.

#ifndef RINGLET_CORE_GRAPH_MODEL_MEMORY_H_
#define RINGLET_CORE_GRAPH_MODEL_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "../base/arena.h"
#include "../compute/exact_grid.h"
#include "graph.h"
#include "live_buffers.h"
#include "ringlet/model.h"
#include "ringlet/status.h"
#include "step_plan.h"

namespace ringlet {

// The addresses of the persistent block, from one AllocatePersistent to the
// next.
struct PersistentSpans {
  float* weights = nullptr;
  float* gradients = nullptr;
  // The changes of layer state in a step; directly after the gradients.
  float* layer_state_changes = nullptr;
  float* slots[8] = {};
  uint8_t* scales = nullptr;  // the scales of exact sums, see ExactSpans
  // Sums over this worker's replicas (ReplicaSums), as long as gradients and
  // changes; with local updates the packed words (DeltaSpans::words).
  float* sums = nullptr;
  // For local updates: the weights at the round's start, the outer step's
  // momentum, and contributions (see DeltaSpans).
  float* round_weights = nullptr;
  float* outer_momentum = nullptr;
  float* contributions = nullptr;
  float* errors = nullptr;   // the errors of all replicas, see SparseSpans
  float* pending = nullptr;  // the received mean, not yet applied
  float* starts = nullptr;   // first weights of all replicas, see RoundState
};

// The trained weights, followed by the state that training changes, in the
// order of their gradients and changes. Each variable is a tensor of the grid
// of exact sums.
GridLayout MakeGridLayout(const Graph& graph);

// The addresses of a step's memory, except the addresses of the planned
// buffers.
struct StepSpans {
  float* x = nullptr;  // the inputs of this step's batch
  void* y = nullptr;
  float* per_example = nullptr;  // losses
  unsigned char* planned = nullptr;
};

// The addresses of one node; null for what it does not have.
struct NodeSpans {
  float* y = nullptr;          // the output in the forward pass
  uint16_t* packed = nullptr;  // the output as bfloat16
  // The output for the backward pass: y, or computed again, or unpacked.
  float* y_for_backward = nullptr;
  float* dy = nullptr;
  float* forward_scratch = nullptr;
  float* recompute_scratch = nullptr;  // scratch of the repeated forward pass
  float* backward_scratch = nullptr;
  float* saved = nullptr;       // see OpCall
  std::vector<const float*> x;  // the inputs' y
  // The inputs after the loss; null for what is not read.
  std::vector<const float*> x_for_backward, x_for_recompute;
  std::vector<float*> dx;
  std::vector<float*> extra_dx;  // null if dx is the input's dy
  std::vector<float*> weights;
  std::vector<float*> d_weights;            // null if not trained
  std::vector<float*> layer_state_changes;  // null if unchanged
  // y has all examples of the batch while other nodes run it in parts.
  bool keeps_all_parts = false;
  // Clears every pointer into the step's block. Call it when that block is
  // freed.
  void ClearStep() {
    y = y_for_backward = dy = nullptr;
    packed = nullptr;
    forward_scratch = recompute_scratch = backward_scratch = saved = nullptr;
    x.clear();
    x_for_backward.clear();
    x_for_recompute.clear();
    dx.clear();
    extra_dx.clear();
  }
};

class ModelMemory {
 public:
  struct Options {
    void* memory = nullptr;   // the caller's memory; null means the heap
    size_t memory_bytes = 0;  // bytes of `memory`, or a limit if not zero
    int threads = 1;
    bool recompute = false;  // see CompileOptions
    int num_slots = 0;       // the optimizer's slots
    float first_slot = 0;    // the initial value of the first slot
    size_t label_bytes = 0;  // the bytes of one example's label
    bool exact = false;      // gradients are summed on the integer grid
    bool sums = false;       // the worker computes several replicas
    // For local updates: the most replicas of the worker; zero if not
    // used.
    int local_replicas = 0;
    int all_replicas = 0;  // the replicas in the job
    bool errors = false;   // sparse changes need error feedback
    bool starts = false;   // rounds overlap
  };

  // `graph` outlives the ModelMemory.
  explicit ModelMemory(const Graph* graph) : graph_(*graph) {}
  ~ModelMemory();
  ModelMemory(const ModelMemory&) = delete;
  ModelMemory& operator=(const ModelMemory&) = delete;

  // Allocates the persistent block for a complete graph. Weights of an earlier
  // call are kept, and slots are zero. Gradients are not written: a single
  // process may never touch them (see GradientSink::ConsumeGradients). The
  // step's block is released. An error changes nothing.
  Status AllocatePersistent(const Options& options);
  const PersistentSpans& persistent() const { return persistent_; }
  // Resets the slots to their values after AllocatePersistent.
  void ResetSlots() const;

  // Allocates the step's block, unless the present one is large enough. *moved
  // becomes true once the old addresses are invalid. If an error follows, there
  // is no block.
  Status Reserve(int64_t batch, bool training, bool* moved);
  const StepSpans& step() const { return step_; }

  // Makes `x` the output of the first node and of its views. The second input
  // follows `examples` examples of the first.
  void SetInput(const float* x, int64_t examples);
  const NodeSpans& node(int i) const { return nodes_[i]; }
  // The nodes that run the batch in parts: frozen ones, if the step's block has
  // their memory for a part only, or all nodes without training.
  const BatchParts& frozen_parts() const { return frozen_parts_; }
  BatchParts parts(bool training) const;
  // Begins the next part: `example` becomes the first example of the values
  // that all parts keep. All other values of the previous part are overwritten.
  // SetInput sets the first example to 0.
  void SetFirstExample(int64_t example);
  // An output of the model; null without a step's block.
  const float* output(size_t k) const {
    return nodes_.empty() ? nullptr : nodes_[graph_.outputs()[k]].y;
  }
  // Where pass k of the schedule unpacks its node's output, or computes it
  // again.
  float* pass_output(size_t k) const { return pass_outputs_[k]; }
  // The schedule of the step's block.
  const StepSchedule& schedule() const { return *schedule_; }
  // See LiveBuffers.
  void PoisonAllBut(int time, int64_t examples) const {
    live_.PoisonAllBut(time, examples);
  }

  // Lends the step's block. It is not moved or freed while the result exists.
  std::shared_ptr<void> Lend();
  Status CheckNotLent(const char* call) const;

  // The memory of training with batches of `batch` >= 1. Call it after
  // AllocatePersistent.
  MemoryPlan Plan(int64_t batch) const;
  uint64_t BytesUsed() const { return persistent_bytes_ + step_bytes_; }

 private:
  struct FreeDeleter {
    void operator()(void* p) const { std::free(p); }
  };
  using Block = std::unique_ptr<void, FreeDeleter>;
  static Block AllocateBlock(uint64_t bytes);

  PersistentSpans PlacePersistent(const Options& options, Arena* arena) const;
  StepSpans PlaceStep(int64_t batch, const StepPlan& plan, Arena* arena) const;
  StepPlan MakeStepPlan(int64_t batch, bool training) const {
    return StepPlan(graph_,
                    {batch, training, options_.threads, options_.recompute});
  }
  uint64_t StepBytes(int64_t batch, const StepPlan& plan) const;
  uint64_t StepBytes(int64_t batch, bool training) const {
    return StepBytes(batch, MakeStepPlan(batch, training));
  }
  Status CheckLimit(const Options& options, uint64_t bytes,
                    const char* subject) const;
  Status CheckCountable(int64_t batch, bool training) const;
  Status FitLimit(int64_t* batch, bool* training) const;
  Status AllocateStep(uint64_t bytes, const StepPlan& plan, void** place);
  void BindPersistent();
  void BindStep(const StepPlan& plan);
  void BindInputs();
  void MarkWhatAllPartsKeep(const StepPlan& plan);
  void BindShared(int node, float* gradients);
  void CheckScratch() const;
  void PoisonSlack() const;
  void ReleasePersistent();
  void ReleaseStep();

  const Graph& graph_;
  Options options_;
  Block persistent_block_;  // null with the caller's memory
  PersistentSpans persistent_;
  uint64_t persistent_bytes_ = 0;
  std::shared_ptr<void> step_block_;  // shared with an open loader
  std::weak_ptr<void> lease_;         // a loader's lease of the step's block
  StepSpans step_;
  uint64_t step_bytes_ = 0;
  int64_t batch_ = 0;  // the largest batch that fits the step's block
  bool training_ = false;
  std::unique_ptr<const StepSchedule>
      schedule_;  // null where there is no block
  std::vector<NodeSpans> nodes_;
  BatchParts frozen_parts_, all_parts_;
  int64_t first_example_ = 0;
  std::vector<float*> pass_outputs_;
  LiveBuffers live_;
};

// The weights as "model/<layer>/<weight>".
class WeightsState final : public Saveable {
 public:
  WeightsState(const Graph* graph, const ModelMemory* memory)
      : graph_(*graph), memory_(*memory) {}
  void AppendState(std::vector<StateSpan>* spans) override;

 private:
  const Graph& graph_;
  const ModelMemory& memory_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_GRAPH_MODEL_MEMORY_H_
