// Each element is a function of seed, stream and its own number alone
// (Philox), so the values depend on no order and no thread. All is computed in
// float64 with the functions of core/compute/functions.h, since the functions
// of the C library differ between machines. A change of one operation changes
// the bits of every run.

#include "initializers.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../base/ieee_arithmetic.h"
#include "../compute/functions.h"
#include "../compute/row_loops.h"
#include "../compute/sums.h"
#include "ringlet/compute.h"

namespace ringlet {
namespace {

using InitializerKind = Initializer::Kind;
using Mode = Initializer::Mode;
using Distribution = Initializer::Distribution;

// The standard deviation of a unit normal cut at two deviations.
constexpr double kTruncatedDeviation = 0.87962566103423978;

// The Box-Muller transform; u is kept away from 0.
double UnitNormal(const Philox::Block& words) {
  const double u = (words[0] + 0.5) / 4294967296.0;
  const double v = words[1] / 4294967296.0;
  return std::sqrt(-2 * math::Log(u)) * math::CosPi(2 * v);
}

double UnitTruncatedNormal(const Philox& random, uint64_t element) {
  for (uint64_t attempt = 0;; ++attempt) {
    const double z = UnitNormal(random.At(element | attempt << 48));
    if (std::abs(z) < 2) return z;
  }
}

// Normal numbers for each row of length `width`. Each row then loses its parts
// along the rows before it, twice, since the first time rounds (Gram-Schmidt).
std::vector<double> OrthogonalRows(const Philox& random, int64_t rows,
                                   int64_t width) {
  std::vector<double> all(static_cast<size_t>(rows * width));
  for (size_t i = 0; i < all.size(); ++i) all[i] = UnitNormal(random.At(i));
  for (int64_t r = 0; r < 2 * rows; ++r) {
    double* const __restrict row = all.data() + r / 2 * width;
    const auto product = [&](const double* other) {
      return LaneSum<double>(width,
                             [=](int64_t k) { return row[k] * other[k]; });
    };
    for (int64_t i = 0; i < r / 2; ++i) {
      const double* const __restrict other = all.data() + i * width;
      const double part = product(other);
      for (int64_t k = 0; k < width; ++k) row[k] -= part * other[k];
    }
    const double length = std::sqrt(product(row));
    for (int64_t k = 0; k < width; ++k) row[k] /= length;
  }
  return all;
}

// The last axis has the columns. The smaller side has the orthogonal vectors.
void InitializeOrthogonal(double gain, const Shape& shape, const Philox& random,
                          float* out) {
  const int64_t columns = shape.rank() == 0 ? 1 : shape.back(),
                rows = shape.elements() / columns;
  const bool transposed = rows > columns;
  const int64_t width = transposed ? rows : columns;
  const std::vector<double> vectors =
      OrthogonalRows(random, transposed ? columns : rows, width);
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t row = i / columns, column = i % columns;
    const int64_t at = transposed ? column * width + row : i;
    out[i] = static_cast<float>(gain * vectors[static_cast<size_t>(at)]);
  }
}

}  // namespace

Initializer Constant(float value) {
  Initializer i;
  i.a = value;
  return i;
}
Initializer Zeros() { return Constant(0); }
Initializer Ones() { return Constant(1); }
Initializer RandomUniform(float minval, float maxval) {
  return {InitializerKind::kUniform, minval, maxval, Mode::kFanIn,
          Distribution::kUniform};
}
Initializer RandomNormal(float mean, float stddev) {
  return {InitializerKind::kNormal, mean, stddev, Mode::kFanIn,
          Distribution::kUniform};
}
Initializer TruncatedNormal(float mean, float stddev) {
  return {InitializerKind::kTruncatedNormal, mean, stddev, Mode::kFanIn,
          Distribution::kUniform};
}
Initializer VarianceScaling(float scale, Mode mode, Distribution distribution) {
  return {InitializerKind::kVarianceScaling, scale, 0, mode, distribution};
}
Initializer GlorotUniform() {
  return VarianceScaling(1, Mode::kFanAvg, Distribution::kUniform);
}
Initializer GlorotNormal() {
  return VarianceScaling(1, Mode::kFanAvg, Distribution::kTruncatedNormal);
}
Initializer HeUniform() {
  return VarianceScaling(2, Mode::kFanIn, Distribution::kUniform);
}
Initializer HeNormal() {
  return VarianceScaling(2, Mode::kFanIn, Distribution::kTruncatedNormal);
}
Initializer LecunUniform() {
  return VarianceScaling(1, Mode::kFanIn, Distribution::kUniform);
}
Initializer LecunNormal() {
  return VarianceScaling(1, Mode::kFanIn, Distribution::kTruncatedNormal);
}

Initializer Orthogonal(float gain) {
  Initializer i = Constant(gain);
  i.kind = InitializerKind::kOrthogonal;
  return i;
}

Fans ComputeFans(const Shape& shape) {
  if (shape.rank() == 0) return {1, 1};
  if (shape.rank() == 1) return {1.0 * shape[0], 1.0 * shape[0]};
  double receptive_field = 1;
  for (int i = 0; i + 2 < shape.rank(); ++i) receptive_field *= shape[i];
  return {shape[shape.rank() - 2] * receptive_field,
          shape[shape.rank() - 1] * receptive_field};
}

void Initialize(const Initializer& initializer, const Shape& shape,
                uint64_t seed, uint64_t stream, float* out) {
  const IeeeArithmetic ieee;
  InitializerKind kind = initializer.kind;
  double a = initializer.a, b = initializer.b;
  if (kind == InitializerKind::kVarianceScaling) {
    const Fans fans = ComputeFans(shape);
    const double fan = initializer.mode == Mode::kFanIn ? fans.in
                       : initializer.mode == Mode::kFanOut
                           ? fans.out
                           : (fans.in + fans.out) / 2;
    const double variance = initializer.a / std::max(1.0, fan);
    switch (initializer.distribution) {
      case Distribution::kUniform:
        kind = InitializerKind::kUniform;
        b = std::sqrt(3 * variance);
        a = -b;
        break;
      case Distribution::kTruncatedNormal:
        kind = InitializerKind::kTruncatedNormal;
        a = 0;
        b = std::sqrt(variance) / kTruncatedDeviation;
        break;
      case Distribution::kUntruncatedNormal:
        kind = InitializerKind::kNormal;
        a = 0;
        b = std::sqrt(variance);
        break;
    }
  }
  const Philox random(seed, stream);
  if (kind == InitializerKind::kOrthogonal) {
    return InitializeOrthogonal(a, shape, random, out);
  }
  const int64_t n = shape.elements();
  if (kind == InitializerKind::kUniform)
    BestRowLoops().first_uniform(seed, stream, n, out);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t element = static_cast<uint64_t>(i);
    double value = a;
    if (kind == InitializerKind::kUniform) {
      value = a + (b - a) * out[i];
    } else if (kind == InitializerKind::kNormal) {
      value = a + b * UnitNormal(random.At(element));
    } else if (kind == InitializerKind::kTruncatedNormal) {
      value = a + b * UnitTruncatedNormal(random, element);
    }
    out[i] = static_cast<float>(value);
  }
}

double RegularizationPenalty(const Regularizer& regularizer, int64_t n,
                             const float* w) {
  if (regularizer.empty()) return 0;
  const double squares =
      LaneSum<double>(n, [w](int64_t i) { return double{w[i]} * w[i]; });
  if (regularizer.l1 == 0) return regularizer.l2 * squares;
  return regularizer.l2 * squares +
         regularizer.l1 *
             LaneSum<double>(n, [w](int64_t i) { return std::fabs(w[i]); });
}

}  // namespace ringlet
