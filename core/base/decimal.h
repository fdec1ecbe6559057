// Decimal: the decimal number that a float32 setting was written as.
//
// A rho of 0.9999 becomes the float32 0.99989998, and 1 - rho then has a
// relative error of 2e-4. Keras keeps its settings as float64. So differences
// and powers of settings are computed from their decimals.

#ifndef RINGLET_CORE_BASE_DECIMAL_H_
#define RINGLET_CORE_BASE_DECIMAL_H_

#include <cmath>

namespace ringlet {

// The number with the fewest decimals, up to nine, that rounds to `value`;
// `value` if there is none.
inline double Decimal(float value) {
  double scale = 1;
  for (int decimals = 0; decimals <= 9; ++decimals, scale *= 10) {
    const double decimal = std::round(value * scale) / scale;
    if (static_cast<float>(decimal) == value) return decimal;
  }
  return value;
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_DECIMAL_H_
