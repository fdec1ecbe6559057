// Loops over rows of channels, which the normalizations share.
//
// A span of rows of `width` floats is cut into tiles. The cuts depend only on
// the span's shape. Sums within a tile and of tiles have a fixed order, so the
// bits do not depend on the threads.

#ifndef RINGLET_CORE_LAYERS_NORMALIZATION_CHANNELS_H_
#define RINGLET_CORE_LAYERS_NORMALIZATION_CHANNELS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../../compute/row_loops.h"
#include "../layer_loops.h"
#include "../op.h"
#include "ringlet/compute.h"
#include "ringlet/custom_layer.h"

namespace ringlet {

constexpr int64_t kTileRows = 128;
constexpr int64_t kTileWidth = 256;

// The rows and channels of one tile, and the index of its block of rows.
struct Tile {
  int64_t block;
  Range rows, channels;

  // The offset of its first float.
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

// Calls `body` for each tile, on all threads.
template <typename Body>
void ForEachTile(ThreadPool* pool, int64_t rows, int64_t width,
                 const Body& body) {
  const int64_t across = (width + kTileWidth - 1) / kTileWidth;
  const int64_t tiles = TileBlocks(rows) * across;
  pool->Run([&](int t) {
    const Range range = Split(tiles, pool->threads(), t);
    for (int64_t i = range.begin; i < range.end; ++i) {
      const int64_t block = i / across, column = i % across * kTileWidth;
      body(Tile{block,
                {block * kTileRows, std::min(rows, (block + 1) * kTileRows)},
                {column, std::min(width, column + kTileWidth)}});
    }
  });
}

// to[c] = the sum over the tile's rows of term(offset, c). `offset` is the
// offset of the element in the span, c counts the tile's channels from 0.
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

// dx = gradient(row * width + c, c) for the tile, times the gradient of the
// activation that made x. It may overwrite x: each element is read before it is
// written.
template <typename Gradient>
void WriteGradients(const Tile& tile, int64_t width, Activation x_activation,
                    const float* x, const Gradient& gradient, float* dx) {
  constexpr int64_t kFloats = 4 * kTileWidth;
  float d[kFloats];
  const int64_t n = tile.channels.size();
  // Complete rows are contiguous.
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

// The sum of partial sums at a distance of `stride` floats.
inline double SumBlocks(const float* partial, int64_t blocks, int64_t stride) {
  double sum = 0;
  for (int64_t b = 0; b < blocks; ++b) sum += double{partial[b * stride]};
  return sum;
}

// Writes the gradients of the gamma and the beta that the layer has. The
// scratch has their sums over each block of rows: `width` for gamma, then for
// beta.
void StoreScaleGradients(const OpCall& call, int64_t blocks, int64_t width,
                         int gamma, int beta);

// Appends the gamma and the beta that the layer has, with this shape. *gamma
// and *beta become their indices, or -1.
void AddGammaAndBeta(const Layer& layer, const Shape& shape,
                     std::vector<WeightSpec>* weights, int* gamma, int* beta);

// Finds the shape of the layer's axes in x. The axes count the batch, and must
// be the last ones of x, in order.
Status NormalizedShape(const Layer& layer, const Shape& x, Shape* shape);

// y = (x - center) * scale + offset, for each channel. y may be x.
void AffineRows(ThreadPool* pool, const float* x, int64_t rows, int64_t width,
                const float* center, const float* scale, const float* offset,
                float* y);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_NORMALIZATION_CHANNELS_H_
