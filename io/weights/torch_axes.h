// The layout of a weight in a PyTorch state_dict, or in an ONNX model.

#ifndef RINGLET_IO_WEIGHTS_TORCH_AXES_H_
#define RINGLET_IO_WEIGHTS_TORCH_AXES_H_

#include <cstdint>
#include <string>

#include "ringlet/model.h"
#include "torch_images.h"
#include "weights_file.h"

namespace ringlet {

// One weight of the model in such a file.
struct TorchWeight {
  const StoredTensor* tensor = nullptr;  // null if missing
  Shape shape;                           // the shape that the tensor must have
  // Not 0 for a kernel, and for a vector over a flattened image (filters 1):
  // tensor[o][c][h][w] is the weight's [h][w][c][o].
  int64_t height = 0, width = 0, channels = 0, filters = 0;
  // The known order of the flattened images in the file. With channels_last it
  // is the order of the model.
  bool channels_first = false;
  bool channels_last = false;
  // The units of a GRU, with the reset gate before the update gate: the first
  // two blocks of this size are exchanged. Otherwise 0.
  int64_t exchanged_units = 0;
  // The tensor is `parts` blocks of this weight's size, one after another, and
  // block `part` is the weight.
  int64_t parts = 1, part = 0;
  // The second bias of a recurrent layer. It is added to the first bias, or
  // follows it (second_follows).
  const StoredTensor* second = nullptr;
  bool second_follows = false;
};

// For the variable `role` of `node`, with weight->shape here: sets the shape in
// the file and the change of axes. kInvalidArgument if they cannot be known.
Status FindAxes(const WeightsFile& file, const Model& model,
                const TorchImages& images, int node, const std::string& role,
                TorchWeight* weight);

// Copies elements of the tensor or of the second one, `stored`, to `weight`, in
// the model's order.
void FromTorch(const TorchWeight& how, const float* stored, float* weight);

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_TORCH_AXES_H_
