// The functions of core/compute/functions.h as one build makes them.

#ifndef RINGLET_TESTS_CORE_COMPUTE_FUNCTION_VARIANT_H_
#define RINGLET_TESTS_CORE_COMPUTE_FUNCTION_VARIANT_H_

#include <cstdint>

struct FunctionVariant {
  const char* name;
  // y[i] = function `number` (x[i]), in a loop that may become vectors.
  void (*floats)(int number, const float* x, int64_t n, float* y);
  void (*doubles)(int number, const double* x, int64_t n, double* y);
};

// The builds; tests/meson.build has their flags.
extern const FunctionVariant plain, some, more, fastest;
#ifdef __x86_64__
extern const FunctionVariant middle, wide, contracted;
#define FUNCTION_BUILDS(X) \
  X(plain) X(some) X(more) X(fastest) X(middle) X(wide) X(contracted)
#else
#define FUNCTION_BUILDS(X) X(plain) X(some) X(more) X(fastest)
#endif

#endif  // RINGLET_TESTS_CORE_COMPUTE_FUNCTION_VARIANT_H_
