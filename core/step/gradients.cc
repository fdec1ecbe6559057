#include "gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../compute/sums.h"
#include "../layers/initializers.h"

namespace ringlet {
namespace {

double SumOfSquares(const GradientSpan& g) {
  const float* const d = g.data;
  return LaneSum<double>(g.size,
                         [d](int64_t i) { return double{d[i]} * d[i]; });
}

void ScaleBy(float factor, const GradientSpan& g) {
  for (int64_t i = 0; i < g.size; ++i) g.data[i] *= factor;
}

}  // namespace

void AccumulateGradients(const Regularizer& regularizer, int64_t n,
                         const float* w, const float* g, float divisor,
                         float* sum) {
  const Regularizer r = regularizer;
  if (r.empty()) {
    for (int64_t i = 0; i < n; ++i) sum[i] += g[i];
  } else {
    for (int64_t i = 0; i < n; ++i) {
      sum[i] += g[i] + RegularizationGradient(r, w[i]);
    }
  }
  if (divisor == 1) return;
  for (int64_t i = 0; i < n; ++i) sum[i] /= divisor;
}

void AddRegularizationGradient(const Regularizer& regularizer, int64_t n,
                               const float* w, float* g) {
  if (regularizer.empty()) return;
  for (int64_t i = 0; i < n; ++i) {
    g[i] += RegularizationGradient(regularizer, w[i]);
  }
}

void ClipGradients(const Optimizer& optimizer, const GradientSpan* gradients,
                   size_t count) {
  if (optimizer.clipvalue > 0) {
    const float c = optimizer.clipvalue;
    for (size_t k = 0; k < count; ++k) {
      const GradientSpan& g = gradients[k];
      for (int64_t i = 0; i < g.size; ++i) {
        g.data[i] = g.data[i] > c ? c : g.data[i] < -c ? -c : g.data[i];
      }
    }
  } else if (optimizer.clipnorm > 0) {
    // g c / max(norm, c)
    const double c = optimizer.clipnorm;
    for (size_t k = 0; k < count; ++k) {
      const double norm = std::sqrt(SumOfSquares(gradients[k]));
      if (norm > c || norm != norm) {
        ScaleBy(static_cast<float>(c / norm), gradients[k]);
      }
    }
  } else if (optimizer.global_clipnorm > 0) {
    // g c min(1 / norm, 1 / c)
    const double c = optimizer.global_clipnorm;
    double sum = 0;
    for (size_t k = 0; k < count; ++k) sum += SumOfSquares(gradients[k]);
    const double norm = std::sqrt(sum);
    const float factor = std::isfinite(norm)
                             ? static_cast<float>(c * std::min(1 / norm, 1 / c))
                             : std::numeric_limits<float>::quiet_NaN();
    if (factor == 1) return;
    for (size_t k = 0; k < count; ++k) ScaleBy(factor, gradients[k]);
  }
}

}  // namespace ringlet
