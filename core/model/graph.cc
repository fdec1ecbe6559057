// What must be known to change this file: nodes_ is in topological order, since
// a node may take earlier ones alone, and variables_ follows it; gradients
// therefore become final from the end of the weight span. Names and variables
// are appended only once a node is known to be good.

#include "graph.h"

#include <algorithm>

namespace ringlet {

std::string Graph::UniqueName(const Layer& layer) {
  if (!layer.name.empty()) return layer.name;
  const std::string base = SnakeCase(ClassName(layer));
  if (names_.count(base) == 0) return base;
  for (int& i = numbers_[base];;) {
    const std::string numbered = base + "_" + std::to_string(++i);
    if (names_.count(numbered) == 0) return numbered;
  }
}

namespace {

Status CheckInputShape(const Shape& shape) {
  constexpr int64_t kMost = int64_t{1} << 31;
  int64_t elements = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] < 1 || elements > kMost / shape[i]) {
      return InvalidArgument("%s is not the shape of an input",
                             shape.ToString().c_str());
    }
    elements *= shape[i];
  }
  return Status();
}

}  // namespace

Status Graph::CheckNewNode(const Layer& layer,
                           const std::vector<int>& inputs) const {
  if (complete_) {
    return InvalidArgument(
        "the model was compiled already; add all layers "
        "before Compile");
  }
  if (names_.count(layer.name) != 0) {
    return InvalidArgument(
        "two layers have this name; give one another with "
        "Name()");
  }
  if (layer.kind == Layer::Kind::kInput) {
    if (size() != 0 || !inputs.empty()) {
      return InvalidArgument("a model has one Input, its first layer");
    }
    return CheckInputShape(layer.shape);
  }
  if (size() == 0) return InvalidArgument("the first layer must be an Input");
  for (int input : inputs) {
    if (input >= 0 && input < size()) continue;
    return InvalidArgument("input %d is not an earlier layer", input);
  }
  return Status();
}

// Makes the op of a node whose inputs are known, and its variables.
Status Graph::MakeOp(GraphNode* node) {
  std::vector<Shape> shapes;
  for (int input : node->inputs) {
    shapes.push_back(nodes_[input].output);
  }
  RINGLET_RETURN_IF_ERROR(Op::Make(node->layer, shapes, &node->op));
  node->output = node->op->output();
  may_fail_ |= node->op->may_fail();
  if (node->op->is_view()) node->root = nodes_[node->inputs[0]].root;
  for (const WeightSpec& weight : node->op->weights()) {
    AddVariable(weight, node);
  }
  return Status();
}

// State lies behind all parameters, so it moves with each that is added.
void Graph::AddVariable(const WeightSpec& weight, GraphNode* node) {
  Variable variable;
  variable.path = node->layer.name + "/" + weight.name;
  variable.shape = weight.shape;
  variable.regularizer = weight.regularizer;
  variable.state = !weight.trainable;
  const int64_t size = variable.size();
  variable.offset = variable.state ? num_weights() : num_parameters_;
  (variable.state ? num_state_ : num_parameters_) += size;
  if (!variable.state && num_state_ > 0) {
    for (Variable& other : variables_) other.offset += other.state ? size : 0;
  }
  const bool trained = node->layer.trainable && !variable.state;
  variable.gradient_offset = trained ? num_trained_ : -1;
  num_trained_ += trained ? size : 0;
  variables_.push_back(variable);
  ++node->num_variables;
}

// Gradients are those of the trained variables, in their order; nothing before
// the first is asked for.
void Graph::ChooseTrained(bool GraphNode::*trainable) {
  num_trained_ = 0;
  for (GraphNode& node : nodes_) {
    const bool before = node.layer.trainable;
    node.layer.trainable = node.*trainable;
    node.trained_before = before;
    node.needs_gradient = false;
    for (int input : node.inputs) {
      node.needs_gradient |= nodes_[input].needs_gradient;
    }
    if (node.op != nullptr) node.op->set_frozen(!node.layer.trainable);
    for (int v = 0; v < node.num_variables; ++v) {
      Variable& variable = variables_[node.first_variable + v];
      const bool trained = node.layer.trainable && !variable.state;
      variable.gradient_offset = trained ? num_trained_ : -1;
      num_trained_ += trained ? variable.size() : 0;
      node.needs_gradient |= trained;
    }
  }
  for (int i = 0; i < size(); ++i) nodes_[i].replaced_by = ReplacedBy(i);
}

void Graph::KeepTrained() { ChooseTrained(&GraphNode::trained_before); }

Status Graph::SetTrainable(const std::string& layer, bool trainable) {
  for (GraphNode& node : nodes_) {
    if (node.layer.name != layer) continue;
    node.trainable_next = trainable;
    if (!complete_) node.layer.trainable = trainable;
    return Status();
  }
  return InvalidArgument("model '%s': there is no layer '%s'", name_.c_str(),
                         layer.c_str());
}

Status Graph::Add(const Layer& layer, const std::vector<int>& inputs) {
  GraphNode node;
  node.layer = layer;
  node.layer.name = UniqueName(layer);
  node.trainable_next = layer.trainable;
  node.inputs = inputs;
  node.root = size();
  node.first_variable = static_cast<int>(variables_.size());
  node.output = layer.shape;  // an Input's
  const char* const name = node.layer.name.c_str();
  RINGLET_RETURN_IF_ERROR(
      CheckNewNode(node.layer, inputs).Annotate("layer '%s'", name));
  if (layer.kind != Layer::Kind::kInput) {
    RINGLET_RETURN_IF_ERROR(
        MakeOp(&node).Annotate("layer '%s' (%s)", name, ClassName(layer)));
  }
  names_.insert(node.layer.name);
  nodes_.push_back(std::move(node));
  return Status();
}

Status Graph::Complete() {
  if (size() < 2) {
    return InvalidArgument("model '%s': needs an Input and at least one layer",
                           name_.c_str());
  }
  std::vector<bool> taken(nodes_.size(), false);
  for (const GraphNode& node : nodes_) {
    for (int input : node.inputs) taken[input] = true;
  }
  const auto unused = std::find(taken.begin(), taken.end() - 1, false);
  if (unused != taken.end() - 1) {
    return InvalidArgument(
        "layer '%s': nothing takes its output, and it is not the last layer",
        nodes_[unused - taken.begin()].layer.name.c_str());
  }
  ChooseTrained(&GraphNode::trainable_next);
  complete_ = true;
  return Status();
}

// The node that writes the gradient of `root` over its output; -1: none.
int Graph::ReplacedBy(int root) const {
  const GraphNode& made = nodes_[root];
  if (made.op == nullptr || !made.needs_gradient || made.root != root ||
      output().root == root) {
    return -1;
  }
  const Activation activation = made.op->fused_activation();
  if (activation == kSoftmax) return -1;
  if (activation == kLinear && made.op->keeps_output()) return -1;
  int taker = -1;
  for (int i = 0; i < size(); ++i) {
    if (nodes_[i].op == nullptr || nodes_[i].op->is_view()) continue;
    for (int input : nodes_[i].inputs) {
      if (nodes_[input].root != root) continue;
      if (taker >= 0) return -1;
      taker = i;
    }
  }
  return taker >= 0 && nodes_[taker].op->replaces_input() ? taker : -1;
}

void Graph::DrawWeights(uint64_t seed, float* weights) const {
  for (const GraphNode& node : nodes_) {
    for (int v = 0; v < node.num_variables; ++v) {
      const WeightSpec& spec = node.op->weights()[v];
      const int variable = node.first_variable + v;
      Initialize(spec.initializer, spec.shape, seed, variable,
                 weights + variables_[variable].offset);
    }
  }
}

int64_t Graph::MultiplyAdds() const {
  int64_t sum = 0;
  for (const GraphNode& node : nodes_) {
    if (node.op != nullptr) sum += node.op->multiply_adds();
  }
  return sum;
}

}  // namespace ringlet
