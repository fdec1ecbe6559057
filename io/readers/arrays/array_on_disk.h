// ArrayOnDisk: examples that stay in their file until they are read.
//
// They are read by pread, and a file that is changed while it is open gives an
// error. They are converted as a whole array is.

#ifndef RINGLET_IO_READERS_ARRAYS_ARRAY_ON_DISK_H_
#define RINGLET_IO_READERS_ARRAYS_ARRAY_ON_DISK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../../files/file_system.h"
#include "../../files/input_file.h"
#include "npy_layout.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"

namespace ringlet {

class ArrayOnDisk {
 public:
  // The elements begin at `offset` of the file. `layout` has an axis of
  // examples, and elements that are numbers. `version` is the version of the
  // file that had this header. kInvalidArgument for Fortran order.
  static Status Open(const std::string& path, const FileVersion& version,
                     int64_t offset, const NpyLayout& layout,
                     std::shared_ptr<ArrayOnDisk>* array);
  // The elements are the rest of `header`, which was read up to them.
  // kInvalidArgument for a compressed file.
  static Status Open(const InputFile& header, const NpyLayout& layout,
                     std::shared_ptr<ArrayOnDisk>* array);

  // The digest of all its bytes; empty if not known.
  const std::optional<uint64_t>& digest() const { return digest_; }
  void set_digest(uint64_t digest) { digest_ = digest; }

  // Copies examples index[0..count) in order to `to`, in layout.dtype().
  // Several threads may call it.
  Status Read(const int64_t* index, int count, void* to);

 private:
  std::mutex mutex_;
  std::unique_ptr<File> file_;
  FileVersion version_;
  uint32_t sample_ = 0;  // see ChecksumParts
  std::optional<uint64_t> digest_;
  int64_t offset_ = 0;
  NpyLayout layout_;                   // the layout of a Read's examples
  size_t per_example_ = 0;             // bytes in the file
  std::vector<unsigned char> stored_;  // the bytes of a Read, to convert
};

// Labels of one value each are in memory if they are few. So is text, and what
// can only be read whole.
inline bool LabelsInMemory(const ArrayOptions& options, const NpyLayout& layout,
                           bool compressed) {
  constexpr int64_t kFew = int64_t{1} << 20;  // bytes
  const Shape& shape = layout.shape;
  if (options.in_memory || layout.is_text() || shape.rank() < 1) return true;
  return shape.elements() == shape[0] &&
         (compressed || layout.stored_bytes() <= kFew);
}

// Returns the error of a file that cannot be read from disk because it is
// compressed.
Status RefuseCompressed(const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_ARRAYS_ARRAY_ON_DISK_H_
