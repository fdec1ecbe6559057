// The order of bytes in which numbers travel between ranks.
//
// Internal.

#ifndef RINGLET_CORE_BASE_BYTE_ORDER_H_
#define RINGLET_CORE_BASE_BYTE_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ringlet {

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
constexpr bool kBigEndian = true;
#else
constexpr bool kBigEndian = false;
#endif

// `count` numbers of `element_bytes` each, between the host's order and
// little-endian, either way. Nothing to do where they are the same.
inline void SwapToLittle(void* data, size_t element_bytes, size_t count) {
  if (!kBigEndian || element_bytes == 1) return;
  auto* bytes = static_cast<uint8_t*>(data);
  for (size_t i = 0; i < count; ++i, bytes += element_bytes) {
    std::reverse(bytes, bytes + element_bytes);
  }
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_BYTE_ORDER_H_
