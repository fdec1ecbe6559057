#include "packed_floats.h"

#include <cstring>

#include "../../core/base/byte_order.h"

namespace ringlet {
namespace {

template <typename T>
T LoadAt(const uint8_t* from, size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  SwapToLittle(&value, sizeof(T), 1);
  return value;
}

template <typename T>
void StoreAt(T value, uint8_t* to, size_t index) {
  SwapToLittle(&value, sizeof(T), 1);
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

struct Bfloat16 {
  static uint16_t Round(float value) {
    const uint32_t bits = BitsOf(value);
    const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    return static_cast<uint16_t>(nan ? bits >> 16 | 0x40 : rounded >> 16);
  }
  static float Widen(uint16_t half) {
    return FloatOf(static_cast<uint32_t>(half) << 16);
  }
};

struct Float16 {
  static constexpr uint32_t kBias = (127 - 15) << 23;

  static uint16_t Round(float value) {
    const uint32_t sign = BitsOf(value) & 0x80000000;
    const uint32_t bits = BitsOf(value) ^ sign;
    // Below 2^-14: adding 0.5 has the processor round at the last place of a
    // subnormal number.
    const uint32_t small = BitsOf(FloatOf(bits) + 0.5f) - BitsOf(0.5f);
    const uint32_t normal = (bits - kBias + 0xfff + (bits >> 13 & 1)) >> 13;
    const uint32_t large = bits > 0x7f800000 ? 0x7e00 : 0x7c00;  // NaN or inf
    const uint32_t half = bits < (113u << 23)   ? small
                          : bits < (143u << 23) ? normal
                                                : large;
    return static_cast<uint16_t>(half | sign >> 16);
  }
  static float Widen(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
    const uint32_t shifted = static_cast<uint32_t>(half & 0x7fff) << 13;
    const uint32_t exponent = shifted & 0x0f800000;
    const uint32_t small =
        BitsOf(FloatOf(shifted + (113u << 23)) - FloatOf(113u << 23));
    const uint32_t bits = exponent == 0            ? small
                          : exponent == 0x0f800000 ? shifted + 2 * kBias
                                                   : shifted + kBias;
    return FloatOf(bits | sign);
  }
};

template <typename Half>
void Pack(uint8_t* floats, size_t count, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    const uint16_t half = Half::Round(LoadAt<float>(floats, i));
    StoreAt(half, out, i);
    StoreAt(Half::Widen(half), floats, i);
  }
}

template <typename Half>
void Unpack(const uint8_t* from, size_t count, uint8_t* floats) {
  for (size_t i = 0; i < count; ++i) {
    StoreAt(Half::Widen(LoadAt<uint16_t>(from, i)), floats, i);
  }
}

template <typename Half>
void Add(const uint8_t* from, size_t count, uint8_t* floats) {
  for (size_t i = 0; i < count; ++i) {
    const float sum =
        LoadAt<float>(floats, i) + Half::Widen(LoadAt<uint16_t>(from, i));
    StoreAt(sum, floats, i);
  }
}

void AddFloats(const uint8_t* from, size_t count, uint8_t* floats) {
  for (size_t i = 0; i < count; ++i) {
    StoreAt(LoadAt<float>(floats, i) + LoadAt<float>(from, i), floats, i);
  }
}

}  // namespace

void PackFloats(WireDtype dtype, uint8_t* floats, size_t count, uint8_t* out) {
  switch (dtype) {
    case WireDtype::kFloat32:
      if (count > 0) std::memcpy(out, floats, count * sizeof(float));
      return;
    case WireDtype::kBfloat16:
      return Pack<Bfloat16>(floats, count, out);
    case WireDtype::kFloat16:
      return Pack<Float16>(floats, count, out);
  }
}

void UnpackFloats(WireDtype dtype, const uint8_t* from, size_t count,
                  uint8_t* floats) {
  switch (dtype) {
    case WireDtype::kFloat32:
      if (count > 0) std::memcpy(floats, from, count * sizeof(float));
      return;
    case WireDtype::kBfloat16:
      return Unpack<Bfloat16>(from, count, floats);
    case WireDtype::kFloat16:
      return Unpack<Float16>(from, count, floats);
  }
}

void AddPacked(WireDtype dtype, const uint8_t* from, size_t count,
               uint8_t* floats) {
  switch (dtype) {
    case WireDtype::kFloat32:
      return AddFloats(from, count, floats);
    case WireDtype::kBfloat16:
      return Add<Bfloat16>(from, count, floats);
    case WireDtype::kFloat16:
      return Add<Float16>(from, count, floats);
  }
}

}  // namespace ringlet
