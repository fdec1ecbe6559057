// The text of the functions that a C file with training calls.

#ifndef RINGLET_IO_EXPORT_C_C_TRAINING_TEXTS_H_
#define RINGLET_IO_EXPORT_C_C_TRAINING_TEXTS_H_

#include "c_helpers.h"
#include "ringlet/layers.h"

namespace ringlet {

CHelperTable TrainingHelpers();

// The expression of an activation with the trainer's bits: of x or, with
// `slope`, of a gradient d and the output y. Null if there is none. Adds the
// function that it needs to *helpers.
const char* ExactExpression(Activation activation, bool slope,
                            CHelpers* helpers);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_C_TRAINING_TEXTS_H_
