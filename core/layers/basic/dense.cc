// Dense: y = activation(x W + b).

#include <algorithm>

#include "../../compute/gemm.h"
#include "../layer_loops.h"
#include "../op.h"
#include "dense_product.h"
#include "lora.h"

namespace ringlet {
namespace {

class DenseOp final : public Op {
 public:
  DenseOp(const Layer& layer, const Shape& x)
      : activation_(layer.activation),
        bias_(layer.use_bias),
        inputs_(x.back()),
        units_(layer.units),
        rows_(x.elements() / x.back()) {
    output_ = x;
    output_[x.rank() - 1] = units_;
    weights_.push_back({"kernel",
                        {inputs_, units_},
                        layer.kernel_initializer,
                        layer.kernel_regularizer,
                        layer.kernel_constraint});
    AddBias(layer, units_);
  }

  bool backward_reads_input() const override { return !frozen(); }
  bool backward_reads_output() const override { return activation_ != kLinear; }
  Activation fused_activation() const override { return activation_; }
  bool dx_may_overwrite_x() const override { return true; }
  // The most that a batch of up to `batch` needs. Blocks shrink as rows grow,
  // so a smaller batch may need more. The largest batch for each block size is
  // tried.
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    int64_t max_floats = 0;
    for (int64_t grains = 1; grains <= kMaxGrains; ++grains) {
      const int64_t with_block = RowsWithGrains(grains) / rows_;
      const int64_t largest = grains == 1 ? batch : std::min(batch, with_block);
      if (largest < 1) break;
      max_floats =
          std::max(max_floats, BackwardFloats(largest * rows_, threads));
    }
    return static_cast<uint64_t>(max_floats);
  }
  Recompute recompute() const override { return Recompute::kCostly; }
  int64_t multiply_adds() const override { return rows_ * inputs_ * units_; }

  void Forward(const OpCall& call) const override {
    const int64_t rows = call.batch * rows_;
    // Y(B,U) = X(B,K) * W(K,U)
    MultiplyAndActivate({RowMajor(call.x[0], rows, inputs_), Weights(call),
                         RowMajor(call.y, rows, units_)},
                        bias_ ? call.weights[1] : nullptr,
                        call.without_activation ? kLinear : activation_,
                        call.pool);
  }

  // Works in blocks of rows of W, from the last to the first. So a block of W,
  // of dW and of X is still in the cache for its second use: the sink updates
  // W, and dX reads it.
  void Backward(const OpCall& call) const override {
    const int64_t rows = call.batch * rows_;
    if (!call.without_activation) {
      ActivationGradient(activation_, call.y, rows, units_, call.dy);
    }
    if (bias_ && !frozen()) {
      std::fill_n(call.d_weights[1], units_, 0.0f);
      AddColumnSums(call.dy, rows, units_, call.d_weights[1]);
      call.sink->OnGradientsFinal(call.gradient_offset + inputs_ * units_);
    }
    const int64_t block = Block(rows) * call.pool->threads();
    const int64_t space = std::min(rows, kSpaceRows) * Block(rows);
    float* const sink_floats = call.scratch + space * call.pool->threads();
    for (int64_t end = inputs_; end > 0;) {
      const int64_t begin = std::max<int64_t>(0, end - block);
      call.pool->Run([&](int t) {
        const Range part = Split(end - begin, call.pool->threads(), t, kGrain);
        if (part.empty()) return;
        const Range own_inputs = {begin + part.begin, begin + part.end};
        if (!frozen()) {
          float* const dw = call.sink_consumes
                                ? sink_floats
                                : call.d_weights[0] + begin * units_;
          WeightGradient(call, own_inputs, dw + part.begin * units_);
        }
        if (call.dx[0] == nullptr) return;
        InputGradient(call, own_inputs, call.scratch + t * space);
      });
      end = begin;
      if (frozen()) continue;
      if (call.sink_consumes) {
        call.sink->ConsumeGradients(call.gradient_offset + begin * units_,
                                    sink_floats);
      } else {
        call.sink->OnGradientsFinal(call.gradient_offset + begin * units_);
      }
    }
  }

 private:
  ConstMatrix Weights(const OpCall& call) const {
    return RowMajor(static_cast<const float*>(call.weights[0]), inputs_,
                    units_);
  }
  ConstMatrix OutputGradient(const OpCall& call) const {
    return RowMajor(static_cast<const float*>(call.dy), call.batch * rows_,
                    units_);
  }

  // Computes the rows `part` of dW, to `dw`.
  void WeightGradient(const OpCall& call, Range part, float* dw) const {
    const ConstMatrix x = RowMajor(call.x[0], call.batch * rows_, inputs_);
    // dW(K,U) = X(B,K)^T * dY(B,U)
    Gemm(x.Cols(part.begin, part.end).Transposed(), OutputGradient(call),
         /*add=*/false, RowMajor(dw, part.size(), units_));
  }

  // Columns `part` of dX: dX(B,K) = dY(B,U) * W(K,U)^T. If dX is in the place
  // of X, it computes some rows at a time in `space`.
  void InputGradient(const OpCall& call, Range part, float* space) const {
    const int64_t rows = call.batch * rows_, width = part.size();
    const ConstMatrix dy = OutputGradient(call);
    const ConstMatrix w = Weights(call).Rows(part.begin, part.end).Transposed();
    if (call.x_activation == kLinear) {
      const Matrix dx = RowMajor(call.dx[0], rows, inputs_);
      return Gemm(dy, w, /*add=*/false, dx.Cols(part.begin, part.end));
    }
    for (int64_t at = 0; at < rows; at += kSpaceRows) {
      const int64_t count = std::min(kSpaceRows, rows - at);
      Gemm(dy.Rows(at, at + count), w, /*add=*/false,
           RowMajor(space, count, width));
      float* x = call.dx[0] + at * inputs_ + part.begin;
      for (int64_t i = 0; i < count; ++i, x += inputs_) {
        ActivationGradient(call.x_activation, x, 1, width, space + i * width);
        std::copy_n(space + i * width, width, x);
      }
    }
  }

  // The floats that Backward needs for this number of rows: each thread's block
  // of dX, and the block of dW.
  int64_t BackwardFloats(int64_t rows, int threads) const {
    const int64_t dw = frozen() ? 0 : units_;
    return threads * Block(rows) * (std::min(rows, kSpaceRows) + dw);
  }

  // Rows of W in a thread's block: dX and dW have 192 KiB each.
  int64_t Block(int64_t rows) const {
    const int64_t grains = std::clamp<int64_t>(
        RowsWithGrains(1) / std::max({int64_t{1}, rows, units_}), 1,
        kMaxGrains);
    return std::min(grains, (inputs_ + kGrain - 1) / kGrain) * kGrain;
  }
  // The most rows for which blocks of `grains` fit.
  static constexpr int64_t RowsWithGrains(int64_t grains) {
    return kBlockFloats / kGrain / grains;
  }
  static constexpr int64_t kGrain = 96;  // whole tiles of every kernel
  static constexpr int64_t kMaxGrains = 8;
  static constexpr int64_t kSpaceRows = 128;
  static constexpr int64_t kBlockFloats = 48 * 1024;

  const Activation activation_;
  const bool bias_;
  const int64_t inputs_, units_;
  const int64_t rows_;  // rows of x in one example
};

}  // namespace

Status MakeDense(const Layer& layer, const std::vector<Shape>& inputs,
                 std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  RINGLET_RETURN_IF_ERROR(CheckAtLeastOne("units", layer.units));
  if (x.rank() < 1) {
    return InvalidArgument("Dense needs an input of at least one dimension");
  }
  RINGLET_RETURN_IF_ERROR(CheckLora(layer, x.elements() / x.back(), "kernel",
                                    layer.kernel_constraint));
  if (layer.lora_rank > 0) return MakeLoraDense(layer, x, op);
  op->reset(new DenseOp(layer, x));
  return Status();
}

}  // namespace ringlet
