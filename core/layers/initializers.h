// Initializers: the first values of weights, as Keras draws them.
//
// Public. Formulas and defaults are those of Keras 3's
// initializers/random_initializers.py; the random numbers are ringlet's own
// (Philox), a function of (seed, stream, element).

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

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_INITIALIZERS_H_
