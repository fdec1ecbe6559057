// LayerNormalization over the last axes.
//
// A row is the elements that share one mean and one variance. Forward in
// training leaves (mean, 1 / sqrt(variance + epsilon)) of each row in
// OpCall::saved. The sums over a row are lane sums (sums.h). The gradients of
// gamma and beta are sums of tiles (channels.h). Neither depends on the
// threads.

#include <cmath>
#include <vector>

#include "../../compute/sums.h"
#include "../layer_kind.h"
#include "channels.h"

namespace ringlet {
namespace {

class LayerNormalizationOp final : public Op {
 public:
  LayerNormalizationOp(const Layer& layer, const Shape& x, const Shape& shape)
      : width_(shape.elements()),
        rows_(x.elements() / width_),
        epsilon_(layer.epsilon) {
    output_ = x;
    AddGammaAndBeta(layer, shape, &weights_, &gamma_, &beta_);
  }

  bool backward_reads_input() const override { return true; }
  bool dx_may_overwrite_x() const override { return true; }
  Recompute recompute() const override { return Recompute::kCheap; }
  uint64_t saved_floats(int64_t batch) const override {
    return static_cast<uint64_t>(2 * batch * rows_);
  }
  // Sums for each block of rows, for gamma and for beta.
  uint64_t backward_scratch(int64_t batch, int) const override {
    return static_cast<uint64_t>(frozen() ? 0 : 2 * Blocks(batch) * width_);
  }

  void Forward(const OpCall& call) const override {
    const float* const gamma = Weight(call, gamma_);
    const float* const beta = Weight(call, beta_);
    ForEachIndex(call, call.batch * rows_, [&](int64_t row) {
      const float* const __restrict x = call.x[0] + row * width_;
      float* const __restrict y = call.y + row * width_;
      float mean, inverse;
      Moments(x, &mean, &inverse);
      for (int64_t i = 0; i < width_; ++i) y[i] = (x[i] - mean) * inverse;
      if (gamma != nullptr) {
        for (int64_t i = 0; i < width_; ++i) y[i] *= gamma[i];
      }
      if (beta != nullptr) AddTo(beta, width_, y);
      if (!call.training || call.saved == nullptr) return;
      call.saved[2 * row] = mean;
      call.saved[2 * row + 1] = inverse;
    });
  }

  // dx over x comes last, since the weights' gradients read x.
  void Backward(const OpCall& call) const override {
    const bool trains = !frozen() && !weights_.empty();
    if (trains) WeightGradients(call);
    if (call.dx[0] != nullptr) {
      ForEachIndex(call, call.batch * rows_,
                   [&](int64_t row) { InputGradient(call, row); });
    }
    if (trains) call.sink->OnGradientsFinal(call.gradient_offset);
  }

 private:
  int64_t Blocks(int64_t batch) const { return TileBlocks(batch * rows_); }
  const float* Weight(const OpCall& call, int weight) const {
    return weight < 0 ? nullptr : call.weights[weight];
  }

  // The mean is relative to the first element, so equal elements have no
  // variance.
  void Moments(const float* x, float* mean, float* inverse) const {
    const auto n = static_cast<double>(width_);
    const float first = x[0];
    const auto m =
        static_cast<float>(first + LaneSum<float>(width_, [=](int64_t i) {
                                     return x[i] - first;
                                   }) / n);
    const double variance =
        LaneSum<float>(width_,
                       [=](int64_t i) { return (x[i] - m) * (x[i] - m); }) /
        n;
    *mean = m;
    *inverse = static_cast<float>(1 / std::sqrt(variance + double{epsilon_}));
  }

  void WeightGradients(const OpCall& call) const {
    const int64_t stride = 2 * width_;
    const float* const x = call.x[0];
    const float* const dy = call.dy;
    ForEachTile(call.pool, call.batch * rows_, width_, [&](const Tile& tile) {
      // Goes through the tile row by row, so that a row's numbers are read
      // once.
      float gammas[kTileWidth] = {}, betas[kTileWidth] = {};
      const int64_t n = tile.channels.size();
      for (int64_t row = tile.rows.begin; row < tile.rows.end; ++row) {
        const int64_t at = row * width_ + tile.channels.begin;
        const float mean = call.saved[2 * row],
                    inverse = call.saved[2 * row + 1];
        for (int64_t c = 0; c < n; ++c) {
          gammas[c] += dy[at + c] * ((x[at + c] - mean) * inverse);
          betas[c] += dy[at + c];
        }
      }
      float* const to =
          call.scratch + tile.block * stride + tile.channels.begin;
      std::copy_n(gammas, n, to);
      std::copy_n(betas, n, to + width_);
    });
    StoreScaleGradients(call, Blocks(call.batch), width_, gamma_, beta_);
  }

  // (g - mean(g) - x^ mean(g x^)) / s, where g = gamma dy, x^ = (x - mean) / s.
  void InputGradient(const OpCall& call, int64_t row) const {
    const float* const x = call.x[0] + row * width_;
    float* const dy = call.dy + row * width_;
    const float* const gamma = Weight(call, gamma_);
    const float mean = call.saved[2 * row], inverse = call.saved[2 * row + 1];
    if (gamma != nullptr) {
      for (int64_t i = 0; i < width_; ++i) dy[i] *= gamma[i];
    }
    const auto n = static_cast<double>(width_);
    const double sum = LaneSum<float>(width_, [=](int64_t i) { return dy[i]; });
    const double product = LaneSum<float>(
        width_, [=](int64_t i) { return dy[i] * (x[i] - mean); });
    const auto x_factor =
        static_cast<float>(-product * inverse * inverse * inverse / n);
    const auto plus = static_cast<float>(-sum * inverse / n);
    for (int64_t begin = 0; begin < width_; begin += kTileWidth) {
      WriteGradients(
          {0, {0, 1}, {begin, std::min(width_, begin + kTileWidth)}}, width_,
          call.x_activation, x,
          [=](int64_t i, int64_t) {
            return inverse * dy[i] + (x_factor * (x[i] - mean) + plus);
          },
          call.dx[0] + row * width_);
    }
  }

  const int64_t width_;
  const int64_t rows_;  // the rows of one example
  const float epsilon_;
  int gamma_, beta_;  // indices of weights
};

}  // namespace

Layer LayerNormalization(float epsilon) {
  return MakeLayer(Layer::Kind::kLayerNormalization, &Layer::epsilon, epsilon);
}

Status MakeLayerNormalization(const Layer& layer,
                              const std::vector<Shape>& inputs,
                              std::unique_ptr<Op>* op) {
  Shape shape;
  RINGLET_RETURN_IF_ERROR(NormalizedShape(layer, inputs[0], &shape));
  op->reset(new LayerNormalizationOp(layer, inputs[0], shape));
  return Status();
}

}  // namespace ringlet
