// Metrics that are not means over rows: counts of right and wrong predictions,
// ratios of these, areas under a curve, and R2.
//
// States are added over steps and ranks, number by number, so they hold only
// sums over examples. MetricClass::result computes the value from the total. A
// state is small, since it travels with every step and is in every backup: AUC
// has a bucket between two thresholds, not four counts for each threshold.

#include <algorithm>
#include <cmath>
#include <vector>

#include "loss_math.h"
#include "metric_table.h"

namespace ringlet {
namespace {

// The most values of one metric in the logs.
constexpr int kMaxColumns = 100;

double Divide(double a, double b) { return b == 0 ? 0 : a / b; }

// --- single predictions: true or false, positive or negative ---------------

// True if p[j] is among the k largest of its row. Among equal values the first
// counts.
bool IsInTop(const float* p, int64_t width, int64_t j, int k) {
  int64_t before = 0;
  for (int64_t i = 0; i < width; ++i) {
    before += p[i] > p[j] || (p[i] == p[j] && i < j);
  }
  return before < k;
}

bool IsPositive(const Metric& metric, const float* p, int64_t width,
                int64_t j) {
  if (metric.top_k > 0 && !IsInTop(p, width, j, metric.top_k)) return false;
  if (metric.threshold < 0) return metric.top_k > 0 || p[j] > 0.5f;
  return p[j] > metric.threshold;
}

// The classes that the metric counts: class_id alone if it is set, otherwise
// all.
struct ClassRange {
  int64_t begin, end;
};
ClassRange ClassesOf(const Metric& metric, int64_t width) {
  if (metric.class_id < 0) return {0, width};
  return {metric.class_id, metric.class_id + 1};
}

// Calls count(weight, is positive, is predicted positive) for each prediction.
template <typename Count>
void ForEach(const Metric& metric, const MetricBatch& batch,
             const Count& count) {
  const int64_t width = batch.width();
  const ClassRange classes = ClassesOf(metric, width);
  for (int64_t r = 0; r < batch.rows(); ++r) {
    if (batch.is_ignored(metric, r)) continue;
    const double weight = batch.weight(r);
    for (int64_t j = classes.begin; j < classes.end; ++j) {
      count(weight, batch.target(r, j) != 0,
            IsPositive(metric, batch.predictions_of(r), width, j));
    }
  }
}

// Counts the examples with the label `truth` and the prediction `guess`.
void UpdateCount(const Metric& metric, const MetricBatch& batch, bool truth,
                 bool guess, MetricState* state) {
  ForEach(metric, batch, [&](double weight, bool t, bool p) {
    if (t == truth && p == guess) state->total += weight;
  });
}

}  // namespace

void UpdatePrecision(const Metric& metric, const MetricBatch& batch,
                     MetricState* state) {
  ForEach(metric, batch, [&](double weight, bool t, bool p) {
    if (p) state->Update(t, weight);
  });
}

void UpdateRecall(const Metric& metric, const MetricBatch& batch,
                  MetricState* state) {
  ForEach(metric, batch, [&](double weight, bool t, bool p) {
    if (t) state->Update(p, weight);
  });
}

void UpdateTruePositives(const Metric& m, const MetricBatch& b,
                         MetricState* s) {
  UpdateCount(m, b, /*truth=*/true, /*guess=*/true, s);
}
void UpdateTrueNegatives(const Metric& m, const MetricBatch& b,
                         MetricState* s) {
  UpdateCount(m, b, /*truth=*/false, /*guess=*/false, s);
}
void UpdateFalsePositives(const Metric& m, const MetricBatch& b,
                          MetricState* s) {
  UpdateCount(m, b, /*truth=*/false, /*guess=*/true, s);
}
void UpdateFalseNegatives(const Metric& m, const MetricBatch& b,
                          MetricState* s) {
  UpdateCount(m, b, /*truth=*/true, /*guess=*/false, s);
}

double TotalOf(const Metric&, const MetricState* state, int64_t) {
  return state->total;
}

Status CheckClassId(const Metric& metric, const Shape& output) {
  if (metric.class_id < output.back()) return Status();
  return InvalidArgument(
      "metric '%s': class_id is %d, but the output %s has %lld values per row",
      metric.name.c_str(), metric.class_id, output.ToString().c_str(),
      static_cast<long long>(output.back()));
}

// --- AUC ---------------------------------------------------------------------

// State i counts the predictions above threshold i and not above the next one:
// how many are positive, and how many there are. The thresholds are evenly
// spaced; the first is a little below 0, the last a little above 1. With
// multi_label each class has such states.
int64_t AucStates(const Metric& metric, const Shape& output) {
  return metric.num_thresholds * (metric.multi_label ? output.back() : 1);
}

Status CheckAuc(const Metric& metric, const Shape& output) {
  RINGLET_RETURN_IF_ERROR(CheckClassId(metric, output));
  const char* const name = metric.name.c_str();
  if (!metric.multi_label) return Status();
  RINGLET_RETURN_IF_ERROR(CheckOneRow(metric, output));
  if (metric.class_id >= 0) {
    return InvalidArgument(
        "metric '%s': has multi_label, the mean over the classes, and "
        "class_id, one of them; leave one out",
        name);
  }
  if (metric.num_labels < 1 || metric.num_labels == output.back()) {
    return Status();
  }
  return InvalidArgument(
      "metric '%s': num_labels is %d, but the output has %lld values", name,
      metric.num_labels, static_cast<long long>(output.back()));
}

void UpdateAuc(const Metric& metric, const MetricBatch& batch,
               MetricState* state) {
  const float last = static_cast<float>(metric.num_thresholds - 1);
  const ClassRange classes = ClassesOf(metric, batch.width());
  for (int64_t r = 0; r < batch.rows(); ++r) {
    if (batch.is_ignored(metric, r)) continue;
    const double weight = batch.weight(r);
    for (int64_t j = classes.begin; j < classes.end; ++j) {
      float p = batch.predictions_of(r)[j];
      if (metric.from_logits) p = static_cast<float>(SigmoidOf(p));
      // NaN is above the first threshold only.
      p = p > 0 ? std::min(p, 1.0f) : 0;
      const float above = std::ceil(p * last) - 1;
      const int bucket = above > 0 ? static_cast<int>(above) : 0;
      const int64_t first = metric.multi_label ? j * metric.num_thresholds : 0;
      state[first + bucket].Update(batch.target(r, j) != 0, weight);
    }
  }
}

namespace {

// The counts of predictions above each threshold.
struct Curve {
  Curve(const MetricState* state, int64_t n)
      : tp(static_cast<size_t>(n)), fp(tp) {
    double true_ones = 0, false_ones = 0;
    for (size_t i = tp.size(); i-- > 0;) {
      tp[i] = true_ones += state[i].total;
      fp[i] = false_ones += state[i].count - state[i].total;
    }
  }
  std::vector<double> tp, fp;
};

// Davis and Goadrich (2006): interpolates the counts of precision and recall,
// not their ratio.
double InterpolatedPr(const Curve& c) {
  double sum = 0;
  for (size_t i = 0; i + 1 < c.tp.size(); ++i) {
    const double d_tp = c.tp[i] - c.tp[i + 1];
    const double p = c.tp[i] + c.fp[i], next = c.tp[i + 1] + c.fp[i + 1];
    const double slope = Divide(d_tp, std::max(p - next, 0.0));
    const double intercept = c.tp[i + 1] - slope * next;
    const double ratio = p > 0 && next > 0 ? p / next : 1;
    sum += Divide(slope * (d_tp + intercept * Log(ratio)), c.tp[0]);
  }
  return sum;
}

double AreaOfOne(const Metric& metric, const MetricState* state) {
  const Curve c(state, metric.num_thresholds);
  const bool pr = metric.curve == Metric::kPrecisionRecall;
  if (pr && metric.summation == Metric::kInterpolation) {
    return InterpolatedPr(c);
  }
  const auto x = [&](size_t i) {
    return pr ? Divide(c.tp[i], c.tp[0]) : Divide(c.fp[i], c.fp[0]);
  };
  const auto y = [&](size_t i) {
    return pr ? Divide(c.tp[i], c.tp[i] + c.fp[i]) : Divide(c.tp[i], c.tp[0]);
  };
  double sum = 0;
  for (size_t i = 0; i + 1 < c.tp.size(); ++i) {
    const double a = y(i), b = y(i + 1);
    const double height =
        metric.summation == Metric::kInterpolation ? (a + b) / 2
        : metric.summation == Metric::kMinoring    ? std::min(a, b)
                                                   : std::max(a, b);
    sum += (x(i) - x(i + 1)) * height;
  }
  return sum;
}

}  // namespace

double AreaUnderCurve(const Metric& metric, const MetricState* state,
                      int64_t n) {
  double sum = 0;
  for (int64_t at = 0; at < n; at += metric.num_thresholds) {
    sum += AreaOfOne(metric, state + at);
  }
  const int64_t labels = n / metric.num_thresholds;
  return sum / static_cast<double>(labels);
}

// --- two states a class: correct of predicted, correct of actual -------------

int64_t TwoStatesPerClass(const Metric& metric, const Shape& output) {
  return 2 * std::max<int64_t>(output.back(), metric.num_classes);
}

int64_t FScoreStates(const Metric& metric, const Shape& output) {
  const ClassRange classes = ClassesOf(metric, output.back());
  return 2 * (classes.end - classes.begin);
}

Status CheckOneRow(const Metric& metric, const Shape& output) {
  if (output.rank() == 1) return Status();
  return InvalidArgument("metric '%s' takes an output of one axis, and not %s",
                         metric.name.c_str(), output.ToString().c_str());
}

Status CheckFScore(const Metric& metric, const Shape& output) {
  RINGLET_RETURN_IF_ERROR(CheckOneRow(metric, output));
  RINGLET_RETURN_IF_ERROR(CheckClassId(metric, output));
  if (metric.average != Metric::kEachClass || metric.class_id >= 0 ||
      output.back() <= kMaxColumns) {
    return Status();
  }
  return InvalidArgument(
      "metric '%s': without an average the logs have a value for each class, "
      "at most %d, and the output has %lld; give an average, or a class_id",
      metric.name.c_str(), kMaxColumns, static_cast<long long>(output.back()));
}

void UpdateFScore(const Metric& metric, const MetricBatch& batch,
                  MetricState* state) {
  const int64_t width = batch.width();
  const ClassRange classes = ClassesOf(metric, width);
  for (int64_t r = 0; r < batch.rows(); ++r) {
    if (batch.is_ignored(metric, r)) continue;
    const float* const p = batch.predictions_of(r);
    const float largest = *std::max_element(p, p + width);
    for (int64_t j = classes.begin; j < classes.end; ++j) {
      MetricState* const predicted = state + 2 * (j - classes.begin);
      MetricState* const actual = predicted + 1;
      const bool guess = metric.threshold < 0
                             ? p[j] >= largest && std::fabs(p[j]) > 1e-9f
                             : p[j] > metric.threshold;
      const double right = batch.weight(r) * batch.target(r, j);
      if (guess) {
        predicted->total += right;
        predicted->count += batch.weight(r);
        actual->total += right;
      }
      actual->count += right;
    }
  }
}

namespace {

// Returns the F score of a precision and a recall.
double FScore(float beta, const MetricState& precision_state,
              const MetricState& recall_state) {
  const double precision = precision_state.Result(),
               recall = recall_state.Result();
  const double square = double{beta} * beta;
  return Divide(precision * recall, square * precision + recall) * (1 + square);
}

}  // namespace

double FScoreOf(const Metric& metric, const MetricState* state, int64_t n) {
  const int64_t classes = n / 2;
  double sum = 0, weights = 0;
  MetricState precision_state, recall_state;
  for (int64_t c = 0; c < classes; ++c) {
    const double score = FScore(metric.beta, state[2 * c], state[2 * c + 1]);
    const double weight =
        metric.average == Metric::kWeighted ? state[2 * c + 1].count : 1;
    sum += score * weight;
    weights += weight;
    precision_state += state[2 * c];
    recall_state += state[2 * c + 1];
  }
  return metric.average == Metric::kMicro
             ? FScore(metric.beta, precision_state, recall_state)
             : Divide(sum, weights);
}

// With one value in a row and sparse_y_pred left true, Keras would take the
// value as a class number.
Status CheckNumClasses(const Metric& metric, const Shape& output) {
  if (output.back() < 2) {
    return InvalidArgument(
        "metric '%s' takes a prediction of each class, and the output is %s",
        metric.name.c_str(), output.ToString().c_str());
  }
  if (metric.num_classes >= output.back()) return Status();
  return InvalidArgument(
      "metric '%s': num_classes is %d, but the output %s has %lld values per "
      "row",
      metric.name.c_str(), metric.num_classes, output.ToString().c_str(),
      static_cast<long long>(output.back()));
}

void UpdateMeanIoU(const Metric& metric, const MetricBatch& batch,
                   MetricState* state) {
  const int64_t width = batch.width();
  for (int64_t r = 0; r < batch.rows(); ++r) {
    const auto largest = [&](const float* v) {
      return std::max_element(v, v + width) - v;
    };
    const int64_t guess = largest(batch.predictions_of(r));
    const int64_t truth =
        metric.sparse_targets ? batch.label(r) : largest(batch.targets_of(r));
    // A class that the loss ignores may be outside of the output's classes.
    if (truth < 0 || truth >= width || truth == metric.ignore_class) continue;
    const double weight = batch.weight(r);
    state[2 * guess].Update(guess == truth, weight);
    state[2 * truth + 1].Update(guess == truth, weight);
  }
}

double MeanIoUOf(const Metric&, const MetricState* state, int64_t n) {
  double sum = 0, classes = 0;
  for (int64_t c = 0; c < n / 2; ++c) {
    const double both = state[2 * c].total;
    const double either = state[2 * c].count + state[2 * c + 1].count - both;
    sum += Divide(both, either);
    classes += either != 0;
  }
  return Divide(sum, classes);
}

// --- R2: two states an output: t and 1; t^2 and the squared error ------------

int64_t TwoStatesPerOutput(const Metric&, const Shape& output) {
  return 2 * output.back();
}

void UpdateR2(const Metric&, const MetricBatch& batch, MetricState* state) {
  for (int64_t r = 0; r < batch.rows(); ++r) {
    const double weight = batch.weight(r);
    for (int64_t j = 0; j < batch.width(); ++j) {
      const double t = batch.targets_of(r)[j],
                   e = t - batch.predictions_of(r)[j];
      state[2 * j].Update(t, weight);
      state[2 * j + 1].total += weight * t * t;
      state[2 * j + 1].count += weight * e * e;
    }
  }
}

double R2Of(const Metric& metric, const MetricState* state, int64_t n) {
  double sum = 0, weights = 0;
  for (int64_t j = 0; j < n / 2; ++j) {
    const MetricState &first = state[2 * j], &second = state[2 * j + 1];
    const double spread = second.total - first.total * first.Result();
    double score = 1 - second.count / spread;
    if (std::isinf(score)) score = 0;
    const double weight =
        metric.aggregation == Metric::kUniformAverage ? 1 : spread;
    sum += weight * score;
    weights += weight;
  }
  return sum / weights;
}

}  // namespace ringlet
