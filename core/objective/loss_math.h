// Logarithms and exponentials for the losses and the metrics.
//
// Computes in double.

#ifndef RINGLET_CORE_OBJECTIVE_LOSS_MATH_H_
#define RINGLET_CORE_OBJECTIVE_LOSS_MATH_H_

#include <algorithm>
#include <cstdint>

namespace ringlet {

constexpr float kEpsilon = 1e-7f;  // Keras's backend epsilon

inline double Clip(double p) {
  const double low = kEpsilon, high = 1 - kEpsilon;
  return std::min(std::max(p, low), high);
}
inline bool Clipped(double p) { return !(p >= kEpsilon && p <= 1 - kEpsilon); }

double Log(double x);
double Log1p(double x);     // x is rounded to float32
double MinusLog(double q);  // -log(q) of a probability, exact also near 1
double Exp(double x);       // x <= 0; as exact as x
// e[i] = Exp(z[i] - top).
void ExpsBelow(const float* z, float top, int64_t n, double* e);
double ExpOfMinusAbs(float x);  // exp(-|x|)
// e[i] = exp(-|x[i]|), log[i] = log(1 + e[i]).
void ExpsOfMinusAbs(const float* x, int64_t n, float* e, float* log);
double SigmoidOf(float x);
double LogCoshOf(double x);       // log(cosh(x))
double Tanh(double x);            // exact also near 0
double Power(double x, float n);  // x >= 0; exact for n of 0, 1 and 2

}  // namespace ringlet

#endif  // RINGLET_CORE_OBJECTIVE_LOSS_MATH_H_
