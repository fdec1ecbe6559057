// Softmax over axes other than only the last. Over the last axis it is an
// activation (activation_layers.cc).

#include <algorithm>

#include "../../compute/functions.h"
#include "../layer_table.h"
#include "../op.h"

namespace ringlet {

OpMaker MakeActivation;

namespace {

// Softmax over the middle axis of (outer, count, inner) numbers. It works on
// kAcross columns at a time, so that neighbours are read together.
class SoftmaxOp final : public Op {
 public:
  SoftmaxOp(const Shape& x, int64_t count, int64_t inner)
      : count_(count), inner_(inner), across_((inner + kAcross - 1) / kAcross) {
    output_ = x;
  }
  bool backward_reads_output() const override { return true; }
  bool may_overwrite_input() const override { return true; }
  bool dx_may_overwrite_dy(size_t) const override { return true; }
  Recompute recompute() const override { return Recompute::kCheap; }

  void Forward(const OpCall& call) const override {
    ForEachColumns(call, [&](int64_t at, int64_t n) {
      const float* const x = call.x[0] + at;
      float* const y = call.y + at;
      float largest[kAcross], sums[kAcross] = {};
      std::copy_n(x, n, largest);
      for (int64_t i = 1; i < count_; ++i) {
        for (int64_t c = 0; c < n; ++c) {
          largest[c] = std::max(largest[c], x[i * inner_ + c]);
        }
      }
      for (int64_t i = 0; i < count_; ++i) {
        for (int64_t c = 0; c < n; ++c) {
          const float e = math::Exp(x[i * inner_ + c] - largest[c]);
          y[i * inner_ + c] = e;
          sums[c] += e;
        }
      }
      for (int64_t i = 0; i < count_; ++i) {
        for (int64_t c = 0; c < n; ++c) y[i * inner_ + c] /= sums[c];
      }
    });
  }

  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    ForEachColumns(call, [&](int64_t at, int64_t n) {
      const float* const y = call.y + at;
      const float* const dy = call.dy + at;
      float* const dx = call.dx[0] + at;
      float sums[kAcross] = {};
      for (int64_t i = 0; i < count_; ++i) {
        for (int64_t c = 0; c < n; ++c) {
          sums[c] += dy[i * inner_ + c] * y[i * inner_ + c];
        }
      }
      for (int64_t i = 0; i < count_; ++i) {
        for (int64_t c = 0; c < n; ++c) {
          const int64_t k = i * inner_ + c;
          dx[k] = y[k] * (dy[k] - sums[c]);
        }
      }
    });
  }

 private:
  static constexpr int64_t kAcross = 64;

  template <typename Body>
  void ForEachColumns(const OpCall& call, const Body& body) const {
    const int64_t outer = output_.elements() / (count_ * inner_);
    ForEachIndex(call, call.batch * outer * across_, [&](int64_t i) {
      const int64_t column = i % across_ * kAcross;
      body(i / across_ * count_ * inner_ + column,
           std::min(kAcross, inner_ - column));
    });
  }

  const int64_t count_, inner_, across_;
};

}  // namespace

Layer Softmax(const std::vector<int64_t>& axes) {
  if (axes == std::vector<int64_t>{-1}) return Softmax();
  Layer layer;
  layer.kind = Layer::Kind::kSoftmax;
  layer.axes = axes;
  return layer;
}

Status MakeSoftmax(const Layer& layer, const std::vector<Shape>& inputs,
                   std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  const int64_t axes = x.rank() + 1;
  bool is_listed[Shape::kMaxRank + 1] = {}, fits = !layer.axes.empty();
  int64_t first = axes, last = 0;
  for (int64_t axis : layer.axes) {
    if (axis < 0) axis += axes;
    fits = fits && axis > 0 && axis < axes && !is_listed[axis];
    if (!fits) break;
    is_listed[axis] = true;
    first = std::min(first, axis);
    last = std::max(last, axis);
  }
  if (!fits || last - first + 1 != static_cast<int64_t>(layer.axes.size())) {
    return InvalidArgument(
        "axis must be one or more neighbouring axes of the input %s, as -1, 1 "
        "or [1, 2], and not the batch",
        x.ToString().c_str());
  }
  int64_t count = 1, inner = 1;
  for (int64_t axis = first; axis < axes; ++axis) {
    (axis <= last ? count : inner) *= x[static_cast<int>(axis) - 1];
  }
  if (first == last && last == axes - 1) {
    Layer activation = layer;
    activation.activation = kSoftmax;
    return MakeActivation(activation, inputs, op);
  }
  op->reset(new SoftmaxOp(x, count, inner));
  return Status();
}

}  // namespace ringlet
