// Optimizers: what a step makes of gradients.
//
// Public. Formulas and defaults are those of Keras 3's optimizers/*.py. An
// Optimizer is a plain value; its slots live with the model. UpdateRange works
// element by element, so any range of the weights may be updated by itself.

#ifndef RINGLET_CORE_MODEL_OPTIMIZERS_H_
#define RINGLET_CORE_MODEL_OPTIMIZERS_H_

#include <cstddef>
#include <cstdint>

#include "../base/status.h"
#include "../layers/regularizers.h"
#include "schedules.h"

namespace ringlet {

struct Optimizer {
  enum class Kind : uint8_t { kSgd, kRmsprop, kAdam };

  Kind kind = Kind::kSgd;
  const char* name = "SGD";  // Keras's class name
  LearningRate learning_rate;
  float momentum = 0;     // kSgd, kRmsprop
  bool nesterov = false;  // kSgd
  float rho = 0.9f;       // kRmsprop
  bool centered = false;  // kRmsprop
  float beta_1 = 0.9f;    // kAdam
  float beta_2 = 0.999f;  // kAdam
  bool amsgrad = false;   // kAdam
  float epsilon = 1e-7f;
  float weight_decay = 0;  // w -= w * weight_decay * lr before the update
  // At most one is set (> 0).
  float clipnorm = 0;         // each variable's gradient by its own norm
  float global_clipnorm = 0;  // all by their common norm
  float clipvalue = 0;        // each element to [-c, c]
  // k >= 2: the gradients of k steps are added up; the k-th clips and applies
  // their mean. Learning rates and Adam's corrections count updates, not steps.
  // 0: every step updates.
  int gradient_accumulation_steps = 0;

  Optimizer& ClipNorm(float norm) {
    clipnorm = norm;
    return *this;
  }
  Optimizer& GlobalClipNorm(float norm) {
    global_clipnorm = norm;
    return *this;
  }
  Optimizer& ClipValue(float value) {
    clipvalue = value;
    return *this;
  }
  Optimizer& WeightDecay(float decay) {
    weight_decay = decay;
    return *this;
  }
  Optimizer& GradientAccumulationSteps(int steps) {
    gradient_accumulation_steps = steps;
    return *this;
  }

  bool clips() const {
    return clipnorm != 0 || global_clipnorm != 0 || clipvalue != 0;
  }
  bool accumulates() const { return gradient_accumulation_steps != 0; }
  // Updates that were made after so many steps, as Keras's `iterations`.
  int64_t Updates(int64_t steps) const {
    return accumulates() ? steps / gradient_accumulation_steps : steps;
  }
  // Floats kept for each weight; the last are the sums of gradients, where it
  // accumulates.
  int num_slots() const;
  const char* slot_name(int slot) const;  // Keras's: "momentum", "velocity", …
  Status Check() const;
};

// m = momentum m - lr g;  w += m, or with nesterov w += momentum m - lr g.
Optimizer SGD(const LearningRate& learning_rate = 0.01f, float momentum = 0,
              bool nesterov = false);
// v += (g^2 - v)(1 - rho);  w -= lr g / sqrt(v [- a^2] + epsilon), where a is
// the running mean of g if centered; with momentum the increments are.
Optimizer RMSprop(const LearningRate& learning_rate = 0.001f, float rho = 0.9f,
                  float momentum = 0, float epsilon = 1e-7f,
                  bool centered = false);
// m += (g - m)(1 - beta_1);  v += (g^2 - v)(1 - beta_2);
// w -= lr sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) + epsilon).
Optimizer Adam(const LearningRate& learning_rate = 0.001f, float beta_1 = 0.9f,
               float beta_2 = 0.999f, float epsilon = 1e-7f,
               bool amsgrad = false);
// Adam with decoupled weight decay.
Optimizer AdamW(const LearningRate& learning_rate = 0.001f,
                float weight_decay = 0.004f, float beta_1 = 0.9f,
                float beta_2 = 0.999f, float epsilon = 1e-7f,
                bool amsgrad = false);

// What one step multiplies with, computed once.
struct StepScalars {
  float learning_rate = 0;
  float alpha = 0;  // Adam's rate with both bias corrections
  float decay = 0;  // weight_decay * learning_rate
  // 1 - rho, or 1 - beta_1 and 1 - beta_2: of the decimals that these were
  // written as (0.9999 and not its float32), rounded once.
  float rest_1 = 0;
  float rest_2 = 0;
};
// `updates` were made before.
StepScalars PrepareStep(const Optimizer& optimizer, float learning_rate,
                        int64_t updates);

// Updates w[0..n) and its slots from g plus the gradient of the regularizer.
void UpdateRange(const Optimizer& optimizer, const StepScalars& scalars,
                 const Regularizer& regularizer, int64_t n, float* w,
                 const float* g, float* const* slots);

// sum = (sum + (g plus the gradient of the regularizer at w)) / divisor.
void AccumulateGradients(const Regularizer& regularizer, int64_t n,
                         const float* w, const float* g, float divisor,
                         float* sum);

// g += the gradient of the regularizer at w.
void AddRegularizationGradient(const Regularizer& regularizer, int64_t n,
                               const float* w, float* g);

// One variable's gradient.
struct GradientSpan {
  float* data;
  int64_t size;
};
// Clips in place as the optimizer says; sums of squares in double, in order. A
// global norm that is not finite makes every gradient NaN, as in TensorFlow.
void ClipGradients(const Optimizer& optimizer, const GradientSpan* gradients,
                   size_t count);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_OPTIMIZERS_H_
