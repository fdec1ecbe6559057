#include "mask_json.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <string>
#include <utility>

#include "../../core/base/text.h"
#include "../../core/layers/layer_table.h"
#include "../../core/layers/recurrent/bidirectional.h"

namespace ringlet {
namespace {

using Makers = std::map<std::string, const LayerEntry*>;

Status RefuseMask(const LayerEntry& entry) {
  return entry.Annotate(
      InvalidArgument("%s.inbound_nodes: mask: ringlet supports only the mask "
                      "that an Embedding with mask_zero, or a Masking, makes "
                      "before the layer",
                      entry.path.c_str()));
}

// Follows a mask to the tensor it is computed from. The operations are in
// order, so `depth` bounds a cycle.
bool Resolve(const Makers& makers, size_t depth, MaskReference* mask) {
  const auto found = makers.find(mask->from.name);
  if (found == makers.end() || depth == 0) return false;
  const LayerEntry& maker = *found->second;
  const auto number = static_cast<size_t>(mask->from.number);
  if (number >= maker.calls.size()) return false;
  std::vector<CallReference> inputs = maker.calls[number];
  if (maker.operation == Operation::kNotEqual) {
    if (inputs.size() != 2) return false;
    if (!inputs[0].numbers.empty()) std::swap(inputs[0], inputs[1]);
    if (!inputs[0].numbers.empty() || inputs[1].numbers.size() != 1) {
      return false;
    }
    mask->value = inputs[1].numbers[0];
    mask->from = inputs[0];
    return true;
  }
  const size_t num_inputs = maker.operation == Operation::kAny ? 1 : 2;
  if (inputs.size() != num_inputs) return false;
  MaskReference first = *mask;
  for (size_t i = 0; i < num_inputs; ++i) {
    MaskReference input_mask = *mask;
    input_mask.from = inputs[i];
    input_mask.over_features |= num_inputs == 1;
    if (!Resolve(makers, depth - 1, &input_mask)) return false;
    if (i == 0) first = input_mask;
    if (input_mask.from.name != first.from.name ||
        input_mask.from.number != first.from.number ||
        input_mask.value != first.value ||
        input_mask.over_features != first.over_features) {
      return false;
    }
  }
  *mask = first;
  return true;
}

}  // namespace

bool MakesMask(Operation operation) {
  return operation == Operation::kNotEqual || operation == Operation::kAny ||
         operation == Operation::kOr;
}

Status ResolveMasks(std::vector<LayerEntry>* entries) {
  Makers makers;
  for (const LayerEntry& entry : *entries) {
    if (MakesMask(entry.operation)) makers[entry.layer.name] = &entry;
  }
  for (LayerEntry& entry : *entries) {
    for (MaskReference& mask : entry.masks) {
      if (!Resolve(makers, makers.size(), &mask)) return RefuseMask(entry);
    }
  }
  entries->erase(std::remove_if(entries->begin(), entries->end(),
                                [](const LayerEntry& entry) {
                                  return MakesMask(entry.operation);
                                }),
                 entries->end());
  return Status();
}

Status CheckMask(const LayerEntry& entry, const MaskReference& mask,
                 const Model& model, int node, int from) {
  // A TimeDistributed without its own mask passes on the mask of its input.
  if (entry.layer.kind == Layer::Kind::kTimeDistributed) return Status();
  const int receiver = entry.layer.kind == Layer::Kind::kBidirectional
                           ? node + 1 - NodesOfBidirectional(entry.layer)
                           : node;
  const unsigned masked = model.layer(receiver).masked_inputs;
  const unsigned later_masks = masked >> mask.input;
  const bool attends = entry.layer.kind == Layer::Kind::kAttention ||
                       entry.layer.kind == Layer::Kind::kAdditiveAttention;
  if (attends && mask.input == 2) {
    return Status();  // the key's mask has no effect
  }
  if ((later_masks & 1) == 0) return RefuseMask(entry);
  const std::vector<int>& inputs = model.inputs(receiver);
  const int mask_node =
      inputs[inputs.size() - std::bitset<32>(later_masks).count()];
  const Layer& mask_layer = model.layer(mask_node);
  const bool matches = mask_layer.kind == Layer::Kind::kMask &&
                       model.inputs(mask_node)[0] == from &&
                       mask_layer.mask_value == mask.value &&
                       mask_layer.mask_zero != mask.over_features;
  return matches ? Status() : RefuseMask(entry);
}

}  // namespace ringlet
