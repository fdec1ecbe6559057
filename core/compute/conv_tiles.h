// Tiles of sums, for the vector width of the including file.
//
// For direct_conv.cc, which is built for several widths.

#ifndef RINGLET_CORE_COMPUTE_CONV_TILES_H_
#define RINGLET_CORE_COMPUTE_CONV_TILES_H_

#include "lanes.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace ringlet {
namespace {  // NOLINT: on purpose

// The sums of a tile stay in registers:
// - kTwoVectorPositions: positions of a tile that has two vectors of filters.
// - kOneVectorPositions: positions of a tile that has one.
// - kGradientTaps: taps of a tile of gradients, with one and with two vectors.
// - kGradientRunTaps: the same, if the taps are neighbours; zero if none.
// NOLINTBEGIN(misc-definitions-in-headers)
#if defined(RINGLET_AVX512)
constexpr int kTwoVectorPositions = 8;
constexpr int kOneVectorPositions = 16;
constexpr int kGradientTaps[] = {9, 9}, kGradientRunTaps[] = {16, 12};
#elif defined(RINGLET_AVX2)
constexpr int kTwoVectorPositions = 6;
constexpr int kOneVectorPositions = 14;
constexpr int kGradientTaps[] = {9, 6}, kGradientRunTaps[] = {12, 0};
#else
#if defined(__aarch64__)
constexpr int kTwoVectorPositions = 8;
constexpr int kOneVectorPositions = 16;
constexpr int kGradientTaps[] = {8, 8}, kGradientRunTaps[] = {16, 12};
#else
constexpr int kTwoVectorPositions = 4;
constexpr int kOneVectorPositions = 6;
constexpr int kGradientTaps[] = {4, 4}, kGradientRunTaps[] = {0, 0};
#endif
#endif
constexpr int kShortestRun = 10;
// NOLINTEND(misc-definitions-in-headers)

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

// The sums of a tile of kTall rows by kWide vectors.
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
