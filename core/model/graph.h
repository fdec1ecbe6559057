// Graph: a model's layers in topological order, and their variables.
//
// Internal to core/. It knows shapes and names, and no memory. A node is one
// call of a layer. The nodes of a model within the model stand among the
// others, as if its layers had been added one by one; what belongs together is
// known by the tree of GraphLayers. After a failed call nothing can be added.

#ifndef RINGLET_CORE_MODEL_GRAPH_H_
#define RINGLET_CORE_MODEL_GRAPH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../base/status.h"
#include "../layers/nested_model.h"
#include "../layers/op.h"
#include "model.h"

namespace ringlet {

// A layer, once however often it is called; also a model within the model, and
// the Input of one, which have no node.
struct GraphLayer {
  Layer layer;                 // its name filled in, and `trainable` its own
  std::string path;            // "body/conv1": in the models around it
  bool trainable_next = true;  // layer.trainable once complete …
  bool trained_before = true;  // … and before that
  bool trained = true;         // and so are all models around it
  int parent = -1;             // the model around it; -1: the graph's own
  int end = 0;                 // those of a model follow it, up to this one
  int ordinal = 0;             // among those that have nodes
  int first_node = -1, last_node = -1;
  int calls = 0;
};

struct GraphNode {
  Layer layer;     // its name the path, and `trainable` what comes of it
  int number = 0;  // of the GraphLayer
  int call = 0;    // of the calls of this layer
  std::vector<int> inputs;
  std::unique_ptr<Op> op;  // null for an input
  Shape output;
  int root = 0;  // the node whose bytes the output is
  // Of an example, as it lies there: a pool may be computed along with it.
  int64_t floats() const {
    return op != nullptr ? op->output().elements() : output.elements();
  }
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

  // Appends a layer and calls it; `inputs` are nodes that such calls gave. Not
  // after Complete.
  Status Add(const Layer& layer, const std::vector<int>& inputs);
  // Calls the layer again that gave node `of`, with the same weights.
  Status AddCall(int of, const std::vector<int>& inputs);
  // The nodes that are the model's outputs; without it the last one is.
  Status SetOutputs(const std::vector<int>& nodes);
  // There is a layer, and every node is taken or an output. No node can be
  // added from here on. May be called again: it then follows SetTrainable.
  // `losses`: which outputs have one (empty: all); what leads to none of these
  // is not trained.
  Status Complete(const std::vector<bool>& losses = {});
  // What was chosen before the last Complete is trained again, since the memory
  // that there is was taken for it.
  void KeepTrained();
  Status CheckWhole() const;
  // Of a layer by its path, and all that are in it, from the next Complete on.
  Status SetTrainable(const std::string& layer, bool trainable);

  // As a layer of another model, without weights.
  NestedModel AsNested() const;
  const std::vector<GraphLayer>& layers() const { return layers_; }
  // Of the graph's own layers, by their numbers in layers().
  const std::vector<NestedModel::Call>& calls() const { return calls_; }
  // Tells the random numbers of a node from those of others; in a model without
  // shared layers, the node's number.
  uint64_t SeedOf(int node) const;
  // Another node has the same weights, which are trained.
  bool SharesTrained(int node) const;

  int size() const { return static_cast<int>(nodes_.size()); }
  const GraphNode& node(int i) const { return nodes_[i]; }
  const std::vector<GraphNode>& nodes() const { return nodes_; }
  // The first nodes are the inputs.
  int num_inputs() const { return num_inputs_; }
  int64_t input_elements() const;  // of an example, of all inputs
  // Numbers of nodes; no two of them have one root.
  const std::vector<int>& outputs() const { return outputs_; }
  // The first one, until there are nodes the only one.
  const GraphNode& output() const { return nodes_[outputs_[0]]; }
  bool is_output_root(int root) const;
  // Of output k: its layer's; of a layer's second output "dense_1".
  std::string OutputName(size_t k) const;
  bool has_loss(size_t output) const {
    return losses_.empty() || losses_[output];
  }

  // In the order of the nodes.
  const std::vector<Variable>& variables() const { return variables_; }
  // Floats in the weight span …
  int64_t num_weights() const { return num_parameters_ + num_state_; }
  int64_t num_parameters() const { return num_parameters_; }  // … but for state
  // … and in the spans of gradients and slots.
  int64_t num_trained() const { return num_trained_; }
  // Floats of state that training changes, as compiled; each variable's
  // change_offset is its place among them.
  int64_t num_changes() const { return num_changes_; }
  // Writes num_weights() floats: what the initializers give for this seed, or
  // what models within the model were given with.
  void DrawWeights(uint64_t seed, float* weights) const;

  // Those that models within the model were given with.
  void ForgetWeights();

  // A layer's Forward or Backward may fail.
  bool may_fail() const { return may_fail_; }
  int64_t MultiplyAdds() const;  // of one example, forward

 private:
  std::string UniqueName(const Layer& layer);
  Status CheckNewCall(const std::vector<int>& inputs) const;
  Status CheckNewLayer(const Layer& layer, size_t inputs) const;
  Status CheckShared() const;
  std::vector<bool> LeadsToLoss() const;
  Status AddLayer(const Layer& layer, int parent);
  Status AddCallOf(int layer, const std::vector<int>& inputs);
  std::vector<int> LayersOf(int model) const;
  Status Call(int layer, const std::vector<int>& inputs, int* node);
  Status CallModel(int layer, const std::vector<int>& inputs, int* node);
  Status AddNode(int layer, const std::vector<int>& inputs);
  Status MakeOp(GraphNode* node);
  Status ShareVariables(GraphNode* node) const;
  void AddVariable(const WeightSpec& weight, GraphNode* node);
  void ChooseTrained(bool GraphLayer::*trainable);
  Layer Snapshot(int layer) const;
  void CopyWeights(int layer, float* weights) const;
  void JoinPools();
  void ChooseReplaced();
  bool MayBeReplaced(int root) const;

  const std::string class_name_;
  std::string name_;
  std::vector<GraphNode> nodes_;
  std::vector<GraphLayer> layers_;  // each before those that are in it
  std::vector<NestedModel::Call> calls_;
  std::vector<int> call_of_node_;  // that gave it; -1: inside of a model
  int num_ordinals_ = 0;
  int num_inputs_ = 0;
  std::vector<int> outputs_;
  bool outputs_set_ = false;
  std::vector<bool> losses_, losses_before_;  // see Complete
  std::set<std::string> names_;               // paths of the layers
  std::map<std::string, int> numbers_;  // the last that a default name took
  std::vector<Variable> variables_;
  int64_t num_parameters_ = 0, num_state_ = 0, num_trained_ = 0;  // in floats
  int64_t num_changes_ = 0;
  bool may_fail_ = false;
  bool complete_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_GRAPH_H_
