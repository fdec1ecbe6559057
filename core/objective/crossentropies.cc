// Crossentropies, focal losses and the KL divergence.
//
// Tests compare values and gradients with float64 references, also at extreme
// values (tests/core/objective/losses_test.cc). Small differences of large
// numbers are never computed in float: sums have terms of one sign, are in
// double, and only the result is rounded. A number near 1 is never subtracted
// from 1 in float. The order of sums is fixed, since all ranks and runs must
// get the same bits.

#include <algorithm>
#include <cmath>

#include "../compute/sums.h"
#include "loss_math.h"
#include "loss_table.h"

namespace ringlet {
namespace {

// The number of values that are computed together.
constexpr int64_t kPiece = 64;

// softmax(z)[j] is ExpOf(j) / sum().
class RowSoftmax {
 public:
  // `kept`, if not null, holds `width` floats. ExpOf(j) is valid until kept[j]
  // is overwritten.
  RowSoftmax(int64_t width, const float* z, float* kept)
      : z_(z), kept_(kept), top_(std::max_element(z, z + width) - z) {
    double e[kPiece];
    for (int64_t begin = 0; begin < width; begin += kPiece) {
      const int64_t n = std::min(kPiece, width - begin);
      ExpsBelow(z + begin, z[top_], n, e);
      for (int64_t j = 0; kept != nullptr && j < n; ++j) {
        kept[begin + j] = static_cast<float>(e[j]);
      }
      if (top_ >= begin && top_ < begin + n) e[top_ - begin] = 0;
      rest_ += LaneSum<double>(n, [&e](int64_t j) { return e[j]; });
    }
    if (kept != nullptr) kept[top_] = 1;
    // If the largest value is not finite, there is no softmax, as in
    // TensorFlow.
    if (!std::isfinite(z[top_])) rest_ = std::nan("");
  }
  double ExpOf(int64_t j) const { return kept_[j]; }
  // Computes ExpOf(j) without a kept value, and not rounded.
  double Compute(int64_t j) const { return j == top_ ? 1 : Exp(-Below(j)); }
  double sum() const { return 1 + rest_; }
  // The sum without number j; `value_j` is that number's value.
  double Others(int64_t j, double value_j) const {
    return j == top_ ? rest_ : 1 + (rest_ - value_j);
  }
  // -log softmax(z)[j].
  double Loss(int64_t j) const { return Below(j) + Log1p(rest_); }

 private:
  double Below(int64_t j) const { return double{z_[top_]} - z_[j]; }

  const float* const z_;
  const float* const kept_;
  const int64_t top_;  // the first of the largest
  double rest_ = 0;    // the sum without it
};

double SparseFromLogits(const LossRow& row) {
  const int32_t label = row.label;
  const RowSoftmax softmax(row.width, row.p, row.d);
  if (row.d != nullptr) {
    const double sum = softmax.sum();
    for (int64_t j = 0; j < row.width; ++j) {
      const double e = softmax.ExpOf(j);
      row.Set(j, (j == label ? -softmax.Others(j, e) : e) / sum);
    }
  }
  return softmax.Loss(label);
}

// TensorFlow clips, takes logarithms, and applies the loss from logits to them:
// log(sum of clipped p) - log(p[label]).
double SparseFromProbabilities(const LossRow& row) {
  const int32_t label = row.label;
  double others = 0;
  for (int64_t j = 0; j < row.width; ++j) {
    if (j != label) others += Clip(row.p[j]);
  }
  const double chosen = Clip(row.p[label]), sum = others + chosen;
  if (row.d != nullptr) {
    for (int64_t j = 0; j < row.width; ++j) {
      const double g = (j == label ? -others / chosen : 1) / sum;
      row.Set(j, Clipped(row.p[j]) ? 0 : g);
    }
  }
  return Log1p(others / chosen);
}

double Smoothed(float t, float smoothing, int64_t classes) {
  return t * (1 - double{smoothing}) +
         double{smoothing} / static_cast<double>(classes);
}

double CategoricalFromLogits(const LossRow& row, float smooth) {
  const float* const t = row.t;
  const RowSoftmax softmax(row.width, row.p, row.d);
  double loss = 0, weight = 0;
  for (int64_t j = 0; j < row.width; ++j) {
    const double target = Smoothed(t[j], smooth, row.width);
    // 0 * inf counts as 0, but not 0 * NaN.
    const double loss_j = softmax.Loss(j);
    if (target != 0 || std::isnan(loss_j)) loss += target * loss_j;
    weight += target;
  }
  if (row.d != nullptr) {
    // softmax * weight - target.
    const double sum = softmax.sum();
    for (int64_t j = 0; j < row.width; ++j) {
      const double target = Smoothed(t[j], smooth, row.width);
      const double e = softmax.ExpOf(j);
      row.Set(j, (e * (weight - target) - target * softmax.Others(j, e)) / sum);
    }
  }
  return loss;
}

double CategoricalFromProbabilities(const LossRow& row, float smooth) {
  const float* const t = row.t;
  double sum = 0;
  for (int64_t j = 0; j < row.width; ++j) sum += row.p[j];
  double loss = 0, dot = 0;  // dot = sum of dL/dq q, with q = p / sum
  for (int64_t j = 0; j < row.width; ++j) {
    const double q = row.p[j] / sum;
    const double target = Smoothed(t[j], smooth, row.width);
    loss += target * MinusLog(Clip(q));
    if (!Clipped(q)) dot -= target;
  }
  if (row.d != nullptr) {
    for (int64_t j = 0; j < row.width; ++j) {
      const double q = row.p[j] / sum;
      const double target = Smoothed(t[j], smooth, row.width);
      const double dq = Clipped(q) ? 0 : -target / q;
      row.Set(j, (dq - dot) / sum);
    }
  }
  return loss;
}

// `e` is exp(-|x|), `log` log(1 + e).
double BinaryFromLogits(float x, double t, double e, double log, double* d) {
  *d = (x >= 0 ? (1 - t) - t * e : e * (1 - t) - t) / (1 + e);
  return (x >= 0 ? x * (1 - t) : -x * t) + log;
}

double BinaryFromProbabilities(float p, double t, double* d) {
  const double q = Clip(p);
  *d = Clipped(p) ? 0 : (q - t) / (q * (1 - q));
  return t * MinusLog(q) + (1 - t) * -Log1p(-q);
}

// --- focal -----------------------------------------------------------------

// m^gamma and its derivative by m.
double Focus(double m, float gamma, double* derivative) {
  if (gamma == 0) {
    *derivative = 0;
    return 1;
  }
  *derivative = m > 0 || gamma >= 1 ? gamma * Power(m, gamma - 1) : 0;
  return Power(m, gamma);
}

// Returns the focal loss of one value. From logits its crossentropy is exact
// for any value, as in TensorFlow.
double BinaryFocal(const Loss& loss, float x, double t, double* d) {
  double p = x, slope = 1;  // slope = dp/dx
  if (loss.from_logits) {
    const double e = ExpOfMinusAbs(x);
    p = (x >= 0 ? 1 : e) / (1 + e);
    slope = e / ((1 + e) * (1 + e));
  }
  double d_entropy, d_factor;
  const double entropy =
      loss.from_logits ? BinaryFromLogits(x, t, ExpOfMinusAbs(x),
                                          Log1p(ExpOfMinusAbs(x)), &d_entropy)
                       : BinaryFromProbabilities(x, t, &d_entropy);
  const double factor = Focus(t * (1 - p) + (1 - t) * p, loss.gamma, &d_factor);
  const double alpha = double{loss.alpha};
  const double weight =
      loss.apply_class_balancing ? t * alpha + (1 - t) * (1 - alpha) : 1;
  *d = weight * (d_factor * (1 - 2 * t) * slope * entropy + factor * d_entropy);
  return weight * factor * entropy;
}

// alpha * sum of -t (1 - q)^gamma log q for the clipped q. `dq` gets the
// derivative by q.
double FocalTerm(const Loss& loss, double q, double t, double* dq) {
  const double clipped = Clip(q), alpha = double{loss.alpha};
  double d_factor;
  const double factor = Focus(1 - clipped, loss.gamma, &d_factor);
  const double minus_log = MinusLog(clipped);
  *dq = Clipped(q) ? 0 : -alpha * t * (d_factor * minus_log + factor / clipped);
  return alpha * t * factor * minus_log;
}

}  // namespace

double SparseCrossentropyOfRow(const Loss& loss, const LossRow& row) {
  return loss.from_logits ? SparseFromLogits(row)
                          : SparseFromProbabilities(row);
}

double CrossentropyOfRow(const Loss& loss, const LossRow& row) {
  return loss.from_logits
             ? CategoricalFromLogits(row, loss.label_smoothing)
             : CategoricalFromProbabilities(row, loss.label_smoothing);
}

double BinaryCrossentropyOfRow(const Loss& loss, const LossRow& row) {
  const double width = static_cast<double>(row.width);
  double sum = 0;
  float e[kPiece], log[kPiece];
  for (int64_t j = 0; j < row.width; ++j) {
    const int64_t k = j % kPiece;
    if (k == 0 && loss.from_logits) {
      ExpsOfMinusAbs(row.p + j, std::min(kPiece, row.width - j), e, log);
    }
    const double t = Smoothed(row.t[j], loss.label_smoothing, 2);
    double d;
    sum += loss.from_logits ? BinaryFromLogits(row.p[j], t, e[k], log[k], &d)
                            : BinaryFromProbabilities(row.p[j], t, &d);
    if (row.d != nullptr) row.Set(j, d / width);
  }
  return sum / width;
}

double BinaryFocalOfRow(const Loss& loss, const LossRow& row) {
  const double width = static_cast<double>(row.width);
  double sum = 0;
  for (int64_t j = 0; j < row.width; ++j) {
    double d;
    sum += BinaryFocal(loss, row.p[j],
                       Smoothed(row.t[j], loss.label_smoothing, 2), &d);
    if (row.d != nullptr) row.Set(j, d / width);
  }
  return sum / width;
}

// Both losses use q = p / sum(p); from logits p is the softmax.
double CategoricalFocalOfRow(const Loss& loss, const LossRow& row) {
  const RowSoftmax softmax(row.width, row.p, nullptr);
  double sum = loss.from_logits ? softmax.sum() : 0;
  for (int64_t j = 0; !loss.from_logits && j < row.width; ++j) sum += row.p[j];
  const auto q_of = [&](int64_t j) {
    return (loss.from_logits ? softmax.Compute(j) : row.p[j]) / sum;
  };
  double total = 0, dot = 0, dq;  // dot = sum of dL/dq q
  for (int64_t j = 0; j < row.width; ++j) {
    const double q = q_of(j);
    total += FocalTerm(
        loss, q, Smoothed(row.t[j], loss.label_smoothing, row.width), &dq);
    dot += dq * q;
  }
  for (int64_t j = 0; row.d != nullptr && j < row.width; ++j) {
    const double q = q_of(j);
    FocalTerm(loss, q, Smoothed(row.t[j], loss.label_smoothing, row.width),
              &dq);
    row.Set(j, loss.from_logits ? q * (dq - dot) : (dq - dot) / sum);
  }
  return total;
}

// Targets and predictions are clipped to [1e-7, 1].
double KLDivergenceOfRow(const Loss&, const LossRow& row) {
  const auto clip = [](double x) {
    return std::min(std::max(x, double{kEpsilon}), 1.0);
  };
  double sum = 0;
  for (int64_t j = 0; j < row.width; ++j) {
    const double t = clip(row.t[j]), p = clip(row.p[j]);
    sum += t * Log(t / p);
    if (row.d != nullptr) row.Set(j, p == double{row.p[j]} ? -t / p : 0);
  }
  return sum;
}

}  // namespace ringlet
