// Compiled several times, each time with other flags and VARIANT as the name of
// its namespace: so no build takes an inline function from another.

#include "function_variant.h"

#define SPACE_OF(name) name##_build
#define SPACE(name) SPACE_OF(name)
#define ringlet SPACE(VARIANT)
#include "../../../core/compute/functions.cc"
#undef ringlet

namespace {

using namespace SPACE(VARIANT)::math;

void Floats(int number, const float* x, int64_t n, float* y) {
  const auto loop = [=](auto function) {
    for (int64_t i = 0; i < n; ++i) y[i] = function(x[i]);
  };
  if (number == 0) loop([](float v) { return Exp(v); });
  if (number == 1) loop([](float v) { return Expm1(v); });
  if (number == 2) loop([](float v) { return Log(v); });
  if (number == 3) loop([](float v) { return Log1p(v); });
  if (number == 4) loop([](float v) { return Tanh(v); });
  if (number == 5) loop([](float v) { return Sigmoid(v); });
  if (number == 6) loop([](float v) { return Softplus(v); });
  if (number == 7) loop([](float v) { return NormalAt(v).bell; });
  if (number == 8) loop([](float v) { return NormalAt(v).below; });
}

void Doubles(int number, const double* x, int64_t n, double* y) {
  const auto loop = [=](auto function) {
    for (int64_t i = 0; i < n; ++i) y[i] = function(x[i]);
  };
  if (number == 0) loop([](double v) { return Exp(v); });
  if (number == 1) loop([](double v) { return Expm1(v); });
  if (number == 2) loop([](double v) { return Log(v); });
  if (number == 3) loop([](double v) { return Log1p(v); });
  if (number == 4) loop([](double v) { return Pow(v, 1.7); });
  if (number == 5) loop([](double v) { return Pow(0.999, v); });
  if (number == 6) loop([](double v) { return CosPi(v); });
}

}  // namespace

#define NAME_OF(x) #x
#define NAME(x) NAME_OF(x)
extern const FunctionVariant VARIANT = {NAME(VARIANT), Floats, Doubles};
