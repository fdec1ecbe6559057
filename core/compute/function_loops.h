// Loops of the functions of functions.h, for each vector width. Every width
// gives the same bits.

#ifndef RINGLET_CORE_COMPUTE_FUNCTION_LOOPS_H_
#define RINGLET_CORE_COMPUTE_FUNCTION_LOOPS_H_

#include <cstdint>

namespace ringlet {

// The loops for one vector width.
struct FunctionLoops {
  // y[i] = tanh(y[i]), and sigmoid(y[i]).
  void (*tanh)(int64_t n, float* y);
  void (*sigmoid)(int64_t n, float* y);
  // y[i] = exp(y[i] - center).
  void (*exp)(float center, int64_t n, float* y);
};

extern const FunctionLoops kFunctionLoops;  // they run on any CPU
#if defined(__x86_64__)
extern const FunctionLoops kFunctionLoopsAvx2;
extern const FunctionLoops kFunctionLoopsAvx512;
#endif

// The loops of the chosen kernels.
const FunctionLoops& BestFunctionLoops();

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_FUNCTION_LOOPS_H_
