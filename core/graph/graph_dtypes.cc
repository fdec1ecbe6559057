// Chooses the outputs that are rounded to bfloat16 (DTypePolicy).
//
// The outputs of layers with the policy are rounded, and their gradients too.
// Not rounded are the outputs of the model, masks, and the inputs of an
// Embedding, a Masking or a spectrogram. A layer that selects numbers keeps
// them as they are: its gradient compares a maximum with the numbers from which
// it was chosen.

#include "../base/check.h"
#include "../layers/layer_kind.h"
#include "../layers/layer_table.h"
#include "graph.h"

namespace ringlet {
namespace {

Layer::Kind KindApplied(const Layer& layer) {
  return layer.layer != nullptr ? KindApplied(*layer.layer) : layer.kind;
}

// True if the layer needs exact numbers as input, or has no gradient.
bool ReadsExactNumbers(const GraphNode& node) {
  const Layer::Kind kind = KindApplied(node.layer);
  return kind == Layer::Kind::kEmbedding || kind == Layer::Kind::kMasking ||
         kind == Layer::Kind::kMask || !node.op->has_gradient();
}

// Sets the policy of a layer and of the layers that it applies.
void SetPolicy(DTypePolicy policy, Layer* layer) {
  if (layer->kind == Layer::Kind::kInput) return;
  layer->dtype = policy;
  if (layer->layer == nullptr) return;
  auto applied = std::make_shared<Layer>(*layer->layer);
  SetPolicy(policy, applied.get());
  layer->layer = std::move(applied);
}

// The op of a recurrent layer depends on the policy, which may have changed.
void MakeRecurrentOp(const std::vector<GraphNode>& nodes, GraphNode* node) {
  if (!IsRecurrent(KindApplied(node->layer))) return;
  Layer layer = node->layer;
  if (IsMixed(layer)) SetPolicy(DTypePolicy::kMixedBFloat16, &layer);
  std::vector<Shape> inputs;
  for (const int input : node->inputs) inputs.push_back(nodes[input].output);
  RINGLET_CHECK(Op::Make(layer, inputs, &node->op).ok());
  node->op->set_frozen(!node->layer.trainable);
}

}  // namespace

void Graph::SetDTypePolicy(DTypePolicy policy) {
  for (GraphLayer& layer : layers_) SetPolicy(policy, &layer.layer);
  for (GraphNode& node : nodes_) SetPolicy(policy, &node.layer);
}

// By root: true for outputs of the model and for nodes that lead to a layer
// that reads exact numbers.
std::vector<bool> Graph::FindFloat32Outputs() const {
  std::vector<bool> stays(nodes_.size(), false), leads(nodes_.size(), false);
  for (const int output : outputs_) stays[nodes_[output].root] = true;
  for (int i = size() - 1; i >= num_inputs_; --i) {
    if (leads[i]) stays[nodes_[i].root] = true;
    if (!leads[i] && !ReadsExactNumbers(nodes_[i])) continue;
    for (const int input : nodes_[i].inputs) leads[input] = true;
  }
  return stays;
}

void Graph::ChooseBFloat16() {
  for (GraphNode& node : nodes_) MakeRecurrentOp(nodes_, &node);
  const std::vector<bool> stays = FindFloat32Outputs();
  for (int i = num_inputs_; i < size(); ++i) {
    GraphNode& node = nodes_[i];
    const bool may = IsMixed(node.layer) && node.root == i && !stays[i] &&
                     node.layer.kind != Layer::Kind::kMask;
    node.rounds_output = may && !node.op->exact_results().y;
    node.is_bfloat16 = may;
    for (const int input : node.inputs) {
      node.is_bfloat16 &=
          node.rounds_output || nodes_[nodes_[input].root].is_bfloat16;
    }
    node.rounds_gradient = node.is_bfloat16;
  }
  ChooseRoundedGradients();
}

// If an output has one reader, and the reader selects its gradient from another
// gradient, the gradient is not rounded.
void Graph::ChooseRoundedGradients() {
  std::vector<int> num_readers(nodes_.size(), 0), reader(nodes_.size(), -1);
  for (int i = num_inputs_; i < size(); ++i) {
    if (nodes_[i].op->is_view()) continue;
    for (const int input : nodes_[i].inputs) {
      ++num_readers[nodes_[input].root];
      reader[nodes_[input].root] = i;
    }
  }
  for (int i = num_inputs_; i < size(); ++i) {
    if (num_readers[i] != 1 || !nodes_[reader[i]].is_bfloat16) continue;
    if (nodes_[reader[i]].op->exact_results().dx)
      nodes_[i].rounds_gradient = false;
  }
}

}  // namespace ringlet
