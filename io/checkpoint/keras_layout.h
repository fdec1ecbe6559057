// The weights of a file from Keras or numpy: which are whose.
//
// Internal to io/. What is promised of it stands in model_file.h
// (WeightsLayout).

#ifndef RINGLET_IO_CHECKPOINT_KERAS_LAYOUT_H_
#define RINGLET_IO_CHECKPOINT_KERAS_LAYOUT_H_

#include <vector>

#include "../../core/model/model.h"
#include "weights_file.h"

namespace ringlet {

// One for each of model.variables(); null: missing. Shapes are not looked at.
// `parts`: arrays without names may be fewer or more than the weights.
// kInvalidArgument where two could be one weight's, or one could be two's.
Status FindKerasWeights(const WeightsFile& file, const Model& model, bool parts,
                        std::vector<const StoredTensor*>* tensors);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_KERAS_LAYOUT_H_
