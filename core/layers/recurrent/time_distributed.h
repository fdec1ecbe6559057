// TimeDistributed of a model, or of a Bidirectional, as a nested model: each
// layer of it is applied to each step.

#ifndef RINGLET_CORE_LAYERS_RECURRENT_TIME_DISTRIBUTED_H_
#define RINGLET_CORE_LAYERS_RECURRENT_TIME_DISTRIBUTED_H_

#include "../layer_kind.h"
#include "../nested_model.h"

namespace ringlet {

constexpr char kTimeDistributed[] = "TimeDistributed";

// True for a TimeDistributed that one op cannot compute.
inline bool AppliesModel(const Layer& layer) {
  return layer.kind == Layer::Kind::kTimeDistributed &&
         layer.layer != nullptr &&
         (layer.layer->kind == Layer::Kind::kModel ||
          layer.layer->kind == Layer::Kind::kBidirectional);
}

// True for a layer that ExpandTimeDistributed has made.
inline bool IsExpandedTimeDistributed(const Layer& layer) {
  return layer.model != nullptr && layer.model->class_name == kTimeDistributed;
}

// Makes *layer, a TimeDistributed for which AppliesModel is true, over an input
// of this shape, a nested model. It keeps the layer that it applies.
Status ExpandTimeDistributed(const Shape& input, Layer* layer);

// The layer that an expanded TimeDistributed applies, with the present state of
// the layers in it.
Layer AppliedLayer(const Layer& expanded);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_RECURRENT_TIME_DISTRIBUTED_H_
