// WeightsFile: the named tensors of a safetensors, npz, npy or ONNX file, or of
// the files that an index of safetensors or a model.json of TensorFlow.js
// names.
//
// The first bytes of the file decide its format. For any other format the error
// names it and gives advice. The array of an npy file is "arr_0", as
// numpy.savez names an array without a name.

#ifndef RINGLET_IO_WEIGHTS_WEIGHTS_FILE_H_
#define RINGLET_IO_WEIGHTS_WEIGHTS_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "../readers/npz.h"
#include "onnx_weights.h"
#include "safetensors.h"
#include "safetensors_index.h"
#include "tfjs_weights.h"

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
  bool is_ringlets() const;
  // Empty unless it is a safetensors file.
  const Metadata& metadata() const { return safetensors_.metadata(); }
  const std::vector<StoredTensor>& tensors() const;
  const StoredTensor* Find(const std::string& name) const;
  // False unless it is an ONNX model: see OnnxWeights.
  bool channels_first(const StoredTensor& tensor) const {
    return is_onnx() && onnx_.channels_first(tensor);
  }
  bool channels_last(const StoredTensor& tensor) const {
    return is_onnx() && onnx_.channels_last(tensor);
  }
  bool changes_nothing(const StoredTensor& tensor) const {
    return is_onnx() && onnx_.changes_nothing(tensor);
  }
  // True if it has checksums. Without them damage cannot be detected.
  bool verifiable() const {
    return format_ == Format::kSafetensors ? safetensors_.verifiable()
                                           : is_npz();
  }
  // See the reader of each format.
  Status Verify() const;
  // The same of one tensor of an npz file, also of one that Read refuses. OK
  // for other files.
  Status Verify(const StoredTensor& tensor) const;
  Status Read(const StoredTensor& tensor, void* elements) const;
  // Reads into new memory; kResourceExhausted if the allocation fails.
  using Elements = std::unique_ptr<unsigned char[]>;
  Status Read(const StoredTensor& tensor, Elements* elements) const;

 private:
  Status OpenAs(FileSystem* files);  // of format_
  Status OpenNpy(FileSystem* files);
  Status ReadNpy(void* elements) const;

  std::string path_;
  Format format_ = Format::kSafetensors;
  NpzReader npz_;
  SafetensorsReader safetensors_;
  SafetensorsIndex index_;
  OnnxWeights onnx_;
  TfjsWeights tfjs_;
  std::vector<StoredTensor> array_;  // of an npy file: one
  NpyLayout layout_;
  std::shared_ptr<File> file_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_WEIGHTS_FILE_H_
