// Every span of the layer is between margins with a known value, which show
// writes beyond it. Spans that the layer may only read are compared with a copy
// afterwards.

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "op.h"
#include "ringlet/compute.h"
#include "ringlet/custom_layer.h"

namespace ringlet {
namespace {

// Floats between two fences.
class Fenced {
 public:
  Fenced(std::string name, int64_t size)
      : name_(std::move(name)),
        size_(size),
        floats_(static_cast<size_t>(size + 2 * kMargin), kFence) {}
  float* data() { return floats_.data() + kMargin; }
  int64_t size() const { return size_; }
  const std::string& name() const { return name_; }
  void Fill(float value) { std::fill_n(data(), size_, value); }
  void Draw(uint64_t seed, uint64_t stream) {
    const Philox random(seed, stream);
    for (int64_t i = 0; i < size_; ++i) {
      data()[i] = 2 * Philox::Unit(random.At(static_cast<uint64_t>(i))[0]) - 1;
    }
    drawn_.assign(data(), data() + size_);
  }
  Status Check() const {
    const auto intact = [](const float* at) {
      return std::all_of(at, at + kMargin, [](float f) { return f == kFence; });
    };
    if (!intact(floats_.data()) || !intact(floats_.data() + kMargin + size_)) {
      return Error(Code::kInternal,
                   "wrote outside of the %" PRId64 " floats of %s", size_,
                   name_.c_str());
    }
    if (!drawn_.empty() &&
        !std::equal(drawn_.begin(), drawn_.end(), floats_.data() + kMargin)) {
      return Error(Code::kInternal, "wrote to %s", name_.c_str());
    }
    return Status();
  }

 private:
  static constexpr int64_t kMargin = 64;
  static constexpr float kFence = -7e29f;
  std::string name_;
  int64_t size_;
  std::vector<float> floats_;
  std::vector<float> drawn_;  // must not change
};

class Checker final : private GradientSink {
 public:
  Checker(const Op& op, const std::vector<Shape>& inputs,
          const GradientCheck& check)
      : op_(op), check_(check), pool_(check.threads) {
    const auto add = [](std::vector<Fenced>* to, const std::string& name,
                        int64_t size) { to->emplace_back(name, size); };
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t size = check.batch * inputs[i].elements();
      add(&values_, "input " + std::to_string(i), size);
      add(&gradients_, "dx of input " + std::to_string(i), size);
    }
    for (const WeightSpec& weight : op.weights()) {
      add(&values_, "weight '" + weight.name + "'", weight.shape.elements());
      add(&gradients_, "the gradient of weight '" + weight.name + "'",
          weight.shape.elements());
    }
    const int64_t outputs = check.batch * op.output().elements();
    add(&rest_, "y", outputs);
    add(&rest_, "dy", outputs);
    add(&rest_, "the scratch of Forward",
        static_cast<int64_t>(op.forward_scratch(check.batch, check.threads)));
    add(&rest_, "the scratch of Backward",
        static_cast<int64_t>(op.backward_scratch(check.batch, check.threads)));
    add(&rest_, "what Forward saves",
        static_cast<int64_t>(op.saved_floats(check.batch)));
    no_changes_.resize(op.weights().size());
    for (size_t i = 0; i < values_.size(); ++i) {
      values_[i].Draw(check.seed, i);
      if (i < inputs.size()) {
        x_.push_back(values_[i].data());
        dx_.push_back(gradients_[i].data());
      } else {
        weights_.push_back(values_[i].data());
        const WeightSpec& weight = op.weights()[i - inputs.size()];
        d_weights_.push_back(weight.trainable ? gradients_[i].data() : nullptr);
      }
    }
    dy().Draw(check.seed, values_.size());
    dys_.assign(dy().data(), dy().data() + outputs);
  }

  Status Run() {
    RINGLET_RETURN_IF_ERROR(pool_.status());
    RINGLET_RETURN_IF_ERROR(Forward());
    RINGLET_RETURN_IF_ERROR(Untouched(values_));
    RINGLET_RETURN_IF_ERROR(Backward());
    for (size_t i = 0; i < values_.size(); ++i) {
      const size_t weight = i - x_.size();
      const bool state = i >= x_.size() && d_weights_[weight] == nullptr;
      if (state) continue;  // it has no gradient
      RINGLET_RETURN_IF_ERROR(Compare(&values_[i], &gradients_[i]));
    }
    return Status();
  }

 private:
  Fenced& y() { return rest_[0]; }
  Fenced& dy() { return rest_[1]; }

  OpCall CallOf(Fenced* scratch) {
    OpCall call;
    call.batch = check_.batch;
    call.x = x_.data();
    call.y = y().data();
    call.weights = weights_.data();
    call.scratch = scratch->data();
    call.saved = rest_[4].data();
    call.layer_state_changes = no_changes_.data();
    call.training = true;
    call.seed = check_.seed;
    call.pool = &pool_;
    call.status = &failed_;
    return call;
  }

  Status Untouched(const std::vector<Fenced>& buffers) const {
    for (const Fenced& buffer : buffers) {
      RINGLET_RETURN_IF_ERROR(buffer.Check());
    }
    return Status();
  }

  Status Forward() {
    y().Fill(std::numeric_limits<float>::quiet_NaN());
    op_.Forward(CallOf(&rest_[2]));
    RINGLET_RETURN_IF_ERROR(failed_.Annotate("Forward"));
    RINGLET_RETURN_IF_ERROR(Untouched(rest_).Annotate("Forward"));
    for (int64_t i = 0; i < y().size(); ++i) {
      if (!std::isnan(y().data()[i])) continue;
      return Error(Code::kInternal,
                   "Forward left value %" PRId64
                   " of y as it was, or it is not a number",
                   i);
    }
    return Status();
  }

  Status Backward() {
    for (Fenced& gradient : gradients_) gradient.Fill(0);
    OpCall call = CallOf(&rest_[3]);
    call.dy = dy().data();
    call.dx = dx_.data();
    call.d_weights = d_weights_.data();
    call.sink = this;
    op_.Backward(call);
    RINGLET_RETURN_IF_ERROR(failed_.Annotate("Backward"));
    RINGLET_RETURN_IF_ERROR(Untouched(values_).Annotate("Backward"));
    return Untouched(gradients_).Annotate("Backward");
  }

  // sum dy * y.
  Status Value(double* sum) {
    RINGLET_RETURN_IF_ERROR(Forward());
    *sum = 0;
    for (size_t i = 0; i < dys_.size(); ++i) {
      *sum += double{dys_[i]} * y().data()[i];
    }
    return Status();
  }

  Status Compare(Fenced* value, Fenced* gradient) {
    dy().Draw(check_.seed, values_.size());  // Backward may have changed it
    for (int64_t i = 0; i < value->size(); ++i) {
      float* const at = value->data() + i;
      const float was = *at, above = was + check_.distance,
                  below = was - check_.distance;
      double high = 0, low = 0;
      *at = above;
      RINGLET_RETURN_IF_ERROR(Value(&high));
      *at = below;
      RINGLET_RETURN_IF_ERROR(Value(&low));
      *at = was;
      const double slope = (high - low) / (double{above} - below);
      const double computed = gradient->data()[i];
      if (std::fabs(computed - slope) <=
          check_.tolerance * std::max(1.0, std::fabs(slope))) {
        continue;
      }
      return Error(Code::kInternal,
                   "Backward: value %" PRId64
                   " of %s is %g, but the slope of Forward is %g",
                   i, gradient->name().c_str(), computed, slope);
    }
    return Status();
  }

  void OnGradientsFinal(int64_t) override {}
  void ConsumeGradients(int64_t, const float*) override {}
  void ConsumeRows(int64_t, const GradientRows&) override {}

  const Op& op_;
  const GradientCheck check_;
  ThreadPool pool_;
  std::vector<Fenced> values_, gradients_;  // inputs, then weights
  std::vector<Fenced> rest_;                // y, dy, scratch, saved
  std::vector<float*> no_changes_;
  std::vector<float*> weights_, dx_, d_weights_;
  std::vector<const float*> x_;
  std::vector<float> dys_;
  Status failed_;
};

}  // namespace

Status CheckGradients(const Layer& layer, const std::vector<Shape>& inputs,
                      const GradientCheck& check) {
  if (check.batch < 1 || check.threads < 1) {
    return InvalidArgument("CheckGradients: batch and threads must be >= 1");
  }
  std::unique_ptr<Op> op;
  RINGLET_RETURN_IF_ERROR(Op::Make(Layer(layer).Trainable(true), inputs, &op)
                              .Annotate("%s", ClassName(layer)));
  if (op->is_view()) return Status();
  return Checker(*op, inputs, check).Run().Annotate("%s", ClassName(layer));
}

}  // namespace ringlet
