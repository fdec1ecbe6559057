#include "metrics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "../base/guarded.h"
#include "custom_metric.h"

namespace ringlet {
namespace {

Metric Make(Metric::Kind kind, const char* name) {
  Metric metric;
  metric.kind = kind;
  metric.name = name;
  return metric;
}

int64_t ArgMax(int64_t width, const float* p) {
  return std::max_element(p, p + width) - p;
}

// As TensorFlow's in_top_k: ties with the target count for it; a target whose
// prediction is not finite is not among them.
bool InTopK(int64_t width, const float* p, int32_t label, int k) {
  if (!std::isfinite(p[label])) return false;
  int larger = 0;
  for (int64_t j = 0; j < width; ++j) {
    if (!std::isfinite(p[j])) return false;
    larger += p[j] > p[label];
  }
  return larger < k;
}

double RowValue(const Metric& metric, int64_t width, const float* p,
                const void* targets, int64_t number) {
  const float* t = static_cast<const float*>(targets) + number * width;
  const auto label = [&] {
    return static_cast<const int32_t*>(targets)[number];
  };
  double sum = 0;
  switch (metric.kind) {
    case Metric::Kind::kSparseCategoricalAccuracy:
      return ArgMax(width, p) == label() ? 1 : 0;
    case Metric::Kind::kSparseTopKCategoricalAccuracy:
      return InTopK(width, p, label(), metric.k) ? 1 : 0;
    case Metric::Kind::kCategoricalAccuracy:
      return ArgMax(width, p) == ArgMax(width, t) ? 1 : 0;
    case Metric::Kind::kMeanSquaredError:
      for (int64_t j = 0; j < width; ++j) {
        sum += (double{p[j]} - t[j]) * (double{p[j]} - t[j]);
      }
      break;
    case Metric::Kind::kMeanAbsoluteError:
      for (int64_t j = 0; j < width; ++j) sum += std::fabs(double{p[j]} - t[j]);
      break;
    case Metric::Kind::kAccuracy:
    case Metric::Kind::kCustom:  // never here
    case Metric::Kind::kBinaryAccuracy:
      for (int64_t j = 0; j < width; ++j) {
        sum += (p[j] > metric.threshold ? 1.0f : 0.0f) == t[j] ? 1 : 0;
      }
      break;
  }
  return sum / static_cast<double>(width);
}

}  // namespace

Metric Accuracy() { return Metric(); }
Metric BinaryAccuracy(float threshold) {
  Metric metric = Make(Metric::Kind::kBinaryAccuracy, "binary_accuracy");
  metric.threshold = threshold;
  return metric;
}
Metric CategoricalAccuracy() {
  return Make(Metric::Kind::kCategoricalAccuracy, "categorical_accuracy");
}
Metric SparseCategoricalAccuracy() {
  return Make(Metric::Kind::kSparseCategoricalAccuracy,
              "sparse_categorical_accuracy");
}
Metric SparseTopKCategoricalAccuracy(int k) {
  Metric metric = Make(Metric::Kind::kSparseTopKCategoricalAccuracy,
                       "sparse_top_k_categorical_accuracy");
  metric.k = k;
  return metric;
}
Metric MeanSquaredErrorMetric() {
  return Make(Metric::Kind::kMeanSquaredError, "mean_squared_error");
}
Metric MeanAbsoluteErrorMetric() {
  return Make(Metric::Kind::kMeanAbsoluteError, "mean_absolute_error");
}

Metric Custom(std::shared_ptr<const CustomMetric> custom) {
  Metric metric = Make(Metric::Kind::kCustom, "custom_metric");
  if (custom != nullptr) metric.name = SnakeCase(custom->class_name());
  metric.custom = std::move(custom);
  return metric;
}

bool Metric::decreases() const {
  return kind == Kind::kMeanSquaredError || kind == Kind::kMeanAbsoluteError ||
         (custom != nullptr && custom->decreases());
}

Status ResolveMetric(const Metric& metric, const Loss& loss,
                     const Shape& output, Metric* resolved) {
  *resolved = metric;
  if (metric.kind == Metric::Kind::kCustom) {
    if (metric.custom == nullptr) {
      return InvalidArgument("Custom was given no metric");
    }
    resolved->takes_classes = loss.takes_classes();
    return metric.custom->Check(loss, output)
        .Annotate("metric '%s'", metric.name.c_str());
  }
  if (metric.kind == Metric::Kind::kAccuracy) {
    resolved->kind = loss.takes_classes()
                         ? Metric::Kind::kSparseCategoricalAccuracy
                     : output.back() == 1 ? Metric::Kind::kBinaryAccuracy
                                          : Metric::Kind::kCategoricalAccuracy;
  }
  const bool sparse =
      resolved->kind == Metric::Kind::kSparseCategoricalAccuracy ||
      resolved->kind == Metric::Kind::kSparseTopKCategoricalAccuracy;
  if (sparse != loss.takes_classes()) {
    return InvalidArgument(
        "metric '%s' takes %s, but the targets of %s are %s",
        metric.name.c_str(), sparse ? "class numbers" : "one value a class",
        loss.class_name(),
        loss.takes_classes() ? "class numbers" : "one value a class");
  }
  const int64_t rows = output.elements() / output.back();
  if (loss.targets(output) != (sparse ? rows : output.elements())) {
    return InvalidArgument(
        "metric '%s' takes one target a %s of the output %s, but %s takes %lld "
        "an example",
        metric.name.c_str(), sparse ? "row" : "value",
        output.ToString().c_str(), loss.class_name(),
        static_cast<long long>(loss.targets(output)));
  }
  if (resolved->k < 1) {
    return InvalidArgument("metric '%s': k must be at least 1",
                           metric.name.c_str());
  }
  return Status();
}

Status UpdateMetric(const Metric& metric, const Shape& output, int64_t count,
                    const float* predictions, const void* targets,
                    MetricState* state) {
  if (count == 0) return Status();
  if (metric.custom != nullptr) {
    return GuardedUpdate(*metric.custom, output, count, predictions,
                         TargetsFrom(targets, metric.takes_classes, 0), state);
  }
  const int64_t width = output.back();
  const int64_t rows = count * (output.elements() / width);
  for (int64_t r = 0; r < rows; ++r) {
    state->total +=
        RowValue(metric, width, predictions + r * width, targets, r);
  }
  state->count += static_cast<double>(rows);
  return Status();
}

}  // namespace ringlet
