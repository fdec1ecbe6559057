// The table of metrics: one row for each class, with all facts about it.
//
// To add a metric, add its Kind, its factory and its members to metrics.h, and
// its row to metric_table.cc. Its formula belongs to metrics.cc (a mean over
// rows) or confusion_metrics.cc (more than two sums). JSON in both directions,
// docs/reference.md, the fingerprint that ranks compare and the checks of its
// settings follow from the row.

#ifndef RINGLET_CORE_OBJECTIVE_METRIC_TABLE_H_
#define RINGLET_CORE_OBJECTIVE_METRIC_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>

#include "../base/interval.h"
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
  const float* p(int64_t row) const { return predictions + row * width(); }
  const float* t(int64_t row) const {
    return static_cast<const float*>(targets) + row * width();
  }
  int32_t label(int64_t row) const {
    return static_cast<const int32_t*>(targets)[row];
  }
  bool is_ignored(const Metric& metric, int64_t row) const {
    return classes && label(row) == metric.ignore_class;
  }
  float target(int64_t row, int64_t j) const {
    return !classes ? t(row)[j] : label(row) == j ? 1.0f : 0.0f;
  }
  double weight(int64_t row) const {
    return double{weights.At(row, RowsOf(output))};
  }
};

// A whole number from `low` to 2^31 - 1. If `optional`, a smaller value means
// null.
struct MetricInt {
  int Metric::*value;
  int low;
  bool optional = false;
};
// A float. If `optional`, a value below 0 means null, and a list of one number
// is that number.
struct MetricFloat {
  float Metric::*value;
  Interval range;
  bool optional = false;
};
// One of the words in `words`, which are separated by blanks. The member, an
// enum, has the word's index. If `null` is 0 or more, this value means null in
// JSON, and null is the default.
struct MetricWord {
  int (*get)(const Metric&);
  void (*set)(int index, Metric*);
  const char* words;
  int null;
};
template <auto member>
constexpr MetricWord WordOf(const char* words, int null = -1) {
  using Word = std::decay_t<decltype(Metric().*member)>;
  return {[](const Metric& metric) { return static_cast<int>(metric.*member); },
          [](int index, Metric* metric) {
            metric->*member = static_cast<Word>(index);
          },
          words, null};
}
// A field of Keras for which only one value is accepted.
struct OnlyValue {
  enum class Kind : uint8_t { kNull, kFalse, kMinusOne, kZero } kind;
};
struct MetricField {
  const char* name;  // the name in Keras
  std::variant<MetricInt, MetricFloat, MetricWord, bool Metric::*,
               std::optional<int> Metric::*, OnlyValue>
      value;
  bool required = false;
  // False for a field that Keras does not have, which must be a MetricInt. It
  // is written only if it is set.
  bool keras_has = true;
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
  bool lower_is_better;       // a smaller value is better
  const MetricField* fields;  // the fields, in the order of writing
  size_t num_fields;
  void (*update)(const Metric&, const MetricBatch&, MetricState*);
  // Null if the metric has one state with the value MetricState::Result().
  int64_t (*states)(const Metric&, const Shape& output);
  double (*result)(const Metric&, const MetricState*, int64_t states);
  // Null if there is nothing to check.
  Status (*check)(const Metric&, const Shape& output);

  const MetricField* begin() const { return fields; }
  const MetricField* end() const { return fields + num_fields; }
};

// The rows, in the order of Metric::Kind without kCustom. The first row is that
// of kAccuracy, which has no formula: ResolveMetric replaces it.
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
    UpdateSparseAccuracy, UpdateTopK, UpdateSparseTopK, UpdateOfLoss,
    UpdateCosine, UpdateAuc, UpdatePrecision, UpdateRecall, UpdateTruePositives,
    UpdateTrueNegatives, UpdateFalsePositives, UpdateFalseNegatives,
    UpdateFScore, UpdateMeanIoU, UpdateR2;
MetricValue RootOfMean, AreaUnderCurve, TotalOf, FScoreOf, MeanIoUOf, R2Of;
MetricCount AucStates, FScoreStates, TwoAClass, TwoAnOutput;
MetricCheck CheckAuc, CheckClassId, CheckFScore, CheckOneRow, CheckNumClasses;

}  // namespace ringlet

#endif  // RINGLET_CORE_OBJECTIVE_METRIC_TABLE_H_
