#include "loss_math.h"

#include <cmath>

#include "../compute/functions.h"

namespace ringlet {

double Log(double x) { return math::Log(x); }

double Log1p(double x) { return math::Log1p(static_cast<float>(x)); }

double MinusLog(double q) { return Log1p((1 - q) / q); }

// math::Exp takes a float. The factor 1 + (x - rounded) corrects the result for
// the rounding of x. A result below the least float32 becomes 0.
double Exp(double x) {
  const float rounded = static_cast<float>(x);
  const double y = math::Exp(rounded) * (1 + (x - rounded));
  return x < -110 ? 0 : y;
}

void ExpsBelow(const float* z, float top, int64_t n, double* e) {
  for (int64_t i = 0; i < n; ++i) e[i] = Exp(double{z[i]} - top);
}

double ExpOfMinusAbs(float x) { return math::Exp(-std::fabs(x)); }

void ExpsOfMinusAbs(const float* x, int64_t n, float* e, float* log) {
  for (int64_t i = 0; i < n; ++i) {
    e[i] = math::Exp(-std::fabs(x[i]));
    log[i] = math::Log1p(e[i]);
  }
}

double SigmoidOf(float x) {
  const double e = ExpOfMinusAbs(x);
  return (x >= 0 ? 1 : e) / (1 + e);
}

// log(1 + (e^x - 1)^2 / (2 e^x)), or its limit if that overflows.
double LogCoshOf(double x) {
  const double a = std::fabs(x);
  if (a > 20) return a - 0.69314718055994530942;
  const double rise = math::Expm1(a);
  return math::Log1p(rise * rise / (2 * (rise + 1)));
}

double Tanh(double x) {
  const double a = std::fabs(x), fall = a > 20 ? -1 : math::Expm1(-2 * a);
  const double t = -fall / (2 + fall);
  return x < 0 ? -t : t;
}

double Power(double x, float n) {
  if (n == 0) return 1;
  if (n == 1) return x;
  if (n == 2) return x * x;
  return math::Pow(x, double{n});
}

}  // namespace ringlet
