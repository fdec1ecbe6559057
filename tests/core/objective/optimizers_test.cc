#include "ringlet/optimizers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/op_runner.h"
#include "core/layers/initializers.h"
#include "core/objective/optimizer_table.h"
#include "core/step/gradients.h"

namespace ringlet {
namespace {

// Keras's update rules, one weight at a time, in double.
struct NaiveOptimizer {
  Optimizer o;
  Regularizer r;
  std::vector<double> w, a, b, c;

  void Step(const std::vector<float>& gradient, double lr, int64_t iterations) {
    const double t = static_cast<double>(iterations) + 1;
    for (size_t i = 0; i < w.size(); ++i) {
      const double sign = w[i] > 0 ? 1 : w[i] < 0 ? -1 : 0;
      const double g = gradient[i] + 2.0 * r.l2 * w[i] + r.l1 * sign;
      w[i] -= w[i] * o.weight_decay * lr;
      switch (o.kind) {
        case Optimizer::Kind::kSgd:
          if (o.momentum == 0) {
            w[i] -= lr * g;
            break;
          }
          a[i] = o.momentum * a[i] - lr * g;
          w[i] += o.nesterov ? o.momentum * a[i] - lr * g : a[i];
          break;
        case Optimizer::Kind::kRmsprop: {
          a[i] = o.rho * a[i] + (1 - double{o.rho}) * g * g;
          double d = a[i];
          if (o.centered) {
            b[i] = o.rho * b[i] + (1 - double{o.rho}) * g;
            d -= b[i] * b[i];
          }
          double step = lr * g / std::sqrt(d + o.epsilon);
          if (o.momentum != 0) step = c[i] = o.momentum * c[i] + step;
          w[i] -= step;
          break;
        }
        case Optimizer::Kind::kAdam:
        case Optimizer::Kind::kAdamW: {
          a[i] += (g - a[i]) * (1 - double{o.beta_1});
          b[i] += (g * g - b[i]) * (1 - double{o.beta_2});
          c[i] = std::max(c[i], b[i]);
          const double alpha = lr * std::sqrt(1 - std::pow(o.beta_2, t)) /
                               (1 - std::pow(o.beta_1, t));
          w[i] -=
              alpha * a[i] / (std::sqrt(o.amsgrad ? c[i] : b[i]) + o.epsilon);
          break;
        }
        case Optimizer::Kind::kAdamax:
          a[i] += (g - a[i]) * (1 - double{o.beta_1});
          b[i] = std::max(double{o.beta_2} * b[i], std::fabs(g));
          w[i] -= lr / (1 - std::pow(o.beta_1, t)) * a[i] / (b[i] + o.epsilon);
          break;
        case Optimizer::Kind::kNadam: {
          const auto u = [&](double at) {
            return o.beta_1 * (1 - 0.5 * std::pow(0.96, at));
          };
          double product = 1;
          for (double k = 1; k <= t; ++k) product *= u(k);
          a[i] += (g - a[i]) * (1 - double{o.beta_1});
          b[i] += (g * g - b[i]) * (1 - double{o.beta_2});
          const double m = u(t + 1) * a[i] / (1 - product * u(t + 1)) +
                           (1 - u(t)) * g / (1 - product);
          w[i] -= lr * m /
                  (std::sqrt(b[i] / (1 - std::pow(o.beta_2, t))) + o.epsilon);
          break;
        }
        case Optimizer::Kind::kAdagrad:
          if (t == 1) a[i] = o.initial_accumulator_value;
          a[i] += g * g;
          w[i] -= lr * g / std::sqrt(a[i] + o.epsilon);
          break;
        case Optimizer::Kind::kAdadelta: {
          a[i] = o.rho * a[i] + (1 - double{o.rho}) * g * g;
          const double d =
              std::sqrt(b[i] + o.epsilon) * g / std::sqrt(a[i] + o.epsilon);
          b[i] = o.rho * b[i] + (1 - double{o.rho}) * d * d;
          w[i] -= lr * d;
          break;
        }
        case Optimizer::Kind::kLion: {
          const double way = a[i] * o.beta_1 + g * (1 - double{o.beta_1});
          w[i] -= way > 0 ? lr : way < 0 ? -lr : 0;
          a[i] = a[i] * o.beta_2 + g * (1 - double{o.beta_2});
          break;
        }
      }
    }
  }
};

TEST(OptimizersTest, Update_EveryOptimizer_FollowsTheReference) {
  const Optimizer optimizers[] = {
      SGD(),
      SGD(0.1f, 0.9f),
      SGD(0.1f, 0.9f, /*nesterov=*/true),
      SGD().WeightDecay(0.1f),
      RMSprop(),
      RMSprop(0.01f, 0.8f, 0.5f),
      RMSprop(0.01f, 0.9f, 0, 1e-5f, /*centered=*/true),
      RMSprop(0.01f, 0.9f, 0.3f, 1e-5f, /*centered=*/true),
      Adam(),
      Adam(0.01f, 0.8f, 0.9f, 1e-4f, /*amsgrad=*/true),
      AdamW(),
      AdamW(0.1f, 0.2f),
      Adamax(),
      Adamax(0.01f, 0.8f, 0.9f, 1e-4f),
      Adamax().WeightDecay(0.1f),
      Nadam(),
      Nadam(0.01f, 0.8f, 0.9f, 1e-4f),
      Adagrad(),
      Adagrad(0.1f, 0, 1e-3f).WeightDecay(0.1f),
      Adadelta(),
      Adadelta(1, 0.5f, 1e-3f),
      Lion(),
      Lion(0.01f, 0.5f, 0.9f).WeightDecay(0.1f)};
  for (const Optimizer& o : optimizers) {
    for (const Regularizer& r :
         {Regularizer(), L2(0.1f), L1(0.01f), L1L2(0.02f, 0.03f)}) {
      for (size_t n : {size_t{1}, size_t{7}, size_t{133}}) {
        std::vector<float> w = RandomFloats(n, 1);
        NaiveOptimizer twin = {o,
                               r,
                               {w.begin(), w.end()},
                               std::vector<double>(n),
                               std::vector<double>(n),
                               std::vector<double>(n)};
        std::vector<std::vector<float>> memory(3, std::vector<float>(n));
        float* slots[3] = {memory[0].data(), memory[1].data(),
                           memory[2].data()};
        memory[0].assign(n, ClassOf(o).slots(o).first);
        slots[0] = memory[0].data();
        for (int64_t step = 0; step < 5; ++step) {
          const std::vector<float> g =
              RandomFloats(n, 10 + static_cast<uint64_t>(step));
          const float lr = o.learning_rate.At(step);
          const StepScalars s = PrepareStep(o, lr, step);
          // In two ranges, as the model does.
          const int64_t half = static_cast<int64_t>(n) / 2;
          UpdateRange({o, s, r, half, w.data(), g.data(), slots});
          float* rest[3] = {slots[0] + half, slots[1] + half, slots[2] + half};
          UpdateRange({o, s, r, static_cast<int64_t>(n) - half, w.data() + half,
                       g.data() + half, rest});
          twin.Step(g, lr, step);
          for (size_t i = 0; i < n; ++i) {
            ASSERT_NEAR(w[i], twin.w[i], 2e-5 * (1 + std::fabs(twin.w[i])))
                << o.name() << " step " << step;
          }
        }
      }
    }
  }
}

// 1 - rho of a rho of nearly 1, in the first steps and after many.
// No memory at all, after a large gradient too; and what overflows freezes its
// weight, as in Keras, and makes no NaN of it.
TEST(OptimizersTest, Rmsprop_AnyRhoOrOverflow_FollowsItsFormula) {
  for (const float rho : {0.0f, 1e-6f, 0.5f, 0.9f}) {
    const Optimizer o = RMSprop(0.001f, rho);
    float memory = 0;
    float* slots[] = {&memory};
    double square = 0;
    for (const float g : {1000.0f, 0.1f, 0.1f, 1e-3f}) {
      float w = 0;
      UpdateRange({o, PrepareStep(o, 0.001f, 0), {}, 1, &w, &g, slots});
      const double r = rho == 1e-6f ? 1e-6 : rho == 0.9f ? 0.9 : rho;
      square = r * square + (1 - r) * g * g;
      const double want = -0.001 * g / std::sqrt(square + 1e-7);
      EXPECT_NEAR(w, want, 1e-5 * std::fabs(want)) << rho << " " << g;
    }
    for (const float g : {1e30f, 1.0f, 1.0f}) {
      float w = 0.5f;
      UpdateRange({o, PrepareStep(o, 0.001f, 0), {}, 1, &w, &g, slots});
      EXPECT_FALSE(std::isnan(w)) << rho << " " << g;
    }
  }
}

TEST(OptimizersTest, Moments_RhoNearOne_EqualThoseOfItsDecimals) {
  constexpr double kRho = 0.9999;
  const Optimizer optimizers[] = {
      RMSprop(0.01f, 0.9999f),
      RMSprop(0.01f, 0.9999f, 0, 1e-7f, /*centered=*/true),
      Adam(0.01f, 0.9f, 0.9999f)};
  for (const Optimizer& o : optimizers) {
    const bool adam = o.kind == Optimizer::Kind::kAdam;
    float memory[3] = {};
    float* slots[] = {&memory[0], &memory[1], &memory[2]};
    double mean = 0, square = 0, largest = 0;
    const std::vector<float> g = RandomFloats(30000, 3);
    for (size_t i = 0; i < g.size(); ++i) {
      // From 0, so that the weight is the step.
      float w = 0;
      const int64_t step = static_cast<int64_t>(i);
      UpdateRange({o, PrepareStep(o, 0.01f, step), {}, 1, &w, &g[i], slots});
      const double beta_1 = adam ? 0.9 : kRho;
      mean = beta_1 * mean + (1 - beta_1) * g[i];
      square = kRho * square + (1 - kRho) * g[i] * g[i];
      const double t = static_cast<double>(i) + 1;
      const double want =
          adam ? -0.01 * std::sqrt(1 - std::pow(kRho, t)) /
                     (1 - std::pow(beta_1, t)) * mean /
                     (std::sqrt(square) + 1e-7)
               : -0.01 * g[i] /
                     std::sqrt(square - (o.centered ? mean * mean : 0) + 1e-7);
      // Adam's mean may nearly cancel.
      const double room =
          adam ? std::max(std::fabs(want), 1e-3) : std::fabs(want);
      largest = std::max(largest, std::fabs(w - want) / room);
    }
    EXPECT_LT(largest, 1.5e-5) << o.name() << (o.centered ? ", centered" : "");
  }
}

// The weights no longer get a gradient, or get one with a tiny square. As the
// moments decay to zero none is denormal, nor is its product with 1 - 0.9.
TEST(OptimizersTest, Moments_NoGradient_DecayToZeroWithoutDenormals) {
  const Optimizer optimizers[] = {
      SGD(0.01f, 0.9f), RMSprop(0.01f, 0.9f, 0.9f, 1e-7f, /*centered=*/true),
      Adam(0.01f),      Adamax(0.01f),
      Nadam(0.01f),     Adadelta(0.01f),
      Lion(0.01f)};
  for (const Optimizer& o : optimizers) {
    for (const float later : {0.0f, 1e-30f}) {
      float w = 0.5f, memory[3] = {};
      float* slots[] = {&memory[0], &memory[1], &memory[2]};
      const StepScalars scalars[] = {PrepareStep(o, 0.01f, 1024),
                                     PrepareStep(o, 0.01f, 1087)};
      for (int64_t step = 0; step < 120000; ++step) {
        const float g = step == 0 ? 0.25f : later;
        UpdateRange({o, scalars[step % 64 == 63], {}, 1, &w, &g, slots});
        for (const float moment : memory) {
          ASSERT_TRUE(moment == 0 || std::fabs(moment) >= 0x1p-122f)
              << o.name() << " step " << step << " " << moment;
        }
      }
      for (int s = 0; s < o.num_slots() && later == 0; ++s) {
        EXPECT_EQ(memory[s], 0) << o.name() << " " << o.slot_name(s);
      }
    }
  }
}

TEST(OptimizersTest, DefaultsAndSlotNames_EachOptimizer_EqualKeras) {
  EXPECT_FLOAT_EQ(SGD().learning_rate.At(0), 0.01f);
  EXPECT_EQ(SGD().num_slots(), 0);
  EXPECT_STREQ(SGD(0.1f, 0.5f).slot_name(0), "momentum");
  EXPECT_FLOAT_EQ(RMSprop().rho, 0.9f);
  EXPECT_STREQ(RMSprop().slot_name(0), "velocity");
  EXPECT_EQ(RMSprop(0.1f, 0.9f, 0.1f, 1e-7f, true).num_slots(), 3);
  EXPECT_FLOAT_EQ(Adam().epsilon, 1e-7f);
  EXPECT_EQ(Adam().num_slots(), 2);
  EXPECT_FLOAT_EQ(AdamW().weight_decay, 0.004f);
}

TEST(OptimizersTest, ClipGradients_ValueNormOrGlobalNorm_IsTheDefinition) {
  const auto clipped = [](const Optimizer& o) {
    std::vector<float> a = {3, 4}, b = {0, -12};
    const GradientSpan spans[] = {{a.data(), 2}, {b.data(), 2}};
    ClipGradients(o, spans, 2);
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  EXPECT_EQ(clipped(SGD().ClipValue(3.5f)),
            (std::vector<float>{3, 3.5f, 0, -3.5f}));
  EXPECT_EQ(clipped(SGD().ClipNorm(10)), (std::vector<float>{3, 4, 0, -10}));
  // The common norm is 13.
  EXPECT_EQ(clipped(SGD().GlobalClipNorm(13)),
            (std::vector<float>{3, 4, 0, -12}));
  const std::vector<float> half = clipped(SGD().GlobalClipNorm(6.5f));
  EXPECT_FLOAT_EQ(half[0], 1.5f);
  EXPECT_FLOAT_EQ(half[3], -6);
}

// Beside the squares of 16 large ones float32 would lose all the others.
TEST(OptimizersTest, Norm_ManySmallBesideLarge_CountsThemAll) {
  for (const Optimizer& o : {SGD().ClipNorm(1), SGD().GlobalClipNorm(1)}) {
    std::vector<float> gradient(16 + 65536, 1.0f);
    std::fill_n(gradient.begin(), 16, 4096.0f);
    const GradientSpan span = {gradient.data(),
                               static_cast<int64_t>(gradient.size())};
    ClipGradients(o, &span, 1);
    const double norm = std::sqrt(16 * 4096.0 * 4096.0 + 65536);
    EXPECT_FLOAT_EQ(gradient[0], static_cast<float>(4096 / norm));
  }
}

TEST(OptimizersTest, GlobalClipNorm_NotFinite_GivesNan) {
  std::vector<float> g = {1, INFINITY};
  const GradientSpan span = {g.data(), 2};
  ClipGradients(SGD().GlobalClipNorm(1), &span, 1);
  EXPECT_TRUE(std::isnan(g[0]) && std::isnan(g[1]));
}

TEST(OptimizersTest, Check_BadArguments_RefusesThem) {
  EXPECT_FALSE(SGD(0.1f, 1.5f).Check().ok());
  EXPECT_FALSE(SGD(-1.0f).Check().ok());
  EXPECT_FALSE(SGD(NAN).Check().ok());
  EXPECT_FALSE(Adam(0.1f, 1.0f).Check().ok());
  EXPECT_FALSE(SGD().ClipNorm(1).ClipValue(1).Check().ok());
  EXPECT_FALSE(SGD().ClipNorm(-1).Check().ok());
  EXPECT_OK(SGD().ClipNorm(1).Check());
}

TEST(OptimizersTest, Penalties_L1AndL2_AreTheSumsOfTheirDefinitions) {
  const std::vector<float> w = {1, -2, 3, 0, -1, 1, 1, 1, 1, -1};
  EXPECT_NEAR(RegularizationPenalty(L2(0.5f), 10, w.data()), 10, 1e-6);
  EXPECT_NEAR(RegularizationPenalty(L1(0.5f), 10, w.data()), 6, 1e-6);
  EXPECT_NEAR(RegularizationPenalty(L1L2(1, 1), 10, w.data()), 32, 1e-6);
  std::vector<float> g(10, 1);
  AddRegularizationGradient(L1L2(1, 0.5f), 10, w.data(), g.data());
  EXPECT_EQ(g[1], 1 - 1 - 2);
  EXPECT_EQ(g[3], 1);
}

// Values of Keras 3's formulas, worked out in Python.
TEST(SchedulesTest, Rate_EverySchedule_EqualsKeras) {
  const LearningRate exponential = ExponentialDecay(0.1f, 10, 0.5f);
  EXPECT_FLOAT_EQ(exponential.At(0), 0.1f);
  EXPECT_FLOAT_EQ(exponential.At(5), 0.1f * std::sqrt(0.5f));
  EXPECT_FLOAT_EQ(ExponentialDecay(0.1f, 10, 0.5f, /*staircase=*/true).At(19),
                  0.05f);
  const LearningRate cosine = CosineDecay(0.1f, 100, 0.1f);
  EXPECT_FLOAT_EQ(cosine.At(0), 0.1f);
  EXPECT_FLOAT_EQ(cosine.At(50), 0.055f);
  EXPECT_FLOAT_EQ(cosine.At(1000), 0.01f);
  const LearningRate warm = CosineDecay(0, 100, 0, 0.2f, 10);
  EXPECT_FLOAT_EQ(warm.At(5), 0.1f);
  EXPECT_FLOAT_EQ(warm.At(10), 0.2f);
  EXPECT_FLOAT_EQ(warm.At(60), 0.1f);
  // Keras: no target, no warming up; no steps, and it decays from the target.
  EXPECT_FLOAT_EQ(CosineDecay(0.1f, 100, 0, 0, 10).At(50), 0.05f);
  EXPECT_FLOAT_EQ(CosineDecay(0.1f, 100, 0, 0.4f, 0).At(50), 0.2f);
  const LearningRate steps = PiecewiseConstantDecay({10, 20}, {1, 0.5f, 0.1f});
  EXPECT_FLOAT_EQ(steps.At(10), 1);
  EXPECT_FLOAT_EQ(steps.At(11), 0.5f);
  EXPECT_FLOAT_EQ(steps.At(21), 0.1f);
  // The float32 0.9999 to the power of 10000 is off by 1.7e-4, relatively.
  EXPECT_NEAR(ExponentialDecay(1, 1, 0.9999f).At(10000),
              std::pow(0.9999, 10000), 1e-7);
  const LearningRate polynomial = PolynomialDecay(0.5f, 10, 0.1f, 2);
  EXPECT_FLOAT_EQ(polynomial.At(5), 0.4f * 0.25f + 0.1f);
  EXPECT_FLOAT_EQ(polynomial.At(25), 0.1f);
  const LearningRate cycled =
      PolynomialDecay(0.5f, 10, 0.1f, 1, /*cycle=*/true);
  EXPECT_FLOAT_EQ(cycled.At(0), 0.5f);
  EXPECT_FLOAT_EQ(cycled.At(10), 0.1f);
  EXPECT_FLOAT_EQ(cycled.At(15), 0.4f * 0.25f + 0.1f);
  EXPECT_FLOAT_EQ(InverseTimeDecay(0.3f, 4, 0.5f).At(2), 0.3f / 1.25f);
  EXPECT_FLOAT_EQ(InverseTimeDecay(0.3f, 4, 0.5f, /*staircase=*/true).At(7),
                  0.2f);
  EXPECT_FLOAT_EQ(InverseTimeDecay(0, 4, 1).Warmup(0.4f, 8).At(6), 0.3f);
  EXPECT_FLOAT_EQ(InverseTimeDecay(0, 4, 1).Warmup(0.4f, 8).At(12), 0.2f);
  EXPECT_FLOAT_EQ(PolynomialDecay(1, 4, 0).Warmup(2, 8).At(10), 1);
  const LearningRate restarts = CosineDecayRestarts(1, 10, 2, 0.5f, 0.1f);
  EXPECT_FLOAT_EQ(restarts.At(5), 0.55f);
  EXPECT_FLOAT_EQ(restarts.At(10), 0.9f * 0.5f + 0.1f);
  EXPECT_FLOAT_EQ(restarts.At(20), 0.9f * 0.25f + 0.1f);
  EXPECT_FLOAT_EQ(restarts.At(70), 0.9f * 0.125f + 0.1f);
  EXPECT_FLOAT_EQ(CosineDecayRestarts(1, 10, 1).At(25), 0.5f);
  EXPECT_FALSE(CosineDecayRestarts(1, 10, 0.5f).Check().ok());
  EXPECT_FALSE(InverseTimeDecay(1, 1, -1).Check().ok());
  EXPECT_FALSE(PolynomialDecay(1, 1, 0, -1).Check().ok());
  EXPECT_FALSE(PiecewiseConstantDecay({10}, {1}).Check().ok());
  EXPECT_FALSE(PiecewiseConstantDecay({10, 5}, {1, 1, 1}).Check().ok());
  EXPECT_FALSE(ExponentialDecay(1, 0, 1).Check().ok());
  EXPECT_FALSE(ExponentialDecay(1, 1, NAN).Check().ok());
  EXPECT_FALSE(CosineDecay(1, 1, INFINITY).Check().ok());
  EXPECT_FALSE(PiecewiseConstantDecay({1}, {1, NAN}).Check().ok());
}

}  // namespace
}  // namespace ringlet
