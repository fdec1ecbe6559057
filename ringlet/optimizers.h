// Optimizers, and schedules of learning rates.
//
// Formulas and defaults are from Keras 3's optimizers/*.py and
// optimizers/schedules/learning_rate_schedule.py. Optimizers and schedules are
// plain values; the model has the optimizer's slots.

#ifndef RINGLET_OPTIMIZERS_H_
#define RINGLET_OPTIMIZERS_H_

#include <cstdint>
#include <vector>

#include "status.h"

namespace ringlet {

// --- schedules: a constant, or a function of the iterations ------------------

struct LearningRate {
  enum class Kind : uint8_t {
    kConstant,
    kExponentialDecay,
    kCosineDecay,
    kPiecewiseConstantDecay,
    kPolynomialDecay,
    kInverseTimeDecay,
    kCosineDecayRestarts,
  };

  LearningRate() = default;
  LearningRate(float rate) : initial(rate) {}  // NOLINT: implicit

  // The learning rate of the step after `iterations` steps.
  float At(int64_t iterations) const;
  Status Check() const;
  // For CosineDecay and, beyond Keras, PolynomialDecay and InverseTimeDecay: a
  // linear rise to `target` in `steps` steps, then the decay.
  LearningRate& Warmup(float target, int64_t steps);

  Kind kind = Kind::kConstant;
  float initial = 0.01f;
  int64_t decay_steps = 1;
  float decay_rate = 1;
  bool staircase = false;
  float alpha = 0;           // cosine kinds: last rate / first rate
  float end = 1e-4f;         // kPolynomialDecay: the last rate
  float power = 1;           // kPolynomialDecay
  bool cycle = false;        // kPolynomialDecay
  float t_mul = 2;           // kCosineDecayRestarts: factor of the length
  float m_mul = 1;           // factor of the first rate
  int64_t warmup_steps = 0;  // zero means no warmup
  float warmup_target = 0;
  std::vector<int64_t> boundaries;  // kPiecewiseConstantDecay, ascending
  std::vector<float> values;        // one more than boundaries
};

// initial * decay_rate ^ (iterations / decay_steps); `staircase` rounds the
// quotient down.
LearningRate ExponentialDecay(float initial_learning_rate, int64_t decay_steps,
                              float decay_rate, bool staircase = false);
// Falls along half a cosine from the first rate to alpha times this rate in
// decay_steps. If warmup_target is not 0, a Warmup comes before, and the first
// rate is warmup_target. Otherwise the first rate is `initial`, and
// warmup_steps has no effect, as in Keras.
LearningRate CosineDecay(float initial_learning_rate, int64_t decay_steps,
                         float alpha = 0, float warmup_target = 0,
                         int64_t warmup_steps = 0);
// The rate is values[i] up to step boundaries[i], then the last value.
LearningRate PiecewiseConstantDecay(const std::vector<int64_t>& boundaries,
                                    const std::vector<float>& values);

// (initial - end) (1 - p)^power + end, with p = iterations / decay_steps, at
// most 1. With `cycle`, decay_steps is replaced by its first multiple that is
// not below the iterations.
LearningRate PolynomialDecay(float initial_learning_rate, int64_t decay_steps,
                             float end_learning_rate = 1e-4f, float power = 1,
                             bool cycle = false);
// initial / (1 + decay_rate iterations / decay_steps); `staircase` rounds the
// quotient down.
LearningRate InverseTimeDecay(float initial_learning_rate, int64_t decay_steps,
                              float decay_rate, bool staircase = false);
// CosineDecay with restarts. Each period is t_mul times as long as the previous
// one, and starts from m_mul times its rate.
LearningRate CosineDecayRestarts(float initial_learning_rate,
                                 int64_t first_decay_steps, float t_mul = 2,
                                 float m_mul = 1, float alpha = 0);

// --- optimizers --------------------------------------------------------------

struct Optimizer {
  enum class Kind : uint8_t {
    kSgd,
    kRmsprop,
    kAdam,
    kAdamW,
    kAdamax,
    kNadam,
    kAdagrad,
    kAdadelta,
    kLion,
  };

  Kind kind = Kind::kSgd;
  LearningRate learning_rate;
  float momentum = 0;
  bool nesterov = false;
  float rho = 0.9f;
  bool centered = false;
  float beta_1 = 0.9f;
  float beta_2 = 0.999f;
  bool amsgrad = false;
  float epsilon = 1e-7f;
  float initial_accumulator_value = 0;
  float weight_decay = 0;  // w -= w * weight_decay * lr before the update
  // At most one of these three is set (> 0).
  float clipnorm = 0;         // the largest norm of one variable's gradient
  float global_clipnorm = 0;  // the largest norm of all gradients together
  float clipvalue = 0;        // the largest absolute value of an element
  // If not zero, every k-th step applies the mean of k >= 2 steps' gradients.
  // Schedules and Adam's corrections count updates.
  int gradient_accumulation_steps = 0;
  // After each step average += (w - average)(1 - ema_momentum). It becomes the
  // weights after Fit, and after every ema_overwrite_frequency updates.
  bool use_ema = false;
  float ema_momentum = 0.99f;
  int ema_overwrite_frequency = 0;  // zero means never

  Optimizer& ClipNorm(float norm);
  Optimizer& GlobalClipNorm(float norm);
  Optimizer& ClipValue(float value);
  Optimizer& WeightDecay(float decay);
  Optimizer& GradientAccumulationSteps(int steps);
  Optimizer& UseEma(float decay = 0.99f, int overwrite_frequency = 0);

  const char* name() const;  // Keras's class name: "SGD"
  bool clips() const {
    return clipnorm != 0 || global_clipnorm != 0 || clipvalue != 0;
  }
  bool accumulates() const { return gradient_accumulation_steps != 0; }
  // The number of updates in `steps` steps, Keras's `iterations`.
  int64_t Updates(int64_t steps) const;
  // Floats kept for each weight; the last may be the sum of gradients.
  int num_slots() const;
  const char* slot_name(int slot) const;  // Keras's: "momentum"
  Status Check() const;
};

// m = momentum m - lr g;  w += m, or with nesterov w += momentum m - lr g.
Optimizer SGD(const LearningRate& learning_rate = 0.01f, float momentum = 0,
              bool nesterov = false);
// v += (g^2 - v)(1 - rho);  w -= lr g / sqrt(v [- a^2] + epsilon). If centered,
// a is the mean of g. Momentum applies to the increments.
Optimizer RMSprop(const LearningRate& learning_rate = 0.001f, float rho = 0.9f,
                  float momentum = 0, float epsilon = 1e-7f,
                  bool centered = false);
// m += (g - m)(1 - beta_1);
// v += (g^2 - v)(1 - beta_2);
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
// Adam with Nesterov's momentum, which grows with t.
Optimizer Nadam(const LearningRate& learning_rate = 0.001f, float beta_1 = 0.9f,
                float beta_2 = 0.999f, float epsilon = 1e-7f);
// a += g^2;  w -= lr g / sqrt(a + epsilon).
Optimizer Adagrad(const LearningRate& learning_rate = 0.001f,
                  float initial_accumulator_value = 0.1f,
                  float epsilon = 1e-7f);
// a += (g^2 - a)(1 - rho);  d = g sqrt(u + epsilon) / sqrt(a + epsilon);
// u += (d^2 - u)(1 - rho);  w -= lr d.
Optimizer Adadelta(const LearningRate& learning_rate = 0.001f,
                   float rho = 0.95f, float epsilon = 1e-7f);
// w -= lr sign(m + (g - m)(1 - beta_1));  m += (g - m)(1 - beta_2).
Optimizer Lion(const LearningRate& learning_rate = 0.001f, float beta_1 = 0.9f,
               float beta_2 = 0.99f);

}  // namespace ringlet

#endif  // RINGLET_OPTIMIZERS_H_
