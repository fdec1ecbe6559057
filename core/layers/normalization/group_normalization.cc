// GroupNormalization: one mean and one variance for each group of channels of
// an example.
//
// Forward in training leaves (mean, 1 / sqrt(variance + epsilon)) of each group
// in OpCall::saved. Sums go over the rows of a channel, then over the channels
// of a group; the gradients of gamma and beta over tiles (channels.h). Neither
// depends on the threads.

#include <cmath>

#include "channels.h"

namespace ringlet {
namespace {

class GroupNormalizationOp final : public Op {
 public:
  GroupNormalizationOp(const Layer& layer, const Shape& x, int64_t groups)
      : channels_(x.back()),
        groups_(groups),
        width_(channels_ / groups_),
        rows_(x.elements() / channels_),
        epsilon_(layer.epsilon) {
    output_ = x;
    AddGammaAndBeta(layer, {channels_}, &weights_, &gamma_, &beta_);
  }

  bool backward_reads_input() const override { return true; }
  bool dx_may_overwrite_dy(size_t) const override { return true; }
  uint64_t saved_floats(int64_t batch) const override {
    return static_cast<uint64_t>(2 * batch * groups_);
  }
  // Each thread has a double for each channel, a mean and an inverse.
  uint64_t forward_scratch(int64_t, int threads) const override {
    return static_cast<uint64_t>(threads * (2 * channels_ + 2 * groups_));
  }
  // For each thread two doubles for each channel; then, for each block of rows,
  // sums for gamma and for beta.
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    return static_cast<uint64_t>(
        std::max(threads * 4 * channels_,
                 frozen() ? 0 : 2 * TileBlocks(batch * rows_) * channels_));
  }

  void Forward(const OpCall& call) const override {
    ForEachExample(
        call, 2 * channels_ + 2 * groups_, [&](int64_t i, float* scratch) {
          float* const moments = call.training && call.saved != nullptr
                                     ? call.saved + 2 * i * groups_
                                     : scratch + 2 * channels_;
          const float* const x = call.x[0] + i * rows_ * channels_;
          Moments(x, reinterpret_cast<double*>(scratch), moments);
          float* const y = call.y + i * rows_ * channels_;
          for (int64_t row = 0; row < rows_; ++row) {
            for (int64_t c = 0; c < channels_; ++c) {
              const int64_t at = row * channels_ + c;
              const float* const group_moments = moments + 2 * (c / width_);
              const float normal =
                  (x[at] - group_moments[0]) * group_moments[1];
              y[at] = (gamma_ < 0 ? normal : normal * call.weights[gamma_][c]) +
                      (beta_ < 0 ? 0 : call.weights[beta_][c]);
            }
          }
        });
  }

  // dx may be over dy, so it comes last.
  void Backward(const OpCall& call) const override {
    const bool trains = !frozen() && !weights_.empty();
    if (trains) WeightGradients(call);
    if (call.dx[0] != nullptr) {
      ForEachExample(call, 4 * channels_, [&](int64_t i, float* scratch) {
        InputGradient(call, i, reinterpret_cast<double*>(scratch));
      });
    }
    if (trains) call.sink->OnGradientsFinal(call.gradient_offset);
  }

 private:
  template <typename Body>
  void ForEachExample(const OpCall& call, int64_t floats,
                      const Body& body) const {
    ForEachIndex(call, call.batch,
                 [&](int64_t i, int t) { body(i, call.scratch + t * floats); });
  }

  // sums[c] = the sum over the rows of term(offset, c).
  template <typename Term>
  void SumRows(const Term& term, double* sums) const {
    std::fill_n(sums, channels_, 0.0);
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t c = 0; c < channels_; ++c) {
        sums[c] += double{term(row * channels_ + c, c)};
      }
    }
  }

  double MeanOfGroup(const double* sums, int64_t group) const {
    double sum = 0;
    for (int64_t c = 0; c < width_; ++c) sum += sums[group * width_ + c];
    return sum / static_cast<double>(rows_ * width_);
  }

  void Moments(const float* x, double* sums, float* moments) const {
    SumRows([=](int64_t at, int64_t) { return x[at]; }, sums);
    for (int64_t g = 0; g < groups_; ++g) {
      moments[2 * g] = static_cast<float>(MeanOfGroup(sums, g));
    }
    SumRows(
        [=](int64_t at, int64_t c) {
          const float d = x[at] - moments[2 * (c / width_)];
          return d * d;
        },
        sums);
    for (int64_t g = 0; g < groups_; ++g) {
      const double variance = MeanOfGroup(sums, g);
      moments[2 * g + 1] =
          static_cast<float>(1 / std::sqrt(variance + double{epsilon_}));
    }
  }

  void WeightGradients(const OpCall& call) const {
    const int64_t stride = 2 * channels_, rows = call.batch * rows_;
    const float* const x = call.x[0];
    const float* const dy = call.dy;
    ForEachTile(call.pool, rows, channels_, [&](const Tile& tile) {
      float* const to =
          call.scratch + tile.block * stride + tile.channels.begin;
      SumTile(
          tile, channels_,
          [&](int64_t at, int64_t) {
            const int64_t group =
                at / channels_ / rows_ * groups_ + at % channels_ / width_;
            const float* const group_moments = call.saved + 2 * group;
            return dy[at] * ((x[at] - group_moments[0]) * group_moments[1]);
          },
          to);
      SumTile(
          tile, channels_, [=](int64_t at, int64_t) { return dy[at]; },
          to + channels_);
    });
    StoreScaleGradients(call, TileBlocks(rows), channels_, gamma_, beta_);
  }

  // (g - mean(g) - x^ mean(g x^)) / s, where g = gamma dy, x^ = (x - mean) / s.
  void InputGradient(const OpCall& call, int64_t example, double* sums) const {
    const float* const x = call.x[0] + example * rows_ * channels_;
    const float* const dy = call.dy + example * rows_ * channels_;
    const float* const moments = call.saved + 2 * example * groups_;
    const float* const gamma = gamma_ < 0 ? nullptr : call.weights[gamma_];
    double* const products = sums + channels_;
    const auto g = [=](int64_t at, int64_t c) {
      return gamma == nullptr ? dy[at] : gamma[c] * dy[at];
    };
    const auto normal = [=](int64_t at, int64_t c) {
      const float* const group_moments = moments + 2 * (c / width_);
      return (x[at] - group_moments[0]) * group_moments[1];
    };
    SumRows(g, sums);
    SumRows([=](int64_t at, int64_t c) { return g(at, c) * normal(at, c); },
            products);
    // Each group's means are at its first channel.
    for (int64_t i = 0; i < groups_; ++i) {
      sums[i * width_] = MeanOfGroup(sums, i);
      products[i * width_] = MeanOfGroup(products, i);
    }
    float* const dx = call.dx[0] + example * rows_ * channels_;
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t c = 0; c < channels_; ++c) {
        const int64_t at = row * channels_ + c, first = c / width_ * width_;
        const auto mean = static_cast<float>(sums[first]),
                   product = static_cast<float>(products[first]);
        dx[at] = (g(at, c) - mean - normal(at, c) * product) *
                 moments[2 * (c / width_) + 1];
      }
    }
  }

  const int64_t channels_, groups_;
  const int64_t width_;  // the channels of a group
  const int64_t rows_;   // the rows of one example
  const float epsilon_;
  int gamma_, beta_;  // indices of weights
};

}  // namespace

Status MakeGroupNormalization(const Layer& layer,
                              const std::vector<Shape>& inputs,
                              std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  if (x.rank() < 1) {
    return InvalidArgument("GroupNormalization needs an input with channels");
  }
  const int64_t groups = layer.groups == -1 ? x.back() : layer.groups;
  RINGLET_RETURN_IF_ERROR(CheckAtLeastOne("groups", groups));
  if (x.back() % groups != 0) {
    return InvalidArgument("%lld channels are not a multiple of %lld groups",
                           static_cast<long long>(x.back()),
                           static_cast<long long>(groups));
  }
  op->reset(new GroupNormalizationOp(layer, x, groups));
  return Status();
}

}  // namespace ringlet
