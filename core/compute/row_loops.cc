// Built once for any CPU and, on x86-64, again for AVX2 and for AVX-512. So it
// may not call functions that another file could inline and share.
//
// Columns are processed in vectors. Several vectors are processed together, so
// that whole cache lines are used and additions overlap. The remaining columns
// are processed one by one. `V` is a vector or a float.

#include "row_loops.h"

#include "lanes.h"

#if defined(__x86_64__)
#if defined(RINGLET_AVX512) && !defined(__clang__)
// gcc 12's own header uses registers that gcc calls undefined.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif

namespace ringlet {
namespace {

#if defined(RINGLET_AVX512)
#define RINGLET_ROW_LOOPS kRowLoopsAvx512
#elif defined(RINGLET_AVX2)
#define RINGLET_ROW_LOOPS kRowLoopsAvx2
#else
#define RINGLET_ROW_LOOPS kRowLoops
#endif

template <typename V>
inline V Load(const float* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
template <typename V>
inline void Store(V v, float* p) {
  __builtin_memcpy(p, &v, sizeof(v));
}

// The terms of a sum over rows: element `at`, which is in column `c`.
struct Itself {
  const float* m;
  template <typename V>
  V At(int64_t at, int64_t) const {
    return Load<V>(m + at);
  }
};
struct Distance {
  const float *x, *center;
  template <typename V>
  V At(int64_t at, int64_t c) const {
    return Load<V>(x + at) - Load<V>(center + c);
  }
};
struct DistanceSquared {
  Distance distance;
  template <typename V>
  V At(int64_t at, int64_t c) const {
    const V d = distance.At<V>(at, c);
    return d * d;
  }
};
struct TimesDistance {
  const float* dy;
  Distance distance;
  template <typename V>
  V At(int64_t at, int64_t c) const {
    return Load<V>(dy + at) * distance.At<V>(at, c);
  }
};

template <typename V>
constexpr int64_t Width() {
  return sizeof(V) / sizeof(float);  // NOLINT: V may be a float
}

// kWide vectors of columns from `c` on, with four rows added in pairs.
template <typename V, int kWide, typename Term>
inline void SumDown(const RowsOfFloats& r, const Term& term, int64_t c,
                    float* to) {
  V sums[kWide] = {};
  int64_t row = 0;
  for (; row + 4 <= r.rows; row += 4) {
#pragma GCC unroll 4
    for (int j = 0; j < kWide; ++j) {
      const int64_t column = c + j * Width<V>();
      const int64_t at = row * r.stride + column;
      sums[j] += (term.template At<V>(at, column) +
                  term.template At<V>(at + r.stride, column)) +
                 (term.template At<V>(at + 2 * r.stride, column) +
                  term.template At<V>(at + 3 * r.stride, column));
    }
  }
  for (; row < r.rows; ++row) {
#pragma GCC unroll 4
    for (int j = 0; j < kWide; ++j) {
      const int64_t column = c + j * Width<V>();
      sums[j] += term.template At<V>(row * r.stride + column, column);
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < kWide; ++j) Store(sums[j], to + c + j * Width<V>());
}

// Adds the rows of m one by one to the sums that `to` holds.
template <typename V, int kWide>
inline void AddDown(const RowsOfFloats& r, const float* m, int64_t c,
                    float* to) {
  V sums[kWide];
#pragma GCC unroll 4
  for (int j = 0; j < kWide; ++j) sums[j] = Load<V>(to + c + j * Width<V>());
  for (int64_t row = 0; row < r.rows; ++row) {
#pragma GCC unroll 4
    for (int j = 0; j < kWide; ++j) {
      sums[j] += Load<V>(m + row * r.stride + c + j * Width<V>());
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < kWide; ++j) Store(sums[j], to + c + j * Width<V>());
}

template <typename Term>
inline void SumColumns(const RowsOfFloats& r, const Term& term, float* to) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= r.n; c += 4 * kLanes) {
    SumDown<Lanes, 4>(r, term, c, to);
  }
  for (; c + kLanes <= r.n; c += kLanes) SumDown<Lanes, 1>(r, term, c, to);
  for (; c < r.n; ++c) SumDown<float, 1>(r, term, c, to);
}

void ColumnSums(const RowsOfFloats& r, const float* m, float* sums) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= r.n; c += 4 * kLanes) {
    AddDown<Lanes, 4>(r, m, c, sums);
  }
  for (; c + kLanes <= r.n; c += kLanes) AddDown<Lanes, 1>(r, m, c, sums);
  if (c == r.n) return;
  const PartialVector part(r.n - c);
  Lanes sum = part.Load(sums + c);
  for (int64_t row = 0; row < r.rows; ++row) {
    sum += part.Load(m + row * r.stride + c);
  }
  part.Store(sum, sums + c);
}

void Sum(const RowsOfFloats& r, const float* x, const float* center,
         float* to) {
  SumColumns(r, Distance{x, center}, to);
}
void SumOfSquares(const RowsOfFloats& r, const float* x, const float* center,
                  float* to) {
  SumColumns(r, DistanceSquared{{x, center}}, to);
}
void SumOfProducts(const RowsOfFloats& r, const float* x, const float* center,
                   const float* dy, float* sum_of_dy, float* sum_of_products) {
  SumColumns(r, Itself{dy}, sum_of_dy);
  SumColumns(r, TimesDistance{dy, {x, center}}, sum_of_products);
}

struct AffineOf {
  const float *x, *center, *scale, *offset;
  template <typename V>
  struct Factors {
    V center, scale, offset;
  };
  template <typename V>
  Factors<V> At(int64_t c) const {
    return {Load<V>(center + c), Load<V>(scale + c), Load<V>(offset + c)};
  }
  template <typename V>
  V Value(const Factors<V>& f, int64_t at) const {
    return (Load<V>(x + at) - f.center) * f.scale + f.offset;
  }
};

struct AffineOfBoth {
  const float *x, *dy, *center, *dy_factor, *x_factor, *offset;
  template <typename V>
  struct Factors {
    V center, dy_factor, x_factor, offset;
  };
  template <typename V>
  Factors<V> At(int64_t c) const {
    return {Load<V>(center + c), Load<V>(dy_factor + c), Load<V>(x_factor + c),
            Load<V>(offset + c)};
  }
  template <typename V>
  V Value(const Factors<V>& f, int64_t at) const {
    return f.dy_factor * Load<V>(dy + at) +
           (f.x_factor * (Load<V>(x + at) - f.center) + f.offset);
  }
};

// kWide vectors of columns from `c` on, in each row.
template <typename V, int kWide, typename Function>
inline void WriteColumns(const RowsOfFloats& r, const Function& function,
                         int64_t c, float* y) {
  typename Function::template Factors<V> factors[kWide];
#pragma GCC unroll 4
  for (int j = 0; j < kWide; ++j) {
    factors[j] = function.template At<V>(c + j * Width<V>());
  }
  for (int64_t row = 0, at = c; row < r.rows; ++row, at += r.stride) {
#pragma GCC unroll 4
    for (int j = 0; j < kWide; ++j) {
      const int64_t i = at + j * Width<V>();
      Store(function.Value(factors[j], i), y + i);
    }
  }
}

template <typename Function>
inline void Write(const RowsOfFloats& r, const Function& function, float* y) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= r.n; c += 4 * kLanes) {
    WriteColumns<Lanes, 4>(r, function, c, y);
  }
  for (; c + 2 * kLanes <= r.n; c += 2 * kLanes) {
    WriteColumns<Lanes, 2>(r, function, c, y);
  }
  for (; c + kLanes <= r.n; c += kLanes) {
    WriteColumns<Lanes, 1>(r, function, c, y);
  }
  for (; c < r.n; ++c) WriteColumns<float, 1>(r, function, c, y);
}

void Affine(const RowsOfFloats& r, const float* x, const float* center,
            const float* scale, const float* offset, float* y) {
  Write(r, AffineOf{x, center, scale, offset}, y);
}

void AffineOfTwo(const RowsOfFloats& r, const float* x, const float* dy,
                 const float* center, const float* dy_factor,
                 const float* x_factor, const float* offset, float* dx) {
  Write(r, AffineOfBoth{x, dy, center, dy_factor, x_factor, offset}, dx);
}

// y[i] = body(i) for i < n, with vectors and then with floats.
template <typename Body>
inline void ForEachElement(int64_t n, float* y, const Body& body) {
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const Lanes first = body(Lanes{}, i), second = body(Lanes{}, i + kLanes);
    Store(first, y + i);
    Store(second, y + i + kLanes);
  }
  for (; i < n; ++i) y[i] = body(0.0f, i);
}

void Add(const float* from, int64_t n, float* to) {
  ForEachElement(n, to, [=](auto zero, int64_t i) {
    using V = decltype(zero);
    return Load<V>(to + i) + Load<V>(from + i);
  });
}

void Relu(const float* x, int64_t n, float* y) {
  ForEachElement(n, y, [=](auto zero, int64_t i) {
    using V = decltype(zero);
    const V v = Load<V>(x + i);
    return v < zero ? zero : v;
  });
}

void ReluGradient(const float* y, const float* dy, int64_t n, float* to) {
  ForEachElement(n, to, [=](auto zero, int64_t i) {
    using V = decltype(zero);
    return Load<V>(y + i) > zero ? Load<V>(dy + i) : zero;
  });
}

using Bits = uint32_t __attribute__((vector_size(kBytes)));
using Halves = uint16_t __attribute__((vector_size(kBytes / 2)));

// `B`: a vector, or a number.
template <typename B>
inline B RoundedBits(B bits) {
  const B rounded = bits + 0x7FFF + (bits >> 16 & 1);
  const auto is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return (is_nan ? bits | 0x400000 : rounded) & 0xFFFF0000;
}

template <bool kPacks>
inline void RoundBits(int64_t n, float* values, uint16_t* packed) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Bits bits = RoundedBits(reinterpret_cast<Bits>(Load(values + i)));
    Store(reinterpret_cast<Lanes>(bits), values + i);
    if (kPacks) {
      const auto halves = __builtin_convertvector(bits >> 16, Halves);
      __builtin_memcpy(packed + i, &halves, sizeof(halves));
    }
  }
  for (; i < n; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, values + i, sizeof(bits));
    bits = RoundedBits(bits);
    __builtin_memcpy(values + i, &bits, sizeof(bits));
    if (kPacks) packed[i] = static_cast<uint16_t>(bits >> 16);
  }
}

void RoundToBFloat16(int64_t n, float* values, uint16_t* packed) {
  packed != nullptr ? RoundBits<true>(n, values, packed)
                    : RoundBits<false>(n, values, packed);
}

void UnpackBFloat16(const uint16_t* packed, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Halves halves;
    __builtin_memcpy(&halves, packed + i, sizeof(halves));
    const Bits bits = __builtin_convertvector(halves, Bits) << 16;
    Store(reinterpret_cast<Lanes>(bits), to + i);
  }
  for (; i < n; ++i) {
    const uint32_t bits = uint32_t{packed[i]} << 16;
    __builtin_memcpy(to + i, &bits, sizeof(bits));
  }
}

// Philox blocks side by side, each word in the lower half of 64 bits, as a
// multiplication needs it. The upper half has any value.
using Words = uint64_t __attribute__((vector_size(kBytes)));
constexpr int64_t kBlocks = kBytes / sizeof(uint64_t);

inline Words Times(Words w, uint64_t by) {
#if defined(RINGLET_AVX512)
  const __m512i factor = _mm512_set1_epi64(static_cast<int64_t>(by));
  return reinterpret_cast<Words>(
      _mm512_mul_epu32(reinterpret_cast<__m512i>(w), factor));
#elif defined(RINGLET_AVX2)
  const __m256i factor = _mm256_set1_epi64x(static_cast<int64_t>(by));
  return reinterpret_cast<Words>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(w), factor));
#elif defined(__x86_64__)
  const __m128i factor = _mm_set1_epi64x(static_cast<int64_t>(by));
  return reinterpret_cast<Words>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(w), factor));
#else
  return (w & 0xffffffff) * by;
#endif
}

struct PhiloxBlocks {
  Words c[4];

  // Blocks at every `step`th position. The steps are added as a vector: to
  // write its numbers one by one and read it as a whole is slow.
  PhiloxBlocks(uint64_t stream, uint64_t position, uint64_t step) {
    static constexpr uint64_t kIndices[] = {0, 1, 2, 3, 4, 5, 6, 7};
    Words indices;
    __builtin_memcpy(&indices, kIndices, sizeof(indices));
    const Words at = indices * step + position;
    c[0] = at;
    c[1] = at >> 32;
    c[2] = stream - Words{};
    c[3] = (stream >> 32) - Words{};
  }
  void Round(uint64_t k0, uint64_t k1) {
    const Words p0 = Times(c[0], 0xD2511F53), p1 = Times(c[2], 0xCD9E8D57);
    c[0] = (p1 >> 32) ^ c[1] ^ k0;
    c[2] = (p0 >> 32) ^ c[3] ^ k1;
    c[1] = p1;
    c[3] = p0;
  }
  // Two words that are neighbours in memory.
  static Words Pairs(Words first, Words second) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (first << 32) | (second & 0xffffffff);
#else
    return (second << 32) | (first & 0xffffffff);
#endif
  }
  static void Put(Words words, float* to) {
    using Integers = int32_t __attribute__((vector_size(kBytes)));
    const auto bits = reinterpret_cast<Bits>(words) >> 8;
    const auto integers = reinterpret_cast<Integers>(bits);
    Store(__builtin_convertvector(integers, Lanes) * (1.0f / 16777216.0f), to);
  }
  void PutTo(float* to) const {
    const Words a = Pairs(c[0], c[1]), b = Pairs(c[2], c[3]);
#if defined(RINGLET_AVX512)
    Put(__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11), to);
    to += 2 * kBlocks;
    Put(__builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15), to);
#elif defined(RINGLET_AVX2)
    Put(__builtin_shufflevector(a, b, 0, 4, 1, 5), to);
    Put(__builtin_shufflevector(a, b, 2, 6, 3, 7), to + 2 * kBlocks);
#else
    Put(__builtin_shufflevector(a, b, 0, 2), to);
    Put(__builtin_shufflevector(a, b, 1, 3), to + 2 * kBlocks);
#endif
  }
};

// Two at a time, since each waits for its products.
inline void AllRounds(uint64_t seed, PhiloxBlocks* a, PhiloxBlocks* b) {
  uint32_t k0 = static_cast<uint32_t>(seed);
  uint32_t k1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    a->Round(k0, k1);
    b->Round(k0, k1);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

void Uniform(uint64_t seed, uint64_t stream, uint64_t position, int64_t n,
             float* to) {
  constexpr int64_t kHalf = 4 * kBlocks;
  float space[2 * kHalf];
  for (; n > 0; n -= 2 * kHalf, to += 2 * kHalf, position += 2 * kHalf) {
    PhiloxBlocks a(stream, position, 4), b(stream, position + kHalf, 4);
    AllRounds(seed, &a, &b);
    float* const at = n < 2 * kHalf ? space : to;
    a.PutTo(at);
    b.PutTo(at + kHalf);
    for (int64_t i = 0; at == space && i < n; ++i) to[i] = space[i];
  }
}

void FirstUniform(uint64_t seed, uint64_t stream, int64_t n, float* to) {
  float space[2 * kBlocks];
  for (int64_t position = 0; position < n; position += 2 * kBlocks) {
    const auto first = static_cast<uint64_t>(position);
    PhiloxBlocks even(stream, first, 2), odd(stream, first + 1, 2);
    AllRounds(seed, &even, &odd);
    const int64_t remaining = n - position;
    float* const at = remaining < 2 * kBlocks ? space : to + position;
    PhiloxBlocks::Put(PhiloxBlocks::Pairs(even.c[0], odd.c[0]), at);
    for (int64_t i = 0; at == space && i < remaining; ++i)
      to[position + i] = space[i];
  }
}

}  // namespace

extern const RowLoops RINGLET_ROW_LOOPS = {
    ColumnSums,     Sum,     SumOfSquares, SumOfProducts, Affine,
    AffineOfTwo,    Add,     Relu,         ReluGradient,  RoundToBFloat16,
    UnpackBFloat16, Uniform, FirstUniform};

}  // namespace ringlet
