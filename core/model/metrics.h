// Metrics: what is told of training, and never changes it.
//
// Public. Names and rules are those of Keras 3's metrics. A Metric is a plain
// value; its running state is a total and a count, so that workers' states add
// up. Predictions and targets are laid out as in losses.h.

#ifndef RINGLET_CORE_MODEL_METRICS_H_
#define RINGLET_CORE_MODEL_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../base/shape.h"
#include "../base/status.h"
#include "losses.h"

namespace ringlet {

class Collective;
class CustomMetric;

struct Metric {
  enum class Kind : uint8_t {
    kAccuracy,  // becomes one of the next three when the model is compiled
    kBinaryAccuracy,
    kCategoricalAccuracy,
    kSparseCategoricalAccuracy,
    kSparseTopKCategoricalAccuracy,
    kMeanSquaredError,
    kMeanAbsoluteError,
    kCustom,
  };

  Kind kind = Kind::kAccuracy;
  std::string name = "accuracy";
  float threshold = 0.5f;  // kBinaryAccuracy: a prediction above it is a 1
  int k = 5;               // kSparseTopKCategoricalAccuracy
  std::shared_ptr<const CustomMetric> custom;  // see custom_metric.h
  bool takes_classes = false;  // kCustom, once the model is compiled

  Metric& Name(std::string n) {
    name = std::move(n);
    return *this;
  }
  // A smaller value is better.
  bool decreases() const;
};

// Binary, categorical or sparse categorical, by the output and the targets.
Metric Accuracy();
Metric BinaryAccuracy(float threshold = 0.5f);
Metric CategoricalAccuracy();
Metric SparseCategoricalAccuracy();
// The share of rows whose class is among the k largest predictions.
Metric SparseTopKCategoricalAccuracy(int k = 5);
Metric MeanSquaredErrorMetric();   // "mean_squared_error"
Metric MeanAbsoluteErrorMetric();  // "mean_absolute_error"

// total / count; 0 where nothing was counted. Also the Mean metric itself.
struct MetricState {
  double total = 0;
  double count = 0;
  double Result() const { return count == 0 ? 0 : total / count; }
  void Update(double value, double weight = 1) {
    total += value * weight;
    count += weight;
  }
  MetricState& operator+=(const MetricState& other) {
    total += other.total;
    count += other.count;
    return *this;
  }
};
using Mean = MetricState;

// Adds a step's states (Model::step_metrics, Model::rank_metrics) to running
// ones, as many as there are of these.
void AddMetrics(const MetricState* step, std::vector<MetricState>* running);
// The states become their sums over all ranks, added in the order of the ranks.
// Every rank calls it.
Status SumOverRanks(Collective* collective, std::vector<MetricState>* states);

// The metric as it is for a model with such a loss and output; an error where
// the loss's targets do not fit it.
Status ResolveMetric(const Metric& metric, const Loss& loss,
                     const Shape& output, Metric* resolved);

// Adds `count` examples to the state. An error is a custom metric's.
Status UpdateMetric(const Metric& metric, const Shape& output, int64_t count,
                    const float* predictions, const void* targets,
                    MetricState* state);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_METRICS_H_
