// A home is the memory that several values share (step_values.h). Homes are
// chosen when all lifetimes are known, in the order in which values are first
// used. So when a value joins a home, that home is already chosen. The graph
// chooses the gradients that a reader writes over the value itself
// (GraphNode::overwriting_reader). Such a reader also computes the activation's
// gradient.

#include "step_values.h"

#include <algorithm>

namespace ringlet {

StepValues::StepValues(const Graph& graph, const StepSchedule& schedule,
                       bool training, bool in_place, const BatchParts& parts)
    : graph_(graph),
      schedule_(schedule),
      n_(graph.size()),
      values_(4 * static_cast<size_t>(graph.size())),
      extras_(graph.size()),
      reads_(graph.size()),
      pass_outputs_(schedule.passes().size(), -1) {
  for (int i = 0; i < 4 * n_; ++i) {
    values_[i].node = i % n_;
    values_[i].home = i;
    values_[i].gradient = i / n_ == 2;
    values_[i].packed = i / n_ == 3;
  }
  SetForwardLifetimes();
  for (size_t k = 0; k < graph.outputs().size(); ++k) {
    const int root = graph.node(graph.outputs()[k]).root;
    if (!graph.has_loss(k) || !graph.node(root).has_backward()) continue;
    Use(gradient(root), schedule.loss());
  }
  if (training) SetLifetimesAfterLoss();
  SetLifetimesInParts(parts);
  for (int i = 0; i < n_ && in_place; ++i) {
    const GraphNode& node = graph.node(i);
    if (node.op == nullptr || node.root != i) continue;
    const int from = graph.node(node.inputs[0]).root;
    ShareForwardMemory(i, schedule.forward(i), output(from), output(i));
  }
  for (const StepPass& pass : schedule.passes()) {
    if (!training) break;
    if (pass.kind == StepPass::Kind::kBackward) {
      ShareBackwardMemory(pass.node, in_place);
    } else if (in_place && pass.kind == StepPass::Kind::kRecompute) {
      ShareForwardMemory(pass.node, schedule.recompute_time(pass.node),
                         reads_[pass.node].x_for_recompute[0],
                         recomputed(pass.node));
    }
  }
}

void StepValues::SetLifetimesAfterLoss() {
  for (int i = 0; i < n_; ++i) {
    const bool is_there =
        !schedule_.is_packed(i) && schedule_.recompute_time(i) < 0;
    present_.push_back(is_there ? output(i) : -1);
  }
  for (size_t k = 0; k < schedule_.passes().size(); ++k) {
    const StepPass& pass = schedule_.passes()[k];
    const int now = schedule_.loss() + 1 + static_cast<int>(k);
    switch (pass.kind) {
      case StepPass::Kind::kBackward:
        SetBackwardLifetimes(pass.node, now);
        break;
      case StepPass::Kind::kRecompute:
        SetRecomputeLifetimes(pass.node, now);
        pass_outputs_[k] = recomputed(pass.node);
        break;
      case StepPass::Kind::kUnpack:
        pass_outputs_[k] = Unpack(pass.node, now);
        break;
    }
  }
}

// Values that only nodes in parts use exist for one part. All others that they
// use exist for all parts.
void StepValues::SetLifetimesInParts(const BatchParts& parts) {
  if (parts.empty()) return;
  const int begin = schedule_.forward(parts.begin);
  const int last = schedule_.forward(parts.end - 1);
  for (StepValue& v : values_) {
    if (v.first < 0 || v.first > last || v.last < begin) continue;
    v.in_parts = v.first >= begin && v.last <= last;
    if (v.in_parts) continue;
    v.first = std::min(v.first, begin);
    v.last = std::max(v.last, last);
  }
}

int StepValues::Unpack(int i, int now) {
  Use(packed(i), std::max(schedule_.forward(i), schedule_.recompute_time(i)));
  Use(packed(i), now);
  const auto value = static_cast<int>(values_.size());
  values_.push_back({i, now, now, value});
  present_[i] = value;
  return value;
}

void StepValues::SetRecomputeLifetimes(int i, int now) {
  Use(recomputed(i), now);
  for (const int input : graph_.node(i).inputs) {
    const int x = present_[graph_.node(input).root];
    Use(x, now);
    reads_[i].x_for_recompute.push_back(x);
  }
  present_[i] = reads_[i].y_for_backward = recomputed(i);
}

void StepValues::Use(int value, int time) {
  StepValue& v = values_[value];
  v.first = v.first < 0 ? time : std::min(v.first, time);
  v.last = std::max(v.last, time);
}

void StepValues::SetForwardLifetimes() {
  Use(output(0), schedule_.forward(0));
  for (int i = 1; i < n_; ++i) {
    const GraphNode& node = graph_.node(i);
    const int now = schedule_.forward(i);
    if (node.root != i) continue;
    Use(output(i), now);
    for (const int input : node.inputs) {
      Use(output(graph_.node(input).root), now);
    }
  }
  // Outputs and their masks are kept while other parts of the batch are
  // computed (ModelMemory::SetFirstExample), so they exist from the start.
  for (const int node : graph_.outputs()) {
    Use(output(graph_.node(node).root), schedule_.forward(0));
    Use(output(graph_.node(node).root), schedule_.after());
  }
  for (size_t k = 0; k < graph_.outputs().size(); ++k) {
    const int mask = graph_.output_mask(k);
    if (mask < 0) continue;
    Use(output(mask), schedule_.forward(0));
    Use(output(mask), schedule_.loss());
  }
}

void StepValues::SetBackwardLifetimes(int i, int now) {
  const GraphNode& node = graph_.node(i);
  extras_[i].assign(node.inputs.size(), -1);
  Reads& reads = reads_[i];
  if (StepSchedule::BackwardReadsOutput(graph_, i)) {
    reads.y_for_backward = present_[i];
    Use(present_[i], now);
  }
  Use(gradient(i), now);
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const int root = graph_.node(node.inputs[k]).root;
    reads.x_for_backward.push_back(-1);
    if (StepSchedule::BackwardReadsInput(graph_, i, node.inputs[k])) {
      reads.x_for_backward[k] = present_[root];
      Use(present_[root], now);
    }
    if (!graph_.node(root).needs_gradient) continue;
    if (values_[gradient(root)].first >= 0) {
      extras_[i][k] = static_cast<int>(values_.size());
      values_.push_back({root, now, now, extras_[i][k], true});
    }
    Use(gradient(root), now);
  }
}

namespace {

// How often the op reads this root.
int64_t CountReads(const Graph& graph, int i, int root) {
  const std::vector<int>& inputs = graph.node(i).inputs;
  return std::count_if(inputs.begin(), inputs.end(), [&](int input) {
    return graph.node(input).root == root;
  });
}

}  // namespace

// Lets `value` overwrite `overwritten`, if this is the last read of it.
void StepValues::ShareForwardMemory(int node, int time, int overwritten,
                                    int value) {
  const GraphNode& reader = graph_.node(node);
  const int source = values_[overwritten].node;
  if (source < graph_.num_inputs() || values_[overwritten].last != time ||
      values_[overwritten].in_parts != values_[value].in_parts ||
      CountReads(graph_, node, source) != 1 ||
      !reader.op->may_overwrite_input() ||
      reader.floats() != graph_.node(source).floats()) {
    return;
  }
  values_[value].home = values_[overwritten].home;
}

// Lets the gradients of inputs overwrite the inputs themselves, or the output's
// gradient, which is not read after this pass.
void StepValues::ShareBackwardMemory(int i, bool in_place) {
  const GraphNode& node = graph_.node(i);
  bool free = in_place;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const int root = graph_.node(node.inputs[k]).root;
    const GraphNode& source = graph_.node(root);
    if (!source.needs_gradient) continue;
    const bool reads = StepSchedule::BackwardReadsInput(graph_, i, root);
    const int value = extras_[i][k] >= 0 ? extras_[i][k] : gradient(root);
    if (source.overwriting_reader == i && reads) {
      values_[value].home = values_[reads_[i].x_for_backward[k]].home;
    } else if (free && node.op->dx_may_overwrite_dy(k) &&
               node.floats() == source.floats()) {
      values_[value].home = values_[gradient(i)].home;
      free = false;
    }
  }
}

}  // namespace ringlet
