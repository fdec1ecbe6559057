// Bidirectional as a nested model: a layer for each direction, and the layer
// that merges their outputs.
//
// Its inputs are the sequence and, if given, the initial states of both layers.
// With return_state the merge is tensor 0. The states, which are the next
// tensors, are taken from the layers within (Graph::TakeState). So are the
// outputs without a merge mode, tensors 0 and 1; then nothing takes the merge.

#ifndef RINGLET_CORE_LAYERS_RECURRENT_BIDIRECTIONAL_H_
#define RINGLET_CORE_LAYERS_RECURRENT_BIDIRECTIONAL_H_

#include "../nested_model.h"

namespace ringlet {

constexpr char kBidirectional[] = "Bidirectional";

// True for a layer that ExpandBidirectional has made.
inline bool IsExpandedBidirectional(const Layer& layer) {
  return layer.model != nullptr && layer.model->class_name == kBidirectional;
}

// The layer of a direction, 0 forward and 1 backward, of an expanded one.
inline const Layer& DirectionOf(const NestedModel& model, int direction) {
  return model.layers[static_cast<size_t>(model.num_inputs + direction)];
}

// The nodes that a Bidirectional becomes: both directions and their merge, and
// with return_state the outputs of both.
inline int NodesOfBidirectional(const Layer& layer) {
  return layer.layer->return_state ? 5 : 3;
}

// The tensors before the states: the merge, or both outputs.
inline int64_t OutputsOf(const Layer& bidirectional) {
  return bidirectional.merge_mode == kMergeNone ? 2 : 1;
}

// Makes *layer, a Bidirectional over inputs of these shapes, a nested model.
Status ExpandBidirectional(const std::vector<Shape>& inputs, Layer* layer);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_RECURRENT_BIDIRECTIONAL_H_
