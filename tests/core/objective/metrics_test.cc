#include "ringlet/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../../support/expect_ok.h"
#include "core/objective/metric_states.h"

namespace ringlet {
namespace {

double Value(const Metric& metric, const Shape& output,
             const std::vector<float>& predictions, const void* targets,
             const float* weights = nullptr) {
  std::vector<MetricState> states(
      static_cast<size_t>(NumStates(metric, output)));
  EXPECT_OK(
      UpdateMetric(metric, output,
                   static_cast<int64_t>(predictions.size()) / output.elements(),
                   predictions.data(), targets, states.data(), {weights}));
  return MetricResult(metric, states.data(),
                      static_cast<int64_t>(states.size()));
}

double Value(const Metric& metric, const Shape& output,
             const std::vector<float>& predictions,
             const std::vector<float>& targets,
             const std::vector<float>& weights = {}) {
  return Value(metric, output, predictions,
               static_cast<const void*>(targets.data()),
               weights.empty() ? nullptr : weights.data());
}

double SparseValue(const Metric& metric, const Shape& output,
                   const std::vector<float>& predictions,
                   const std::vector<int32_t>& classes) {
  MetricState state;
  EXPECT_OK(
      UpdateMetric(metric, output,
                   static_cast<int64_t>(predictions.size()) / output.elements(),
                   predictions.data(), classes.data(), &state));
  return state.Result();
}

TEST(MetricsTest, Accuracy_EachLoss_ResolvesAsInKeras) {
  const auto kind = [](const Loss& loss, const Shape& output) {
    Metric m;
    EXPECT_OK(ResolveMetric(Accuracy(), loss, output, &m));
    EXPECT_EQ(m.name, "accuracy");
    return m.kind;
  };
  EXPECT_EQ(kind(SparseCategoricalCrossentropy(), {10}),
            Metric::Kind::kSparseCategoricalAccuracy);
  EXPECT_EQ(kind(CategoricalCrossentropy(), {10}),
            Metric::Kind::kCategoricalAccuracy);
  EXPECT_EQ(kind(BinaryCrossentropy(), {1}), Metric::Kind::kBinaryAccuracy);
  EXPECT_EQ(kind(MeanSquaredError(), {4}), Metric::Kind::kCategoricalAccuracy);
}

TEST(MetricsTest, ResolveMetric_TargetsOfTheWrongKind_IsRefused) {
  Metric m;
  EXPECT_FALSE(ResolveMetric(CategoricalAccuracy(),
                             SparseCategoricalCrossentropy(), {10}, &m)
                   .ok());
  EXPECT_FALSE(ResolveMetric(SparseTopKCategoricalAccuracy(),
                             MeanSquaredError(), {10}, &m)
                   .ok());
}

TEST(MetricsTest, Values_CommonMetrics_EqualKeras) {
  EXPECT_DOUBLE_EQ(SparseValue(SparseCategoricalAccuracy(), {3},
                               {0.1f, 0.6f, 0.3f, 0.05f, 0.95f, 0}, {2, 1}),
                   0.5);
  // The first of equal predictions counts.
  EXPECT_DOUBLE_EQ(SparseValue(SparseCategoricalAccuracy(), {2},
                               {0.5f, 0.5f, 0.5f, 0.5f}, {0, 1}),
                   0.5);
  EXPECT_DOUBLE_EQ(
      Value(CategoricalAccuracy(), {3}, {0.1f, 0.9f, 0.8f, 0.05f, 0.95f, 0},
            {0, 0, 1, 0, 1, 0}),
      0.5);
  // Strictly above the threshold.
  EXPECT_DOUBLE_EQ(
      Value(BinaryAccuracy(), {1}, {0.98f, 0.5f, 0, 0.6f}, {1, 1, 0, 0}), 0.5);
  EXPECT_DOUBLE_EQ(
      Value(MeanSquaredErrorMetric(), {2}, {1, 1, 0, 0}, {0, 1, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(
      Value(MeanAbsoluteErrorMetric(), {2}, {1, 1, 0, 3}, {0, 1, 0, 0}), 1);
  const std::vector<float> p = {0.1f, 0.9f, 0.8f, 0.05f, 0.95f, 0};
  EXPECT_DOUBLE_EQ(
      SparseValue(SparseTopKCategoricalAccuracy(1), {3}, p, {2, 1}), 0.5);
  EXPECT_DOUBLE_EQ(
      SparseValue(SparseTopKCategoricalAccuracy(2), {3}, p, {2, 0}), 1);
  EXPECT_DOUBLE_EQ(
      SparseValue(SparseTopKCategoricalAccuracy(5), {2}, {NAN, 1}, {0}), 0);
}

// Each step of a sequence counts, with its own weight or its example's.
TEST(MetricsTest, TopK_OfSteps_CountsEachStep) {
  const std::vector<float> p = {0.5f, 0.3f, 0.2f, 0.1f, 0.7f, 0.2f,
                                0.2f, 0.3f, 0.5f, 0.6f, 0.3f, 0.1f};
  const std::vector<float> one_hot = {0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1};
  const std::vector<int32_t> classes = {1, 0, 2, 2};
  const std::vector<float> weights = {1, 2, 0.5f, 4};
  // The places of the targets: 2, 3, 1, 3.
  const double by_row[] = {0.5 / 7.5, 1.5 / 7.5, 1};
  const double by_example[] = {2.0 / 6, 3.0 / 6, 1};
  const double plain[] = {0.25, 0.5, 1};
  for (int k = 1; k <= 3; ++k) {
    for (const bool sparse : {true, false}) {
      SCOPED_TRACE(sparse);
      const Metric metric = sparse ? SparseTopKCategoricalAccuracy(k)
                                   : TopKCategoricalAccuracy(k);
      const void* const targets =
          sparse ? static_cast<const void*>(classes.data()) : one_hot.data();
      const auto value = [&](const ExampleWeights& w) {
        MetricState state;
        EXPECT_OK(
            UpdateMetric(metric, {2, 3}, 2, p.data(), targets, &state, w));
        return state.Result();
      };
      EXPECT_DOUBLE_EQ(value({}), plain[k - 1]);
      EXPECT_DOUBLE_EQ(value({weights.data()}), by_example[k - 1]);
      EXPECT_DOUBLE_EQ(value({weights.data(), 2}), by_row[k - 1]);
    }
  }
}

// The values are from Keras's documentation.
TEST(MetricsTest, Values_OtherMetrics_EqualKeras) {
  const std::vector<float> t = {0, 1, 1, 1}, p = {1, 0, 1, 1};
  EXPECT_NEAR(Value(Precision(), {1}, p, t), 2.0 / 3, 1e-6);
  EXPECT_NEAR(Value(Precision(), {1}, p, t, {0, 0, 1, 0}), 1, 1e-6);
  EXPECT_NEAR(Value(Recall(), {1}, p, t), 2.0 / 3, 1e-6);
  EXPECT_NEAR(Value(Recall(), {1}, p, t, {0, 0, 1, 0}), 1, 1e-6);
  EXPECT_NEAR(Value(Precision().TopK(2), {4}, {1, 0, 1, 1}, {0, 0, 1, 1}), 0.5,
              1e-6);
  EXPECT_NEAR(Value(Precision().TopK(4), {4}, {1, 0, 1, 1}, {0, 0, 1, 1}), 0.5,
              1e-6);
  EXPECT_NEAR(Value(Recall().ClassId(1), {2}, {0, 1, 0, 0}, {0, 1, 0, 1}), 0.5,
              1e-6);
  EXPECT_EQ(Value(TruePositives(), {1}, p, t), 2);
  EXPECT_EQ(Value(TruePositives(), {1}, p, t, {0, 0, 1, 0}), 1);
  EXPECT_EQ(Value(FalsePositives(), {1}, p, t), 1);
  EXPECT_EQ(Value(FalseNegatives(), {1}, p, t), 1);
  EXPECT_EQ(Value(TrueNegatives(), {1}, {1, 0, 0, 0}, {0, 0, 0, 1}), 2);
  const std::vector<float> a = {0, 0, 1, 1}, scores = {0, 0.5f, 0.3f, 0.9f};
  EXPECT_NEAR(Value(AUC(3), {1}, scores, a), 0.75, 1e-6);
  EXPECT_NEAR(Value(AUC(3), {1}, scores, a, {1, 0, 0, 1}), 1, 1e-6);
  EXPECT_NEAR(Value(RootMeanSquaredError(), {2}, {1, 1, 0, 0}, {0, 1, 0, 0}),
              0.5, 1e-6);
  EXPECT_NEAR(Value(MetricOf(Metric::Kind::kCosineSimilarity), {2},
                    {1, 0, 1, 1}, {0, 1, 1, 1}),
              0.5, 1e-6);
  EXPECT_NEAR(Value(MetricOf(Metric::Kind::kLogCoshError), {2}, {1, 1, 0, 0},
                    {0, 1, 0, 0}),
              0.10844523, 1e-6);
  EXPECT_NEAR(Value(R2Score(), {1}, {1, 4, 3}, {1, 4, 3}), 1, 1e-9);
  EXPECT_NEAR(Value(R2Score(), {1}, {2.5f, 0, 2, 8}, {3, -0.5f, 2, 7}),
              0.9486081, 1e-6);
  const std::vector<float> truth = {1, 1, 1, 1, 0, 0, 1, 1, 0};
  const std::vector<float> guess = {0.2f, 0.6f, 0.7f, 0.2f, 0.6f,
                                    0.6f, 0.6f, 0.8f, 0};
  EXPECT_NEAR(Value(F1Score(Metric::kMacro, 0.5f), {3}, guess, truth),
              (0.5 + 0.8 + 2.0 / 3) / 3, 1e-6);
  EXPECT_NEAR(Value(F1Score(Metric::kMicro, 0.5f), {3}, guess, truth),
              2.0 * 4 / (2 * 4 + 2 + 2), 1e-6);
  EXPECT_NEAR(Value(F1Score(Metric::kWeighted, 0.5f), {3}, guess, truth),
              (3 * 0.5 + 2 * 0.8 + 2.0 / 3) / 6, 1e-6);
  const std::vector<float> two = {0.2f, 0.8f, 0.9f, 0.1f,
                                  0.4f, 0.6f, 0.7f, 0.3f};  // 1, 0, 1, 0
  const std::vector<int32_t> classes = {1, 0, 0, 0};
  // Class 0 has 2 of 3, and class 1 has 1 of 2.
  EXPECT_NEAR(Value(MeanIoU(2), {2}, two, classes.data()), (2.0 / 3 + 0.5) / 2,
              1e-6);
  EXPECT_NEAR(Value(OneHotMeanIoU(2), {2}, two, {0, 1, 1, 0, 1, 0, 1, 0}),
              (2.0 / 3 + 0.5) / 2, 1e-6);
  // A class without an example does not count.
  EXPECT_NEAR(Value(MeanIoU(3), {2}, two, classes.data()), (2.0 / 3 + 0.5) / 2,
              1e-6);
  EXPECT_DOUBLE_EQ(
      Value(TopKCategoricalAccuracy(1), {3},
            {0.1f, 0.9f, 0.8f, 0.05f, 0.95f, 0}, {0, 0, 1, 0, 1, 0}),
      0.5);
}

// Each threshold counted by itself, as Keras does where they are not even.
double PlainAuc(const Metric& metric, const std::vector<float>& p,
                const std::vector<float>& t, const std::vector<float>& w) {
  const int n = metric.num_thresholds;
  std::vector<double> x, y, tps, ps;
  double positives = 0;
  for (int i = 0; i < n; ++i) {
    const float at = i == 0       ? -1e-7f
                     : i == n - 1 ? 1 + 1e-7f
                                  : float(i) / (n - 1);
    double tp = 0, fp = 0, fn = 0, tn = 0;
    for (size_t j = 0; j < p.size(); ++j) {
      const bool above = p[j] > at;
      (t[j] != 0 ? (above ? tp : fn) : (above ? fp : tn)) += w[j];
    }
    const auto ratio = [](double a, double b) { return b == 0 ? 0 : a / b; };
    const bool pr = metric.curve == Metric::kPrecisionRecall;
    x.push_back(pr ? ratio(tp, tp + fn) : ratio(fp, fp + tn));
    y.push_back(pr ? ratio(tp, tp + fp) : ratio(tp, tp + fn));
    tps.push_back(tp);
    ps.push_back(tp + fp);
    positives = tp + fn;
  }
  double sum = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i) {
    if (metric.curve == Metric::kPrecisionRecall &&
        metric.summation == Metric::kInterpolation) {
      const double dp = ps[i] - ps[i + 1], dtp = tps[i] - tps[i + 1];
      const double slope = dp > 0 ? dtp / dp : 0;
      const double cut = tps[i + 1] - slope * ps[i + 1];
      const double log =
          ps[i] > 0 && ps[i + 1] > 0 ? std::log(ps[i] / ps[i + 1]) : 0;
      sum += slope * (dtp + cut * log) / positives;
      continue;
    }
    const double height =
        metric.summation == Metric::kInterpolation ? (y[i] + y[i + 1]) / 2
        : metric.summation == Metric::kMinoring    ? std::min(y[i], y[i + 1])
                                                   : std::max(y[i], y[i + 1]);
    sum += (x[i] - x[i + 1]) * height;
  }
  return sum;
}

TEST(MetricsTest, Auc_RandomBuckets_EqualsThatOfCounts) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    Metric metric = AUC(2 + static_cast<int>(random() % 300),
                        random() % 2 ? Metric::kROC : Metric::kPrecisionRecall,
                        static_cast<Metric::Summation>(random() % 3));
    std::vector<float> p, t, w;
    const size_t count = 2 + random() % 200;
    for (size_t j = 0; j < count; ++j) {
      // No prediction is on a threshold, where rounding in float32 decides.
      const auto bucket = static_cast<float>(
          random() % static_cast<unsigned>(metric.num_thresholds - 1));
      p.push_back((bucket + 0.5f) /
                  static_cast<float>(metric.num_thresholds - 1));
      t.push_back(static_cast<float>(j < 2 ? j : random() % 2));
      w.push_back(static_cast<float>(random() % 4) * 0.5f);
    }
    w[0] = w[1] = 1;
    EXPECT_NEAR(Value(metric, {1}, p, t, w), PlainAuc(metric, p, t, w), 1e-9)
        << i;
  }
}

// The examples of Keras's documentation. Of the three classes 1, 3 and 2
// examples are predicted, 1, 2 and 1 of them rightly, and 3, 2 and 1 are
// actual.
TEST(MetricsTest, FScore_EachClass_IsLoggedByTheNumberOfTheClass) {
  const std::vector<float> truth = {1, 1, 1, 1, 0, 0, 1, 1, 0};
  const std::vector<float> guess = {0.2f, 0.6f, 0.7f, 0.2f, 0.6f,
                                    0.6f, 0.6f, 0.8f, 0};
  using Named = std::vector<std::pair<std::string, double>>;
  const auto expect = [&](const Metric& metric, const Named& expected) {
    Metric resolved;
    ASSERT_OK(ResolveMetric(metric, MeanSquaredError(), {3}, &resolved));
    const std::vector<Metric> logged = LoggedMetrics(resolved, {3});
    ASSERT_EQ(logged.size(), expected.size());
    for (size_t i = 0; i < logged.size(); ++i) {
      EXPECT_EQ(logged[i].name, expected[i].first);
      EXPECT_NEAR(Value(logged[i], {3}, guess, truth), expected[i].second,
                  1e-6);
    }
  };
  expect(F1Score(Metric::kEachClass, 0.5f),
         {{"f1_score_0", 0.5}, {"f1_score_1", 0.8}, {"f1_score_2", 2.0 / 3}});
  expect(FBetaScore(Metric::kEachClass, 2, 0.5f).Name("f2"),
         {{"f2_0", 5.0 / 13}, {"f2_1", 10.0 / 11}, {"f2_2", 5.0 / 6}});
  expect(F1Score(Metric::kEachClass, 0.5f).ClassId(1), {{"f1_score", 0.8}});
  expect(F1Score(Metric::kMacro, 0.5f).ClassId(0), {{"f1_score", 0.5}});
  expect(F1Score(Metric::kMacro, 0.5f),
         {{"f1_score", (0.5 + 0.8 + 2.0 / 3) / 3}});
}

TEST(MetricsTest, Auc_OfClasses_EqualsThatOfTheirColumns) {
  std::mt19937 random(5);
  constexpr size_t kRows = 50, kClasses = 3;
  std::vector<float> p, t, w, columns[2][kClasses];
  for (size_t r = 0; r < kRows; ++r) {
    w.push_back(static_cast<float>(random() % 4) * 0.5f);
    for (size_t c = 0; c < kClasses; ++c) {
      // Between two thresholds, where rounding does not decide.
      const float predicted = static_cast<float>(random() % 19 + 0.5f) / 19;
      // Class 2 has no example.
      const auto actual = static_cast<float>(c == 2 ? 0 : random() % 2);
      for (auto* list : {&p, &columns[0][c]}) list->push_back(predicted);
      for (auto* list : {&t, &columns[1][c]}) list->push_back(actual);
    }
  }
  for (const Metric::Curve curve : {Metric::kROC, Metric::kPrecisionRecall}) {
    for (const auto summation :
         {Metric::kInterpolation, Metric::kMinoring, Metric::kMajoring}) {
      const Metric auc = AUC(20, curve, summation);
      double sum = 0;
      for (size_t c = 0; c < kClasses; ++c) {
        const double alone = Value(auc, {1}, columns[0][c], columns[1][c], w);
        const int id = static_cast<int>(c);
        EXPECT_DOUBLE_EQ(Value(Metric(auc).ClassId(id), {3}, p, t, w), alone);
        if (c < 2) {
          EXPECT_NEAR(alone, PlainAuc(auc, columns[0][c], columns[1][c], w),
                      1e-9);
        }
        sum += alone;
      }
      EXPECT_NEAR(Value(Metric(auc).MultiLabel(), {3}, p, t, w), sum / 3,
                  1e-12);
    }
  }
}

// A class number means a row of zeros with a one.
TEST(MetricsTest, Classes_OfClassNumbers_HaveTheValuesOfOneHot) {
  std::mt19937 random(9);
  const Shape output = {3};
  for (const size_t rows : {1, 32, 100}) {
    std::vector<float> p(3 * rows), t(3 * rows, 0), w(rows);
    std::vector<int32_t> classes(rows);
    for (float& x : p) x = static_cast<float>(random() % 1000) / 1000;
    for (size_t i = 0; i < rows; ++i) {
      classes[i] = static_cast<int32_t>(random() % 3);
      t[3 * i + static_cast<size_t>(classes[i])] = 1;
      w[i] = static_cast<float>(random() % 4) * 0.5f;
    }
    for (const Metric& metric :
         {F1Score(), F1Score().ClassId(2), FBetaScore(Metric::kMacro, 2),
          AUC(20), AUC(20).ClassId(1), AUC(20).MultiLabel(), Precision(),
          Recall(), Precision().ClassId(0), TruePositives(), TrueNegatives(),
          FalsePositives(), FalseNegatives()}) {
      SCOPED_TRACE(metric.name);
      Metric number_metric, value_metric;
      ASSERT_OK(ResolveMetric(metric, SparseCategoricalCrossentropy(), output,
                              &number_metric));
      ASSERT_OK(ResolveMetric(metric, CategoricalCrossentropy(), output,
                              &value_metric));
      const auto value = [&](const Metric& m, const void* targets) {
        std::vector<MetricState> states(
            static_cast<size_t>(NumStates(m, output)));
        UpdateMetric(m, output, static_cast<int64_t>(rows), p.data(), targets,
                     states.data(), {w.data()})
            .IgnoreError();
        return MetricResult(m, states.data(),
                            static_cast<int64_t>(states.size()));
      };
      EXPECT_EQ(value(number_metric, classes.data()),
                value(value_metric, t.data()));
    }
  }
}

// The examples are in several pieces, as on several workers.
TEST(MetricsTest, States_OfSeveralParts_AddUp) {
  std::mt19937 random(3);
  const Shape output = {3};
  std::vector<float> p(3 * 40), t(3 * 40, 0), w(40);
  std::vector<int32_t> classes(40);
  for (float& x : p) x = static_cast<float>(random() % 1000) / 1000;
  for (size_t i = 0; i < 40; ++i) {
    classes[i] = static_cast<int32_t>(random() % 3);
    t[3 * i + static_cast<size_t>(classes[i])] = 1;
    w[i] = static_cast<float>(random() % 4) * 0.5f;
  }
  for (int kind = 1; kind < static_cast<int>(Metric::Kind::kCustom); ++kind) {
    Metric metric = MetricOf(static_cast<Metric::Kind>(kind));
    metric.num_classes = 3;
    SCOPED_TRACE(metric.name);
    const Loss loss = SparseCategoricalCrossentropy();
    Metric resolved;
    const bool sparse = ResolveMetric(metric, loss, output, &resolved).ok();
    if (sparse) metric = resolved;
    const auto states = static_cast<size_t>(NumStates(metric, output));
    const auto add = [&](int64_t from, int64_t to,
                         std::vector<MetricState>* sums) {
      std::vector<MetricState> part(states);
      const void* targets =
          sparse ? static_cast<const void*>(&classes[from]) : &t[3 * from];
      ASSERT_OK(UpdateMetric(metric, output, to - from, &p[3 * from], targets,
                             part.data(), {&w[from]}));
      AddMetrics(part.data(), sums);
    };
    std::vector<MetricState> whole(states), pieces(states);
    add(0, 40, &whole);
    for (int64_t i = 0; i < 40; i += 8) add(i, i + 8, &pieces);
    const double value =
        MetricResult(metric, whole.data(), static_cast<int64_t>(states));
    EXPECT_NEAR(
        value,
        MetricResult(metric, pieces.data(), static_cast<int64_t>(states)),
        1e-12 * std::max(1.0, std::fabs(value)));
    EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(MetricsTest, ResolveMetric_SettingsDoNotFit_IsRefused) {
  Metric m;
  const Loss dense = MeanSquaredError();
  const Loss sparse = SparseCategoricalCrossentropy();
  EXPECT_FALSE(ResolveMetric(Precision().ClassId(4), dense, {4}, &m).ok());
  EXPECT_OK(ResolveMetric(Precision().ClassId(3), dense, {4}, &m));
  EXPECT_FALSE(ResolveMetric(Precision(1.5f), dense, {4}, &m).ok());
  EXPECT_FALSE(ResolveMetric(AUC(1), dense, {4}, &m).ok());
  EXPECT_FALSE(ResolveMetric(AUC(1 << 20), dense, {4}, &m).ok());
  EXPECT_OK(ResolveMetric(AUC(), sparse, {4}, &m));
  EXPECT_FALSE(ResolveMetric(R2Score(), sparse, {4}, &m).ok());
  EXPECT_FALSE(ResolveMetric(MeanIoU(3), sparse, {4}, &m).ok());
  EXPECT_OK(ResolveMetric(MeanIoU(4), sparse, {4}, &m));
  EXPECT_FALSE(ResolveMetric(MeanIoU(4), dense, {4}, &m).ok());
  EXPECT_OK(ResolveMetric(OneHotMeanIoU(4), dense, {4}, &m));
  EXPECT_FALSE(ResolveMetric(F1Score(Metric::kMacro), dense, {2, 4}, &m).ok());
  EXPECT_FALSE(ResolveMetric(TopKCategoricalAccuracy(0), dense, {4}, &m).ok());
  EXPECT_OK(ResolveMetric(F1Score(), dense, {100}, &m));
  EXPECT_FALSE(ResolveMetric(F1Score(), dense, {101}, &m).ok());
  EXPECT_OK(ResolveMetric(F1Score().ClassId(100), dense, {101}, &m));
  EXPECT_FALSE(ResolveMetric(F1Score().ClassId(4), dense, {4}, &m).ok());
  EXPECT_FALSE(ResolveMetric(AUC().ClassId(4), dense, {4}, &m).ok());
  EXPECT_OK(ResolveMetric(AUC().MultiLabel(), dense, {4}, &m));
  EXPECT_FALSE(ResolveMetric(AUC().MultiLabel(), dense, {2, 4}, &m).ok());
  EXPECT_FALSE(ResolveMetric(AUC().MultiLabel(), dense, {400}, &m).ok());
  Metric auc = AUC().MultiLabel();
  auc.num_labels = 3;
  EXPECT_FALSE(ResolveMetric(auc, dense, {4}, &m).ok());
  EXPECT_FALSE(
      ResolveMetric(AUC().MultiLabel().ClassId(1), dense, {4}, &m).ok());
}

TEST(MetricsTest, MetricState_NothingCounted_IsZero) {
  EXPECT_EQ(MetricState().Result(), 0);
  Mean mean;
  mean.Update(2, 3);
  mean.Update(5);
  EXPECT_DOUBLE_EQ(mean.Result(), 11.0 / 4);
}

}  // namespace
}  // namespace ringlet
