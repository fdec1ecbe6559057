// Built for AVX-512, so it may not call functions that another file could
// inline and share. Lane 2 f is filter f at the first tap of a pair, lane 2 f +
// 1 at the second. So one load broadcasts a pair.

#include "paired_conv.h"

#include <cstddef>

#if !defined(__clang__)
// gcc 12's own header uses registers that gcc calls undefined. Sums of blocks
// are read from the second block on.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

namespace ringlet {
namespace {

using Lanes = __m512;

inline int64_t MinOf(int64_t a, int64_t b) { return a < b ? a : b; }

inline Lanes Broadcast(const float* pair) {
  double both;
  __builtin_memcpy(&both, pair, sizeof(both));
  return _mm512_castpd_ps(_mm512_set1_pd(both));
}

inline __mmask16 FirstLanes(int64_t count) {
  return static_cast<__mmask16>((1u << count) - 1);
}

// Each of the first eight floats twice.
inline Lanes RepeatEachLane(Lanes v) {
  const __m512i each =
      _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  return _mm512_permutexvar_ps(each, v);
}

// Returns the filters of the first tap, then the filters of the second.
inline Lanes SeparateTaps(Lanes v) {
  const __m512i each =
      _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  return _mm512_permutexvar_ps(each, v);
}

// Returns the same lanes of the upper half.
inline __mmask16 UpperLanes(__mmask16 mask) {
  return static_cast<__mmask16>(mask << 8);
}

// Up to kTall pairs of neighbouring taps in x, each from tap[i] on, for a block
// of positions. In some pairs the first tap belongs to another pair, and is not
// written.
constexpr int kTallGradient = 8;
struct TapPairs {
  int64_t count;
  int64_t tap[kTallGradient];
  bool first[kTallGradient];
};

// Adds the sums of such pairs to dw.
__attribute__((noinline)) void AddPairs(const ConvGradient& c,
                                        const TapPairs& pairs,
                                        const Lanes* sums, bool adds) {
  const __mmask16 mask = FirstLanes(c.filters);
  for (int64_t i = 0; i < pairs.count; ++i) {
    float* const first = c.dw + pairs.tap[i] * c.dw_stride;
    float* const second = first + c.dw_stride;
    Lanes z = SeparateTaps(sums[i]);
    if (adds) {
      const Lanes a = _mm512_maskz_loadu_ps(mask, first);
      z = _mm512_add_ps(_mm512_mask_loadu_ps(a, UpperLanes(mask), second - 8),
                        z);
    }
    const __mmask16 first_mask = pairs.first[i] ? mask : FirstLanes(0);
    _mm512_mask_storeu_ps(first, first_mask, z);
    _mm512_mask_storeu_ps(second - 8, UpperLanes(mask), z);
  }
}

// With the first taps it also adds to c.sums.
template <int kTall>
__attribute__((noinline)) void GradientTile(const ConvGradient& c,
                                            const TapPairs& pairs,
                                            int64_t begin, int64_t end,
                                            bool adds) {
  const int64_t step = c.in.x_step, positions = c.in.positions;
  const __m256i lanes =
      _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(c.filters)),
                         _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const __mmask16 mask = FirstLanes(c.filters);
  const bool adds_up = c.sums != nullptr && pairs.tap[0] == 0;
  Lanes dy_sums = _mm512_setzero_ps();
  if (adds_up) dy_sums = RepeatEachLane(_mm512_maskz_loadu_ps(mask, c.sums));
  Lanes s[kTall], sums[kTall];
  int64_t offset[kTall];
#pragma GCC unroll 16
  for (int i = 0; i < kTall; ++i) {
    s[i] = _mm512_setzero_ps();
    offset[i] = c.in.offsets[pairs.tap[i < pairs.count ? i : 0]];
  }
  const float* d = c.dy + begin * c.dy_step;
  int64_t r = begin / positions, p = begin % positions;
  for (int64_t remaining = end - begin; remaining > 0; ++r, p = 0) {
    const float* const row = c.in.x + r * c.in.x_row + p * step;
    const float* x[kTall];
#pragma GCC unroll 16
    for (int i = 0; i < kTall; ++i) x[i] = row + offset[i];
    const int64_t n = MinOf(remaining, positions - p);
    remaining -= n;
    for (int64_t at = 0; at < n * step; at += step, d += c.dy_step) {
      const Lanes v =
          RepeatEachLane(_mm512_castps256_ps512(_mm256_maskload_ps(d, lanes)));
      if (adds_up) dy_sums = _mm512_add_ps(dy_sums, v);
#pragma GCC unroll 16
      for (int i = 0; i < kTall; ++i) {
        s[i] = _mm512_fmadd_ps(Broadcast(x[i] + at), v, s[i]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kTall; ++i) sums[i] = s[i];
  AddPairs(c, pairs, sums, adds);
  if (adds_up) _mm512_mask_storeu_ps(c.sums, mask, SeparateTaps(dy_sums));
}

// Makes pairs of the taps from k on. Returns the index of the first tap without
// a pair.
int64_t PairUp(const ConvWindows& in, int64_t k, TapPairs* pairs) {
  pairs->count = 0;
  while (k < in.taps && pairs->count < kTallGradient) {
    const bool with_next =
        k + 1 < in.taps && in.offsets[k + 1] == in.offsets[k] + 1;
    const bool with_last = k > 0 && in.offsets[k] == in.offsets[k - 1] + 1;
    if (!with_next && !with_last) break;
    pairs->tap[pairs->count] = with_next ? k : k - 1;
    pairs->first[pairs->count++] = with_next;
    k += with_next ? 2 : 1;
  }
  return k;
}

}  // namespace

void PairedGradientAvx512(const ConvGradient& c) {
  const int64_t positions = c.in.rows * c.in.positions;
  for (int64_t k = 0; k < c.in.taps;) {
    TapPairs pairs;
    const int64_t next = PairUp(c.in, k, &pairs);
    if (pairs.count == 0) {
      ConvGradient one = c;
      one.in.offsets += k;
      one.in.taps = 1;
      one.dw += k * c.dw_stride;
      if (k > 0) one.sums = nullptr;
      kDirectConvAvx2.gradient(one);
      ++k;
      continue;
    }
    k = next;
    for (int64_t begin = 0; begin < positions; begin += kConvBlock) {
      const int64_t end = MinOf(positions, begin + kConvBlock);
      const auto gradient_tile = pairs.count > 4   ? GradientTile<kTallGradient>
                                 : pairs.count > 2 ? GradientTile<4>
                                                   : GradientTile<2>;
      gradient_tile(c, pairs, begin, end, c.adds || begin > 0);
    }
  }
}

}  // namespace ringlet
