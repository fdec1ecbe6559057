// InputFile: a data file, plain or gzip-compressed, read in order.
//
// A file that ends early, damaged compressed data, and a read error of the
// system are different errors. Each has the path and the offset in the
// (uncompressed) data.

#ifndef RINGLET_IO_FILES_INPUT_FILE_H_
#define RINGLET_IO_FILES_INPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "file_system.h"
#include "ringlet/status.h"

namespace ringlet {

class InputFile {
 public:
  InputFile() = default;
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  Status Open(const std::string& path);

  // Reads exactly `bytes` more. The error names the `part` of the file.
  Status Read(void* data, size_t bytes, const char* part);
  // Reads up to `bytes`; *got < bytes only at the end.
  Status ReadSome(void* data, size_t bytes, size_t* got);
  // Reads the last `bytes` of the file into `data`. Their number is checked
  // before memory is allocated: by the size of a plain file, or the length at
  // the end of a compressed one. If that length differs (several members, or
  // damage), the rest is first read once and counted.
  Status ReadArray(uint64_t bytes, std::vector<unsigned char>* data);
  // Fails if there are more bytes.
  Status ExpectEnd();

  const std::string& path() const { return path_; }
  const FileVersion& version() const { return version_; }  // as it was opened
  bool compressed() const { return compressed_; }
  int64_t offset() const { return offset_; }
  // An upper bound of the bytes that follow: the rest of a plain file, or 1032
  // times the rest of a compressed one, deflate's limit. Check it before an
  // allocation.
  int64_t MostLeft() const;

 private:
  Status CheckLength(uint64_t bytes) const;

  std::string path_;
  void* file_ = nullptr;  // gzFile
  FileVersion version_;
  uint32_t last_length_ = 0;  // the length of a compressed file's last member
  int64_t offset_ = 0;
  bool compressed_ = false;
};

// kResourceExhausted, with the path, if there is no memory for `bytes`.
Status CheckMemoryFor(const std::string& path, uint64_t bytes);

// The CRC-32 of gzip and zip. `before` is the CRC-32 of the bytes before these.
uint32_t Crc32(const void* data, size_t bytes, uint32_t before = 0);

// Computes the CRC-32 and the number of bytes of inflated raw deflate data,
// without memory for them. Stops at `max_bytes` + 1 bytes. False if damaged, or
// no memory.
bool MeasureRaw(const unsigned char* data, size_t bytes, uint64_t max_bytes,
                uint32_t* crc, uint64_t* num_bytes);

// Inflates raw deflate data, as in zip. Leaves out the first `skip` bytes.
// Stops when `out` has `max_bytes` bytes (> 0), or at the end of the data.
// *num_bytes is their number. *ended: the stream ended there, and all of `data`
// was used. False if damaged, or without memory. Both sizes are below 4 GiB.
bool InflateRaw(const unsigned char* data, size_t bytes, unsigned char* out,
                size_t max_bytes, size_t* num_bytes, bool* ended,
                size_t skip = 0);

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_INPUT_FILE_H_
