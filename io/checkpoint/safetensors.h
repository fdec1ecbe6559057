// safetensors files, plain or with ringlet's profile
// (docs/checkpoint_format.md).
//
// Internal to io/ and tools/. A file is a u64 little-endian length, a JSON
// header of that length and the tensors' bytes, little-endian, without holes.
// The profile adds metadata (`format` = "ringlet"), data that begin at a
// multiple of 64 bytes, and as the last tensor `ringlet.footer`, with checksums
// of all the rest. Files are not trusted: every limit is checked before memory
// is taken.

#ifndef RINGLET_IO_CHECKPOINT_SAFETENSORS_H_
#define RINGLET_IO_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../../core/base/saveable.h"
#include "../../core/base/shape.h"
#include "../../core/base/status.h"
#include "../data/storage.h"
#include "../files/file_system.h"

namespace ringlet {

struct SafetensorsLimits {
  static constexpr int64_t kHeaderBytes = 1 << 20;
  static constexpr int64_t kTensors = 65536;
};

class SafetensorsReader {
 public:
  // Reads the header and, where there is one, the footer. kCorruption with the
  // place where the file breaks a rule; a file that calls itself ringlet's
  // must have a footer. kUnimplemented: a later version of the format.
  Status Open(FileSystem* files, const std::string& path);

  const std::string& path() const { return path_; }
  const Metadata& metadata() const { return metadata_; }
  // In the order of their bytes; without the footer.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* Find(const std::string& name) const;
  // Whether the file has a footer; without one damage cannot be seen.
  bool verifiable() const { return verifiable_; }

  // Reads every byte and compares the checksums. kCorruption where one
  // differs, or where the file has none.
  Status Verify() const;
  // Into `elements`, of tensor.shape and DTypeOf(tensor.storage), native byte
  // order. Checked against the footer where there is one; after an error
  // `elements` are undefined.
  Status Read(const StoredTensor& tensor, void* elements) const;

 private:
  Status ReadHeader(int64_t file_bytes);
  Status ParseHeader(const std::string& text);
  Status CheckRanges(int64_t data_begin, int64_t file_bytes);
  Status ReadFooter(int64_t file_bytes);
  Status ReadChecksums(const StoredTensor& footer);
  Status CheckCrc(const StoredTensor& tensor, uint32_t crc) const;

  std::string path_;
  std::shared_ptr<File> file_;
  Metadata metadata_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, size_t> by_name_;
  uint32_t header_crc_ = 0;
  bool verifiable_ = false;
};

class SafetensorsWriter {
 public:
  struct Options {
    // False: a plain file, without `format` and footer.
    bool profile = true;
    // How float32 spans of the model (names that begin with "model/") are
    // stored: kF32, or kF16 or kBF16 for half the size and less precision.
    Storage weights = Storage::kF32;
  };

  // Checks the names, lays the file out. The spans' memory is read by Write.
  Status Plan(const std::vector<StateSpan>& spans, Metadata metadata,
              const Options& options);
  Status Plan(const std::vector<StateSpan>& spans, Metadata metadata) {
    return Plan(spans, std::move(metadata), Options());
  }
  int64_t file_bytes() const { return file_bytes_; }
  // All of the file, in its order, in long writes.
  Status Write(File* file) const;

 private:
  struct Entry {
    StateSpan span;
    Storage storage;
  };
  Status CheckNames(const Metadata& metadata) const;
  std::string HeaderText(const Metadata& metadata) const;

  Options options_;
  std::vector<Entry> entries_;
  std::string header_;  // with its length before it
  int64_t file_bytes_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_SAFETENSORS_H_
