#include "step_schedule.h"

#include <algorithm>

namespace ringlet {

StepSchedule::StepSchedule(const Graph& graph, const std::vector<bool>& dropped)
    : n_(graph.size()),
      recompute_(graph.size(), -1),
      backward_(graph.size(), -1) {
  for (int i = n_ - 1; i > 0; --i) {
    const GraphNode& node = graph.node(i);
    if (!node.has_backward()) continue;
    std::vector<int> needed;
    if (BackwardReadsOutput(graph, i)) needed.push_back(i);
    for (const int input : node.inputs) {
      if (!BackwardReadsInput(graph, i, input)) continue;
      needed.push_back(graph.node(input).root);
    }
    AddRecomputation(graph, dropped, std::move(needed));
    backward_[i] = Append(i, /*is_recompute=*/false);
  }
}

int StepSchedule::Append(int node, bool is_recompute) {
  passes_.push_back({node, is_recompute});
  return n_ + static_cast<int>(passes_.size());
}

// Appends the repeated passes of the dropped outputs in `needed` that do not
// exist yet, and of their dropped inputs. They have the order of the nodes, in
// which inputs come first.
void StepSchedule::AddRecomputation(const Graph& graph,
                                    const std::vector<bool>& dropped,
                                    std::vector<int> needed) {
  std::vector<int> missing;
  while (!needed.empty()) {
    const int root = needed.back();
    needed.pop_back();
    if (!dropped[root] || recompute_[root] >= 0) continue;
    recompute_[root] = 0;  // the time is set below
    missing.push_back(root);
    for (const int input : graph.node(root).inputs) {
      needed.push_back(graph.node(input).root);
    }
  }
  std::sort(missing.begin(), missing.end());
  for (const int root : missing)
    recompute_[root] = Append(root, /*is_recompute=*/true);
}

bool StepSchedule::BackwardReadsInput(const Graph& graph, int i, int input) {
  const GraphNode& node = graph.node(i);
  if (node.op->backward_reads_input()) return true;
  // The reader computes the activation's gradient too.
  const GraphNode& source = graph.node(graph.node(input).root);
  return source.overwriting_reader == i &&
         source.op->fused_activation() != kLinear;
}

bool StepSchedule::BackwardReadsOutput(const Graph& graph, int i) {
  const GraphNode& node = graph.node(i);
  return node.overwriting_reader < 0 && node.op->backward_reads_output();
}

}  // namespace ringlet
