// WeightsFile: named tensors of a safetensors or an npz file, as one.
//
// Internal to io/. Which of the two it is, its first bytes tell.

#ifndef RINGLET_IO_WEIGHTS_FILE_H_
#define RINGLET_IO_WEIGHTS_FILE_H_

#include <string>
#include <vector>

#include "npz.h"
#include "safetensors.h"

namespace ringlet {

class WeightsFile {
 public:
  Status Open(FileSystem* files, const std::string& path);

  const std::string& path() const {
    return is_npz_ ? npz_.path() : safetensors_.path();
  }
  bool is_npz() const { return is_npz_; }
  // Whether it is ringlet's own, whose weights are below "model/".
  bool is_ringlets() const;
  const std::vector<StoredTensor>& tensors() const {
    return is_npz_ ? npz_.tensors() : safetensors_.tensors();
  }
  const StoredTensor* Find(const std::string& name) const {
    return is_npz_ ? npz_.Find(name) : safetensors_.Find(name);
  }
  // Whether it has checksums. Without them damage cannot be seen.
  bool verifiable() const { return is_npz_ || safetensors_.verifiable(); }
  // As the readers have them.
  Status Verify() const {
    return is_npz_ ? npz_.Verify() : safetensors_.Verify();
  }
  Status Read(const StoredTensor& tensor, void* elements) const {
    return is_npz_ ? npz_.Read(tensor, elements)
                   : safetensors_.Read(tensor, elements);
  }

 private:
  bool is_npz_ = false;
  NpzReader npz_;
  SafetensorsReader safetensors_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_FILE_H_
