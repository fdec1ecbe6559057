// The loops of exact_grid.h for each vector width, with the same bits.

#ifndef RINGLET_CORE_COMPUTE_EXACT_LOOPS_H_
#define RINGLET_CORE_COMPUTE_EXACT_LOOPS_H_

#include <cstdint>

namespace ringlet {

// The loops for one vector width.
struct ExactLoops {
  // to[i] = q(x[i]): x[i] * inverse within ± limit, rounded to nearest, ties to
  // even. Returns max_magnitude_bits(x, n), as the next two do.
  int32_t (*quantize)(const float* x, int64_t n, float inverse, float limit,
                      int32_t* to);
  // to[i] += q(x[i]).
  int32_t (*quantize_and_add)(const float* x, int64_t n, float inverse,
                              float limit, int32_t* to);
  // Writes q(x[i]) over x[i].
  int32_t (*quantize_in_place)(void* x, int64_t n, float inverse, float limit);

  // x[i] = integers[i] * unit. Returns the greatest magnitude in `integers`.
  uint32_t (*to_floats)(const int32_t* integers, int64_t n, float unit,
                        float* x);
  // Writes integers[i] * unit over integers[i]. Returns the same.
  uint32_t (*to_floats_in_place)(void* integers, int64_t n, float unit);

  // The greatest magnitude in x, as the bits of a float.
  int32_t (*max_magnitude_bits)(const float* x, int64_t n);
};

extern const ExactLoops kExactLoops;  // runs on any CPU of the architecture
#if defined(__x86_64__)
extern const ExactLoops kExactLoopsAvx2;
#endif

// The loops of the chosen kernels.
const ExactLoops& BestExactLoops();

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_EXACT_LOOPS_H_
