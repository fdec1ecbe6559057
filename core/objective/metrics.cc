// Metrics that are means over rows, and the checks of all metrics.

#include "ringlet/metrics.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "../base/guarded.h"
#include "../base/targets.h"
#include "batch_loss.h"
#include "loss_table.h"
#include "metric_states.h"
#include "metric_table.h"
#include "ringlet/collective.h"

namespace ringlet {
namespace {

int64_t ArgMax(int64_t width, const float* p) {
  return std::max_element(p, p + width) - p;
}

// Ties with the target count as below it, as in TensorFlow's in_top_k. If a
// prediction is not finite, or the target is none of the classes, the target is
// not in the top k.
bool InTopK(int64_t width, const float* p, int64_t label, int k) {
  if (label < 0 || label >= width || !std::isfinite(p[label])) return false;
  int larger = 0;
  for (int64_t j = 0; j < width; ++j) {
    if (!std::isfinite(p[j])) return false;
    larger += p[j] > p[label];
  }
  return larger < k;
}

// The mean of value(row) over all rows.
template <typename Value>
void UpdateMean(const MetricBatch& batch, MetricState* state,
                const Value& value) {
  for (int64_t r = 0; r < batch.rows(); ++r) {
    state->Update(value(r), batch.weight(r));
  }
}

Loss MakeLoss(Loss::Kind kind, const Metric& metric) {
  Loss loss;
  loss.kind = kind;
  loss.from_logits = metric.from_logits;
  loss.label_smoothing = metric.label_smoothing;
  loss.ignore_class = metric.ignore_class;
  return loss;
}

double LossOfRow(const Loss& loss, const MetricBatch& b, int64_t r) {
  const bool classes = ClassOf(loss).takes_classes;
  return ClassOf(loss).row(
      loss,
      {b.width(), b.predictions_of(r), classes ? nullptr : b.targets_of(r),
       classes ? b.label(r) : 0, /*d=*/nullptr, /*scale=*/1});
}

}  // namespace

// --- means over rows ---------------------------------------------------------

void UpdateBinaryAccuracy(const Metric& metric, const MetricBatch& b,
                          MetricState* state) {
  UpdateMean(b, state, [&](int64_t r) {
    double sum = 0;
    for (int64_t j = 0; j < b.width(); ++j) {
      sum += (b.predictions_of(r)[j] > metric.threshold ? 1.0f : 0.0f) ==
                     b.targets_of(r)[j]
                 ? 1
                 : 0;
    }
    return sum / static_cast<double>(b.width());
  });
}

void UpdateCategoricalAccuracy(const Metric&, const MetricBatch& b,
                               MetricState* state) {
  UpdateMean(b, state, [&](int64_t r) {
    return ArgMax(b.width(), b.predictions_of(r)) ==
                   ArgMax(b.width(), b.targets_of(r))
               ? 1
               : 0;
  });
}

void UpdateSparseAccuracy(const Metric&, const MetricBatch& b,
                          MetricState* state) {
  UpdateMean(b, state, [&](int64_t r) {
    return ArgMax(b.width(), b.predictions_of(r)) == b.label(r) ? 1 : 0;
  });
}

void UpdateTopK(const Metric& metric, const MetricBatch& b,
                MetricState* state) {
  UpdateMean(b, state, [&](int64_t r) {
    return InTopK(b.width(), b.predictions_of(r),
                  ArgMax(b.width(), b.targets_of(r)), metric.k)
               ? 1
               : 0;
  });
}

void UpdateSparseTopK(const Metric& metric, const MetricBatch& b,
                      MetricState* state) {
  UpdateMean(b, state, [&](int64_t r) {
    return InTopK(b.width(), b.predictions_of(r), b.label(r), metric.k) ? 1 : 0;
  });
}

void UpdateMeanLoss(Loss::Kind kind, const Metric& metric, const MetricBatch& b,
                    MetricState* state) {
  const Loss loss = MakeLoss(kind, metric);
  for (int64_t r = 0; r < b.rows(); ++r) {
    if (loss.ignore_class && b.label(r) == *loss.ignore_class) {
      // Keras's Mean applies the mask of the ignored rows to weights only.
      state->Update(0, b.weights.values == nullptr ? 1 : 0);
    } else {
      state->Update(LossOfRow(loss, b, r), b.weight(r));
    }
  }
}

// The metric is the cosine; the loss is minus the cosine.
void UpdateCosine(const Metric& metric, const MetricBatch& b,
                  MetricState* state) {
  const Loss loss = MakeLoss(Loss::Kind::kCosineSimilarity, metric);
  UpdateMean(b, state, [&](int64_t r) { return -LossOfRow(loss, b, r); });
}

double RootOfMean(const Metric&, const MetricState* state, int64_t) {
  return std::sqrt(state->Result());
}

// --- states ------------------------------------------------------------------

void AddMetrics(const MetricState* step, std::vector<MetricState>* running) {
  for (size_t i = 0; i < running->size(); ++i) (*running)[i] += step[i];
}

Status SumOverRanks(Collective* collective, std::vector<MetricState>* states) {
  // A MetricState is two doubles.
  static_assert(sizeof(MetricState) == 2 * sizeof(double));
  if (states->empty()) return Status();
  return SumOverRanks(collective, &(*states)[0].total, 2 * states->size());
}

int64_t NumStates(const Metric& metric, const Shape& output) {
  if (metric.kind == Metric::Kind::kCustom) return 1;
  const MetricClass& c = ClassOf(metric);
  return c.states == nullptr ? 1 : c.states(metric, output);
}

std::vector<Metric> LoggedMetrics(const Metric& metric, const Shape& output) {
  const bool has_average = metric.kind == Metric::Kind::kF1Score ||
                           metric.kind == Metric::Kind::kFBetaScore;
  if (!has_average || metric.average != Metric::kEachClass ||
      metric.class_id >= 0) {
    return {metric};
  }
  std::vector<Metric> metrics;
  for (int c = 0; c < output.back(); ++c) {
    metrics.push_back(metric);
    metrics.back().ClassId(c).Name(metric.name + "_" + std::to_string(c));
  }
  return metrics;
}

double MetricResult(const Metric& metric, const MetricState* states,
                    int64_t count) {
  if (metric.kind != Metric::Kind::kCustom) {
    const MetricClass& c = ClassOf(metric);
    if (c.result != nullptr) return c.result(metric, states, count);
  }
  return states->Result();
}

// --- with a model ------------------------------------------------------------

namespace {

Status ResolveCustom(const Loss& loss, const Shape& output, Metric* metric) {
  if (metric->custom == nullptr) {
    return InvalidArgument("Custom was given no metric");
  }
  if (metric->weighted) {
    return InvalidArgument(
        "metric '%s': a metric of your own has no weights of the examples",
        metric->name.c_str());
  }
  metric->takes_classes = loss.takes_classes();
  return metric->custom->Check(loss, output)
      .Annotate("metric '%s'", metric->name.c_str());
}

bool TakesClasses(const Metric& metric) {
  const MetricTargets targets = ClassOf(metric).targets;
  return targets == MetricTargets::kBySparseTargets ||
                 targets == MetricTargets::kOfLoss
             ? metric.sparse_targets
             : targets == MetricTargets::kClasses;
}

Status CheckTargets(const Metric& metric, const Loss& loss,
                    const Shape& output) {
  const bool sparse = TakesClasses(metric);
  if (sparse != loss.takes_classes()) {
    return InvalidArgument(
        "metric '%s' takes %s, but the targets of %s are %s",
        metric.name.c_str(), sparse ? "class numbers" : "one value a class",
        loss.class_name(),
        loss.takes_classes() ? "class numbers" : "one value a class");
  }
  const int64_t rows = RowsOf(output);
  if (loss.targets(output) != (sparse ? rows : output.elements())) {
    return InvalidArgument(
        "metric '%s' takes one target a %s of the output %s, but %s takes %lld "
        "an example",
        metric.name.c_str(), sparse ? "row" : "value",
        output.ToString().c_str(), loss.class_name(),
        static_cast<long long>(loss.targets(output)));
  }
  return Status();
}

// A class that the loss ignores may be outside of the output's classes. A
// crossentropy has no value for it.
Status CheckIgnored(const Metric& metric, const Loss& loss,
                    const Shape& output) {
  if (metric.kind != Metric::Kind::kSparseCategoricalCrossentropy ||
      !loss.ignore_class || loss.ignore_class == metric.ignore_class ||
      (*loss.ignore_class >= 0 && *loss.ignore_class < output.back())) {
    return Status();
  }
  return InvalidArgument(
      "metric '%s': the loss has ignore_class %d, which is none of the "
      "output's classes; give the metric the same ignore_class",
      metric.name.c_str(), *loss.ignore_class);
}

constexpr int kMaxStates = 1 << 16;  // thresholds or classes

Status CheckFields(const Metric& metric, const Shape& output) {
  const std::string subject = "metric '" + metric.name + "'";
  for (const ConfigField<Metric>& field : ClassOf(metric).fields) {
    RINGLET_RETURN_IF_ERROR(CheckField(field, &metric, subject.c_str()));
  }
  const int64_t labels = metric.multi_label ? output.back() : 1;
  if (labels * metric.num_thresholds <= kMaxStates &&
      metric.num_classes <= kMaxStates) {
    return Status();
  }
  return InvalidArgument(
      "metric '%s': more than %d thresholds or classes; each has sums that are "
      "sent in every step",
      metric.name.c_str(), kMaxStates);
}

}  // namespace

Status ResolveMetric(const Metric& metric, const Loss& loss,
                     const Shape& output, Metric* resolved) {
  *resolved = metric;
  if (metric.kind == Metric::Kind::kCustom) {
    return ResolveCustom(loss, output, resolved);
  }
  if (metric.kind == Metric::Kind::kAccuracy) {
    resolved->kind = loss.takes_classes()
                         ? Metric::Kind::kSparseCategoricalAccuracy
                     : output.back() == 1 ? Metric::Kind::kBinaryAccuracy
                                          : Metric::Kind::kCategoricalAccuracy;
  }
  if (ClassOf(*resolved).targets == MetricTargets::kOfLoss) {
    resolved->sparse_targets = loss.takes_classes();
    resolved->ignore_class = loss.ignore_class;
  }
  RINGLET_RETURN_IF_ERROR(CheckTargets(*resolved, loss, output));
  RINGLET_RETURN_IF_ERROR(CheckIgnored(*resolved, loss, output));
  RINGLET_RETURN_IF_ERROR(CheckFields(*resolved, output));
  const MetricClass& c = ClassOf(*resolved);
  return c.check == nullptr ? Status() : c.check(*resolved, output);
}

Status UpdateMetric(const Metric& metric, const Shape& output, int64_t count,
                    const float* predictions, const void* targets,
                    MetricState* states, const ExampleWeights& weights) {
  if (count == 0) return Status();
  if (metric.custom != nullptr) {
    return CallUpdate(*metric.custom, output, count, predictions,
                      TargetsFrom(targets, metric.takes_classes, 0), states);
  }
  ClassOf(metric).update(
      metric,
      {output, count, predictions, targets, weights, metric.sparse_targets},
      states);
  return Status();
}

Metric& Metric::Name(std::string n) {
  name = std::move(n);
  return *this;
}

Metric& Metric::Weighted() {
  weighted = true;
  return *this;
}

Metric& Metric::FromLogits() {
  from_logits = true;
  return *this;
}

Metric& Metric::TopK(int n) {
  top_k = n;
  return *this;
}

Metric& Metric::ClassId(int id) {
  class_id = id;
  return *this;
}

Metric& Metric::MultiLabel() {
  multi_label = true;
  return *this;
}

Metric& Metric::IgnoreClass(int number) {
  ignore_class = number;
  return *this;
}

}  // namespace ringlet
