// Writes the part of protobuf's encoding that ringlet's files need;
// protobuf_reader.h reads it.
//
// Each Put appends one field, its number and its value, to a message. A nested
// message is the bytes of a field. Zeros are written too, which writers of
// proto3 leave out. The encoding is at
// protobuf.dev/programming-guides/encoding.

#ifndef RINGLET_IO_FILES_PROTOBUF_H_
#define RINGLET_IO_FILES_PROTOBUF_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace ringlet {

// How a field's value is encoded; a part of its key.
enum class ProtobufType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kFixed32 = 5,
};

void PutVarint(std::string* out, uint64_t value);
void PutInt(std::string* out, int field, int64_t value);
void PutFloat(std::string* out, int field, float value);
void PutDouble(std::string* out, int field, double value);
void PutBytes(std::string* out, int field, const std::string& bytes);
// Appends the key and the length of a field of `bytes` bytes.
void PutBytesHeader(std::string* out, int field, uint64_t bytes);
// Packs the numbers into one field; no field without numbers.
void PutDoubles(std::string* out, int field, const double* values, int count);

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_PROTOBUF_H_
