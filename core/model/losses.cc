// What must be known to change this file: the losses and their gradients are
// held to float64 references (tests/core/model/losses_test.cc), at extreme
// values too. Terms are summed in double and only the result is rounded; a
// number near 1 is never subtracted from 1 in float. The order of sums is
// fixed, for all ranks and runs must have the same bits.

#include "losses.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "custom_loss.h"
#include "guarded.h"

namespace ringlet {
namespace {

constexpr float kEpsilon = 1e-7f;  // Keras's backend epsilon

// One row of K values. `d` may be null; it is scaled by `scale`. What differs
// by little of something large is never taken as a difference of floats: sums
// are of terms of one sign, in double, and only their result is rounded.
struct Row {
  int64_t width;
  const float* p;
  float* d;
  float scale;

  void Set(int64_t j, double gradient) const {
    d[j] = static_cast<float>(scale * gradient);
  }
};

double Clip(double p) {
  const double low = kEpsilon, high = 1 - kEpsilon;
  return std::min(std::max(p, low), high);
}
bool Clipped(double p) { return !(p >= kEpsilon && p <= 1 - kEpsilon); }

double Log1p(double x) { return std::log1p(static_cast<float>(x)); }

// -log q of a probability, exact also where q is nearly 1.
double MinusLog(double q) { return Log1p((1 - q) / q); }

// exp(x) of x <= 0; what rounding x to float32 takes away is put back.
double Exp(double x) {
  if (x < -110) return 0;  // less than any float32
  const float rounded = static_cast<float>(x);
  return std::exp(rounded) * (1 + (x - rounded));
}

// softmax(z)[j] is Of(j) / sum().
class Softmax {
 public:
  // `kept`, where not null, holds `width` floats: Of(j) is there until somebody
  // writes to kept[j].
  Softmax(int64_t width, const float* z, float* kept)
      : z_(z), kept_(kept), top_(std::max_element(z, z + width) - z) {
    for (int64_t j = 0; j < width; ++j) {
      const double e = j == top_ ? 1 : Exp(-Below(j));
      if (kept != nullptr) kept[j] = static_cast<float>(e);
      if (j != top_) rest_ += e;
    }
    // As TensorFlow's: an infinite or no largest value has no softmax.
    if (!std::isfinite(z[top_])) rest_ = std::nan("");
  }
  double Of(int64_t j) const { return kept_[j]; }
  double sum() const { return 1 + rest_; }
  // The sum without number j, whose value is `of_j`.
  double Others(int64_t j, double of_j) const {
    return j == top_ ? rest_ : 1 + (rest_ - of_j);
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

double SparseFromLogits(const Row& row, int32_t label) {
  const Softmax softmax(row.width, row.p, row.d);
  if (row.d != nullptr) {
    const double sum = softmax.sum();
    for (int64_t j = 0; j < row.width; ++j) {
      const double e = softmax.Of(j);
      row.Set(j, (j == label ? -softmax.Others(j, e) : e) / sum);
    }
  }
  return softmax.Loss(label);
}

// TensorFlow clips, takes logarithms and applies the loss from logits to them:
// log(sum of clipped p) - log(p[label]).
double SparseFromProbabilities(const Row& row, int32_t label) {
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

double CategoricalFromLogits(const Row& row, const float* t, float smooth) {
  const Softmax softmax(row.width, row.p, row.d);
  double loss = 0, weight = 0;
  for (int64_t j = 0; j < row.width; ++j) {
    const double target = Smoothed(t[j], smooth, row.width);
    // 0 * inf counts as 0, but not 0 * NaN.
    const double of_j = softmax.Loss(j);
    if (target != 0 || std::isnan(of_j)) loss += target * of_j;
    weight += target;
  }
  if (row.d != nullptr) {
    // softmax * weight - target.
    const double sum = softmax.sum();
    for (int64_t j = 0; j < row.width; ++j) {
      const double target = Smoothed(t[j], smooth, row.width);
      const double e = softmax.Of(j);
      row.Set(j, (e * (weight - target) - target * softmax.Others(j, e)) / sum);
    }
  }
  return loss;
}

double CategoricalFromProbabilities(const Row& row, const float* t,
                                    float smooth) {
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

double BinaryFromLogits(float x, double t, double* d) {
  const double e = std::exp(-std::fabs(x));
  *d = (x >= 0 ? (1 - t) - t * e : e * (1 - t) - t) / (1 + e);
  return (x >= 0 ? x * (1 - t) : -x * t) + Log1p(e);
}

double BinaryFromProbabilities(float p, double t, double* d) {
  const double q = Clip(p);
  *d = Clipped(p) ? 0 : (q - t) / (q * (1 - q));
  return t * MinusLog(q) + (1 - t) * -Log1p(-q);
}

// The loss of one value and its derivative.
double Elementwise(const Loss& loss, float p, float t, double* d) {
  const double e = double{p} - t, delta = loss.delta;
  switch (loss.kind) {
    case Loss::Kind::kMeanSquaredError:
      *d = 2 * e;
      return e * e;
    case Loss::Kind::kMeanAbsoluteError:
      *d = e > 0 ? 1.0 : e < 0 ? -1.0 : 0.0;
      return std::fabs(e);
    case Loss::Kind::kHuber:
      if (std::fabs(e) <= delta) {
        *d = e;
        return 0.5 * e * e;
      }
      *d = e > 0 ? delta : -delta;
      return delta * (std::fabs(e) - 0.5 * delta);
    default: {  // binary crossentropy
      const double target = Smoothed(t, loss.label_smoothing, 2);
      return loss.from_logits ? BinaryFromLogits(p, target, d)
                              : BinaryFromProbabilities(p, target, d);
    }
  }
}

double MeanOverRow(const Loss& loss, const Row& row, const float* t) {
  const double width = static_cast<double>(row.width);
  double sum = 0;
  for (int64_t j = 0; j < row.width; ++j) {
    double d;
    sum += Elementwise(loss, row.p[j], t[j], &d);
    if (row.d != nullptr) row.Set(j, d / width);
  }
  return sum / width;
}

double RowLoss(const Loss& loss, const Row& row, const void* targets,
               int64_t number) {
  const float* t = static_cast<const float*>(targets) + number * row.width;
  switch (loss.kind) {
    case Loss::Kind::kSparseCategoricalCrossentropy: {
      const int32_t label = static_cast<const int32_t*>(targets)[number];
      return loss.from_logits ? SparseFromLogits(row, label)
                              : SparseFromProbabilities(row, label);
    }
    case Loss::Kind::kCategoricalCrossentropy:
      return loss.from_logits
                 ? CategoricalFromLogits(row, t, loss.label_smoothing)
                 : CategoricalFromProbabilities(row, t, loss.label_smoothing);
    default:
      return MeanOverRow(loss, row, t);
  }
}

Loss Make(Loss::Kind kind, bool from_logits, float label_smoothing = 0) {
  Loss loss;
  loss.kind = kind;
  loss.from_logits = from_logits;
  loss.label_smoothing = label_smoothing;
  return loss;
}

}  // namespace

const char* Loss::class_name() const {
  switch (kind) {
    case Kind::kSparseCategoricalCrossentropy:
      return "SparseCategoricalCrossentropy";
    case Kind::kCategoricalCrossentropy:
      return "CategoricalCrossentropy";
    case Kind::kBinaryCrossentropy:
      return "BinaryCrossentropy";
    case Kind::kMeanSquaredError:
      return "MeanSquaredError";
    case Kind::kMeanAbsoluteError:
      return "MeanAbsoluteError";
    case Kind::kHuber:
      return "Huber";
    case Kind::kCustom:
      return custom != nullptr ? custom->class_name() : "CustomLoss";
  }
  return "Loss";
}

std::string Loss::name() const {
  return kind == Kind::kHuber ? "huber_loss" : SnakeCase(class_name());
}

bool Loss::takes_classes() const {
  return kind == Kind::kSparseCategoricalCrossentropy ||
         (custom != nullptr && custom->takes_classes());
}

int64_t Loss::targets(const Shape& output) const {
  if (custom != nullptr) return custom->targets(output);
  return takes_classes() ? output.elements() / output.back()
                         : output.elements();
}

Activation Loss::logits_activation() const {
  switch (kind) {
    case Kind::kSparseCategoricalCrossentropy:
    case Kind::kCategoricalCrossentropy:
      return kSoftmax;
    case Kind::kBinaryCrossentropy:
      return kSigmoid;
    default:
      return kLinear;
  }
}

Loss SparseCategoricalCrossentropy(FromLogits logits) {
  return Make(Loss::Kind::kSparseCategoricalCrossentropy, logits);
}
Loss CategoricalCrossentropy(FromLogits logits, float label_smoothing) {
  return Make(Loss::Kind::kCategoricalCrossentropy, logits, label_smoothing);
}
Loss BinaryCrossentropy(FromLogits logits, float label_smoothing) {
  return Make(Loss::Kind::kBinaryCrossentropy, logits, label_smoothing);
}
Loss MeanSquaredError() { return Make(Loss::Kind::kMeanSquaredError, false); }
Loss MeanAbsoluteError() { return Make(Loss::Kind::kMeanAbsoluteError, false); }
Loss Huber(float delta) {
  Loss loss = Make(Loss::Kind::kHuber, false);
  loss.delta = delta;
  return loss;
}

Loss Custom(std::shared_ptr<const CustomLoss> custom) {
  Loss loss = Make(Loss::Kind::kCustom, false);
  loss.custom = std::move(custom);
  return loss;
}

namespace {

Status CheckCustom(const Loss& loss, const Shape& output) {
  if (loss.custom == nullptr) {
    return InvalidArgument("Custom was given no loss");
  }
  const int64_t targets = loss.targets(output);
  if (targets < 1 || targets > int64_t{1} << 31) {
    return InvalidArgument("%s: an example cannot have %lld targets",
                           loss.class_name(), static_cast<long long>(targets));
  }
  return loss.custom->Check(output).Annotate("%s", loss.class_name());
}

}  // namespace

Status CheckLossShape(const Loss& loss, const Shape& output) {
  if (loss.kind == Loss::Kind::kCustom) return CheckCustom(loss, output);
  const bool categorical =
      loss.kind == Loss::Kind::kSparseCategoricalCrossentropy ||
      loss.kind == Loss::Kind::kCategoricalCrossentropy;
  if (categorical && (output.rank() < 1 || output.back() < 2)) {
    return InvalidArgument(
        "%s needs an output of two or more classes, not %s; use "
        "BinaryCrossentropy for one",
        loss.class_name(), output.ToString().c_str());
  }
  if (!(loss.label_smoothing >= 0 && loss.label_smoothing <= 1)) {
    return InvalidArgument("%s: label_smoothing must be in [0, 1], not %g",
                           loss.class_name(), loss.label_smoothing);
  }
  if (!(loss.delta > 0)) {
    return InvalidArgument("%s: delta must be > 0, not %g", loss.class_name(),
                           loss.delta);
  }
  return Status();
}

Status ComputeLoss(const Loss& loss, const Shape& output, int64_t count,
                   const float* predictions, const void* targets, float scale,
                   float* per_example, float* d_predictions) {
  if (loss.custom != nullptr) {
    return GuardedLoss(*loss.custom, output, count, predictions, targets, scale,
                       per_example, d_predictions);
  }
  const int64_t width = output.back();
  const int64_t rows = output.elements() / width;
  const float share = 1.0f / static_cast<float>(rows);
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t number = i * rows + r;
      const Row row = {
          width, predictions + number * width,
          d_predictions == nullptr ? nullptr : d_predictions + number * width,
          scale * share};
      sum += RowLoss(loss, row, targets, number);
    }
    per_example[i] = static_cast<float>(sum / static_cast<double>(rows));
  }
  return Status();
}

}  // namespace ringlet
