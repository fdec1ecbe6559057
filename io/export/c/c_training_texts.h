// The texts of the helper functions in a C file that trains.

#ifndef RINGLET_IO_EXPORT_C_C_TRAINING_TEXTS_H_
#define RINGLET_IO_EXPORT_C_C_TRAINING_TEXTS_H_

#include "c_helpers.h"
#include "ringlet/layers.h"

namespace ringlet {

CHelperTable TrainingHelpers();

// Returns an activation as a C expression of its input x, with the trainer's
// bits. With `slope`, returns the gradient of x, as an expression of the output
// y and its gradient d. Returns null if there is no such expression. Adds the
// function that the expression calls to *helpers.
const char* ExactExpression(Activation activation, bool slope,
                            CHelpers* helpers);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_C_TRAINING_TEXTS_H_
