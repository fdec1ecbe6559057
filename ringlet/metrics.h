// Metrics: values that training reports; they do not change it.
//
// Names and rules come from Keras 3's metrics. A Metric is a plain value; its
// running state is a list of sums, which can be added over steps and workers.
// Predictions and targets have the layout of losses.h.

#ifndef RINGLET_METRICS_H_
#define RINGLET_METRICS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "losses.h"
#include "shape.h"
#include "status.h"

namespace ringlet {

class Collective;
class CustomMetric;

struct Metric {
  enum class Kind : uint8_t {
    kAccuracy,  // Compile replaces it by one of the next three
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
  enum Curve : uint8_t { kROC, kPrecisionRecall };
  enum Summation : uint8_t { kInterpolation, kMinoring, kMajoring };
  // With kEachClass, Keras's null, the logs have a value for each class.
  enum Average : uint8_t { kMicro, kMacro, kWeighted, kEachClass };
  enum Aggregation : uint8_t { kUniformAverage, kVarianceWeightedAverage };

  Kind kind = Kind::kAccuracy;
  std::string name = "accuracy";
  bool weighted = false;   // in weighted_metrics
  float threshold = 0.5f;  // larger predictions count as 1; negative if not set
  int k = 5;               // the number of top predictions
  int top_k = 0;           // Precision, Recall; zero if not set
  // The class of Precision, Recall, AUC and the F scores; negative means all.
  int class_id = -1;
  int num_thresholds = 200;  // AUC, also for the next two
  Curve curve = kROC;
  Summation summation = kInterpolation;
  bool multi_label = false;  // AUC: the mean of the classes' areas
  int num_labels = 0;        // for multi_label; zero means the output's number
  bool from_logits = false;  // AUC and the crossentropies
  float label_smoothing = 0;
  Average average = kMacro;  // F1Score, FBetaScore
  float beta = 1;            // FBetaScore
  int num_classes = 0;       // MeanIoU, OneHotMeanIoU
  // True if targets are class numbers. An argument of MeanIoU; for other
  // metrics Compile sets it.
  bool sparse_targets = false;
  // Rows of this class add nothing; SparseCategoricalCrossentropy counts them
  // as 0 without weights, as in Keras. If Compile sets sparse_targets, it also
  // sets ignore_class to the ignore_class of the loss.
  std::optional<int> ignore_class;
  Aggregation aggregation = kUniformAverage;  // R2Score
  std::shared_ptr<const CustomMetric> custom;
  bool takes_classes = false;  // kCustom, once the model is compiled

  Metric& Name(std::string n);
  // Weights each example, or row, as Keras's weighted_metrics.
  Metric& Weighted();
  Metric& FromLogits();
  Metric& TopK(int n);
  Metric& ClassId(int id);
  Metric& MultiLabel();
  Metric& IgnoreClass(int number);
  bool lower_is_better() const;
};

// Any Keras metric by its class, with its defaults.
Metric MetricOf(Metric::Kind kind);

// Becomes the binary, categorical or sparse accuracy, by the output and the
// targets.
Metric Accuracy();
Metric BinaryAccuracy(float threshold = 0.5f);
Metric CategoricalAccuracy();
Metric SparseCategoricalAccuracy();
// The fraction of rows with their class among the k largest predictions.
Metric TopKCategoricalAccuracy(int k = 5);
Metric SparseTopKCategoricalAccuracy(int k = 5);
Metric MeanSquaredErrorMetric();   // "mean_squared_error"
Metric MeanAbsoluteErrorMetric();  // "mean_absolute_error"
Metric RootMeanSquaredError();
Metric R2Score(Metric::Aggregation class_aggregation = Metric::kUniformAverage);
// The area under the curve, from counts at even thresholds. Predictions are in
// [0, 1], or logits. All classes count together without ClassId or MultiLabel.
Metric AUC(int num_thresholds = 200, Metric::Curve curve = Metric::kROC,
           Metric::Summation summation_method = Metric::kInterpolation);
// Precision is the fraction of predicted positives that are actual positives.
// Recall is the fraction of actual positives that are predicted. With top_k and
// no threshold, the k largest predictions count as positive.
Metric Precision(float threshold = -1);
Metric Recall(float threshold = -1);
// Counts, not fractions.
Metric TruePositives(float threshold = -1);
Metric TrueNegatives(float threshold = -1);
Metric FalsePositives(float threshold = -1);
Metric FalseNegatives(float threshold = -1);
// Without a threshold a row's largest prediction is its class. kEachClass gives
// "f1_score_0", "f1_score_1" and so on.
Metric F1Score(Metric::Average average = Metric::kEachClass,
               float threshold = -1);
Metric FBetaScore(Metric::Average average = Metric::kEachClass, float beta = 1,
                  float threshold = -1);
// The predicted class is the largest prediction (sparse_y_pred is false).
Metric MeanIoU(int num_classes, bool sparse_y_true = true);
Metric OneHotMeanIoU(int num_classes);

// Most metrics have one state and the value total / count, or 0.
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

// Adds the states of a step (Model::step_metrics or rank_metrics) to *running.
void AddMetrics(const MetricState* step, std::vector<MetricState>* running);
// The sums over all ranks, in their order. Every rank calls it.
Status SumOverRanks(Collective* collective, std::vector<MetricState>* states);

// Adds `count` examples. Only a custom metric can fail.
Status UpdateMetric(const Metric& metric, const Shape& output, int64_t count,
                    const float* predictions, const void* targets,
                    MetricState* states, const ExampleWeights& weights = {});

// A subclass of Keras's Metric, with the value total / count, both sums over
// examples. samples/custom_parts.cc has one.
//
//   model.Compile(Adam(), MeanSquaredError(),
//                 {Custom(std::make_shared<MyMetric>())});
//
// Update may throw: what() is then the error of the step. The other methods
// must not throw.
class CustomMetric {
 public:
  virtual ~CustomMetric() = default;

  // Keras's class name, "WithinOne"; without a Name the logs have "within_one".
  virtual const char* class_name() const = 0;
  // The metric's options in one line, if they change numbers. Workers compare
  // this line.
  virtual std::string Describe() const { return ""; }
  virtual bool lower_is_better() const { return false; }
  // Accepts, or refuses, an output (of one example) and targets.
  virtual Status Check(const Loss& /*loss*/, const Shape& /*output*/) const {
    return Status();
  }

  // Adds `count` examples to the state, once in a step on one thread.
  virtual void Update(const Shape& output, int64_t count,
                      const float* predictions, const Targets& targets,
                      MetricState* state) const = 0;
};

Metric Custom(std::shared_ptr<const CustomMetric> metric);

}  // namespace ringlet

#endif  // RINGLET_METRICS_H_
