// SlowLayer: a layer that takes time on WorkClock and counts the replicas that
// it has trained.

#ifndef RINGLET_TESTS_SUPPORT_SLOW_LAYER_H_
#define RINGLET_TESTS_SUPPORT_SLOW_LAYER_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "ringlet/custom_layer.h"
#include "ringlet/model.h"
#include "tiny_model.h"
#include "work_clock.h"

namespace ringlet {

class SlowLayer final : public CustomLayer {
 public:
  explicit SlowLayer(int millis) : millis_(millis) {}
  const char* class_name() const override { return "Slow"; }
  Status Build(const std::vector<Shape>&, LayerPlan* plan) const override {
    plan->backward_reads_input = plan->backward_reads_output = false;
    return Status();
  }
  Status Forward(const LayerCall& call) const override {
    if (call.training) {
      WorkClock::PassMillis(millis_ * (per_example_ ? call.batch : int64_t{1}));
      ++trained_;
    }
    std::copy_n(call.x[0], call.batch * call.output->elements(), call.y);
    return Status();
  }
  Status Backward(const LayerCall& call) const override {
    if (call.dx[0] == nullptr) return Status();
    std::copy_n(call.dy, call.batch * call.output->elements(), call.dx[0]);
    return Status();
  }
  int trained() const { return trained_; }
  void set_millis(int millis) { millis_ = millis; }
  // If true, the time is for each example, otherwise for each replica.
  void SetMillisPerExample(bool per_example) { per_example_ = per_example; }

 private:
  bool per_example_ = false;
  std::atomic<int> millis_;
  mutable std::atomic<int> trained_{0};
};

// TinyModelWith, on WorkClock.
inline std::unique_ptr<Sequential> SlowModel(
    std::shared_ptr<const SlowLayer> layer, CompileOptions options) {
  options.clock = WorkClock::Get();
  return TinyModelWith(std::move(layer), options);
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_SLOW_LAYER_H_
