// InputFile: a data file, plain or gzip-compressed, read in order.
//
// Internal to io/. Tells damage apart: a file that ends early, one whose
// compressed data are damaged, and one that the system cannot read are
// different errors, each with the path and the offset in the (uncompressed)
// data.

#ifndef RINGLET_IO_INPUT_FILE_H_
#define RINGLET_IO_INPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../core/status.h"

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
  // The last `bytes` of the file into `data`, in pieces, so that a file which
  // promises more than it holds costs no more than it holds.
  Status ReadArray(uint64_t bytes, std::vector<unsigned char>* data);
  // OK where nothing follows.
  Status ExpectEnd();

  const std::string& path() const { return path_; }
  bool compressed() const { return compressed_; }
  int64_t offset() const { return offset_; }
  // The most that can follow: what a plain file has left, or what deflate could
  // make of a compressed one (1032 to 1). To be asked before allocating.
  int64_t MostLeft() const;

 private:
  std::string path_;
  void* file_ = nullptr;  // gzFile
  int64_t file_bytes_ = 0;
  int64_t offset_ = 0;
  bool compressed_ = false;
};

// CRC-32 as gzip and zip have it.
uint32_t Crc32(const void* data, size_t bytes);

// Inflates raw deflate data, as zip has them, until `most` bytes (> 0) are in
// `out` or the data end. *made: how many. *ended: the stream ended with them,
// and all of `data` was used. False: damaged, or no memory. Both sizes are
// below 4 GiB.
bool InflateRaw(const unsigned char* data, size_t bytes, unsigned char* out,
                size_t most, size_t* made, bool* ended);

}  // namespace ringlet

#endif  // RINGLET_IO_INPUT_FILE_H_
