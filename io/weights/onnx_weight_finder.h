// Finds the weights among the nodes of an ONNX graph, as the tensors of a
// state_dict of PyTorch.

#ifndef RINGLET_IO_WEIGHTS_ONNX_WEIGHT_FINDER_H_
#define RINGLET_IO_WEIGHTS_ONNX_WEIGHT_FINDER_H_

#include <vector>

#include "onnx_weights.h"

namespace ringlet {

constexpr char kPyTorch[] = "pytorch";  // the producer of its files

// The shape with its axes permuted: axis i is axis axes[i] of `shape`. Without
// axes it is `shape`.
Shape Permuted(const Shape& shape, const std::vector<int>& axes);

// Appends a tensor and its OnnxWeight for each weight.
Status FindOnnxWeights(const OnnxFileGraph& graph,
                       std::vector<StoredTensor>* tensors,
                       std::vector<OnnxWeight>* weights,
                       std::vector<OnnxZeros>* zeros);

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_ONNX_WEIGHT_FINDER_H_
