// An argument of Keras that ringlet has with one value is an OnlyField, so
// JSON of Keras is read, and another value is refused by its name. The order
// of the rows is the order of docs/reference.md. A state of a metric is a
// number that ranks add up, so a formula may use only what sums over examples
// give.

#include "metric_table.h"

#include <iterator>
#include <utility>

#include "../base/check.h"
#include "../base/text.h"

namespace ringlet {
namespace {

using MetricField = ConfigField<Metric>;
constexpr FieldType kOnlyNull = FieldType::kOnlyNull,
                    kOnlyFalse = FieldType::kOnlyFalse,
                    kOnlyNumber = FieldType::kOnlyNumber;
constexpr FieldForm kOrNull = FieldForm::kOrNull,
                    kRequired = FieldForm::kRequired;

constexpr MetricField kFromLogits =
    BoolField<&Metric::from_logits>("from_logits");
constexpr MetricField kLastAxis = OnlyField<Metric>("axis", kOnlyNumber, -1);
constexpr MetricField kIgnoredClass =
    ClassField<&Metric::ignore_class>("ignore_class");
constexpr MetricField kThresholdFields[] = {
    FloatField<&Metric::threshold>("threshold", kAnyNumber)};
constexpr MetricField kKFields[] = {IntField<&Metric::k>("k", 1)};
constexpr MetricField kBinaryFields[] = {
    kFromLogits,
    FloatField<&Metric::label_smoothing>("label_smoothing", kFraction)};
constexpr MetricField kCategoricalFields[] = {
    kFromLogits,
    FloatField<&Metric::label_smoothing>("label_smoothing", kFraction),
    kLastAxis};
constexpr MetricField kSparseCrossentropyFields[] = {kFromLogits, kLastAxis,
                                                     kIgnoredClass};
constexpr MetricField kAxisFields[] = {kLastAxis};
// ringlet's own; Keras has class_id only for Precision and Recall.
constexpr MetricField kOwnClassId =
    IntField<&Metric::class_id>("class_id", 0, FieldForm::kOfRinglet);
constexpr MetricField kAucFields[] = {
    IntField<&Metric::num_thresholds>("num_thresholds", 2),
    WordField<&Metric::curve>("curve", "ROC PR"),
    WordField<&Metric::summation>("summation_method",
                                  "interpolation minoring majoring"),
    BoolField<&Metric::multi_label>("multi_label"),
    IntField<&Metric::num_labels>("num_labels", 1, kOrNull),
    OnlyField<Metric>("label_weights", kOnlyNull),
    OnlyField<Metric>("thresholds", kOnlyNull),
    kFromLogits,
    kOwnClassId};
constexpr MetricField kPrecisionFields[] = {
    FloatField<&Metric::threshold>("thresholds", kFraction, kOrNull),
    IntField<&Metric::top_k>("top_k", 1, kOrNull),
    IntField<&Metric::class_id>("class_id", 0, kOrNull)};
constexpr MetricField kCountFields[] = {
    FloatField<&Metric::threshold>("thresholds", kFraction, kOrNull)};
constexpr MetricField kAverage = WordField<&Metric::average>(
    "average", "micro macro weighted", Metric::kEachClass);
constexpr MetricField kF1Fields[] = {
    kAverage,
    FloatField<&Metric::threshold>("threshold", kNotNegative, kOrNull),
    kOwnClassId};
constexpr MetricField kFBetaFields[] = {
    kAverage, FloatField<&Metric::beta>("beta", kPositive),
    FloatField<&Metric::threshold>("threshold", kNotNegative, kOrNull),
    kOwnClassId};
constexpr MetricField kMeanIoUFields[] = {
    IntField<&Metric::num_classes>("num_classes", 2, kRequired), kIgnoredClass,
    BoolField<&Metric::sparse_targets>("sparse_y_true"),
    OnlyField<Metric>("sparse_y_pred", kOnlyFalse), kLastAxis};
constexpr MetricField kOneHotMeanIoUFields[] = {
    IntField<&Metric::num_classes>("num_classes", 2, kRequired), kIgnoredClass,
    OnlyField<Metric>("sparse_y_pred", kOnlyFalse), kLastAxis};
constexpr MetricField kR2Fields[] = {
    WordField<&Metric::aggregation>(
        "class_aggregation", "uniform_average variance_weighted_average"),
    OnlyField<Metric>("num_regressors", kOnlyNumber)};

constexpr MetricTargets kValues = MetricTargets::kValues,
                        kClasses = MetricTargets::kClasses,
                        kOfLoss = MetricTargets::kOfLoss;
constexpr bool kHigherIsBetter = false,
               kLowerIsBetter = true;  // values of `lower_is_better`

template <Loss::Kind kind>
void MeanLoss(const Metric& metric, const MetricBatch& batch,
              MetricState* state) {
  UpdateMeanLoss(kind, metric, batch, state);
}

constexpr MetricClass Row(const char* name, const char* aliases,
                          const char* object_name, MetricTargets targets,
                          bool lower_is_better, FieldTable<Metric> fields,
                          MetricUpdate* update, MetricCount* states = nullptr,
                          MetricValue* result = nullptr,
                          MetricCheck* check = nullptr) {
  return {name,   aliases, object_name, targets, lower_is_better,
          fields, update,  states,      result,  check};
}

constexpr MetricClass kMetrics[] = {
    // Resolved with the model. Keras has no class for it.
    Row("ringlet>Accuracy", "accuracy acc", "accuracy", kValues,
        kHigherIsBetter, {}, nullptr),
    Row("BinaryAccuracy", "binary_accuracy", "binary_accuracy", kValues,
        kHigherIsBetter, kThresholdFields, UpdateBinaryAccuracy),
    Row("CategoricalAccuracy", "categorical_accuracy", "categorical_accuracy",
        kValues, kHigherIsBetter, {}, UpdateCategoricalAccuracy),
    Row("SparseCategoricalAccuracy", "sparse_categorical_accuracy",
        "sparse_categorical_accuracy", kClasses, kHigherIsBetter, {},
        UpdateSparseAccuracy),
    Row("TopKCategoricalAccuracy", "top_k_categorical_accuracy",
        "top_k_categorical_accuracy", kValues, kHigherIsBetter, kKFields,
        UpdateTopK),
    Row("SparseTopKCategoricalAccuracy", "sparse_top_k_categorical_accuracy",
        "sparse_top_k_categorical_accuracy", kClasses, kHigherIsBetter,
        kKFields, UpdateSparseTopK),
    Row("MeanSquaredError", "mean_squared_error mse MSE", "mean_squared_error",
        kValues, kLowerIsBetter, {}, MeanLoss<Loss::Kind::kMeanSquaredError>),
    Row("MeanAbsoluteError", "mean_absolute_error mae MAE",
        "mean_absolute_error", kValues, kLowerIsBetter, {},
        MeanLoss<Loss::Kind::kMeanAbsoluteError>),
    Row("MeanAbsolutePercentageError",
        "mean_absolute_percentage_error mape MAPE",
        "mean_absolute_percentage_error", kValues, kLowerIsBetter, {},
        MeanLoss<Loss::Kind::kMeanAbsolutePercentageError>),
    Row("MeanSquaredLogarithmicError",
        "mean_squared_logarithmic_error msle MSLE",
        "mean_squared_logarithmic_error", kValues, kLowerIsBetter, {},
        MeanLoss<Loss::Kind::kMeanSquaredLogarithmicError>),
    Row("RootMeanSquaredError", "root_mean_squared_error",
        "root_mean_squared_error", kValues, kLowerIsBetter, {},
        MeanLoss<Loss::Kind::kMeanSquaredError>, nullptr, RootOfMean),
    Row("LogCoshError", "log_cosh_error logcosh", "logcosh", kValues,
        kLowerIsBetter, {}, MeanLoss<Loss::Kind::kLogCosh>),
    Row("CosineSimilarity", "cosine_similarity", "cosine_similarity", kValues,
        kHigherIsBetter, kAxisFields, UpdateCosine),
    Row("R2Score", "r2_score", "r2_score", kValues, kHigherIsBetter, kR2Fields,
        UpdateR2, TwoStatesPerOutput, R2Of, CheckOneRow),
    Row("BinaryCrossentropy", "binary_crossentropy bce BCE",
        "binary_crossentropy", kValues, kLowerIsBetter, kBinaryFields,
        MeanLoss<Loss::Kind::kBinaryCrossentropy>),
    Row("CategoricalCrossentropy", "categorical_crossentropy",
        "categorical_crossentropy", kValues, kLowerIsBetter, kCategoricalFields,
        MeanLoss<Loss::Kind::kCategoricalCrossentropy>),
    Row("SparseCategoricalCrossentropy", "sparse_categorical_crossentropy",
        "sparse_categorical_crossentropy", kClasses, kLowerIsBetter,
        kSparseCrossentropyFields,
        MeanLoss<Loss::Kind::kSparseCategoricalCrossentropy>),
    Row("KLDivergence", "kl_divergence kld KLD kullback_leibler_divergence",
        "kl_divergence", kValues, kLowerIsBetter, {},
        MeanLoss<Loss::Kind::kKLDivergence>),
    Row("Poisson", "poisson", "poisson", kValues, kLowerIsBetter, {},
        MeanLoss<Loss::Kind::kPoisson>),
    Row("Hinge", "hinge", "hinge", kValues, kLowerIsBetter, {},
        MeanLoss<Loss::Kind::kHinge>),
    Row("SquaredHinge", "squared_hinge", "squared_hinge", kValues,
        kLowerIsBetter, {}, MeanLoss<Loss::Kind::kSquaredHinge>),
    Row("CategoricalHinge", "categorical_hinge", "categorical_hinge", kValues,
        kLowerIsBetter, {}, MeanLoss<Loss::Kind::kCategoricalHinge>),
    Row("AUC", "auc", "auc", kOfLoss, kHigherIsBetter, kAucFields, UpdateAuc,
        AucStates, AreaUnderCurve, CheckAuc),
    Row("Precision", "precision", "precision", kOfLoss, kHigherIsBetter,
        kPrecisionFields, UpdatePrecision, nullptr, nullptr, CheckClassId),
    Row("Recall", "recall", "recall", kOfLoss, kHigherIsBetter,
        kPrecisionFields, UpdateRecall, nullptr, nullptr, CheckClassId),
    Row("TruePositives", "true_positives", "true_positives", kOfLoss,
        kHigherIsBetter, kCountFields, UpdateTruePositives, nullptr, TotalOf),
    Row("TrueNegatives", "true_negatives", "true_negatives", kOfLoss,
        kHigherIsBetter, kCountFields, UpdateTrueNegatives, nullptr, TotalOf),
    Row("FalsePositives", "false_positives", "false_positives", kOfLoss,
        kLowerIsBetter, kCountFields, UpdateFalsePositives, nullptr, TotalOf),
    Row("FalseNegatives", "false_negatives", "false_negatives", kOfLoss,
        kLowerIsBetter, kCountFields, UpdateFalseNegatives, nullptr, TotalOf),
    Row("F1Score", "f1_score", "f1_score", kOfLoss, kHigherIsBetter, kF1Fields,
        UpdateFScore, FScoreStates, FScoreOf, CheckFScore),
    Row("FBetaScore", "f_beta_score fbeta_score", "fbeta_score", kOfLoss,
        kHigherIsBetter, kFBetaFields, UpdateFScore, FScoreStates, FScoreOf,
        CheckFScore),
    Row("MeanIoU", "mean_io_u mean_iou", "mean_io_u",
        MetricTargets::kBySparseTargets, kHigherIsBetter, kMeanIoUFields,
        UpdateMeanIoU, TwoStatesPerClass, MeanIoUOf, CheckNumClasses),
    Row("OneHotMeanIoU", "one_hot_mean_io_u", "one_hot_mean_io_u", kValues,
        kHigherIsBetter, kOneHotMeanIoUFields, UpdateMeanIoU, TwoStatesPerClass,
        MeanIoUOf, CheckNumClasses),
};
static_assert(std::size(kMetrics) ==
              static_cast<size_t>(Metric::Kind::kCustom));

Metric WithThreshold(Metric::Kind kind, float threshold) {
  Metric metric = MetricOf(kind);
  metric.threshold = threshold;
  return metric;
}

}  // namespace

MetricTable AllMetrics() { return {kMetrics, std::size(kMetrics)}; }

const MetricClass& ClassOf(const Metric& metric) {
  const auto row = static_cast<size_t>(metric.kind);
  RINGLET_CHECK(row < std::size(kMetrics));
  return kMetrics[row];
}

Metric MetricOf(Metric::Kind kind) {
  Metric metric;
  metric.kind = kind;
  if (kind == Metric::Kind::kCustom) return metric;
  metric.name = ClassOf(metric).object_name;
  for (const MetricField& field : ClassOf(metric).fields) {
    if (!field.or_null()) continue;
    if (field.type == FieldType::kFloat) field.In<float>(&metric) = -1;
    if (field.type == FieldType::kWord) {
      field.In<uint8_t>(&metric) = static_cast<uint8_t>(field.null_word);
    }
  }
  metric.sparse_targets = kind == Metric::Kind::kMeanIoU;
  return metric;
}

Metric Accuracy() { return Metric(); }
Metric BinaryAccuracy(float threshold) {
  return WithThreshold(Metric::Kind::kBinaryAccuracy, threshold);
}
Metric CategoricalAccuracy() {
  return MetricOf(Metric::Kind::kCategoricalAccuracy);
}
Metric SparseCategoricalAccuracy() {
  return MetricOf(Metric::Kind::kSparseCategoricalAccuracy);
}
Metric TopKCategoricalAccuracy(int k) {
  Metric metric = MetricOf(Metric::Kind::kTopKCategoricalAccuracy);
  metric.k = k;
  return metric;
}
Metric SparseTopKCategoricalAccuracy(int k) {
  Metric metric = MetricOf(Metric::Kind::kSparseTopKCategoricalAccuracy);
  metric.k = k;
  return metric;
}
Metric MeanSquaredErrorMetric() {
  return MetricOf(Metric::Kind::kMeanSquaredError);
}
Metric MeanAbsoluteErrorMetric() {
  return MetricOf(Metric::Kind::kMeanAbsoluteError);
}
Metric RootMeanSquaredError() {
  return MetricOf(Metric::Kind::kRootMeanSquaredError);
}
Metric R2Score(Metric::Aggregation class_aggregation) {
  Metric metric = MetricOf(Metric::Kind::kR2Score);
  metric.aggregation = class_aggregation;
  return metric;
}
Metric AUC(int num_thresholds, Metric::Curve curve,
           Metric::Summation summation_method) {
  Metric metric = MetricOf(Metric::Kind::kAUC);
  metric.num_thresholds = num_thresholds;
  metric.curve = curve;
  metric.summation = summation_method;
  return metric;
}
Metric Precision(float threshold) {
  return WithThreshold(Metric::Kind::kPrecision, threshold);
}
Metric Recall(float threshold) {
  return WithThreshold(Metric::Kind::kRecall, threshold);
}
Metric TruePositives(float threshold) {
  return WithThreshold(Metric::Kind::kTruePositives, threshold);
}
Metric TrueNegatives(float threshold) {
  return WithThreshold(Metric::Kind::kTrueNegatives, threshold);
}
Metric FalsePositives(float threshold) {
  return WithThreshold(Metric::Kind::kFalsePositives, threshold);
}
Metric FalseNegatives(float threshold) {
  return WithThreshold(Metric::Kind::kFalseNegatives, threshold);
}
Metric F1Score(Metric::Average average, float threshold) {
  Metric metric = WithThreshold(Metric::Kind::kF1Score, threshold);
  metric.average = average;
  return metric;
}
Metric FBetaScore(Metric::Average average, float beta, float threshold) {
  Metric metric = WithThreshold(Metric::Kind::kFBetaScore, threshold);
  metric.average = average;
  metric.beta = beta;
  return metric;
}
Metric MeanIoU(int num_classes, bool sparse_y_true) {
  Metric metric = MetricOf(Metric::Kind::kMeanIoU);
  metric.num_classes = num_classes;
  metric.sparse_targets = sparse_y_true;
  return metric;
}
Metric OneHotMeanIoU(int num_classes) {
  Metric metric = MetricOf(Metric::Kind::kOneHotMeanIoU);
  metric.num_classes = num_classes;
  return metric;
}

Metric Custom(std::shared_ptr<const CustomMetric> custom) {
  Metric metric = MetricOf(Metric::Kind::kCustom);
  metric.name =
      custom != nullptr ? SnakeCase(custom->class_name()) : "custom_metric";
  metric.custom = std::move(custom);
  return metric;
}

bool Metric::lower_is_better() const {
  if (kind == Kind::kCustom) {
    return custom != nullptr && custom->lower_is_better();
  }
  return ClassOf(*this).lower_is_better;
}

}  // namespace ringlet
