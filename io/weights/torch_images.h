// Finds the outputs of a model that are images or flattened images. PyTorch has
// the channels first, so its flattened images have a different order.

#ifndef RINGLET_IO_WEIGHTS_TORCH_IMAGES_H_
#define RINGLET_IO_WEIGHTS_TORCH_IMAGES_H_

#include <set>
#include <vector>

#include "ringlet/model.h"

namespace ringlet {

class TorchImages {
 public:
  explicit TorchImages(const Model& model);

  // The shape of `node`'s output as (height, width, channels); the height of
  // (steps, channels) is 1. Rank 0 if the output is not an image.
  Shape Image(int node) const;

  // Sets the shape of the images that are flattened in `node`'s output. It has
  // rank 0 if there are none, or if PyTorch has the same order.
  // kInvalidArgument if the shape cannot be known.
  Status Flattened(int node, Shape* image) const;

  // kInvalidArgument if a Reshape makes images of the outputs of `node`, a
  // Dense: PyTorch may have their channels first.
  Status CheckNotReshaped(int node) const;

 private:
  // The known order of a node's output.
  struct Output {
    bool is_sequence = false;  // (steps, channels)
    int permuted = -1;         // the Permute since the last layer with weights
    Shape flattened;
    int ambiguous_node = -1;  // the node after which the order is unknown
    // The Dense with these outputs, also if they were reshaped to an image
    // since; -1 if there is none.
    int source_dense = -1;
    bool operator==(const Output& other) const {
      return flattened == other.flattened &&
             ambiguous_node == other.ambiguous_node;
    }
  };

  // Adds the Output of the next node, made from the Outputs of its inputs.
  // `weighted` is true if its layer has weights.
  void TrackNode(int node, bool weighted);
  // These set parts of the Output: for a layer that flattens, for a layer that
  // merges its inputs or keeps their order, and for the order of a Dense's
  // outputs.
  void TrackFlatten(int node, Output* output) const;
  void TrackMerge(int node, Output* output) const;
  void TrackRowOrder(int node, Output* output);

  const Model& model_;
  std::vector<Output> outputs_;  // the output of each node
  std::set<int> reshaped_;       // Dense layers, to images
};

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_TORCH_IMAGES_H_
