// StepPlan: the buffers of a step, their lifetimes and their places.
//
// It is a function of the graph, the largest batch, the number of threads and
// the options. It allocates nothing. Its choices change no bit of the results.

#ifndef RINGLET_CORE_GRAPH_STEP_PLAN_H_
#define RINGLET_CORE_GRAPH_STEP_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../base/arena.h"
#include "graph.h"
#include "ringlet/status.h"
#include "step_schedule.h"
#include "step_values.h"

namespace ringlet {

class StepPlan {
 public:
  struct Options {
    int64_t batch = 1;
    bool training = false;
    int threads = 1;
    // Costly outputs may also be dropped and computed again for the backward
    // pass (Op::recompute), not only cheap ones.
    bool recompute = false;
  };
  struct Choice {
    std::vector<Kept> kept;  // see StepSchedule
    bool in_place = true;    // see StepValues
    BatchParts parts = {};   // nodes with values of a part
  };
  // Indices of buffers; -1 for none. Outputs and gradients are the buffers of
  // the root of a chain of views. Values that share memory have the same index.
  struct NodeBuffers {
    int y = -1;             // the output in the forward pass
    int packed = -1;        // the output as bfloat16
    bool in_parts = false;  // y has the examples of a part
    // The buffers that passes after the loss read; -1 for a buffer that they do
    // not read. A repeated forward pass writes y_for_backward.
    int y_for_backward = -1;
    std::vector<int> x_for_backward, x_for_recompute;
    int dy = -1;
    int d_weights = -1;  // a repeated layer's own part of the gradient
    int saved = -1;      // kept from the forward to the backward pass
    int forward_scratch = -1, recompute_scratch = -1, backward_scratch = -1;
    std::vector<int> extra_dx;  // one for each input; -1 if written directly
  };
  // The use of a buffer in a part of its life.
  enum class UseKind : uint8_t {
    kOutput,
    kPacked,
    kGradient,
    kForwardScratch,
    kBackwardScratch,
    kSharedGradient,
    kSaved
  };
  struct Use {
    int buffer;
    UseKind kind;
    int node;          // the node with this output or scratch
    int first, last;   // its lifetime
    int64_t examples;  // the most of which it has values
  };

  // `graph` is complete.
  StepPlan(const Graph& graph, const Options& options);
  StepPlan(const Graph& graph, const Options& options, const Choice& choice);

  // Floats of the weights' gradient that call `node` writes outside the
  // gradient span; 0 if the layer is not shared.
  static uint64_t SharedFloats(const Graph& graph, int node);

  const NodeBuffers& node(int i) const { return nodes_[i]; }
  // The output that pass k of the schedule unpacks or computes again; -1 for
  // other passes.
  int pass_output(size_t k) const { return pass_outputs_[k]; }
  // The placement: sizes and offsets by a buffer's index.
  const LifetimePlan& buffers() const { return buffers_; }
  const std::vector<Use>& uses() const { return uses_; }
  const StepSchedule& schedule() const { return schedule_; }
  const BatchParts& parts() const { return parts_; }
  uint64_t bytes() const { return bytes_; }  // the bytes of all buffers
  // Returns the error for a lack of memory. It names the largest use, and
  // whether a smaller batch would help. `bytes` is the size of the step's whole
  // block.
  Status MakeMemoryError(uint64_t bytes) const;
  // Adds the sizes of outputs, gradients and scratch, and the recomputation.
  void AddSizesTo(MemoryPlan* sizes) const;

  // For tests. Choices for all later plans of the process.
  struct Forced {
    bool in_place = true;
    // If not zero, drops all that can be dropped except each n-th output.
    int keep_every = 0;
    bool packs = true;
    // If not zero, the examples of a part of frozen layers; -1 for no parts.
    int64_t part = 0;
  };
  static void ForceForTests(const Forced& forced) { forced_ = forced; }
  static const Forced& forced() { return forced_; }

 private:
  void AddValues(const StepValues& values);
  void AddScratch();
  int AddScratch(UseKind kind, int node, uint64_t floats, int first, int last,
                 int64_t examples);
  int AddScratch(UseKind kind, int node, uint64_t floats, int now) {
    return AddScratch(kind, node, floats, now, now, options_.batch);
  }
  int64_t ExamplesOf(const StepValue& value) const {
    return value.in_parts ? parts_.examples : options_.batch;
  }
  uint64_t BytesOf(const StepValue& value) const;

  static Forced forced_;

  const Graph& graph_;
  const Options options_;
  const StepSchedule schedule_;
  const BatchParts parts_;
  std::vector<NodeBuffers> nodes_;
  std::vector<int> pass_outputs_;
  std::vector<Use> uses_;
  LifetimePlan buffers_;
  uint64_t bytes_ = 0;
};

// Chooses the outputs that a step drops and computes again for its backward
// pass: cheap ones where this saves memory. With Options::recompute it
// considers costly outputs too. Outputs of bfloat16 that are not dropped are
// packed where this saves memory.
StepPlan::Choice ChooseForStep(const Graph& graph,
                               const StepPlan::Options& options);

}  // namespace ringlet

#endif  // RINGLET_CORE_GRAPH_STEP_PLAN_H_
