#include "ringlet/losses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "core/objective/batch_loss.h"

namespace ringlet {
namespace {

struct Case {
  Loss loss;
  Shape output;
  std::vector<float> predictions;
  std::vector<float> targets;    // for losses that take floats
  std::vector<int32_t> classes;  // for losses that take classes
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
  EXPECT_OK(ComputeLoss(c.loss, c.output, count, c.predictions.data(), targets,
                        scale, per.data(),
                        gradient == nullptr ? nullptr : gradient->data()));
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
      {BinaryFocalCrossentropy(), {3}, probabilities, bits, {}},
      {BinaryFocalCrossentropy(/*apply_class_balancing=*/true, 0.3f, 1.5f,
                               kFromProbabilities, 0.1f),
       {2, 3},
       probabilities,
       bits,
       {}},
      {BinaryFocalCrossentropy(/*apply_class_balancing=*/true, 0.25f, 2,
                               kFromLogits),
       {3},
       logits,
       bits,
       {}},
      {BinaryFocalCrossentropy(/*apply_class_balancing=*/false, 0.25f, 0.5f,
                               kFromLogits),
       {3},
       logits,
       bits,
       {}},
      {CategoricalFocalCrossentropy(), {3}, unnormalised, one_hot, {}},
      {CategoricalFocalCrossentropy(0.6f, 3, kFromProbabilities, 0.2f),
       {2, 3},
       probabilities,
       one_hot,
       {}},
      {CategoricalFocalCrossentropy(0.25f, 2, kFromLogits),
       {3},
       logits,
       one_hot,
       {}},
      {KLDivergence(), {3}, probabilities, unnormalised, {}},
      {Poisson(), {3}, probabilities, bits, {}},
      {MeanAbsolutePercentageError(), {3}, logits, unnormalised, {}},
      {MeanSquaredLogarithmicError(), {3}, probabilities, bits, {}},
      {CosineSimilarity(), {3}, logits, unnormalised, {}},
      {LogCosh(), {2, 3}, logits, bits, {}},
      {Hinge(), {3}, logits, one_hot, {}},
      {SquaredHinge(), {3}, logits, {-1, 1, 1, 1, -1, -1}, {}},
      {CategoricalHinge(), {3}, logits, one_hot, {}},
  };
  return cases;
}

TEST(LossesTest, Gradients_EveryLoss_AgreeWithFiniteDifferences) {
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
      const double expected = 2 * (up - down) / (2 * h);
      EXPECT_NEAR(gradient[i], expected, 5e-3 + 1e-3 * std::fabs(expected))
          << i;
    }
  }
}

// Worked by hand from Keras's formulas.
TEST(LossesTest, Values_CommonLosses_EqualKeras) {
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

// The values are from Keras's documentation, or its formulas computed by hand.
TEST(LossesTest, Values_OtherLosses_EqualKeras) {
  const auto value = [](const Case& c) { return PerExample(c, nullptr)[0]; };
  const std::vector<float> z = {-18.6f, 0.51f, 2.94f, -12.8f}, t = {0, 1, 0, 0};
  EXPECT_NEAR(value({BinaryFocalCrossentropy(/*apply_class_balancing=*/false,
                                             0.25f, 2, kFromLogits),
                     {4},
                     z,
                     t,
                     {}}),
              0.691, 5e-4);
  EXPECT_NEAR(value({BinaryFocalCrossentropy(/*apply_class_balancing=*/true,
                                             0.25f, 2, kFromLogits),
                     {4},
                     z,
                     t,
                     {}}),
              0.510, 5e-4);
  EXPECT_NEAR(value({BinaryFocalCrossentropy(), {2}, {0.6f, 0.4f}, {0, 1}, {}}),
              0.330, 5e-4);
  const Case focal = {CategoricalFocalCrossentropy(),
                      {3},
                      {0.05f, 0.95f, 0, 0.1f, 0.8f, 0.1f},
                      {0, 1, 0, 0, 0, 1},
                      {}};
  EXPECT_NEAR(PerExample(focal, nullptr)[0], 3.2058331e-05, 1e-9);
  EXPECT_NEAR(PerExample(focal, nullptr)[1], 0.46627346, 1e-6);
  EXPECT_NEAR(value({KLDivergence(), {2}, {0.25f, 0.75f}, {0.5f, 0.5f}, {}}),
              0.5 * std::log(2) + 0.5 * std::log(0.5 / 0.75), 1e-6);
  EXPECT_NEAR(value({Poisson(), {2}, {2, 0.5f}, {3, 1}, {}}),
              ((2 - 3 * std::log(2)) + (0.5 - std::log(0.5))) / 2, 1e-6);
  EXPECT_NEAR(value({MeanAbsolutePercentageError(), {2}, {3, -1}, {2, -4}, {}}),
              (50 + 75) / 2.0, 1e-5);
  EXPECT_NEAR(value({MeanSquaredLogarithmicError(), {2}, {1, -3}, {3, 0}, {}}),
              std::log(2) * std::log(2) / 2, 1e-6);
  const Case cosine = {CosineSimilarity(),
                       {2},
                       {1, 0, 1, 1, -1, -1, 0, 0},
                       {0, 1, 1, 1, 1, 1, 1, 1},
                       {}};
  const std::vector<float> cosine_losses = PerExample(cosine, nullptr);
  EXPECT_NEAR(cosine_losses[0], 0, 1e-7);
  EXPECT_NEAR(cosine_losses[1], -1, 1e-6);
  EXPECT_NEAR(cosine_losses[2], 1, 1e-6);
  EXPECT_EQ(cosine_losses[3], 0);  // a zero vector has no direction
  EXPECT_NEAR(value({LogCosh(), {2}, {1, 0}, {0, 0}, {}}),
              std::log(std::cosh(1)) / 2, 1e-6);
  // Labels 0 and 1 mean -1 and 1.
  EXPECT_NEAR(value({Hinge(), {2}, {0.6f, 0.4f}, {0, 1}, {}}), 1.1, 1e-6);
  EXPECT_NEAR(value({Hinge(), {2}, {0.6f, 0.4f}, {-1, 1}, {}}), 1.1, 1e-6);
  EXPECT_NEAR(value({SquaredHinge(), {2}, {0.6f, 0.4f}, {0, 1}, {}}),
              (1.6 * 1.6 + 0.36) / 2, 1e-6);
  EXPECT_NEAR(
      value({CategoricalHinge(), {3}, {0.6f, 0.4f, 0.9f}, {0, 1, 0}, {}}),
      0.9 - 0.4 + 1, 1e-6);
}

TEST(LossesTest, OtherLosses_ExtremeValues_StayFinite) {
  std::vector<float> d;
  for (const float e : {1e-6f, 1e-3f, 90.0f, 1e30f}) {
    SCOPED_TRACE(e);
    const double value = PerExample({LogCosh(), {1}, {-e}, {0}, {}}, &d)[0];
    const double a = double{e};
    const double expected = a < 1 ? a * a / 2 : a - std::log(2);
    EXPECT_NEAR(value, expected, 1e-6 * expected);
    EXPECT_NEAR(d[0], a < 1 ? -a : -1, 1e-6 * a);
  }
  for (const float x : {-1e30f, -200.0f, 200.0f, 1e30f}) {
    for (const float t : {0.0f, 1.0f}) {
      const Case c = {BinaryFocalCrossentropy(/*apply_class_balancing=*/true,
                                              0.25f, 1.5f, kFromLogits),
                      {1},
                      {x},
                      {t},
                      {}};
      const bool right = (x > 0) == (t == 1);
      const double weight = t == 1 ? 0.25 : 0.75;
      EXPECT_FLOAT_EQ(PerExample(c, &d)[0],
                      right ? 0 : weight * std::fabs(double{x}));
      EXPECT_FLOAT_EQ(d[0], right ? 0 : (x > 0 ? weight : -weight));
    }
  }
  for (const Loss& loss : {CosineSimilarity(), KLDivergence(), Poisson(),
                           MeanSquaredLogarithmicError(), CategoricalHinge(),
                           MeanAbsolutePercentageError(),
                           CategoricalFocalCrossentropy(0.25f, 0.5f)}) {
    const Case c = {loss, {3}, {0, 0, 1}, {0, 0, 1}, {}};
    EXPECT_TRUE(std::isfinite(PerExample(c, &d)[0])) << loss.name();
    for (const float g : d) EXPECT_TRUE(std::isfinite(g)) << loss.name();
  }
}

TEST(LossesTest, Loss_PredictionsNan_IsNan) {
  std::vector<float> d;
  for (const Case& c : Cases()) {
    Case broken = c;
    std::fill(broken.predictions.begin(), broken.predictions.end(), NAN);
    EXPECT_TRUE(std::isnan(PerExample(broken, &d)[0])) << c.loss.name();
  }
}

TEST(LossesTest, WeightsAndReduction_EveryLoss_ScaleLossAndGradient) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.loss.name());
    const int64_t count =
        static_cast<int64_t>(c.predictions.size()) / c.output.elements();
    std::vector<float> plain, weights, per(static_cast<size_t>(count));
    const std::vector<float> losses = PerExample(c, &plain);
    std::vector<float> d(c.predictions.size());
    for (int64_t i = 0; i < count; ++i) weights.push_back(0.5f * (i + 1));
    const void* targets = c.loss.takes_classes()
                              ? static_cast<const void*>(c.classes.data())
                              : c.targets.data();
    ASSERT_OK(ComputeLoss(c.loss, c.output, count, c.predictions.data(),
                          targets, 1, per.data(), d.data(), {weights.data()}));
    for (size_t i = 0; i < per.size(); ++i) {
      EXPECT_FLOAT_EQ(per[i], losses[i] * weights[i]);
    }
    for (size_t i = 0; i < d.size(); ++i) {
      const size_t example = i / static_cast<size_t>(c.output.elements());
      EXPECT_FLOAT_EQ(d[i], plain[i] * weights[example]);
    }
  }
  const LossScale mean = ScaleOf(MeanSquaredError(), {2, 3}, 4);
  EXPECT_EQ(mean.gradient, 0.25f);
  EXPECT_EQ(mean.sum, 1);
  const LossScale sum =
      ScaleOf(MeanSquaredError().Reduction(LossReduction::kSum), {2, 3}, 4);
  EXPECT_EQ(sum.gradient, 2);  // the rows of an example are added up too
  EXPECT_EQ(sum.sum, 8);
}

TEST(LossesTest, Crossentropy_ExtremeValues_StaysFinite) {
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

// The relative error that a loss of logits may have, whatever their size: a few
// roundings of float32. The value must be in float32's range.
constexpr double kExact = 5e-7;

void ExpectExact(float actual, long double want, const std::string& what) {
  const long double room = std::max<long double>(std::fabs(want), FLT_MIN);
  EXPECT_LE(std::fabs(actual - want) / room, kExact)
      << what << ": " << actual << " for " << static_cast<double>(want);
}

// The loss of a row and its gradient in long double.
struct ExactRow {
  long double loss = 0;
  std::vector<long double> gradient;
};

ExactRow ExactCrossentropy(const std::vector<float>& z,
                           const std::vector<float>& targets) {
  const size_t n = z.size();
  const long double top = *std::max_element(z.begin(), z.end());
  std::vector<long double> e(n);
  long double rest = 0, weight = 0;
  for (size_t j = 0; j < n; ++j) {
    e[j] = std::exp(z[j] - top);
    weight += targets[j];
  }
  // Small ones first, so that the 1 takes nothing from them.
  std::vector<long double> sorted = e;
  std::sort(sorted.begin(), sorted.end());
  for (size_t j = 0; j + 1 < n; ++j) rest += sorted[j];
  ExactRow row;
  for (size_t j = 0; j < n; ++j) {
    row.loss += targets[j] * ((top - z[j]) + std::log1p(rest));
    const long double others =
        e[j] == 1 ? rest : std::max<long double>(1 + rest - e[j], 0);
    row.gradient.push_back(
        (e[j] * (weight - targets[j]) - targets[j] * others) / (1 + rest));
  }
  return row;
}

TEST(LossesTest, Crossentropy_SmallLossOfLargeLogits_IsExact) {
  const struct {
    std::vector<float> z;
    double loss, d_label;
  } cases[] = {{{10, -3}, 2.26032685e-6, -2.26032430e-6},
               {{1e5f, 99997}, 0.0485873516, -0.0474258732},
               {{1e8f, 1e8f}, 0.693147181, -0.5},
               {{0, -80}, 1.80485139e-35, -1.80485139e-35}};
  for (const auto& c : cases) {
    std::vector<float> d;
    const Case sparse = {
        SparseCategoricalCrossentropy(kFromLogits), {2}, c.z, {}, {0}};
    EXPECT_NEAR(PerExample(sparse, &d)[0] / c.loss, 1, 1e-6);
    EXPECT_NEAR(d[0] / c.d_label, 1, 1e-6);
    EXPECT_NEAR(d[1] / c.d_label, -1, 1e-6);
    const Case categorical = {
        CategoricalCrossentropy(kFromLogits), {2}, c.z, {1, 0}, {}};
    EXPECT_NEAR(PerExample(categorical, &d)[0] / c.loss, 1, 1e-6);
    EXPECT_NEAR(d[0] / c.d_label, 1, 1e-6);
    const Case binary = {
        BinaryCrossentropy(kFromLogits), {1}, {c.z[0] - c.z[1]}, {1}, {}};
    EXPECT_NEAR(PerExample(binary, &d)[0] / c.loss, 1, 1e-6);
    EXPECT_NEAR(d[0] / c.d_label, 1, 1e-6);
  }
}

TEST(LossesTest, CrossentropyFromLogits_AnyScaleAndWidth_IsExact) {
  std::mt19937 random(11);
  for (const size_t width : {2, 3, 10, 100, 1000}) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      const double scale =
          std::pow(10, std::uniform_real_distribution<>(-8, 8)(random));
      const double offset =
          scale * std::uniform_real_distribution<>(-10, 10)(random);
      std::vector<float> z(width), one_hot(width), d;
      for (float& v : z) {
        v = static_cast<float>(offset +
                               scale * std::normal_distribution<>()(random));
      }
      // Every other example is right and as sure as it may be.
      const size_t label =
          repeat % 2 == 0
              ? random() % width
              : static_cast<size_t>(std::max_element(z.begin(), z.end()) -
                                    z.begin());
      one_hot[label] = 1;
      const ExactRow want = ExactCrossentropy(z, one_hot);
      const std::string what =
          "width " + std::to_string(width) + ", scale " + std::to_string(scale);
      const int64_t n = static_cast<int64_t>(width);
      const Case sparse = {SparseCategoricalCrossentropy(kFromLogits),
                           {n},
                           z,
                           {},
                           {static_cast<int32_t>(label)}};
      ExpectExact(PerExample(sparse, &d)[0], want.loss, "sparse, " + what);
      for (size_t j = 0; j < width; ++j) {
        ExpectExact(d[j], want.gradient[j], "sparse gradient, " + what);
      }
      const Case categorical = {
          CategoricalCrossentropy(kFromLogits), {n}, z, one_hot, {}};
      ExpectExact(PerExample(categorical, &d)[0], want.loss,
                  "categorical, " + what);
      for (size_t j = 0; j < width; ++j) {
        ExpectExact(d[j], want.gradient[j], "categorical gradient, " + what);
      }
    }
  }
}

TEST(LossesTest, CategoricalCrossentropy_SoftTargets_IsExactToItsTerms) {
  std::mt19937 random(12);
  for (const size_t width : {2, 10, 300}) {
    for (int repeat = 0; repeat < 100; ++repeat) {
      const double scale =
          std::pow(10, std::uniform_real_distribution<>(-8, 8)(random));
      std::vector<float> z(width), t(width), d;
      for (size_t j = 0; j < width; ++j) {
        z[j] = static_cast<float>(scale * std::normal_distribution<>()(random));
        t[j] = static_cast<float>(std::uniform_real_distribution<>()(random) /
                                  static_cast<double>(width));
      }
      const ExactRow want = ExactCrossentropy(z, t);
      const Case c = {CategoricalCrossentropy(kFromLogits),
                      {static_cast<int64_t>(width)},
                      z,
                      t,
                      {}};
      ExpectExact(PerExample(c, &d)[0], want.loss, "loss");
      for (size_t j = 0; j < width; ++j) {
        // softmax * weight - t, which may nearly cancel.
        EXPECT_LE(std::fabs(d[j] - want.gradient[j]),
                  kExact * (2 * t[j] + std::fabs(want.gradient[j])));
      }
    }
  }
}

TEST(LossesTest, BinaryCrossentropyFromLogits_AnyScale_IsExact) {
  std::mt19937 random(13);
  for (int repeat = 0; repeat < 2000; ++repeat) {
    const double scale =
        std::pow(10, std::uniform_real_distribution<>(-8, 8)(random));
    const float x =
        static_cast<float>(scale * std::normal_distribution<>()(random));
    for (const float t : {0.0f, 1.0f}) {
      std::vector<float> d;
      const Case c = {BinaryCrossentropy(kFromLogits), {1}, {x}, {t}, {}};
      const ExactRow want = ExactCrossentropy({x, 0}, {t, 1 - t});
      ExpectExact(PerExample(c, &d)[0], want.loss, "loss");
      ExpectExact(d[0], want.gradient[0], "gradient");
    }
  }
}

TEST(LossesTest, Crossentropy_OfProbabilities_IsExact) {
  // log1p(others / chosen); 1e-7 is the least that clipping leaves.
  const float p = 1 - 0x1p-20f, q = 0x1p-20f;
  const double want = std::log1p(double{q} / p);
  std::vector<float> d;
  const Case sparse = {SparseCategoricalCrossentropy(), {2}, {p, q}, {}, {0}};
  ExpectExact(PerExample(sparse, &d)[0], want, "sparse");
  ExpectExact(d[0], -double{q} / p, "sparse gradient");
  const Case categorical = {CategoricalCrossentropy(), {2}, {p, q}, {1, 0}, {}};
  ExpectExact(PerExample(categorical, &d)[0], want, "categorical");
  ExpectExact(d[0], 1 - 1 / double{p}, "categorical gradient");
  for (const float v : {1e-6f, 3e-5f, 0.01f, 0.3f}) {
    const Case binary = {BinaryCrossentropy(), {1}, {v}, {0}, {}};
    ExpectExact(PerExample(binary, &d)[0], -std::log1p(-double{v}), "binary");
    ExpectExact(d[0], 1 / (1 - double{v}), "binary gradient");
  }
}

TEST(LossesTest, Crossentropy_InfiniteOrNanLogits_IsNotFinite) {
  for (const float bad : {INFINITY, NAN}) {
    for (const int place : {0, 1, 2}) {
      std::vector<float> z = {1, 2, 3}, d;
      z[static_cast<size_t>(place)] = bad;
      const Case sparse = {
          SparseCategoricalCrossentropy(kFromLogits), {3}, z, {}, {1}};
      EXPECT_FALSE(std::isfinite(PerExample(sparse, &d)[0]));
      for (float v : d) EXPECT_TRUE(std::isnan(v));
      const Case categorical = {
          CategoricalCrossentropy(kFromLogits), {3}, z, {0, 1, 0}, {}};
      EXPECT_FALSE(std::isfinite(PerExample(categorical, &d)[0]));
      for (float v : d) EXPECT_TRUE(std::isnan(v));
    }
  }
  // A class that cannot be: no loss where it is not the label, and all of it
  // where it is.
  std::vector<float> d;
  const std::vector<float> z = {0, -INFINITY, 0};
  const Case other = {
      SparseCategoricalCrossentropy(kFromLogits), {3}, z, {}, {0}};
  EXPECT_NEAR(PerExample(other, &d)[0], std::log(2), 1e-7);
  EXPECT_EQ(d, (std::vector<float>{-0.5f, 0, 0.5f}));
  const Case hot = {
      CategoricalCrossentropy(kFromLogits), {3}, z, {1, 0, 0}, {}};
  EXPECT_NEAR(PerExample(hot, &d)[0], std::log(2), 1e-7);
  EXPECT_EQ(d, (std::vector<float>{-0.5f, 0, 0.5f}));
  const Case itself = {
      SparseCategoricalCrossentropy(kFromLogits), {3}, z, {}, {1}};
  EXPECT_EQ(PerExample(itself, &d)[0], INFINITY);
  EXPECT_EQ(d, (std::vector<float>{0.5f, -1, 0.5f}));
  const Case none = {SparseCategoricalCrossentropy(kFromLogits),
                     {2},
                     {-INFINITY, -INFINITY},
                     {},
                     {0}};
  EXPECT_TRUE(std::isnan(PerExample(none, &d)[0]));
}

TEST(LossesTest, Loss_SeveralRowsAnExample_IsTheirMean) {
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

TEST(LossesTest, CheckLossShape_OutputDoesNotFit_IsRefused) {
  EXPECT_FALSE(CheckLossShape(SparseCategoricalCrossentropy(), {1}).ok());
  EXPECT_FALSE(CheckLossShape(CategoricalCrossentropy(), {}).ok());
  EXPECT_FALSE(CheckLossShape(BinaryCrossentropy(kFromLogits, 2), {1}).ok());
  EXPECT_FALSE(CheckLossShape(Huber(-1), {1}).ok());
  EXPECT_OK(CheckLossShape(BinaryCrossentropy(), {1}));
}

}  // namespace
}  // namespace ringlet
