// Conv2DTranspose and Conv1DTranspose: a convolution from the output to the
// input, in reverse. The sums are the sums of its gradients (conv2d.cc).
// Forward is the gradient of the convolution's input. The gradient of x is a
// convolution of dY. The gradient of the kernel is the convolution's kernel
// gradient, with x and dY exchanged. So the kernel is (height, width, filters,
// channels).

#include <algorithm>
#include <memory>

#include "../layer_loops.h"
#include "../layer_table.h"
#include "../op.h"
#include "window.h"

namespace ringlet {

OpMaker MakeConv;

namespace {

class ConvTransposeOp final : public Op {
 public:
  // `fixed` and `trained` are the same convolution, without bias and
  // activation. `fixed` is frozen, so that its Backward computes only the
  // gradient of its input.
  ConvTransposeOp(const Layer& layer, const Shape& image,
                  std::unique_ptr<Op> fixed, std::unique_ptr<Op> trained)
      : activation_(layer.activation),
        bias_(layer.use_bias),
        filters_(layer.units),
        positions_(image.elements() / layer.units),
        fixed_(std::move(fixed)),
        trained_(std::move(trained)) {
    fixed_->set_frozen(true);
    output_ = ShapeOf(layer, image);
    weights_ = fixed_->weights();
    if (output_.rank() == 2) {
      const Shape& kernel = weights_[0].shape;
      weights_[0].shape = {kernel[1], kernel[2], kernel[3]};
    }
    AddBias(layer, filters_);
  }

  bool backward_reads_input() const override { return !frozen(); }
  bool backward_reads_output() const override { return activation_ != kLinear; }
  Activation fused_activation() const override { return activation_; }
  Recompute recompute() const override { return Recompute::kCostly; }
  int64_t multiply_adds() const override { return fixed_->multiply_adds(); }
  uint64_t forward_scratch(int64_t batch, int threads) const override {
    return fixed_->backward_scratch(batch, threads);
  }
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    return std::max(fixed_->forward_scratch(batch, threads),
                    frozen() ? 0 : trained_->backward_scratch(batch, threads));
  }

  void Forward(const OpCall& call) const override {
    OpCall sum = call;
    // The convolution has no activation, so its Backward does not write dy.
    sum.dy = const_cast<float*>(call.x[0]);
    sum.dx = &call.y;
    fixed_->Backward(sum);
    const Activation activation =
        call.without_activation ? kLinear : activation_;
    if (!bias_ && activation == kLinear) return;
    ForEachPart(call, call.batch * positions_, 1, [&](Range part) {
      BiasActivation(activation, bias_ ? call.weights[1] : nullptr, part.size(),
                     filters_, call.y + part.begin * filters_);
    });
  }

  void Backward(const OpCall& call) const override {
    const int64_t rows = call.batch * positions_;
    if (!call.without_activation && activation_ != kLinear) {
      ForEachPart(call, rows, 1, [&](Range part) {
        const int64_t at = part.begin * filters_;
        ActivationGradient(activation_, call.y + at, part.size(), filters_,
                           call.dy + at);
      });
    }
    const float* const dy = call.dy;
    OpCall sum = call;
    sum.x = &dy;
    if (call.dx[0] != nullptr) {
      sum.y = call.dx[0];
      fixed_->Forward(sum);
    }
    if (frozen()) return;
    if (bias_) {
      std::fill_n(call.d_weights[1], filters_, 0.0f);
      AddImageSums(dy, call.batch, positions_, filters_, call.d_weights[1]);
    }
    float* no_dx = nullptr;
    sum.dx = &no_dx;
    sum.dy = const_cast<float*>(call.x[0]);
    trained_->Backward(sum);
  }

 private:
  const Activation activation_;
  const bool bias_;
  const int64_t filters_, positions_;
  const std::unique_ptr<Op> fixed_, trained_;
};

}  // namespace

Status MakeConvTranspose(const Layer& layer, const std::vector<Shape>& inputs,
                         std::unique_ptr<Op>* op) {
  RINGLET_RETURN_IF_ERROR(CheckAtLeastOne("filters", layer.units));
  Window2D window;
  RINGLET_RETURN_IF_ERROR(PlaceTransposed(layer, inputs[0], &window));
  Layer conv = layer;
  conv.kind = Layer::Kind::kConv2D;
  conv.units = inputs[0].back();
  conv.use_bias = false;
  conv.activation = kLinear;
  if (ClassOf(layer).axes == 1) {
    conv.window[0] = conv.strides[0] = conv.dilation[0] = 1;
  }
  const Shape image = {window.height.input, window.width.input, layer.units};
  std::unique_ptr<Op> both[2];
  for (std::unique_ptr<Op>& one : both) {
    RINGLET_RETURN_IF_ERROR(MakeConv(conv, {image}, &one));
  }
  op->reset(new ConvTransposeOp(layer, image, std::move(both[0]),
                                std::move(both[1])));
  return Status();
}

}  // namespace ringlet
