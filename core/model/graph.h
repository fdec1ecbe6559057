// Graph: a model's layers in topological order, and their variables.
//
// Internal to core/. It knows shapes and names, and no memory. A failed Add
// leaves it as it was.

#ifndef RINGLET_CORE_MODEL_GRAPH_H_
#define RINGLET_CORE_MODEL_GRAPH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../base/status.h"
#include "../layers/op.h"
#include "model.h"

namespace ringlet {

struct GraphNode {
  Layer layer;                 // its name filled in
  bool trainable_next = true;  // layer.trainable once complete …
  bool trained_before = true;  // … and before that
  std::vector<int> inputs;
  std::unique_ptr<Op> op;  // null for an input
  Shape output;
  int root = 0;  // the node whose bytes the output is
  bool needs_gradient =
      false;  // has trained weights, or comes after one that has
  // Once complete: the number of the only node that takes this root's bytes,
  // if that one writes the gradient over them; else -1.
  int replaced_by = -1;
  int first_variable = 0;
  int num_variables = 0;

  // Whether the backward pass visits it.
  bool has_backward() const {
    return op != nullptr && !op->is_view() && needs_gradient;
  }
};

class Graph {
 public:
  Graph(const char* class_name, const char* name)
      : class_name_(class_name), name_(name) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Of the model.
  const std::string& class_name() const { return class_name_; }
  const std::string& name() const { return name_; }
  void set_name(const std::string& name) { name_ = name; }

  // Appends a node; `inputs` are numbers of earlier ones. Not after Complete.
  Status Add(const Layer& layer, const std::vector<int>& inputs);
  // There is a layer, and every output but the last is taken. No node can be
  // added from here on. May be called again: it then follows SetTrainable.
  Status Complete();
  // What was chosen before the last Complete is trained again, since the memory
  // that there is was taken for it.
  void KeepTrained();
  // Of a layer, from the next Complete on.
  Status SetTrainable(const std::string& layer, bool trainable);

  int size() const { return static_cast<int>(nodes_.size()); }
  const GraphNode& node(int i) const { return nodes_[i]; }
  const std::vector<GraphNode>& nodes() const { return nodes_; }
  const GraphNode& output() const { return nodes_.back(); }

  // In the order of the nodes.
  const std::vector<Variable>& variables() const { return variables_; }
  // Floats in the weight span …
  int64_t num_weights() const { return num_parameters_ + num_state_; }
  int64_t num_parameters() const { return num_parameters_; }  // … but for state
  // … and in the spans of gradients and slots.
  int64_t num_trained() const { return num_trained_; }
  // Writes num_weights() floats: what the initializers give for this seed.
  void DrawWeights(uint64_t seed, float* weights) const;

  // A layer's Forward or Backward may fail.
  bool may_fail() const { return may_fail_; }
  int64_t MultiplyAdds() const;  // of one example, forward

 private:
  std::string UniqueName(const Layer& layer);
  Status CheckNewNode(const Layer& layer, const std::vector<int>& inputs) const;
  Status MakeOp(GraphNode* node);
  void AddVariable(const WeightSpec& weight, GraphNode* node);
  void ChooseTrained(bool GraphNode::*trainable);
  int ReplacedBy(int root) const;

  const std::string class_name_;
  std::string name_;
  std::vector<GraphNode> nodes_;
  std::set<std::string> names_;         // of the nodes
  std::map<std::string, int> numbers_;  // the last that a default name took
  std::vector<Variable> variables_;
  int64_t num_parameters_ = 0, num_state_ = 0, num_trained_ = 0;  // in floats
  bool may_fail_ = false;
  bool complete_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_GRAPH_H_
