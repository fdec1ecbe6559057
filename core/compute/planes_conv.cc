// Built for AVX-512, so it may not call functions that another file could
// inline and share. A tile of sums stays in registers: filters with up to four
// vectors of positions each, which share the reads of the kernel.

#include "planes_conv.h"

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
constexpr int kLanes = 16, kMaxPlaces = 4;

inline int64_t MinOf(int64_t a, int64_t b) { return a < b ? a : b; }

inline __mmask16 FirstLanes(int64_t count) {
  return static_cast<__mmask16>((1u << count) - 1);
}

inline Lanes Relu(Lanes z) {
  const __mmask16 not_above =
      _mm512_cmp_ps_mask(z, _mm512_setzero_ps(), _CMP_LE_OQ);
  return _mm512_mask_mov_ps(z, not_above, _mm512_setzero_ps());
}

inline Lanes Pairs(Lanes a, Lanes b, bool high) {
  return _mm512_castpd_ps(
      high ? _mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))
           : _mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}

// Transposes four rows of sixteen to four rows with four of their columns each.
inline void TurnFour(const Lanes* a, Lanes* to) {
  const Lanes l0 = _mm512_unpacklo_ps(a[0], a[1]);
  const Lanes h0 = _mm512_unpackhi_ps(a[0], a[1]);
  const Lanes l1 = _mm512_unpacklo_ps(a[2], a[3]);
  const Lanes h1 = _mm512_unpackhi_ps(a[2], a[3]);
  to[0] = Pairs(l0, l1, /*high=*/false);
  to[1] = Pairs(l0, l1, /*high=*/true);
  to[2] = Pairs(h0, h1, /*high=*/false);
  to[3] = Pairs(h0, h1, /*high=*/true);
}

// Writes eight filters' sums at sixteen positions to the outputs of the
// existing positions.
__attribute__((noinline)) void Finish(const ConvForward& c, Lanes* z,
                                      int64_t count, float* y) {
  for (int64_t f = 0; f < c.filters; ++f) {
    if (c.bias != nullptr)
      z[f] = _mm512_add_ps(z[f], _mm512_set1_ps(c.bias[f]));
    if (c.relu) z[f] = Relu(z[f]);
  }
  Lanes low[4], high[4];
  TurnFour(z, low);
  TurnFour(z + 4, high);
  const __mmask16 first = FirstLanes(c.filters);
  const __mmask16 second = static_cast<__mmask16>(first << 8);
  const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i odd = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512d l = _mm512_castps_pd(low[i]), h = _mm512_castps_pd(high[i]);
    const Lanes a = _mm512_castpd_ps(_mm512_permutex2var_pd(l, even, h));
    const Lanes b = _mm512_castpd_ps(_mm512_permutex2var_pd(l, odd, h));
    float* const to = y + i * c.y_step;
    if (i < count) _mm512_mask_storeu_ps(to, first, a);
    if (i + 4 < count) _mm512_mask_storeu_ps(to + 4 * c.y_step - 8, second, a);
    if (i + 8 < count) _mm512_mask_storeu_ps(to + 8 * c.y_step, first, b);
    if (i + 12 < count) {
      _mm512_mask_storeu_ps(to + 12 * c.y_step - 8, second, b);
    }
  }
}

// Neighbouring positions in a row, at most a vector of them.
struct Place {
  const float* x;
  float* y;
  int64_t count;
};

// The sums of kFilters filters, or fewer.
template <int kFilters, int kPlaces>
__attribute__((noinline)) void Tile(const ConvForward& c, const Place* places) {
  const int64_t* offset = c.in.offsets;
  const float* w = c.w;
  const float* x[kPlaces];
  __mmask16 masks[kPlaces];
#pragma GCC unroll 4
  for (int j = 0; j < kPlaces; ++j) {
    x[j] = places[j].x;
    masks[j] = FirstLanes(places[j].count);
  }
  Lanes total[kPlaces][8];
  int64_t block = c.in.first_block();
  for (int64_t remaining = c.in.taps;; remaining -= block, block = kConvBlock) {
    Lanes s[kFilters][kPlaces];
#pragma GCC unroll 8
    for (int f = 0; f < kFilters; ++f) {
#pragma GCC unroll 4
      for (int j = 0; j < kPlaces; ++j) s[f][j] = _mm512_setzero_ps();
    }
    for (int64_t n = MinOf(remaining, block); n > 0; --n) {
      const int64_t at = *offset++;
      Lanes v[kPlaces];
#pragma GCC unroll 4
      for (int j = 0; j < kPlaces; ++j) {
        v[j] = _mm512_maskz_loadu_ps(masks[j], x[j] + at);
      }
#pragma GCC unroll 8
      for (int f = 0; f < kFilters; ++f) {
        const Lanes times = _mm512_set1_ps(w[f]);
#pragma GCC unroll 4
        for (int j = 0; j < kPlaces; ++j) {
          s[f][j] = _mm512_fmadd_ps(times, v[j], s[f][j]);
        }
      }
      w += c.w_stride;
    }
#pragma GCC unroll 8
    for (int f = 0; f < kFilters; ++f) {
#pragma GCC unroll 4
      for (int j = 0; j < kPlaces; ++j) {
        total[j][f] = remaining < c.in.taps
                          ? _mm512_add_ps(total[j][f], s[f][j])
                          : s[f][j];
      }
    }
    if (remaining <= block) break;
  }
  for (int j = 0; j < kPlaces; ++j) {
    for (int f = kFilters; f < 8; ++f) total[j][f] = _mm512_setzero_ps();
    Finish(c, total[j], places[j].count, places[j].y);
  }
}

template <int kFilters, int kPlaces>
void ComputeTile(const ConvForward& c, const Place* places, int64_t count) {
  if (count == kPlaces) return Tile<kFilters, kPlaces>(c, places);
  if constexpr (kPlaces > 1)
    ComputeTile<kFilters, kPlaces - 1>(c, places, count);
}

template <int kFilters>
void ComputeForward(const ConvForward& c) {
  constexpr int kMax = kFilters == 8 ? 3 : kMaxPlaces;
  Place places[kMax];
  int64_t n = 0;
  for (int64_t r = 0; r < c.in.rows; ++r) {
    for (int64_t p = 0; p < c.in.positions; p += kLanes) {
      places[n++] = {c.in.x + r * c.in.x_row + p,
                     c.y + r * c.y_row + p * c.y_step,
                     MinOf(kLanes, c.in.positions - p)};
      if (n < kMax) continue;
      Tile<kFilters, kMax>(c, places);
      n = 0;
    }
  }
  if (n > 0) ComputeTile<kFilters, kMax>(c, places, n);
}

}  // namespace

void PlanesForwardAvx512(const ConvForward& c) {
  const auto compute = c.filters > 6   ? ComputeForward<8>
                       : c.filters > 4 ? ComputeForward<6>
                       : c.filters > 2 ? ComputeForward<4>
                                       : ComputeForward<2>;
  compute(c);
}

}  // namespace ringlet
