// Optimizers: what a step makes of gradients.
//
// Public. Formulas and defaults are those of Keras 3's optimizers/*.py. An
// Optimizer is a plain value; its slots live with the model.

#ifndef RINGLET_CORE_MODEL_OPTIMIZERS_H_
#define RINGLET_CORE_MODEL_OPTIMIZERS_H_

#include <cstdint>

#include "../base/status.h"
#include "schedules.h"

namespace ringlet {

struct Optimizer {
  // In the order of the table of optimizers (internal).
  enum class Kind : uint8_t { kSgd, kRmsprop, kAdam, kAdamW, kAdamax };

  Kind kind = Kind::kSgd;
  LearningRate learning_rate;
  // Which of these an optimizer has: see its factory.
  float momentum = 0;
  bool nesterov = false;
  float rho = 0.9f;
  bool centered = false;
  float beta_1 = 0.9f;
  float beta_2 = 0.999f;
  bool amsgrad = false;
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

  const char* name() const;  // Keras's class name: "SGD"
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
// m += (g - m)(1 - beta_1);  u = max(beta_2 u, |g|);
// w -= lr / (1 - beta_1^t) m / (u + epsilon).
Optimizer Adamax(const LearningRate& learning_rate = 0.001f,
                 float beta_1 = 0.9f, float beta_2 = 0.999f,
                 float epsilon = 1e-7f);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_OPTIMIZERS_H_
