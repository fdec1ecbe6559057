// LiveBuffers: marks the live buffers of a step for AddressSanitizer.
//
// In other builds (see poison.h) it does nothing.

#ifndef RINGLET_CORE_GRAPH_LIVE_BUFFERS_H_
#define RINGLET_CORE_GRAPH_LIVE_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph.h"
#include "step_plan.h"

namespace ringlet {

class LiveBuffers {
 public:
  // Watches the plan's buffers, which begin at `base` and are not live yet.
  // `graph` outlives the next Watch or Clear.
  void Watch(const Graph& graph, const StepPlan& plan, int threads,
             const unsigned char* base);
  // Poisons all memory but the buffers that live at `time` (see StepSchedule),
  // up to the size of `examples` examples.
  void PoisonAllBut(int time, int64_t examples) const;
  void Clear() { spans_.clear(); }

 private:
  struct Span {
    const unsigned char* at;
    StepPlan::Use use;
  };
  size_t BytesOf(const StepPlan::Use& use, int64_t examples) const;

  const Graph* graph_ = nullptr;
  int threads_ = 1;
  const unsigned char* base_ = nullptr;
  size_t bytes_ = 0;
  std::vector<Span> spans_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_GRAPH_LIVE_BUFFERS_H_
