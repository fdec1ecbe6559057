// Initializers: the first values of weights, as Keras draws them; and
// regularizers: penalties on weights, added to the loss.
//
// Public. Formulas and defaults are those of Keras 3's
// initializers/random_initializers.py and regularizers.py; the random numbers
// are ringlet's own (Philox), a function of (seed, stream, element).

#ifndef RINGLET_CORE_LAYERS_INITIALIZERS_H_
#define RINGLET_CORE_LAYERS_INITIALIZERS_H_

#include <cstdint>

#include "../base/shape.h"

namespace ringlet {

struct Initializer {
  enum class Kind : uint8_t {
    kConstant,         // a
    kUniform,          // [a, b)
    kNormal,           // mean a, standard deviation b
    kTruncatedNormal,  // the same, redrawn outside two deviations
    kVarianceScaling,  // scale a
  };
  enum class Mode : uint8_t { kFanIn, kFanOut, kFanAvg };
  enum class Distribution : uint8_t {
    kUniform,
    kTruncatedNormal,
    kUntruncatedNormal,
  };

  Kind kind = Kind::kConstant;
  float a = 0;
  float b = 0;
  Mode mode = Mode::kFanIn;                            // kVarianceScaling
  Distribution distribution = Distribution::kUniform;  // kVarianceScaling
};

Initializer Zeros();
Initializer Ones();
Initializer Constant(float value);
Initializer RandomUniform(float minval = -0.05f, float maxval = 0.05f);
Initializer RandomNormal(float mean = 0, float stddev = 0.05f);
Initializer TruncatedNormal(float mean = 0, float stddev = 0.05f);
Initializer VarianceScaling(float scale, Initializer::Mode mode,
                            Initializer::Distribution distribution);
Initializer GlorotUniform();  // limit sqrt(6 / (fan_in + fan_out))
Initializer GlorotNormal();
Initializer HeUniform();  // limit sqrt(6 / fan_in)
Initializer HeNormal();
Initializer LecunUniform();  // limit sqrt(3 / fan_in)
Initializer LecunNormal();

// fan_in and fan_out of a weight: (in, out) of a matrix; a convolution's
// kernel (..., in, out) counts its receptive field too.
struct Fans {
  double in, out;
};
Fans ComputeFans(const Shape& shape);

// Draws shape.elements() values into `out`. `stream` tells the variables of a
// model apart.
void Initialize(const Initializer& initializer, const Shape& shape,
                uint64_t seed, uint64_t stream, float* out);

// L1 adds l1 * sum |w|, L2 adds l2 * sum w^2 (not halved).
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

#endif  // RINGLET_CORE_LAYERS_INITIALIZERS_H_
