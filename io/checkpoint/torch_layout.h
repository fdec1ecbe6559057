// The weights of a PyTorch state_dict: which are whose, and how they lie.
//
// Internal to io/. What is promised of it stands in model_file.h
// (WeightsLayout).

#ifndef RINGLET_IO_CHECKPOINT_TORCH_LAYOUT_H_
#define RINGLET_IO_CHECKPOINT_TORCH_LAYOUT_H_

#include <string>
#include <vector>

#include "../../core/model/model.h"
#include "weights_file.h"

namespace ringlet {

// One weight of the model in such a file.
struct TorchWeight {
  const StoredTensor* tensor = nullptr;  // null: missing
  Shape shape;                           // that it must have there
  // Of a kernel, else 0: tensor[o][c][h][w] is the weight's [h][w][c][o].
  int64_t height = 0, width = 0, channels = 0, filters = 0;
};

// One for each of model.variables(). `names_only`: modules are not taken in
// order. kInvalidArgument where it cannot be known whose a tensor is, or how
// it lies.
Status FindTorchWeights(const WeightsFile& file, const Model& model,
                        bool names_only, std::vector<TorchWeight>* weights);

// From `stored`, the tensor's elements, to `weight`, as many.
void FromTorch(const TorchWeight& how, const float* stored, float* weight);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_TORCH_LAYOUT_H_
