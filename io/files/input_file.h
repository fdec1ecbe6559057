// InputFile: a data file, plain or gzip-compressed, read in order.
//
// Internal to io/. Tells damage apart: a file that ends early, one whose
// compressed data are damaged, and one that the system cannot read are
// different errors, each with the path and the offset in the (uncompressed)
// data.

#ifndef RINGLET_IO_FILES_INPUT_FILE_H_
#define RINGLET_IO_FILES_INPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../../core/base/status.h"

namespace ringlet {

class InputFile {
 public:
  InputFile() = default;
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  Status Open(const std::string& path);

  // Exactly `bytes` more, or an error that names `what` was being read.
  Status Read(void* data, size_t bytes, const char* what);
  // Up to `bytes`; *got < bytes only at the end.
  Status ReadSome(void* data, size_t bytes, size_t* got);
  // The last `bytes` of the file into `data`. Whether there are as many is
  // known before memory is taken: of a plain file from its size, of a
  // compressed one from the length at its end; where that says otherwise
  // (several members, or damage), the rest is read once to be counted.
  Status ReadArray(uint64_t bytes, std::vector<unsigned char>* data);
  // kResourceExhausted, with the path, where there is no memory for `bytes`.
  Status CheckRoom(uint64_t bytes) const;
  // OK where nothing follows.
  Status ExpectEnd();

  const std::string& path() const { return path_; }
  bool compressed() const { return compressed_; }
  int64_t offset() const { return offset_; }
  // The most that can follow: what a plain file has left, or what deflate could
  // make of a compressed one (1032 to 1). To be asked before allocating.
  int64_t MostLeft() const;

 private:
  Status CheckLength(uint64_t bytes) const;

  std::string path_;
  void* file_ = nullptr;  // gzFile
  int64_t file_bytes_ = 0;
  uint32_t last_length_ = 0;  // of a compressed file's last member
  int64_t offset_ = 0;
  bool compressed_ = false;
};

// CRC-32 as gzip and zip have it.
uint32_t Crc32(const void* data, size_t bytes);

// The CRC-32 of what raw deflate data become, and how many bytes, without
// taking memory for them; no further than to `most` + 1. False: damaged, or no
// memory.
bool MeasureRaw(const unsigned char* data, size_t bytes, uint64_t most,
                uint32_t* crc, uint64_t* made);

// Inflates raw deflate data, as zip has them, until `most` bytes (> 0) are in
// `out` or the data end. *made: how many. *ended: the stream ended with them,
// and all of `data` was used. False: damaged, or no memory. Both sizes are
// below 4 GiB.
bool InflateRaw(const unsigned char* data, size_t bytes, unsigned char* out,
                size_t most, size_t* made, bool* ended);

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_INPUT_FILE_H_
