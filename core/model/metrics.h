// Metrics: what is told of training, and never changes it.
//
// Public. Names and rules are those of Keras 3's metrics. A Metric is a plain
// value; its running state is sums, two in each MetricState, so that those of
// steps and of workers add up. Predictions and targets are laid out as in
// losses.h.

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
    kAccuracy,  // becomes binary, categorical or sparse when the model is
                // compiled
    kBinaryAccuracy,
    kCategoricalAccuracy,
    kSparseCategoricalAccuracy,
    kTopKCategoricalAccuracy,
    kSparseTopKCategoricalAccuracy,
    kMeanSquaredError,
    kMeanAbsoluteError,
    kMeanAbsolutePercentageError,
    kMeanSquaredLogarithmicError,
    kRootMeanSquaredError,
    kLogCoshError,
    kCosineSimilarity,
    kR2Score,
    kBinaryCrossentropy,
    kCategoricalCrossentropy,
    kSparseCategoricalCrossentropy,
    kKLDivergence,
    kPoisson,
    kHinge,
    kSquaredHinge,
    kCategoricalHinge,
    kAUC,
    kPrecision,
    kRecall,
    kTruePositives,
    kTrueNegatives,
    kFalsePositives,
    kFalseNegatives,
    kF1Score,
    kFBetaScore,
    kMeanIoU,
    kOneHotMeanIoU,
    kCustom,  // the last; the others are rows of metric_table.h
  };
  // Numbers of words in metric_table.cc.
  enum Curve : uint8_t { kROC, kPrecisionRecall };
  enum Summation : uint8_t { kInterpolation, kMinoring, kMajoring };
  enum Average : uint8_t { kMicro, kMacro, kWeighted };
  enum Aggregation : uint8_t { kUniformAverage, kVarianceWeightedAverage };

  Kind kind = Kind::kAccuracy;
  std::string name = "accuracy";
  bool weighted = false;   // of weighted_metrics: with the examples' weights
  float threshold = 0.5f;  // a prediction above it is a 1; < 0: none is set
  int k = 5;               // of the top k
  int top_k = 0, class_id = -1;  // Precision, Recall: < 1, < 0: none
  int num_thresholds = 200;      // AUC, as the next two
  uint8_t curve = kROC;          // a Curve
  uint8_t summation = kInterpolation;
  bool from_logits = false;  // AUC and the crossentropies
  float label_smoothing = 0;
  uint8_t average = kMacro;               // F1Score, FBetaScore
  float beta = 1;                         // FBetaScore
  int num_classes = 0;                    // MeanIoU, OneHotMeanIoU
  bool sparse_targets = false;            // MeanIoU: targets are class numbers
  uint8_t aggregation = kUniformAverage;  // R2Score
  std::shared_ptr<const CustomMetric> custom;
  bool takes_classes = false;  // kCustom, once the model is compiled

  Metric& Name(std::string n) {
    name = std::move(n);
    return *this;
  }
  // Each example counts as much as its weight, as Keras's weighted_metrics.
  Metric& Weighted() {
    weighted = true;
    return *this;
  }
  Metric& FromLogits() {
    from_logits = true;
    return *this;
  }
  Metric& TopK(int n) {
    top_k = n;
    return *this;
  }
  Metric& ClassId(int id) {
    class_id = id;
    return *this;
  }
  // A smaller value is better.
  bool decreases() const;
};

// Any of Keras's by its class, with its defaults.
Metric MetricOf(Metric::Kind kind);

// Binary, categorical or sparse categorical, by the output and the targets.
Metric Accuracy();
Metric BinaryAccuracy(float threshold = 0.5f);
Metric CategoricalAccuracy();
Metric SparseCategoricalAccuracy();
// The share of rows whose class is among the k largest predictions.
Metric TopKCategoricalAccuracy(int k = 5);
Metric SparseTopKCategoricalAccuracy(int k = 5);
Metric MeanSquaredErrorMetric();   // "mean_squared_error"
Metric MeanAbsoluteErrorMetric();  // "mean_absolute_error"
Metric RootMeanSquaredError();
Metric R2Score(Metric::Aggregation class_aggregation = Metric::kUniformAverage);
// The area under the curve, of counts at evenly spaced thresholds. Predictions
// are from 0 to 1, or logits.
Metric AUC(int num_thresholds = 200, Metric::Curve curve = Metric::kROC,
           Metric::Summation summation_method = Metric::kInterpolation);
// Of true ones among those taken to be positive, and the other way round; with
// a top_k and no threshold all of the top k are taken to be.
Metric Precision(float threshold = -1);
Metric Recall(float threshold = -1);
// How many, and no share.
Metric TruePositives(float threshold = -1);
Metric TrueNegatives(float threshold = -1);
Metric FalsePositives(float threshold = -1);
Metric FalseNegatives(float threshold = -1);
// Without a threshold the largest prediction of a row is its class.
Metric F1Score(Metric::Average average, float threshold = -1);
Metric FBetaScore(Metric::Average average, float beta = 1,
                  float threshold = -1);
// The classes are those of the largest predictions (sparse_y_pred is false).
Metric MeanIoU(int num_classes, bool sparse_y_true = true);
Metric OneHotMeanIoU(int num_classes);

// Most metrics have one of them, and are total / count; 0 where nothing was
// counted. Others have several (NumStates). Also the Mean metric itself.
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
// ones, as many as there are of these (Model::num_metric_states).
void AddMetrics(const MetricState* step, std::vector<MetricState>* running);
// The states become their sums over all ranks, added in the order of the ranks.
// Every rank calls it.
Status SumOverRanks(Collective* collective, std::vector<MetricState>* states);

// The metric as it is for a model with such a loss and output; an error where
// the loss's targets do not fit it.
Status ResolveMetric(const Metric& metric, const Loss& loss,
                     const Shape& output, Metric* resolved);

// How many states a resolved metric has, one after another, for such an output;
// and its value of so many.
int64_t NumStates(const Metric& metric, const Shape& output);
double MetricResult(const Metric& metric, const MetricState* states,
                    int64_t count);

// Adds `count` examples to the states, each as often as `weights` says, where
// there are weights. An error is a custom metric's.
Status UpdateMetric(const Metric& metric, const Shape& output, int64_t count,
                    const float* predictions, const void* targets,
                    MetricState* states, const float* weights = nullptr);

// A metric of your own, as a subclass of Keras's Metric: total / count, of sums
// over examples, so that those of steps and of workers add up.
// samples/custom_parts.cc has one whole.
//
//   model.Compile(Adam(), MeanSquaredError(),
//                 {Custom(std::make_shared<MyMetric>())});
//
// Update may throw where the program has exceptions: what() becomes the error
// of the step. The other methods must not.
class CustomMetric {
 public:
  virtual ~CustomMetric() = default;

  // Keras's class name, "WithinOne"; in the logs it is "within_one", where the
  // Metric has no other Name.
  virtual const char* class_name() const = 0;
  // Its options in a line, as far as they change numbers: the workers of a job
  // compare them.
  virtual std::string Describe() const { return ""; }
  // A smaller value is better.
  virtual bool decreases() const { return false; }
  // Whether it can be taken of such an output, of one example, and of the
  // targets of such a loss.
  virtual Status Check(const Loss& /*loss*/, const Shape& /*output*/) const {
    return Status();
  }

  // Adds `count` examples, one after another, to the state: what counts, and
  // out of how many. Called once a step, and on one thread.
  virtual void Update(const Shape& output, int64_t count,
                      const float* predictions, const Targets& targets,
                      MetricState* state) const = 0;
};

Metric Custom(std::shared_ptr<const CustomMetric> metric);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_METRICS_H_
