// The two halves of float32: IEEE 754 binary16 and bfloat16, as bit patterns.
//
// Internal to io/. To the nearest, ties to even; what is too large for
// binary16 becomes infinite; a NaN stays one, quiet.

#ifndef RINGLET_IO_DATA_FLOAT16_H_
#define RINGLET_IO_DATA_FLOAT16_H_

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

// `bits` without its lowest `count` bits (1 to 31), rounded to nearest even.
inline uint32_t ShiftRounded(uint32_t bits, int count) {
  const uint32_t half = uint32_t{1} << (count - 1);
  const uint32_t odd = bits >> count & 1;
  return (bits + half - 1 + odd) >> count;
}

inline uint16_t BFloat16OfFloat(float value) {
  const uint32_t bits = BitsOfFloat(value);
  const bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return static_cast<uint16_t>(nan ? bits >> 16 | 0x40
                                   : ShiftRounded(bits, 16));
}

inline float FloatOfBFloat16(uint16_t half) {
  return FloatOfBits(uint32_t{half} << 16);
}

inline uint16_t Float16OfFloat(float value) {
  const uint32_t bits = BitsOfFloat(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  uint32_t half;
  if (magnitude > 0x7F800000) {
    half = 0x7E00 | (magnitude >> 13 & 0x3FF);
  } else if (magnitude >= 0x47800000) {  // 2^16
    half = 0x7C00;
  } else if (magnitude >= 0x38800000) {  // 2^-14, the least normal
    // Rounding may carry into the exponent, up to infinity, as it should.
    half = ShiftRounded(magnitude - (uint32_t{112} << 23), 13);
  } else if (magnitude >= 0x33000000) {  // 2^-25, half the least subnormal
    const int shift = 126 - static_cast<int>(magnitude >> 23);
    half = ShiftRounded((magnitude & 0x7FFFFF) | 0x800000, shift);
  } else {
    half = 0;
  }
  return static_cast<uint16_t>(sign | half);
}

inline float FloatOfFloat16(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = half >> 10 & 0x1F;
  const uint32_t fraction = half & 0x3FF;
  if (exponent == 0) {  // fraction * 2^-24, exact
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return FloatOfBits(sign | BitsOfFloat(magnitude));
  }
  const uint32_t wide = exponent == 0x1F ? 0xFF : exponent + 112;
  return FloatOfBits(sign | wide << 23 | fraction << 13);
}

}  // namespace ringlet

#endif  // RINGLET_IO_DATA_FLOAT16_H_
