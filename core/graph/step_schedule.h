// StepSchedule: the passes of a step, in order, and their times.
//
// Forward passes come in the order of the nodes, then the loss, then the
// backward passes from the last node on. Each backward pass follows the forward
// passes that must be repeated for it.

#ifndef RINGLET_CORE_GRAPH_STEP_SCHEDULE_H_
#define RINGLET_CORE_GRAPH_STEP_SCHEDULE_H_

#include <vector>

#include "graph.h"

namespace ringlet {

// A pass after the loss.
struct StepPass {
  int node;
  bool is_recompute;  // true for the node's repeated forward pass; else its
                      // backward pass
};

class StepSchedule {
 public:
  // `dropped[i]`: the output of the root i is not kept for the backward pass;
  // it is computed again before its readers there. `graph` is complete.
  StepSchedule(const Graph& graph, const std::vector<bool>& dropped);

  // Times; all are different. A node without such a pass has the time -1.
  int forward(int node) const { return node; }
  int loss() const { return n_; }
  int recompute_time(int node) const { return recompute_[node]; }
  int backward(int node) const { return backward_[node]; }
  int after() const { return n_ + 1 + static_cast<int>(passes_.size()); }

  // Pass k has the time loss() + 1 + k.
  const std::vector<StepPass>& passes() const { return passes_; }

  // True if the backward pass of a node reads the root of this input, or its
  // own output.
  static bool BackwardReadsInput(const Graph& graph, int node, int input);
  static bool BackwardReadsOutput(const Graph& graph, int node);

 private:
  void AddRecomputation(const Graph& graph, const std::vector<bool>& dropped,
                        std::vector<int> needed);
  int Append(int node, bool is_recompute);

  int n_;
  std::vector<int> recompute_, backward_;
  std::vector<StepPass> passes_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_GRAPH_STEP_SCHEDULE_H_
