// SeparableConv2D, SeparableConv1D: a depthwise convolution, then a product
// with a 1x1 kernel. Each thread has the depthwise output (the "middle") of one
// group of examples at a time in scratch; Backward computes it again. Backward
// sums a block of groups, and then adds the sums of the blocks. Groups and
// blocks of examples depend only on the shapes, and one thread computes each
// product. So the bits are the same for any number of threads.

#include <algorithm>

#include "../../compute/gemm.h"
#include "../layer_loops.h"
#include "../op.h"
#include "depthwise.h"

namespace ringlet {
namespace {

class SeparableConvOp final : public Op {
 public:
  SeparableConvOp(const Layer& layer, const Depthwise& depthwise)
      : depthwise_(depthwise),
        activation_(layer.activation),
        bias_(layer.use_bias),
        filters_(layer.units) {
    const Window2D& window = depthwise.window();
    output_ =
        ShapeOf(layer, {window.height.output, window.width.output, filters_});
    weights_.push_back(
        {"depthwise_kernel",
         KernelShape(layer, window, window.channels, depthwise.multiplier()),
         layer.depthwise_initializer, layer.depthwise_regularizer,
         layer.depthwise_constraint});
    Window2D point = window;
    point.height.window = point.width.window = 1;
    weights_.push_back(
        {"pointwise_kernel",
         KernelShape(layer, point, depthwise.filters(), filters_),
         layer.pointwise_initializer, layer.pointwise_regularizer,
         layer.pointwise_constraint});
    AddBias(layer, filters_);
  }

  bool backward_reads_input() const override { return !frozen(); }
  bool backward_reads_output() const override { return activation_ != kLinear; }
  Activation fused_activation() const override { return activation_; }
  Recompute recompute() const override { return Recompute::kCostly; }
  int64_t multiply_adds() const override {
    return Positions() * (depthwise_.kernel_floats() + PointFloats());
  }
  uint64_t forward_scratch(int64_t batch, int threads) const override {
    return static_cast<uint64_t>(threads * ThreadFloats(batch));
  }
  // Backward also needs the sums of the gradients of each block.
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    return static_cast<uint64_t>(threads * ThreadFloats(batch) +
                                 std::min(batch, MaxBlocks()) *
                                     GradientFloats());
  }

  void Forward(const OpCall& call) const override {
    const Activation activation =
        call.without_activation ? kLinear : activation_;
    const int64_t group = GroupSize(call.batch);
    const int64_t groups = (call.batch + group - 1) / group;
    ForEachIndex(call, groups, [&](int64_t g, int t) {
      float* const middle = call.scratch + t * ThreadFloats(call.batch);
      const Range examples = {g * group, std::min(call.batch, (g + 1) * group)};
      const int64_t rows = examples.size() * Positions();
      float* const y = call.y + examples.begin * output_.elements();
      ComputeMiddle(call, examples, middle);
      // Y(BP,F) = D(BP,CM) * W(CM,F)
      Gemm(MiddleMatrix(middle, rows), PointKernel(call), /*add=*/false,
           RowMajor(y, rows, filters_));
      BiasActivation(activation, bias_ ? call.weights[2] : nullptr, rows,
                     filters_, y);
    });
  }

  void Backward(const OpCall& call) const override {
    const ExampleBlocks blocks(call.batch, MaxBlocks());
    float* const sums =
        call.scratch + call.pool->threads() * ThreadFloats(call.batch);
    ForEachIndex(call, blocks.count, [&](int64_t b, int t) {
      float* const middle = call.scratch + t * ThreadFloats(call.batch);
      float* const block_sums = sums + b * GradientFloats();
      std::fill_n(block_sums, GradientFloats(), 0.0f);
      const Range block = blocks[b];
      const int64_t group = GroupSize(call.batch);
      for (int64_t i = block.begin; i < block.end; i += group) {
        BackwardGroup(call, {i, std::min(block.end, i + group)}, middle,
                      block_sums);
      }
    });
    if (frozen()) return;
    for (size_t w = 0; w < weights_.size(); ++w) {
      const int64_t n = weights_[w].shape.elements();
      std::fill_n(call.d_weights[w], n, 0.0f);
      for (int64_t b = 0; b < blocks.count; ++b) {
        AddTo(sums + b * GradientFloats() + GradientOffset(w), n,
              call.d_weights[w]);
      }
    }
    call.sink->OnGradientsFinal(call.gradient_offset);
  }

 private:
  // About this number of rows of a product are a group, so that it stays in the
  // second-level cache.
  static constexpr int64_t kGroupRows = 2048;
  // Large kernels have few blocks, since their sums take memory.
  static constexpr int64_t kBlockFloats = 1 << 20;

  int64_t Positions() const { return depthwise_.window().positions(); }
  int64_t ImageFloats() const { return depthwise_.window().image_floats(); }
  int64_t PointFloats() const { return depthwise_.filters() * filters_; }
  int64_t GroupSize(int64_t batch) const {
    return std::min(batch, 1 + kGroupRows / Positions());
  }
  int64_t MiddleFloats(int64_t batch) const {
    return GroupSize(batch) * depthwise_.output_floats();
  }
  // A thread's scratch: the middle, then the scratch of the depthwise loops.
  int64_t ThreadFloats(int64_t batch) const {
    return MiddleFloats(batch) + depthwise_.scratch_floats();
  }
  // The offset of the gradient of weight number `w` in a block's sums.
  int64_t GradientOffset(size_t w) const {
    return (w > 0 ? depthwise_.kernel_floats() : 0) +
           (w > 1 ? PointFloats() : 0);
  }
  int64_t GradientFloats() const {
    return frozen() ? 0 : GradientOffset(2) + (bias_ ? filters_ : 0);
  }
  int64_t MaxBlocks() const {
    return std::clamp<int64_t>(kBlockFloats / GradientOffset(2), 4,
                               ExampleBlocks::kMax);
  }
  ConstMatrix MiddleMatrix(const float* middle, int64_t rows) const {
    return RowMajor(middle, rows, depthwise_.filters());
  }
  ConstMatrix PointKernel(const OpCall& call) const {
    return RowMajor(static_cast<const float*>(call.weights[1]),
                    depthwise_.filters(), filters_);
  }

  // Writes the depthwise convolution's output for `examples` to `middle`.
  void ComputeMiddle(const OpCall& call, Range examples, float* middle) const {
    for (int64_t i = examples.begin; i < examples.end; ++i) {
      depthwise_.Forward(
          call.x[0] + i * ImageFloats(), call.weights[0], nullptr,
          /*relu=*/false, {0, depthwise_.window().height.output},
          middle + MiddleFloats(call.batch),
          middle + (i - examples.begin) * depthwise_.output_floats());
    }
  }

  void BackwardGroup(const OpCall& call, Range examples, float* middle,
                     float* sums) const {
    const int64_t rows = examples.size() * Positions();
    float* const dy = call.dy + examples.begin * output_.elements();
    if (!call.without_activation) {
      ActivationGradient(activation_,
                         call.y + examples.begin * output_.elements(), rows,
                         filters_, dy);
    }
    const ConstMatrix d_out =
        RowMajor(static_cast<const float*>(dy), rows, filters_);
    if (!frozen()) {
      ComputeMiddle(call, examples, middle);
      // dW(CM,F) += D(BP,CM)^T * dY(BP,F)
      Gemm(MiddleMatrix(middle, rows).Transposed(), d_out, /*add=*/true,
           RowMajor(sums + GradientOffset(1), depthwise_.filters(), filters_));
      if (bias_) AddColumnSums(dy, rows, filters_, sums + GradientOffset(2));
    }
    if (frozen() && call.dx[0] == nullptr) return;
    // dD(BP,CM) = dY(BP,F) * W(CM,F)^T
    Gemm(d_out, PointKernel(call).Transposed(), /*add=*/false,
         RowMajor(middle, rows, depthwise_.filters()));
    for (int64_t i = examples.begin; i < examples.end; ++i) {
      const float* const d_middle =
          middle + (i - examples.begin) * depthwise_.output_floats();
      if (!frozen()) {
        depthwise_.AddWeightGradient(call.x[0] + i * ImageFloats(), d_middle,
                                     middle + MiddleFloats(call.batch), sums);
      }
      if (call.dx[0] == nullptr) continue;
      depthwise_.InputGradient(d_middle, call.weights[0],
                               middle + MiddleFloats(call.batch),
                               call.dx[0] + i * ImageFloats());
    }
  }

  const Depthwise depthwise_;
  const Activation activation_;
  const bool bias_;
  const int64_t filters_;
};

}  // namespace

Status MakeSeparableConv(const Layer& layer, const std::vector<Shape>& inputs,
                         std::unique_ptr<Op>* op) {
  RINGLET_RETURN_IF_ERROR(CheckAtLeastOne("filters", layer.units));
  Depthwise depthwise;
  RINGLET_RETURN_IF_ERROR(Depthwise::Place(layer, inputs[0], &depthwise));
  const int64_t positions = depthwise.window().positions();
  if (positions > (int64_t{1} << 31) / depthwise.filters()) {
    return InvalidArgument(
        "%lld channels at %lld positions are too many: the product may be at "
        "most 2^31",
        static_cast<long long>(depthwise.filters()),
        static_cast<long long>(positions));
  }
  op->reset(new SeparableConvOp(layer, depthwise));
  return Status();
}

}  // namespace ringlet
