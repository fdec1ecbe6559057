// LiveBuffers: tells AddressSanitizer which of a step's planned buffers live.
//
// Internal to core/. In builds without it (see poison.h) it does nothing.

#ifndef RINGLET_CORE_MODEL_LIVE_BUFFERS_H_
#define RINGLET_CORE_MODEL_LIVE_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph.h"
#include "step_plan.h"

namespace ringlet {

class LiveBuffers {
 public:
  // The plan's buffers lie at `base`, none of them alive. `graph` outlives the
  // next Watch or Clear.
  void Watch(const Graph& graph, const StepPlan& plan, int threads,
             const unsigned char* base);
  // From now on only what lives at `time` (see StepSchedule) may be
  // touched, as far as `examples` reach, though there may be room for more.
  void ShowOnly(int time, int64_t examples) const;
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

#endif  // RINGLET_CORE_MODEL_LIVE_BUFFERS_H_
