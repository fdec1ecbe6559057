// The check of a source's inputs, before their examples are read.

#ifndef RINGLET_CORE_DATA_INPUT_SHAPES_H_
#define RINGLET_CORE_DATA_INPUT_SHAPES_H_

#include <vector>

#include "ringlet/dataset.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// Returns an error if the source does not have inputs of the shapes of a model.
// A shape of the source or of the model may have an additional last axis of 1.
// If the source has one input and the model several, x may have the values of
// all inputs in one row.
Status CheckInputShapes(const Source& source, const std::vector<Shape>& shapes);

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_INPUT_SHAPES_H_
