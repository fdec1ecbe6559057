// Reads protobuf's encoding from a file that is not trusted.
//
// A message is a range of the file's bytes, read field by field. A field's
// bytes are a range in it, and a nested message has its own reader. Only
// requested fields are read.

#ifndef RINGLET_IO_FILES_PROTOBUF_READER_H_
#define RINGLET_IO_FILES_PROTOBUF_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "file_system.h"
#include "protobuf.h"
#include "ringlet/status.h"

namespace ringlet {

class ProtobufReader {
 public:
  struct Field {
    int number = 0;
    ProtobufType type = ProtobufType::kVarint;
    uint64_t value = 0;          // a number's bits
    int64_t begin = 0, end = 0;  // offsets of bytes, or of a fixed number
  };

  // `file` must outlive the reader.
  ProtobufReader(File* file, int64_t begin, int64_t end)
      : file_(file), at_(begin), end_(end) {}
  // Reads the message in a field.
  ProtobufReader(const ProtobufReader& outer, const Field& field)
      : ProtobufReader(outer.file_, field.begin, field.end) {}

  // *has is false at the end. kCorruption with the offset where the encoding
  // breaks a rule.
  Status Next(Field* field, bool* has);
  // Reads up to 4096 bytes; kCorruption if there are more.
  Status Text(const Field& field, std::string* text) const;
  // Reads a field with one number or, packed, several, at most `max_count`.
  Status Ints(const Field& field, size_t max_count, std::vector<int64_t>* ints);
  // Counts the numbers that are packed in a field of bytes.
  Status CountInts(const Field& field, int64_t* count) const;

 private:
  Status Byte(unsigned char* byte);
  Status Varint(uint64_t* value);
  Status Fixed(int bytes, Field* field);
  Status Damaged(const char* fault) const;

  File* const file_;
  int64_t at_, end_;
  unsigned char window_[256];
  int64_t window_begin_ = 0, window_end_ = 0;  // places in the file
};

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_PROTOBUF_READER_H_
