// LearningRate: a constant or a schedule over iterations.
//
// Public. Formulas and defaults are those of Keras 3's
// optimizers/schedules/learning_rate_schedule.py. A plain value.

#ifndef RINGLET_CORE_MODEL_SCHEDULES_H_
#define RINGLET_CORE_MODEL_SCHEDULES_H_

#include <cstdint>
#include <vector>

#include "../base/status.h"

namespace ringlet {

struct LearningRate {
  enum class Kind : uint8_t {
    kConstant,
    kExponentialDecay,
    kCosineDecay,
    kPiecewiseConstantDecay,
  };

  LearningRate() = default;
  LearningRate(float rate) : initial(rate) {}  // NOLINT: implicit

  // The rate for the step after `iterations` finished ones.
  float At(int64_t iterations) const;
  Status Check() const;

  Kind kind = Kind::kConstant;
  float initial = 0.01f;
  int64_t decay_steps = 1;
  float decay_rate = 1;
  bool staircase = false;
  float alpha = 0;           // kCosineDecay: the last rate, relative
  int64_t warmup_steps = 0;  // kCosineDecay; 0: none
  float warmup_target = 0;
  std::vector<int64_t> boundaries;  // kPiecewiseConstantDecay, growing
  std::vector<float> values;        // one more than boundaries
};

// initial * decay_rate ^ (iterations / decay_steps), the exponent floored with
// `staircase`.
LearningRate ExponentialDecay(float initial_learning_rate, int64_t decay_steps,
                              float decay_rate, bool staircase = false);
// Falls along half a cosine to alpha * initial in decay_steps. With a
// warmup_target it first rises in a line from initial to that in warmup_steps,
// and decays from there; without one warmup_steps do nothing, as in Keras.
LearningRate CosineDecay(float initial_learning_rate, int64_t decay_steps,
                         float alpha = 0, float warmup_target = 0,
                         int64_t warmup_steps = 0);
// values[i] up to and with boundaries[i]; the last value after.
LearningRate PiecewiseConstantDecay(const std::vector<int64_t>& boundaries,
                                    const std::vector<float>& values);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_SCHEDULES_H_
