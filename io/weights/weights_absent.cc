// In place of the readers of weights of ONNX, TensorFlow.js and PyTorch in a
// build without them.

#include "../../core/base/left_out.h"
#include "onnx_recurrence.h"
#include "onnx_weights.h"
#include "tfjs_weights.h"
#include "torch_layout.h"

namespace ringlet {

Status OnnxWeights::Open(FileSystem*, const std::string& path) {
  return LeftOut(path, "weights");
}
Status OnnxWeights::Read(const StoredTensor&, void*) const {
  return LeftOut(path_, "weights");
}

Status CheckRecurrence(const OnnxRecurrence& recurrence, const Model&, int) {
  return LeftOut(recurrence.node, "weights");
}

Status TfjsWeights::Open(FileSystem*, const std::string& path) {
  return LeftOut(path, "weights");
}
Status TfjsWeights::Read(const StoredTensor&, void*) const {
  return LeftOut(path_, "weights");
}

Status FindTorchWeights(const WeightsFile& file, const Model&, bool,
                        std::vector<TorchWeight>*) {
  return LeftOut(file.path() + ": PyTorch's layout", "weights");
}

}  // namespace ringlet
