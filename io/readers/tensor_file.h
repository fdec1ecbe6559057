// TensorFile: named tensors in a file, or in the files that it names. Each
// format has a class.

#ifndef RINGLET_IO_READERS_TENSOR_FILE_H_
#define RINGLET_IO_READERS_TENSOR_FILE_H_

#include <map>
#include <string>
#include <vector>

#include "../files/file_system.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"
#include "storage.h"

namespace ringlet {

class TensorFile {
 public:
  virtual ~TensorFile() = default;

  // Reads the descriptions of the tensors, and checks them. `files` must
  // outlive this object.
  virtual Status Open(FileSystem* files, const std::string& path) = 0;

  const std::string& path() const { return path_; }
  // Empty unless it is a safetensors file.
  const Metadata& metadata() const { return metadata_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // Null if there is no tensor of this name.
  const StoredTensor* Find(const std::string& name) const;

  // True if it has checksums. Without them damage cannot be detected.
  virtual bool verifiable() const { return false; }
  // Reads every byte and compares the checksums. kCorruption if one differs.
  virtual Status Verify() const { return Status(); }
  // Reads every byte of a tensor of an npz file and compares its checksum, also
  // if Read refuses the tensor. OK for other files.
  virtual Status VerifyTensor(const StoredTensor&) const { return Status(); }
  // Reads a tensor of tensors() into `elements`, of tensor.shape and
  // DTypeOf(tensor.storage), in native byte order. kInvalidArgument for a
  // tensor that is `unread`. After an error `elements` are undefined.
  virtual Status Read(const StoredTensor& tensor, void* elements) const = 0;

 protected:
  // Fills by_name_. Returns a tensor with the name of an earlier one, or null.
  const StoredTensor* IndexNames();
  // The index in tensors_ of a reference into it.
  size_t IndexOf(const StoredTensor& tensor) const {
    return static_cast<size_t>(&tensor - tensors_.data());
  }

  std::string path_;
  Metadata metadata_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, size_t> by_name_;  // indices of tensors_
};

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_TENSOR_FILE_H_
