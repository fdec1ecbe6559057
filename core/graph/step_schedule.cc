#include "step_schedule.h"

#include <algorithm>

namespace ringlet {

StepSchedule::StepSchedule(const Graph& graph, const std::vector<Kept>& kept)
    : n_(graph.size()),
      recompute_(graph.size(), -1),
      backward_(graph.size(), -1),
      is_packed_(graph.size(), false),
      last_read_(graph.size(), -1),
      packs_(std::count(kept.begin(), kept.end(), Kept::kPacked) > 0) {
  for (int i = n_ - 1; i > 0; --i) {
    const GraphNode& node = graph.node(i);
    if (!node.has_backward()) continue;
    std::vector<int> reads;
    if (BackwardReadsOutput(graph, i)) reads.push_back(i);
    for (const int input : node.inputs) {
      if (!BackwardReadsInput(graph, i, input)) continue;
      reads.push_back(graph.node(input).root);
    }
    AddRecomputation(graph, kept, reads);
    backward_[i] = Append(graph, i, StepPass::Kind::kBackward, reads);
  }
}

// Appends a pass that computes, after the unpacking of packed outputs that it
// reads. An output that was computed again is packed too, if a pass that does
// not read it comes between.
int StepSchedule::Append(const Graph& graph, int node, StepPass::Kind kind,
                         const std::vector<int>& reads) {
  for (const int root : reads) {
    const bool waited = last_read_[root] < computed_;
    if (packs_ && waited && recompute_[root] > 0 &&
        graph.node(root).is_bfloat16) {
      is_packed_[root] = true;
    }
    if (is_packed_[root] && waited) {
      passes_.push_back({root, StepPass::Kind::kUnpack});
    }
    last_read_[root] = computed_ + 1;
  }
  ++computed_;
  passes_.push_back({node, kind});
  return n_ + static_cast<int>(passes_.size());
}

// Appends the repeated passes of the dropped outputs in `needed` that do not
// exist yet, and of their dropped inputs. They have the order of the nodes, in
// which inputs come first.
void StepSchedule::AddRecomputation(const Graph& graph,
                                    const std::vector<Kept>& kept,
                                    std::vector<int> needed) {
  std::vector<int> missing;
  while (!needed.empty()) {
    const int root = needed.back();
    needed.pop_back();
    if (kept[root] == Kept::kPacked) is_packed_[root] = true;
    if (kept[root] != Kept::kDropped || recompute_[root] >= 0) continue;
    recompute_[root] = 0;  // the time is set below
    missing.push_back(root);
    for (const int input : graph.node(root).inputs) {
      needed.push_back(graph.node(input).root);
    }
  }
  std::sort(missing.begin(), missing.end());
  for (const int root : missing) {
    std::vector<int> reads;
    for (const int input : graph.node(root).inputs) {
      reads.push_back(graph.node(input).root);
    }
    recompute_[root] = Append(graph, root, StepPass::Kind::kRecompute, reads);
    last_read_[root] = computed_;
  }
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
