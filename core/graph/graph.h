// Graph: a model's layers in topological order, and their variables.
//
// A graph has shapes and names, and no memory. A node is one call of a layer.
// The nodes of a nested model are in the same list, as if its layers had been
// added one by one. The tree of GraphLayers records the models. After a failed
// call nothing can be added.

#ifndef RINGLET_CORE_GRAPH_GRAPH_H_
#define RINGLET_CORE_GRAPH_GRAPH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../layers/nested_model.h"
#include "../layers/op.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

// A layer, listed once however often it is called. A nested model and its Input
// are GraphLayers too, without a node.
struct GraphLayer {
  Layer layer;  // it has its final name and its own `trainable`
  // The name with the names of the models around it, such as "body/conv1".
  std::string path;
  bool trainable_next = true;  // layer.trainable after the next Complete
  bool trained_before = true;  // layer.trainable at the last Complete
  bool trained = true;         // trainable, as are all models around it
  int parent = -1;             // the model around it; -1 for the graph itself
  int end = 0;      // the layers of a nested model are (this index, end)
  int ordinal = 0;  // the index among the layers with nodes
  int first_node = -1, last_node = -1;
  int calls = 0;
};

struct GraphNode {
  Layer layer;          // named by its path; `trainable` as it is in effect
  int layer_index = 0;  // the index in layers()
  int call_index = 0;   // the index among the calls of this layer
  std::vector<int> inputs;
  std::unique_ptr<Op> op;  // null for an input
  Shape output;
  int root = 0;         // the node with the buffer of this output
  int mask_maker = -1;  // the node that made its mask; -1 if all steps count
  // Floats of one example in memory. An op that also computes the pool after
  // it keeps only the pool's output; `output` is its own.
  int64_t floats() const {
    return op != nullptr ? op->output().elements() : output.elements();
  }
  // The node has trained weights, or follows a node that has.
  bool needs_gradient = false;
  // Set by Complete. If only one node reads the buffer of this root, and writes
  // its gradient over it: that node. Otherwise -1.
  int overwriting_reader = -1;
  // Set by Complete: the output and its gradient have only bfloat16's numbers.
  // The output and the gradient are rounded, unless they have such numbers
  // without rounding.
  bool is_bfloat16 = false, rounds_output = false, rounds_gradient = false;
  int first_variable = 0;
  int num_variables = 0;

  // True if the backward pass runs this node.
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

  // Class and name of the model.
  const std::string& class_name() const { return class_name_; }
  const std::string& name() const { return name_; }
  void set_name(const std::string& name) { name_ = name; }

  // Appends a layer and calls it. `inputs` are nodes of earlier calls. Fails
  // after Complete.
  Status Add(const Layer& layer, const std::vector<int>& inputs);
  // Calls the layer of node `earlier_node` again, with the same weights.
  Status AddCall(int earlier_node, const std::vector<int>& inputs);
  // Sets the nodes that are the model's outputs. The default is the last node.
  Status SetOutputs(const std::vector<int>& nodes);
  // Completes the graph: checks that there is a layer, and that every node has
  // a reader or is an output. No node can be added from here on. A second call
  // applies SetTrainable. `losses` has true for each output with a loss, and is
  // empty if all have one. A layer that leads to no output with a loss is not
  // trained.
  Status Complete(const std::vector<bool>& losses = {});
  // Sets the policy of all layers. It takes effect at the next Complete.
  void SetDTypePolicy(DTypePolicy policy);
  // Restores the choice of trained layers before the last Complete, for which
  // the present memory was allocated.
  void RestoreTrainedLayers();
  Status CheckWhole() const;
  // Sets whether a layer, given by its path, and all layers in it are trained.
  // It takes effect at the next Complete.
  Status SetTrainable(const std::string& layer, bool trainable);

  // Sets mean and variance of a Normalization that has none yet (`adapt`). It
  // may be called after Complete.
  Status SetNormalization(int node, const std::vector<float>& mean,
                          const std::vector<float>& variance);
  // Returns the error that SetNormalization would return.
  Status CheckNormalization(int node, const std::vector<float>& mean,
                            const std::vector<float>& variance) const;
  // The first node, from `from` on, of a Normalization without mean and
  // variance; -1 if there is none.
  int FindUnadapted(int from = 0) const;
  // Returns an error if a Normalization has no mean and variance.
  Status CheckAdapted() const;

  // The graph as a layer of another model, without weights.
  NestedModel AsNested() const;
  const std::vector<GraphLayer>& layers() const { return layers_; }
  // Calls of the graph's own layers, by their index in layers().
  const std::vector<NestedModel::Call>& calls() const { return calls_; }
  // Separates the random numbers of nodes. In a model without shared layers it
  // is the node's index.
  uint64_t RandomStreamOf(int node) const;
  // The place of the node's first trained weight in the gradient span; -1 if it
  // has none.
  int64_t GradientOffset(const GraphNode& node) const;
  // True if another node has the same weights, and they are trained.
  bool SharesTrained(int node) const;

  int size() const { return static_cast<int>(nodes_.size()); }
  const GraphNode& node(int i) const { return nodes_[i]; }
  const std::vector<GraphNode>& nodes() const { return nodes_; }
  // The first nodes are the inputs.
  int num_inputs() const { return num_inputs_; }
  int64_t input_elements() const;  // floats of an example, of all inputs
  // Indices of nodes. No two of them have the same root.
  const std::vector<int>& outputs() const { return outputs_; }
  // The first output. Without SetOutputs it is the last node.
  const GraphNode& output() const { return nodes_[outputs_[0]]; }
  bool is_output_root(int root) const;
  // The name of output k: its layer's name, or "dense_1" for a layer's second
  // output.
  std::string OutputName(size_t k) const;
  bool has_loss(size_t output) const {
    return losses_.empty() || losses_[output];
  }

  // The variables in the order of the nodes.
  const std::vector<Variable>& variables() const { return variables_; }
  // The node of output k's mask; -1 if all steps count. Set by Complete.
  int output_mask(size_t k) const { return output_masks_[k]; }

  // Floats in the weight span.
  int64_t num_weights() const { return num_parameters_ + num_state_; }
  // Floats in the spans of gradients and slots.
  int64_t num_trained() const { return num_trained_; }
  // Floats of the state that training changes. The change_offset of each
  // variable is its place among them.
  int64_t num_changes() const { return num_changes_; }
  // Writes num_weights() floats. A nested model that was added with weights
  // keeps them. All other weights get the initializers' values for this seed.
  void DrawWeights(uint64_t seed, float* weights) const;

  // Frees the weights that nested models brought with them.
  void FreeNestedWeights();

  // True if a layer's Backward may fail.
  bool backward_may_fail() const { return backward_may_fail_; }
  int64_t MultiplyAdds() const;  // the number for a forward pass of one example
  // See Op::table_bytes.
  uint64_t TableBytes() const;

 private:
  std::string UniqueName(const Layer& layer);
  const Layer* LayerOfTensors(int node) const;
  Status CheckTensors(const std::vector<int>& inputs) const;
  Status CompleteRecurrentOutput(const std::vector<int>& inputs,
                                 const Layer& new_layer, Layer* layer) const;
  Status CheckNewCall(const std::vector<int>& inputs) const;
  Status CheckNewLayer(const Layer& layer, size_t inputs) const;
  Status Expand(const std::vector<int>& inputs, Layer* layer) const;
  Status CheckShared() const;
  // Returns an error if the same sound is taken at two sampling rates.
  Status CheckSamplingRates() const;
  // Returns an error if a layer without a gradient follows a trained one.
  Status CheckGradients() const;
  std::vector<bool> LeadsToLoss() const;
  Status AddLayer(const Layer& layer, int parent);
  Status AddCallOf(int layer, const std::vector<int>& inputs);
  std::vector<int> ListLayers(int model) const;
  Status Call(int layer, const std::vector<int>& inputs, int* node);
  Status CallModel(int layer, const std::vector<int>& inputs, int* node);
  Status AddNode(int layer, const std::vector<int>& inputs);
  void TakeState(GraphNode* node) const;
  Status MakeOp(GraphNode* node);
  bool MakesMask(const GraphNode& node) const;
  // True if the node's layer is in a model that a TimeDistributed applies.
  bool IsInTimeDistributed(const GraphNode& node) const;
  Status RefuseMask(int maker, const Layer& layer) const;
  void LeaveTimeDistributed(int layer, int input, int output);
  Status FindMaskMaker(const Layer& layer, const std::vector<int>& inputs,
                       int* maker) const;
  Status AddMask(int maker, int* mask);
  Status AddMaskInputs(GraphNode* node);
  void PassMask(GraphNode* node) const;
  Status AddOutputMasks();
  Status MakeNormalization(int node, const std::vector<float>& mean,
                           const std::vector<float>& variance,
                           std::unique_ptr<Op>* op) const;
  Status ShareVariables(GraphNode* node) const;
  void AddVariable(const WeightSpec& weight, GraphNode* node);
  void ChooseTrained(bool GraphLayer::*trainable);
  Layer Snapshot(int layer) const;
  void CopyWeights(int layer, float* weights) const;
  void JoinPools();
  void ChooseReplaced();
  std::vector<bool> FindFloat32Outputs() const;
  void ChooseBFloat16();
  void ChooseRoundedGradients();
  bool MayBeReplaced(int root) const;

  const std::string class_name_;
  std::string name_;
  std::vector<GraphNode> nodes_;
  std::vector<GraphLayer> layers_;  // each before the layers in it
  std::vector<NestedModel::Call> calls_;
  // The call of each node; -1 in a nested model.
  std::vector<int> call_of_node_;
  int num_ordinals_ = 0;
  int num_inputs_ = 0;
  std::vector<int> outputs_;
  bool outputs_set_ = false;
  std::map<int, int> masks_;  // the node of each maker's mask
  std::vector<int> output_masks_;
  std::vector<bool> losses_, losses_before_;  // see Complete
  std::set<std::string> names_;               // paths of the layers
  std::map<std::string, int> numbers_;  // the last suffix of a default name
  std::vector<Variable> variables_;
  // Numbers of floats.
  int64_t num_parameters_ = 0, num_state_ = 0, num_trained_ = 0;
  int64_t num_changes_ = 0;
  bool backward_may_fail_ = false;
  bool complete_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_GRAPH_GRAPH_H_
