// StepValues: what a step holds, how long, and which values lie over others.
//
// Internal to core/. A value is an output (of the forward pass, or of its
// repetition for the backward pass), the gradient of one, or a share of such a
// gradient before it is added. A value that takes another's place has its home,
// which lives as long as they all do.

#ifndef RINGLET_CORE_MODEL_STEP_VALUES_H_
#define RINGLET_CORE_MODEL_STEP_VALUES_H_

#include <cstddef>
#include <vector>

#include "graph.h"
#include "step_schedule.h"

namespace ringlet {

struct StepValue {
  int node = 0;               // whose output's size it has
  int first = -1, last = -1;  // when it lives; -1: never
  int home = 0;               // the number of the first value in its place
  bool gradient = false;
};

class StepValues {
 public:
  // `in_place`: values lie over others where they may. Without `training` of
  // the forward pass alone.
  StepValues(const Graph& graph, const StepSchedule& schedule, bool training,
             bool in_place);

  const std::vector<StepValue>& all() const { return values_; }
  // Numbers of values, by a root.
  int output(int root) const { return root; }
  int again(int root) const { return n_ + root; }
  int gradient(int root) const { return 2 * n_ + root; }
  // The output as it is read after the loss.
  int kept(int root) const {
    return schedule_.again(root) >= 0 ? again(root) : output(root);
  }
  // The share of input k's gradient that is added to what is there; -1: it is
  // the first, and written where the gradient lies.
  int extra(int node, size_t k) const {
    return extras_[node].empty() ? -1 : extras_[node][k];
  }

 private:
  void LiveForward();
  void LiveBackward(int node, int time);
  void ShareForward(int node, int time, int over, int value);
  void ShareBackward(int node, bool in_place);
  void Use(int value, int time);

  const Graph& graph_;
  const StepSchedule& schedule_;
  const int n_;
  std::vector<StepValue> values_;
  std::vector<std::vector<int>> extras_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_STEP_VALUES_H_
