// StepSchedule: the passes of a step, in order, and their times.
//
// Forward passes come in the order of the nodes, then the loss, then the
// backward passes from the last node on. Each backward pass follows the forward
// passes that must be repeated for it.

#ifndef RINGLET_CORE_GRAPH_STEP_SCHEDULE_H_
#define RINGLET_CORE_GRAPH_STEP_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "graph.h"

namespace ringlet {

// How an output is kept from the forward to the backward pass. A dropped output
// is computed again before its readers there. A packed one, as bfloat16, is
// unpacked before them; and again, if a pass that does not read it comes
// between two that do.
enum class Kept : uint8_t { kFloat32, kPacked, kDropped };

// A pass after the loss: the backward pass of the node, its repeated forward
// pass, or the unpacking of its output.
struct StepPass {
  enum class Kind : uint8_t { kBackward, kRecompute, kUnpack };
  int node;
  Kind kind;
};

class StepSchedule {
 public:
  // `graph` is complete. `kept` is by root.
  StepSchedule(const Graph& graph, const std::vector<Kept>& kept);

  // Times; all are different. A node without such a pass has the time -1.
  int forward(int node) const { return node; }
  int loss() const { return n_; }
  int recompute_time(int node) const { return recompute_[node]; }
  // The output is packed after its forward pass, or its repeated one if it has
  // one, and read after the loss.
  bool is_packed(int node) const { return is_packed_[node]; }
  int backward(int node) const { return backward_[node]; }
  int after() const { return n_ + 1 + static_cast<int>(passes_.size()); }

  // Pass k has the time loss() + 1 + k.
  const std::vector<StepPass>& passes() const { return passes_; }

  // True if the backward pass of a node reads the root of this input, or its
  // own output.
  static bool BackwardReadsInput(const Graph& graph, int node, int input);
  static bool BackwardReadsOutput(const Graph& graph, int node);

 private:
  void AddRecomputation(const Graph& graph, const std::vector<Kept>& kept,
                        std::vector<int> needed);
  int Append(const Graph& graph, int node, StepPass::Kind kind,
             const std::vector<int>& reads);

  const int n_;
  std::vector<int> recompute_, backward_;
  std::vector<bool> is_packed_;
  // The value of computed_ after the last pass that reads an output, or
  // computes it again.
  std::vector<int> last_read_;
  const bool packs_;  // some outputs are packed
  int computed_ = 0;  // passes so far, without unpacking
  std::vector<StepPass> passes_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_GRAPH_STEP_SCHEDULE_H_
