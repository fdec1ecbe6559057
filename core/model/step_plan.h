// StepPlan: which buffers a step needs, when each lives, and where each lies.
//
// Internal to core/. A function of the graph, the largest batch, the number of
// threads, and what is asked for; it touches no memory. No choice that it makes
// changes a bit of what is computed.

#ifndef RINGLET_CORE_MODEL_STEP_PLAN_H_
#define RINGLET_CORE_MODEL_STEP_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../base/arena.h"
#include "../base/status.h"
#include "graph.h"
#include "step_schedule.h"
#include "step_values.h"

namespace ringlet {

class StepPlan {
 public:
  struct Options {
    int64_t batch = 1;
    bool training = false;
    int threads = 1;
    // Outputs that are costly to make may be dropped and made again for the
    // backward pass too (Op::recompute), not only those that cost little.
    bool recompute = false;
  };
  struct Choice {
    std::vector<bool> dropped;  // see StepSchedule
    bool in_place = true;       // see StepValues
  };
  // Numbers of buffers; -1 where there is none. Outputs and gradients are those
  // of the root of a chain of views; where one lies over another they have one
  // number.
  struct NodeBuffers {
    int y = -1;     // of the forward pass
    int kept = -1;  // as read after the loss: y, or made again
    int dy = -1;
    int d_weights = -1;  // of a layer called again later, which writes its own
    int saved = -1;      // from the forward pass to the backward pass
    int forward_scratch = -1, again_scratch = -1, backward_scratch = -1;
    std::vector<int> extra_dx;  // one for each input; -1: written directly
  };
  // What a buffer, or a part of its life, is for.
  enum class What : uint8_t {
    kOutput,
    kGradient,
    kForwardScratch,
    kBackwardScratch,
    kWeights,
    kSaved
  };
  struct Use {
    int buffer;
    What what;
    int node;         // whose output's size, or whose scratch
    int first, last;  // when it lives
  };

  // `graph` is complete.
  StepPlan(const Graph& graph, const Options& options);
  StepPlan(const Graph& graph, const Options& options, const Choice& choice);

  // Of the weights' gradient that call `node` writes besides the gradient span:
  // 0 but for a shared layer.
  static uint64_t SharedFloats(const Graph& graph, int node);

  const NodeBuffers& node(int i) const { return nodes_[i]; }
  // Placed: sizes and offsets by a buffer's number.
  const LifetimePlan& buffers() const { return buffers_; }
  const std::vector<Use>& uses() const { return uses_; }
  const StepSchedule& schedule() const { return schedule_; }
  uint64_t bytes() const { return bytes_; }  // of them all
  // That there is no memory for it; names what takes the most, and says whether
  // a smaller batch would help. `bytes`: of the step's whole block.
  Status NoMemory(uint64_t bytes) const;
  // Adds outputs, gradients, scratch, and what is computed again.
  void Count(MemoryPlan* sizes) const;

  // What is chosen in all plans of the process from now on, for tests.
  struct Forced {
    bool in_place = true;
    // What may be dropped is, but for one of so many; 0: as is best.
    int keep_every = 0;
  };
  static void ForceForTests(const Forced& forced) { forced_ = forced; }
  static const Forced& forced() { return forced_; }

 private:
  void AddValues(const StepValues& values);
  void AddScratch();
  int AddScratch(What what, int node, uint64_t floats, int first, int last);
  int AddScratch(What what, int node, uint64_t floats, int now) {
    return AddScratch(what, node, floats, now, now);
  }
  uint64_t OutputFloats(int node) const;

  static Forced forced_;

  const Graph& graph_;
  const Options options_;
  const StepSchedule schedule_;
  std::vector<NodeBuffers> nodes_;
  std::vector<Use> uses_;
  LifetimePlan buffers_;
  uint64_t bytes_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_STEP_PLAN_H_
