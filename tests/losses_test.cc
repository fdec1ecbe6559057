#include "core/losses.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ringlet {
namespace {

struct Case {
  Loss loss;
  Shape output;
  std::vector<float> predictions;
  std::vector<float> targets;    // floats …
  std::vector<int32_t> classes;  // … or classes
};

std::vector<float> PerExample(const Case& c, std::vector<float>* gradient,
                              float scale = 1) {
  const int64_t count =
      static_cast<int64_t>(c.predictions.size()) / c.output.elements();
  std::vector<float> per(static_cast<size_t>(count));
  if (gradient != nullptr) gradient->assign(c.predictions.size(), 1e30f);
  const void* targets = c.loss.takes_classes()
                            ? static_cast<const void*>(c.classes.data())
                            : c.targets.data();
  ComputeLoss(c.loss, c.output, count, c.predictions.data(), targets, scale,
              per.data(), gradient == nullptr ? nullptr : gradient->data());
  return per;
}

double Sum(const std::vector<float>& v) {
  double sum = 0;
  for (float x : v) sum += x;
  return sum;
}

std::vector<Case> Cases() {
  const std::vector<float> logits = {0.3f, -1.2f, 2.1f, 0.7f, 0.1f, -0.4f};
  const std::vector<float> probabilities = {0.2f, 0.3f, 0.5f, 0.7f, 0.2f, 0.1f};
  const std::vector<float> unnormalised = {0.4f, 0.3f, 0.5f, 0.9f, 0.2f, 0.3f};
  const std::vector<float> one_hot = {0, 0, 1, 0, 1, 0};
  const std::vector<float> bits = {1, 0, 1, 0, 0.3f, 1};
  std::vector<Case> cases = {
      {SparseCategoricalCrossentropy(kFromLogits), {3}, logits, {}, {2, 0}},
      {SparseCategoricalCrossentropy(), {3}, probabilities, {}, {2, 1}},
      {SparseCategoricalCrossentropy(), {3}, unnormalised, {}, {0, 1}},
      {SparseCategoricalCrossentropy(kFromLogits), {2, 3}, logits, {}, {2, 0}},
      {CategoricalCrossentropy(kFromLogits), {3}, logits, one_hot, {}},
      {CategoricalCrossentropy(kFromLogits, 0.2f), {3}, logits, one_hot, {}},
      {CategoricalCrossentropy(), {3}, probabilities, one_hot, {}},
      {CategoricalCrossentropy(kFromProbabilities, 0.1f),
       {3},
       unnormalised,
       one_hot,
       {}},
      {BinaryCrossentropy(kFromLogits), {3}, logits, bits, {}},
      {BinaryCrossentropy(), {3}, probabilities, bits, {}},
      {BinaryCrossentropy(kFromProbabilities, 0.2f),
       {3},
       probabilities,
       bits,
       {}},
      {MeanSquaredError(), {3}, logits, bits, {}},
      {MeanAbsoluteError(), {3}, logits, bits, {}},
      {Huber(), {3}, logits, bits, {}},
      {Huber(0.5f), {2, 3}, logits, bits, {}},
  };
  return cases;
}

TEST(LossesTest, GradientsAgreeWithFiniteDifferences) {
  for (Case c : Cases()) {
    SCOPED_TRACE(c.loss.name());
    std::vector<float> gradient;
    PerExample(c, &gradient, 2.0f);
    for (size_t i = 0; i < c.predictions.size(); ++i) {
      const float h = 1e-3f, saved = c.predictions[i];
      c.predictions[i] = saved + h;
      const double up = Sum(PerExample(c, nullptr));
      c.predictions[i] = saved - h;
      const double down = Sum(PerExample(c, nullptr));
      c.predictions[i] = saved;
      EXPECT_NEAR(gradient[i], 2 * (up - down) / (2 * h), 5e-3) << i;
    }
  }
}

// Worked by hand from Keras's formulas.
TEST(LossesTest, ValuesAreKeras) {
  const auto value = [](const Case& c) { return PerExample(c, nullptr)[0]; };
  EXPECT_NEAR(
      value(
          {SparseCategoricalCrossentropy(), {3}, {0.1f, 0.8f, 0.1f}, {}, {1}}),
      0.22314355, 1e-6);
  // Keras's documentation: [[.05, .95, 0], [.1, .8, .1]] against classes 1, 2.
  EXPECT_NEAR(
      value({CategoricalCrossentropy(), {3}, {0.05f, 0.95f, 0}, {0, 1, 0}, {}}),
      0.05129331, 1e-6);
  EXPECT_NEAR(
      value(
          {CategoricalCrossentropy(), {3}, {0.1f, 0.8f, 0.1f}, {0, 0, 1}, {}}),
      2.3025851, 1e-5);
  // -18.6, 0.51, … against 0, 1, 0, 0 from logits: 0.8653 in the documentation
  // of BinaryCrossentropy (with 2.94 and -12.8).
  EXPECT_NEAR(value({BinaryCrossentropy(kFromLogits),
                     {4},
                     {-18.6f, 0.51f, 2.94f, -12.8f},
                     {0, 1, 0, 0},
                     {}}),
              0.8654, 1e-4);
  EXPECT_NEAR(value({MeanSquaredError(), {2}, {1, 1}, {0, 1}, {}}), 0.5, 1e-7);
  EXPECT_NEAR(value({MeanAbsoluteError(), {2}, {1, 3}, {0, 1}, {}}), 1.5, 1e-7);
  EXPECT_NEAR(value({Huber(), {2}, {0.6f, 3}, {0, 0}, {}}),
              (0.5 * 0.36 + 2.5) / 2, 1e-6);
}

TEST(LossesTest, ExtremeValuesStayFinite) {
  std::vector<float> d;
  for (float size : {100.0f, 1e4f, 1e30f}) {
    const Case sparse = {SparseCategoricalCrossentropy(kFromLogits),
                         {3},
                         {size, -size, 0},
                         {},
                         {1}};
    EXPECT_FLOAT_EQ(PerExample(sparse, &d)[0], 2 * size);
    EXPECT_FLOAT_EQ(d[0], 1);
    EXPECT_FLOAT_EQ(d[1], -1);
    const Case binary = {
        BinaryCrossentropy(kFromLogits), {2}, {size, -size}, {0, 1}, {}};
    EXPECT_FLOAT_EQ(PerExample(binary, &d)[0], size);
    EXPECT_FLOAT_EQ(d[0], 0.5f);
  }
  const Case zero = {SparseCategoricalCrossentropy(), {3}, {1, 0, 0}, {}, {1}};
  EXPECT_NEAR(PerExample(zero, &d)[0], 16.118, 1e-2);
  for (float v : d) EXPECT_EQ(v, 0);  // clipped: no slope
}

TEST(LossesTest, TheMeanIsTakenOverRowsOfAnExample) {
  const Case rows = {SparseCategoricalCrossentropy(kFromLogits),
                     {2, 2},
                     {1, 2, 3, 0},
                     {},
                     {0, 1}};
  const Case first = {
      SparseCategoricalCrossentropy(kFromLogits), {2}, {1, 2}, {}, {0}};
  const Case second = {
      SparseCategoricalCrossentropy(kFromLogits), {2}, {3, 0}, {}, {1}};
  EXPECT_FLOAT_EQ(
      PerExample(rows, nullptr)[0],
      (PerExample(first, nullptr)[0] + PerExample(second, nullptr)[0]) / 2);
}

TEST(LossesTest, OutputsThatDoNotFitAreRefused) {
  EXPECT_FALSE(CheckLossShape(SparseCategoricalCrossentropy(), {1}).ok());
  EXPECT_FALSE(CheckLossShape(CategoricalCrossentropy(), {}).ok());
  EXPECT_FALSE(CheckLossShape(BinaryCrossentropy(kFromLogits, 2), {1}).ok());
  EXPECT_FALSE(CheckLossShape(Huber(-1), {1}).ok());
  EXPECT_TRUE(CheckLossShape(BinaryCrossentropy(), {1}).ok());
}

}  // namespace
}  // namespace ringlet
