// Loops over rows of channels: what the normalizations share.
//
// Internal to core/. A span of rows of `width` floats is cut into tiles, whose
// places follow from its shape alone; sums of a tile, and of tiles, are taken
// in a fixed order, so the bits do not depend on the threads.

#ifndef RINGLET_CORE_LAYERS_CHANNELS_H_
#define RINGLET_CORE_LAYERS_CHANNELS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../base/thread_pool.h"
#include "../compute/row_loops.h"
#include "custom_layer.h"
#include "kernels.h"

namespace ringlet {

constexpr int64_t kTileRows = 128;
constexpr int64_t kTileWidth = 256;

// Rows and channels [begin, end) of one tile, and which rows' it is.
struct Tile {
  int64_t block;
  Range rows, channels;

  // Where it begins.
  int64_t At(int64_t width) const {
    return rows.begin * width + channels.begin;
  }
};

inline RowsOfFloats RowsOf(const Tile& tile, int64_t width) {
  return {tile.rows.size(), tile.channels.size(), width};
}

constexpr int64_t TileBlocks(int64_t rows) {
  return (rows + kTileRows - 1) / kTileRows;
}

// On all threads.
template <typename Body>
void ForEachTile(ThreadPool* pool, int64_t rows, int64_t width,
                 const Body& body) {
  const int64_t across = (width + kTileWidth - 1) / kTileWidth;
  const int64_t tiles = TileBlocks(rows) * across;
  pool->Run([&](int t) {
    const Range mine = Split(tiles, pool->threads(), t);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      const int64_t block = i / across, column = i % across * kTileWidth;
      body(Tile{block,
                {block * kTileRows, std::min(rows, (block + 1) * kTileRows)},
                {column, std::min(width, column + kTileWidth)}});
    }
  });
}

// sums[c] = the sum of term(row * width + c, c) over the tile's rows, for the
// `n` channels from `channels.begin` on, c counted from there.
template <typename Term>
void SumTile(const Tile& tile, int64_t width, const Term& term, float* to) {
  float sums[kTileWidth] = {};
  const int64_t n = tile.channels.size();
  int64_t row = tile.rows.begin;
  for (; row + 4 <= tile.rows.end; row += 4) {
    const int64_t at = row * width + tile.channels.begin;
    for (int64_t c = 0; c < n; ++c) {
      sums[c] += (term(at + c, c) + term(at + width + c, c)) +
                 (term(at + 2 * width + c, c) + term(at + 3 * width + c, c));
    }
  }
  for (; row < tile.rows.end; ++row) {
    const int64_t at = row * width + tile.channels.begin;
    for (int64_t c = 0; c < n; ++c) sums[c] += term(at + c, c);
  }
  std::copy_n(sums, n, to);
}

// dx = gradient(row * width + c, c) for the tile, c as above, times that of the
// activation that made x. dx may be x: nothing of it is read after it was
// written.
template <typename Gradient>
void WriteGradients(const Tile& tile, int64_t width, Activation x_activation,
                    const float* x, const Gradient& gradient, float* dx) {
  constexpr int64_t kFloats = 4 * kTileWidth;
  float d[kFloats];
  const int64_t n = tile.channels.size();
  // Whole rows stand one after another.
  const int64_t together = n == width ? std::max<int64_t>(1, kFloats / n) : 1;
  for (int64_t row = tile.rows.begin; row < tile.rows.end; row += together) {
    const int64_t rows = std::min(together, tile.rows.end - row);
    const int64_t at = row * width + tile.channels.begin;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < n; ++c) {
        d[r * n + c] = gradient(at + r * width + c, c);
      }
    }
    ActivationGradient(x_activation, x + at, rows, n, d);
    std::copy_n(d, rows * n, dx + at);
  }
}

// Of partial sums, block after block of `stride` floats.
inline double SumBlocks(const float* partial, int64_t blocks, int64_t stride) {
  double sum = 0;
  for (int64_t b = 0; b < blocks; ++b) sum += double{partial[b * stride]};
  return sum;
}

// Appends gamma and beta of this shape, as far as the layer has them; *gamma
// and *beta become their numbers, or -1.
void AddGammaAndBeta(const Layer& layer, const Shape& shape,
                     std::vector<WeightSpec>* weights, int* gamma, int* beta);

// y = (x - minus) * times + plus, each by channel; y may be x.
void AffineRows(ThreadPool* pool, const float* x, int64_t rows, int64_t width,
                const float* minus, const float* times, const float* plus,
                float* y);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_CHANNELS_H_
