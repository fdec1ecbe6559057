// StepSchedule: the passes of a step in their order, and when each comes.
//
// Internal to core/. Forward passes by number, the loss, then the backward
// passes from the end, each with those forward passes before it that have to be
// repeated for it.

#ifndef RINGLET_CORE_MODEL_STEP_SCHEDULE_H_
#define RINGLET_CORE_MODEL_STEP_SCHEDULE_H_

#include <vector>

#include "graph.h"

namespace ringlet {

// What runs once the loss is known.
struct StepPass {
  int node;
  bool again;  // the node's forward pass once more; else its backward pass
};

class StepSchedule {
 public:
  // `dropped[i]`: the output of the root i is not kept for the backward pass,
  // but made again for who reads it there. `graph` is complete.
  StepSchedule(const Graph& graph, const std::vector<bool>& dropped);

  // Times, all different but for those of nodes without such a pass: -1.
  int forward(int node) const { return node; }
  int loss() const { return n_; }
  int again(int node) const { return again_[node]; }
  int backward(int node) const { return backward_[node]; }
  int after() const { return n_ + 1 + static_cast<int>(passes_.size()); }

  // The k-th comes at the time loss() + 1 + k.
  const std::vector<StepPass>& passes() const { return passes_; }

  // What the backward pass of a node reads of the forward passes: the roots of
  // its inputs, itself.
  static bool BackwardReadsInput(const Graph& graph, int node, int input);
  static bool BackwardReadsOutput(const Graph& graph, int node);

 private:
  void RunAgain(const Graph& graph, const std::vector<bool>& dropped,
                std::vector<int> wanted);
  int Append(int node, bool again);

  int n_;
  std::vector<int> again_, backward_;
  std::vector<StepPass> passes_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_STEP_SCHEDULE_H_
