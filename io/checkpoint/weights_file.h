// WeightsFile: named tensors of a safetensors, an npz or an npy file, or of an
// ONNX model, as one.
//
// Internal to io/. Which of them it is, its first bytes tell; of any other kind
// the error says what it is and what to do with it. The array of an npy file is
// named as numpy.savez names one without a name, "arr_0".

#ifndef RINGLET_IO_CHECKPOINT_WEIGHTS_FILE_H_
#define RINGLET_IO_CHECKPOINT_WEIGHTS_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "../data/npz.h"
#include "onnx_weights.h"
#include "safetensors.h"

namespace ringlet {

class WeightsFile {
 public:
  enum class Format : uint8_t { kSafetensors, kNpz, kNpy, kOnnx };

  Status Open(FileSystem* files, const std::string& path);

  const std::string& path() const { return path_; }
  Format format() const { return format_; }
  bool is_npz() const { return format_ == Format::kNpz; }
  bool is_onnx() const { return format_ == Format::kOnnx; }
  // Whether it is ringlet's own, whose weights are below "model/".
  bool is_ringlets() const;
  // Of a safetensors file; of the others there are none.
  const Metadata& metadata() const { return safetensors_.metadata(); }
  const std::vector<StoredTensor>& tensors() const;
  const StoredTensor* Find(const std::string& name) const;
  // Of an ONNX model alone: see OnnxWeights.
  bool channels_first(const StoredTensor& tensor) const {
    return is_onnx() && onnx_.channels_first(tensor);
  }
  bool channels_last(const StoredTensor& tensor) const {
    return is_onnx() && onnx_.channels_last(tensor);
  }
  bool changes_nothing(const StoredTensor& tensor) const {
    return is_onnx() && onnx_.changes_nothing(tensor);
  }
  // Whether it has checksums. Without them damage cannot be seen.
  bool verifiable() const {
    return format_ == Format::kSafetensors ? safetensors_.verifiable()
                                           : is_npz();
  }
  // As the readers have them.
  Status Verify() const;
  Status Read(const StoredTensor& tensor, void* elements) const;
  // Into memory of its own; kResourceExhausted where there is not as much.
  using Elements = std::unique_ptr<unsigned char[]>;
  Status Read(const StoredTensor& tensor, Elements* elements) const;

 private:
  Status OpenNpy(FileSystem* files);
  Status ReadNpy(void* elements) const;

  std::string path_;
  Format format_ = Format::kSafetensors;
  NpzReader npz_;
  SafetensorsReader safetensors_;
  OnnxWeights onnx_;
  std::vector<StoredTensor> array_;  // of an npy file: one
  NpyLayout layout_;
  std::shared_ptr<File> file_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_WEIGHTS_FILE_H_
