// ignore_class of the loss and of metrics.

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "core/model/fingerprint.h"
#include "core/objective/batch_loss.h"
#include "core/objective/metric_states.h"
#include "core/objective/metric_table.h"
#include "ringlet/losses.h"
#include "ringlet/metrics.h"

namespace ringlet {
namespace {

// Three examples of two rows of three values.
const Shape kRows = {2, 3};
const std::vector<float> kLogits = {0.3f, -1.2f, 2.1f,  0.7f, 0.1f,  -0.4f,
                                    1.5f, 0.2f,  -0.3f, 0.4f, -2.0f, 0.9f,
                                    0.8f, 0.6f,  0.1f,  2.5f, -0.1f, 0.5f};
const std::vector<float> kExampleWeights = {0.5f, 2, 1.5f};

struct Result {
  std::vector<float> losses, gradient;
};

Result Compute(const Loss& loss, const std::vector<float>& logits,
               const std::vector<int32_t>& classes, float scale = 1,
               const float* weights = nullptr) {
  Result result;
  result.losses.resize(classes.size() / 2);
  result.gradient.assign(logits.size(), NAN);
  EXPECT_OK(ComputeLoss(loss, kRows, static_cast<int64_t>(classes.size() / 2),
                        logits.data(), classes.data(), scale,
                        result.losses.data(), result.gradient.data(),
                        {weights}));
  return result;
}

double MinusLogSoftmax(const float* z, int32_t label) {
  double sum = 0;
  for (int j = 0; j < 3; ++j) sum += std::exp(double{z[j]} - z[label]);
  return std::log(sum);
}

// Keras: sum(loss * weight) / the number of valid rows.
TEST(IgnoreClassTest, Loss_SomeRowsIgnored_IsTheMeanOfTheOthers) {
  for (const int ignored : {-1, 255, 1}) {
    SCOPED_TRACE(ignored);
    const std::vector<int32_t> classes = {2, ignored, 0, 2, ignored, ignored};
    double expected = 0;
    for (const int r : {0, 2, 3}) {
      const auto at = static_cast<size_t>(r);
      expected += double{kExampleWeights[at / 2]} *
                  MinusLogSoftmax(&kLogits[at * 3], classes[at]);
    }
    const Loss loss = SparseCategoricalCrossentropy(kFromLogits, ignored);
    const Result result =
        Compute(loss, kLogits, classes, 1, kExampleWeights.data());
    double mean = 0;
    for (const float each : result.losses) mean += each / 3;
    EXPECT_NEAR(mean, expected / 3, 1e-6);
    EXPECT_EQ(result.losses[2], 0);
    for (const size_t r : {1, 4, 5}) {
      for (size_t j = 0; j < 3; ++j) EXPECT_EQ(result.gradient[r * 3 + j], 0);
    }
  }
}

TEST(IgnoreClassTest, Gradient_SomeRowsIgnored_AgreesWithDifferences) {
  const std::vector<int32_t> classes = {2, -1, 0, 2, -1, -1};
  for (const LossReduction reduction :
       {LossReduction::kSumOverBatchSize, LossReduction::kSum}) {
    const Loss loss =
        SparseCategoricalCrossentropy(kFromLogits, -1).Reduction(reduction);
    const Result result =
        Compute(loss, kLogits, classes, 2, kExampleWeights.data());
    for (size_t i = 0; i < kLogits.size(); ++i) {
      const auto sum = [&](float h) {
        std::vector<float> logits = kLogits;
        logits[i] += h;
        double total = 0;
        for (const float each :
             Compute(loss, logits, classes, 2, kExampleWeights.data()).losses) {
          total += each;
        }
        return total;
      };
      EXPECT_NEAR(result.gradient[i], 2 * (sum(1e-2f) - sum(-1e-2f)) / 2e-2,
                  1e-3)
          << i;
    }
  }
}

TEST(IgnoreClassTest, Loss_NoRowIgnored_HasTheBitsOfOneWithout) {
  const std::vector<int32_t> classes = {2, 1, 0, 2, 1, 0};
  const Result with = Compute(SparseCategoricalCrossentropy(kFromLogits, -1),
                              kLogits, classes, 0.25f);
  const Result without = Compute(SparseCategoricalCrossentropy(kFromLogits),
                                 kLogits, classes, 0.25f);
  EXPECT_EQ(with.losses, without.losses);
  EXPECT_EQ(with.gradient, without.gradient);
}

TEST(IgnoreClassTest, Loss_AllRowsIgnoredAndNotFinite_IsZero) {
  const std::vector<int32_t> classes(6, 7);
  const std::vector<float> logits(18, NAN);
  const Result result =
      Compute(SparseCategoricalCrossentropy(kFromLogits, 7), logits, classes);
  EXPECT_EQ(result.losses, std::vector<float>(3, 0));
  EXPECT_EQ(result.gradient, std::vector<float>(18, 0));
}

TEST(IgnoreClassTest, Fingerprint_IgnoreClass_IsCompared) {
  const auto text = [](const Loss& loss) {
    Fingerprint f;
    AddLoss(loss, "", &f);
    return f.text();
  };
  const std::string none = text(SparseCategoricalCrossentropy());
  const std::string one =
      text(SparseCategoricalCrossentropy(kFromProbabilities, -1));
  EXPECT_NE(none, one);
  EXPECT_NE(one, text(SparseCategoricalCrossentropy(kFromProbabilities, 0)));
  EXPECT_NE(DescribeMetric(MeanIoU(3)),
            DescribeMetric(MeanIoU(3).IgnoreClass(0)));
}

double Value(const Metric& metric, const std::vector<int32_t>& classes,
             const float* weights = nullptr) {
  std::vector<MetricState> states(
      static_cast<size_t>(NumStates(metric, kRows)));
  EXPECT_OK(UpdateMetric(metric, kRows, 3, kLogits.data(), classes.data(),
                         states.data(), {weights}));
  return MetricResult(metric, states.data(),
                      static_cast<int64_t>(states.size()));
}

// Keras's Mean multiplies weights by the mask of the valid rows. Without
// weights the ignored rows count as 0.
TEST(IgnoreClassTest, CrossentropyMetric_SomeRowsIgnored_EqualsKeras) {
  const std::vector<int32_t> classes = {2, -1, 0, 2, -1, -1};
  const Metric metric = MetricOf(Metric::Kind::kSparseCategoricalCrossentropy)
                            .FromLogits()
                            .IgnoreClass(-1);
  const double a = MinusLogSoftmax(&kLogits[0], 2),
               b = MinusLogSoftmax(&kLogits[6], 0),
               c = MinusLogSoftmax(&kLogits[9], 2);
  EXPECT_NEAR(Value(metric, classes), (a + b + c) / 6, 1e-6);
  EXPECT_NEAR(Value(metric, classes, kExampleWeights.data()),
              (0.5 * a + 2 * b + 2 * c) / 4.5, 1e-6);
}

// An accuracy has no ignored class, so such a target never counts as right.
TEST(IgnoreClassTest, Accuracies_TargetOutsideTheClasses_IsWrong) {
  const std::vector<int32_t> classes = {2, -1, 0, 255, -1, 0};
  EXPECT_DOUBLE_EQ(Value(SparseCategoricalAccuracy(), classes), 3.0 / 6);
  EXPECT_DOUBLE_EQ(Value(SparseTopKCategoricalAccuracy(1), classes), 3.0 / 6);
  EXPECT_DOUBLE_EQ(Value(SparseTopKCategoricalAccuracy(3), classes), 3.0 / 6);
}

TEST(IgnoreClassTest, MeanIoU_TargetIgnoredOrOutside_IsNotCounted) {
  // The largest logits: 2, 0, 0, 2, 0, 0.
  EXPECT_DOUBLE_EQ(Value(MeanIoU(3), {2, -1, 0, 255, -1, 0}), 1);
  EXPECT_DOUBLE_EQ(Value(MeanIoU(3), {2, 1, 0, 1, 2, 0}), (0.5 + 1.0 / 3) / 3);
  EXPECT_DOUBLE_EQ(Value(MeanIoU(3).IgnoreClass(1), {2, 1, 0, 1, 2, 0}),
                   (0.5 + 2.0 / 3) / 2);
}

// The value of a metric for 6 examples of one row of 3 probabilities, without
// the examples of class `left_out`.
double ValueOfOneRow(const Metric& metric, const std::vector<int32_t>& classes,
                     const std::vector<float>& each_weight,
                     std::optional<int> left_out) {
  const Shape output = {3};
  std::vector<float> p, weights;
  std::vector<int32_t> targets;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (left_out && classes[i] == *left_out) continue;
    targets.push_back(classes[i]);
    weights.push_back(each_weight[i]);
    for (size_t j = 0; j < 3; ++j) {
      p.push_back(1 / (1 + std::exp(-kLogits[3 * i + j])));
    }
  }
  std::vector<MetricState> states(
      static_cast<size_t>(NumStates(metric, output)));
  EXPECT_OK(UpdateMetric(metric, output, static_cast<int64_t>(targets.size()),
                         p.data(), targets.data(), states.data(),
                         {metric.weighted ? weights.data() : nullptr}));
  return MetricResult(metric, states.data(),
                      static_cast<int64_t>(states.size()));
}

// Keras refuses class numbers for these metrics.
TEST(IgnoreClassTest, MetricsOfTheLoss_TargetIgnored_IsNotCounted) {
  const Shape output = {3};
  const std::vector<float> weights = {0.5f, 2, 1.5f, 1, 3, 0.25f};
  int found = 0;
  for (const MetricClass& c : AllMetrics()) {
    if (c.targets != MetricTargets::kOfLoss) continue;
    ++found;
    const auto kind = static_cast<Metric::Kind>(&c - AllMetrics().begin());
    for (const int ignored : {-1, 255, 1}) {
      for (const bool weighted : {false, true}) {
        SCOPED_TRACE(std::string(c.name) + " " + std::to_string(ignored));
        Metric metric = MetricOf(kind), resolved, full_metric;
        metric.weighted = weighted;
        ASSERT_OK(ResolveMetric(
            metric, SparseCategoricalCrossentropy(kFromProbabilities, ignored),
            output, &resolved));
        ASSERT_OK(ResolveMetric(metric, SparseCategoricalCrossentropy(), output,
                                &full_metric));
        const std::vector<int32_t> classes = {2, ignored, 0, 2, ignored, 0};
        EXPECT_EQ(ValueOfOneRow(resolved, classes, weights, std::nullopt),
                  ValueOfOneRow(full_metric, classes, weights, ignored));
      }
    }
  }
  EXPECT_EQ(found, 9);
}

TEST(IgnoreClassTest, ResolveMetric_CrossentropyWithoutTheClass_IsRefused) {
  const Metric metric = MetricOf(Metric::Kind::kSparseCategoricalCrossentropy);
  Metric resolved;
  const auto resolve = [&](const Metric& asked, int ignored) {
    return ResolveMetric(asked,
                         SparseCategoricalCrossentropy(kFromLogits, ignored),
                         kRows, &resolved);
  };
  EXPECT_OK(resolve(metric, 2));  // one of the classes
  EXPECT_TRUE(Contains(resolve(metric, 3), "ignore_class 3"));
  EXPECT_TRUE(Contains(resolve(Metric(metric).IgnoreClass(0), -1),
                       "the same ignore_class"));
  EXPECT_OK(resolve(Metric(metric).IgnoreClass(-1), -1));
  EXPECT_OK(resolve(SparseCategoricalAccuracy(), -1));
}

}  // namespace
}  // namespace ringlet
