#include "packed_floats.h"

#include <cstring>

#include "../../core/base/byte_order.h"
#include "../../core/base/float16.h"

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

struct Bfloat16 {
  static uint16_t Round(float value) { return BFloat16OfFloat(value); }
  static float Widen(uint16_t half) { return FloatOfBFloat16(half); }
};

struct Float16 {
  static uint16_t Round(float value) { return Float16OfFloat(value); }
  static float Widen(uint16_t half) { return FloatOfFloat16(half); }
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

void AddIntegers(const uint8_t* from, size_t count, uint8_t* integers) {
  for (size_t i = 0; i < count; ++i) {
    StoreAt(LoadAt<uint32_t>(integers, i) + LoadAt<uint32_t>(from, i), integers,
            i);
  }
}

}  // namespace ringlet
