// A layer as a machine with faulty arithmetic computes it.

#ifndef RINGLET_TESTS_SUPPORT_ONE_BIT_LAYER_H_
#define RINGLET_TESTS_SUPPORT_ONE_BIT_LAYER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ringlet/custom_layer.h"

namespace ringlet {

// Copies its input. When it is broken, one bit of one gradient is wrong.
class OneBitLayer final : public CustomLayer {
 public:
  explicit OneBitLayer(int bit) : bit_(bit) {}
  const char* class_name() const override { return "OneBit"; }
  Status Build(const std::vector<Shape>&, LayerPlan* plan) const override {
    plan->backward_reads_input = plan->backward_reads_output = false;
    return Status();
  }
  Status Forward(const LayerCall& call) const override {
    std::copy_n(call.x[0], call.batch * call.output->elements(), call.y);
    return Status();
  }
  Status Backward(const LayerCall& call) const override {
    std::copy_n(call.dy, call.batch * call.output->elements(), call.dx[0]);
    if (!broken_) return Status();
    uint32_t bits;
    std::memcpy(&bits, call.dx[0], sizeof(bits));
    bits ^= uint32_t{1} << bit_;
    std::memcpy(call.dx[0], &bits, sizeof(bits));
    return Status();
  }
  void Break() { broken_ = true; }
  void Mend() { broken_ = false; }

 private:
  const int bit_;
  std::atomic<bool> broken_{false};
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_ONE_BIT_LAYER_H_
