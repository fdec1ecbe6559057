#include "channels.h"

namespace ringlet {
void AddGammaAndBeta(const Layer& layer, const Shape& shape,
                     std::vector<WeightSpec>* weights, int* gamma, int* beta) {
  *gamma = *beta = -1;
  if (layer.scale) {
    *gamma = static_cast<int>(weights->size());
    weights->push_back({"gamma", shape, layer.gamma_initializer,
                        layer.gamma_regularizer, layer.gamma_constraint});
  }
  if (layer.center) {
    *beta = static_cast<int>(weights->size());
    weights->push_back({"beta", shape, layer.beta_initializer,
                        layer.beta_regularizer, layer.beta_constraint});
  }
}

void AffineRows(ThreadPool* pool, const float* x, int64_t rows, int64_t width,
                const float* center, const float* scale, const float* offset,
                float* y) {
  ForEachTile(pool, rows, width, [&](const Tile& tile) {
    const int64_t begin = tile.channels.begin;
    BestRowLoops().affine(RowsOf(tile, width), x + tile.At(width),
                          center + begin, scale + begin, offset + begin,
                          y + tile.At(width));
  });
}

}  // namespace ringlet
