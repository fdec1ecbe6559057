// Gradients between the backward pass and the update: added up, regularized,
// clipped.
//
// Internal to core/. Element by element in order, so that any cut into ranges
// gives the same bits; sums of squares over whole variables.

#ifndef RINGLET_CORE_MODEL_GRADIENTS_H_
#define RINGLET_CORE_MODEL_GRADIENTS_H_

#include <cstddef>
#include <cstdint>

#include "../layers/initializers.h"
#include "optimizers.h"

namespace ringlet {

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

#endif  // RINGLET_CORE_MODEL_GRADIENTS_H_
