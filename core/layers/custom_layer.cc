// The op of a user-defined layer. It does not rely on the layer's plan. An
// exception becomes a Status (base/guarded.h). Known values after the end of
// the scratch show writes beyond it. Inputs that Backward does not read by its
// plan are not passed. The layer writes the gradient of every weight. Gradients
// that no optimizer needs (frozen, state) go to floats in front of its scratch.
// So this op alone has state between calls, d_weights_: the pointers of the
// present call.

#include "ringlet/custom_layer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "../base/guarded.h"
#include "layer_kind.h"
#include "op.h"

namespace ringlet {
namespace {

// Floats after a call's scratch that must not be written.
constexpr int64_t kGuard = 16;
constexpr float kGuardValue = -7e29f;

class CustomOp final : public Op {
 public:
  CustomOp(std::shared_ptr<const CustomLayer> layer, std::vector<Shape> inputs,
           LayerPlan plan)
      : layer_(std::move(layer)),
        inputs_(std::move(inputs)),
        plan_(std::move(plan)),
        no_inputs_(inputs_.size(), nullptr) {
    output_ = plan_.output;
    weights_ = plan_.weights;
    d_weights_.resize(weights_.size());
  }

  bool backward_reads_input() const override {
    return plan_.backward_reads_input;
  }
  bool backward_reads_output() const override {
    return plan_.backward_reads_output;
  }
  bool backward_may_fail() const override { return true; }
  uint64_t forward_scratch(int64_t batch, int threads) const override {
    return WithGuard(Floats(plan_.forward_scratch, batch, threads));
  }
  uint64_t backward_scratch(int64_t batch, int threads) const override {
    return WithGuard(Floats(plan_.backward_scratch, batch, threads)) +
           static_cast<uint64_t>(UnusedGradientFloats());
  }

  void Forward(const OpCall& call) const override {
    *call.status = Compute(&CustomLayer::Forward, plan_.forward_scratch,
                           MakeCall(call), call.scratch);
  }

  void Backward(const OpCall& call) const override {
    LayerCall custom = MakeCall(call);
    if (!plan_.backward_reads_input) custom.x = no_inputs_.data();
    if (!plan_.backward_reads_output) custom.y = nullptr;
    custom.dy = call.dy;
    custom.dx = call.dx;
    RedirectUnneededGradients(call);
    custom.d_weights = d_weights_.data();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (call.dx[i] == nullptr) continue;
      std::fill_n(call.dx[i], call.batch * inputs_[i].elements(), 0.0f);
    }
    for (size_t i = 0; i < weights_.size(); ++i) {
      std::fill_n(d_weights_[i], weights_[i].shape.elements(), 0.0f);
    }
    *call.status = Compute(&CustomLayer::Backward, plan_.backward_scratch,
                           custom, call.scratch + UnusedGradientFloats());
    const bool trained =
        std::any_of(call.d_weights, call.d_weights + weights_.size(),
                    [](float* d) { return d != nullptr; });
    if (call.status->ok() && trained) {
      call.sink->OnGradientsFinal(call.gradient_offset);
    }
  }

 private:
  // The layer writes all gradients. Unneeded gradients go to the first floats
  // of the scratch.
  int64_t UnusedGradientFloats() const {
    int64_t floats = 0;
    for (const WeightSpec& weight : weights_) {
      const bool needed = weight.trainable && !frozen();
      if (!needed) floats += weight.shape.elements();
    }
    return floats;
  }
  // Points d_weights_ to the call's gradients, or to scratch for unneeded ones.
  void RedirectUnneededGradients(const OpCall& call) const {
    float* unneeded = call.scratch;
    for (size_t i = 0; i < weights_.size(); ++i) {
      d_weights_[i] = call.d_weights[i];
      if (d_weights_[i] != nullptr) continue;
      d_weights_[i] = unneeded;
      unneeded += weights_[i].shape.elements();
    }
  }

  static int64_t Floats(const ScratchFloats& scratch, int64_t batch,
                        int threads) {
    return scratch.fixed + scratch.per_example * batch +
           scratch.per_thread * threads;
  }
  static uint64_t WithGuard(int64_t floats) {
    return static_cast<uint64_t>(floats > 0 ? floats + kGuard : 0);
  }

  LayerCall MakeCall(const OpCall& call) const {
    LayerCall custom;
    custom.batch = call.batch;
    custom.training = call.training;
    custom.inputs = inputs_.data();
    custom.output = &output_;
    custom.x = call.x;
    custom.y = call.y;
    custom.weights = call.weights;
    custom.seed = call.seed;
    custom.counter = call.counter;
    custom.pool = call.pool;
    return custom;
  }

  Status Compute(Status (CustomLayer::*method)(const LayerCall&) const,
                 const ScratchFloats& scratch, LayerCall call,
                 float* floats) const {
    const int64_t n = Floats(scratch, call.batch, call.threads());
    call.scratch = n > 0 ? floats : nullptr;
    if (n > 0) std::fill_n(floats + n, kGuard, kGuardValue);
    RINGLET_RETURN_IF_ERROR(CallGuarded(*layer_, method, call));
    if (n == 0 || std::all_of(floats + n, floats + n + kGuard,
                              [](float f) { return f == kGuardValue; })) {
      return Status();
    }
    return Error(Code::kInternal,
                 "wrote past the %lld floats of scratch that its Build asked "
                 "for; other memory may be damaged",
                 static_cast<long long>(n));
  }

  const std::shared_ptr<const CustomLayer> layer_;
  const std::vector<Shape> inputs_;
  const LayerPlan plan_;
  const std::vector<const float*> no_inputs_;
  mutable std::vector<float*> d_weights_;  // gradients of the present call
};

Status CheckScratch(const ScratchFloats& scratch) {
  constexpr int64_t kMax = int64_t{1} << 31;
  for (const int64_t floats :
       {scratch.fixed, scratch.per_example, scratch.per_thread}) {
    if (floats >= 0 && floats <= kMax) continue;
    return InvalidArgument("Build asks for %lld floats of scratch",
                           static_cast<long long>(floats));
  }
  return Status();
}

// Names identify saved weights; state comes last.
Status CheckWeights(const std::vector<WeightSpec>& weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::string& name = weights[i].name;
    if (name.empty() || name.find('/') != std::string::npos) {
      return InvalidArgument("a weight's name must be a word, not '%s'",
                             name.c_str());
    }
    if (i > 0 && weights[i].trainable && !weights[i - 1].trainable) {
      return InvalidArgument("weight '%s' is trained, and comes after state",
                             name.c_str());
    }
    for (size_t j = 0; j < i; ++j) {
      if (weights[j].name != name) continue;
      return InvalidArgument("two weights are named '%s'", name.c_str());
    }
  }
  return Status();
}

}  // namespace

Layer Custom(std::shared_ptr<const CustomLayer> custom) {
  Layer layer = MakeLayer(Layer::Kind::kCustom);
  layer.custom = std::move(custom);
  return layer;
}

Status MakeCustom(const Layer& layer, const std::vector<Shape>& inputs,
                  std::unique_ptr<Op>* op) {
  if (layer.custom == nullptr) {
    return InvalidArgument("Custom was given no layer");
  }
  LayerPlan plan;
  plan.output = inputs[0];
  RINGLET_RETURN_IF_ERROR(CallBuild(*layer.custom, inputs, &plan));
  RINGLET_RETURN_IF_ERROR(CheckScratch(plan.forward_scratch));
  RINGLET_RETURN_IF_ERROR(CheckScratch(plan.backward_scratch));
  RINGLET_RETURN_IF_ERROR(CheckWeights(plan.weights));
  op->reset(new CustomOp(layer.custom, inputs, std::move(plan)));
  return Status();
}

}  // namespace ringlet
