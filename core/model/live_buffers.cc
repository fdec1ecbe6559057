#include "live_buffers.h"

#include "../base/poison.h"

namespace ringlet {

void LiveBuffers::Watch(const Graph& graph, const StepPlan& plan, int threads,
                        const unsigned char* base) {
  buffers_.clear();
  if (!kPoisons) return;
  graph_ = &graph;
  threads_ = threads;
  base_ = base;
  bytes_ = plan.bytes();
  const LifetimePlan& planned = plan.buffers();
  const auto add = [&](int buffer, What what, int node) {
    if (buffer < 0) return;
    buffers_.push_back({base + planned.offset(buffer), what, node,
                        planned.first(buffer), planned.last(buffer)});
  };
  for (int i = 0; i < graph.size(); ++i) {
    const StepPlan::NodeBuffers& node = plan.node(i);
    add(node.y, What::kOutput, i);
    if (node.dy != node.y) add(node.dy, What::kOutput, i);
    add(node.forward_scratch, What::kForwardScratch, i);
    add(node.backward_scratch, What::kBackwardScratch, i);
    for (size_t k = 0; k < node.extra_dx.size(); ++k) {
      add(node.extra_dx[k], What::kOutput, graph.node(i).inputs[k]);
    }
  }
  Poison(base_, bytes_);
}

size_t LiveBuffers::BytesOf(const Buffer& buffer, int64_t examples) const {
  const GraphNode& node = graph_->node(buffer.node);
  switch (buffer.what) {
    case What::kOutput:
      return static_cast<size_t>(examples * node.output.elements()) *
             sizeof(float);
    case What::kForwardScratch:
      return node.op->forward_scratch(examples, threads_) * sizeof(float);
    case What::kBackwardScratch:
      return node.op->backward_scratch(examples, threads_) * sizeof(float);
  }
  return 0;
}

void LiveBuffers::ShowOnly(int time, int64_t examples) const {
  if (!kPoisons || examples == 0 || buffers_.empty()) return;
  Poison(base_, bytes_);
  for (const Buffer& buffer : buffers_) {
    if (time < buffer.first || time > buffer.last) continue;
    Unpoison(buffer.at, BytesOf(buffer, examples));
  }
}

}  // namespace ringlet
