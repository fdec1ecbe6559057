// Initialize: the first values of a weight. The penalty of a regularizer.

#ifndef RINGLET_CORE_LAYERS_INITIALIZERS_H_
#define RINGLET_CORE_LAYERS_INITIALIZERS_H_

#include <cstdint>

#include "ringlet/layers.h"
#include "ringlet/shape.h"

namespace ringlet {

// fan_in and fan_out of a weight: (in, out) of a matrix. For a convolution's
// kernel (..., in, out) both include the receptive field.
struct Fans {
  double in, out;
};
Fans ComputeFans(const Shape& shape);

// Writes shape.elements() values to `out`. `stream` separates the variables of
// a model.
void Initialize(const Initializer& initializer, const Shape& shape,
                uint64_t seed, uint64_t stream, float* out);

// l1 * sum |w| + l2 * sum w^2, summed in order.
double RegularizationPenalty(const Regularizer& regularizer, int64_t n,
                             const float* w);

// The derivative of the penalty at w.
inline float RegularizationGradient(const Regularizer& regularizer, float w) {
  const float sign = w > 0 ? 1.0f : w < 0 ? -1.0f : 0.0f;
  return 2 * regularizer.l2 * w + regularizer.l1 * sign;
}

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_INITIALIZERS_H_
