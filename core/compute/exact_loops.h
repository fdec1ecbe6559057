// The loops of exact_grid.h for each vector width, with the same bits.
//
// Internal to core/compute.

#ifndef RINGLET_CORE_COMPUTE_EXACT_LOOPS_H_
#define RINGLET_CORE_COMPUTE_EXACT_LOOPS_H_

#include <cstdint>

namespace ringlet {

// The loops for one vector width.
struct ExactLoops {
  // to[i] = x[i] * inverse within ± limit, rounded to nearest, ties to even.
  // The second adds that to to[i]. Both return the greatest magnitude in x, as
  // bits.
  int32_t (*set)(const float* x, int64_t n, float inverse, float limit,
                 int32_t* to);
  int32_t (*add)(const float* x, int64_t n, float inverse, float limit,
                 int32_t* to);
  // The first one, over x.
  int32_t (*over)(void* x, int64_t n, float inverse, float limit);

  // x[i] = whole[i] * unit; returns the greatest magnitude in `whole`.
  uint32_t (*widen)(const int32_t* whole, int64_t n, float unit, float* x);
  // The same, over `whole`.
  uint32_t (*widen_over)(void* whole, int64_t n, float unit);

  // The greatest magnitude in x, as bits.
  int32_t (*greatest)(const float* x, int64_t n);
};

extern const ExactLoops kExactLoops;  // for any CPU of the architecture
#if defined(__x86_64__)
extern const ExactLoops kExactLoopsAvx2;
#endif

// The loops of the chosen kernels.
const ExactLoops& BestExactLoops();

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_EXACT_LOOPS_H_
