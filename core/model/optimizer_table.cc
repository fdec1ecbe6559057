// Formulas of the optimizers, and their rows. Vector code is made of the loops
// where the arrays are known not to overlap, so each formula takes them as
// __restrict arguments.
#include "optimizer_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "../base/check.h"
#include "../base/decimal.h"

namespace ringlet {
namespace {

// A loop over the elements of a call, each given its gradient with the
// regularizer's part and its weight after decay.
template <typename Body>
inline void ForEach(const UpdateCall& c, const float* w, const float* g,
                    const Body& body) {
  const Regularizer r = c.regularizer;
  const float decay = c.scalars.decay;
  if (r.empty() && decay == 0) {
    for (int64_t i = 0; i < c.n; ++i) body(i, g[i], w[i]);
  } else {
    for (int64_t i = 0; i < c.n; ++i) {
      const float gradient = g[i] + RegularizationGradient(r, w[i]);
      body(i, gradient, w[i] - w[i] * decay);
    }
  }
}

// --- SGD --------------------------------------------------------------------

constexpr OptimizerField kSgdFields[] = {
    {"momentum", &Optimizer::momentum, kShare},
    {"nesterov", &Optimizer::nesterov},
};

SlotNames SgdSlots(const Optimizer& o) {
  return {{"momentum"}, o.momentum != 0 ? 1 : 0};
}

// `m` is null without momentum.
void UpdateSgd(const UpdateCall& c, float* __restrict w,
               const float* __restrict g, float* __restrict m) {
  const float lr = c.scalars.learning_rate, mu = c.optimizer.momentum;
  if (m == nullptr) {
    ForEach(c, w, g,
            [=](int64_t i, float gi, float wi) { w[i] = wi - lr * gi; });
  } else if (c.optimizer.nesterov) {
    ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
      m[i] = mu * m[i] - lr * gi;
      w[i] = wi + (mu * m[i] - lr * gi);
    });
  } else {
    ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
      m[i] = mu * m[i] - lr * gi;
      w[i] = wi + m[i];
    });
  }
}

// --- RMSprop ----------------------------------------------------------------

constexpr OptimizerField kRmspropFields[] = {
    {"rho", &Optimizer::rho, kShare},
    {"momentum", &Optimizer::momentum, kShare},
    {"epsilon", &Optimizer::epsilon, kNotNegative},
    {"centered", &Optimizer::centered},
};

SlotNames RmspropSlots(const Optimizer& o) {
  SlotNames slots = {{"velocity"}, 1};
  if (o.centered) slots.names[slots.count++] = "average_gradient";
  if (o.momentum != 0) slots.names[slots.count++] = "momentum";
  return slots;
}

void PrepareRmsprop(const Optimizer& o, double, StepScalars* s) {
  s->rest_1 = static_cast<float>(1 - Decimal(o.rho));
}

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

// `a` and `m` are null where not centered and without momentum. Moments move by
// a share of their distance, so that only 1 - rho is rounded: a rounded rho of
// nearly 1 would be another moment in the long run.
void UpdateRmsprop(const UpdateCall& c, float* __restrict w,
                   const float* __restrict g, float* __restrict v,
                   float* __restrict a, float* __restrict m) {
  const float lr = c.scalars.learning_rate, rest = c.scalars.rest_1;
  const float epsilon = c.optimizer.epsilon, mu = c.optimizer.momentum;
  const Decay decayed(c.optimizer.rho, rest);
  if (a == nullptr && m == nullptr) {
    ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
      v[i] = decayed(v[i]) + gi * gi * rest;
      w[i] = wi - lr * gi / std::sqrt(v[i] + epsilon);
    });
    return;
  }
  ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
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

// --- Adam, AdamW ------------------------------------------------------------

constexpr OptimizerField kAdamFields[] = {
    {"beta_1", &Optimizer::beta_1, kShareBelow1},
    {"beta_2", &Optimizer::beta_2, kShareBelow1},
    {"epsilon", &Optimizer::epsilon, kNotNegative},
    {"amsgrad", &Optimizer::amsgrad},
};

SlotNames AdamSlots(const Optimizer& o) {
  return {{"momentum", "velocity", "velocity_hat"}, o.amsgrad ? 3 : 2};
}

void PrepareAdam(const Optimizer& o, double t, StepScalars* s) {
  const double beta_1 = Decimal(o.beta_1), beta_2 = Decimal(o.beta_2);
  s->rest_1 = static_cast<float>(1 - beta_1);
  s->rest_2 = static_cast<float>(1 - beta_2);
  s->alpha =
      static_cast<float>(s->learning_rate * std::sqrt(1 - std::pow(beta_2, t)) /
                         (1 - std::pow(beta_1, t)));
}

// `v_max` is null without amsgrad.
void UpdateAdam(const UpdateCall& c, float* __restrict w,
                const float* __restrict g, float* __restrict m,
                float* __restrict v, float* __restrict v_max) {
  const float rest_1 = c.scalars.rest_1, rest_2 = c.scalars.rest_2;
  const float alpha = c.scalars.alpha, epsilon = c.optimizer.epsilon;
  if (v_max == nullptr) {
    ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
      m[i] += (gi - m[i]) * rest_1;
      v[i] += (gi * gi - v[i]) * rest_2;
      w[i] = wi - alpha * m[i] / (std::sqrt(v[i]) + epsilon);
    });
    return;
  }
  ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
    m[i] += (gi - m[i]) * rest_1;
    v[i] += (gi * gi - v[i]) * rest_2;
    v_max[i] = std::max(v_max[i], v[i]);
    w[i] = wi - alpha * m[i] / (std::sqrt(v_max[i]) + epsilon);
  });
}

// --- Adamax -----------------------------------------------------------------

constexpr OptimizerField kAdamaxFields[] = {
    {"beta_1", &Optimizer::beta_1, kShareBelow1},
    {"beta_2", &Optimizer::beta_2, kShareBelow1},
    {"epsilon", &Optimizer::epsilon, kNotNegative},
};

SlotNames AdamaxSlots(const Optimizer&) { return {{"momentum", "norm"}, 2}; }

void PrepareAdamax(const Optimizer& o, double t, StepScalars* s) {
  const double beta_1 = Decimal(o.beta_1);
  s->rest_1 = static_cast<float>(1 - beta_1);
  s->rest_2 = static_cast<float>(1 - Decimal(o.beta_2));
  s->alpha = static_cast<float>(s->learning_rate / (1 - std::pow(beta_1, t)));
}

void UpdateAdamax(const UpdateCall& c, float* __restrict w,
                  const float* __restrict g, float* __restrict m,
                  float* __restrict u) {
  const float rest_1 = c.scalars.rest_1;
  const float alpha = c.scalars.alpha, epsilon = c.optimizer.epsilon;
  const Decay decayed(c.optimizer.beta_2, c.scalars.rest_2);
  ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
    m[i] += (gi - m[i]) * rest_1;
    u[i] = std::max(decayed(u[i]), std::fabs(gi));
    w[i] = wi - alpha * m[i] / (u[i] + epsilon);
  });
}

// --- rows -------------------------------------------------------------------

void PrepareNothing(const Optimizer&, double, StepScalars*) {}

template <size_t n>
constexpr OptimizerClass Row(
    const char* name, const char* aliases, Optimizer (*make)(),
    const OptimizerField (&fields)[n], SlotNames (*slots)(const Optimizer&),
    void (*prepare)(const Optimizer&, double, StepScalars*),
    void (*update)(const UpdateCall&)) {
  return {name, aliases, make, fields, n, slots, prepare, update};
}

void CallAdam(const UpdateCall& c) {
  UpdateAdam(c, c.w, c.g, c.slots[0], c.slots[1],
             c.optimizer.amsgrad ? c.slots[2] : nullptr);
}

// By Optimizer::Kind. The last alias is as TensorFlow 2.11 registered it.
constexpr OptimizerClass kOptimizers[] = {
    Row(
        "SGD", "sgd Custom>SGD", [] { return SGD(); }, kSgdFields, SgdSlots,
        PrepareNothing,
        [](const UpdateCall& c) {
          UpdateSgd(c, c.w, c.g,
                    c.optimizer.momentum != 0 ? c.slots[0] : nullptr);
        }),
    Row(
        "RMSprop", "rmsprop Custom>RMSprop", [] { return RMSprop(); },
        kRmspropFields, RmspropSlots, PrepareRmsprop,
        [](const UpdateCall& c) {
          const Optimizer& o = c.optimizer;
          int next = 1;
          float* average = o.centered ? c.slots[next++] : nullptr;
          float* momentum = o.momentum != 0 ? c.slots[next] : nullptr;
          UpdateRmsprop(c, c.w, c.g, c.slots[0], average, momentum);
        }),
    Row(
        "Adam", "adam Custom>Adam", [] { return Adam(); }, kAdamFields,
        AdamSlots, PrepareAdam, CallAdam),
    Row(
        "AdamW", "adamw Custom>AdamW", [] { return AdamW(); }, kAdamFields,
        AdamSlots, PrepareAdam, CallAdam),
    Row(
        "Adamax", "adamax Custom>Adamax", [] { return Adamax(); },
        kAdamaxFields, AdamaxSlots, PrepareAdamax,
        [](const UpdateCall& c) {
          UpdateAdamax(c, c.w, c.g, c.slots[0], c.slots[1]);
        }),
};

}  // namespace

OptimizerTable AllOptimizers() { return {kOptimizers, std::size(kOptimizers)}; }

const OptimizerClass& ClassOf(const Optimizer& optimizer) {
  const auto row = static_cast<size_t>(optimizer.kind);
  RINGLET_CHECK(row < std::size(kOptimizers));
  return kOptimizers[row];
}

StepScalars PrepareStep(const Optimizer& optimizer, float learning_rate,
                        int64_t updates) {
  StepScalars s;
  s.learning_rate = learning_rate;
  s.decay = optimizer.weight_decay * learning_rate;
  ClassOf(optimizer).prepare(optimizer, static_cast<double>(updates) + 1, &s);
  return s;
}

void UpdateRange(const UpdateCall& call) {
  ClassOf(call.optimizer).update(call);
}

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
  o.kind = Optimizer::Kind::kAdamW;
  o.weight_decay = weight_decay;
  return o;
}

Optimizer Adamax(const LearningRate& learning_rate, float beta_1, float beta_2,
                 float epsilon) {
  Optimizer o;
  o.kind = Optimizer::Kind::kAdamax;
  o.learning_rate = learning_rate;
  o.beta_1 = beta_1;
  o.beta_2 = beta_2;
  o.epsilon = epsilon;
  return o;
}

}  // namespace ringlet
