// Which outputs of a model are images, and which are such flattened: PyTorch
// has the channels first, and so another order of what is flattened.
//
// Internal to io/.

#ifndef RINGLET_IO_CHECKPOINT_TORCH_IMAGES_H_
#define RINGLET_IO_CHECKPOINT_TORCH_IMAGES_H_

#include <vector>

#include "../../core/model/model.h"

namespace ringlet {

class TorchImages {
 public:
  explicit TorchImages(const Model& model);

  // The image that `node`'s output is, as (height, width, channels): of two
  // axes, or of one if a layer over (steps, channels) made it; else rank 0.
  Shape Image(int node) const;

  // The shape of the images whose elements stand one after another in `node`'s
  // output; rank 0 where there are none, or their order is the same.
  // kInvalidArgument where it cannot be known.
  Status Flattened(int node, Shape* image) const;

 private:
  struct Output {
    bool line = false;  // (steps, channels)
    int permuted = -1;  // the Permute since the last layer with weights
    Shape flattened;
    int unclear = -1;  // the node that leaves no order
    bool operator==(const Output& other) const {
      return flattened == other.flattened && unclear == other.unclear;
    }
  };

  void Look(int node, bool weighted);
  void LookAtFlatten(int node, Output* output) const;
  void LookAtMerge(int node, Output* output) const;

  const Model& model_;
  std::vector<Output> outputs_;  // by node
};

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_TORCH_IMAGES_H_
