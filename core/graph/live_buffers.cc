#include "live_buffers.h"

#include <algorithm>

#include "../base/poison.h"

namespace ringlet {

void LiveBuffers::Watch(const Graph& graph, const StepPlan& plan, int threads,
                        const unsigned char* base) {
  spans_.clear();
  if (!kPoisons) return;
  graph_ = &graph;
  threads_ = threads;
  base_ = base;
  bytes_ = plan.bytes();
  for (const StepPlan::Use& use : plan.uses()) {
    spans_.push_back({base + plan.buffers().offset(use.buffer), use});
  }
  Poison(base_, bytes_);
}

size_t LiveBuffers::BytesOf(const StepPlan::Use& use, int64_t examples) const {
  examples = std::min(examples, use.examples);
  const GraphNode& node = graph_->node(use.node);
  size_t floats = 0;
  switch (use.kind) {
    case StepPlan::UseKind::kPacked:
      return static_cast<size_t>(examples * node.floats()) * sizeof(uint16_t);
    case StepPlan::UseKind::kOutput:
    case StepPlan::UseKind::kGradient:
      floats = static_cast<size_t>(examples * node.floats());
      break;
    case StepPlan::UseKind::kForwardScratch:
      floats = node.op->forward_scratch(examples, threads_);
      break;
    case StepPlan::UseKind::kBackwardScratch:
      floats = node.op->backward_scratch(examples, threads_);
      break;
    case StepPlan::UseKind::kSharedGradient:
      floats = StepPlan::SharedFloats(*graph_, use.node);
      break;
    case StepPlan::UseKind::kSaved:
      floats = node.op->saved_floats(examples);
      break;
  }
  return floats * sizeof(float);
}

void LiveBuffers::PoisonAllBut(int time, int64_t examples) const {
  if (!kPoisons || examples == 0 || spans_.empty()) return;
  Poison(base_, bytes_);
  for (const Span& span : spans_) {
    if (time < span.use.first || time > span.use.last) continue;
    Unpoison(span.at, BytesOf(span.use, examples));
  }
}

}  // namespace ringlet
