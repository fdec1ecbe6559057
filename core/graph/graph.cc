// nodes_ is in topological order, since a node reads only earlier ones, and
// variables_ follows it. Gradients therefore become final from the end of the
// weight span. A layer's variables are at the place of its first call. Each
// call of a nested model calls its layers one by one, in the model's order
// (CallModel). So the nodes are the same as if the layers were added one by
// one. The tree of layers is in graph_layers.cc.

#include "graph.h"

#include <algorithm>
#include <cinttypes>

#include "../base/check.h"
#include "../base/text.h"
#include "../layers/initializers.h"
#include "../layers/layer_kind.h"
#include "../layers/layer_loops.h"
#include "../layers/layer_table.h"
#include "../layers/recurrent/bidirectional.h"
#include "../layers/recurrent/recurrent_output.h"
#include "../layers/recurrent/time_distributed.h"

namespace ringlet {

namespace {

// The depth of nested models. It limits recursion when a model is read, and the
// size of models that are called twice in a model that is called twice.
constexpr int kMaxDepth = 16;
constexpr int kMaxNodes = 4096;

// `before` is the number of elements of the earlier inputs.
Status CheckInputShape(const Shape& shape, int64_t before) {
  const int64_t max_elements =
      std::max<int64_t>((int64_t{1} << 31) - before, 0);
  int64_t elements = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] < 1 || elements > max_elements / shape[i]) {
      return InvalidArgument(
          "%s is not the shape of an input: sizes must be at least 1, and all "
          "inputs together have at most 2^31 elements",
          shape.ToString().c_str());
    }
    elements *= shape[i];
  }
  return Status();
}

// A TimeDistributed trains its layer only if that is trainable too, as in
// Keras.
bool IsTrainable(const Layer& layer) {
  return layer.trainable &&
         (layer.kind != Layer::Kind::kTimeDistributed ||
          layer.layer == nullptr || IsTrainable(*layer.layer));
}

}  // namespace

// Checks inputs from the caller.
Status Graph::CheckNewCall(const std::vector<int>& inputs) const {
  if (complete_) {
    return InvalidArgument(
        "the model was compiled already; add all layers "
        "before Compile");
  }
  for (int input : inputs) {
    if (input < 0 || input >= size()) {
      return InvalidArgument("input %d is not an earlier layer", input);
    }
    if (call_of_node_[input] < 0) {
      return InvalidArgument(
          "input %d is inside of a model, which only has an output", input);
    }
  }
  return Status();
}

// Returns the layer of a node if that layer has several tensors, otherwise
// null.
const Layer* Graph::LayerOfTensors(int node) const {
  if (call_of_node_[node] < 0) return nullptr;
  const Layer& layer = layers_[calls_[call_of_node_[node]].layer].layer;
  const bool several =
      IsExpandedBidirectional(layer)
          ? OutputsOf(layer) > 1 || DirectionOf(*layer.model, 0).return_state
          : IsRecurrent(layer.kind) && layer.return_state;
  return several ? &layer : nullptr;
}

// Checks that no input gives several tensors.
Status Graph::CheckTensors(const std::vector<int>& inputs) const {
  for (const int input : inputs) {
    const Layer* const layer = LayerOfTensors(input);
    if (layer == nullptr) continue;
    return InvalidArgument(
        "layer '%s' has %s, so it gives several tensors: take one by "
        "RecurrentOutput",
        layer->name.c_str(),
        layer->merge_mode == kMergeNone ? "no merge mode" : "return_state");
  }
  return Status();
}

// Completes a RecurrentOutput. The RecurrentOutputs of a layer follow it in
// their order, so that a model from JSON has the same order of nodes.
Status Graph::CompleteRecurrentOutput(const std::vector<int>& inputs,
                                      const Layer& new_layer,
                                      Layer* layer) const {
  if (inputs.size() != 1) return Status();  // Op::Make has the error
  const Layer* const source = LayerOfTensors(inputs[0]);
  if (source == nullptr) {
    return InvalidArgument(
        "layer '%s' has one output: RecurrentOutput takes that of a SimpleRNN, "
        "LSTM, GRU or Bidirectional with return_state, or of a Bidirectional "
        "without a merge mode",
        nodes_[inputs[0]].layer.name.c_str());
  }
  const bool both = IsExpandedBidirectional(*source);
  const Layer& first = both ? DirectionOf(*source->model, 0) : *source;
  const int64_t states =
      !first.return_state
          ? 0
          : (both ? 2 : 1) * (first.kind == Layer::Kind::kLSTM ? 2 : 1);
  const int64_t last = states + (both ? OutputsOf(*source) : 1) - 1;
  if (layer->tensor < 0 || layer->tensor > last) {
    return InvalidArgument("the layer has tensors 0 to %" PRId64
                           ", and not %" PRId64,
                           last, layer->tensor);
  }
  const std::string name =
      TensorName(source->name, nodes_[inputs[0]].call_index, layer->tensor);
  // A model from JSON has '_' after the name, if another layer has it.
  const bool is_own =
      new_layer.name.compare(0, name.size(), name) == 0 &&
      new_layer.name.find_first_not_of('_', name.size()) == std::string::npos;
  if (!new_layer.name.empty() && !is_own) {
    return InvalidArgument(
        "a RecurrentOutput has the name '%s': its model's file keeps no other; "
        "leave out Name",
        name.c_str());
  }
  if (new_layer.name.empty()) layer->name = name;
  layer->layer = std::make_shared<Layer>(first);
  int64_t tensor = layer->tensor;
  for (int node = size() - 1; node != inputs[0]; --node) {
    const Layer& before = layers_[nodes_[node].layer_index].layer;
    if (before.kind == layer->kind && before.tensor < tensor) {
      tensor = before.tensor;
      continue;
    }
    return InvalidArgument(
        "comes after layer '%s': each RecurrentOutput is added directly behind "
        "its layer, in the order of the tensors",
        before.name.c_str());
  }
  return Status();
}

Status Graph::CheckNewLayer(const Layer& layer, size_t inputs) const {
  if (layer.kind == Layer::Kind::kInput) {
    if (inputs != 0) {
      return InvalidArgument("an Input takes no input; it is the first layer");
    }
    if (size() != num_inputs_) {
      return InvalidArgument(
          "the Inputs of a model come before its other layers");
    }
    return CheckInputShape(layer.shape, input_elements());
  }
  if (size() == 0) return InvalidArgument("the first layer must be an Input");
  if (layer.kind != Layer::Kind::kModel) return Status();
  if (layer.model == nullptr || layer.settings.any()) {
    return InvalidArgument(
        "a model as a layer is the result of Model::AsLayer, and has no "
        "settings except Name and Trainable");
  }
  RINGLET_RETURN_IF_ERROR(layer.model->status);
  if (layer.model->outputs.size() != 1) {
    return InvalidArgument(
        "the model has %zu outputs; as a layer it may have one: make a model "
        "of each",
        layer.model->outputs.size());
  }
  if (layer.model->depth >= kMaxDepth) {
    return InvalidArgument("models are nested more than %d deep", kMaxDepth);
  }
  return Status();
}

// A state of a Bidirectional is the inner layer's state. Its tensor 0 is the
// input itself, or the output of an inner layer.
void Graph::TakeState(GraphNode* node) const {
  Layer& layer = node->layer;
  if (layer.kind != Layer::Kind::kRecurrentOutput || layer.layer == nullptr) {
    return;
  }
  const GraphNode& source = nodes_[node->inputs[0]];
  const int parent = layers_[source.layer_index].parent;
  // The state belongs to the layer itself.
  if (source.layer.return_state) return;
  const int64_t outputs = parent < 0 ? 1 : OutputsOf(layers_[parent].layer);
  if (layer.tensor < outputs || parent < 0) {
    layer.kind = Layer::Kind::kActivation;
    layer.activation = kLinear;
    if (outputs > 1) {
      node->inputs = {source.inputs[static_cast<size_t>(layer.tensor)]};
    }
    return;
  }
  const int64_t states = layer.layer->kind == Layer::Kind::kLSTM ? 2 : 1;
  const int64_t direction = (layer.tensor - outputs) / states;
  layer.tensor = (layer.tensor - outputs) % states + 1;
  layer.layer = std::make_shared<Layer>(
      DirectionOf(*layers_[parent].layer.model, static_cast<int>(direction)));
  const int output = source.inputs[static_cast<size_t>(direction)];
  node->inputs = {nodes_[output].inputs[0]};
}

// Makes the op and the variables of a node with known inputs.
Status Graph::MakeOp(GraphNode* node) {
  std::vector<Shape> shapes;
  for (int input : node->inputs) {
    shapes.push_back(nodes_[input].output);
  }
  RINGLET_RETURN_IF_ERROR(Op::Make(node->layer, shapes, &node->op));
  node->output = node->op->output();
  backward_may_fail_ |= node->op->backward_may_fail();
  if (node->op->is_view()) node->root = nodes_[node->inputs[0]].root;
  if (node->call_index > 0) return ShareVariables(node);
  for (const WeightSpec& weight : node->op->weights()) {
    AddVariable(weight, node);
  }
  return Status();
}

// Gives the node the weights of its layer's first call.
Status Graph::ShareVariables(GraphNode* node) const {
  const GraphNode& first = nodes_[layers_[node->layer_index].first_node];
  const std::vector<WeightSpec>& weights = node->op->weights();
  const std::vector<WeightSpec>& first_weights = first.op->weights();
  for (size_t i = 0; i < std::max(weights.size(), first_weights.size()); ++i) {
    if (i < weights.size() && i < first_weights.size() &&
        weights[i].shape == first_weights[i].shape) {
      continue;
    }
    return InvalidArgument(
        "is called again with another shape of input, and would need weights "
        "of other shapes than its first call");
  }
  node->first_variable = first.first_variable;
  node->num_variables = first.num_variables;
  return Status();
}

// State follows all parameters, so its offset grows with each added parameter.
void Graph::AddVariable(const WeightSpec& weight, GraphNode* node) {
  Variable variable;
  variable.path = node->layer.name + "/" + weight.name;
  variable.shape = weight.shape;
  variable.regularizer = weight.regularizer;
  variable.constraint = weight.constraint;
  variable.is_layer_state = !weight.trainable;
  const int64_t size = variable.size();
  variable.offset = variable.is_layer_state ? num_weights() : num_parameters_;
  (variable.is_layer_state ? num_state_ : num_parameters_) += size;
  if (!variable.is_layer_state && num_state_ > 0) {
    for (Variable& other : variables_)
      other.offset += other.is_layer_state ? size : 0;
  }
  const bool trained = node->layer.trainable && !variable.is_layer_state;
  variable.gradient_offset = trained ? num_trained_ : -1;
  num_trained_ += trained ? size : 0;
  variables_.push_back(variable);
  ++node->num_variables;
}

Status Graph::AddNode(int layer, const std::vector<int>& inputs) {
  GraphLayer& called = layers_[layer];
  // With given mean and variance nothing is left to adapt.
  if (!called.layer.means.empty()) called.layer.adapt = false;
  GraphNode node;
  node.layer = called.layer;
  node.layer.name = called.path;
  node.layer.trainable = called.trained;
  node.layer_index = layer;
  node.call_index = called.calls;
  node.inputs = inputs;
  TakeState(&node);
  RINGLET_RETURN_IF_ERROR(AddMaskInputs(&node).Annotate(
      "layer '%s' (%s)", called.path.c_str(), ClassName(called.layer)));
  node.root = size();
  node.first_variable = static_cast<int>(variables_.size());
  node.output = called.layer.shape;  // the shape of an Input
  if (called.layer.kind != Layer::Kind::kInput) {
    RINGLET_RETURN_IF_ERROR(MakeOp(&node).Annotate(
        "layer '%s' (%s)", called.path.c_str(), ClassName(called.layer)));
  }
  PassMask(&node);
  if (called.calls++ == 0) called.first_node = size();
  called.last_node = size();
  if (called.layer.kind == Layer::Kind::kInput) ++num_inputs_;
  if (!outputs_set_) outputs_ = {size()};
  nodes_.push_back(std::move(node));
  call_of_node_.push_back(-1);
  return Status();
}

Status Graph::Call(int layer, const std::vector<int>& inputs, int* node) {
  if (layers_[layer].layer.kind == Layer::Kind::kModel) {
    return CallModel(layer, inputs, node)
        .Annotate("layer '%s' (%s)", layers_[layer].path.c_str(),
                  ClassName(layers_[layer].layer));
  }
  RINGLET_RETURN_IF_ERROR(AddNode(layer, inputs));
  *node = size() - 1;
  return Status();
}

Status Graph::CallModel(int layer, const std::vector<int>& inputs, int* node) {
  const NestedModel& model = *layers_[layer].layer.model;
  const auto num_inputs = static_cast<size_t>(model.num_inputs);
  if (inputs.size() != num_inputs) {
    return InvalidArgument(
        "takes %s, not %zu",
        num_inputs == 1 ? "one input"
                        : (std::to_string(num_inputs) + " inputs").c_str(),
        inputs.size());
  }
  for (size_t k = 0; k < num_inputs; ++k) {
    const Shape& input_shape = nodes_[inputs[k]].output;
    const Shape& shape = model.calls[k].output;
    if (input_shape == shape) continue;
    return InvalidArgument("takes an input of %s, not of %s",
                           shape.ToString().c_str(),
                           input_shape.ToString().c_str());
  }
  if (size() + model.num_nodes > kMaxNodes) {
    return InvalidArgument(
        "the model would have %lld calls of layers; a model with nested models "
        "may have at most %d",
        static_cast<long long>(size() + model.num_nodes), kMaxNodes);
  }
  const std::vector<int> own = ListLayers(layer);
  std::vector<int> outputs = inputs;
  for (size_t c = num_inputs; c < model.calls.size(); ++c) {
    std::vector<int> call_inputs;
    for (int input : model.calls[c].inputs)
      call_inputs.push_back(outputs[input]);
    outputs.push_back(-1);
    RINGLET_RETURN_IF_ERROR(
        Call(own[model.calls[c].layer], call_inputs, &outputs.back()));
  }
  ++layers_[layer].calls;
  *node = outputs[model.outputs[0]];
  LeaveTimeDistributed(layer, inputs[0], *node);
  return Status();
}

// Makes a nested model of a layer that consists of several.
Status Graph::Expand(const std::vector<int>& inputs, Layer* layer) const {
  if (layer->kind == Layer::Kind::kBidirectional) {
    std::vector<Shape> shapes;
    for (const int input : inputs) shapes.push_back(nodes_[input].output);
    return ExpandBidirectional(shapes, layer);
  }
  if (layer->kind != Layer::Kind::kTimeDistributed) return Status();
  if (inputs.size() != 1) {
    return InvalidArgument("takes one input, not %zu", inputs.size());
  }
  const Shape& input = nodes_[inputs[0]].output;
  if (!AppliesModel(*layer)) return Status();
  RINGLET_RETURN_IF_ERROR(ExpandTimeDistributed(input, layer));
  return CheckNewLayer(*layer, inputs.size());
}

Status Graph::Add(const Layer& layer, const std::vector<int>& inputs) {
  Layer named = layer;
  named.name = UniqueName(layer);
  named.trainable = IsTrainable(layer);
  const int number = static_cast<int>(layers_.size());
  Status added = CheckNewCall(inputs);
  if (added.ok()) added = CheckNewLayer(named, inputs.size());
  if (added.ok()) {
    added = named.kind == Layer::Kind::kRecurrentOutput
                ? CompleteRecurrentOutput(inputs, layer, &named)
                : CheckTensors(inputs);
  }
  if (added.ok()) added = Expand(inputs, &named);
  if (added.ok()) added = AddLayer(named, -1);
  RINGLET_RETURN_IF_ERROR(added.Annotate("layer '%s'", named.name.c_str()));
  return AddCallOf(number, inputs);
}

Status Graph::AddCall(int earlier_node, const std::vector<int>& inputs) {
  if (earlier_node < num_inputs_ || earlier_node >= size() ||
      call_of_node_[earlier_node] < 0) {
    return InvalidArgument(
        "node %d cannot be called again: it is not an output of a layer",
        earlier_node);
  }
  const int number = calls_[call_of_node_[earlier_node]].layer;
  Status called = CheckNewCall(inputs);
  if (called.ok() &&
      layers_[number].layer.kind == Layer::Kind::kRecurrentOutput) {
    called = InvalidArgument(
        "a RecurrentOutput is not called again: add one for each call of its "
        "layer");
  }
  RINGLET_RETURN_IF_ERROR(
      (called.ok() ? CheckTensors(inputs) : called)
          .Annotate("layer '%s'", layers_[number].path.c_str()));
  return AddCallOf(number, inputs);
}

Status Graph::AddCallOf(int layer, const std::vector<int>& inputs) {
  NestedModel::Call call;
  call.layer = layer;
  for (int input : inputs) call.inputs.push_back(call_of_node_[input]);
  int node = 0;
  RINGLET_RETURN_IF_ERROR(Call(layer, inputs, &node));
  call.output = nodes_[node].output;
  call_of_node_[node] = static_cast<int>(calls_.size());
  calls_.push_back(std::move(call));
  return Status();
}

Status Graph::Complete(const std::vector<bool>& losses) {
  RINGLET_RETURN_IF_ERROR(CheckWhole());
  losses_before_ = losses_;
  losses_ = losses;
  RINGLET_RETURN_IF_ERROR(CheckShared());
  if (!complete_) {
    RINGLET_RETURN_IF_ERROR(AddOutputMasks());
    JoinPools();
  }
  ChooseTrained(&GraphLayer::trainable_next);
  RINGLET_RETURN_IF_ERROR(CheckGradients());
  ChooseReplaced();
  ChooseBFloat16();
  complete_ = true;
  return Status();
}

// Only trained variables have gradients, in their order. Nodes before the first
// trained variable need no gradient.
void Graph::ChooseTrained(bool GraphLayer::*trainable) {
  for (GraphLayer& layer : layers_) {
    const bool before = layer.layer.trainable;
    layer.layer.trainable = layer.*trainable;
    layer.trained_before = before;
    layer.trained = layer.layer.trainable &&
                    (layer.parent < 0 || layers_[layer.parent].trained);
  }
  num_trained_ = num_changes_ = 0;
  const std::vector<bool> leads = LeadsToLoss();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    GraphNode& node = nodes_[i];
    node.layer.trainable = layers_[node.layer_index].trained;
    node.needs_gradient = false;
    for (int input : node.inputs) {
      node.needs_gradient |= leads[i] && nodes_[input].needs_gradient;
    }
    if (node.layer.kind == Layer::Kind::kMask) node.needs_gradient = false;
    if (node.op != nullptr) node.op->set_frozen(!node.layer.trainable);
    for (int v = 0; v < node.num_variables; ++v) {
      Variable& variable = variables_[node.first_variable + v];
      const bool trained =
          leads[i] && node.layer.trainable && !variable.is_layer_state;
      node.needs_gradient |= trained;
      if (node.call_index > 0) continue;
      variable.gradient_offset = trained ? num_trained_ : -1;
      num_trained_ += trained ? variable.size() : 0;
      const bool changes = node.layer.trainable && variable.is_layer_state &&
                           node.op->changes_state();
      variable.change_offset = changes ? num_changes_ : -1;
      num_changes_ += changes ? variable.size() : 0;
    }
  }
}

Status Graph::CheckGradients() const {
  for (const GraphNode& node : nodes_) {
    if (node.op == nullptr || node.op->has_gradient()) continue;
    for (const int input : node.inputs) {
      if (!nodes_[input].needs_gradient) continue;
      return InvalidArgument(
          "layer '%s': %s passes no gradient on, so no layer before it can "
          "be trained; set \"trainable\" to false there",
          node.layer.name.c_str(), WithArticle(ClassName(node.layer)).c_str());
    }
  }
  return Status();
}

void Graph::RestoreTrainedLayers() {
  losses_ = losses_before_;
  ChooseTrained(&GraphLayer::trained_before);
  ChooseReplaced();
}

// If a max pool is the only reader of a node's output, the op computes it too,
// where it can.
void Graph::JoinPools() {
  std::vector<int> num_readers(nodes_.size(), 0);
  for (const GraphNode& node : nodes_) {
    for (int input : node.inputs) ++num_readers[input];
  }
  for (int output : outputs_) ++num_readers[output];
  for (int i = num_inputs_; i < size(); ++i) {
    GraphNode& node = nodes_[i];
    GraphNode& source = nodes_[node.inputs[0]];
    const MaxPool* const pool = node.op->max_pool();
    if (pool != nullptr && num_readers[node.inputs[0]] == 1 &&
        source.op != nullptr && source.op->FusePool(*pool)) {
      node.op->set_fused_into_previous();
    }
    if (node.op->is_view()) node.root = source.root;
  }
}

// Chooses the nodes that write the gradient of their input over the input.
void Graph::ChooseReplaced() {
  std::vector<int> num_readers(nodes_.size(), 0), reader(nodes_.size(), -1);
  for (int i = 0; i < size(); ++i) {
    if (nodes_[i].op == nullptr || nodes_[i].op->is_view()) continue;
    for (int input : nodes_[i].inputs) {
      ++num_readers[nodes_[input].root];
      reader[nodes_[input].root] = i;
    }
  }
  for (int i = 0; i < size(); ++i) {
    const bool replaces = num_readers[i] == 1 && MayBeReplaced(i) &&
                          nodes_[reader[i]].op->dx_may_overwrite_x();
    nodes_[i].overwriting_reader = replaces ? reader[i] : -1;
  }
}

bool Graph::MayBeReplaced(int root) const {
  const GraphNode& source = nodes_[root];
  if (source.op == nullptr || !source.needs_gradient || source.root != root ||
      is_output_root(root)) {
    return false;
  }
  const Activation activation = source.op->fused_activation();
  if (IsOverRow(activation)) return false;
  return activation != kLinear || !source.op->backward_reads_output();
}

void Graph::DrawWeights(uint64_t seed, float* weights) const {
  for (const GraphNode& node : nodes_) {
    if (node.call_index > 0) continue;
    for (int v = 0; v < node.num_variables; ++v) {
      const WeightSpec& spec = node.op->weights()[v];
      const int variable = node.first_variable + v;
      float* const to = weights + variables_[variable].offset;
      Initialize(spec.initializer, spec.shape, seed, variable, to);
      std::fill(to + spec.ones.begin, to + spec.ones.end, 1.0f);
    }
  }
  for (int i = 0; i < static_cast<int>(layers_.size()); ++i) {
    const Layer& layer = layers_[i].layer;
    if (layer.model == nullptr || layer.model->weights == nullptr) continue;
    CopyWeights(i, weights);
    // The model's weights include the weights of its nested models.
    i = layers_[i].end - 1;
  }
}

// Copies the weights that came with model `layer` to `weights`.
void Graph::CopyWeights(int layer, float* weights) const {
  const std::vector<float>& model_weights =
      *layers_[layer].layer.model->weights;
  const auto is_its = [&](const GraphNode& node) {
    return node.call_index == 0 && node.layer_index > layer &&
           node.layer_index < layers_[layer].end;
  };
  size_t from = 0;
  for (const bool state : {false, true}) {
    for (const GraphNode& node : nodes_) {
      for (int v = 0; is_its(node) && v < node.num_variables; ++v) {
        const Variable& variable = variables_[node.first_variable + v];
        if (variable.is_layer_state != state) continue;
        const auto size = static_cast<size_t>(variable.size());
        RINGLET_CHECK(from + size <= model_weights.size());
        std::copy_n(model_weights.data() + from, size,
                    weights + variable.offset);
        from += size;
      }
    }
  }
  RINGLET_CHECK(from == model_weights.size());
}

uint64_t Graph::TableBytes() const {
  uint64_t sum = 0;
  for (const GraphNode& node : nodes_) {
    if (node.op != nullptr) sum += node.op->table_bytes();
  }
  return sum;
}

int64_t Graph::MultiplyAdds() const {
  int64_t sum = 0;
  for (const GraphNode& node : nodes_) {
    if (node.op != nullptr) sum += node.op->multiply_adds();
  }
  return sum;
}

}  // namespace ringlet
