// The error of an autoencoder's output for an example.
//
// io/export and the program's `predict` use it.

#ifndef RINGLET_IO_EXPORT_RECONSTRUCTION_H_
#define RINGLET_IO_EXPORT_RECONSTRUCTION_H_

#include <cstdint>

#include "ringlet/export.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

// Returns an error unless the model has one output of as many values as its one
// input.
Status CheckReconstructs(const Model& model);

// The mean error of y, in the operations of the function of a C file. `error`
// is not kNone.
float ComputeError(ReconstructionError error, const float* x, const float* y,
                   int64_t count);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_RECONSTRUCTION_H_
