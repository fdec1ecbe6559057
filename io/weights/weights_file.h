// WeightsFile: the named tensors of a file of weights. The file is safetensors,
// npz, npy or ONNX. It may also be the index of several safetensors files, or a
// model.json of TensorFlow.js; then the tensors are in the files that it names.
//
// The first bytes of the file decide its format. If the format is another one,
// the error names it and the remedy. The array of an npy file has the name
// "arr_0", which numpy.savez gives to an array without a name.

#ifndef RINGLET_IO_WEIGHTS_WEIGHTS_FILE_H_
#define RINGLET_IO_WEIGHTS_WEIGHTS_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "../files/file_system.h"
#include "../readers/tensor_file.h"
#include "onnx_weights.h"
#include "ringlet/status.h"

namespace ringlet {

class WeightsFile {
 public:
  enum class Format : uint8_t {
    kSafetensors,
    kIndex,
    kNpz,
    kNpy,
    kOnnx,
    kTfjs
  };

  // `files` must outlive this object.
  Status Open(FileSystem* files, const std::string& path);

  const std::string& path() const { return path_; }
  Format format() const { return format_; }
  bool is_npz() const { return format_ == Format::kNpz; }
  bool is_onnx() const { return format_ == Format::kOnnx; }
  // True for a file of ringlet; its weights have the prefix "model/".
  bool is_from_ringlet() const;
  // Empty unless it is a safetensors file.
  const Metadata& metadata() const { return file_->metadata(); }
  const std::vector<StoredTensor>& tensors() const { return file_->tensors(); }
  const StoredTensor* Find(const std::string& name) const {
    return file_->Find(name);
  }
  // False for an ONNX model of another program; its outputs have the order of
  // Keras, or a node changes it.
  bool may_be_from_pytorch() const {
    return !is_onnx() || onnx().is_from_pytorch();
  }
  // False unless it is an ONNX model: see OnnxWeights.
  bool channels_first(const StoredTensor& tensor) const {
    return is_onnx() && onnx().channels_first(tensor);
  }
  bool channels_last(const StoredTensor& tensor) const {
    return is_onnx() && onnx().channels_last(tensor);
  }
  bool is_identity(const StoredTensor& tensor) const {
    return is_onnx() && onnx().is_identity(tensor);
  }
  // The recurrent operator of an ONNX model with this weight, or null.
  const OnnxRecurrence* recurrence(const StoredTensor& tensor) const {
    return is_onnx() ? onnx().recurrence(tensor) : nullptr;
  }
  // See TensorFile.
  bool verifiable() const { return file_->verifiable(); }
  Status Verify() const { return file_->Verify(); }
  Status Read(const StoredTensor& tensor, void* elements) const {
    return file_->Read(tensor, elements);
  }
  Status VerifyTensor(const StoredTensor& tensor) const {
    return file_->VerifyTensor(tensor);
  }
  // Reads into new memory; kResourceExhausted if the allocation fails.
  using Elements = std::unique_ptr<unsigned char[]>;
  Status Read(const StoredTensor& tensor, Elements* elements) const;

 private:
  const OnnxWeights& onnx() const {
    return static_cast<const OnnxWeights&>(*file_);
  }

  std::string path_;
  Format format_ = Format::kSafetensors;
  std::shared_ptr<TensorFile> file_;  // not null once Open has returned OK
};

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_WEIGHTS_FILE_H_
