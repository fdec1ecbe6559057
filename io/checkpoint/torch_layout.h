// The weights of a PyTorch state_dict, or of an ONNX model as one: which are
// whose, and how they lie.
//
// Internal to io/. What is promised of it stands in model_file.h
// (WeightsLayout).

#ifndef RINGLET_IO_CHECKPOINT_TORCH_LAYOUT_H_
#define RINGLET_IO_CHECKPOINT_TORCH_LAYOUT_H_

#include <vector>

#include "../../core/model/model.h"
#include "torch_axes.h"
#include "weights_file.h"

namespace ringlet {

// One for each of model.variables(). `names_only`: modules are not taken in
// order. kInvalidArgument where it cannot be known whose a tensor is, or how
// it lies.
Status FindTorchWeights(const WeightsFile& file, const Model& model,
                        bool names_only, std::vector<TorchWeight>* weights);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_TORCH_LAYOUT_H_
