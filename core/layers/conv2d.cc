// Conv2D: windows gathered into columns, then a matrix product; with few taps
// and no border, straight from the image.

#include <algorithm>
#include <vector>

#include "../compute/direct_conv.h"
#include "../compute/gemm.h"
#include "kernels.h"
#include "op.h"

namespace ringlet {
namespace {

class Conv2DOp final : public Op {
 public:
  Conv2DOp(const Layer& layer, const Window2D& window)
      : window_(window),
        activation_(layer.activation),
        bias_(layer.use_bias),
        filters_(layer.units) {
    output_ = {window.height.output, window.width.output, filters_};
    weights_.push_back(
        {"kernel",
         {window.height.window, window.width.window, window.channels, filters_},
         layer.kernel_initializer,
         layer.kernel_regularizer});
    if (bias_) {
      weights_.push_back(
          {"bias", {filters_}, layer.bias_initializer, layer.bias_regularizer});
    }
    direct_ = Patch() <= kMostDirectTaps &&
              filters_ % BestDirectConv().filters == 0 &&
              window_.height.inside() && window_.width.inside();
    for (int64_t k = 0; k < Patch() && direct_; ++k) {
      const int64_t run = window_.width.window * window_.channels;
      taps_.push_back(k / run * RowFloats() + k % run);
    }
  }

  bool keeps_input() const override { return !frozen(); }
  bool keeps_output() const override { return activation_ != kLinear; }
  Activation fused_activation() const override { return activation_; }
  int64_t multiply_adds() const override {
    return window_.positions() * window_.patch() * filters_;
  }
  // Columns of one group of images for each thread, and for backward each
  // thread's own sums of the gradients.
  size_t forward_scratch(int64_t batch, int threads) const override {
    if (direct_) return 0;
    return static_cast<size_t>(threads * ColumnFloats(batch));
  }
  size_t backward_scratch(int64_t batch, int threads) const override {
    return static_cast<size_t>(threads *
                               (ColumnFloats(batch) + GradientFloats()));
  }

  void Forward(const OpCall& call) const override {
    call.pool->Run([&](int t) {
      if (direct_) return ForwardDirect(call, t);
      float* col = call.scratch + t * ColumnFloats(call.batch);
      ForEachGroup(call, t, [&](int64_t first, int64_t count) {
        Columns(call.x[0], first, count, col);
        float* y = call.y + first * output_.elements();
        const int64_t rows = count * window_.positions();
        // Y(BP,F) = Col(BP,K) * W(K,F)
        Gemm(1, RowMajor(static_cast<const float*>(col), rows, Patch()),
             Kernel(call), 0, RowMajor(y, rows, filters_));
        BiasActivation(call.without_activation ? kLinear : activation_,
                       bias_ ? call.weights[1] : nullptr, rows, filters_, y);
      });
    });
  }

  void Backward(const OpCall& call) const override {
    call.pool->Run([&](int t) { BackwardPart(call, t); });
    if (frozen()) return;
    // The threads' sums, added in the order of the threads.
    const int64_t kernel = Patch() * filters_;
    std::fill_n(call.d_weights[0], kernel, 0.0f);
    if (bias_) std::fill_n(call.d_weights[1], filters_, 0.0f);
    for (int t = 0; t < call.pool->threads(); ++t) {
      const float* sums = ThreadSums(call, t);
      AddTo(sums, kernel, call.d_weights[0]);
      if (bias_) AddTo(sums + kernel, filters_, call.d_weights[1]);
    }
    call.sink->Ready(call.gradient_offset);
  }

 private:
  // Rows of the product that keep the columns and the output of a group in
  // the second-level cache.
  static constexpr int64_t kGroupRows = 2048;

  // Above, BLIS's product is faster by more than its columns cost.
  static constexpr int64_t kMostDirectTaps = 32;

  int64_t Patch() const { return window_.patch(); }
  int64_t Group(int64_t batch) const {
    return std::min(batch, 1 + kGroupRows / window_.positions());
  }
  int64_t ColumnFloats(int64_t batch) const {
    return Group(batch) * window_.positions() * Patch();
  }
  int64_t GradientFloats() const {
    return frozen() ? 0 : Patch() * filters_ + filters_;
  }
  float* ThreadSums(const OpCall& call, int t) const {
    return call.scratch + call.pool->threads() * ColumnFloats(call.batch) +
           t * GradientFloats();
  }
  ConstMatrix Kernel(const OpCall& call) const {
    return RowMajor(static_cast<const float*>(call.weights[0]), Patch(),
                    filters_);
  }
  int64_t RowFloats() const { return window_.width.input * window_.channels; }
  int64_t ImageFloats() const { return window_.height.input * RowFloats(); }

  // body(row, its first output) for the rows of thread t's examples.
  template <typename Body>
  void ForEachRow(const OpCall& call, Range examples, const Body& body) const {
    ConvRow row;
    row.stride = window_.width.stride * window_.channels;
    row.positions = window_.width.output;
    row.offset = taps_.data();
    row.taps = Patch();
    row.filters = filters_;
    for (int64_t i = examples.begin; i < examples.end; ++i) {
      for (int64_t oy = 0; oy < window_.height.output; ++oy) {
        row.x = call.x[0] + i * ImageFloats() +
                oy * window_.height.stride * RowFloats();
        body(row, (i * window_.height.output + oy) * row.positions * filters_);
      }
    }
  }

  void ForwardDirect(const OpCall& call, int t) const {
    const Range mine = Split(call.batch, call.pool->threads(), t);
    const Activation activation =
        call.without_activation ? kLinear : activation_;
    const float* bias = bias_ ? call.weights[1] : nullptr;
    ForEachRow(call, mine, [&](const ConvRow& row, int64_t at) {
      BestDirectConv().forward(row, call.weights[0], bias, activation == kRelu,
                               call.y + at);
      if (activation == kLinear || activation == kRelu) return;
      BiasActivation(activation, nullptr, row.positions, filters_, call.y + at);
    });
  }

  void Columns(const float* x, int64_t first, int64_t count, float* col) const {
    for (int64_t i = 0; i < count; ++i) {
      ImageToColumns(window_, x + (first + i) * ImageFloats(),
                     col + i * window_.positions() * Patch());
    }
  }

  // Thread t's examples, a group at a time.
  template <typename Body>
  void ForEachGroup(const OpCall& call, int t, const Body& body) const {
    const Range mine = Split(call.batch, call.pool->threads(), t);
    const int64_t group = Group(call.batch);
    for (int64_t i = mine.begin; i < mine.end; i += group) {
      body(i, std::min(group, mine.end - i));
    }
  }

  // Adds that of `count` images, whose dY is that of the product, to `sums`.
  void AddWeightGradient(const OpCall& call, int64_t first, int64_t count,
                         float* col, float* sums) const {
    float* const d_bias = bias_ ? sums + Patch() * filters_ : nullptr;
    if (direct_) {
      ForEachRow(call, {first, first + count},
                 [&](const ConvRow& row, int64_t at) {
                   BestDirectConv().gradient(row, call.dy + at, sums, d_bias);
                 });
      return;
    }
    const int64_t rows = count * window_.positions();
    const float* const dy = call.dy + first * output_.elements();
    if (bias_) AddColumnSums(dy, rows, filters_, d_bias);
    Columns(call.x[0], first, count, col);
    // dW(K,F) += Col(BP,K)^T * dY(BP,F)
    Gemm(1,
         RowMajor(static_cast<const float*>(col), rows, Patch()).Transposed(),
         RowMajor(dy, rows, filters_), 1, RowMajor(sums, Patch(), filters_));
  }

  void BackwardPart(const OpCall& call, int t) const {
    float* col = call.scratch + t * ColumnFloats(call.batch);
    float* sums = ThreadSums(call, t);
    std::fill_n(sums, GradientFloats(), 0.0f);
    ForEachGroup(call, t, [&](int64_t first, int64_t count) {
      const int64_t rows = count * window_.positions();
      float* dy = call.dy + first * output_.elements();
      if (!call.without_activation) {
        ActivationGradient(activation_, call.y + first * output_.elements(),
                           rows, filters_, dy);
      }
      const ConstMatrix d_out =
          RowMajor(static_cast<const float*>(dy), rows, filters_);
      if (!frozen()) AddWeightGradient(call, first, count, col, sums);
      if (call.dx[0] == nullptr) return;
      // dCol(BP,K) = dY(BP,F) * W(K,F)^T
      Gemm(1, d_out, Kernel(call).Transposed(), 0,
           RowMajor(col, rows, Patch()));
      float* dx = call.dx[0] + first * ImageFloats();
      std::fill_n(dx, count * ImageFloats(), 0.0f);
      for (int64_t i = 0; i < count; ++i) {
        AddColumnsToImage(window_, col + i * window_.positions() * Patch(),
                          dx + i * ImageFloats());
      }
    });
  }

  const Window2D window_;
  const Activation activation_;
  const bool bias_;
  const int64_t filters_;
  bool direct_ = false;
  std::vector<int64_t> taps_;  // where each is from the first, if direct
};

}  // namespace

Status MakeConv2D(const Layer& layer, const std::vector<Shape>& inputs,
                  std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  if (x.rank() != 3) {
    return InvalidArgument(
        "Conv2D needs an input of (height, width, channels), not %s",
        x.ToString().c_str());
  }
  if (layer.units < 1) return InvalidArgument("filters must be at least 1");
  Window2D window;
  RINGLET_RETURN_IF_ERROR(PlaceWindow(layer, x, "kernel", &window));
  op->reset(new Conv2DOp(layer, window));
  return Status();
}

}  // namespace ringlet
