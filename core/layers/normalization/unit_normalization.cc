// UnitNormalization over the last axes.
//
// A row has the elements of one norm. Its sums have lanes (sums.h), so they do
// not depend on the threads.

#include <cmath>

#include "../../compute/sums.h"
#include "../layer_kind.h"
#include "../op.h"
#include "channels.h"

namespace ringlet {
namespace {

constexpr double kLeastSquare = 1e-12;  // the least squared norm, as in Keras
constexpr float kMostFactor = 1e6f;     // 1 / its root

// Forward in training leaves 1 / norm of each row in OpCall::saved.
class UnitNormalizationOp final : public Op {
 public:
  UnitNormalizationOp(const Shape& x, int64_t width)
      : width_(width), rows_(x.elements() / width) {
    output_ = x;
  }

  bool backward_reads_output() const override { return true; }
  bool may_overwrite_input() const override { return true; }
  bool dx_may_overwrite_dy(size_t) const override { return true; }
  Recompute recompute() const override { return Recompute::kCheap; }
  uint64_t saved_floats(int64_t batch) const override {
    return static_cast<uint64_t>(batch * rows_);
  }

  void Forward(const OpCall& call) const override {
    ForEachIndex(call, call.batch * rows_, [&](int64_t row) {
      const float* const x = call.x[0] + row * width_;
      float* const y = call.y + row * width_;
      const double square =
          LaneSum<float>(width_, [=](int64_t i) { return x[i] * x[i]; });
      const auto factor =
          static_cast<float>(1 / std::sqrt(std::max(square, kLeastSquare)));
      for (int64_t i = 0; i < width_; ++i) y[i] = x[i] * factor;
      if (call.training && call.saved != nullptr) call.saved[row] = factor;
    });
  }

  // (dy - y sum(dy y)) / norm. A constant norm has no gradient.
  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    ForEachIndex(call, call.batch * rows_, [&](int64_t row) {
      const float* const y = call.y + row * width_;
      const float* const dy = call.dy + row * width_;
      float* const dx = call.dx[0] + row * width_;
      const float factor = call.saved[row];
      const auto along = static_cast<float>(
          factor < kMostFactor
              ? LaneSum<float>(width_, [=](int64_t i) { return dy[i] * y[i]; })
              : 0);
      for (int64_t i = 0; i < width_; ++i) {
        dx[i] = (dy[i] - y[i] * along) * factor;
      }
    });
  }

 private:
  const int64_t width_;
  const int64_t rows_;  // the rows of one example
};

}  // namespace

Layer UnitNormalization() { return MakeLayer(Layer::Kind::kUnitNormalization); }

Status MakeUnitNormalization(const Layer& layer,
                             const std::vector<Shape>& inputs,
                             std::unique_ptr<Op>* op) {
  Shape shape;
  RINGLET_RETURN_IF_ERROR(NormalizedShape(layer, inputs[0], &shape));
  op->reset(new UnitNormalizationOp(inputs[0], shape.elements()));
  return Status();
}

}  // namespace ringlet
