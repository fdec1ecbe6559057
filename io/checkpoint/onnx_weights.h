// OnnxWeights: the weights of an ONNX model, as a state_dict of PyTorch.
//
// Internal to io/. A node that has weights is a module, in the order of the
// graph: "conv1.weight" and "conv1.bias" of a Conv, running_mean and
// running_var of a BatchNormalization. Its name is that of its initializers, of
// PyTorch ("conv1.weight") or Keras ("conv1/kernel"), or where they have none
// of the two the node's ("/conv1/Conv"). Files are not trusted.

#ifndef RINGLET_IO_CHECKPOINT_ONNX_WEIGHTS_H_
#define RINGLET_IO_CHECKPOINT_ONNX_WEIGHTS_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../../core/base/status.h"
#include "../data/storage.h"
#include "../files/file_system.h"

namespace ringlet {

class OnnxWeights {
 public:
  // kCorruption with the place where the file breaks a rule; kUnimplemented:
  // what is not read here.
  Status Open(FileSystem* files, const std::string& path);

  // Matrices are (units, inputs), whichever way they lie in the file.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* Find(const std::string& name) const;
  // Into `elements`, of tensor.shape and DTypeOf(tensor.storage).
  // kInvalidArgument of one that is `unread`.
  Status Read(const StoredTensor& tensor, void* elements) const;
  // Images, or rows, that this tensor's layer takes are known to have been
  // flattened channels first; channels last.
  bool channels_first(const StoredTensor& tensor) const {
    return first_.count(tensor.name) != 0;
  }
  bool channels_last(const StoredTensor& tensor) const {
    return last_.count(tensor.name) != 0;
  }
  // A normalization's factors of 1 or summands of 0, which change nothing.
  bool changes_nothing(const StoredTensor& tensor) const {
    return defaults_.count(tensor.name) != 0;
  }

 private:
  std::string path_;
  std::shared_ptr<File> file_;
  std::vector<StoredTensor> tensors_;
  std::set<std::string> turned_, first_, last_, defaults_;  // names of tensors
};

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_ONNX_WEIGHTS_H_
