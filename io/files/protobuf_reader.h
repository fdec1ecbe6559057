// protobuf's encoding, read from a file that is not trusted.
//
// Internal to io/. A message is a range of the file's bytes, gone through field
// by field; the bytes of a field are a range of it, and a message within it
// another reader. Nothing is read but what is asked for.

#ifndef RINGLET_IO_FILES_PROTOBUF_READER_H_
#define RINGLET_IO_FILES_PROTOBUF_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../../core/base/status.h"
#include "file_system.h"
#include "protobuf.h"

namespace ringlet {

class ProtobufReader {
 public:
  struct Field {
    int number = 0;
    ProtobufType type = ProtobufType::kVarint;
    uint64_t value = 0;          // of a number, its bits
    int64_t begin = 0, end = 0;  // of bytes, where they stand
  };

  // The file outlives it.
  ProtobufReader(File* file, int64_t begin, int64_t end)
      : file_(file), at_(begin), end_(end) {}
  // The message that a field is.
  ProtobufReader(const ProtobufReader& outer, const Field& field)
      : ProtobufReader(outer.file_, field.begin, field.end) {}

  // *has is false at the end. kCorruption with the offset where the encoding
  // breaks a rule.
  Status Next(Field* field, bool* has);
  // Up to 4096 bytes; kCorruption of more.
  Status Text(const Field& field, std::string* text) const;
  // Of a field that has one number or, packed, several: at most `most`.
  Status Ints(const Field& field, size_t most, std::vector<int64_t>* ints);

 private:
  Status Byte(unsigned char* byte);
  Status Varint(uint64_t* value);
  Status Fixed(int bytes, uint64_t* value);
  Status Damaged(const char* what) const;

  File* const file_;
  int64_t at_, end_;
  unsigned char window_[256];
  int64_t window_begin_ = 0, window_end_ = 0;  // in the file
};

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_PROTOBUF_READER_H_
