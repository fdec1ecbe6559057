// OnnxWeights: the weights of an ONNX model, as a state_dict of PyTorch.
//
// Each node with weights is a module, in the order of the graph: a Conv has
// "conv1.weight" and "conv1.bias", a BatchNormalization also running_mean and
// running_var. An LSTM has "lstm.weight_ih_l0" and its neighbours, with the
// gates in PyTorch's order. The module's name comes from the names of its
// initializers, as PyTorch ("conv1.weight") or Keras ("conv1/kernel") writes
// them. Without such names it is the node's ("/conv1/Conv"). Elements may be in
// other files of the model's folder, which PyTorch calls model.onnx.data. Files
// are not trusted.

#ifndef RINGLET_IO_WEIGHTS_ONNX_WEIGHTS_H_
#define RINGLET_IO_WEIGHTS_ONNX_WEIGHTS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../files/file_system.h"
#include "../readers/tensor_file.h"
#include "onnx_graph_reader.h"
#include "onnx_recurrence.h"
#include "ringlet/status.h"

namespace ringlet {

// The properties of a weight that are not in StoredTensor.
struct OnnxWeight {
  std::string location;  // see OnnxTensor
  OnnxElements elements = OnnxElements::kInOnePiece;
  // Axis i of the tensor is axis axes[i] of the file's tensor, of this shape.
  // Empty if they are the same.
  std::vector<int> axes;
  Shape file_shape;
  // The tensor's elements are these of `num_blocks` equal blocks of the file's
  // tensor, one after another. Empty means all elements.
  std::vector<int> blocks;
  int num_blocks = 1;
  bool channels_first = false, channels_last = false;
  // A float scale or offset of a normalization; its numbers are not read yet.
  bool may_be_identity = false;
  // All its numbers are 1 for a scale, or 0 for an offset; or it is a matrix of
  // positions, which a model may lack.
  bool is_identity = false;
  // The operator, if it is a recurrent one.
  std::shared_ptr<const OnnxRecurrence> recurrence;
};

// A tensor in which every number must be 0.
struct OnnxZeros {
  OnnxTensor tensor;
  std::string error;  // the error if a number is not 0
};

class OnnxWeights : public TensorFile {
 public:
  // kCorruption names the place where the file breaks a rule. kUnimplemented
  // names an unsupported feature. kNotFound names a missing file of elements.
  // The tensors' matrices are (units, inputs), and kernels (filters, channels,
  // ...), also if the file has them transposed.
  Status Open(FileSystem* files, const std::string& path) override;
  Status Read(const StoredTensor& tensor, void* elements) const override;
  // True if PyTorch has written it, with the channels first in all images.
  bool is_from_pytorch() const { return is_from_pytorch_; }
  // True if this tensor's layer is known to take images or rows that were
  // flattened with the channels first, or last.
  bool channels_first(const StoredTensor& tensor) const {
    return WeightOf(tensor).channels_first;
  }
  bool channels_last(const StoredTensor& tensor) const {
    return WeightOf(tensor).channels_last;
  }
  // True for a normalization's scale of 1 or offset of 0.
  bool is_identity(const StoredTensor& tensor) const {
    return WeightOf(tensor).is_identity;
  }
  // The operator with this weight; null unless it is a recurrent one.
  const OnnxRecurrence* recurrence(const StoredTensor& tensor) const {
    return WeightOf(tensor).recurrence.get();
  }

 private:
  Status OpenTensorFile(FileSystem* files, const StoredTensor& tensor,
                        const std::string& location);
  Status CheckZeros(const OnnxZeros& zeros) const;
  Status FindDefaults();
  const OnnxWeight& WeightOf(const StoredTensor& tensor) const {
    return weights_[IndexOf(tensor)];
  }

  // The keys are locations.
  std::map<std::string, std::shared_ptr<File>> files_;
  std::vector<OnnxWeight> weights_;  // a weight for each tensor
  bool is_from_pytorch_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_ONNX_WEIGHTS_H_
