// BatchNormalization over the last axis.
//
// The statistics are of this replica's examples or, if the layer synchronizes,
// of all replicas' examples. Each pass of such a layer sums over all workers,
// and a worker without examples (a batch of 0) takes part. There are two
// passes, the first relative to the first row. So a mean far from 0 loses no
// digits, and equal rows have no variance.
//
// Forward leaves (mean, 1 / sqrt(variance + epsilon)) in OpCall::saved.
// Backward then needs only the input. A repeated Forward
// (OpCall::repeats_forward) also uses them, and records no change of the
// statistics. The moving statistics change when the step is applied: Forward
// records the change (OpCall::layer_state_changes). The output is affine in x
// for each channel, with x - mean first: for a batch of equal rows it is
// exactly beta.
//
// With a mask, the statistics are computed from the rows that count; they are 0
// if no row counts. As in Keras, the masked rows are also normalized with these
// statistics.

#include <cmath>

#include "../../base/decimal.h"
#include "../layer_kind.h"
#include "../op.h"
#include "channels.h"

namespace ringlet {
namespace {

class BatchNormalizationOp final : public Op {
 public:
  BatchNormalizationOp(const Layer& layer, const Shape& x, bool masked)
      : channels_(x.back()),
        rows_(x.elements() / x.back()),
        rest_(static_cast<float>(1 - Decimal(layer.momentum))),
        epsilon_(layer.epsilon),
        synchronized_(layer.synchronized),
        masked_(masked) {
    output_ = x;
    const Shape shape = {channels_};
    AddGammaAndBeta(layer, shape, &weights_, &gamma_, &beta_);
    mean_ = static_cast<int>(weights_.size());
    variance_ = mean_ + 1;
    weights_.push_back({"moving_mean", shape, layer.moving_mean_initializer,
                        Regularizer(), Constraint(), /*trainable=*/false});
    weights_.push_back({"moving_variance", shape,
                        layer.moving_variance_initializer, Regularizer(),
                        Constraint(),
                        /*trainable=*/false});
  }

  bool backward_reads_input() const override { return !frozen(); }
  bool dx_may_overwrite_x() const override { return true; }
  bool may_overwrite_input() const override { return true; }
  bool dx_may_overwrite_dy(size_t) const override { return true; }
  Recompute recompute() const override { return Recompute::kCheap; }
  bool changes_state() const override { return true; }
  bool synchronizes() const override { return synchronized_ && !frozen(); }
  // Mean, inverse deviation and, with several workers, the number of rows.
  uint64_t saved_floats(int64_t) const override {
    const int64_t count = synchronized_ ? kRowsFloats : 0;
    return static_cast<uint64_t>(frozen() ? 0 : 2 * channels_ + count);
  }
  // A partial sum for each block of rows, then times and plus. A layer that
  // synchronizes has two, and the sums that are sent.
  uint64_t forward_scratch(int64_t batch, int) const override {
    const int64_t blocks = Blocks(batch);
    if (!synchronized_) {
      return static_cast<uint64_t>(std::max<int64_t>(2, blocks) * channels_);
    }
    return static_cast<uint64_t>(2 * (blocks + 1) * channels_ + kRowsFloats);
  }
  // Two partial sums, and the factors of dx.
  uint64_t backward_scratch(int64_t batch, int) const override {
    return static_cast<uint64_t>((2 * Blocks(batch) + 3) * channels_);
  }

  void Forward(const OpCall& call) const override {
    const float* mean = call.weights[mean_];
    float* const times = call.scratch;
    float* const plus = times + channels_;
    if (call.training && !frozen()) {
      if (!call.repeats_forward && !ComputeStatistics(call)) return;
      mean = call.saved;
      std::copy_n(call.saved + channels_, channels_, times);
    } else {
      for (int64_t c = 0; c < channels_; ++c) {
        times[c] = Inverse(call.weights[variance_][c]);
      }
    }
    for (int64_t c = 0; c < channels_; ++c) {
      if (gamma_ >= 0) times[c] *= call.weights[gamma_][c];
      plus[c] = beta_ >= 0 ? call.weights[beta_][c] : 0;
    }
    AffineRows(call.pool, call.x[0], call.batch * rows_, channels_, mean, times,
               plus, call.y);
  }

  void Backward(const OpCall& call) const override {
    if (frozen()) return BackwardFrozen(call);
    const int64_t rows = call.batch * rows_, stride = 2 * channels_;
    const float* const x = call.x[0];
    const float* const dy = call.dy;
    const float* const mean = call.saved;
    float* const partial = call.scratch;
    ForEachTile(call.pool, rows, channels_, [&](const Tile& tile) {
      float* const to = partial + tile.block * stride + tile.channels.begin;
      const int64_t at = tile.At(channels_);
      BestRowLoops().sum_of_products(RowsOf(tile, channels_), x + at,
                                     mean + tile.channels.begin, dy + at, to,
                                     to + channels_);
    });
    float* const factors = partial + Blocks(call.batch) * stride;
    if (!FinishSums(call, partial, factors)) return;
    if (call.dx[0] != nullptr) InputGradient(call, factors);
    if (gamma_ >= 0 || beta_ >= 0) {
      call.sink->OnGradientsFinal(call.gradient_offset);
    }
  }

 private:
  int64_t Blocks(int64_t batch) const { return TileBlocks(batch * rows_); }
  // Rounded changes can make a moving variance less than 0.
  float Inverse(double variance) const {
    return static_cast<float>(
        1 / std::sqrt(std::max(0.0, variance) + double{epsilon_}));
  }
  float Gamma(const OpCall& call, int64_t c) const {
    return gamma_ >= 0 ? call.weights[gamma_][c] : 1;
  }

  // Two floats hold a count exactly, also its sum over many workers.
  static constexpr int64_t kRowsFloats = 2, kRowsPart = 4096;
  static void StoreRows(int64_t rows, float* to) {
    const int64_t parts = rows / kRowsPart;
    to[0] = static_cast<float>(parts);
    to[1] = static_cast<float>(rows % kRowsPart);
  }
  static double LoadRows(const float* from) {
    return double{from[0]} * kRowsPart + double{from[1]};
  }
  static bool Sum(const OpCall& call, float* values, int64_t count) {
    if (call.workers != nullptr)
      *call.status = call.workers->Sum(values, count);
    return call.status->ok();
  }

  // True if a row of the input counts.
  bool Counts(const OpCall& call, int64_t row) const {
    return !masked_ || call.x[1][row] != 0;
  }
  int64_t CountRows(const OpCall& call) const {
    const int64_t rows = call.batch * rows_;
    if (!masked_) return rows;
    return rows - std::count(call.x[1], call.x[1] + rows, 0.0f);
  }
  // Sums x - from, or its squares, over the rows of a tile that count.
  void SumRows(const OpCall& call, const Tile& tile, const float* from,
               float* to) const {
    const float* const x = call.x[0];
    if (!masked_) {
      return BestRowLoops().sum(RowsOf(tile, channels_), x + tile.At(channels_),
                                from, to);
    }
    SumTile(
        tile, channels_,
        [&](int64_t at, int64_t c) {
          return Counts(call, at / channels_) ? x[at] - from[c] : 0;
        },
        to);
  }
  void SumSquares(const OpCall& call, const Tile& tile, const float* from,
                  float* to) const {
    const float* const x = call.x[0];
    if (!masked_) {
      return BestRowLoops().sum_of_squares(RowsOf(tile, channels_),
                                           x + tile.At(channels_), from, to);
    }
    SumTile(
        tile, channels_,
        [&](int64_t at, int64_t c) {
          const float d = x[at] - from[c];
          return Counts(call, at / channels_) ? d * d : 0;
        },
        to);
  }

  // The first row that counts; 0 if there is none.
  int64_t FirstRow(const OpCall& call) const {
    const int64_t rows = call.batch * rows_;
    for (int64_t row = 0; row < rows; ++row) {
      if (Counts(call, row)) return row;
    }
    return 0;
  }

  // Writes call.saved and the changes of the moving statistics. False after an
  // error.
  bool ComputeStatistics(const OpCall& call) const {
    if (call.workers != nullptr) return ComputeStatisticsOfAll(call);
    const int64_t rows = call.batch * rows_, blocks = Blocks(call.batch),
                  counted = CountRows(call);
    // The sums are relative to a row that counts: a masked one may have values
    // of another size, and the digits of the mean would be lost.
    const float* const from = call.x[0] + FirstRow(call) * channels_;
    float* const partial = call.scratch;
    float* const mean = call.saved;
    float* const inverse = mean + channels_;
    const auto count = static_cast<double>(std::max<int64_t>(1, counted));
    ForEachTile(call.pool, rows, channels_, [&](const Tile& tile) {
      const int64_t begin = tile.channels.begin;
      SumRows(call, tile, from + begin,
              partial + tile.block * channels_ + begin);
    });
    for (int64_t c = 0; c < channels_; ++c) {
      const double sum = SumBlocks(partial + c, blocks, channels_);
      mean[c] = counted == 0 ? 0 : static_cast<float>(from[c] + sum / count);
      AddMovingChange(call, mean_, c, mean[c]);
    }
    ForEachTile(call.pool, rows, channels_, [&](const Tile& tile) {
      const int64_t begin = tile.channels.begin;
      SumSquares(call, tile, mean + begin,
                 partial + tile.block * channels_ + begin);
    });
    for (int64_t c = 0; c < channels_; ++c) {
      const double variance = SumBlocks(partial + c, blocks, channels_) / count;
      inverse[c] = Inverse(variance);
      AddMovingChange(call, variance_, c, static_cast<float>(variance));
    }
    return true;
  }

  // Computes the statistics of all workers' rows. Workers have no first row in
  // common, and relative to the moving mean the mean is rounded. So the second
  // pass also sums its error, and corrects it.
  bool ComputeStatisticsOfAll(const OpCall& call) const {
    const int64_t rows = call.batch * rows_, blocks = Blocks(call.batch);
    const int64_t stride = 2 * channels_;
    const float* const from = call.weights[mean_];
    float* const partial = call.scratch;
    float* const sums = partial + blocks * stride;
    float* const mean = call.saved;
    float* const inverse = mean + channels_;
    ForEachTile(call.pool, rows, channels_, [&](const Tile& tile) {
      const int64_t begin = tile.channels.begin;
      SumRows(call, tile, from + begin,
              partial + tile.block * channels_ + begin);
    });
    for (int64_t c = 0; c < channels_; ++c) {
      sums[c] = static_cast<float>(SumBlocks(partial + c, blocks, channels_));
    }
    StoreRows(CountRows(call), sums + channels_);
    if (!Sum(call, sums, channels_ + kRowsFloats)) return false;
    std::copy_n(sums + channels_, kRowsFloats, mean + stride);
    const double count = std::max(1.0, LoadRows(mean + stride));
    for (int64_t c = 0; c < channels_; ++c) {
      mean[c] = static_cast<float>(from[c] + double{sums[c]} / count);
    }
    ForEachTile(call.pool, rows, channels_, [&](const Tile& tile) {
      const float* const m = mean + tile.channels.begin;
      float* const to = partial + tile.block * stride + tile.channels.begin;
      SumRows(call, tile, m, to);
      SumSquares(call, tile, m, to + channels_);
    });
    for (int64_t c = 0; c < stride; ++c) {
      sums[c] = static_cast<float>(SumBlocks(partial + c, blocks, stride));
    }
    if (!Sum(call, sums, stride)) return false;
    for (int64_t c = 0; c < channels_; ++c) {
      const double off = double{sums[c]} / count;
      const double variance =
          std::max(0.0, double{sums[channels_ + c]} / count - off * off);
      mean[c] = static_cast<float>(mean[c] + off);
      inverse[c] = Inverse(variance);
      AddMovingChange(call, mean_, c, mean[c]);
      AddMovingChange(call, variance_, c, static_cast<float>(variance));
    }
    return true;
  }

  void AddMovingChange(const OpCall& call, int weight, int64_t c,
                       float batch_value) const {
    float* const changes = call.layer_state_changes[weight];
    if (changes == nullptr) return;
    // A repeated call of a layer continues from the state of its last call.
    const float before = call.weights[weight][c] + changes[c];
    changes[c] += rest_ * (batch_value - before);
  }

  // Computes the weights' gradients. Also computes the factors of dy and of x -
  // mean and the addend with which
  //   dx = gamma / s (dy - mean(dy) - x^ mean(dy x^)), x^ = (x - mean) / s.
  // False after an error.
  bool FinishSums(const OpCall& call, const float* partial,
                  float* factors) const {
    const int64_t blocks = Blocks(call.batch), stride = 2 * channels_;
    const bool synchronizes = call.workers != nullptr && call.dx[0] != nullptr;
    auto rows = static_cast<double>(std::max<int64_t>(1, CountRows(call)));
    const auto finish = [&](int64_t c, double sum, double product) {
      const double inverse = double{call.saved[channels_ + c]};
      const auto dy_factor = static_cast<float>(Gamma(call, c) * inverse);
      factors[c] = dy_factor;
      factors[channels_ + c] =
          static_cast<float>(-dy_factor * inverse * product / rows);
      factors[2 * channels_ + c] = static_cast<float>(-dy_factor * sum / rows);
    };
    for (int64_t c = 0; c < channels_; ++c) {
      const double sum = SumBlocks(partial + c, blocks, stride);
      const double product =
          SumBlocks(partial + channels_ + c, blocks, stride) *
          double{call.saved[channels_ + c]};
      if (gamma_ >= 0) call.d_weights[gamma_][c] = static_cast<float>(product);
      if (beta_ >= 0) call.d_weights[beta_][c] = static_cast<float>(sum);
      if (!synchronizes) {
        finish(c, sum, product);
        continue;
      }
      factors[c] = static_cast<float>(sum);
      factors[channels_ + c] = static_cast<float>(product);
    }
    if (!synchronizes) return true;
    if (!Sum(call, factors, 2 * channels_)) return false;
    rows = std::max(1.0, LoadRows(call.saved + 2 * channels_));
    for (int64_t c = 0; c < channels_; ++c) {
      finish(c, double{factors[c]}, double{factors[channels_ + c]});
    }
    return true;
  }

  void InputGradient(const OpCall& call, const float* factors) const {
    ForEachTile(call.pool, call.batch * rows_, channels_,
                [&](const Tile& tile) { GradientTile(call, tile, factors); });
  }

  // Writes dx over x in pieces; each piece of x is read once more.
  void GradientTile(const OpCall& call, const Tile& tile,
                    const float* factors) const {
    constexpr int64_t kFloats = 4 * kTileWidth;
    float space[kFloats];
    const RowsOfFloats all = RowsOf(tile, channels_);
    const bool over_x = call.x_activation != kLinear;
    const int64_t max_rows = masked_               ? 1
                             : !over_x             ? all.rows
                             : all.n == all.stride ? kFloats / all.n
                                                   : 1;
    const float* const f = factors + tile.channels.begin;
    for (int64_t row = 0; row < all.rows; row += max_rows) {
      const int64_t rows = std::min(max_rows, all.rows - row);
      const int64_t at = tile.At(channels_) + row * channels_;
      float* const dx = call.dx[0] + at;
      float* const to = over_x ? space : dx;
      // The statistics do not depend on a masked row.
      if (!Counts(call, at / channels_)) {
        for (int64_t c = 0; c < all.n; ++c) to[c] = f[c] * call.dy[at + c];
      } else {
        BestRowLoops().affine_of_two({rows, all.n, all.stride}, call.x[0] + at,
                                     call.dy + at,
                                     call.saved + tile.channels.begin, f,
                                     f + channels_, f + 2 * channels_, to);
      }
      if (!over_x) continue;
      ActivationGradient(call.x_activation, dx, rows, all.n, space);
      std::copy_n(space, rows * all.n, dx);
    }
  }

  void BackwardFrozen(const OpCall& call) const {
    if (call.dx[0] == nullptr) return;
    const float* const dy = call.dy;
    float* const times = call.scratch;
    for (int64_t c = 0; c < channels_; ++c) {
      times[c] = Gamma(call, c) * Inverse(call.weights[variance_][c]);
    }
    ForEachTile(
        call.pool, call.batch * rows_, channels_, [&](const Tile& tile) {
          const float* const s = times + tile.channels.begin;
          WriteGradients(
              tile, channels_, call.x_activation, call.x[0],
              [=](int64_t i, int64_t c) { return s[c] * dy[i]; }, call.dx[0]);
        });
  }

  const int64_t channels_;
  const int64_t rows_;  // the rows of one example
  const float rest_;    // 1 - momentum
  const float epsilon_;
  const bool synchronized_, masked_;
  int gamma_, beta_, mean_, variance_;  // indices of weights
};

}  // namespace

Layer BatchNormalization(float momentum, float epsilon) {
  return MakeLayer(Layer::Kind::kBatchNormalization, &Layer::momentum, momentum,
                   &Layer::epsilon, epsilon);
}

Status MakeBatchNormalization(const Layer& layer,
                              const std::vector<Shape>& inputs,
                              std::unique_ptr<Op>* op) {
  if (inputs[0].rank() < 1) {
    return InvalidArgument(
        "BatchNormalization needs an input of at least one dimension");
  }
  const bool masked = CountMasks(layer) > 0;
  if (masked &&
      inputs[1].elements() != inputs[0].elements() / inputs[0].back()) {
    return InvalidArgument(
        "the mask %s must have all axes of the input %s but the last",
        inputs[1].ToString().c_str(), inputs[0].ToString().c_str());
  }
  op->reset(new BatchNormalizationOp(layer, inputs[0], masked));
  return Status();
}

}  // namespace ringlet
