// OnnxWeights: the weights of an ONNX model, as a state_dict of PyTorch.
//
// Each node with weights is a module, in the order of the graph: a Conv has
// "conv1.weight" and "conv1.bias", a BatchNormalization also running_mean and
// running_var. The module's name comes from the names of its initializers, as
// PyTorch ("conv1.weight") or Keras ("conv1/kernel") writes them. Without such
// names it is the node's ("/conv1/Conv"). Files are not trusted.

#ifndef RINGLET_IO_WEIGHTS_ONNX_WEIGHTS_H_
#define RINGLET_IO_WEIGHTS_ONNX_WEIGHTS_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../readers/storage.h"
#include "ringlet/files.h"
#include "ringlet/status.h"

namespace ringlet {

class OnnxWeights {
 public:
  // kCorruption names the place where the file breaks a rule. kUnimplemented
  // names an unsupported feature.
  Status Open(FileSystem* files, const std::string& path);

  // Matrices are (units, inputs), also if the file has them transposed.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* Find(const std::string& name) const;
  // Reads into `elements`, of tensor.shape and DTypeOf(tensor.storage).
  // kInvalidArgument for a tensor that is `unread`.
  Status Read(const StoredTensor& tensor, void* elements) const;
  // True if this tensor's layer is known to take images or rows that were
  // flattened with the channels first, or last.
  bool channels_first(const StoredTensor& tensor) const {
    return first_.count(tensor.name) != 0;
  }
  bool channels_last(const StoredTensor& tensor) const {
    return last_.count(tensor.name) != 0;
  }
  // True for a normalization's scale of 1 or offset of 0, which change nothing.
  bool changes_nothing(const StoredTensor& tensor) const {
    return defaults_.count(tensor.name) != 0;
  }

 private:
  std::string path_;
  std::shared_ptr<File> file_;
  std::vector<StoredTensor> tensors_;
  std::set<std::string> transposed_, first_, last_,
      defaults_;  // names of tensors
};

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_ONNX_WEIGHTS_H_
