// PReLU: x, or alpha x below 0, with a trained alpha.
//
// Along shared axes alpha has one element. It is expanded to an example's size
// in scratch. Its gradient is summed at that size over the batch, in tiles, and
// then over the places that share an element. The order depends only on the
// shapes.

#include <algorithm>
#include <vector>

#include "../layer_kind.h"
#include "../normalization/channels.h"
#include "../op.h"

namespace ringlet {
namespace {

class PReLUOp final : public Op {
 public:
  PReLUOp(const Layer& layer, const Shape& x, const Shape& alpha)
      : alpha_(alpha), width_(x.elements()), shared_(alpha != x) {
    output_ = x;
    weights_.push_back({"alpha", alpha, layer.alpha_initializer,
                        layer.alpha_regularizer, layer.alpha_constraint});
  }

  bool backward_reads_input() const override { return true; }
  bool dx_may_overwrite_x() const override { return true; }
  bool may_overwrite_input() const override { return true; }
  bool dx_may_overwrite_dy(size_t) const override { return true; }
  Recompute recompute() const override { return Recompute::kCheap; }
  uint64_t forward_scratch(int64_t, int) const override {
    return static_cast<uint64_t>(shared_ ? width_ : 0);
  }
  // In addition to Forward's scratch, each block of examples has its own sums.
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    const int64_t sums = frozen() ? 0 : TileBlocks(batch) * width_;
    return forward_scratch(batch, threads) + static_cast<uint64_t>(sums);
  }

  void Forward(const OpCall& call) const override {
    const float* const alpha = Expanded(call);
    const float* const x = call.x[0];
    ForEachTile(call.pool, call.batch, width_, [&](const Tile& tile) {
      const float* const a = alpha + tile.channels.begin;
      for (int64_t row = tile.rows.begin; row < tile.rows.end; ++row) {
        const int64_t at = row * width_ + tile.channels.begin;
        for (int64_t c = 0; c < tile.channels.size(); ++c) {
          const float v = x[at + c];
          call.y[at + c] = v < 0 ? a[c] * v : v;
        }
      }
    });
  }

  // At 0 the gradient is 0, as in TensorFlow's two ReLUs.
  void Backward(const OpCall& call) const override {
    const float* const alpha = Expanded(call);
    float* const sums = call.scratch + (shared_ ? width_ : 0);
    const float* const x = call.x[0];
    const float* const dy = call.dy;
    ForEachTile(call.pool, call.batch, width_, [&](const Tile& tile) {
      const float* const a = alpha + tile.channels.begin;
      if (!frozen()) {
        SumTile(
            tile, width_,
            [=](int64_t i, int64_t) { return x[i] < 0 ? x[i] * dy[i] : 0; },
            sums + tile.block * width_ + tile.channels.begin);
      }
      if (call.dx[0] == nullptr) return;
      WriteGradients(
          tile, width_, call.x_activation, x,
          [=](int64_t i, int64_t c) {
            return x[i] > 0 ? dy[i] : x[i] < 0 ? a[c] * dy[i] : 0;
          },
          call.dx[0]);
    });
    if (frozen()) return;
    const int64_t blocks = TileBlocks(call.batch);
    ForEachIndex(call, alpha_.elements(), [&](int64_t i) {
      call.d_weights[0][i] = SumOf(i, blocks, sums);
    });
    call.sink->OnGradientsFinal(call.gradient_offset);
  }

 private:
  // The first place in an example that uses element `i` of alpha.
  int64_t PlaceOfElement(int64_t i) const {
    return OffsetOf(i, [this](int axis) { return alpha_[axis]; });
  }
  // From the first place of an element to the `i`-th place that shares it.
  int64_t OffsetOfCopy(int64_t i) const {
    return OffsetOf(i,
                    [this](int axis) { return output_[axis] / alpha_[axis]; });
  }
  // The offset in an example of index `i` of a part with `size(axis)` elements
  // along each axis.
  template <typename Size>
  int64_t OffsetOf(int64_t i, Size size) const {
    int64_t offset = 0, stride = 1;
    for (int axis = output_.rank() - 1; axis >= 0; --axis) {
      offset += i % size(axis) * stride;
      i /= size(axis);
      stride *= output_[axis];
    }
    return offset;
  }

  float SumOf(int64_t element, int64_t blocks, const float* sums) const {
    const int64_t first = PlaceOfElement(element);
    double sum = 0;
    for (int64_t i = 0; i < width_ / alpha_.elements(); ++i) {
      sum += SumBlocks(sums + first + OffsetOfCopy(i), blocks, width_);
    }
    return static_cast<float>(sum);
  }

  const float* Expanded(const OpCall& call) const {
    const float* const alpha = call.weights[0];
    if (!shared_) return alpha;
    const int64_t share = width_ / alpha_.elements();
    ForEachIndex(call, alpha_.elements(), [&](int64_t e) {
      float* const to = call.scratch + PlaceOfElement(e);
      for (int64_t i = 0; i < share; ++i) to[OffsetOfCopy(i)] = alpha[e];
    });
    return call.scratch;
  }

  const Shape alpha_;
  const int64_t width_;  // the floats of one example
  const bool shared_;
};

}  // namespace

Layer PReLU(const std::vector<int64_t>& shared_axes) {
  return MakeLayer(Layer::Kind::kPReLU, &Layer::shared_axes, shared_axes);
}

Status MakePReLU(const Layer& layer, const std::vector<Shape>& inputs,
                 std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  Shape alpha = x;
  for (const int64_t axis : layer.shared_axes) {
    if (axis < 1 || axis > x.rank()) {
      return InvalidArgument(
          "shared_axes has %lld; axes of the input %s are 1 to %d, and 0 the "
          "batch",
          static_cast<long long>(axis), x.ToString().c_str(), x.rank());
    }
    alpha[static_cast<int>(axis) - 1] = 1;
  }
  op->reset(new PReLUOp(layer, x, alpha));
  return Status();
}

}  // namespace ringlet
