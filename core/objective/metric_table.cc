// An argument of Keras that ringlet has with one value is an OnlyValue, so
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

using Only = OnlyValue::Kind;

constexpr MetricField kThresholdFields[] = {
    {"threshold", MetricFloat{&Metric::threshold, kAnyNumber}}};
constexpr MetricField kKFields[] = {{"k", MetricInt{&Metric::k, 1}}};
constexpr MetricField kBinaryFields[] = {
    {"from_logits", &Metric::from_logits},
    {"label_smoothing", MetricFloat{&Metric::label_smoothing, kFraction}}};
constexpr MetricField kCategoricalFields[] = {
    {"from_logits", &Metric::from_logits},
    {"label_smoothing", MetricFloat{&Metric::label_smoothing, kFraction}},
    {"axis", OnlyValue{Only::kMinusOne}}};
constexpr MetricField kSparseCrossentropyFields[] = {
    {"from_logits", &Metric::from_logits},
    {"axis", OnlyValue{Only::kMinusOne}},
    {"ignore_class", &Metric::ignore_class}};
constexpr MetricField kAxisFields[] = {{"axis", OnlyValue{Only::kMinusOne}}};
// ringlet's own; Keras has class_id only for Precision and Recall.
constexpr MetricField kOwnClassId = {
    "class_id", MetricInt{&Metric::class_id, 0, /*optional=*/true},
    /*required=*/false, /*keras_has=*/false};
constexpr MetricField kAucFields[] = {
    {"num_thresholds", MetricInt{&Metric::num_thresholds, 2}},
    {"curve", WordOf<&Metric::curve>("ROC PR")},
    {"summation_method",
     WordOf<&Metric::summation>("interpolation minoring majoring")},
    {"multi_label", &Metric::multi_label},
    {"num_labels", MetricInt{&Metric::num_labels, 1, /*optional=*/true}},
    {"label_weights", OnlyValue{Only::kNull}},
    {"thresholds", OnlyValue{Only::kNull}},
    {"from_logits", &Metric::from_logits},
    kOwnClassId};
constexpr MetricField kPrecisionFields[] = {
    {"thresholds",
     MetricFloat{&Metric::threshold, kFraction, /*optional=*/true}},
    {"top_k", MetricInt{&Metric::top_k, 1, /*optional=*/true}},
    {"class_id", MetricInt{&Metric::class_id, 0, /*optional=*/true}}};
constexpr MetricField kCountFields[] = {
    {"thresholds",
     MetricFloat{&Metric::threshold, kFraction, /*optional=*/true}}};
constexpr MetricField kAverage = {
    "average",
    WordOf<&Metric::average>("micro macro weighted", Metric::kEachClass)};
constexpr MetricField kF1Fields[] = {
    kAverage,
    {"threshold",
     MetricFloat{&Metric::threshold, kNotNegative, /*optional=*/true}},
    kOwnClassId};
constexpr MetricField kFBetaFields[] = {
    kAverage,
    {"beta", MetricFloat{&Metric::beta, kPositive}},
    {"threshold",
     MetricFloat{&Metric::threshold, kNotNegative, /*optional=*/true}},
    kOwnClassId};
constexpr MetricField kMeanIoUFields[] = {
    {"num_classes", MetricInt{&Metric::num_classes, 2}, /*required=*/true},
    {"ignore_class", &Metric::ignore_class},
    {"sparse_y_true", &Metric::sparse_targets},
    {"sparse_y_pred", OnlyValue{Only::kFalse}},
    {"axis", OnlyValue{Only::kMinusOne}}};
constexpr MetricField kOneHotMeanIoUFields[] = {
    {"num_classes", MetricInt{&Metric::num_classes, 2}, /*required=*/true},
    {"ignore_class", &Metric::ignore_class},
    {"sparse_y_pred", OnlyValue{Only::kFalse}},
    {"axis", OnlyValue{Only::kMinusOne}}};
constexpr MetricField kR2Fields[] = {
    {"class_aggregation",
     WordOf<&Metric::aggregation>("uniform_average variance_weighted_average")},
    {"num_regressors", OnlyValue{Only::kZero}}};

constexpr MetricTargets kValues = MetricTargets::kValues,
                        kClasses = MetricTargets::kClasses,
                        kOfLoss = MetricTargets::kOfLoss;
constexpr bool kMore = false, kLess = true;  // values of `lower_is_better`

struct Fields {
  const MetricField* first = nullptr;
  size_t count = 0;
  constexpr Fields() = default;
  template <size_t n>
  constexpr Fields(const MetricField (&fields)[n])  // NOLINT: implicit
      : first(fields), count(n) {}
};

constexpr MetricClass Row(const char* name, const char* aliases,
                          const char* object_name, MetricTargets targets,
                          bool lower_is_better, Fields fields,
                          MetricUpdate* update, MetricCount* states = nullptr,
                          MetricValue* result = nullptr,
                          MetricCheck* check = nullptr) {
  return {name,         aliases,      object_name, targets, lower_is_better,
          fields.first, fields.count, update,      states,  result,
          check};
}

constexpr MetricClass kMetrics[] = {
    // Resolved with the model. Keras has no class for it.
    Row("ringlet>Accuracy", "accuracy acc", "accuracy", kValues, kMore, {},
        nullptr),
    Row("BinaryAccuracy", "binary_accuracy", "binary_accuracy", kValues, kMore,
        kThresholdFields, UpdateBinaryAccuracy),
    Row("CategoricalAccuracy", "categorical_accuracy", "categorical_accuracy",
        kValues, kMore, {}, UpdateCategoricalAccuracy),
    Row("SparseCategoricalAccuracy", "sparse_categorical_accuracy",
        "sparse_categorical_accuracy", kClasses, kMore, {},
        UpdateSparseAccuracy),
    Row("TopKCategoricalAccuracy", "top_k_categorical_accuracy",
        "top_k_categorical_accuracy", kValues, kMore, kKFields, UpdateTopK),
    Row("SparseTopKCategoricalAccuracy", "sparse_top_k_categorical_accuracy",
        "sparse_top_k_categorical_accuracy", kClasses, kMore, kKFields,
        UpdateSparseTopK),
    Row("MeanSquaredError", "mean_squared_error mse MSE", "mean_squared_error",
        kValues, kLess, {}, UpdateOfLoss),
    Row("MeanAbsoluteError", "mean_absolute_error mae MAE",
        "mean_absolute_error", kValues, kLess, {}, UpdateOfLoss),
    Row("MeanAbsolutePercentageError",
        "mean_absolute_percentage_error mape MAPE",
        "mean_absolute_percentage_error", kValues, kLess, {}, UpdateOfLoss),
    Row("MeanSquaredLogarithmicError",
        "mean_squared_logarithmic_error msle MSLE",
        "mean_squared_logarithmic_error", kValues, kLess, {}, UpdateOfLoss),
    Row("RootMeanSquaredError", "root_mean_squared_error",
        "root_mean_squared_error", kValues, kLess, {}, UpdateOfLoss, nullptr,
        RootOfMean),
    Row("LogCoshError", "log_cosh_error logcosh", "logcosh", kValues, kLess, {},
        UpdateOfLoss),
    Row("CosineSimilarity", "cosine_similarity", "cosine_similarity", kValues,
        kMore, kAxisFields, UpdateCosine),
    Row("R2Score", "r2_score", "r2_score", kValues, kMore, kR2Fields, UpdateR2,
        TwoAnOutput, R2Of, CheckOneRow),
    Row("BinaryCrossentropy", "binary_crossentropy bce BCE",
        "binary_crossentropy", kValues, kLess, kBinaryFields, UpdateOfLoss),
    Row("CategoricalCrossentropy", "categorical_crossentropy",
        "categorical_crossentropy", kValues, kLess, kCategoricalFields,
        UpdateOfLoss),
    Row("SparseCategoricalCrossentropy", "sparse_categorical_crossentropy",
        "sparse_categorical_crossentropy", kClasses, kLess,
        kSparseCrossentropyFields, UpdateOfLoss),
    Row("KLDivergence", "kl_divergence kld KLD kullback_leibler_divergence",
        "kl_divergence", kValues, kLess, {}, UpdateOfLoss),
    Row("Poisson", "poisson", "poisson", kValues, kLess, {}, UpdateOfLoss),
    Row("Hinge", "hinge", "hinge", kValues, kLess, {}, UpdateOfLoss),
    Row("SquaredHinge", "squared_hinge", "squared_hinge", kValues, kLess, {},
        UpdateOfLoss),
    Row("CategoricalHinge", "categorical_hinge", "categorical_hinge", kValues,
        kLess, {}, UpdateOfLoss),
    Row("AUC", "auc", "auc", kOfLoss, kMore, kAucFields, UpdateAuc, AucStates,
        AreaUnderCurve, CheckAuc),
    Row("Precision", "precision", "precision", kOfLoss, kMore, kPrecisionFields,
        UpdatePrecision, nullptr, nullptr, CheckClassId),
    Row("Recall", "recall", "recall", kOfLoss, kMore, kPrecisionFields,
        UpdateRecall, nullptr, nullptr, CheckClassId),
    Row("TruePositives", "true_positives", "true_positives", kOfLoss, kMore,
        kCountFields, UpdateTruePositives, nullptr, TotalOf),
    Row("TrueNegatives", "true_negatives", "true_negatives", kOfLoss, kMore,
        kCountFields, UpdateTrueNegatives, nullptr, TotalOf),
    Row("FalsePositives", "false_positives", "false_positives", kOfLoss, kLess,
        kCountFields, UpdateFalsePositives, nullptr, TotalOf),
    Row("FalseNegatives", "false_negatives", "false_negatives", kOfLoss, kLess,
        kCountFields, UpdateFalseNegatives, nullptr, TotalOf),
    Row("F1Score", "f1_score", "f1_score", kOfLoss, kMore, kF1Fields,
        UpdateFScore, FScoreStates, FScoreOf, CheckFScore),
    Row("FBetaScore", "f_beta_score fbeta_score", "fbeta_score", kOfLoss, kMore,
        kFBetaFields, UpdateFScore, FScoreStates, FScoreOf, CheckFScore),
    Row("MeanIoU", "mean_io_u mean_iou", "mean_io_u",
        MetricTargets::kBySparseTargets, kMore, kMeanIoUFields, UpdateMeanIoU,
        TwoAClass, MeanIoUOf, CheckNumClasses),
    Row("OneHotMeanIoU", "one_hot_mean_io_u", "one_hot_mean_io_u", kValues,
        kMore, kOneHotMeanIoUFields, UpdateMeanIoU, TwoAClass, MeanIoUOf,
        CheckNumClasses),
};
static_assert(std::size(kMetrics) ==
              static_cast<size_t>(Metric::Kind::kCustom));

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
  for (const MetricField& field : ClassOf(metric)) {
    const auto* number = std::get_if<MetricFloat>(&field.value);
    if (number != nullptr && number->optional) metric.*number->value = -1;
    const auto* word = std::get_if<MetricWord>(&field.value);
    if (word != nullptr && word->null >= 0) {
      word->set(word->null, &metric);
    }
  }
  metric.sparse_targets = kind == Metric::Kind::kMeanIoU;
  return metric;
}

namespace {

Metric WithThreshold(Metric::Kind kind, float threshold) {
  Metric metric = MetricOf(kind);
  metric.threshold = threshold;
  return metric;
}

}  // namespace

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
