// Built once for any CPU and, on x86-64, again for AVX2 and for AVX-512.
// Compilers vectorize the loops. `flatten` inlines all calls: the linker could
// give a shared copy compiled for AVX-512 to code for any CPU.

#include "function_loops.h"

#include "functions.h"

namespace ringlet {
namespace {

#if defined(RINGLET_AVX512)
#define RINGLET_FUNCTION_LOOPS kFunctionLoopsAvx512
#elif defined(RINGLET_AVX2)
#define RINGLET_FUNCTION_LOOPS kFunctionLoopsAvx2
#else
#define RINGLET_FUNCTION_LOOPS kFunctionLoops
#endif

__attribute__((flatten)) void Tanh(int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::Tanh(y[i]);
}
__attribute__((flatten)) void Sigmoid(int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::Sigmoid(y[i]);
}
__attribute__((flatten)) void Exp(float center, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::Exp(y[i] - center);
}

}  // namespace

extern const FunctionLoops RINGLET_FUNCTION_LOOPS = {Tanh, Sigmoid, Exp};

}  // namespace ringlet
