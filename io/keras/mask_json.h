// Masks in functional models.
//
// Keras 3 writes how it computed a mask, beside the layers: NotEqual of a
// tensor and a number, for a Masking Any of it, and LogicalOr of two masks that
// an Add joins. The calls of layers that take a mask name the last of these as
// their argument "mask". Here the graph finds the masks by itself, so they are
// only compared. Other files do not have them.

#ifndef RINGLET_IO_KERAS_MASK_JSON_H_
#define RINGLET_IO_KERAS_MASK_JSON_H_

#include <vector>

#include "layer_json.h"

namespace ringlet {

// True for an operation that only makes masks.
bool MakesMask(Operation operation);

// Removes the entries that make masks. Each mask in the other entries becomes
// the tensor that it is computed from.
Status ResolveMasks(std::vector<LayerEntry>* entries);

// Returns an error if `node`, which the entry's layer has become, does not take
// this mask of node `from`.
Status CheckMask(const LayerEntry& entry, const MaskReference& mask,
                 const Model& model, int node, int from);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_MASK_JSON_H_
