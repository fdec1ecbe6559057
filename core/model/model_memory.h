// ModelMemory: owns and places what a model keeps and what a step needs.
//
// Internal to core/. Two blocks: the kept one holds weights, gradients and the
// optimizer's slots, each one span in the order of the graph's variables (the
// weights with state behind them, the others without what is not trained); the
// step's one, behind it where the memory is the caller's, holds two batches and
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
  float* slots[8] = {};
};

// The places of a step besides the planned buffers.
struct StepSpans {
  float* x[2] = {};  // of this step's batch and of the next
  void* y[2] = {};
  float* per_example = nullptr;  // losses
  unsigned char* planned = nullptr;
};

// The places of one node; null where it has none.
struct NodeSpans {
  float* y = nullptr;
  float* dy = nullptr;
  float* forward_scratch = nullptr;
  float* backward_scratch = nullptr;
  std::vector<const float*> x;
  std::vector<float*> dx;
  std::vector<float*> extra_dx;  // null: dx is the input's dy itself
  std::vector<float*> weights;
  std::vector<float*> d_weights;  // null where not trained
};

class ModelMemory {
 public:
  struct Options {
    void* memory = nullptr;   // the caller's, or null: of the heap
    size_t memory_bytes = 0;  // see CompileOptions
    int threads = 1;
    int num_slots = 0;       // of the optimizer
    size_t label_bytes = 0;  // of one example
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

  // Takes the step's block, unless the one there is suffices. *moved becomes
  // true once the places of the step before are gone; an error may come after
  // it, and then there is no block.
  Status Reserve(int64_t batch, bool training, bool* moved);
  const StepSpans& step() const { return step_; }

  // `x` is the first node's output, and that of views of it.
  void SetInput(const float* x);
  const NodeSpans& node(int i) const { return nodes_[i]; }
  // The last node's; null before the first Reserve.
  const float* output() const {
    return nodes_.empty() ? nullptr : nodes_.back().y;
  }
  // See LiveBuffers.
  void ShowOnly(int time, int64_t examples) const {
    live_.ShowOnly(time, examples);
  }

  // The step's block is lent to who holds the result, and stays where it is.
  std::shared_ptr<void> Lend();
  Status CheckNotLent(const char* call) const;

  // Of training with batches of `batch` >= 1, after TakeKept.
  MemoryPlan Plan(int64_t batch) const;
  size_t BytesUsed() const { return kept_bytes_ + step_bytes_; }

 private:
  struct FreeDeleter {
    void operator()(void* p) const { std::free(p); }
  };
  using Block = std::unique_ptr<void, FreeDeleter>;
  static Block AllocateBlock(size_t bytes);

  KeptSpans PlaceKept(int num_slots, Arena* arena) const;
  StepSpans PlaceStep(int64_t batch, const StepPlan& plan, Arena* arena) const;
  size_t StepBytes(int64_t batch, bool training) const;
  Status CheckLimit(const Options& options, size_t bytes,
                    const char* what) const;
  Status CheckCountable(int64_t batch, bool training) const;
  Status FitLimit(int64_t* batch, bool* training) const;
  Status AllocateStep(size_t bytes, int64_t batch, void** place);
  void BindKept();
  void BindStep(const StepPlan& plan);
  void CheckScratch() const;
  void PoisonSlack() const;
  void ReleaseKept();
  void ReleaseStep();

  const Graph& graph_;
  Options options_;
  Block kept_block_;  // null where the memory is the caller's
  KeptSpans kept_;
  size_t kept_bytes_ = 0;
  std::shared_ptr<void> step_block_;  // shared with an open loader
  std::weak_ptr<void> lease_;         // of a loader on the step's block
  StepSpans step_;
  size_t step_bytes_ = 0;
  int64_t batch_ = 0;  // the largest that fits the step's block
  bool training_ = false;
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
