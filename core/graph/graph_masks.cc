// Masks: which layers make, take, pass on and lose them, as in Keras.
//
// An Embedding with mask_zero and a Masking make one, a number for each step of
// their input. It follows the output through layers that keep the steps apart.
// Its node is added in front of the first layer that takes it, so a model
// without such a layer has no node more. A layer that takes a mask has it as
// its last input. A mask has no gradient, and is not in the model's file.

#include <algorithm>

#include "../layers/layer_kind.h"
#include "../layers/recurrent/bidirectional.h"
#include "graph.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;

enum class MaskRule : uint8_t {
  kLoses,
  kPasses,  // the mask of its input, or the one that all inputs have
  kTakes,   // it leaves out masked steps
  kRefuses,
};

MaskRule RuleOf(const Layer& layer) {
  switch (layer.kind) {
    case Kind::kDense:
    case Kind::kActivation:
    case Kind::kReLU:
    case Kind::kLeakyReLU:
    case Kind::kELU:
    case Kind::kPReLU:
    case Kind::kDropout:
    case Kind::kSpatialDropout1D:
    case Kind::kSpatialDropout2D:
    case Kind::kGaussianNoise:
    case Kind::kGaussianDropout:
    case Kind::kAlphaDropout:
    case Kind::kAdd:
    case Kind::kSubtract:
    case Kind::kMultiply:
    case Kind::kAverage:
    case Kind::kMaximum:
    case Kind::kMinimum:
    case Kind::kConcatenate:
    case Kind::kPositionEmbedding:
    case Kind::kLayerNormalization:
    case Kind::kGroupNormalization:
    case Kind::kUnitNormalization:
    case Kind::kRescaling:
    case Kind::kNormalization:
    case Kind::kRecurrentOutput:
      return MaskRule::kPasses;
    case Kind::kSimpleRNN:
    case Kind::kLSTM:
    case Kind::kGRU:
    case Kind::kGlobalAveragePooling1D:
      return MaskRule::kTakes;
    case Kind::kAttention:
    case Kind::kMultiHeadAttention:
    case Kind::kBatchNormalization:
    case Kind::kSoftmax:
      return MaskRule::kRefuses;
    case Kind::kTimeDistributed: {
      if (layer.layer == nullptr) return MaskRule::kLoses;
      const MaskRule rule = RuleOf(*layer.layer);
      const bool takes = rule == MaskRule::kTakes || rule == MaskRule::kRefuses;
      return takes ? MaskRule::kRefuses : MaskRule::kPasses;
    }
    default:
      return MaskRule::kLoses;
  }
}

bool MakesMask(const Layer& layer) {
  return layer.kind == Kind::kMasking ||
         (layer.kind == Kind::kEmbedding && layer.mask_zero);
}

// Finds the layer of a model that takes a mask of another of its layers, and
// whether the output has a mask. The walk ignores shapes, so it may find a
// layer that in the model has no mask, but not the reverse.
const Layer* FindTaker(const NestedModel& model, bool input_has_mask,
                       bool* output_has_mask) {
  std::vector<bool> has_mask;
  for (const NestedModel::Call& call : model.calls) {
    const Layer& layer = model.layers[call.layer];
    bool all = !call.inputs.empty();
    for (const int input : call.inputs) all = all && has_mask[input];
    const MaskRule rule = RuleOf(layer);
    bool has = MakesMask(layer) || (all && rule == MaskRule::kPasses);
    if (layer.kind == Kind::kInput) {
      has = input_has_mask;
    } else if (layer.model != nullptr) {
      const Layer* const taker = FindTaker(*layer.model, all, &has);
      if (taker != nullptr) return taker;
    } else if ((rule == MaskRule::kTakes && has_mask[call.inputs[0]]) ||
               (rule == MaskRule::kRefuses && all)) {
      return &layer;
    }
    has_mask.push_back(has);
  }
  *output_has_mask = has_mask[model.outputs[0]];
  return nullptr;
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
  return a.layer.kind == b.layer.kind && a.inputs == b.inputs &&
         a.layer.mask_value == b.layer.mask_value;
}

}  // namespace

Status Graph::CheckStepMasks(const Layer& layer) {
  if (layer.model == nullptr) return Status();
  bool output_has_mask = false;
  const Layer* const taker =
      FindTaker(*layer.model, /*input_has_mask=*/false, &output_has_mask);
  if (taker == nullptr) return Status();
  return InvalidArgument(
      "the layer '%s' in its model takes the mask of another layer, and "
      "TimeDistributed has no masks in ringlet; leave out mask_zero and the "
      "Masking, and give all sequences one length",
      taker->name.c_str());
}

// Finds the node that made the mask of these inputs; -1: all steps count.
Status Graph::FindMaskMaker(const Layer& layer, const std::vector<int>& inputs,
                            int* maker) const {
  *maker = -1;
  const MaskRule rule = RuleOf(layer);
  if (rule == MaskRule::kLoses || inputs.empty()) return Status();
  *maker = nodes_[inputs[0]].mask_maker;
  if (rule == MaskRule::kTakes) return Status();
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
    return InvalidArgument(
        "its input has the mask of layer '%s', and %s has no masks in ringlet; "
        "leave out %s and give all sequences one length",
        nodes_[*maker].layer.name.c_str(), ClassName(layer),
        nodes_[*maker].layer.kind == Kind::kMasking ? "the Masking"
                                                    : "mask_zero");
  }
  if (!all) *maker = -1;
  return Status();
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
  node.layer.mask_value = maker_node.layer.mask_value;
  node.layer.mask_zero = maker_node.layer.kind == Kind::kEmbedding;
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

// Gives a layer that takes masks that of its input. As in Keras, masked steps
// of a Bidirectional with return_sequences are zeros.
Status Graph::AddMaskInput(GraphNode* node) {
  RINGLET_RETURN_IF_ERROR(
      FindMaskMaker(node->layer, node->inputs, &node->mask_maker));
  if (node->mask_maker < 0 || RuleOf(node->layer) != MaskRule::kTakes) {
    return Status();
  }
  int mask = 0;
  RINGLET_RETURN_IF_ERROR(AddMask(node->mask_maker, &mask));
  node->inputs.push_back(mask);
  node->layer.takes_mask = true;
  const int parent = layers_[node->layer_index].parent;
  if (parent >= 0 && IsExpandedBidirectional(layers_[parent].layer)) {
    node->layer.zero_output_for_mask = node->layer.return_sequences;
  }
  return Status();
}

// Decides whether the output of a node, which is the next, has a mask.
void Graph::PassMask(GraphNode* node) const {
  const Layer& layer = node->layer;
  if (MakesMask(layer)) {
    node->mask_maker = size();
    return;
  }
  if (node->mask_maker < 0 || layer.return_state) return;
  const bool keeps = layer.kind == Kind::kRecurrentOutput
                         ? layer.tensor == 0 && layer.layer->return_sequences
                         : !layer.takes_mask || layer.return_sequences;
  if (!keeps || !HasSteps(node->output, nodes_[node->mask_maker].output)) {
    node->mask_maker = -1;
  }
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
