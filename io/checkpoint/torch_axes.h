// How a weight lies in a PyTorch state_dict, or in an ONNX model.
//
// Internal to io/.

#ifndef RINGLET_IO_CHECKPOINT_TORCH_AXES_H_
#define RINGLET_IO_CHECKPOINT_TORCH_AXES_H_

#include <cstdint>
#include <string>

#include "../../core/model/model.h"
#include "torch_images.h"
#include "weights_file.h"

namespace ringlet {

// One weight of the model in such a file.
struct TorchWeight {
  const StoredTensor* tensor = nullptr;  // null: missing
  Shape shape;                           // that it must have there
  // Of a kernel, or a vector over a flattened image (filters 1), else 0:
  // tensor[o][c][h][w] is the weight's [h][w][c][o].
  int64_t height = 0, width = 0, channels = 0, filters = 0;
  bool channels_first = false;  // known to be so there
  bool channels_last = false;   // there too: what was flattened is not turned
};

// Of the variable `role` of `node`, whose shape weight->shape is here: the
// shape that it must have there, and what is turned. kInvalidArgument where it
// cannot be known.
Status FindAxes(const WeightsFile& file, const Model& model,
                const TorchImages& images, int node, const std::string& role,
                TorchWeight* weight);

// From `stored`, the tensor's elements, to `weight`, as many.
void FromTorch(const TorchWeight& how, const float* stored, float* weight);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_TORCH_AXES_H_
