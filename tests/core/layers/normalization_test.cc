// The normalizing layers against plain float64, on shapes that cut rows and
// channels into several tiles.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/op_runner.h"
#include "ringlet/layers.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

using Doubles = std::vector<double>;

// Relative to the largest number, or to `size` where that is larger.
void ExpectClose(const Floats& actual, const Doubles& expected, double tol,
                 const char* what, double size = 0) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (const double v : expected) size = std::max(size, std::fabs(v));
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tol * std::max(1e-3, size))
        << what << " at " << i;
  }
}

// Weights are gamma, beta, moving mean and variance.
struct NaiveBatchNormalization {
  Doubles y, dx, d_gamma, d_beta, mean, variance;
  double terms = 0;  // the largest number in the differences that give dx

  NaiveBatchNormalization(int64_t width, double epsilon, const Floats& x,
                          const std::vector<Floats>& w, const Floats& dy,
                          bool moving) {
    const auto n = static_cast<double>(x.size()) / static_cast<double>(width);
    const auto channels = static_cast<size_t>(width);
    y.resize(x.size());
    dx.resize(x.size());
    for (Doubles* v : {&d_gamma, &d_beta, &mean, &variance}) {
      v->resize(channels);
    }
    for (size_t i = 0; i < x.size(); ++i) mean[i % channels] += x[i] / n;
    for (size_t i = 0; i < x.size(); ++i) {
      const double d = x[i] - mean[i % channels];
      variance[i % channels] += d * d / n;
    }
    const auto hat = [&](size_t i) {
      const size_t c = i % channels;
      const double m = moving ? double{w[2][c]} : mean[c];
      const double v = moving ? double{w[3][c]} : variance[c];
      return (x[i] - m) / std::sqrt(v + epsilon);
    };
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t c = i % channels;
      y[i] = hat(i) * w[0][c] + w[1][c];
      d_beta[c] += dy[i];
      d_gamma[c] += dy[i] * hat(i);
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t c = i % channels;
      const double v = moving ? double{w[3][c]} : variance[c];
      const double rest = moving ? 0 : d_beta[c] / n + hat(i) * d_gamma[c] / n;
      dx[i] = w[0][c] / std::sqrt(v + epsilon) * (dy[i] - rest);
      terms = std::max(terms, std::fabs(w[0][c] / std::sqrt(v + epsilon)));
    }
  }
};

struct Case {
  Shape x;
  int64_t batch;
  float mean, deviation;
};

const Case kCases[] = {
    {{4}, 2, 0, 1},         {{7}, 32, 3, 2},        {{300}, 131, -1, 0.5f},
    {{5, 6, 3}, 9, 0, 1},   {{8, 8, 16}, 32, 5, 2}, {{1, 1, 513}, 128, 0, 1},
    {{33, 2}, 1, 10, 0.1f}, {{16, 16, 1}, 3, 1, 1}, {{9, 10}, 100, 1e3f, 1},
};

std::vector<Floats> Weights(int64_t width) {
  std::vector<Floats> w;
  for (uint64_t i = 0; i < 4; ++i) {
    w.push_back(RandomFloats(static_cast<size_t>(width), 20 + i));
  }
  for (float& v : w[3]) v = 1.5f + v;
  return w;
}

Floats Values(const Case& c) {
  Floats x = RandomFloats(static_cast<size_t>(c.batch * c.x.elements()), 3);
  for (float& v : x) v = c.mean + c.deviation * v;
  return x;
}

TEST(NormalizationTest, BatchNormalization_Training_IsTheFormula) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.x.ToString() + " x " + std::to_string(c.batch));
    const Floats x = Values(c), dy = RandomFloats(x.size(), 9);
    const std::vector<Floats> w = Weights(c.x.back());
    const NaiveBatchNormalization naive(c.x.back(), 1e-3, x, w, dy,
                                        /*moving=*/false);
    OpRunner runner(BatchNormalization(0.9f), {c.x});
    const OpRun run = runner.Run(c.batch, {x}, w, dy);
    // The mean of large values has the rounding error of such values.
    const double tol = 2e-6 + 1e-6 * std::fabs(c.mean) / c.deviation;
    ExpectClose(run.y, naive.y, tol, "y");
    ExpectClose(run.dx[0], naive.dx, 2 * tol, "dx", naive.terms);
    ExpectClose(run.d_weights[0], naive.d_gamma, 2 * tol, "gamma");
    ExpectClose(run.d_weights[1], naive.d_beta, 2 * tol, "beta");
    Doubles mean, variance;
    for (size_t i = 0; i < naive.mean.size(); ++i) {
      mean.push_back(0.1 * (naive.mean[i] - w[2][i]));
      variance.push_back(0.1 * (naive.variance[i] - w[3][i]));
    }
    ExpectClose(run.layer_state_changes[2], mean, 2e-6, "moving mean");
    ExpectClose(run.layer_state_changes[3], variance, tol, "moving variance");
    EXPECT_EQ(run.ready, std::vector<int64_t>{1000});
    for (const int threads : {2, 3}) {
      const OpRun other = runner.Run(c.batch, {x}, w, dy, threads, 2 * c.batch);
      EXPECT_EQ(other.y, run.y);
      EXPECT_EQ(other.dx, run.dx);
      EXPECT_EQ(other.d_weights, run.d_weights);
      EXPECT_EQ(other.layer_state_changes, run.layer_state_changes);
    }
  }
}

TEST(NormalizationTest,
     BatchNormalization_InferenceOrFrozen_UsesMovingStatistics) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.x.ToString() + " x " + std::to_string(c.batch));
    const Floats x = Values(c), dy = RandomFloats(x.size(), 9);
    const std::vector<Floats> w = Weights(c.x.back());
    const NaiveBatchNormalization naive(c.x.back(), 0.25, x, w, dy,
                                        /*moving=*/true);
    OpRunner evaluates(BatchNormalization(0.9f, 0.25f), {c.x});
    evaluates.training = false;
    const OpRun run = evaluates.Run(c.batch, {x}, w, {}, 2);
    ExpectClose(run.y, naive.y, 1e-6, "y");
    EXPECT_EQ(run.layer_state_changes[2], Floats(w[0].size(), 0.0f));
    // A frozen layer uses the moving statistics in training too, and trains
    // nothing.
    OpRunner frozen(BatchNormalization(0.9f, 0.25f).Trainable(false), {c.x});
    EXPECT_FALSE(frozen.op().backward_reads_input());
    const OpRun still = frozen.Run(c.batch, {x}, w, dy);
    EXPECT_EQ(still.y, run.y);
    ExpectClose(still.dx[0], naive.dx, 1e-6, "dx");
    EXPECT_EQ(still.layer_state_changes[3], Floats(w[0].size(), 0.0f));
    EXPECT_TRUE(still.ready.empty());
    EXPECT_EQ(still.d_weights[0],
              Floats(w[0].size(), GuardedFloats::kUnwritten));
  }
}

// The rounded mean of several replicas' changes may leave such a variance.
TEST(NormalizationTest, MovingVariance_JustBelowZero_CountsAsZero) {
  const Floats x = RandomFloats(12, 3);
  std::vector<Floats> w = Weights(3);
  OpRunner runner(BatchNormalization(0, 1e-9f), {{3}});
  runner.training = false;
  w[3] = Floats(3, 0.0f);
  const Floats zero_output = runner.Run(4, {x}, w, {}).y;
  w[3] = Floats(3, -6e-8f);
  EXPECT_EQ(runner.Run(4, {x}, w, {}).y, zero_output);
  OpRunner frozen(BatchNormalization(0, 1e-9f).Trainable(false), {{3}});
  EXPECT_EQ(frozen.Run(4, {x}, w, RandomFloats(12, 4)).y, zero_output);
}

// A batch without variance: a single example, or many equal examples.
TEST(NormalizationTest, BatchNormalization_NoVariance_GivesBeta) {
  for (const int64_t batch : {1, 2, 32, 128}) {
    const Shape shape = {5};
    const std::vector<Floats> w = Weights(5);
    const Floats one = RandomFloats(5, 3), dy = RandomFloats(5, 4);
    Floats x, y, d;
    for (int64_t i = 0; i < batch; ++i) {
      x.insert(x.end(), one.begin(), one.end());
      y.insert(y.end(), w[1].begin(), w[1].end());
      d.insert(d.end(), dy.begin(), dy.end());
    }
    OpRunner runner(BatchNormalization(), {shape});
    const OpRun run = runner.Run(batch, {x}, w, d);
    EXPECT_EQ(run.y, y);
    for (const float v : run.dx[0]) EXPECT_NEAR(v, 0, batch < 3 ? 0 : 4e-6);
    EXPECT_EQ(run.d_weights[0], Floats(5, 0.0f));
  }
}

TEST(NormalizationTest, BatchNormalization_NoBetaOrGamma_TakesZeroAndOne) {
  const Case c = {{6, 4}, 8, 2, 1};
  const Floats x = Values(c), dy = RandomFloats(x.size(), 9);
  std::vector<Floats> w = Weights(4);
  w[0].assign(4, 1);
  w[1].assign(4, 0);
  OpRunner whole(BatchNormalization(), {c.x});
  const OpRun expected = whole.Run(c.batch, {x}, w, dy);
  OpRunner bare(BatchNormalization().Center(false).Scale(false), {c.x});
  ASSERT_EQ(bare.op().weights().size(), 2u);
  const OpRun run = bare.Run(c.batch, {x}, {w[2], w[3]}, dy);
  EXPECT_EQ(run.y, expected.y);
  EXPECT_EQ(run.dx, expected.dx);
  EXPECT_TRUE(run.ready.empty());  // none of its weights is trained
  OpRunner scaled(BatchNormalization().Center(false), {c.x});
  EXPECT_EQ(scaled.op().weights()[0].name, "gamma");
  OpRunner centered(BatchNormalization().Scale(false), {c.x});
  EXPECT_EQ(centered.op().weights()[0].name, "beta");
  EXPECT_EQ(centered.Run(c.batch, {x}, {w[1], w[2], w[3]}, dy).y, expected.y);
}

TEST(NormalizationTest, LayerNormalization_AnyAxes_IsTheFormula) {
  for (const Case& c : kCases) {
    for (int count = 1; count <= c.x.rank(); ++count) {
      SCOPED_TRACE(c.x.ToString() + " x " + std::to_string(c.batch) + ", " +
                   std::to_string(count) + " axes");
      std::vector<int64_t> axes;
      for (int i = count; i > 0; --i) {
        axes.push_back(i == 2 ? c.x.rank() - 1 : -i);  // both ways to count
      }
      OpRunner runner(LayerNormalization().Axes(axes), {c.x});
      ASSERT_OK(runner.status());
      EXPECT_EQ(runner.op().weights()[0].shape.rank(), count);
      const auto width =
          static_cast<size_t>(runner.op().weights()[0].shape.elements());
      const Floats x = Values(c), dy = RandomFloats(x.size(), 9);
      const std::vector<Floats> w = {RandomFloats(width, 1),
                                     RandomFloats(width, 2)};
      Doubles y, dx, d_gamma(width), d_beta(width);
      const auto n = static_cast<double>(width);
      double terms = 0;
      for (size_t row = 0; row < x.size(); row += width) {
        double mean = 0, variance = 0, sum = 0, product = 0;
        for (size_t i = 0; i < width; ++i) mean += x[row + i] / n;
        for (size_t i = 0; i < width; ++i) {
          variance += std::pow(x[row + i] - mean, 2) / n;
        }
        const double s = std::sqrt(variance + double{1e-3f});
        for (size_t i = 0; i < width; ++i) {
          const double hat = (x[row + i] - mean) / s;
          const double g = double{w[0][i]} * dy[row + i];
          y.push_back(hat * w[0][i] + w[1][i]);
          d_gamma[i] += dy[row + i] * hat;
          d_beta[i] += double{dy[row + i]};
          sum += g / n;
          product += g * hat / n;
          terms = std::max(terms, std::fabs(g / s));
        }
        for (size_t i = 0; i < width; ++i) {
          const double hat = (x[row + i] - mean) / s;
          dx.push_back((w[0][i] * dy[row + i] - sum - hat * product) / s);
        }
      }
      const OpRun run = runner.Run(c.batch, {x}, w, dy);
      const double tol = 2e-6 + 1e-6 * std::fabs(c.mean) / c.deviation;
      ExpectClose(run.y, y, tol, "y");
      ExpectClose(run.dx[0], dx, 2 * tol, "dx", terms);
      ExpectClose(run.d_weights[0], d_gamma, 2 * tol, "gamma");
      ExpectClose(run.d_weights[1], d_beta, 2 * tol, "beta");
      for (const int threads : {2, 3}) {
        const OpRun other =
            runner.Run(c.batch, {x}, w, dy, threads, 2 * c.batch);
        EXPECT_EQ(other.y, run.y);
        EXPECT_EQ(other.dx, run.dx);
        EXPECT_EQ(other.d_weights, run.d_weights);
      }
      OpRunner frozen(LayerNormalization().Axes(axes).Trainable(false), {c.x});
      const OpRun still = frozen.Run(c.batch, {x}, w, dy);
      EXPECT_EQ(still.dx, run.dx);
      EXPECT_TRUE(still.ready.empty());
      runner.training = false;
      EXPECT_EQ(runner.Run(c.batch, {x}, w, {}).y, run.y);
    }
  }
}

TEST(NormalizationTest, LayerNormalization_NoVariance_GivesBeta) {
  OpRunner runner(LayerNormalization(), {{37}});
  const std::vector<Floats> w = {RandomFloats(37, 1), RandomFloats(37, 2)};
  EXPECT_EQ(runner.Run(1, {Floats(37, 0.3f)}, w, {}).y, w[1]);
}

TEST(NormalizationTest, Rescaling_OneNumberOrPerChannel_IsTheFormula) {
  OpRunner one(Rescaling(0.5f, -1), {{2, 3}});
  const OpRun run = one.Run(1, {{0, 1, 2, 3, 4, 5}}, {}, {1, 2, 3, 4, 5, 6}, 2);
  EXPECT_EQ(run.y, (Floats{-1, -0.5f, 0, 0.5f, 1, 1.5f}));
  EXPECT_EQ(run.dx[0], (Floats{0.5f, 1, 1.5f, 2, 2.5f, 3}));
  OpRunner each(Rescaling({1, 2, 3}, {0, 0, 10}), {{2, 3}});
  EXPECT_EQ(each.Run(1, {{0, 1, 2, 3, 4, 5}}, {}, {}).y,
            (Floats{0, 2, 16, 3, 8, 25}));
  OpRunner number(Rescaling(2), {Shape()});
  EXPECT_EQ(number.Run(3, {{1, 2, 3}}, {}, {}).y, (Floats{2, 4, 6}));
}

TEST(NormalizationTest, Normalization_GivenStatistics_TakesThem) {
  const Layer forward = Normalization({1, 2}, {4, 0.25f});
  OpRunner runner(forward, {{2}});
  const OpRun run = runner.Run(2, {{1, 2, 5, 3}}, {}, {1, 1, 1, 1});
  EXPECT_EQ(run.y, (Floats{0, 0, 2, 2}));
  EXPECT_EQ(run.dx[0], (Floats{0.5f, 2, 0.5f, 2}));
  OpRunner inverse(Layer(forward).Invert(true), {{2}});
  EXPECT_EQ(inverse.Run(2, {run.y}, {}, {}).y, (Floats{1, 2, 5, 3}));
  // Keras's least deviation.
  OpRunner constant(Normalization({0}, {0}), {{2}});
  EXPECT_FLOAT_EQ(constant.Run(1, {{1e-7f, 0}}, {}, {}).y[0], 1);
}

// Gradients are written over the input, with the gradient of the activation
// that made it.
TEST(NormalizationTest, Gradients_WrittenOverTheInput_EqualTheSeparateOnes) {
  const auto gradients = [](const Layer& layer, Activation activation,
                            bool fused) {
    Functional model;
    const auto in = model.Add(Input({2, 3}));
    auto x = model.Add(Dense(5, activation), {in});
    auto y = model.Add(layer, {x});
    if (!fused) {  // the sum with a copy forbids it
      y = model.Add(Add(), {y, model.Add(Rescaling(0), {x})});
    }
    model.Add(Dense(1), {model.Add(Flatten(), {y})});
    CompileOptions options;
    options.threads = 2;
    model.Compile(SGD(), MeanSquaredError(), {}, options);
    EXPECT_OK(model.status());
    const Floats inputs = RandomFloats(6 * 9, 3), targets = RandomFloats(9, 4);
    Batch batch;
    batch.count = batch.global_count = 9;
    batch.y = targets.data();
    double loss;
    EXPECT_OK(model.Forward(inputs.data(), 9, /*training=*/true));
    EXPECT_OK(model.ComputeLoss(batch, &loss));
    EXPECT_OK(model.Backward());
    return Floats(model.gradients(), model.gradients() + model.num_trained());
  };
  const Layer layers[] = {
      BatchNormalization(), BatchNormalization().Trainable(false),
      LayerNormalization().Axes({-2, -1}), Rescaling({1, 2, 3, 4, 5}, {0}),
      Normalization({1}, {3})};
  for (const Layer& layer : layers) {
    for (const Activation a : {kLinear, kRelu, kSigmoid, kTanh, kSoftmax}) {
      const Floats fused = gradients(layer, a, /*fused=*/true);
      const Floats apart = gradients(layer, a, /*fused=*/false);
      ExpectClose(fused, Doubles(apart.begin(), apart.end()), 1e-6,
                  ClassName(layer));
    }
  }
}

TEST(NormalizationTest, Normalization_DoesNotFit_ErrorNamesIt) {
  const auto error = [](const Layer& layer, const Shape& shape) {
    OpRunner runner(layer, {shape});
    return std::string(runner.status().message());
  };
  EXPECT_TRUE(Contains(error(BatchNormalization(), Shape()), "one dimension"));
  EXPECT_TRUE(Contains(error(BatchNormalization(1.5f), {3}), "momentum"));
  EXPECT_TRUE(Contains(error(BatchNormalization(0.9f, -1), {3}), "epsilon"));
  EXPECT_TRUE(Contains(error(BatchNormalization(0.9f, NAN), {3}), "epsilon"));
  EXPECT_TRUE(Contains(error(BatchNormalization().UseBias(false), {3}),
                       "BatchNormalization has no use_bias"));
  for (const std::vector<int64_t>& axes : std::vector<std::vector<int64_t>>{
           {}, {0}, {1}, {-2}, {-1, -2}, {2, 2}, {0, 1, 2}, {-4, -3}, {3}}) {
    EXPECT_TRUE(
        Contains(error(LayerNormalization().Axes(axes), {3, 4}), "axis must"));
  }
  EXPECT_TRUE(Contains(error(LayerNormalization(), Shape()), "axis must"));
  EXPECT_TRUE(
      Contains(error(Rescaling({1, 2}, {0}), {3}), "scale has 2 values"));
  EXPECT_TRUE(Contains(error(Rescaling(NAN), {3}), "scale must be a finite"));
  EXPECT_TRUE(
      Contains(error(Normalization({0}, {-1}), {3}), "variance must be"));
  EXPECT_TRUE(
      Contains(error(Normalization({}, {1}), {3}), "mean has 0 values"));
  EXPECT_TRUE(
      Contains(error(Dense(2).Scale(false), {3}), "Dense has no scale"));
}

}  // namespace
}  // namespace ringlet
