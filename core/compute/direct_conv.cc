// Built once for any CPU and, on x86-64, once more for AVX2 and FMA and for
// AVX-512: so it may call nothing that another file could have inlined and
// share.
//
// A tile of sums stays in registers: of some positions, or of some taps, by one
// or two vectors of filters. What is left over at the end of a row of positions
// is done by a tile that begins further back, and writes some outputs twice.

#include "direct_conv.h"

#include "lanes.h"
#include "paired_conv.h"

#if defined(__GNUC__) && !defined(__clang__)
// Sums of blocks, which are read from the second block on.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace ringlet {
namespace {

#if defined(RINGLET_AVX512)
#define RINGLET_DIRECT_CONV kDirectConvAvx512
constexpr int kTile = 8;       // by two vectors, all of it in registers
constexpr int kTallTile = 16;  // by one
#elif defined(RINGLET_AVX2)
#define RINGLET_DIRECT_CONV kDirectConvAvx2
constexpr int kTile = 6;
constexpr int kTallTile = 14;
#else
#define RINGLET_DIRECT_CONV kDirectConv
#if defined(__aarch64__)
constexpr int kTile = 8;
constexpr int kTallTile = 16;
#else
constexpr int kTile = 4;
constexpr int kTallTile = 6;
#endif
#endif
// sum + x v, rounded once where the processor has such an instruction.
inline Lanes AddTimes(Lanes sum, Lanes x, Lanes v) {
#if defined(RINGLET_AVX512)
  return _mm512_fmadd_ps(x, v, sum);
#elif defined(RINGLET_AVX2)
  return _mm256_fmadd_ps(x, v, sum);
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

inline Lanes Relu(Lanes z) {
  return reinterpret_cast<Lanes>(reinterpret_cast<Mask>(z) & ~(z <= 0.0f));
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

// Adds the bias, and writes the tile: of the last vector what there is of it.
template <int kTall, int kWide>
inline void FinishTile(const ConvForward& c, int64_t f,
                       const Sums<kTall, kWide>& s, float* y) {
  const Part last(c.filters - f - (kWide - 1) * kLanes);
  // Of one vector, those that are followed by the outputs of the tile's next
  // positions.
  const int64_t whole =
      kPartsCost && kWide == 1 && c.filters < kLanes && c.y_step == c.filters
          ? kTall * c.filters - kLanes
          : -1;
#pragma GCC unroll 2
  for (int j = 0; j < kWide; ++j) {
    const Lanes plus =
        c.bias != nullptr ? Load(c.bias + f + j * kLanes) : Lanes{};
#pragma GCC unroll 16
    for (int i = 0; i < kTall; ++i) {
      Lanes z = s.at[i][j];
      if (c.bias != nullptr) z += plus;
      if (c.relu) z = Relu(z);
      float* const to = y + i * c.y_step + j * kLanes;
      if (j < kWide - 1 || i * c.filters <= whole) {
        Store(z, to);
      } else {
        last.Store(z, to);
      }
    }
  }
}

// Outputs at kTall positions from x and y on, of kWide vectors of filters.
template <int kTall, int kWide>
__attribute__((noinline)) void ForwardTile(const ConvForward& c, int64_t f,
                                           const float* x, float* y) {
  const int64_t step = c.in.x_step;
  const int64_t* offset = c.in.offsets;
  const float* w = c.w + f;
  Lanes total[kTall * kWide];
  int64_t block = c.in.first_block();
  for (int64_t left = c.in.taps;; left -= block, block = kConvBlock) {
    Sums<kTall, kWide> s;
    for (int64_t n = Smaller(left, block); n > 0; --n) {
      const float* const p = x + *offset++;
      Lanes v[kWide];
#pragma GCC unroll 2
      for (int j = 0; j < kWide; ++j) v[j] = Load(w + j * kLanes);
      w += c.w_stride;
#pragma GCC unroll 16
      for (int i = 0; i < kTall; ++i) {
        const float* const q = p + (i / 4 * 4) * step;
#pragma GCC unroll 2
        for (int j = 0; j < kWide; ++j) {
          const float* const at = q + i % 4 * step;
          s.at[i][j] = AddTimes(s.at[i][j], *at, v[j]);
        }
      }
    }
    if (left < c.in.taps) s.AddTo(total);
    if (left <= block) return FinishTile(c, f, s, y + f);
    s.PutTo(total);
  }
}

// Writes outputs from x and y on, of a vector or two of filters from `f` on.
using Tile = void (*)(const ConvForward& c, int64_t f, const float* x,
                      float* y);

// The positions of all rows in tiles of `tall`; the last of a row begins
// further back. Of filters [begin, end), `wide` at a time.
__attribute__((noinline)) void ForEachTile(const ConvForward& c, int64_t begin,
                                           int64_t end, int64_t wide,
                                           int64_t tall, Tile tile) {
  for (int64_t r = 0; r < c.in.rows; ++r) {
    const float* const x = c.in.x + r * c.in.x_row;
    float* const y = c.y + r * c.y_row;
    for (int64_t f = begin; f < end; f += wide) {
      for (int64_t p = 0; p < c.in.positions; p += tall) {
        p = Smaller(p, c.in.positions - tall);
        tile(c, f, x + p * c.in.x_step, y + p * c.y_step);
      }
    }
  }
}

// Tiles of as many positions as share a row among the fewest tiles, of those
// heights that there are: 1, even ones, and of two vectors 5, for rows of 10.
template <int kMost, int kWide>
void ForwardPanel(const ConvForward& c, int64_t f) {
  constexpr int kLess =
      kMost == 5 || (kMost == 6 && kWide == 2) ? kMost - 1 : kMost - 2;
  const int64_t positions = c.in.positions;
  const int64_t tiles = (positions + kMost - 1) / kMost;
  const int64_t tall = (positions + tiles - 1) / tiles;
  if constexpr (kMost > 2) {
    if (tall <= kLess || positions < kMost) {
      return ForwardPanel<kLess, kWide>(c, f);
    }
  } else if (positions == 1) {
    return ForEachTile(c, f, f + 1, 1, 1, ForwardTile<1, kWide>);
  }
  ForEachTile(c, f, f + 1, 1, kMost, ForwardTile<kMost, kWide>);
}

void Forward(const ConvForward& c) {
  int64_t f = 0;
  for (; f + kLanes < c.filters; f += 2 * kLanes) {
    ForwardPanel<kTile, 2>(c, f);
  }
  if (f < c.filters) ForwardPanel<kTallTile, 1>(c, f);
}

// A vector of filters at kTall positions.
template <int kTall>
void DepthwiseTile(const ConvForward& c, int64_t f, const float* x, float* y) {
  const int64_t step = c.in.x_step;
  const float* w = c.w + f;
  Lanes s[kTall];
#pragma GCC unroll 16
  for (int i = 0; i < kTall; ++i) s[i] = Lanes{};
  for (int64_t k = 0; k < c.in.taps; ++k, w += c.w_stride) {
    const float* const p = x + f + c.in.offsets[k];
    const Lanes v = Load(w);
#pragma GCC unroll 16
    for (int i = 0; i < kTall; ++i) {
      s[i] = AddTimes(s[i], Load(p + i / 4 * 4 * step + i % 4 * step), v);
    }
  }
  const Lanes plus = c.bias != nullptr ? Load(c.bias + f) : Lanes{};
  const Part here(c.filters - f);
#pragma GCC unroll 16
  for (int i = 0; i < kTall; ++i) {
    float* const to = y + f + i * c.y_step;
    Lanes z = c.bias != nullptr ? s[i] + plus : s[i];
    if (c.relu) z = Relu(z);
    here.Store(z, to);
  }
}

// All rows, in tiles of as many positions as share a row among the fewest.
template <int kMost>
void DepthwiseOf(const ConvForward& c) {
  const int64_t positions = c.in.positions;
  const int64_t tiles = (positions + kMost - 1) / kMost;
  if constexpr (kMost > 1) {
    if ((positions + tiles - 1) / tiles < kMost) {
      return DepthwiseOf<kMost - 1>(c);
    }
  }
  ForEachTile(c, 0, c.filters, kLanes, kMost, DepthwiseTile<kMost>);
}

void Depthwise(const ConvForward& c) { DepthwiseOf<kTile>(c); }

// Rows of `n` floats, or as many as are `wide` vectors.
__attribute__((noinline)) void AddRows(const Lanes* sums, int64_t rows,
                                       int64_t wide, int64_t n, bool adds,
                                       float* to, int64_t step) {
  for (int64_t i = 0; i < rows; ++i, sums += wide, to += step) {
    for (int64_t j = 0; j < wide; ++j) {
      const Part here(n - j * kLanes);
      Lanes z = sums[j];
      if (adds) z = here.Load(to + j * kLanes) + z;
      here.Store(z, to + j * kLanes);
    }
  }
}

// Gradients of up to kTall taps, from `k` on, of a block of positions.
template <int kTall, int kWide, bool kEach>
__attribute__((noinline)) void GradientTile(const ConvGradient& c, int64_t k,
                                            int64_t f, int64_t begin,
                                            int64_t end, bool adds) {
  const int64_t step = c.in.x_step, positions = c.in.positions;
  const int64_t taps = Smaller(kTall, c.in.taps - k);
  int64_t offset[kTall];
  for (int64_t i = 0; i < kTall; ++i) {
    offset[i] = c.in.offsets[k + (i < taps ? i : 0)];
  }
  const Part last(c.filters - f - (kWide - 1) * kLanes);
  Sums<kTall, kWide> s;
  const float* d = c.dy + begin * c.dy_step + f;
  int64_t r = begin / positions, p = begin % positions;
  for (int64_t left = end - begin; left > 0; ++r, p = 0) {
    const float* const row =
        c.in.x + r * c.in.x_row + p * step + (kEach ? f : 0);
    const float* x[kTall];
#pragma GCC unroll 16
    for (int i = 0; i < kTall; ++i) x[i] = row + offset[i];
    const int64_t n = Smaller(left, positions - p);
    left -= n;
    for (int64_t at = 0; at < n * step; at += step, d += c.dy_step) {
      Lanes v[kWide];
#pragma GCC unroll 2
      for (int j = 0; j < kWide - 1; ++j) v[j] = Load(d + j * kLanes);
      v[kWide - 1] = last.Load(d + (kWide - 1) * kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < kTall; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kWide; ++j) {
          s.at[i][j] = kEach ? AddTimes(s.at[i][j], Load(x[i] + at), v[j])
                             : AddTimes(s.at[i][j], x[i][at], v[j]);
        }
      }
    }
  }
  Lanes sums[kTall * kWide];
  s.PutTo(sums);
  AddRows(sums, taps, kWide, c.filters - f, adds, c.dw + k * c.dw_stride + f,
          c.dw_stride);
}

template <int kWide>
void GradientPanel(const ConvGradient& c, int64_t f, int64_t begin, int64_t end,
                   bool adds) {
  constexpr int kTall = kWide == 1 && kPartsCost ? 9 : kTile;
  for (int64_t k = 0; k < c.in.taps;) {
    const int64_t left = c.in.taps - k;
    if (left > kTall / 2) {
      GradientTile<kTall, kWide, false>(c, k, f, begin, end, adds);
      k += kTall;
    } else if (left > 1) {
      GradientTile<kTall / 2, kWide, false>(c, k, f, begin, end, adds);
      k += kTall / 2;
    } else {
      GradientTile<1, kWide, false>(c, k++, f, begin, end, adds);
    }
  }
}

// body(begin, end, adds) for each block of positions.
template <typename Body>
inline void ForEachBlock(const ConvGradient& c, const Body& body) {
  const int64_t positions = c.in.rows * c.in.positions;
  for (int64_t begin = 0; begin < positions; begin += kConvBlock) {
    body(begin, Smaller(positions, begin + kConvBlock), c.adds || begin > 0);
  }
}

void Gradient(const ConvGradient& c) {
  ForEachBlock(c, [&](int64_t begin, int64_t end, bool adds) {
    int64_t f = 0;
    for (; f + kLanes < c.filters; f += 2 * kLanes) {
      GradientPanel<2>(c, f, begin, end, adds);
    }
    if (f < c.filters) GradientPanel<1>(c, f, begin, end, adds);
  });
}

void DepthwiseGradient(const ConvGradient& c) {
  ForEachBlock(c, [&](int64_t begin, int64_t end, bool adds) {
    for (int64_t f = 0; f < c.filters; f += kLanes) {
      for (int64_t k = 0; k < c.in.taps; k += 9) {  // the usual 3 x 3
        GradientTile<9, 1, true>(c, k, f, begin, end, adds);
      }
    }
  });
}

}  // namespace

extern const DirectConv RINGLET_DIRECT_CONV = {kLanes, Forward, Gradient,
                                               Depthwise, DepthwiseGradient};

}  // namespace ringlet
