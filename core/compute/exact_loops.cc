// Built once for any CPU and, on x86-64, again for AVX2. So it may not call
// functions that another file could inline and share. Compilers vectorize the
// loops. A loop in place has one pointer: with two, the compiler would have to
// assume that they overlap.

#include "exact_loops.h"

namespace ringlet {
namespace {

template <typename T>
inline T LoadAt(const void* numbers, int64_t i) {
  T value;
  __builtin_memcpy(&value, static_cast<const char*>(numbers) + 4 * i, 4);
  return value;
}
template <typename T>
inline void StoreAt(T value, void* numbers, int64_t i) {
  __builtin_memcpy(static_cast<char*>(numbers) + 4 * i, &value, 4);
}

inline int32_t MagnitudeAt(const void* x, int64_t i) {
  return LoadAt<int32_t>(x, i) & 0x7fffffff;
}

// Rounds to nearest, ties to even. Without an instruction for it: floats from
// 2^23 on have no fractions, so adding 2^23 removes them.
inline int32_t Round(float v) {
#if defined(RINGLET_AVX2)
  return static_cast<int32_t>(__builtin_rintf(v));
#else
  const float two_to_23 = __builtin_copysignf(0x1p23f, v);
  const float rounded = (v + two_to_23) - two_to_23;
  return static_cast<int32_t>(__builtin_fabsf(v) < 0x1p23f ? rounded : v);
#endif
}

template <bool add>
inline int32_t QuantizeTo(const void* x, int64_t n, float inverse, float limit,
                          void* to) {
  int32_t greatest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int32_t bits = MagnitudeAt(x, i);
    greatest = bits > greatest ? bits : greatest;
    float v = LoadAt<float>(x, i) * inverse;
    v = v < limit ? v : limit;  // also for NaN, which its magnitude shows
    v = v > -limit ? v : -limit;
    auto q = static_cast<uint32_t>(Round(v));
    if (add) q += LoadAt<uint32_t>(to, i);
    StoreAt(q, to, i);
  }
  return greatest;
}

int32_t Quantize(const float* __restrict x, int64_t n, float inverse,
                 float limit, int32_t* __restrict to) {
  return QuantizeTo<false>(x, n, inverse, limit, to);
}
int32_t QuantizeAndAdd(const float* __restrict x, int64_t n, float inverse,
                       float limit, int32_t* __restrict to) {
  return QuantizeTo<true>(x, n, inverse, limit, to);
}
int32_t QuantizeInPlace(void* x, int64_t n, float inverse, float limit) {
  return QuantizeTo<false>(x, n, inverse, limit, x);
}

inline uint32_t ConvertTo(const void* integers, int64_t n, float unit,
                          void* x) {
  int32_t greatest = 0, lowest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto q = LoadAt<int32_t>(integers, i);
    greatest = q > greatest ? q : greatest;
    lowest = q < lowest ? q : lowest;
    StoreAt(static_cast<float>(q) * unit, x, i);
  }
  const uint32_t below = 0 - static_cast<uint32_t>(lowest);
  const auto above = static_cast<uint32_t>(greatest);
  return above > below ? above : below;
}
uint32_t ToFloats(const int32_t* __restrict integers, int64_t n, float unit,
                  float* __restrict x) {
  return ConvertTo(integers, n, unit, x);
}
uint32_t ToFloatsInPlace(void* integers, int64_t n, float unit) {
  return ConvertTo(integers, n, unit, integers);
}

int32_t MaxMagnitudeBits(const float* x, int64_t n) {
  int32_t greatest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int32_t bits = MagnitudeAt(x, i);
    greatest = bits > greatest ? bits : greatest;
  }
  return greatest;
}

}  // namespace

#if defined(RINGLET_AVX2)
extern const ExactLoops kExactLoopsAvx2 =
#else
extern const ExactLoops kExactLoops =
#endif
    {Quantize, QuantizeAndAdd,  QuantizeInPlace,
     ToFloats, ToFloatsInPlace, MaxMagnitudeBits};

}  // namespace ringlet
