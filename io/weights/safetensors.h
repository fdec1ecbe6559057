// safetensors files, plain or with ringlet's profile
// (docs/checkpoint_format.md).
//
// A file is a u64 little-endian length, a JSON header of that length and the
// tensors' bytes, little-endian, without holes. ringlet's profile adds metadata
// (`format` = "ringlet") and aligns the data to 64 bytes. Its last tensor,
// `ringlet.footer`, has checksums of all the rest. Files are not trusted: every
// limit is checked before memory is allocated.

#ifndef RINGLET_IO_WEIGHTS_SAFETENSORS_H_
#define RINGLET_IO_WEIGHTS_SAFETENSORS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../files/file_system.h"
#include "../readers/tensor_file.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

struct SafetensorsLimits {
  static constexpr int64_t kHeaderBytes = 1 << 20;
  static constexpr int64_t kTensors = 65536;
};

// True if ringlet wrote the file with this metadata.
bool IsRinglets(const Metadata& metadata);

class SafetensorsReader : public TensorFile {
 public:
  // Reads the header, and the footer if there is one. A file with `format` =
  // "ringlet" must have a footer. kCorruption names the place where the file
  // breaks a rule. kUnimplemented: a later version of the format. The tensors
  // are in the order of their offsets, without the footer.
  Status Open(FileSystem* files, const std::string& path) override;

  // True if the file has a footer.
  bool verifiable() const override { return verifiable_; }
  // kCorruption also if the file has no checksums.
  Status Verify() const override;
  // Also checks the tensor's checksum if there is a footer.
  Status Read(const StoredTensor& tensor, void* elements) const override;

 private:
  Status ReadHeader(int64_t file_bytes);
  Status ParseHeader(const std::string& text);
  Status CheckRanges(int64_t data_begin, int64_t file_bytes);
  Status ReadFooter(int64_t file_bytes);
  Status ReadChecksums(const StoredTensor& footer);
  Status CheckCrc(const StoredTensor& tensor, uint32_t crc) const;

  std::shared_ptr<File> file_;
  uint32_t header_crc_ = 0;
  bool verifiable_ = false;
};

class SafetensorsWriter {
 public:
  struct Options {
    // False for a plain file, without `format` and footer.
    bool profile = true;
    // The type of float32 spans of the model (names that begin with "model/")
    // in the file. kF16 and kBF16 halve the size and lose precision.
    Storage weights = Storage::kF32;
  };

  // Checks the names and computes the file's layout. Write reads the spans'
  // memory.
  Status Plan(const std::vector<StateSpan>& spans, Metadata metadata,
              const Options& options);
  Status Plan(const std::vector<StateSpan>& spans, Metadata metadata) {
    return Plan(spans, std::move(metadata), Options());
  }
  int64_t file_bytes() const { return file_bytes_; }
  // header() has the bytes before the tensors. FooterStart() returns the bytes
  // of the footer before the checksums.
  const std::string& header() const { return header_; }
  std::string FooterStart() const;
  // Writes the whole file sequentially, in large pieces.
  Status Write(File* file) const;
  // The same by an AtomicFile at `path`.
  Status WriteFile(FileSystem* files, const std::string& path) const;

 private:
  struct Entry {
    StateSpan span;
    Storage storage;
  };
  Status CheckNames(const Metadata& metadata) const;
  std::string HeaderText(const Metadata& metadata) const;

  Options options_;
  std::vector<Entry> entries_;
  std::string header_;  // its length, then its text
  int64_t file_bytes_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_SAFETENSORS_H_
