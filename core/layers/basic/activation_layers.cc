// Activation, ReLU, LeakyReLU, ELU.
//
// An op's fused_activation() must have a gradient that follows from the output,
// since other ops write that gradient over the output. Other activations report
// kLinear, and OpCall::without_activation does not apply to their op.

#include "activation_layers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "../../compute/functions.h"
#include "../layer_loops.h"
#include "../op.h"

namespace ringlet {
namespace {

class ActivationOp final : public Op {
 public:
  ActivationOp(Activation activation, const Shape& x)
      : activation_(activation) {
    output_ = x;
  }
  bool backward_reads_input() const override {
    return GradientReadsInput(activation_);
  }
  bool backward_reads_output() const override {
    return !backward_reads_input();
  }
  Activation fused_activation() const override {
    return backward_reads_input() ? kLinear : activation_;
  }
  bool may_overwrite_input() const override { return true; }
  bool dx_may_overwrite_dy(size_t) const override { return true; }
  ExactResults exact_results() const override {
    const bool selects =
        activation_ == kRelu || activation_ == kRelu6 || activation_ == kLinear;
    return {selects, selects};
  }
  Recompute recompute() const override { return Recompute::kCheap; }

  void Forward(const OpCall& call) const override {
    ForEachPart(call, call.batch * Rows(), 1, [&](Range rows) {
      const int64_t width = output_.back(), begin = rows.begin * width;
      float* y = call.y + begin;
      const float* const x = call.x[0] + begin;
      if (x != y) std::copy_n(x, rows.size() * width, y);
      BiasActivation(call.without_activation ? kLinear : activation_, nullptr,
                     rows.size(), width, y);
    });
  }

  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    ForEachPart(call, call.batch * Rows(), 1, [&](Range rows) {
      const int64_t width = output_.back(), begin = rows.begin * width;
      float* dx = call.dx[0] + begin;
      const float* const dy = call.dy + begin;
      if (dy != dx) std::copy_n(dy, rows.size() * width, dx);
      if (call.without_activation && !backward_reads_input()) return;
      const float* const gradient_source =
          (backward_reads_input() ? call.x[0] : call.y) + begin;
      ActivationGradient(activation_, gradient_source, rows.size(), width, dx);
    });
  }

 private:
  int64_t Rows() const { return output_.elements() / output_.back(); }

  const Activation activation_;
};

// Saves the input of the activation besides its output: the next layers read
// the output, and the gradient needs the input.
class ActivatedOp final : public Op {
 public:
  ActivatedOp(Activation activation, std::unique_ptr<Op> op)
      : activation_(activation), op_(std::move(op)) {
    output_ = op_->output();
    weights_ = op_->weights();
  }

  bool backward_reads_input() const override {
    return op_->backward_reads_input();
  }
  bool dx_may_overwrite_x() const override { return op_->dx_may_overwrite_x(); }
  uint64_t forward_scratch(int64_t batch, int threads) const override {
    return op_->forward_scratch(batch, threads);
  }
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    return op_->backward_scratch(batch, threads);
  }
  uint64_t saved_floats(int64_t batch) const override {
    return OwnFloats(batch) + op_->saved_floats(batch);
  }
  bool changes_state() const override { return op_->changes_state(); }
  Recompute recompute() const override { return op_->recompute(); }
  bool backward_may_fail() const override { return op_->backward_may_fail(); }
  bool has_gradient() const override { return op_->has_gradient(); }
  int64_t multiply_adds() const override { return op_->multiply_adds(); }
  uint64_t table_bytes() const override { return op_->table_bytes(); }
  void set_frozen(bool frozen) override {
    Op::set_frozen(frozen);
    op_->set_frozen(frozen);
  }

  void Forward(const OpCall& call) const override {
    op_->Forward(Inner(call));
    const bool saves = call.training && call.saved != nullptr;
    ForEachPart(call, call.batch * output_.elements(), 16, [&](Range part) {
      float* const y = call.y + part.begin;
      if (saves) std::copy_n(y, part.size(), call.saved + part.begin);
      BiasActivation(activation_, nullptr, 1, part.size(), y);
    });
  }

  void Backward(const OpCall& call) const override {
    ForEachPart(call, call.batch * output_.elements(), 16, [&](Range part) {
      ActivationGradient(activation_, call.saved + part.begin, 1, part.size(),
                         call.dy + part.begin);
    });
    op_->Backward(Inner(call));
  }

 private:
  uint64_t OwnFloats(int64_t batch) const {
    return static_cast<uint64_t>(batch * output_.elements());
  }
  OpCall Inner(const OpCall& call) const {
    OpCall inner = call;
    if (call.saved != nullptr) inner.saved = call.saved + OwnFloats(call.batch);
    inner.without_activation = false;
    return inner;
  }

  const Activation activation_;
  const std::unique_ptr<Op> op_;
};

// Values are as in Keras, gradients as in TensorFlow. At the threshold the
// gradient is 0, but a leaky slope begins there. At the maximum the gradient of
// a clip is 1 and the slope of relu6 is 0.
struct ReluCurve {
  float max, slope, threshold;

  // The output does not show if the input was above the maximum.
  bool reads_input() const { return !std::isinf(max); }

  float Value(float x) const {
    if (x > threshold) return x > max ? max : x;
    if (x != x) return x;
    return slope == 0 ? 0 : slope * (x - threshold);
  }
  // `source` is the input if reads_input(), otherwise the output.
  float TimesSlope(float d, float source) const {
    if (reads_input()) {
      const bool relu6 = threshold == 0 && max == 6;
      if (source > threshold) {
        return source < max || (source == max && !relu6) ? d : 0;
      }
      return source < threshold ? d * slope : 0;
    }
    if (source > 0) return d;
    return source < 0 || threshold == 0 ? d * slope : 0;
  }
};

struct EluCurve {
  float alpha;

  bool reads_input() const { return false; }

  float Value(float x) const { return x > 0 ? x : alpha * math::Expm1(x); }
  float TimesSlope(float d, float y) const {
    return y > 0 ? d : d * (y + alpha);
  }
};

// The op of activations of single numbers with parameters.
template <typename Curve>
class CurveOp final : public Op {
 public:
  CurveOp(const Curve& curve, const Shape& x) : curve_(curve) { output_ = x; }
  bool backward_reads_input() const override { return curve_.reads_input(); }
  bool backward_reads_output() const override {
    return !backward_reads_input();
  }
  bool may_overwrite_input() const override { return true; }
  bool dx_may_overwrite_dy(size_t) const override { return true; }
  Recompute recompute() const override { return Recompute::kCheap; }

  void Forward(const OpCall& call) const override {
    ForEachPart(call, call.batch * output_.elements(), 16, [&](Range part) {
      for (int64_t i = part.begin; i < part.end; ++i) {
        call.y[i] = curve_.Value(call.x[0][i]);
      }
    });
  }
  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    const float* const gradient_source =
        backward_reads_input() ? call.x[0] : call.y;
    ForEachPart(call, call.batch * output_.elements(), 16, [&](Range part) {
      for (int64_t i = part.begin; i < part.end; ++i) {
        call.dx[0][i] = curve_.TimesSlope(call.dy[i], gradient_source[i]);
      }
    });
  }

 private:
  const Curve curve_;
};

}  // namespace

std::unique_ptr<Op> AppendActivation(Activation activation,
                                     std::unique_ptr<Op> op) {
  return std::make_unique<ActivatedOp>(activation, std::move(op));
}

Status MakeActivation(const Layer& layer, const std::vector<Shape>& inputs,
                      std::unique_ptr<Op>* op) {
  const Shape& x = inputs[0];
  if (IsOverRow(layer.activation) && x.rank() < 1) {
    return InvalidArgument("%s needs at least one dimension",
                           ActivationName(layer.activation));
  }
  op->reset(new ActivationOp(layer.activation, x));
  return Status();
}

Status MakeReLU(const Layer& layer, const std::vector<Shape>& inputs,
                std::unique_ptr<Op>* op) {
  const bool plain = layer.negative_slope == 0 && layer.threshold == 0;
  if (plain && std::isinf(layer.max_value)) {
    op->reset(new ActivationOp(kRelu, inputs[0]));
  } else if (plain && layer.max_value == 6) {
    op->reset(new ActivationOp(kRelu6, inputs[0]));
  } else {
    const ReluCurve curve = {layer.max_value, layer.negative_slope,
                             layer.threshold};
    op->reset(new CurveOp<ReluCurve>(curve, inputs[0]));
  }
  return Status();
}

// With a negative alpha the output does not determine the gradient.
Status MakeELU(const Layer& layer, const std::vector<Shape>& inputs,
               std::unique_ptr<Op>* op) {
  op->reset(new CurveOp<EluCurve>({layer.alpha}, inputs[0]));
  return Status();
}

}  // namespace ringlet
