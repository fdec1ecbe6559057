// Rescaling and Normalization: constants for each channel.

#include <cmath>
#include <vector>

#include "../layer_kind.h"
#include "../normalization/channels.h"
#include "../op.h"

namespace ringlet {
namespace {

constexpr double kBackendEpsilon = 1e-7;  // the least deviation, as in Keras

// y = (x - minus) * times + plus.
class AffineOp final : public Op {
 public:
  struct Channel {
    float minus, times, plus;
  };
  AffineOp(const Shape& x, const std::vector<Channel>& channels)
      : width_(static_cast<int64_t>(channels.size())),
        rows_(x.elements() / width_) {
    output_ = x;
    for (const Channel& channel : channels) {
      minus_.push_back(channel.minus);
      times_.push_back(channel.times);
      plus_.push_back(channel.plus);
    }
  }
  bool dx_may_overwrite_x() const override { return true; }
  bool may_overwrite_input() const override { return true; }
  bool dx_may_overwrite_dy(size_t) const override { return true; }
  Recompute recompute() const override { return Recompute::kCheap; }

  void Forward(const OpCall& call) const override {
    AffineRows(call.pool, call.x[0], call.batch * rows_, width_, minus_.data(),
               times_.data(), plus_.data(), call.y);
  }
  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    const float* const dy = call.dy;
    ForEachTile(call.pool, call.batch * rows_, width_, [&](const Tile& tile) {
      const float* const times = times_.data() + tile.channels.begin;
      WriteGradients(
          tile, width_, call.x_activation, call.x[0],
          [=](int64_t i, int64_t c) { return times[c] * dy[i]; }, call.dx[0]);
    });
  }

 private:
  const int64_t width_, rows_;  // rows of one example
  std::vector<float> minus_, times_, plus_;
};

// Checks that there is one value for all channels of x, or one for each.
Status CheckValues(const std::vector<float>& values, const char* field,
                   const Shape& x) {
  const size_t channels = static_cast<size_t>(x.rank() < 1 ? 1 : x.back());
  if (values.size() != 1 && values.size() != channels) {
    return InvalidArgument(
        "%s has %zu values; must be one, or one for each of %zu channels",
        field, values.size(), channels);
  }
  return Status();
}

template <typename ChannelOf>
void MakeAffine(const Shape& x, const std::vector<float>& a,
                const std::vector<float>& b, const ChannelOf& channel,
                std::unique_ptr<Op>* op) {
  std::vector<AffineOp::Channel> channels;
  const size_t width = static_cast<size_t>(x.rank() < 1 ? 1 : x.back());
  for (size_t c = 0; c < width; ++c) {
    channels.push_back(
        channel(a[a.size() > 1 ? c : 0], b[b.size() > 1 ? c : 0]));
  }
  op->reset(new AffineOp(x, channels));
}

}  // namespace

Layer Rescaling(const std::vector<float>& scale,
                const std::vector<float>& offset) {
  return MakeLayer(Layer::Kind::kRescaling, &Layer::scales, scale,
                   &Layer::offsets, offset);
}
Layer Rescaling(float scale, float offset) {
  return Rescaling(std::vector<float>{scale}, std::vector<float>{offset});
}

Layer Normalization(const std::vector<float>& mean,
                    const std::vector<float>& variance) {
  return MakeLayer(Layer::Kind::kNormalization, &Layer::means, mean,
                   &Layer::variances, variance);
}

Layer Normalization() { return Normalization({}, {}); }

Status MakeRescaling(const Layer& layer, const std::vector<Shape>& inputs,
                     std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  RINGLET_RETURN_IF_ERROR(CheckValues(layer.scales, "scale", x));
  RINGLET_RETURN_IF_ERROR(CheckValues(layer.offsets, "offset", x));
  MakeAffine(
      x, layer.scales, layer.offsets,
      [](float scale, float offset) {
        return AffineOp::Channel{0, scale, offset};
      },
      op);
  return Status();
}

Status MakeNormalization(const Layer& layer, const std::vector<Shape>& inputs,
                         std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  const bool known = !layer.means.empty() || !layer.variances.empty();
  if (!known && !layer.adapt) {
    return InvalidArgument(
        "needs mean and variance, or \"adapt\": true, with which Fit computes "
        "them");
  }
  const std::vector<float> one(1, 1), zero(1, 0);
  const std::vector<float>& means = known ? layer.means : zero;
  const std::vector<float>& variances = known ? layer.variances : one;
  RINGLET_RETURN_IF_ERROR(CheckValues(means, "mean", x));
  RINGLET_RETURN_IF_ERROR(CheckValues(variances, "variance", x));
  const bool invert = layer.invert;
  MakeAffine(
      x, means, variances,
      [invert](float mean, float variance) {
        const double deviation =
            std::max(std::sqrt(double{variance}), kBackendEpsilon);
        return invert
                   ? AffineOp::Channel{0, static_cast<float>(deviation), mean}
                   : AffineOp::Channel{mean, static_cast<float>(1 / deviation),
                                       0};
      },
      op);
  return Status();
}

}  // namespace ringlet
