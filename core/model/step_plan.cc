#include "step_plan.h"

#include <algorithm>

namespace ringlet {

StepPlan::StepPlan(const Graph& graph, int64_t batch, bool training,
                   int threads)
    : graph_(graph), times_(graph), batch_(batch), nodes_(graph.size()) {
  PlanForward(training, threads);
  if (training) PlanBackward(threads);
  bytes_ = buffers_.Place();
}

size_t StepPlan::OutputFloats(int node) const {
  return static_cast<size_t>(batch_ * graph_.node(node).output.elements());
}

// No buffer where there are no floats.
int StepPlan::Add(size_t floats, int first, int last) {
  return floats == 0 ? -1 : buffers_.Add(floats * sizeof(float), first, last);
}

// When the output of each root is read last.
std::vector<int> StepPlan::LastReads(bool training) const {
  std::vector<int> last_read(graph_.size(), 0);
  const auto read = [&](int root, int time) {
    last_read[root] = std::max(last_read[root], time);
  };
  for (int i = 0; i < graph_.size(); ++i) {
    const GraphNode& node = graph_.node(i);
    read(node.root, times_.forward(i));
    if (node.op == nullptr || node.op->is_view()) continue;
    const bool backward = training && node.needs_gradient;
    for (int input : node.inputs) {
      const int root = graph_.node(input).root;
      read(root, times_.forward(i));
      if (backward && node.op->keeps_input()) read(root, times_.backward(i));
    }
    if (backward && node.op->keeps_output()) read(i, times_.backward(i));
  }
  for (int i = 0; i < graph_.size() && training; ++i) {
    // Its gradient then lies over it.
    if (graph_.node(i).replaced_by >= 0) last_read[i] = times_.backward(i);
  }
  last_read[graph_.output().root] = times_.after();
  return last_read;
}

void StepPlan::PlanForward(bool training, int threads) {
  const std::vector<int> last_read = LastReads(training);
  for (int i = 0; i < graph_.size(); ++i) {
    const GraphNode& node = graph_.node(i);
    if (node.op == nullptr || node.root != i) continue;
    const int now = times_.forward(i);
    nodes_[i].y = Add(OutputFloats(i), now, last_read[i]);
    nodes_[i].forward_scratch =
        Add(node.op->forward_scratch(batch_, threads), now, now);
  }
}

void StepPlan::PlanBackward(int threads) {
  // Of each root's gradient.
  std::vector<int> first_written(graph_.size(), times_.after());
  first_written[graph_.output().root] = times_.loss();
  for (int i = graph_.size() - 1; i >= 0; --i) {
    const GraphNode& node = graph_.node(i);
    nodes_[i].extra_dx.assign(node.inputs.size(), -1);
    if (!node.has_backward()) continue;
    const int now = times_.backward(i);
    nodes_[i].backward_scratch =
        Add(node.op->backward_scratch(batch_, threads), now, now);
    PlanInputGradients(i, &first_written);
  }
  PlanOutputGradients(first_written);
}

// The first to write the gradient of an output writes it in place; every later
// one into a buffer of its own, which is added.
void StepPlan::PlanInputGradients(int i, std::vector<int>* first_written) {
  const GraphNode& node = graph_.node(i);
  const int now = times_.backward(i);
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const int root = graph_.node(node.inputs[k]).root;
    if (!graph_.node(root).needs_gradient) continue;
    if ((*first_written)[root] == times_.after()) {
      (*first_written)[root] = now;
    } else {
      nodes_[i].extra_dx[k] = Add(OutputFloats(root), now, now);
    }
  }
}

void StepPlan::PlanOutputGradients(const std::vector<int>& first_written) {
  for (int i = 0; i < graph_.size(); ++i) {
    const GraphNode& node = graph_.node(i);
    if (node.op == nullptr || node.root != i || !node.needs_gradient) continue;
    if (node.replaced_by >= 0) {
      nodes_[i].dy = nodes_[i].y;
      continue;
    }
    // A node that nobody takes gets a gradient of zero.
    const int last = times_.backward(i);
    nodes_[i].dy = Add(OutputFloats(i), std::min(first_written[i], last), last);
  }
}

}  // namespace ringlet
