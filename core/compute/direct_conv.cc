// Built once for any CPU and, on x86-64, again for AVX2 with FMA and for
// AVX-512. So it may not call functions that another file could inline and
// share.
//
// A tile of sums stays in registers: some positions, or some taps, by one or
// two vectors of filters. The rest at the end of a row of positions is computed
// by a tile that begins earlier, and writes some outputs twice.

#include "direct_conv.h"

#include "conv_tiles.h"
#include "paired_conv.h"

#if defined(__GNUC__) && !defined(__clang__)
// Sums of blocks, which are read from the second block on.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace ringlet {
namespace {

#if defined(RINGLET_AVX512)
#define RINGLET_DIRECT_CONV kDirectConvAvx512
#elif defined(RINGLET_AVX2)
#define RINGLET_DIRECT_CONV kDirectConvAvx2
#elif defined(RINGLET_UNFUSED)
#define RINGLET_DIRECT_CONV kDirectConvUnfused
#else
#define RINGLET_DIRECT_CONV kDirectConv
#endif

inline Lanes Relu(Lanes z) {
  return reinterpret_cast<Lanes>(reinterpret_cast<Mask>(z) & ~(z <= 0.0f));
}

// Adds the bias and writes the tile; of the last vector only the existing
// filters.
template <int kTall, int kWide>
inline void FinishTile(const ConvForward& c, int64_t f,
                       const Sums<kTall, kWide>& s, float* y) {
  const PartialVector last(c.filters - f - (kWide - 1) * kLanes);
  // Whole vectors may be stored up to this output, since the next positions of
  // the tile overwrite their ends.
  const int64_t whole = kSlowPartialStores && kWide == 1 &&
                                c.filters < kLanes && c.y_step == c.filters
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

// Computes outputs at kTall positions from x and y on, for kWide vectors of
// filters.
template <int kTall, int kWide>
__attribute__((noinline)) void ForwardTile(const ConvForward& c, int64_t f,
                                           const float* x, float* y) {
  const int64_t step = c.in.x_step;
  const int64_t* offset = c.in.offsets;
  const float* w = c.w + f;
  Lanes total[kTall * kWide];
  int64_t block = c.in.first_block();
  for (int64_t remaining = c.in.taps;; remaining -= block, block = kConvBlock) {
    Sums<kTall, kWide> s;
    for (int64_t n = MinOf(remaining, block); n > 0; --n) {
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
    if (remaining < c.in.taps) s.AddTo(total);
    if (remaining <= block) return FinishTile(c, f, s, y + f);
    s.PutTo(total);
  }
}

// Writes outputs from x and y on, for one or two vectors of filters from `f`
// on.
using Tile = void (*)(const ConvForward& c, int64_t f, const float* x,
                      float* y);

// Covers the positions of all rows with tiles of `tall`. The last tile of a row
// begins earlier. Processes filters [begin, end), `wide` at a time.
__attribute__((noinline)) void ForEachTile(const ConvForward& c, int64_t begin,
                                           int64_t end, int64_t wide,
                                           int64_t tall, Tile tile) {
  for (int64_t r = 0; r < c.in.rows; ++r) {
    const float* const x = c.in.x + r * c.in.x_row;
    float* const y = c.y + r * c.y_row;
    for (int64_t f = begin; f < end; f += wide) {
      for (int64_t p = 0; p < c.in.positions; p += tall) {
        p = MinOf(p, c.in.positions - tall);
        tile(c, f, x + p * c.in.x_step, y + p * c.y_step);
      }
    }
  }
}

// Chooses the fewest tiles for a row, with equal numbers of positions. Heights
// are 1, even numbers and, for two vectors, 5, for rows of 10.
template <int kMax, int kWide>
void ForwardPanel(const ConvForward& c, int64_t f) {
  constexpr int kLess =
      kMax == 5 || (kMax == 6 && kWide == 2) ? kMax - 1 : kMax - 2;
  const int64_t positions = c.in.positions;
  const int64_t tiles = (positions + kMax - 1) / kMax;
  const int64_t tall = (positions + tiles - 1) / tiles;
  if constexpr (kMax > 2) {
    if (tall <= kLess || positions < kMax) {
      return ForwardPanel<kLess, kWide>(c, f);
    }
  } else if (positions == 1) {
    return ForEachTile(c, f, f + 1, 1, 1, ForwardTile<1, kWide>);
  }
  ForEachTile(c, f, f + 1, 1, kMax, ForwardTile<kMax, kWide>);
}

void Forward(const ConvForward& c) {
  int64_t f = 0;
  for (; f + kLanes < c.filters; f += 2 * kLanes) {
    ForwardPanel<kTwoVectorPositions, 2>(c, f);
  }
  if (f < c.filters) ForwardPanel<kOneVectorPositions, 1>(c, f);
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
  const PartialVector part(c.filters - f);
#pragma GCC unroll 16
  for (int i = 0; i < kTall; ++i) {
    float* const to = y + f + i * c.y_step;
    Lanes z = c.bias != nullptr ? s[i] + plus : s[i];
    if (c.relu) z = Relu(z);
    part.Store(z, to);
  }
}

// Computes all rows, with the fewest tiles of equal numbers of positions.
template <int kMax>
void ComputeDepthwise(const ConvForward& c) {
  const int64_t positions = c.in.positions;
  const int64_t tiles = (positions + kMax - 1) / kMax;
  if constexpr (kMax > 1) {
    if ((positions + tiles - 1) / tiles < kMax) {
      return ComputeDepthwise<kMax - 1>(c);
    }
  }
  ForEachTile(c, 0, c.filters, kLanes, kMax, DepthwiseTile<kMax>);
}

void Depthwise(const ConvForward& c) {
  ComputeDepthwise<kTwoVectorPositions>(c);
}

// Adds rows of `n` floats, at most `wide` vectors.
__attribute__((noinline)) void AddRows(const Lanes* sums, int64_t rows,
                                       int64_t wide, int64_t n, bool adds,
                                       float* to, int64_t step) {
  for (int64_t i = 0; i < rows; ++i, sums += wide, to += step) {
    for (int64_t j = 0; j < wide; ++j) {
      const PartialVector part(n - j * kLanes);
      Lanes z = sums[j];
      if (adds) z = part.Load(to + j * kLanes) + z;
      part.Store(z, to + j * kLanes);
    }
  }
}

// The places of the taps of a tile: anywhere, next to each other, or for each
// filter in the filter's own channel.
enum class Taps { kAnywhere, kSideBySide, kOfEach };

// A range of positions. If `adds`, its sums are added to the sums of earlier
// blocks.
struct Block {
  int64_t begin, end;
  bool adds;
};

// Gradients of up to kTall taps from `k` on, for a block of positions. With
// kSums it also adds to c.sums.
template <int kTall, int kWide, Taps kTaps, bool kSums = false>
__attribute__((noinline)) void GradientTile(const ConvGradient& c,
                                            const Block& block, int64_t k,
                                            int64_t f) {
  // NOLINTNEXTLINE(bugprone-branch-clone): kTall may be 1
  constexpr int kPlaces = kTaps == Taps::kSideBySide ? 1 : kTall;
  const int64_t step = c.in.x_step, positions = c.in.positions;
  const int64_t taps = MinOf(kTall, c.in.taps - k);
  int64_t offset[kPlaces];
  for (int64_t i = 0; i < kPlaces; ++i) {
    offset[i] = c.in.offsets[k + (i < taps ? i : 0)];
  }
  const PartialVector last(c.filters - f - (kWide - 1) * kLanes);
  Sums<kTall, kWide> s;
  Lanes dy_sums[kWide];
#pragma GCC unroll 2
  for (int j = 0; j < kWide && kSums; ++j) {
    dy_sums[j] =
        PartialVector(c.filters - f - j * kLanes).Load(c.sums + f + j * kLanes);
  }
  const float* d = c.dy + block.begin * c.dy_step + f;
  int64_t r = block.begin / positions, p = block.begin % positions;
  for (int64_t remaining = block.end - block.begin; remaining > 0; ++r, p = 0) {
    const float* const row =
        c.in.x + r * c.in.x_row + p * step + (kTaps == Taps::kOfEach ? f : 0);
    const float* x[kPlaces];
#pragma GCC unroll 16
    for (int i = 0; i < kPlaces; ++i) x[i] = row + offset[i];
    const int64_t n = MinOf(remaining, positions - p);
    remaining -= n;
    for (int64_t at = 0; at < n * step; at += step, d += c.dy_step) {
      Lanes v[kWide];
#pragma GCC unroll 2
      for (int j = 0; j < kWide - 1; ++j) v[j] = Load(d + j * kLanes);
      v[kWide - 1] = last.Load(d + (kWide - 1) * kLanes);
#pragma GCC unroll 2
      for (int j = 0; j < kWide && kSums; ++j) dy_sums[j] += v[j];
#pragma GCC unroll 16
      for (int i = 0; i < kTall; ++i) {
        const float* const q = x[i % kPlaces] + at + i / kPlaces;
#pragma GCC unroll 2
        for (int j = 0; j < kWide; ++j) {
          s.at[i][j] = kTaps == Taps::kOfEach
                           ? AddTimes(s.at[i][j], Load(q), v[j])
                           : AddTimes(s.at[i][j], *q, v[j]);
        }
      }
    }
  }
  Lanes sums[kTall * kWide];
  s.PutTo(sums);
  AddRows(sums, taps, kWide, c.filters - f, block.adds,
          c.dw + k * c.dw_stride + f, c.dw_stride);
  if (kSums)
    AddRows(dy_sums, 1, kWide, c.filters - f, /*adds=*/false, c.sums + f, 0);
}

// Computes the first of `run` neighbouring taps, with the fewest tiles of even
// heights. Returns their number.
template <int kMax, int kWide>
int64_t GradientOfRun(const ConvGradient& c, const Block& block, int64_t k,
                      int64_t f, int64_t run) {
  const int64_t tiles = (run + kMax - 1) / kMax;
  if constexpr (kMax - 2 >= kShortestRun) {
    if ((run + tiles - 1) / tiles <= kMax - 2 || run < kMax) {
      return GradientOfRun<kMax - 2, kWide>(c, block, k, f, run);
    }
  }
  GradientTile<kMax, kWide, Taps::kSideBySide>(c, block, k, f);
  return kMax;
}

// Returns the number of neighbouring taps from k on.
inline int64_t RunFrom(const ConvWindows& in, int64_t k) {
  int64_t n = 1;
  while (k + n < in.taps && in.offsets[k + n] == in.offsets[k] + n) ++n;
  return n;
}

// Computes some of the `remaining` taps from k on, at any places, with the
// fewest tiles. Returns their number.
template <int kWide>
int64_t GradientOfAny(const ConvGradient& c, const Block& block, int64_t k,
                      int64_t f, int64_t remaining) {
  constexpr int kMax = kGradientTaps[kWide - 1];
  const int64_t tiles = (remaining + kMax - 1) / kMax;
  const int64_t each = (remaining + tiles - 1) / tiles;
  const auto compute_tile = [&](auto tile, int64_t taps) {
    tile(c, block, k, f);
    return taps;
  };
  if (each == kMax) {
    return compute_tile(GradientTile<kMax, kWide, Taps::kAnywhere>, kMax);
  }
  if (each > kMax / 2) {
    return compute_tile(GradientTile<kMax - 1, kWide, Taps::kAnywhere>,
                        kMax - 1);
  }
  if (each > 1) {
    return compute_tile(GradientTile<kMax / 2, kWide, Taps::kAnywhere>,
                        kMax / 2);
  }
  return compute_tile(GradientTile<1, kWide, Taps::kAnywhere>, 1);
}

template <int kWide>
void GradientPanel(const ConvGradient& c, const Block& block, int64_t f) {
  constexpr int kMax = kGradientTaps[kWide - 1],
                kLongest = kGradientRunTaps[kWide - 1];
  int64_t k = 0;
  if (c.sums != nullptr) {
    GradientTile<kMax, kWide, Taps::kAnywhere, true>(c, block, k, f);
    k += kMax;
  }
  while (k < c.in.taps) {
    const int64_t run = kLongest > 0 ? RunFrom(c.in, k) : 0;
    if constexpr (kLongest > 0) {
      if (run >= kShortestRun) {
        k += GradientOfRun<kLongest, kWide>(c, block, k, f, run);
        continue;
      }
    }
    k += GradientOfAny<kWide>(c, block, k, f, c.in.taps - k);
  }
}

// Calls body(block) for each block of positions.
template <typename Body>
inline void ForEachBlock(const ConvGradient& c, const Body& body) {
  const int64_t positions = c.in.rows * c.in.positions;
  for (int64_t begin = 0; begin < positions; begin += kConvBlock) {
    body(Block{begin, MinOf(positions, begin + kConvBlock),
               c.adds || begin > 0});
  }
}

void Gradient(const ConvGradient& c) {
  ForEachBlock(c, [&](const Block& block) {
    int64_t f = 0;
    for (; f + kLanes < c.filters; f += 2 * kLanes) {
      GradientPanel<2>(c, block, f);
    }
    if (f < c.filters) GradientPanel<1>(c, block, f);
  });
}

void DepthwiseGradient(const ConvGradient& c) {
  ForEachBlock(c, [&](const Block& block) {
    for (int64_t f = 0; f < c.filters; f += kLanes) {
      for (int64_t k = 0; k < c.in.taps; k += 9) {  // the usual 3 x 3
        GradientTile<9, 1, Taps::kOfEach>(c, block, k, f);
      }
    }
  });
}

}  // namespace

extern const DirectConv RINGLET_DIRECT_CONV = {kLanes, Forward, Gradient,
                                               Depthwise, DepthwiseGradient};

}  // namespace ringlet
