#include "core/model/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ringlet {
namespace {

double Value(const Metric& metric, const Shape& output,
             const std::vector<float>& predictions,
             const std::vector<float>& targets) {
  MetricState state;
  const Status updated =
      UpdateMetric(metric, output,
                   static_cast<int64_t>(predictions.size()) / output.elements(),
                   predictions.data(), targets.data(), &state);
  EXPECT_TRUE(updated.ok()) << updated.message();
  return state.Result();
}

double SparseValue(const Metric& metric, const Shape& output,
                   const std::vector<float>& predictions,
                   const std::vector<int32_t>& classes) {
  MetricState state;
  const Status updated =
      UpdateMetric(metric, output,
                   static_cast<int64_t>(predictions.size()) / output.elements(),
                   predictions.data(), classes.data(), &state);
  EXPECT_TRUE(updated.ok()) << updated.message();
  return state.Result();
}

TEST(MetricsTest, AccuracyResolvesAsKerasResolvesIt) {
  const auto kind = [](const Loss& loss, const Shape& output) {
    Metric m;
    EXPECT_TRUE(ResolveMetric(Accuracy(), loss, output, &m).ok());
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

TEST(MetricsTest, TargetsOfTheWrongSortAreRefused) {
  Metric m;
  EXPECT_FALSE(ResolveMetric(CategoricalAccuracy(),
                             SparseCategoricalCrossentropy(), {10}, &m)
                   .ok());
  EXPECT_FALSE(ResolveMetric(SparseTopKCategoricalAccuracy(),
                             MeanSquaredError(), {10}, &m)
                   .ok());
}

TEST(MetricsTest, ValuesAreKeras) {
  EXPECT_DOUBLE_EQ(SparseValue(SparseCategoricalAccuracy(), {3},
                               {0.1f, 0.6f, 0.3f, 0.05f, 0.95f, 0}, {2, 1}),
                   0.5);
  // Of equal predictions the first counts.
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

TEST(MetricsTest, NothingCountedIsZero) {
  EXPECT_EQ(MetricState().Result(), 0);
  Mean mean;
  mean.Update(2, 3);
  mean.Update(5);
  EXPECT_DOUBLE_EQ(mean.Result(), 11.0 / 4);
}

}  // namespace
}  // namespace ringlet
