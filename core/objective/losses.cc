// The table of losses, their factories, and the loss of a batch. The formulas
// are in crossentropies.cc and regression_losses.cc.

#include "ringlet/losses.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "../base/check.h"
#include "../base/guarded.h"
#include "../base/text.h"
#include "batch_loss.h"
#include "loss_table.h"

namespace ringlet {
namespace {

// --- rows --------------------------------------------------------------------

using LossField = ConfigField<Loss>;
constexpr LossField kLogits = BoolField<&Loss::from_logits>("from_logits");
constexpr LossField kSmoothing =
    FloatField<&Loss::label_smoothing>("label_smoothing", kFraction);
constexpr LossField kAxis = OnlyField<Loss>("axis", FieldType::kOnlyNumber, -1);
constexpr LossField kAxisOnlyRead =
    OnlyField<Loss>("axis", FieldType::kOnlyNumber, -1, FieldForm::kOnlyRead);
constexpr LossField kGamma = FloatField<&Loss::gamma>("gamma", kNotNegative);

constexpr LossField kSparseFields[] = {
    kLogits, ClassField<&Loss::ignore_class>("ignore_class"), kAxisOnlyRead};
constexpr LossField kCrossentropyFields[] = {kLogits, kSmoothing, kAxis};
constexpr LossField kBinaryFocalFields[] = {
    kLogits,
    kSmoothing,
    kAxis,
    BoolField<&Loss::apply_class_balancing>("apply_class_balancing"),
    FloatField<&Loss::alpha>("alpha", kFraction),
    kGamma};
constexpr LossField kCategoricalFocalFields[] = {
    kLogits, kSmoothing, kAxis, FloatField<&Loss::alpha>("alpha", kNotNegative),
    kGamma};
constexpr LossField kHuberFields[] = {
    FloatField<&Loss::delta>("delta", kPositive)};
constexpr LossField kCosineFields[] = {kAxisOnlyRead};

// Returns the row of a loss with float targets and without fields.
constexpr LossClass Plain(const char* name, const char* aliases,
                          const char* object_name, RowLoss* row) {
  return {name,
          aliases,
          object_name,
          /*takes_classes=*/false,
          /*categorical=*/false,
          kLinear,
          {},
          row};
}

constexpr LossClass kLosses[] = {
    {"SparseCategoricalCrossentropy", "sparse_categorical_crossentropy",
     "sparse_categorical_crossentropy", /*takes_classes=*/true,
     /*categorical=*/true, kSoftmax, kSparseFields, SparseCrossentropyOfRow},
    {"CategoricalCrossentropy", "categorical_crossentropy",
     "categorical_crossentropy", /*takes_classes=*/false, /*categorical=*/true,
     kSoftmax, kCrossentropyFields, CrossentropyOfRow},
    {"BinaryCrossentropy", "binary_crossentropy bce BCE", "binary_crossentropy",
     /*takes_classes=*/false, /*categorical=*/false, kSigmoid,
     kCrossentropyFields, BinaryCrossentropyOfRow},
    Plain("MeanSquaredError", "mean_squared_error mse MSE",
          "mean_squared_error", SquaredErrorOfRow),
    Plain("MeanAbsoluteError", "mean_absolute_error mae MAE",
          "mean_absolute_error", AbsoluteErrorOfRow),
    {"Huber", "huber huber_loss", "huber_loss", /*takes_classes=*/false,
     /*categorical=*/false, kLinear, kHuberFields, HuberOfRow},
    {"BinaryFocalCrossentropy", "binary_focal_crossentropy",
     "binary_focal_crossentropy", /*takes_classes=*/false,
     /*categorical=*/false, kLinear, kBinaryFocalFields, BinaryFocalOfRow},
    {"CategoricalFocalCrossentropy", "categorical_focal_crossentropy",
     "categorical_focal_crossentropy", /*takes_classes=*/false,
     /*categorical=*/true, kLinear, kCategoricalFocalFields,
     CategoricalFocalOfRow},
    Plain("KLDivergence", "kl_divergence kld KLD kullback_leibler_divergence",
          "kl_divergence", KLDivergenceOfRow),
    Plain("Poisson", "poisson", "poisson", PoissonOfRow),
    Plain("MeanAbsolutePercentageError",
          "mean_absolute_percentage_error mape MAPE",
          "mean_absolute_percentage_error", PercentageErrorOfRow),
    Plain("MeanSquaredLogarithmicError",
          "mean_squared_logarithmic_error msle MSLE",
          "mean_squared_logarithmic_error", LogarithmicErrorOfRow),
    {"CosineSimilarity", "cosine_similarity", "cosine_similarity",
     /*takes_classes=*/false, /*categorical=*/false, kLinear, kCosineFields,
     CosineSimilarityOfRow},
    Plain("LogCosh", "log_cosh logcosh", "log_cosh", LogCoshOfRow),
    Plain("Hinge", "hinge", "hinge", HingeOfRow),
    Plain("SquaredHinge", "squared_hinge", "squared_hinge", SquaredHingeOfRow),
    Plain("CategoricalHinge", "categorical_hinge", "categorical_hinge",
          CategoricalHingeOfRow),
};
static_assert(std::size(kLosses) == static_cast<size_t>(Loss::Kind::kCustom));

Loss Make(Loss::Kind kind) {
  Loss loss;
  loss.kind = kind;
  return loss;
}

Loss Make(Loss::Kind kind, bool from_logits, float label_smoothing = 0) {
  Loss loss = Make(kind);
  loss.from_logits = from_logits;
  loss.label_smoothing = label_smoothing;
  return loss;
}

}  // namespace

LossTable AllLosses() { return {kLosses, std::size(kLosses)}; }

const LossClass& ClassOf(const Loss& loss) {
  const auto row = static_cast<size_t>(loss.kind);
  RINGLET_CHECK(row < std::size(kLosses));
  return kLosses[row];
}

// --- Loss --------------------------------------------------------------------

const char* Loss::class_name() const {
  if (kind != Kind::kCustom) return ClassOf(*this).name;
  return custom != nullptr ? custom->class_name() : "CustomLoss";
}

std::string Loss::name() const {
  if (kind == Kind::kCustom) return SnakeCase(class_name());
  return ClassOf(*this).object_name;
}

bool Loss::takes_classes() const {
  if (kind != Kind::kCustom) return ClassOf(*this).takes_classes;
  return custom != nullptr && custom->takes_classes();
}

int64_t Loss::targets(const Shape& output) const {
  if (custom != nullptr) return custom->targets(output);
  return takes_classes() ? RowsOf(output) : output.elements();
}

Activation Loss::logits_activation() const {
  return kind == Kind::kCustom ? kLinear : ClassOf(*this).logits_activation;
}

bool Loss::takes_probabilities() const {
  if (kind == Kind::kCustom || from_logits) return false;
  for (const LossField& field : ClassOf(*this).fields) {
    if (std::strcmp(field.name, kLogits.name) == 0) return true;
  }
  return false;
}

Loss SparseCategoricalCrossentropy(FromLogits logits,
                                   std::optional<int> ignore_class) {
  Loss loss = Make(Loss::Kind::kSparseCategoricalCrossentropy, logits);
  loss.ignore_class = ignore_class;
  return loss;
}
Loss CategoricalCrossentropy(FromLogits logits, float label_smoothing) {
  return Make(Loss::Kind::kCategoricalCrossentropy, logits, label_smoothing);
}
Loss BinaryCrossentropy(FromLogits logits, float label_smoothing) {
  return Make(Loss::Kind::kBinaryCrossentropy, logits, label_smoothing);
}
Loss BinaryFocalCrossentropy(bool apply_class_balancing, float alpha,
                             float gamma, FromLogits logits,
                             float label_smoothing) {
  Loss loss =
      Make(Loss::Kind::kBinaryFocalCrossentropy, logits, label_smoothing);
  loss.apply_class_balancing = apply_class_balancing;
  loss.alpha = alpha;
  loss.gamma = gamma;
  return loss;
}
Loss CategoricalFocalCrossentropy(float alpha, float gamma, FromLogits logits,
                                  float label_smoothing) {
  Loss loss =
      Make(Loss::Kind::kCategoricalFocalCrossentropy, logits, label_smoothing);
  loss.alpha = alpha;
  loss.gamma = gamma;
  return loss;
}
Loss KLDivergence() { return Make(Loss::Kind::kKLDivergence); }
Loss Poisson() { return Make(Loss::Kind::kPoisson); }
Loss MeanSquaredError() { return Make(Loss::Kind::kMeanSquaredError); }
Loss MeanAbsoluteError() { return Make(Loss::Kind::kMeanAbsoluteError); }
Loss MeanAbsolutePercentageError() {
  return Make(Loss::Kind::kMeanAbsolutePercentageError);
}
Loss MeanSquaredLogarithmicError() {
  return Make(Loss::Kind::kMeanSquaredLogarithmicError);
}
Loss CosineSimilarity() { return Make(Loss::Kind::kCosineSimilarity); }
Loss LogCosh() { return Make(Loss::Kind::kLogCosh); }
Loss Hinge() { return Make(Loss::Kind::kHinge); }
Loss SquaredHinge() { return Make(Loss::Kind::kSquaredHinge); }
Loss CategoricalHinge() { return Make(Loss::Kind::kCategoricalHinge); }
Loss Huber(float delta) {
  Loss loss = Make(Loss::Kind::kHuber);
  loss.delta = delta;
  return loss;
}

Loss Custom(std::shared_ptr<const CustomLoss> custom) {
  Loss loss = Make(Loss::Kind::kCustom);
  loss.custom = std::move(custom);
  return loss;
}

// --- checks ------------------------------------------------------------------

namespace {

Status CheckCustom(const Loss& loss, const Shape& output) {
  if (loss.custom == nullptr) {
    return InvalidArgument("Custom was given no loss");
  }
  const int64_t targets = loss.targets(output);
  if (targets < 1 || targets > int64_t{1} << 31) {
    return InvalidArgument("%s: an example cannot have %lld targets",
                           loss.class_name(), static_cast<long long>(targets));
  }
  return loss.custom->Check(output).Annotate("%s", loss.class_name());
}

}  // namespace

Status CheckLossShape(const Loss& loss, const Shape& output) {
  if (loss.kind == Loss::Kind::kCustom) return CheckCustom(loss, output);
  if (ClassOf(loss).categorical && (output.rank() < 1 || output.back() < 2)) {
    return InvalidArgument(
        "%s needs an output of two or more classes, not %s; use "
        "BinaryCrossentropy for one",
        loss.class_name(), output.ToString().c_str());
  }
  for (const LossField& field : ClassOf(loss).fields) {
    RINGLET_RETURN_IF_ERROR(CheckField(field, &loss, loss.class_name()));
  }
  return Status();
}

// --- a batch -----------------------------------------------------------------

int64_t RowsOf(const Loss& loss, const Shape& output) {
  return loss.custom != nullptr ? 1 : RowsOf(output);
}

namespace {

// Which rows of a batch have no loss: rows of the ignored class, and rows of
// masked steps.
struct IgnoredRows {
  const int32_t* classes;  // null if no class is ignored
  int ignored_class;
  StepMask mask;
  int64_t rows_of_step;

  bool Has(int64_t row) const {
    return (classes != nullptr && classes[row] == ignored_class) ||
           (mask.values != nullptr && mask.values[row / rows_of_step] == 0);
  }
};

// The factor of the loss of a valid row, which is not ignored: rows / valid
// rows. The loss of an ignored row is 0, so the mean over all rows becomes the
// mean over the valid ones, as in Keras.
double ValidRowFactor(const Loss& loss, int64_t rows,
                      const IgnoredRows& ignored) {
  if ((ignored.classes == nullptr && ignored.mask.values == nullptr) ||
      loss.reduction == LossReduction::kSum) {
    return 1;
  }
  int64_t valid = 0;
  for (int64_t r = 0; r < rows; ++r) valid += ignored.Has(r) ? 0 : 1;
  return valid == 0 ? 0
                    : static_cast<double>(rows) / static_cast<double>(valid);
}

// Computes a row's loss and gradient; both are 0 if the row is ignored.
double ComputeRow(const Loss& loss, const LossClass& c, bool ignored,
                  const LossRow& row) {
  if (ignored) {
    if (row.d != nullptr) std::fill_n(row.d, row.width, 0.0f);
    return 0;
  }
  return c.row(loss, row);
}

// Multiplies the loss of each example or row by its weight.
void ComputeRows(const Loss& loss, const Shape& output, int64_t count,
                 const float* predictions, const void* targets, float scale,
                 const ExampleWeights& weights, const StepMask& mask,
                 float* per_example, float* d_predictions) {
  const LossClass& c = ClassOf(loss);
  const int64_t width = output.back(), rows = RowsOf(loss, output);
  const bool ignores = c.takes_classes && loss.ignore_class.has_value();
  const IgnoredRows ignored = {
      ignores ? static_cast<const int32_t*>(targets) : nullptr,
      loss.ignore_class.value_or(0), mask, rows / mask.steps};
  const double counted = ValidRowFactor(loss, count * rows, ignored);
  const float share = static_cast<float>(counted) / static_cast<float>(rows);
  const bool by_row = weights.of_rows();
  LossRow row = {width, predictions, nullptr, 0, d_predictions, 0};
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r, row.p += width) {
      const int64_t number = i * rows + r;
      if (c.takes_classes) {
        row.label = static_cast<const int32_t*>(targets)[number];
      } else {
        row.t = static_cast<const float*>(targets) + number * width;
      }
      const float weight = weights.At(number, rows);
      row.scale = scale * share * weight;
      sum += ComputeRow(loss, c, ignored.Has(number), row) *
             double{by_row ? weight : 1};
      if (row.d != nullptr) row.d += width;
    }
    per_example[i] =
        static_cast<float>(sum * counted / static_cast<double>(rows)) *
        (by_row ? 1 : weights.At(i * rows, rows));
  }
}

}  // namespace

LossScale ScaleOf(const Loss& loss, const Shape& output, int64_t global_count) {
  if (loss.reduction == LossReduction::kSumOverBatchSize) {
    return {1.0f / static_cast<float>(global_count), 1};
  }
  const auto rows = static_cast<double>(RowsOf(loss, output));
  return {static_cast<float>(rows), rows * static_cast<double>(global_count)};
}

Status ComputeLoss(const Loss& loss, const Shape& output, int64_t count,
                   const float* predictions, const void* targets, float scale,
                   float* per_example, float* d_predictions,
                   const ExampleWeights& weights, const StepMask& mask) {
  if (loss.custom != nullptr) {
    return CallLoss(*loss.custom, output, count, predictions, targets, scale,
                    per_example, d_predictions, weights.values);
  }
  ComputeRows(loss, output, count, predictions, targets, scale, weights, mask,
              per_example, d_predictions);
  return Status();
}

}  // namespace ringlet
