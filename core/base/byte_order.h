// The order of bytes in files and on the wire: little-endian, on any processor.
//
// The memory need not be aligned.

#ifndef RINGLET_CORE_BASE_BYTE_ORDER_H_
#define RINGLET_CORE_BASE_BYTE_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ringlet {

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
constexpr bool kBigEndian = true;
#else
constexpr bool kBigEndian = false;
#endif

// Stores or loads an unsigned integer, in sizeof(T) bytes.
template <typename T>
inline void StoreLittle(T value, unsigned char* out) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out[i] = static_cast<unsigned char>(value >> (8 * i));
  }
}
template <typename T>
inline T LoadLittle(const unsigned char* in) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(in[i]) << (8 * i));
  }
  return value;
}
template <typename T>
inline void AppendLittle(T value, std::string* out) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out->push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  }
}

// Reverses the bytes of each of `count` elements.
inline void ReverseElements(void* data, size_t element_bytes, size_t count) {
  if (element_bytes == 1) return;
  auto* bytes = static_cast<unsigned char*>(data);
  for (size_t i = 0; i < count; ++i, bytes += element_bytes) {
    std::reverse(bytes, bytes + element_bytes);
  }
}

// Converts `count` numbers of `element_bytes` each between the host's order and
// little- or big-endian, in either direction. Does nothing if both orders are
// the same.
inline void SwapToLittle(void* data, size_t element_bytes, size_t count) {
  if (kBigEndian) ReverseElements(data, element_bytes, count);
}
inline void SwapToBig(void* data, size_t element_bytes, size_t count) {
  if (!kBigEndian) ReverseElements(data, element_bytes, count);
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_BYTE_ORDER_H_
