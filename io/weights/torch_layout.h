// Finds the tensor and the layout of each variable in a PyTorch state_dict, or
// in an ONNX model that is read like one.
//
// ringlet/checkpoint.h has the contract (WeightsLayout).

#ifndef RINGLET_IO_WEIGHTS_TORCH_LAYOUT_H_
#define RINGLET_IO_WEIGHTS_TORCH_LAYOUT_H_

#include <vector>

#include "ringlet/model.h"
#include "torch_axes.h"
#include "weights_file.h"

namespace ringlet {

// Sets one entry for each of model.variables(). With `names_only` modules are
// matched by name only, never by order. kInvalidArgument if the variable of a
// tensor or its layout is ambiguous.
Status FindTorchWeights(const WeightsFile& file, const Model& model,
                        bool names_only, std::vector<TorchWeight>* weights);

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_TORCH_LAYOUT_H_
