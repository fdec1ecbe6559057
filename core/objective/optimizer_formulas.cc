// Compilers vectorize these loops only if the arrays do not overlap, so each
// loop takes them as __restrict arguments. A loop works element by element: a
// range of the weights can be updated alone, on any thread, with the same bits.
// The regularizer's gradient and the weight decay are parts of the same loop,
// which saves a pass over memory.

#include "optimizer_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../layers/initializers.h"

namespace ringlet {
namespace {

// Loops over the elements of a call. `body` gets each gradient with the
// regularizer's part, and each weight after decay.
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

// Returns the square of a gradient, without denormal results. Such small
// numbers have no effect beside an epsilon of 1e-7.
inline float Square(float x) {
  const float root = std::fabs(x) < 0x1p-55f ? 0 : x;
  return root * root;
}

// `m` is null without momentum.
void SgdLoop(const UpdateCall& c, float* __restrict w,
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

// rho v to float32's last digits, whether rho is near 0 or near 1. An infinite
// v stays infinite.
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

// `a` is null if not centered, `m` is null without momentum. Moments move by a
// fraction of their distance, so that only 1 - rho is rounded. A rounded rho of
// nearly 1 would change the moment in the long run.
void RmspropLoop(const UpdateCall& c, float* __restrict w,
                 const float* __restrict g, float* __restrict v,
                 float* __restrict a, float* __restrict m) {
  const float lr = c.scalars.learning_rate, rest = c.scalars.one_minus_beta_1;
  const float epsilon = c.optimizer.epsilon, mu = c.optimizer.momentum;
  const Decay decayed(c.optimizer.rho, rest);
  if (a == nullptr && m == nullptr) {
    ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
      v[i] = decayed(v[i]) + Square(gi) * rest;
      w[i] = wi - lr * gi / std::sqrt(v[i] + epsilon);
    });
    return;
  }
  ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
    v[i] = decayed(v[i]) + Square(gi) * rest;
    float d = v[i];
    if (a != nullptr) {
      a[i] += (gi - a[i]) * rest;
      d -= Square(a[i]);
    }
    float increment = lr * gi / std::sqrt(d + epsilon);
    if (m != nullptr) increment = m[i] = mu * m[i] + increment;
    w[i] = wi - increment;
  });
}

// `v_max` is null without amsgrad.
void AdamLoop(const UpdateCall& c, float* __restrict w,
              const float* __restrict g, float* __restrict m,
              float* __restrict v, float* __restrict v_max) {
  const float one_minus_beta_1 = c.scalars.one_minus_beta_1,
              one_minus_beta_2 = c.scalars.one_minus_beta_2;
  const float alpha = c.scalars.alpha, epsilon = c.optimizer.epsilon;
  if (v_max == nullptr) {
    ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
      m[i] += (gi - m[i]) * one_minus_beta_1;
      v[i] += (Square(gi) - v[i]) * one_minus_beta_2;
      w[i] = wi - alpha * m[i] / (std::sqrt(v[i]) + epsilon);
    });
    return;
  }
  ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
    m[i] += (gi - m[i]) * one_minus_beta_1;
    v[i] += (Square(gi) - v[i]) * one_minus_beta_2;
    v_max[i] = std::max(v_max[i], v[i]);
    w[i] = wi - alpha * m[i] / (std::sqrt(v_max[i]) + epsilon);
  });
}

void AdamaxLoop(const UpdateCall& c, float* __restrict w,
                const float* __restrict g, float* __restrict m,
                float* __restrict u) {
  const float one_minus_beta_1 = c.scalars.one_minus_beta_1;
  const float alpha = c.scalars.alpha, epsilon = c.optimizer.epsilon;
  const Decay decayed(c.optimizer.beta_2, c.scalars.one_minus_beta_2);
  ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
    m[i] += (gi - m[i]) * one_minus_beta_1;
    u[i] = std::max(decayed(u[i]), std::fabs(gi));
    w[i] = wi - alpha * m[i] / (u[i] + epsilon);
  });
}

void NadamLoop(const UpdateCall& c, float* __restrict w,
               const float* __restrict g, float* __restrict m,
               float* __restrict v) {
  const StepScalars s = c.scalars;
  const float epsilon = c.optimizer.epsilon;
  ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
    m[i] += (gi - m[i]) * s.one_minus_beta_1;
    v[i] += (Square(gi) - v[i]) * s.one_minus_beta_2;
    const float mean = s.mean_factor * m[i] + s.gradient_factor * gi;
    w[i] = wi - s.learning_rate * mean /
                    (std::sqrt(v[i] * s.square_factor) + epsilon);
  });
}

void AdagradLoop(const UpdateCall& c, float* __restrict w,
                 const float* __restrict g, float* __restrict a) {
  const float lr = c.scalars.learning_rate, epsilon = c.optimizer.epsilon;
  ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
    a[i] += Square(gi);
    w[i] = wi - lr * gi / std::sqrt(a[i] + epsilon);
  });
}

void AdadeltaLoop(const UpdateCall& c, float* __restrict w,
                  const float* __restrict g, float* __restrict a,
                  float* __restrict u) {
  const float lr = c.scalars.learning_rate, rest = c.scalars.one_minus_beta_1;
  const float epsilon = c.optimizer.epsilon;
  ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
    a[i] += (Square(gi) - a[i]) * rest;
    const float d = std::sqrt(u[i] + epsilon) * gi / std::sqrt(a[i] + epsilon);
    u[i] += (Square(d) - u[i]) * rest;
    w[i] = wi - lr * d;
  });
}

void LionLoop(const UpdateCall& c, float* __restrict w,
              const float* __restrict g, float* __restrict m) {
  const float lr = c.scalars.learning_rate;
  const float one_minus_beta_1 = c.scalars.one_minus_beta_1,
              one_minus_beta_2 = c.scalars.one_minus_beta_2;
  ForEach(c, w, g, [=](int64_t i, float gi, float wi) {
    const float way = m[i] + (gi - m[i]) * one_minus_beta_1;
    w[i] = wi - (way > 0 ? lr : way < 0 ? -lr : lr * way);  // NaN stays NaN
    m[i] += (gi - m[i]) * one_minus_beta_2;
  });
}

}  // namespace

void FlushTinyMoments(int64_t n, float* slot) {
  for (int64_t i = 0; i < n; ++i) {
    slot[i] = std::fabs(slot[i]) < 0x1p-110f ? 0 : slot[i];
  }
}

void UpdateSgd(const UpdateCall& c) {
  SgdLoop(c, c.w, c.g, c.optimizer.momentum != 0 ? c.slots[0] : nullptr);
}
void UpdateRmsprop(const UpdateCall& c) {
  const Optimizer& o = c.optimizer;
  int next = 1;
  float* average = o.centered ? c.slots[next++] : nullptr;
  float* momentum = o.momentum != 0 ? c.slots[next] : nullptr;
  RmspropLoop(c, c.w, c.g, c.slots[0], average, momentum);
}
void UpdateAdam(const UpdateCall& c) {
  AdamLoop(c, c.w, c.g, c.slots[0], c.slots[1],
           c.optimizer.amsgrad ? c.slots[2] : nullptr);
}
void UpdateAdamax(const UpdateCall& c) {
  AdamaxLoop(c, c.w, c.g, c.slots[0], c.slots[1]);
}
void UpdateNadam(const UpdateCall& c) {
  NadamLoop(c, c.w, c.g, c.slots[0], c.slots[1]);
}
void UpdateAdadelta(const UpdateCall& c) {
  AdadeltaLoop(c, c.w, c.g, c.slots[0], c.slots[1]);
}
void UpdateAdagrad(const UpdateCall& c) {
  AdagradLoop(c, c.w, c.g, c.slots[0]);
}
void UpdateLion(const UpdateCall& c) { LionLoop(c, c.w, c.g, c.slots[0]); }

}  // namespace ringlet
