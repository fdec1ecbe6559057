#include "protobuf.h"

#include <cstring>

#include "../../core/base/byte_order.h"
#include "../../core/base/float16.h"

namespace ringlet {
namespace {

void PutKey(std::string* out, int field, ProtobufType type) {
  PutVarint(out, static_cast<uint64_t>(field << 3 | static_cast<int>(type)));
}

uint64_t BitsOf(double value) {
  static_assert(sizeof(double) == sizeof(uint64_t));
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace

void PutVarint(std::string* out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    out->push_back(static_cast<char>(value | 0x80));
  }
  out->push_back(static_cast<char>(value));
}

void PutInt(std::string* out, int field, int64_t value) {
  PutKey(out, field, ProtobufType::kVarint);
  PutVarint(out, static_cast<uint64_t>(value));
}

void PutFloat(std::string* out, int field, float value) {
  PutKey(out, field, ProtobufType::kFixed32);
  AppendLittle(BitsOfFloat(value), out);
}

void PutDouble(std::string* out, int field, double value) {
  PutKey(out, field, ProtobufType::kFixed64);
  AppendLittle(BitsOf(value), out);
}

void PutBytesHeader(std::string* out, int field, uint64_t bytes) {
  PutKey(out, field, ProtobufType::kBytes);
  PutVarint(out, bytes);
}

void PutBytes(std::string* out, int field, const std::string& bytes) {
  PutBytesHeader(out, field, bytes.size());
  out->append(bytes);
}

void PutDoubles(std::string* out, int field, const double* values, int count) {
  if (count == 0) return;
  PutBytesHeader(out, field, sizeof(double) * static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) AppendLittle(BitsOf(values[i]), out);
}

}  // namespace ringlet
