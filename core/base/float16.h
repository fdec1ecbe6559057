// The two halves of float32: IEEE 754 binary16 and bfloat16, as bit patterns.
//
// Rounds to nearest, ties to even. Numbers that are too large for binary16
// become infinite; a NaN stays a quiet NaN. There are no branches, so that
// compilers vectorize loops: gradients are sent in these formats.

#ifndef RINGLET_CORE_BASE_FLOAT16_H_
#define RINGLET_CORE_BASE_FLOAT16_H_

#include <cstdint>
#include <cstring>

namespace ringlet {

inline uint32_t BitsOfFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float FloatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint16_t BFloat16OfFloat(float value) {
  const uint32_t bits = BitsOfFloat(value);
  const uint32_t rounded = bits + 0x7FFF + (bits >> 16 & 1);
  const bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return static_cast<uint16_t>(nan ? bits >> 16 | 0x40 : rounded >> 16);
}

inline float FloatOfBFloat16(uint16_t half) {
  return FloatOfBits(uint32_t{half} << 16);
}

inline uint16_t Float16OfFloat(float value) {
  constexpr uint32_t kRebias = (127 - 15) << 23;
  const uint32_t sign = BitsOfFloat(value) & 0x80000000;
  const uint32_t bits = BitsOfFloat(value) ^ sign;
  // Below 2^-14 adding 0.5 makes the processor round at the last place of a
  // subnormal number.
  const uint32_t small =
      BitsOfFloat(FloatOfBits(bits) + 0.5f) - BitsOfFloat(0.5f);
  // Rounding may carry into the exponent, up to infinity, which is correct.
  const uint32_t normal = (bits - kRebias + 0xFFF + (bits >> 13 & 1)) >> 13;
  const bool nan = bits > 0x7F800000;
  const uint32_t large = nan ? 0x7E00 | (bits >> 13 & 0x3FF) : 0x7C00;
  const uint32_t half = bits < (113u << 23)   ? small
                        : bits < (143u << 23) ? normal
                                              : large;
  return static_cast<uint16_t>(half | sign >> 16);
}

inline float FloatOfFloat16(uint16_t half) {
  constexpr uint32_t kRebias = (127 - 15) << 23;
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t shifted = uint32_t{half & 0x7FFFu} << 13;
  const uint32_t exponent = shifted & 0x0F800000;
  const uint32_t small =  // fraction * 2^-24, exact
      BitsOfFloat(FloatOfBits(shifted + (113u << 23)) -
                  FloatOfBits(113u << 23));
  const uint32_t bits = exponent == 0            ? small
                        : exponent == 0x0F800000 ? shifted + 2 * kRebias
                                                 : shifted + kRebias;
  return FloatOfBits(bits | sign);
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_FLOAT16_H_
