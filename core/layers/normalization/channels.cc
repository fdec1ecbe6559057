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

void StoreScaleGradients(const OpCall& call, int64_t blocks, int64_t width,
                         int gamma, int beta) {
  for (int64_t c = 0; c < width; ++c) {
    const float* const sums = call.scratch + c;
    if (gamma >= 0) {
      call.d_weights[gamma][c] =
          static_cast<float>(SumBlocks(sums, blocks, 2 * width));
    }
    if (beta >= 0) {
      call.d_weights[beta][c] =
          static_cast<float>(SumBlocks(sums + width, blocks, 2 * width));
    }
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

Status NormalizedShape(const Layer& layer, const Shape& x, Shape* shape) {
  const auto count = static_cast<int64_t>(layer.axes.size());
  const int64_t axes = x.rank() + 1;
  bool last = count > 0 && count < axes;
  for (int64_t i = 0; i < count && last; ++i) {
    const int64_t axis = layer.axes[static_cast<size_t>(i)];
    last = (axis < 0 ? axis + axes : axis) == axes - count + i;
  }
  if (!last) {
    return InvalidArgument(
        "axis must be the last axes of the input %s in their order, as -1 or "
        "[-2, -1], and not the batch",
        x.ToString().c_str());
  }
  for (int i = x.rank() - static_cast<int>(count); i < x.rank(); ++i) {
    shape->Append(x[i]);
  }
  return Status();
}

}  // namespace ringlet
