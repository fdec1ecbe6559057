// ModelMemory: owns and places what a model keeps and what a step needs.
//
// Internal to core/. Two blocks: the kept one holds weights, gradients and the
// optimizer's slots, each one span in the order of the graph's variables (the
// weights with state behind them, the others without what is not trained); the
// step's one, behind it where the memory is the caller's, holds a batch and
// the buffers that StepPlan placed by lifetime, for a largest batch. The
// places of one block stay until it is taken anew.

#ifndef RINGLET_CORE_MODEL_MODEL_MEMORY_H_
#define RINGLET_CORE_MODEL_MODEL_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "../base/arena.h"
#include "../base/status.h"
#include "graph.h"
#include "live_buffers.h"
#include "model.h"
#include "step_plan.h"

namespace ringlet {

// The places of what the model keeps.
struct KeptSpans {
  float* weights = nullptr;
  float* gradients = nullptr;
  float* state_changes = nullptr;  // of a step; right behind the gradients
  float* slots[8] = {};
  uint8_t* scales = nullptr;  // of exact reduction, see ExactSpans
  float* sums = nullptr;  // see ReplicaSums; as long as gradients and changes
  // Of local updates: the weights at the round's begin, the outer step's
  // momentum, and contributions (see DeltaSpans).
  float* round_weights = nullptr;
  float* outer_momentum = nullptr;
  float* contributions = nullptr;
  float* errors = nullptr;   // of all replicas, see SparseSpans
  float* pending = nullptr;  // the mean that was collected and not yet applied
  float* starts = nullptr;   // the weights of all replicas, see RoundState
};

// The places of a step besides the planned buffers.
struct StepSpans {
  float* x = nullptr;  // of this step's batch
  void* y = nullptr;
  float* per_example = nullptr;  // losses
  unsigned char* planned = nullptr;
};

// The places of one node; null where it has none.
struct NodeSpans {
  float* y = nullptr;     // of the forward pass …
  float* kept = nullptr;  // … and as it is, or is made again, after the loss
  float* dy = nullptr;
  float* forward_scratch = nullptr;
  float* again_scratch = nullptr;  // of the forward pass made again
  float* backward_scratch = nullptr;
  float* saved = nullptr;            // see OpCall
  std::vector<const float*> x;       // the inputs' y …
  std::vector<const float*> kept_x;  // … and their `kept`
  std::vector<float*> dx;
  std::vector<float*> extra_dx;  // null: dx is the input's dy itself
  std::vector<float*> weights;
  std::vector<float*> d_weights;      // null where not trained
  std::vector<float*> state_changes;  // null where it is not
};

class ModelMemory {
 public:
  struct Options {
    void* memory = nullptr;   // the caller's, or null: of the heap
    size_t memory_bytes = 0;  // see CompileOptions
    int threads = 1;
    bool recompute = false;  // see CompileOptions
    int num_slots = 0;       // of the optimizer
    float first_slot = 0;    // what its first one begins with
    size_t label_bytes = 0;  // of one example
    bool exact = false;      // gradients are summed on the grid
    bool sums = false;       // the worker computes several replicas
    // Of local updates: the most replicas that it computes; 0: there are none.
    int local_replicas = 0;
    int all_replicas = 0;  // of the job
    bool errors = false;   // of sparse changes
    bool starts = false;   // of rounds that overlap
  };

  // `graph` outlives it.
  explicit ModelMemory(const Graph* graph) : graph_(*graph) {}
  ~ModelMemory();
  ModelMemory(const ModelMemory&) = delete;
  ModelMemory& operator=(const ModelMemory&) = delete;

  // Takes the kept block; the graph is complete. Weights that were placed by an
  // earlier call are kept, slots are zero, gradients are not written: a process
  // alone may never touch them (see GradientSink::Take). The step's block is
  // let go of. An error changes nothing.
  Status TakeKept(const Options& options);
  const KeptSpans& kept() const { return kept_; }
  // The slots are as TakeKept has left them.
  void ResetSlots() const;

  // Takes the step's block, unless the one there is suffices. *moved becomes
  // true once the places of the step before are gone; an error may come after
  // it, and then there is no block.
  Status Reserve(int64_t batch, bool training, bool* moved);
  const StepSpans& step() const { return step_; }

  // `x` is the output of the first node, and that of views of it; behind
  // `examples` of it lie as many of the next input.
  void SetInput(const float* x, int64_t examples);
  const NodeSpans& node(int i) const { return nodes_[i]; }
  // An output of the model; null before the first Reserve.
  const float* output(size_t k) const {
    return nodes_.empty() ? nullptr : nodes_[graph_.outputs()[k]].y;
  }
  // Of the step's block.
  const StepSchedule& schedule() const { return *schedule_; }
  // See LiveBuffers.
  void ShowOnly(int time, int64_t examples) const {
    live_.ShowOnly(time, examples);
  }

  // The step's block is lent to who holds the result, and stays where it is.
  std::shared_ptr<void> Lend();
  Status CheckNotLent(const char* call) const;

  // Of training with batches of `batch` >= 1, after TakeKept.
  MemoryPlan Plan(int64_t batch) const;
  uint64_t BytesUsed() const { return kept_bytes_ + step_bytes_; }

 private:
  struct FreeDeleter {
    void operator()(void* p) const { std::free(p); }
  };
  using Block = std::unique_ptr<void, FreeDeleter>;
  static Block AllocateBlock(uint64_t bytes);

  KeptSpans PlaceKept(const Options& options, Arena* arena) const;
  StepSpans PlaceStep(int64_t batch, const StepPlan& plan, Arena* arena) const;
  StepPlan PlanOf(int64_t batch, bool training) const {
    return StepPlan(graph_,
                    {batch, training, options_.threads, options_.recompute});
  }
  uint64_t StepBytes(int64_t batch, const StepPlan& plan) const;
  uint64_t StepBytes(int64_t batch, bool training) const {
    return StepBytes(batch, PlanOf(batch, training));
  }
  Status CheckLimit(const Options& options, uint64_t bytes,
                    const char* what) const;
  Status CheckCountable(int64_t batch, bool training) const;
  Status FitLimit(int64_t* batch, bool* training) const;
  Status AllocateStep(uint64_t bytes, const StepPlan& plan, void** place);
  void BindKept();
  void BindStep(const StepPlan& plan);
  void BindInputs();
  void BindShared(int node, float* gradients);
  void CheckScratch() const;
  void PoisonSlack() const;
  void ReleaseKept();
  void ReleaseStep();

  const Graph& graph_;
  Options options_;
  Block kept_block_;  // null where the memory is the caller's
  KeptSpans kept_;
  uint64_t kept_bytes_ = 0;
  std::shared_ptr<void> step_block_;  // shared with an open loader
  std::weak_ptr<void> lease_;         // of a loader on the step's block
  StepSpans step_;
  uint64_t step_bytes_ = 0;
  int64_t batch_ = 0;  // the largest that fits the step's block
  bool training_ = false;
  std::unique_ptr<const StepSchedule>
      schedule_;  // null where there is no block
  std::vector<NodeSpans> nodes_;
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

#endif  // RINGLET_CORE_MODEL_MODEL_MEMORY_H_
