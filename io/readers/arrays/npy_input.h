// NpyInput: an array after its header was read, in an NPY file or in an npz.

#ifndef RINGLET_IO_READERS_ARRAYS_NPY_INPUT_H_
#define RINGLET_IO_READERS_ARRAYS_NPY_INPUT_H_

#include <memory>
#include <string>
#include <vector>

#include "../../files/input_file.h"
#include "array_on_disk.h"
#include "array_path.h"
#include "npy_layout.h"
#include "npz.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"

namespace ringlet {

class NpyInput {
 public:
  // "a.npy", "a.npz" or "a.npz:name".
  Status Open(const std::string& path);
  const NpyLayout& layout() const { return layout_; }
  bool is_npz() const { return array_ != nullptr; }
  // True if the elements can only be read from the first to the last.
  bool compressed() const {
    return array_ == nullptr ? file_.compressed()
                             : archive_.ElementsOffset(*array_) < 0;
  }
  // If `names` is not null, converts text to class numbers.
  Status ReadElements(NpyArray* array, std::vector<std::string>* names);
  // Compares the checksum of an array in an npz, which ReadElements does too.
  Status Verify() const {
    return array_ == nullptr ? Status() : archive_.VerifyTensor(*array_);
  }
  // Finds the elements in the file, which stay there.
  Status OpenOnDisk(std::shared_ptr<ArrayOnDisk>* array) const;
  // Returns the error for text that is not labels.
  Status RefuseText() const;

 private:
  Status OpenArchive(const ArrayPath& array);
  Status ReadStored(std::vector<unsigned char>* bytes);

  std::string path_;
  NpyLayout layout_;
  InputFile file_;
  NpzReader archive_;
  // The array in the archive; null if the file itself is the array.
  const StoredTensor* array_ = nullptr;
};

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_ARRAYS_NPY_INPUT_H_
