// StepPlan: which buffers a step needs, when each lives, and where each lies.
//
// Internal to core/. A function of the graph, the largest batch, and whether
// the step trains; it touches no memory.

#ifndef RINGLET_CORE_MODEL_STEP_PLAN_H_
#define RINGLET_CORE_MODEL_STEP_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../base/arena.h"
#include "graph.h"

namespace ringlet {

// The times of a step of a graph of n nodes: one for each node's forward pass,
// one for the loss, one for each node's backward pass, and one for what the
// caller reads after the step.
class StepTimes {
 public:
  explicit StepTimes(const Graph& graph) : n_(graph.size()) {}
  int forward(int node) const { return node; }
  int loss() const { return n_; }
  int backward(int node) const { return 2 * n_ - node; }
  int after() const { return 2 * n_ + 1; }

 private:
  const int n_;
};

class StepPlan {
 public:
  // Numbers of buffers; -1 where there is none. `y` and `dy` are kept by the
  // root of a chain of views.
  struct NodeBuffers {
    int y = -1, dy = -1, forward_scratch = -1, backward_scratch = -1;
    std::vector<int> extra_dx;  // one for each input; -1: written directly
  };

  // `graph` is complete.
  StepPlan(const Graph& graph, int64_t batch, bool training, int threads);

  const NodeBuffers& node(int i) const { return nodes_[i]; }
  // Placed: sizes, lives and offsets by a buffer's number.
  const LifetimePlan& buffers() const { return buffers_; }
  size_t bytes() const { return bytes_; }  // of them all

 private:
  std::vector<int> LastReads(bool training) const;
  void PlanForward(bool training, int threads);
  void PlanBackward(int threads);
  void PlanInputGradients(int node, std::vector<int>* first_written);
  void PlanOutputGradients(const std::vector<int>& first_written);
  int Add(size_t floats, int first, int last);
  size_t OutputFloats(int node) const;

  const Graph& graph_;
  const StepTimes times_;
  const int64_t batch_;
  std::vector<NodeBuffers> nodes_;
  LifetimePlan buffers_;
  size_t bytes_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_STEP_PLAN_H_
