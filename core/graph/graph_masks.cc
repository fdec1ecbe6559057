// Masks: how they pass through a graph, as in Keras. The MaskRule of each class
// of layer is in layer_table.cc.
//
// An Embedding with mask_zero and a Masking make one, a number for each step of
// their input. It follows the output through layers that keep the steps apart.
// Its node is added in front of the first layer that takes it, so a model
// without such a layer has no node more. A layer that takes a mask has it as
// its last input. A mask has no gradient, and is not in the model's file.

#include <algorithm>

#include "../layers/layer_kind.h"
#include "../layers/layer_table.h"
#include "../layers/recurrent/bidirectional.h"
#include "../layers/recurrent/time_distributed.h"
#include "graph.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;

// The rule of a TimeDistributed is the rule of its inner layer. But a
// TimeDistributed computes each step alone, so it passes a mask on where the
// inner layer would lose it.
MaskRule RuleOf(const Layer& layer) {
  if (layer.kind != Kind::kTimeDistributed) return ClassOf(layer).mask;
  if (layer.layer == nullptr) return MaskRule::kLoses;
  const MaskRule rule = RuleOf(*layer.layer);
  return rule == MaskRule::kLoses ? MaskRule::kPasses : rule;
}

bool Takes(MaskRule rule) {
  return rule == MaskRule::kTakes || rule == MaskRule::kAttends;
}

// The layer that a TimeDistributed applies, or the layer itself.
const Layer& Applied(const Layer& layer) {
  const bool of_steps =
      layer.kind == Kind::kTimeDistributed && layer.layer != nullptr;
  return of_steps ? *layer.layer : layer;
}

// True for a layer that makes a mask of its input.
bool IsMaker(const Layer& layer) {
  return layer.kind == Kind::kMasking ||
         (layer.kind == Kind::kEmbedding && layer.mask_zero);
}

// True for an expanded Bidirectional, also one that is applied to each step.
bool IsBidirectional(const Layer& layer) {
  return layer.kind == Kind::kBidirectional || IsExpandedBidirectional(layer) ||
         (IsExpandedTimeDistributed(layer) && IsBidirectional(*layer.layer));
}

// True if the tensor begins with the steps of the layer that made the mask.
bool HasSteps(const Shape& tensor, const Shape& maker_shape) {
  if (tensor.rank() < maker_shape.rank()) return false;
  for (int i = 0; i + 1 < maker_shape.rank(); ++i) {
    if (tensor[i] != maker_shape[i]) return false;
  }
  return true;
}

bool HaveSameMask(const GraphNode& a, const GraphNode& b) {
  const Layer &first = Applied(a.layer), &second = Applied(b.layer);
  return first.kind == second.kind && a.inputs == b.inputs &&
         first.mask_value == second.mask_value;
}

}  // namespace

// Within a TimeDistributed of a model each layer is applied to each step, and
// makes its mask there. Another TimeDistributed makes none, as in Keras.
bool Graph::MakesMask(const GraphNode& node) const {
  const bool applies =
      node.layer.kind != Kind::kTimeDistributed || IsInTimeDistributed(node);
  return applies && IsMaker(Applied(node.layer));
}

bool Graph::IsInTimeDistributed(const GraphNode& node) const {
  const int parent = layers_[node.layer_index].parent;
  return parent >= 0 && IsExpandedTimeDistributed(layers_[parent].layer);
}

// Finds the node that made the mask of these inputs, or -1 if all steps count.
Status Graph::FindMaskMaker(const Layer& layer, const std::vector<int>& inputs,
                            int* maker) const {
  *maker = -1;
  const MaskRule rule = RuleOf(layer);
  if (rule == MaskRule::kLoses || inputs.empty()) return Status();
  *maker = nodes_[inputs[0]].mask_maker;
  if (Takes(rule)) return Status();
  bool all = true;
  for (const int input : inputs) {
    const int other = nodes_[input].mask_maker;
    all = all && other >= 0;
    if (*maker < 0) *maker = other;
    if (other < 0 || HaveSameMask(nodes_[other], nodes_[*maker])) continue;
    return InvalidArgument(
        "its inputs have the masks of the layers '%s' and '%s', and ringlet "
        "joins no masks; let one layer make them",
        nodes_[*maker].layer.name.c_str(), nodes_[other].layer.name.c_str());
  }
  if (*maker >= 0 && rule == MaskRule::kRefuses) {
    return RefuseMask(*maker, layer);
  }
  if (!all) *maker = -1;
  return Status();
}

Status Graph::RefuseMask(int maker, const Layer& layer) const {
  const GraphNode& made = nodes_[maker];
  return InvalidArgument(
      "its input has the mask of layer '%s', and %s has no such mask in "
      "ringlet; leave out %s and give all sequences one length",
      made.layer.name.c_str(), ClassName(layer),
      Applied(made.layer).kind == Kind::kMasking ? "the Masking" : "mask_zero");
}

// Adds the node of a mask, unless it is there.
Status Graph::AddMask(int maker, int* mask) {
  const auto added = masks_.find(maker);
  if (added != masks_.end()) {
    *mask = added->second;
    return Status();
  }
  const GraphNode& maker_node = nodes_[maker];
  GraphNode node;
  node.layer.kind = Kind::kMask;
  node.layer.name = maker_node.layer.name + "/mask";
  node.layer.mask_value = Applied(maker_node.layer).mask_value;
  node.layer.mask_zero = Applied(maker_node.layer).kind == Kind::kEmbedding;
  node.layer_index = maker_node.layer_index;
  node.call_index = maker_node.call_index;
  node.inputs = maker_node.inputs;
  node.root = size();
  node.first_variable = static_cast<int>(variables_.size());
  RINGLET_RETURN_IF_ERROR(MakeOp(&node));
  *mask = masks_[maker] = size();
  nodes_.push_back(std::move(node));
  call_of_node_.push_back(-1);
  return Status();
}

// Gives the masks of its inputs to a layer that takes masks. An Attention has
// no use for the mask of its key. As in Keras, masked steps of a Bidirectional
// with return_sequences are zeros.
Status Graph::AddMaskInputs(GraphNode* node) {
  RINGLET_RETURN_IF_ERROR(
      FindMaskMaker(node->layer, node->inputs, &node->mask_maker));
  int depth = 0;  // the number of layers applied to each step
  const Layer* applied = &node->layer;
  for (; applied != &Applied(*applied); ++depth) applied = &Applied(*applied);
  if (depth > 1 && IsInTimeDistributed(*node) && IsMaker(*applied)) {
    return InvalidArgument(
        "makes a mask within two TimeDistributed, which ringlet does not "
        "support; leave it out and give all sequences one length");
  }
  const MaskRule rule = RuleOf(node->layer);
  if (!Takes(rule)) return Status();
  const std::vector<int> inputs = node->inputs;
  const size_t max_inputs = rule == MaskRule::kTakes                     ? 1
                            : applied->kind == Kind::kMultiHeadAttention ? 3
                                                                         : 2;
  for (size_t i = 0; i < std::min(max_inputs, inputs.size()); ++i) {
    const int maker = nodes_[inputs[i]].mask_maker;
    if (maker < 0) continue;
    // At each step a layer needs a mask of its own steps.
    if (depth > 0 && nodes_[maker].output.rank() < depth + 2) {
      return RefuseMask(maker, node->layer);
    }
    int mask = 0;
    RINGLET_RETURN_IF_ERROR(AddMask(maker, &mask));
    node->inputs.push_back(mask);
    node->layer.masked_inputs |= 1u << i;
  }
  if (node->layer.masked_inputs == 0) return Status();
  const int parent = layers_[node->layer_index].parent;
  if (parent >= 0 && IsBidirectional(layers_[parent].layer)) {
    node->layer.zero_output_for_mask = applied->return_sequences;
  }
  return Status();
}

// Decides whether the output of a node, which is the next, has a mask.
void Graph::PassMask(GraphNode* node) const {
  const Layer& layer = node->layer;
  if (MakesMask(*node)) {
    node->mask_maker = size();
    return;
  }
  if (node->mask_maker < 0 || layer.return_state) return;
  const bool keeps =
      layer.kind == Kind::kRecurrentOutput
          ? layer.tensor == 0 && layer.layer->return_sequences
          : layer.kind != Kind::kGlobalAveragePooling1D &&
                (!IsRecurrent(layer.kind) || layer.return_sequences);
  if (!keeps || !HasSteps(node->output, nodes_[node->mask_maker].output)) {
    node->mask_maker = -1;
  }
}

// Gives the output of a TimeDistributed of a model the mask of its input. A
// model within this model is not a TimeDistributed itself, but its layers are.
void Graph::LeaveTimeDistributed(int layer, int input, int output) {
  const GraphLayer& called = layers_[layer];
  if (!IsExpandedTimeDistributed(called.layer) || input == output) return;
  if (called.parent >= 0 &&
      IsExpandedTimeDistributed(layers_[called.parent].layer) &&
      !IsExpandedTimeDistributed(*called.layer.layer)) {
    return;
  }
  const int maker = nodes_[input].mask_maker;
  const bool keeps =
      maker >= 0 && HasSteps(nodes_[output].output, nodes_[maker].output);
  nodes_[output].mask_maker = keeps ? maker : -1;
}

// Adds the masks of the model's outputs, for their losses.
Status Graph::AddOutputMasks() {
  output_masks_.assign(outputs_.size(), -1);
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const int maker = nodes_[outputs_[k]].mask_maker;
    if (maker < 0) continue;
    RINGLET_RETURN_IF_ERROR(AddMask(maker, &output_masks_[k]));
  }
  return Status();
}

}  // namespace ringlet
