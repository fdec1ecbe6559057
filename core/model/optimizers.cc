// What must be known to change this file: each loop works element by element,
// so that a range of the weights may be updated by itself on any thread with
// the same bits. The regularizer's gradient and the weight decay are parts of
// the same loop: a pass over memory less. Weights, gradients and slots do not
// alias.

#include "optimizers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../base/decimal.h"

namespace ringlet {
namespace {

// A loop over n elements, each given its gradient with the regularizer's part
// and its weight after decay.
template <typename Body>
inline void ForEach(const StepScalars& s, const Regularizer& r, int64_t n,
                    float* w, const float* g, const Body& body) {
  if (r.empty() && s.decay == 0) {
    for (int64_t i = 0; i < n; ++i) body(i, g[i], w[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const float gradient = g[i] + RegularizationGradient(r, w[i]);
      body(i, gradient, w[i] - w[i] * s.decay);
    }
  }
}

void UpdateSgd(const Optimizer& o, const StepScalars& s, const Regularizer& r,
               int64_t n, float* __restrict w, const float* __restrict g,
               float* __restrict m) {
  const float lr = s.learning_rate, mu = o.momentum;
  if (m == nullptr) {
    ForEach(s, r, n, w, g,
            [=](int64_t i, float gi, float wi) { w[i] = wi - lr * gi; });
  } else if (o.nesterov) {
    ForEach(s, r, n, w, g, [=](int64_t i, float gi, float wi) {
      m[i] = mu * m[i] - lr * gi;
      w[i] = wi + (mu * m[i] - lr * gi);
    });
  } else {
    ForEach(s, r, n, w, g, [=](int64_t i, float gi, float wi) {
      m[i] = mu * m[i] - lr * gi;
      w[i] = wi + m[i];
    });
  }
}

// `a` and `m` are null where not centered and without momentum. Moments move by
// a share of their distance, so that only 1 - rho is rounded: a rounded rho of
// nearly 1 would be another moment in the long run.
// rho v to float32's last digits, whether rho is near 0 or near 1. What has
// overflowed stays so.
class Decay {
 public:
  Decay(float rho, float rest)
      : keep_(rest < 0.5f ? 1 : rho), drop_(rest < 0.5f ? rest : 0) {}
  float operator()(float v) const {
    return v <= std::numeric_limits<float>::max() ? v * keep_ - v * drop_ : v;
  }

 private:
  const float keep_, drop_;
};

void UpdateRmsprop(const Optimizer& o, const StepScalars& s,
                   const Regularizer& r, int64_t n, float* __restrict w,
                   const float* __restrict g, float* __restrict v,
                   float* __restrict a, float* __restrict m) {
  const float lr = s.learning_rate, rest = s.rest_1;
  const float epsilon = o.epsilon, mu = o.momentum;
  const Decay decayed(o.rho, rest);
  if (a == nullptr && m == nullptr) {
    ForEach(s, r, n, w, g, [=](int64_t i, float gi, float wi) {
      v[i] = decayed(v[i]) + gi * gi * rest;
      w[i] = wi - lr * gi / std::sqrt(v[i] + epsilon);
    });
    return;
  }
  ForEach(s, r, n, w, g, [=](int64_t i, float gi, float wi) {
    v[i] = decayed(v[i]) + gi * gi * rest;
    float d = v[i];
    if (a != nullptr) {
      a[i] += (gi - a[i]) * rest;
      d -= a[i] * a[i];
    }
    float increment = lr * gi / std::sqrt(d + epsilon);
    if (m != nullptr) increment = m[i] = mu * m[i] + increment;
    w[i] = wi - increment;
  });
}

// `v_max` is null without amsgrad.
void UpdateAdam(const Optimizer& o, const StepScalars& s, const Regularizer& r,
                int64_t n, float* __restrict w, const float* __restrict g,
                float* __restrict m, float* __restrict v,
                float* __restrict v_max) {
  const float rest_1 = s.rest_1, rest_2 = s.rest_2;
  const float alpha = s.alpha, epsilon = o.epsilon;
  if (v_max == nullptr) {
    ForEach(s, r, n, w, g, [=](int64_t i, float gi, float wi) {
      m[i] += (gi - m[i]) * rest_1;
      v[i] += (gi * gi - v[i]) * rest_2;
      w[i] = wi - alpha * m[i] / (std::sqrt(v[i]) + epsilon);
    });
    return;
  }
  ForEach(s, r, n, w, g, [=](int64_t i, float gi, float wi) {
    m[i] += (gi - m[i]) * rest_1;
    v[i] += (gi * gi - v[i]) * rest_2;
    v_max[i] = std::max(v_max[i], v[i]);
    w[i] = wi - alpha * m[i] / (std::sqrt(v_max[i]) + epsilon);
  });
}

double SumOfSquares(const GradientSpan& g) {
  double sum = 0;
  for (int64_t i = 0; i < g.size; ++i) sum += double{g.data[i]} * g.data[i];
  return sum;
}

void ScaleBy(float factor, const GradientSpan& g) {
  for (int64_t i = 0; i < g.size; ++i) g.data[i] *= factor;
}

}  // namespace

Optimizer SGD(const LearningRate& learning_rate, float momentum,
              bool nesterov) {
  Optimizer o;
  o.learning_rate = learning_rate;
  o.momentum = momentum;
  o.nesterov = nesterov;
  return o;
}

Optimizer RMSprop(const LearningRate& learning_rate, float rho, float momentum,
                  float epsilon, bool centered) {
  Optimizer o;
  o.kind = Optimizer::Kind::kRmsprop;
  o.name = "RMSprop";
  o.learning_rate = learning_rate;
  o.rho = rho;
  o.momentum = momentum;
  o.epsilon = epsilon;
  o.centered = centered;
  return o;
}

Optimizer Adam(const LearningRate& learning_rate, float beta_1, float beta_2,
               float epsilon, bool amsgrad) {
  Optimizer o;
  o.kind = Optimizer::Kind::kAdam;
  o.name = "Adam";
  o.learning_rate = learning_rate;
  o.beta_1 = beta_1;
  o.beta_2 = beta_2;
  o.epsilon = epsilon;
  o.amsgrad = amsgrad;
  return o;
}

Optimizer AdamW(const LearningRate& learning_rate, float weight_decay,
                float beta_1, float beta_2, float epsilon, bool amsgrad) {
  Optimizer o = Adam(learning_rate, beta_1, beta_2, epsilon, amsgrad);
  o.name = "AdamW";
  o.weight_decay = weight_decay;
  return o;
}

int Optimizer::num_slots() const {
  const int sums = accumulates() ? 1 : 0;
  switch (kind) {
    case Kind::kSgd:
      return sums + (momentum != 0 ? 1 : 0);
    case Kind::kRmsprop:
      return sums + 1 + (centered ? 1 : 0) + (momentum != 0);
    case Kind::kAdam:
      return sums + (amsgrad ? 3 : 2);
  }
  return 0;
}

const char* Optimizer::slot_name(int slot) const {
  if (accumulates() && slot == num_slots() - 1) return "gradient_accumulator";
  switch (kind) {
    case Kind::kSgd:
      return "momentum";
    case Kind::kRmsprop:
      if (slot == 0) return "velocity";
      return slot == 1 && centered ? "average_gradient" : "momentum";
    case Kind::kAdam:
      return slot == 0 ? "momentum" : slot == 1 ? "velocity" : "velocity_hat";
  }
  return "slot";
}

Status Optimizer::Check() const {
  RINGLET_RETURN_IF_ERROR(learning_rate.Check().Annotate("%s", name));
  const auto share = [](float v) { return v >= 0 && v <= 1; };
  if (!share(momentum)) {
    return InvalidArgument("%s: `momentum` must be a float between [0, 1].",
                           name);
  }
  if (!share(rho) || !(beta_1 >= 0 && beta_1 < 1) ||
      !(beta_2 >= 0 && beta_2 < 1)) {
    return InvalidArgument("%s: rho, beta_1 and beta_2 must be in [0, 1)",
                           name);
  }
  if (!(epsilon >= 0) || !(weight_decay >= 0)) {
    return InvalidArgument("%s: epsilon and weight_decay must be >= 0", name);
  }
  if (!(clipnorm >= 0) || !(global_clipnorm >= 0) || !(clipvalue >= 0)) {
    return InvalidArgument("%s: a clip must be > 0", name);
  }
  if ((clipnorm > 0) + (global_clipnorm > 0) + (clipvalue > 0) > 1) {
    return InvalidArgument(
        "%s: Only one of `clipnorm`, `clipvalue` and `global_clipnorm` can be "
        "set.",
        name);
  }
  if (gradient_accumulation_steps != 0 && gradient_accumulation_steps < 2) {
    return InvalidArgument(
        "%s: `gradient_accumulation_steps` must be an integer >= 2. Received: "
        "gradient_accumulation_steps=%d",
        name, gradient_accumulation_steps);
  }
  return Status();
}

StepScalars PrepareStep(const Optimizer& optimizer, float learning_rate,
                        int64_t updates) {
  StepScalars s;
  s.learning_rate = learning_rate;
  s.decay = optimizer.weight_decay * learning_rate;
  if (optimizer.kind == Optimizer::Kind::kRmsprop) {
    s.rest_1 = static_cast<float>(1 - Decimal(optimizer.rho));
  }
  if (optimizer.kind == Optimizer::Kind::kAdam) {
    const double t = static_cast<double>(updates) + 1;
    const double beta_1 = Decimal(optimizer.beta_1);
    const double beta_2 = Decimal(optimizer.beta_2);
    s.rest_1 = static_cast<float>(1 - beta_1);
    s.rest_2 = static_cast<float>(1 - beta_2);
    s.alpha =
        static_cast<float>(learning_rate * std::sqrt(1 - std::pow(beta_2, t)) /
                           (1 - std::pow(beta_1, t)));
  }
  return s;
}

void UpdateRange(const Optimizer& o, const StepScalars& s, const Regularizer& r,
                 int64_t n, float* w, const float* g, float* const* slots) {
  switch (o.kind) {
    case Optimizer::Kind::kSgd:
      return UpdateSgd(o, s, r, n, w, g, o.momentum != 0 ? slots[0] : nullptr);
    case Optimizer::Kind::kRmsprop: {
      int next = 1;
      float* average = o.centered ? slots[next++] : nullptr;
      float* momentum = o.momentum != 0 ? slots[next] : nullptr;
      return UpdateRmsprop(o, s, r, n, w, g, slots[0], average, momentum);
    }
    case Optimizer::Kind::kAdam:
      return UpdateAdam(o, s, r, n, w, g, slots[0], slots[1],
                        o.amsgrad ? slots[2] : nullptr);
  }
}

void AccumulateGradients(const Regularizer& regularizer, int64_t n,
                         const float* w, const float* g, float divisor,
                         float* sum) {
  const Regularizer r = regularizer;
  if (r.empty()) {
    for (int64_t i = 0; i < n; ++i) sum[i] += g[i];
  } else {
    for (int64_t i = 0; i < n; ++i) {
      sum[i] += g[i] + RegularizationGradient(r, w[i]);
    }
  }
  if (divisor == 1) return;
  for (int64_t i = 0; i < n; ++i) sum[i] /= divisor;
}

void AddRegularizationGradient(const Regularizer& regularizer, int64_t n,
                               const float* w, float* g) {
  if (regularizer.empty()) return;
  for (int64_t i = 0; i < n; ++i) {
    g[i] += RegularizationGradient(regularizer, w[i]);
  }
}

double RegularizationPenalty(const Regularizer& regularizer, int64_t n,
                             const float* w) {
  if (regularizer.empty()) return 0;
  // Eight sums side by side, in a fixed order, so that the loop is not one
  // long chain of additions.
  double squares[8] = {}, magnitudes[8] = {};
  for (int64_t i = 0; i < n; ++i) {
    squares[i & 7] += double{w[i]} * w[i];
  }
  if (regularizer.l1 != 0) {
    for (int64_t i = 0; i < n; ++i) magnitudes[i & 7] += std::fabs(w[i]);
  }
  double square = 0, magnitude = 0;
  for (int k = 0; k < 8; ++k) {
    square += squares[k];
    magnitude += magnitudes[k];
  }
  return regularizer.l2 * square + regularizer.l1 * magnitude;
}

void ClipGradients(const Optimizer& optimizer, const GradientSpan* gradients,
                   size_t count) {
  if (optimizer.clipvalue > 0) {
    const float c = optimizer.clipvalue;
    for (size_t k = 0; k < count; ++k) {
      const GradientSpan& g = gradients[k];
      for (int64_t i = 0; i < g.size; ++i) {
        g.data[i] = g.data[i] > c ? c : g.data[i] < -c ? -c : g.data[i];
      }
    }
  } else if (optimizer.clipnorm > 0) {
    // g c / max(norm, c)
    const double c = optimizer.clipnorm;
    for (size_t k = 0; k < count; ++k) {
      const double norm = std::sqrt(SumOfSquares(gradients[k]));
      if (norm > c || norm != norm) {
        ScaleBy(static_cast<float>(c / norm), gradients[k]);
      }
    }
  } else if (optimizer.global_clipnorm > 0) {
    // g c min(1 / norm, 1 / c)
    const double c = optimizer.global_clipnorm;
    double sum = 0;
    for (size_t k = 0; k < count; ++k) sum += SumOfSquares(gradients[k]);
    const double norm = std::sqrt(sum);
    const float factor = std::isfinite(norm)
                             ? static_cast<float>(c * std::min(1 / norm, 1 / c))
                             : std::numeric_limits<float>::quiet_NaN();
    if (factor == 1) return;
    for (size_t k = 0; k < count; ++k) ScaleBy(factor, gradients[k]);
  }
}

}  // namespace ringlet
