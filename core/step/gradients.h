// Adds, regularizes and clips gradients between the backward pass and the
// update.
//
// Sums and regularization go element by element in order, so that any cut into
// ranges gives the same bits. Sums of squares are over whole variables.

#ifndef RINGLET_CORE_STEP_GRADIENTS_H_
#define RINGLET_CORE_STEP_GRADIENTS_H_

#include <cstddef>
#include <cstdint>

#include "ringlet/layers.h"
#include "ringlet/optimizers.h"

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
// Clips in place by the optimizer's settings. Sums of squares are in double, in
// order. A global norm that is not finite makes every gradient NaN, as in
// TensorFlow.
void ClipGradients(const Optimizer& optimizer, const GradientSpan* gradients,
                   size_t count);

}  // namespace ringlet

#endif  // RINGLET_CORE_STEP_GRADIENTS_H_
