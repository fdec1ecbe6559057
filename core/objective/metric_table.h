// The table of metrics: one row for each class, with all facts about it.
//
// To add a metric, add its Kind, its factory and its members to metrics.h, and
// its row to metric_table.cc. Its formula belongs to metrics.cc (a mean over
// rows) or confusion_metrics.cc (counts of right and wrong predictions, areas,
// R2). JSON in both directions, docs/reference.md, the fingerprint that ranks
// compare and the checks of its settings follow from the row.

#ifndef RINGLET_CORE_OBJECTIVE_METRIC_TABLE_H_
#define RINGLET_CORE_OBJECTIVE_METRIC_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "config_field.h"
#include "ringlet/losses.h"
#include "ringlet/metrics.h"

namespace ringlet {

// Consecutive examples, with the model's output for each (losses.h explains
// rows).
struct MetricBatch {
  const Shape& output;
  int64_t count;
  const float* predictions;
  const void* targets;
  ExampleWeights weights;
  bool classes = false;  // targets are class numbers, which mean one-hot

  int64_t width() const { return output.back(); }
  int64_t rows() const { return count * RowsOf(output); }
  const float* predictions_of(int64_t row) const {
    return predictions + row * width();
  }
  const float* targets_of(int64_t row) const {
    return static_cast<const float*>(targets) + row * width();
  }
  int32_t label(int64_t row) const {
    return static_cast<const int32_t*>(targets)[row];
  }
  bool is_ignored(const Metric& metric, int64_t row) const {
    return classes && label(row) == metric.ignore_class;
  }
  float target(int64_t row, int64_t j) const {
    return !classes ? targets_of(row)[j] : label(row) == j ? 1.0f : 0.0f;
  }
  double weight(int64_t row) const {
    return double{weights.At(row, RowsOf(output))};
  }
};

// The targets that a metric takes.
enum class MetricTargets : uint8_t {
  kValues,           // a float for each prediction
  kClasses,          // a class number for each row
  kBySparseTargets,  // Metric::sparse_targets decides
  kOfLoss,           // the loss's targets; a class number means one-hot
};

struct MetricClass {
  const char* name;         // Keras's class name, which is written
  const char* aliases;      // other names, separated by spaces
  const char* object_name;  // the Keras name of an object: "mean_io_u"
  MetricTargets targets;
  bool lower_is_better;  // a smaller value is better
  FieldTable<Metric> fields;
  void (*update)(const Metric&, const MetricBatch&, MetricState*);
  // Null if the metric has one state with the value MetricState::Result().
  int64_t (*states)(const Metric&, const Shape& output);
  double (*result)(const Metric&, const MetricState*, int64_t states);
  // Null if there is nothing to check.
  Status (*check)(const Metric&, const Shape& output);
};

// The rows, in the order of Metric::Kind without kCustom. The first row is of
// kAccuracy, which has no formula: ResolveMetric replaces it.
struct MetricTable {
  const MetricClass* begin() const { return first; }
  const MetricClass* end() const { return first + count; }
  const MetricClass* first;
  size_t count;
};
MetricTable AllMetrics();
// The metric's row. A custom metric has none.
const MetricClass& ClassOf(const Metric& metric);

using MetricUpdate = void(const Metric&, const MetricBatch&, MetricState*);
using MetricValue = double(const Metric&, const MetricState*, int64_t);
using MetricCheck = Status(const Metric&, const Shape&);
using MetricCount = int64_t(const Metric&, const Shape&);

MetricUpdate UpdateBinaryAccuracy, UpdateCategoricalAccuracy,
    UpdateSparseAccuracy, UpdateTopK, UpdateSparseTopK, UpdateCosine, UpdateAuc,
    UpdatePrecision, UpdateRecall, UpdateTruePositives, UpdateTrueNegatives,
    UpdateFalsePositives, UpdateFalseNegatives, UpdateFScore, UpdateMeanIoU,
    UpdateR2;
// A metric that is the mean of a loss, with the metric's settings of the loss.
void UpdateMeanLoss(Loss::Kind kind, const Metric& metric,
                    const MetricBatch& batch, MetricState* state);
MetricValue RootOfMean, AreaUnderCurve, TotalOf, FScoreOf, MeanIoUOf, R2Of;
MetricCount AucStates, FScoreStates, TwoStatesPerClass, TwoStatesPerOutput;
MetricCheck CheckAuc, CheckClassId, CheckFScore, CheckOneRow, CheckNumClasses;

}  // namespace ringlet

#endif  // RINGLET_CORE_OBJECTIVE_METRIC_TABLE_H_
