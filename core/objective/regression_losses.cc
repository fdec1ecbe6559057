// Losses of values, of margins and of directions. The rules for changes are at
// the head of crossentropies.cc.

#include <algorithm>
#include <cmath>

#include "loss_math.h"
#include "loss_table.h"

namespace ringlet {
namespace {

// The mean over a row of `value(p, t, &d)`, which returns the loss of one value
// and writes its derivative.
template <typename Value>
double MeanOfRow(const LossRow& row, const Value& value) {
  const double width = static_cast<double>(row.width);
  double sum = 0;
  for (int64_t j = 0; j < row.width; ++j) {
    double d;
    sum += value(row.p[j], row.t[j], &d);
    if (row.d != nullptr) row.Set(j, d / width);
  }
  return sum / width;
}

double Sign(double e) { return e > 0 ? 1.0 : e < 0 ? -1.0 : 0.0; }

// True if labels 0 and 1 mean -1 and 1. Keras tests if all labels of a batch
// are 0 or 1, ringlet if all labels of a row are. The results differ only for
// data sets with 0 and -1.
bool IsBinary(const LossRow& row) {
  return std::all_of(row.t, row.t + row.width,
                     [](float t) { return t == 0 || t == 1; });
}

// 1 - t p of each value.
template <typename Value>
double MeanHingeOfRow(const LossRow& row, const Value& value) {
  const bool binary = IsBinary(row);
  return MeanOfRow(row, [&](float p, float target, double* d) {
    const double t = binary ? 2 * double{target} - 1 : target;
    const double margin = 1 - t * p;
    double by_margin;
    const double loss = value(std::max(margin, 0.0), &by_margin);
    *d = margin >= 0 ? -t * by_margin : 0;
    return std::isnan(margin) ? margin : loss;
  });
}

// 1 / |v|, at most 1e7 as in Keras. *capped becomes true if this limit was
// reached.
double InverseNorm(const float* v, int64_t width, bool* capped) {
  double sum = 0;
  for (int64_t j = 0; j < width; ++j) sum += double{v[j]} * v[j];
  const double inverse = 1 / std::sqrt(sum), max_inverse = 1 / double{kEpsilon};
  *capped = inverse > max_inverse;
  return *capped ? max_inverse : inverse;
}

}  // namespace

double SquaredErrorOfRow(const Loss&, const LossRow& row) {
  return MeanOfRow(row, [](float p, float t, double* d) {
    const double e = double{p} - t;
    *d = 2 * e;
    return e * e;
  });
}

double AbsoluteErrorOfRow(const Loss&, const LossRow& row) {
  return MeanOfRow(row, [](float p, float t, double* d) {
    const double e = double{p} - t;
    *d = Sign(e);
    return std::fabs(e);
  });
}

double PercentageErrorOfRow(const Loss&, const LossRow& row) {
  return MeanOfRow(row, [](float p, float t, double* d) {
    const double e = double{p} - t;
    const double unit = 100 / std::max(std::fabs(double{t}), double{kEpsilon});
    *d = Sign(e) * unit;
    return std::fabs(e) * unit;
  });
}

double LogarithmicErrorOfRow(const Loss&, const LossRow& row) {
  return MeanOfRow(row, [](float p, float t, double* d) {
    const double minimum = kEpsilon, inner = std::max(double{p}, minimum);
    const double e = Log((inner + 1) / (std::max(double{t}, minimum) + 1));
    *d = p >= kEpsilon ? 2 * e / (inner + 1) : 0;
    return std::isnan(p) ? double{p} : e * e;
  });
}

double HuberOfRow(const Loss& loss, const LossRow& row) {
  const double delta = loss.delta;
  return MeanOfRow(row, [delta](float p, float t, double* d) {
    const double e = double{p} - t;
    if (std::fabs(e) <= delta) {
      *d = e;
      return 0.5 * e * e;
    }
    *d = e > 0 ? delta : -delta;
    return delta * (std::fabs(e) - 0.5 * delta);
  });
}

double LogCoshOfRow(const Loss&, const LossRow& row) {
  return MeanOfRow(row, [](float p, float t, double* d) {
    const double e = double{p} - t;
    *d = Tanh(e);
    return LogCoshOf(e);
  });
}

double PoissonOfRow(const Loss&, const LossRow& row) {
  return MeanOfRow(row, [](float p, float t, double* d) {
    const double rate = double{p} + kEpsilon;
    *d = 1 - t / rate;
    return p - t * Log(rate);
  });
}

double CosineSimilarityOfRow(const Loss&, const LossRow& row) {
  bool capped, unused;
  const double inverse_p = InverseNorm(row.p, row.width, &capped);
  const double inverse_t = InverseNorm(row.t, row.width, &unused);
  double dot = 0;
  for (int64_t j = 0; j < row.width; ++j) {
    dot += (inverse_t * row.t[j]) * (inverse_p * row.p[j]);
  }
  for (int64_t j = 0; row.d != nullptr && j < row.width; ++j) {
    const double along = capped ? 0 : inverse_p * row.p[j] * dot;
    row.Set(j, -(inverse_t * row.t[j] - along) * inverse_p);
  }
  return -dot;
}

double HingeOfRow(const Loss&, const LossRow& row) {
  return MeanHingeOfRow(row, [](double margin, double* d) {
    *d = 1;
    return margin;
  });
}

double SquaredHingeOfRow(const Loss&, const LossRow& row) {
  return MeanHingeOfRow(row, [](double margin, double* d) {
    *d = 2 * margin;
    return margin * margin;
  });
}

// max(max((1 - t) p) - sum(t p) + 1, 0). Equal maxima share the gradient.
double CategoricalHingeOfRow(const Loss&, const LossRow& row) {
  const auto wrong = [&](int64_t j) {
    return (1 - double{row.t[j]}) * row.p[j];
  };
  double right = 0, largest = wrong(0), equal = 0;
  for (int64_t j = 0; j < row.width; ++j) {
    right += double{row.t[j]} * row.p[j];
    largest = std::max(largest, wrong(j));
  }
  for (int64_t j = 0; j < row.width; ++j) equal += wrong(j) == largest;
  const double loss = largest - right + 1;
  for (int64_t j = 0; row.d != nullptr && j < row.width; ++j) {
    const double t = row.t[j];
    const double gradient = wrong(j) == largest ? (1 - t) / equal : 0;
    row.Set(j, loss >= 0 ? gradient - t : 0);
  }
  return std::isnan(loss) ? loss : std::max(loss, 0.0);
}

}  // namespace ringlet
