// Dropout and similar layers against their definitions, number by number.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/op_checks.h"
#include "core/layers/layer_kind.h"
#include "ringlet/compute.h"

namespace ringlet {
namespace {

constexpr double kAlphaScale = 1.0507009873554805 * 1.6732632423543772;

// A random number of the runner's seed and counter.
double Unit(size_t number) {
  const Philox random(3, 5);
  return Philox::Unit(random.At(number & ~size_t{3})[number & 3]);
}

double Normal(size_t number) {
  const size_t pair = number & ~size_t{1};
  const double u = Unit(pair) + std::ldexp(1.0, -25), v = Unit(pair + 1);
  const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * M_PI * v;
  return radius * (number % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

constexpr size_t kBatch = 7, kSize = 5 * 3 * 6;  // inputs are (5, 3, 6)

struct NoiseCase {
  Layer layer;
  // The value of x at place i, and the slope there.
  std::function<double(double, size_t)> value, slope;
};

std::vector<NoiseCase> NoiseCases() {
  static constexpr double rate = 0.3f, keep = 1 - rate;
  static const double a =
      1 / std::sqrt(keep * (1 + rate * kAlphaScale * kAlphaScale));
  static const double deviation = std::sqrt(rate / keep);
  static const auto kept = [](size_t i) { return Unit(i) >= rate; };
  static const auto spatial = [](size_t i) {
    return kept(i / kSize * 6 + i % 6);
  };
  static const auto whole = [](size_t i) { return kept(i / kSize); };
  static const auto columns = [](size_t i) {
    return kept(i / kSize * 18 + i % 18);
  };
  return {
      {Dropout(0.3f), [](double v, size_t i) { return kept(i) ? v / keep : 0; },
       [](double d, size_t i) { return kept(i) ? d / keep : 0; }},
      {SpatialDropout2D(0.3f),
       [](double v, size_t i) { return spatial(i) ? v / keep : 0; },
       [](double d, size_t i) { return spatial(i) ? d / keep : 0; }},
      {Dropout(0.3f).NoiseShape({1, 1, 1}),
       [](double v, size_t i) { return whole(i) ? v / keep : 0; },
       [](double d, size_t i) { return whole(i) ? d / keep : 0; }},
      {Dropout(0.3f).NoiseShape({1, -1, 6}),
       [](double v, size_t i) { return columns(i) ? v / keep : 0; },
       [](double d, size_t i) { return columns(i) ? d / keep : 0; }},
      {Dropout(0.3f).NoiseShape({5, 3, -1}),
       [](double v, size_t i) { return kept(i) ? v / keep : 0; },
       [](double d, size_t i) { return kept(i) ? d / keep : 0; }},
      {AlphaDropout(0.3f).NoiseShape({1, 1, -1}),
       [](double v, size_t i) {
         return a * (spatial(i) ? v : -kAlphaScale) + a * kAlphaScale * rate;
       },
       [](double d, size_t i) { return spatial(i) ? a * d : 0; }},
      {AlphaDropout(0.3f),
       [](double v, size_t i) {
         return a * (kept(i) ? v : -kAlphaScale) + a * kAlphaScale * rate;
       },
       [](double d, size_t i) { return kept(i) ? a * d : 0; }},
      {GaussianNoise(0.3f),
       [](double v, size_t i) { return v + rate * Normal(i); },
       [](double d, size_t) { return d; }},
      {GaussianDropout(0.3f),
       [](double v, size_t i) { return v * (1 + deviation * Normal(i)); },
       [](double d, size_t i) { return d * (1 + deviation * Normal(i)); }}};
}

TEST(NoiseTest, Noise_EachPlace_HasItsOwnNumber) {
  const Floats x = RandomFloats(kBatch * kSize, 1),
               dy = RandomFloats(kBatch * kSize, 2);
  for (const NoiseCase& c : NoiseCases()) {
    SCOPED_TRACE(ClassName(c.layer));
    OpRunner runner(c.layer, {{5, 3, 6}});
    ASSERT_OK(runner.status());
    const OpRun run = runner.Run(kBatch, {x}, {}, dy);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(run.y[i], c.value(x[i], i), 4e-6) << "at " << i;
      ASSERT_NEAR(run.dx[0][i], c.slope(dy[i], i), 4e-6) << "at " << i;
    }
    CheckGradients(c.layer, {{5, 3, 6}}, 2, 2);
  }
}

TEST(NoiseTest, Noise_AnyThreadsAndMemory_HasTheSameBits) {
  const Floats x = RandomFloats(kBatch * kSize, 1),
               dy = RandomFloats(kBatch * kSize, 2);
  for (const NoiseCase& c : NoiseCases()) {
    SCOPED_TRACE(ClassName(c.layer));
    OpRunner runner(c.layer, {{5, 3, 6}});
    ASSERT_OK(runner.status());
    const OpRun run = runner.Run(kBatch, {x}, {}, dy);
    for (int threads : {2, 3}) {
      const OpRun same = runner.Run(kBatch, {x}, {}, dy, threads, kBatch + 3);
      EXPECT_EQ(same.y, run.y);
      EXPECT_EQ(same.dx, run.dx);
    }
  }
}

TEST(NoiseTest, Noise_NextStep_HasOtherNumbers) {
  const Floats x = RandomFloats(kBatch * kSize, 1);
  for (const NoiseCase& c : NoiseCases()) {
    SCOPED_TRACE(ClassName(c.layer));
    OpRunner runner(c.layer, {{5, 3, 6}});
    const Floats y = runner.Run(kBatch, {x}, {}, {}).y;
    runner.counter = 6;
    EXPECT_NE(runner.Run(kBatch, {x}, {}, {}).y, y);
  }
}

TEST(NoiseTest, Noise_NotTraining_PassesTheInput) {
  const Floats x = RandomFloats(kBatch * kSize, 1);
  for (const NoiseCase& c : NoiseCases()) {
    SCOPED_TRACE(ClassName(c.layer));
    OpRunner runner(c.layer, {{5, 3, 6}});
    runner.training = false;
    EXPECT_EQ(runner.Run(kBatch, {x}, {}, {}).y, x);
  }
}

TEST(NoiseTest, SpatialDropout1D_Sequence_DropsWholeChannels) {
  OpRunner runner(SpatialDropout1D(0.5f), {{9, 5}});
  const Floats y = runner.Run(20, {Floats(20 * 45, 1.0f)}, {}, {}, 2).y;
  size_t dropped = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(y[i], y[i / 45 * 45 + i % 5]);
    ASSERT_TRUE(y[i] == 0 || y[i] == 2);
    dropped += y[i] == 0;
  }
  EXPECT_NEAR(static_cast<double>(dropped), 450, 200);
}

// The mean and variance of the output; AlphaDropout keeps its input's.
TEST(NoiseTest, MeanAndVariance_EachLayer_EqualTheDefinition) {
  struct Case {
    Layer layer;
    double mean, variance;  // the output's, for a standard normal input
  };
  const Case cases[] = {{AlphaDropout(0.2f), 0, 1},
                        {GaussianNoise(1), 0, 2},
                        {GaussianDropout(0.5f), 0, 2}};
  Floats x(200000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(Normal(i + (1u << 30)));
  for (const Case& c : cases) {
    SCOPED_TRACE(ClassName(c.layer));
    OpRunner runner(c.layer, {{1000}});
    const Floats y = runner.Run(200, {x}, {}, {}, 2).y;
    double sum = 0, squares = 0;
    for (const float v : y) sum += v, squares += double{v} * v;
    const double n = static_cast<double>(y.size()), mean = sum / n;
    EXPECT_NEAR(mean, c.mean, 0.02);
    EXPECT_NEAR(squares / n - mean * mean, c.variance, 0.03);
  }
}

TEST(NoiseTest, Rate_Zero_ChangesNothing) {
  const Floats x = {-0.0f, 1, -INFINITY, NAN, 0, 2};
  for (const Layer& layer :
       {Dropout(0), SpatialDropout2D(0), SpatialDropout1D(0), GaussianNoise(0),
        GaussianDropout(0), AlphaDropout(0)}) {
    SCOPED_TRACE(ClassName(layer));
    const bool is_1d = layer.kind == Layer::Kind::kSpatialDropout1D;
    OpRunner runner(layer, {is_1d ? Shape{3, 2} : Shape{3, 1, 2}});
    const OpRun run = runner.Run(1, {x}, {}, x);
    for (const Floats& same : {run.y, run.dx[0]}) {
      EXPECT_EQ(std::memcmp(same.data(), x.data(), sizeof(float) * 6), 0);
    }
  }
  // A -0 that is kept stays -0.
  OpRunner runner(Dropout(0.5f), {{64}});
  for (const float y : runner.Run(1, {Floats(64, -0.0f)}, {}, {}).y) {
    EXPECT_EQ(y, 0);
  }
}

TEST(NoiseTest, Rate_OutOfRange_IsRefused) {
  const auto error = [](const Layer& layer, const Shape& x) {
    return std::string(OpRunner(layer, {x}).status().message());
  };
  EXPECT_EQ(error(Dropout(1), {3}), "rate must be a number in [0, 1), not 1");
  EXPECT_EQ(error(AlphaDropout(NAN), {3}),
            "rate must be a finite number, not nan");
  EXPECT_EQ(error(GaussianDropout(1), {3}),
            "rate must be a number in [0, 1), not 1");
  EXPECT_EQ(error(GaussianNoise(1.5f), {3}),
            "stddev must be a number in [0, 1], not 1.5");
  EXPECT_EQ(error(GaussianNoise(-1), {3}),
            "stddev must be a number in [0, 1], not -1");
  EXPECT_EQ(error(GaussianNoise(1), {3}), "");
  EXPECT_EQ(
      error(Dropout(0.5f).NoiseShape({4, 1}), {4, 3}),
      "noise_shape is (4, 1) for each example, and the input (4, 3); it "
      "must be 1 in the first axes, and the input's size (or null, -1) in "
      "the others");
  EXPECT_NE(error(Dropout(0.5f).NoiseShape({1}), {4, 3}), "");
  EXPECT_NE(error(Dropout(0.5f).NoiseShape({1, 2}), {4, 3}), "");
  EXPECT_EQ(error(SpatialDropout2D(0.5f), {4, 3}),
            "SpatialDropout2D needs an input of (height, width, channels), not "
            "(4, 3)");
  EXPECT_EQ(error(SpatialDropout1D(0.5f), {4, 3, 2}),
            "SpatialDropout1D needs an input of (steps, channels), not "
            "(4, 3, 2)");
}

}  // namespace
}  // namespace ringlet
