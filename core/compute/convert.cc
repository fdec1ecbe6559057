#include "convert.h"

#include <cstring>

namespace ringlet {

void BytesToFloats(const unsigned char* from, int64_t n, float factor,
                   float offset, float* to) {
  for (int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<float>(from[i]) * factor + offset;
  }
}

bool ScaleFloats(const void* from, int64_t n, float factor, float offset,
                 float* to) {
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
  // The number is not finite if all bits of its exponent are set.
  constexpr uint32_t kExponent = 0x7F800000;
  uint32_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    to[i] = to[i] * factor + offset;
    uint32_t bits;
    std::memcpy(&bits, &to[i], sizeof(bits));
    found |= static_cast<uint32_t>((bits & kExponent) == kExponent);
  }
  return found == 0;
}

}  // namespace ringlet
