// The plain twins of the activations of single numbers: the definition, in
// double, and its derivative at the input z.

#ifndef RINGLET_TESTS_SUPPORT_NAIVE_ACTIVATIONS_H_
#define RINGLET_TESTS_SUPPORT_NAIVE_ACTIVATIONS_H_

#include <algorithm>
#include <cmath>

#include "ringlet/layers.h"

namespace ringlet {
namespace naive {

constexpr Activation kOfOneNumber[] = {kLinear,
                                       kRelu,
                                       kSigmoid,
                                       kTanh,
                                       kRelu6,
                                       kElu,
                                       kSelu,
                                       kLeakyRelu,
                                       kSoftsign,
                                       kSoftplus,
                                       kGelu,
                                       kSilu,
                                       kHardSilu,
                                       kMish,
                                       kExponential,
                                       kHardSigmoid,
                                       kHardSigmoidKeras2};

inline double Sigmoid(double z) { return 1 / (1 + std::exp(-z)); }
inline double Softplus(double z) {
  return std::max(z, 0.0) + std::log1p(std::exp(-std::fabs(z)));
}
inline double HardSigmoid(double z) {
  return std::min(std::max(z + 3, 0.0), 6.0) / 6;
}
inline double NormalBelow(double z) {
  return std::erfc(-z * std::sqrt(0.5)) / 2;
}

inline double Activate(Activation a, double z) {
  constexpr double kScale = 1.0507009873554804934193349852946;
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  switch (a) {
    case kRelu:
      return z > 0 ? z : 0;
    case kSigmoid:
      return Sigmoid(z);
    case kTanh:
      return std::tanh(z);
    case kRelu6:
      return std::min(std::max(z, 0.0), 6.0);
    case kElu:
      return z > 0 ? z : std::expm1(z);
    case kSelu:
      return kScale * (z > 0 ? z : kAlpha * std::expm1(z));
    case kLeakyRelu:
      return z > 0 ? z : 0.2 * z;
    case kExponential:
      return std::exp(z);
    case kHardSigmoid:
      return HardSigmoid(z);
    case kSoftsign:
      return z / (1 + std::fabs(z));
    case kSoftplus:
      return Softplus(z);
    case kGelu:
      return z * NormalBelow(z);
    case kSilu:
      return z * Sigmoid(z);
    case kHardSilu:
      return z * HardSigmoid(z);
    case kMish:
      return z * std::tanh(Softplus(z));
    case kHardSigmoidKeras2:
      return std::min(std::max(0.2 * z + 0.5, 0.0), 1.0);
    default:
      return z;
  }
}

inline double Slope(Activation a, double z) {
  const double s = Sigmoid(z), t = std::tanh(Softplus(z));
  const double inside = z > -3 && z < 3 ? 1.0 / 6 : 0;
  switch (a) {
    case kRelu:
      return z > 0 ? 1 : 0;
    case kSigmoid:
      return s * (1 - s);
    case kTanh:
      return 1 / (std::cosh(z) * std::cosh(z));
    case kRelu6:
      return z > 0 && z < 6 ? 1 : 0;
    case kElu:
      return z > 0 ? 1 : std::exp(z);
    case kSelu:
      return 1.0507009873554804934 *
             (z > 0 ? 1 : 1.6732632423543772848 * std::exp(z));
    case kLeakyRelu:
      return z > 0 ? 1 : 0.2;
    case kExponential:
      return std::exp(z);
    case kHardSigmoid:
      return inside;
    case kSoftsign:
      return 1 / ((1 + std::fabs(z)) * (1 + std::fabs(z)));
    case kSoftplus:
      return s;
    case kGelu:
      return NormalBelow(z) + z * std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
    case kSilu:
      return s + z * s * (1 - s);
    case kHardSilu:
      return HardSigmoid(z) + z * inside;
    case kMish:
      return t + z * s * (1 - t * t);
    case kHardSigmoidKeras2:
      return std::fabs(z) <= 2.5 ? 0.2 : 0;
    default:
      return 1;
  }
}

}  // namespace naive
}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_NAIVE_ACTIVATIONS_H_
