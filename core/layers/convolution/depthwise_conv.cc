// DepthwiseConv2D, DepthwiseConv1D.

#include <algorithm>

#include "../layer_loops.h"
#include "../op.h"
#include "depthwise.h"

namespace ringlet {
namespace {

class DepthwiseConvOp final : public Op {
 public:
  DepthwiseConvOp(const Layer& layer, const Depthwise& depthwise)
      : depthwise_(depthwise),
        activation_(layer.activation),
        bias_(layer.use_bias) {
    const Window2D& window = depthwise.window();
    output_ = ShapeOf(layer, {window.height.output, window.width.output,
                              depthwise.filters()});
    weights_.push_back(
        {"kernel",
         KernelShape(layer, window, window.channels, depthwise.multiplier()),
         layer.depthwise_initializer, layer.depthwise_regularizer,
         layer.depthwise_constraint});
    AddBias(layer, depthwise.filters());
  }

  bool backward_reads_input() const override { return !frozen(); }
  bool backward_reads_output() const override { return activation_ != kLinear; }
  Activation fused_activation() const override { return activation_; }
  Recompute recompute() const override { return Recompute::kCostly; }
  int64_t multiply_adds() const override {
    return depthwise_.window().positions() * depthwise_.kernel_floats();
  }
  uint64_t forward_scratch(int64_t, int threads) const override {
    return static_cast<uint64_t>(threads * depthwise_.scratch_floats());
  }
  // In addition to forward_scratch, each block has its own sums of the
  // gradients.
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    return forward_scratch(batch, threads) +
           static_cast<uint64_t>(ExampleBlocks::Most(batch) * GradientFloats());
  }

  void Forward(const OpCall& call) const override {
    const Activation activation =
        call.without_activation ? kLinear : activation_;
    const int64_t height = depthwise_.window().height.output;
    call.pool->Run([&](int t) {
      float* const scratch = call.scratch + t * depthwise_.scratch_floats();
      const Range range = Split(call.batch * height, call.pool->threads(), t);
      for (int64_t at = range.begin; at < range.end;) {
        const int64_t example = at / height, row = at % height;
        const Range rows = {row, std::min(height, row + range.end - at)};
        float* const y = call.y + example * output_.elements();
        depthwise_.Forward(call.x[0] + example * ImageFloats(), call.weights[0],
                           bias_ ? call.weights[1] : nullptr,
                           activation == kRelu, rows, scratch, y);
        at += rows.size();
        if (activation == kLinear || activation == kRelu) continue;
        const int64_t width = depthwise_.window().width.output;
        BiasActivation(activation, nullptr, rows.size() * width,
                       depthwise_.filters(),
                       y + rows.begin * width * depthwise_.filters());
      }
    });
  }

  void Backward(const OpCall& call) const override {
    const ExampleBlocks blocks(call.batch);
    const int threads = call.pool->threads();
    float* const sums = call.scratch + threads * depthwise_.scratch_floats();
    call.pool->Run([&](int t) {
      float* const scratch = call.scratch + t * depthwise_.scratch_floats();
      const Range range = Split(blocks.count, threads, t);
      for (int64_t b = range.begin; b < range.end; ++b) {
        BackwardBlock(call, blocks[b], scratch, sums + b * GradientFloats());
      }
    });
    if (frozen()) return;
    const int64_t kernel = depthwise_.kernel_floats();
    std::fill_n(call.d_weights[0], kernel, 0.0f);
    if (bias_) std::fill_n(call.d_weights[1], depthwise_.filters(), 0.0f);
    for (int64_t b = 0; b < blocks.count; ++b) {
      const float* const block_sums = sums + b * GradientFloats();
      AddTo(block_sums, kernel, call.d_weights[0]);
      if (bias_)
        AddTo(block_sums + kernel, depthwise_.filters(), call.d_weights[1]);
    }
    call.sink->OnGradientsFinal(call.gradient_offset);
  }

 private:
  int64_t ImageFloats() const { return depthwise_.window().image_floats(); }
  int64_t GradientFloats() const {
    if (frozen()) return 0;
    return depthwise_.kernel_floats() + (bias_ ? depthwise_.filters() : 0);
  }

  void BackwardBlock(const OpCall& call, Range examples, float* scratch,
                     float* sums) const {
    const int64_t positions = depthwise_.window().positions();
    const int64_t filters = depthwise_.filters();
    std::fill_n(sums, GradientFloats(), 0.0f);
    for (int64_t i = examples.begin; i < examples.end; ++i) {
      float* const dy = call.dy + i * output_.elements();
      if (!call.without_activation) {
        ActivationGradient(activation_, call.y + i * output_.elements(),
                           positions, filters, dy);
      }
      if (!frozen()) {
        depthwise_.AddWeightGradient(call.x[0] + i * ImageFloats(), dy, scratch,
                                     sums);
        if (bias_) {
          AddColumnSums(dy, positions, filters,
                        sums + depthwise_.kernel_floats());
        }
      }
      if (call.dx[0] == nullptr) continue;
      depthwise_.InputGradient(dy, call.weights[0], scratch,
                               call.dx[0] + i * ImageFloats());
    }
  }

  const Depthwise depthwise_;
  const Activation activation_;
  const bool bias_;
};

}  // namespace

Status MakeDepthwiseConv(const Layer& layer, const std::vector<Shape>& inputs,
                         std::unique_ptr<Op>* op) {
  Depthwise depthwise;
  RINGLET_RETURN_IF_ERROR(Depthwise::Place(layer, inputs[0], &depthwise));
  op->reset(new DepthwiseConvOp(layer, depthwise));
  return Status();
}

}  // namespace ringlet
