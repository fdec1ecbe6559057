// StepValues: the values of a step, their lifetimes, and which share memory.
//
// A value is an output, the gradient of an output, or a part of such a gradient
// before it is added. Outputs are the values of the forward pass, packed
// values, and values that are computed again or unpacked for the backward pass.
// Values that share memory have the same home: the home lives from the first
// use of its first value to the last use of its last value.

#ifndef RINGLET_CORE_GRAPH_STEP_VALUES_H_
#define RINGLET_CORE_GRAPH_STEP_VALUES_H_

#include <cstddef>
#include <vector>

#include "batch_parts.h"
#include "graph.h"
#include "step_schedule.h"

namespace ringlet {

struct StepValue {
  int node = 0;               // it has the size of this node's output
  int first = -1, last = -1;  // its lifetime; -1 if it has none
  int home = 0;               // the first value in this place
  bool gradient = false;
  bool packed = false;    // it has half that size
  bool in_parts = false;  // it has the size of a part of the batch
};

class StepValues {
 public:
  // If `in_place`, a value overwrites another value where this is permitted.
  // Without `training` there are only the values of the forward pass. `parts`
  // may be empty.
  StepValues(const Graph& graph, const StepSchedule& schedule, bool training,
             bool in_place, const BatchParts& parts);

  const std::vector<StepValue>& all() const { return values_; }
  // Indices of values, by a root.
  int output(int root) const { return root; }
  int recomputed(int root) const { return n_ + root; }
  int gradient(int root) const { return 2 * n_ + root; }
  int packed(int root) const { return 3 * n_ + root; }
  // Outputs as the passes after the loss use them; -1 for none.
  struct Reads {
    std::vector<int> x_for_backward, x_for_recompute;
    int y_for_backward = -1;
  };
  const Reads& reads(int node) const { return reads_[node]; }
  // The output that pass k of the schedule unpacks or computes again; -1 for
  // other passes.
  int pass_output(size_t k) const { return pass_outputs_[k]; }
  // The part of input k's gradient that is added to an earlier part; -1 if it
  // is the first, and is written to the gradient itself.
  int extra(int node, size_t k) const {
    return extras_[node].empty() ? -1 : extras_[node][k];
  }

 private:
  void SetForwardLifetimes();
  void SetLifetimesAfterLoss();
  void SetLifetimesInParts(const BatchParts& parts);
  void SetRecomputeLifetimes(int node, int time);
  void SetBackwardLifetimes(int node, int time);
  int Unpack(int node, int time);
  void ShareForwardMemory(int node, int time, int overwritten, int value);
  void ShareBackwardMemory(int node, bool in_place);
  void Use(int value, int time);

  const Graph& graph_;
  const StepSchedule& schedule_;
  const int n_;
  std::vector<StepValue> values_;
  std::vector<std::vector<int>> extras_;
  std::vector<Reads> reads_;
  std::vector<int> pass_outputs_;
  std::vector<int> present_;  // by root: the output that a pass would read
};

}  // namespace ringlet

#endif  // RINGLET_CORE_GRAPH_STEP_VALUES_H_
