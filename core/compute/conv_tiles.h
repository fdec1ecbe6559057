// Tiles of sums, for the vector width of the including file.
//
// Internal to core/compute. For direct_conv.cc, which is built for several
// widths.

#ifndef RINGLET_CORE_COMPUTE_CONV_TILES_H_
#define RINGLET_CORE_COMPUTE_CONV_TILES_H_

#include "lanes.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace ringlet {
namespace {  // NOLINT: on purpose

#if defined(RINGLET_AVX512)
// Positions of a tile with two vectors, all in registers.
constexpr int kTile = 8;
constexpr int kTallTile = 16;  // with one
// Taps of a tile of gradients with one and with two vectors; kTapsOfRun if the
// taps are neighbours.
constexpr int kTaps[] = {9, 9}, kTapsOfRun[] = {16, 12};
#elif defined(RINGLET_AVX2)
constexpr int kTile = 6;
constexpr int kTallTile = 14;
constexpr int kTaps[] = {9, 6}, kTapsOfRun[] = {12, 0};
#else
#if defined(__aarch64__)
constexpr int kTile = 8;
constexpr int kTallTile = 16;
constexpr int kTaps[] = {8, 8}, kTapsOfRun[] = {16, 12};
#else
constexpr int kTile = 4;
constexpr int kTallTile = 6;
constexpr int kTaps[] = {4, 4}, kTapsOfRun[] = {0, 0};
#endif
#endif
constexpr int kShortestRun = 10;

// sum + x v, rounded once where the processor has such an instruction.
inline Lanes AddTimes(Lanes sum, Lanes x, Lanes v) {
#if defined(RINGLET_AVX512)
  return _mm512_fmadd_ps(x, v, sum);
#elif defined(RINGLET_AVX2)
  return _mm256_fmadd_ps(x, v, sum);
#elif defined(RINGLET_UNFUSED)
  return sum + x * v;
#elif defined(__aarch64__)
  return vfmaq_f32(sum, x, v);
#elif defined(__FP_FAST_FMAF)
  for (int64_t i = 0; i < kLanes; ++i) {
    sum[i] = __builtin_fmaf(x[i], v[i], sum[i]);
  }
  return sum;
#else
  return sum + x * v;
#endif
}

inline Lanes AddTimes(Lanes sum, float x, Lanes v) {
  return AddTimes(sum, x - Lanes{}, v);
}

// kTall rows by kWide vectors.
template <int kTall, int kWide>
struct Sums {
  Lanes at[kTall][kWide];

  Sums() {
#pragma GCC unroll 16
    for (int i = 0; i < kTall; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kWide; ++j) at[i][j] = Lanes{};
    }
  }
  void PutTo(Lanes* total) const {
#pragma GCC unroll 16
    for (int i = 0; i < kTall; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kWide; ++j) total[i * kWide + j] = at[i][j];
    }
  }
  void AddTo(const Lanes* total) {
#pragma GCC unroll 16
    for (int i = 0; i < kTall; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kWide; ++j) {
        at[i][j] = total[i * kWide + j] + at[i][j];
      }
    }
  }
};

}  // namespace
}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_CONV_TILES_H_
