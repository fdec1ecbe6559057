// Bidirectional as a nested model: a layer for each direction, and the layer
// that merges their outputs.

#ifndef RINGLET_CORE_LAYERS_RECURRENT_BIDIRECTIONAL_H_
#define RINGLET_CORE_LAYERS_RECURRENT_BIDIRECTIONAL_H_

#include "../nested_model.h"

namespace ringlet {

constexpr char kBidirectional[] = "Bidirectional";

// True for a layer that ExpandBidirectional has made.
inline bool IsExpandedBidirectional(const Layer& layer) {
  return layer.model != nullptr && layer.model->class_name == kBidirectional;
}

// The indices of its layers in NestedModel::layers.
struct BidirectionalParts {
  static constexpr size_t kForward = 1, kBackward = 2;
};

// Makes *layer, a Bidirectional over an input of this shape, a nested model:
// both directions, and the layer that merges their outputs.
Status ExpandBidirectional(const Shape& input, Layer* layer);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_RECURRENT_BIDIRECTIONAL_H_
