// Regularizers: penalties on weights, added to the loss.
//
// Public. Keras 3's regularizers.py: L1 adds l1 * sum |w|, L2 adds
// l2 * sum w^2 (not halved).

#ifndef RINGLET_CORE_LAYERS_REGULARIZERS_H_
#define RINGLET_CORE_LAYERS_REGULARIZERS_H_

#include <cmath>
#include <cstdint>

namespace ringlet {

struct Regularizer {
  float l1 = 0;
  float l2 = 0;
  bool empty() const { return l1 == 0 && l2 == 0; }
};

inline Regularizer L1(float l1 = 0.01f) { return {l1, 0}; }
inline Regularizer L2(float l2 = 0.01f) { return {0, l2}; }
inline Regularizer L1L2(float l1 = 0, float l2 = 0) { return {l1, l2}; }

// l1 * sum |w| + l2 * sum w^2, summed in order.
double RegularizationPenalty(const Regularizer& regularizer, int64_t n,
                             const float* w);

// The derivative of the penalty at w.
inline float RegularizationGradient(const Regularizer& regularizer, float w) {
  const float sign = w > 0 ? 1.0f : w < 0 ? -1.0f : 0.0f;
  return 2 * regularizer.l2 * w + regularizer.l1 * sign;
}

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_REGULARIZERS_H_
