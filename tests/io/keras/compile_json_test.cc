#include "io/keras/compile_json.h"

#include <gtest/gtest.h>

#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"

namespace ringlet {
namespace {

void ExpectSame(const LearningRate& a, const LearningRate& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.initial, b.initial);
  EXPECT_EQ(a.decay_steps, b.decay_steps);
  EXPECT_EQ(a.decay_rate, b.decay_rate);
  EXPECT_EQ(a.staircase, b.staircase);
  EXPECT_EQ(a.alpha, b.alpha);
  EXPECT_EQ(a.warmup_steps, b.warmup_steps);
  EXPECT_EQ(a.warmup_target, b.warmup_target);
  EXPECT_EQ(a.boundaries, b.boundaries);
  EXPECT_EQ(a.values, b.values);
}

void ExpectSame(const Optimizer& a, const Optimizer& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_STREQ(a.name(), b.name());
  ExpectSame(a.learning_rate, b.learning_rate);
  EXPECT_EQ(a.momentum, b.momentum);
  EXPECT_EQ(a.nesterov, b.nesterov);
  EXPECT_EQ(a.rho, b.rho);
  EXPECT_EQ(a.centered, b.centered);
  EXPECT_EQ(a.beta_1, b.beta_1);
  EXPECT_EQ(a.beta_2, b.beta_2);
  EXPECT_EQ(a.amsgrad, b.amsgrad);
  EXPECT_EQ(a.epsilon, b.epsilon);
  EXPECT_EQ(a.weight_decay, b.weight_decay);
  EXPECT_EQ(a.clipnorm, b.clipnorm);
  EXPECT_EQ(a.global_clipnorm, b.global_clipnorm);
  EXPECT_EQ(a.clipvalue, b.clipvalue);
  EXPECT_EQ(a.gradient_accumulation_steps, b.gradient_accumulation_steps);
}

void ExpectSame(const Loss& a, const Loss& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.from_logits, b.from_logits);
  EXPECT_EQ(a.label_smoothing, b.label_smoothing);
  EXPECT_EQ(a.delta, b.delta);
  EXPECT_EQ(a.apply_class_balancing, b.apply_class_balancing);
  EXPECT_EQ(a.alpha, b.alpha);
  EXPECT_EQ(a.gamma, b.gamma);
  EXPECT_EQ(a.ignore_class, b.ignore_class);
  EXPECT_EQ(a.reduction, b.reduction);
}

void ExpectSame(const Metric& a, const Metric& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.threshold, b.threshold);
  EXPECT_EQ(a.k, b.k);
  EXPECT_EQ(a.top_k, b.top_k);
  EXPECT_EQ(a.class_id, b.class_id);
  EXPECT_EQ(a.num_thresholds, b.num_thresholds);
  EXPECT_EQ(a.curve, b.curve);
  EXPECT_EQ(a.summation, b.summation);
  EXPECT_EQ(a.multi_label, b.multi_label);
  EXPECT_EQ(a.num_labels, b.num_labels);
  EXPECT_EQ(a.from_logits, b.from_logits);
  EXPECT_EQ(a.label_smoothing, b.label_smoothing);
  EXPECT_EQ(a.average, b.average);
  EXPECT_EQ(a.beta, b.beta);
  EXPECT_EQ(a.num_classes, b.num_classes);
  EXPECT_EQ(a.sparse_targets, b.sparse_targets);
  EXPECT_EQ(a.ignore_class, b.ignore_class);
  EXPECT_EQ(a.aggregation, b.aggregation);
}

// Chosen so that a reader that sets nothing is found out.
Optimizer Read(const std::string& json, const Optimizer& unset) {
  Optimizer optimizer = unset;
  EXPECT_OK(OptimizerFromJson(json, &optimizer));
  return optimizer;
}
Loss Read(const std::string& json, const Loss& unset) {
  Loss loss = unset;
  EXPECT_OK(LossFromJson(json, &loss));
  return loss;
}
Metric Read(const std::string& json, const Metric& unset) {
  Metric metric = unset;
  EXPECT_OK(MetricFromJson(json, &metric));
  return metric;
}

Optimizer ReadOptimizer(const std::string& json) {
  return Read(json, RMSprop(0.7f, 0.1f));
}
Loss ReadLoss(const std::string& json) { return Read(json, Huber(7)); }
Metric ReadMetric(const std::string& json) {
  return Read(json, BinaryAccuracy(0.9f));
}

template <typename T>
void ExpectRoundTrip(const T& value, const T& unset) {
  const std::string json = ToJson(value);
  SCOPED_TRACE(json);
  const T again = Read(json, unset);
  ExpectSame(value, again);
  EXPECT_EQ(ToJson(again), json);
}

TEST(CompileJsonTest, Loss_ByEachOfItsNames_IsReadAndWritten) {
  const std::pair<const char*, Loss> names[] = {
      {"kld", KLDivergence()},
      {"KLDivergence", KLDivergence()},
      {"kullback_leibler_divergence", KLDivergence()},
      {"poisson", Poisson()},
      {"mape", MeanAbsolutePercentageError()},
      {"msle", MeanSquaredLogarithmicError()},
      {"cosine_similarity", CosineSimilarity()},
      {"log_cosh", LogCosh()},
      {"logcosh", LogCosh()},
      {"hinge", Hinge()},
      {"squared_hinge", SquaredHinge()},
      {"categorical_hinge", CategoricalHinge()},
      {"binary_focal_crossentropy", BinaryFocalCrossentropy()},
      {"categorical_focal_crossentropy", CategoricalFocalCrossentropy()},
  };
  for (const auto& [name, loss] : names) {
    SCOPED_TRACE(name);
    ExpectSame(ReadLoss(name), loss);
    ExpectRoundTrip(loss, Huber(7));
    Loss sum = loss;
    sum.Reduction(LossReduction::kSum);
    ExpectRoundTrip(sum, Huber(7));
  }
  ExpectRoundTrip(BinaryFocalCrossentropy(/*apply_class_balancing=*/true, 0.4f,
                                          1.5f, kFromLogits, 0.1f),
                  Huber(7));
  ExpectRoundTrip(CategoricalFocalCrossentropy(2, 0.5f, kFromLogits, 0.1f),
                  Huber(7));
}

TEST(CompileJsonTest, Loss_FocalOfKeras3_IsRead) {
  ExpectSame(ReadLoss(R"({"module": "keras.losses",
      "class_name": "BinaryFocalCrossentropy",
      "config": {"name": "binary_focal_crossentropy",
                 "reduction": "sum", "from_logits": true,
                 "label_smoothing": 0.1, "axis": -1,
                 "apply_class_balancing": true, "alpha": 0.3, "gamma": 3.0},
      "registered_name": null})"),
             BinaryFocalCrossentropy(/*apply_class_balancing=*/true, 0.3f, 3,
                                     kFromLogits, 0.1f)
                 .Reduction(LossReduction::kSum));
}

// --- optimizers -------------------------------------------------------------

TEST(CompileJsonTest, Optimizer_ByName_HasTheDefaultsOfKeras) {
  for (const char* name : {"adam", "Adam", "\"adam\"", "\"Adam\""}) {
    ExpectSame(ReadOptimizer(name), Adam());
  }
  ExpectSame(ReadOptimizer("\"sgd\""), SGD());
  ExpectSame(ReadOptimizer("SGD"), SGD());
  ExpectSame(ReadOptimizer("rmsprop"), RMSprop());
  ExpectSame(ReadOptimizer("RMSprop"), RMSprop());
  ExpectSame(ReadOptimizer("adamw"), AdamW());
  ExpectSame(ReadOptimizer(R"({"class_name": "AdamW"})"), AdamW());
  ExpectSame(ReadOptimizer(R"({"class_name": "SGD", "config": {}})"), SGD());
}

TEST(CompileJsonTest, Optimizer_OfKeras3_IsRead) {
  ExpectSame(
      ReadOptimizer(R"({
      "module": "keras.optimizers", "class_name": "Adam",
      "config": {"name": "adam", "learning_rate": 0.0010000000474974513,
                 "weight_decay": null, "clipnorm": null,
                 "global_clipnorm": 1.0, "clipvalue": null, "use_ema": false,
                 "ema_momentum": 0.99, "ema_overwrite_frequency": null,
                 "loss_scale_factor": null,
                 "gradient_accumulation_steps": null, "beta_1": 0.8,
                 "beta_2": 0.99, "epsilon": 1e-07, "amsgrad": true},
      "registered_name": null})"),
      Adam(0.001f, 0.8f, 0.99f, 1e-7f, /*amsgrad=*/true).GlobalClipNorm(1));
}

TEST(CompileJsonTest, Optimizer_OfKeras2_IsRead) {
  ExpectSame(ReadOptimizer(R"({"class_name": "SGD", "config": {"name": "SGD",
      "learning_rate": 0.01, "decay": 0.0, "momentum": 0.9,
      "nesterov": true}})"),
             SGD(0.01f, 0.9f, /*nesterov=*/true));
  ExpectSame(
      ReadOptimizer(R"({"class_name": "Custom>RMSprop", "config":
      {"name": "RMSprop", "weight_decay": null, "clipnorm": null,
       "global_clipnorm": null, "clipvalue": 0.5, "use_ema": false,
       "ema_momentum": 0.99, "ema_overwrite_frequency": 100,
       "jit_compile": true, "is_legacy_optimizer": false,
       "learning_rate": 0.01, "rho": 0.8, "momentum": 0.1, "epsilon": 0.001,
       "centered": true}})"),
      RMSprop(0.01f, 0.8f, 0.1f, 0.001f, /*centered=*/true).ClipValue(0.5f));
}

TEST(CompileJsonTest, LearningRate_DecayOfKeras2_IsAnInverseTimeDecay) {
  const Optimizer adam = ReadOptimizer(R"({"class_name": "Adam", "config":
      {"lr": 0.02, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-07,
       "decay": 0.5, "amsgrad": false}})");
  ExpectSame(adam, Adam(InverseTimeDecay(0.02f, 1, 0.5f)));
  for (const int64_t step : {0, 1, 2, 10, 1000}) {
    EXPECT_FLOAT_EQ(adam.learning_rate.At(step),
                    static_cast<float>(0.02 / (1 + 0.5 * step)));
  }
  ExpectSame(ReadOptimizer(R"({"class_name": "SGD", "config": {"lr": 0.25,
      "momentum": 0.0, "decay": 0.0, "nesterov": false}})"),
             SGD(0.25f));
  ExpectSame(ReadOptimizer(R"({"class_name": "SGD", "config": {"lr":
      {"type": "ndarray", "value": 0.25}, "decay": null}})"),
             SGD(0.25f));
}

TEST(CompileJsonTest, LearningRate_SchedulesOfKeras_AreRead) {
  const auto rate = [](const std::string& name, const std::string& config) {
    return ReadOptimizer(
               R"({"class_name": "SGD", "config": {"learning_rate":
               {"module": "keras.optimizers.schedules", "class_name": ")" +
               name + R"(", "config": )" + config +
               R"(, "registered_name": null}}})")
        .learning_rate;
  };
  ExpectSame(rate("ExponentialDecay", R"({"initial_learning_rate": 0.1,
      "decay_steps": 1000, "decay_rate": 0.96, "staircase": true,
      "name": "ExponentialDecay"})"),
             ExponentialDecay(0.1f, 1000, 0.96f, /*staircase=*/true));
  ExpectSame(rate("CosineDecay", R"({"initial_learning_rate": 0.0,
      "decay_steps": 1000, "alpha": 0.1, "name": "CosineDecay",
      "warmup_target": 0.5, "warmup_steps": 200})"),
             CosineDecay(0, 1000, 0.1f, 0.5f, 200));
  // Keras: without a target nothing is warmed up; without steps the decay
  // begins at the target.
  ExpectSame(rate("CosineDecay", R"({"initial_learning_rate": 0.3,
      "decay_steps": 9, "warmup_target": null, "warmup_steps": 200})"),
             CosineDecay(0.3f, 9));
  ExpectSame(rate("CosineDecay", R"({"initial_learning_rate": 0.3,
      "decay_steps": 9, "warmup_target": 0.7, "warmup_steps": 0})"),
             CosineDecay(0.7f, 9));
  ExpectSame(rate("PiecewiseConstantDecay",
                  R"({"boundaries": [10, 20], "values": [1, 0.5, 0.25]})"),
             PiecewiseConstantDecay({10, 20}, {1, 0.5f, 0.25f}));
}

TEST(CompileJsonTest, Optimizer_WrittenAndRead_IsTheSame) {
  const Optimizer all[] = {
      SGD(),
      SGD(1.0f / 3, 1, /*nesterov=*/true).ClipNorm(0.1f),
      SGD(1e-20f, 0.9f),
      RMSprop(),
      RMSprop(2, 0.5f, 0.25f, 0, /*centered=*/true).WeightDecay(0.3f),
      SGD(0.5f).GradientAccumulationSteps(4),
      Adam(),
      Adam(3e-4f, 0.1f, 0.2f, 0.3f, /*amsgrad=*/true).GlobalClipNorm(2),
      AdamW(),
      AdamW(0.1f, 0),
      SGD(ExponentialDecay(0.1f, 3, 0.9f, /*staircase=*/true)),
      Adam(CosineDecay(0.1f, 5, 0.01f)),
      Adam(CosineDecay(0.1f, 5, 0, 0.2f, 7)),
      SGD(PolynomialDecay(0.1f, 5, 0.01f, 2, /*cycle=*/true)),
      SGD(PolynomialDecay(0.1f, 5).Warmup(0.2f, 3)),
      SGD(InverseTimeDecay(0.1f, 5, 0.5f, /*staircase=*/true).Warmup(0.2f, 3)),
      SGD(CosineDecayRestarts(0.1f, 5, 1.5f, 0.5f, 0.01f)),
      SGD(0.1f).UseEma(0.9f, 7),
      RMSprop(PiecewiseConstantDecay({1, 1, int64_t{1} << 53},
                                     {1, 2, 0.1f, 1e-9f})),
      SGD(PiecewiseConstantDecay({}, {0.5f}))};
  for (const Optimizer& optimizer : all) {
    ExpectRoundTrip(optimizer,
                    RMSprop(0.7f, 0.1f).GradientAccumulationSteps(3));
  }
}

TEST(CompileJsonTest, ToJson_Optimizer_IsTheTextOfKeras3) {
  EXPECT_EQ(ToJson(SGD(0.001f)),
            R"({"module":"keras.optimizers","class_name":"SGD","config":)"
            R"({"name":"SGD","learning_rate":0.001,"weight_decay":null,)"
            R"("clipnorm":null,"global_clipnorm":null,"clipvalue":null,)"
            R"("use_ema":false,"ema_momentum":0.99,)"
            R"("ema_overwrite_frequency":null,"loss_scale_factor":null,)"
            R"("gradient_accumulation_steps":null,"momentum":0.0,)"
            R"("nesterov":false},"registered_name":null})");
}

// --- losses -----------------------------------------------------------------

TEST(CompileJsonTest, Loss_ByName_IsRead) {
  ExpectSame(ReadLoss("sparse_categorical_crossentropy"),
             SparseCategoricalCrossentropy());
  ExpectSame(ReadLoss("\"categorical_crossentropy\""),
             CategoricalCrossentropy());
  ExpectSame(ReadLoss("BinaryCrossentropy"), BinaryCrossentropy());
  ExpectSame(ReadLoss("mse"), MeanSquaredError());
  ExpectSame(ReadLoss("\"MAE\""), MeanAbsoluteError());
  ExpectSame(ReadLoss("huber"), Huber());
  ExpectSame(ReadLoss(R"({"module": "builtins", "class_name": "function",
      "config": "mean_squared_error",
      "registered_name": "mean_squared_error"})"),
             MeanSquaredError());
}

TEST(CompileJsonTest, Loss_OfKeras_IsRead) {
  ExpectSame(ReadLoss(R"({"module": "keras.losses",
      "class_name": "SparseCategoricalCrossentropy",
      "config": {"name": "sparse_categorical_crossentropy",
                 "reduction": "sum_over_batch_size", "from_logits": true,
                 "ignore_class": null}, "registered_name": null})"),
             SparseCategoricalCrossentropy(kFromLogits));
  ExpectSame(ReadLoss(R"({"class_name": "CategoricalCrossentropy",
      "config": {"reduction": "auto", "name": "categorical_crossentropy",
                 "from_logits": true, "label_smoothing": 0.1, "axis": -1,
                 "fn": "categorical_crossentropy"}})"),
             CategoricalCrossentropy(kFromLogits, 0.1f));
  ExpectSame(ReadLoss(R"({"class_name": "Huber", "config": {"delta": 2.5,
      "dtype": {"class_name": "DTypePolicy", "config": {"name": "float32"}}
      }})"),
             Huber(2.5f));
}

TEST(CompileJsonTest, Loss_WrittenAndRead_IsTheSame) {
  for (const Loss& loss :
       {SparseCategoricalCrossentropy(),
        SparseCategoricalCrossentropy(kFromLogits),
        SparseCategoricalCrossentropy(kFromLogits, -1),
        SparseCategoricalCrossentropy(kFromProbabilities, 255),
        CategoricalCrossentropy(), CategoricalCrossentropy(kFromLogits, 0.3f),
        BinaryCrossentropy(kFromLogits, 1), MeanSquaredError(),
        MeanAbsoluteError(), Huber(0.1f)}) {
    ExpectRoundTrip(loss, Huber(7));
  }
}

// --- metrics ----------------------------------------------------------------

TEST(CompileJsonTest, Metric_ByName_IsReadAndNamed) {
  ExpectSame(ReadMetric("accuracy"), Accuracy());
  ExpectSame(ReadMetric("\"acc\""), Accuracy().Name("acc"));
  ExpectSame(ReadMetric("Accuracy"), Accuracy().Name("Accuracy"));
  ExpectSame(ReadMetric("binary_accuracy"), BinaryAccuracy());
  // A metric given as a string has that string as its name, as in Keras 3.
  ExpectSame(ReadMetric("mae"), MeanAbsoluteErrorMetric().Name("mae"));
  ExpectSame(ReadMetric("AUC"), AUC().Name("AUC"));
  ExpectSame(
      ReadMetric("SparseTopKCategoricalAccuracy"),
      SparseTopKCategoricalAccuracy().Name("SparseTopKCategoricalAccuracy"));
  ExpectSame(ReadMetric(R"({"class_name": "AUC"})"), AUC());
}

TEST(CompileJsonTest, Metric_OfKeras_IsRead) {
  ExpectSame(ReadMetric(R"({"module": "keras.metrics",
      "class_name": "SparseTopKCategoricalAccuracy", "config": {
      "name": "top3", "dtype": "float32", "k": 3}, "registered_name": null})"),
             SparseTopKCategoricalAccuracy(3).Name("top3"));
  ExpectSame(ReadMetric(R"({"class_name": "BinaryAccuracy", "config":
      {"name": "binary_accuracy", "dtype": "float32", "threshold": 0.25,
       "fn": "binary_accuracy"}})"),
             BinaryAccuracy(0.25f));
}

TEST(CompileJsonTest, Metric_WrittenAndRead_IsTheSame) {
  for (const Metric& metric :
       {Accuracy(),
        Accuracy().Name("acc"),
        Accuracy().Name("mine"),
        BinaryAccuracy(0.1f),
        CategoricalAccuracy(),
        SparseCategoricalAccuracy().Name("a \"b\""),
        SparseTopKCategoricalAccuracy(2),
        MeanSquaredErrorMetric(),
        MeanAbsoluteErrorMetric(),
        TopKCategoricalAccuracy(3),
        RootMeanSquaredError(),
        R2Score(Metric::kVarianceWeightedAverage),
        AUC(),
        AUC(50, Metric::kPrecisionRecall, Metric::kMajoring),
        AUC(3, Metric::kROC, Metric::kMinoring).FromLogits(),
        AUC().MultiLabel(),
        AUC().ClassId(1),
        Precision(),
        Precision(0.25f),
        Recall().TopK(3),
        Recall(0.5f).ClassId(0),
        TruePositives(0),
        TrueNegatives(),
        FalsePositives(0.1f),
        FalseNegatives(),
        F1Score(),
        F1Score(Metric::kMicro),
        F1Score(Metric::kMicro).ClassId(3),
        F1Score(Metric::kWeighted, 0.3f),
        FBetaScore(Metric::kMacro, 2),
        MeanIoU(3),
        MeanIoU(3, /*sparse_y_true=*/false),
        MeanIoU(3).IgnoreClass(-1),
        MetricOf(Metric::Kind::kSparseCategoricalCrossentropy).IgnoreClass(0),
        OneHotMeanIoU(7)}) {
    ExpectRoundTrip(metric, BinaryAccuracy(0.9f));
  }
}

TEST(CompileJsonTest, Metric_ByEveryName_IsReadAndWritten) {
  for (const char* name : {"auc",
                           "precision",
                           "recall",
                           "true_positives",
                           "true_negatives",
                           "false_positives",
                           "false_negatives",
                           "r2_score",
                           "mape",
                           "msle",
                           "root_mean_squared_error",
                           "cosine_similarity",
                           "log_cosh_error",
                           "top_k_categorical_accuracy",
                           "hinge",
                           "squared_hinge",
                           "categorical_hinge",
                           "poisson",
                           "kl_divergence",
                           "bce",
                           "categorical_crossentropy",
                           "sparse_categorical_crossentropy"}) {
    SCOPED_TRACE(name);
    ExpectRoundTrip(ReadMetric(name), BinaryAccuracy(0.9f));
  }
  EXPECT_EQ(ReadMetric("log_cosh_error").name, "log_cosh_error");
  EXPECT_EQ(ReadMetric("mape").name, "mape");
  EXPECT_EQ(ReadMetric("Hinge").kind, Metric::Kind::kHinge);
}

TEST(CompileJsonTest, Metric_AucAndScoresOfKeras_AreRead) {
  ExpectSame(ReadMetric(R"({"module": "keras.metrics", "class_name": "AUC",
      "config": {"name": "pr", "dtype": "float32", "num_thresholds": 100,
                 "curve": "PR", "summation_method": "majoring",
                 "multi_label": false, "num_labels": null,
                 "label_weights": null}, "registered_name": null})"),
             AUC(100, Metric::kPrecisionRecall, Metric::kMajoring).Name("pr"));
  ExpectSame(ReadMetric(R"({"class_name": "Precision", "config":
      {"name": "precision", "thresholds": [0.75], "top_k": null,
       "class_id": 2}})"),
             Precision(0.75f).ClassId(2));
  ExpectSame(ReadMetric(R"({"class_name": "F1Score", "config":
      {"average": "macro", "threshold": null}})"),
             F1Score(Metric::kMacro));
  for (const char* json :
       {"\"f1_score\"", R"({"class_name": "F1Score", "config": {}})",
        R"({"class_name": "F1Score", "config": {"average": null}})"}) {
    ExpectSame(ReadMetric(json), F1Score());
  }
  Metric labels = AUC().MultiLabel();
  labels.num_labels = 4;
  ExpectSame(ReadMetric(R"({"class_name": "AUC", "config":
      {"multi_label": true, "num_labels": 4}})"),
             labels);
}

// Keras would refuse a field of a class that it does not have there.
TEST(CompileJsonTest, Metric_ClassIdOfOurs_IsWrittenOnlyIfSet) {
  for (const Metric& metric : {AUC(), F1Score(), FBetaScore()}) {
    EXPECT_EQ(ToJson(metric).find("class_id"), std::string::npos);
    EXPECT_NE(ToJson(Metric(metric).ClassId(2)).find("\"class_id\":2"),
              std::string::npos);
  }
  EXPECT_NE(ToJson(Recall()).find("\"class_id\":null"), std::string::npos);
}

// --- what is refused --------------------------------------------------------

struct Wrong {
  const char* name;
  char reader;  // 'o', 'l' or 'm'
  const char* json;
  std::vector<const char*> message_parts;
};

std::ostream& operator<<(std::ostream& out, const Wrong& wrong) {
  return out << wrong.name;
}

class WrongCompileJsonTest : public testing::TestWithParam<Wrong> {};

TEST_P(WrongCompileJsonTest, Read_WrongJson_IsRefusedWithItsPlace) {
  const Wrong& wrong = GetParam();
  Optimizer optimizer = RMSprop(0.7f);
  Loss loss = Huber(7);
  Metric metric = BinaryAccuracy(0.9f);
  const Status status =
      wrong.reader == 'o'   ? OptimizerFromJson(wrong.json, &optimizer)
      : wrong.reader == 'l' ? LossFromJson(wrong.json, &loss)
                            : MetricFromJson(wrong.json, &metric);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
  const std::string error = status.message();
  for (const char* part : wrong.message_parts) {
    EXPECT_TRUE(Contains(error, part));
  }
  ExpectSame(optimizer, RMSprop(0.7f));
  ExpectSame(loss, Huber(7));
  ExpectSame(metric, BinaryAccuracy(0.9f));
}

const Wrong kWrong[] = {
    {"UnknownOptimizer",
     'o',
     "adamm",
     {"optimizer", "'adamm'", "nearest known is 'Adam'"}},
    {"OptimizerRingletLacks",
     'o',
     R"({"class_name": "Ftrl"})",
     {"class_name", "'Ftrl'"}},
    {"UnknownFieldOfAnOptimizer",
     'o',
     R"({"class_name": "SGD", "config": {"momentun": 0.9}})",
     {"config", "'momentun'", "nearest known is 'momentum'"}},
    {"FieldOfAnotherOptimizer",
     'o',
     R"({"class_name": "SGD", "config": {"beta_1": 0.9}})",
     {"config", "unknown field 'beta_1'"}},
    {"UnknownFieldBesideTheConfig",
     'o',
     R"({"class_name": "SGD", "configs": {}})",
     {"'configs'", "nearest known is 'config'"}},
    {"NoClassName", 'o', R"({"config": {}})", {"class_name", "missing"}},
    {"ClassOfOnesOwn",
     'o',
     R"({"class_name": "Adam", "registered_name": "mine>Adam"})",
     {"registered_name", "mine>Adam"}},
    {"ConfigOfText",
     'o',
     R"({"class_name": "SGD", "config": "x"})",
     {"config", "must be an object"}},
    {"NegativeRate",
     'o',
     R"({"class_name": "SGD", "config": {"learning_rate": -1}})",
     {"config.learning_rate", "-1"}},
    {"RateOfText",
     'o',
     R"({"class_name": "SGD", "config": {"learning_rate": "fast"}})",
     {"config.learning_rate", "fast"}},
    {"MomentumOfTwo",
     'o',
     R"({"class_name": "SGD", "config": {"momentum": 2}})",
     {"config", "momentum"}},
    {"TwoClips",
     'o',
     R"({"class_name": "SGD", "config": {"clipnorm": 1, "clipvalue": 1}})",
     {"config", "clipnorm"}},
    {"ClipOfZero",
     'o',
     R"({"class_name": "SGD", "config": {"clipnorm": 0}})",
     {"config.clipnorm", "must be a number > 0, or null"}},
    {"Averages",
     'o',
     R"({"class_name": "SGD", "config": {"use_ema": true, "ema_momentum": 2}})",
     {"config.ema_momentum", "in [0, 1]"}},
    {"Accumulation",
     'o',
     R"({"class_name": "SGD", "config": {"gradient_accumulation_steps": 1}})",
     {"config.gradient_accumulation_steps", "is 1", "from 2"}},
    {"NegativeDecay",
     'o',
     R"({"class_name": "SGD", "config": {"decay": -0.1}})",
     {"config.decay", "is -0.1", ">= 0"}},
    {"DecayOfASchedule",
     'o',
     R"({"class_name": "SGD", "config": {"decay": 0.1, "learning_rate":
         {"class_name": "InverseTimeDecay",
          "config": {"initial_learning_rate": 1, "decay_steps": 1,
                     "decay_rate": 1}}}})",
     {"config.decay", "is 0.1", "schedule already"}},
    {"AdamWWithoutDecay",
     'o',
     R"({"class_name": "AdamW", "config": {"weight_decay": null}})",
     {"config.weight_decay", "null"}},
    {"UnknownSchedule",
     'o',
     R"({"class_name": "SGD", "config": {"learning_rate":
         {"class_name": "NoamDecay", "config": {}}}})",
     {"config.learning_rate.class_name", "'NoamDecay'"}},
    {"ScheduleWithoutSteps",
     'o',
     R"({"class_name": "SGD", "config": {"learning_rate":
         {"class_name": "ExponentialDecay",
          "config": {"initial_learning_rate": 1}}}})",
     {"config.learning_rate.config.decay_steps", "missing"}},
    {"StepsOfZero",
     'o',
     R"({"class_name": "SGD", "config": {"learning_rate":
         {"class_name": "CosineDecay",
          "config": {"initial_learning_rate": 1, "decay_steps": 0}}}})",
     {"config.learning_rate.config.decay_steps", "is 0"}},
    {"BoundariesThatFall",
     'o',
     R"({"class_name": "SGD", "config": {"learning_rate":
         {"class_name": "PiecewiseConstantDecay",
          "config": {"boundaries": [2, 1], "values": [1, 1, 1]}}}})",
     {"config.learning_rate.config.boundaries", "[2, 1]"}},
    {"ValuesTooFew",
     'o',
     R"({"class_name": "SGD", "config": {"learning_rate":
         {"class_name": "PiecewiseConstantDecay",
          "config": {"boundaries": [1, 2], "values": [1]}}}})",
     {"config.learning_rate.config.values", "one more"}},
    {"NullOptimizer", 'o', "null", {"null"}},
    {"NoText", 'o', "", {"line 1"}},
    {"UnknownLoss",
     'l',
     "mean_square_error",
     {"loss", "nearest known is 'mean_squared_error'"}},
    {"UnknownAverage",
     'm',
     R"({"class_name": "F1Score", "config": {"average": "samples"}})",
     {"config.average", "macro"}},
    {"ClassIdOfNoNumber",
     'm',
     R"({"class_name": "AUC", "config": {"class_id": "one"}})",
     {"config.class_id", "whole number"}},
    {"SeveralThresholds",
     'm',
     R"({"class_name": "Recall", "config": {"thresholds": [0.2, 0.5]}})",
     {"config.thresholds: is [0.2, 0.5]; must be a number in [0, 1]",
      "; for several thresholds give several metrics, each with its own "
      "name"}},
    {"LabelWeights",
     'm',
     R"({"class_name": "AUC", "config": {"label_weights": [1, 2]}})",
     {"config.label_weights", "null"}},
    {"NoLabels",
     'm',
     R"({"class_name": "AUC", "config": {"num_labels": 0}})",
     {"config.num_labels", "from 1"}},
    {"OtherCurve",
     'm',
     R"({"class_name": "AUC", "config": {"curve": "DET"}})",
     {"config.curve", "ROC"}},
    {"SparsePredictions",
     'm',
     R"({"class_name": "MeanIoU", "config": {"num_classes": 3,
                                              "sparse_y_pred": true}})",
     {"config.sparse_y_pred", "false"}},
    {"LossForEachOutput", 'l', R"(["mse", "mse"])", {"must be a name"}},
    {"Reduction",
     'l',
     R"({"class_name": "Hinge", "config": {"reduction": "avg"}})",
     {"config.reduction", "avg", "sum_over_batch_size"}},
    {"ReductionByWeights",
     'l',
     R"({"class_name": "Hinge",
         "config": {"reduction": "mean_with_sample_weight"}})",
     {"config.reduction", "weights", "sum_over_batch_size"}},
    {"NoReduction",
     'l',
     R"({"class_name": "Hinge", "config": {"reduction": "none"}})",
     {"config.reduction", "one number"}},
    {"AlphaOfEachClass",
     'l',
     R"({"class_name": "CategoricalFocalCrossentropy",
         "config": {"alpha": [0.25, 0.5]}})",
     {"config.alpha", "a number"}},
    {"CosineOverAnotherAxis",
     'l',
     R"({"class_name": "CosineSimilarity", "config": {"axis": 1}})",
     {"config.axis", "-1"}},
    {"IgnoredClass",
     'l',
     R"({"class_name": "SparseCategoricalCrossentropy",
         "config": {"ignore_class": 0.5}})",
     {"config.ignore_class", "whole number"}},
    {"LogitsOfText",
     'l',
     R"({"class_name": "BinaryCrossentropy", "config": {"from_logits": 1}})",
     {"config.from_logits", "true or false"}},
    {"LogitsOfALossWithout",
     'l',
     R"({"class_name": "Huber", "config": {"from_logits": true}})",
     {"unknown field 'from_logits'"}},
    {"Smoothing",
     'l',
     R"({"class_name": "BinaryCrossentropy",
         "config": {"label_smoothing": 1.5}})",
     {"config.label_smoothing", "1.5"}},
    {"Delta",
     'l',
     R"({"class_name": "Huber", "config": {"delta": 0}})",
     {"config.delta"}},
    {"LossAxis",
     'l',
     R"({"class_name": "CategoricalCrossentropy", "config": {"axis": 1}})",
     {"config.axis", "only -1"}},
    {"UnknownMetric",
     'm',
     "accurracy",
     {"metric", "nearest known is 'accuracy'"}},
    {"KerassClassAccuracy",
     'm',
     R"({"class_name": "Accuracy"})",
     {"class_name", "\"accuracy\""}},
    {"TopNone",
     'm',
     R"({"class_name": "SparseTopKCategoricalAccuracy", "config": {"k": 0}})",
     {"config.k", "is 0"}},
    {"ThresholdOfAMetricWithout",
     'm',
     R"({"class_name": "CategoricalAccuracy", "config": {"threshold": 1}})",
     {"unknown field 'threshold'"}},
    {"MetricDType",
     'm',
     R"({"class_name": "CategoricalAccuracy", "config": {"dtype": "float64"}})",
     {"config.dtype", "float64"}},
    {"MetricWithoutName",
     'm',
     R"({"class_name": "CategoricalAccuracy", "config": {"name": ""}})",
     {"config.name"}},
};

INSTANTIATE_TEST_SUITE_P(CompileJson, WrongCompileJsonTest,
                         testing::ValuesIn(kWrong), [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace ringlet
