// Compares activations and their layers with reference implementations in
// float64.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "../../support/naive_activations.h"
#include "../../support/op_runner.h"
#include "core/layers/layer_loops.h"
#include "core/layers/layer_table.h"
#include "ringlet/custom_layer.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

// Points of all magnitudes and both signs, and the neighbours of the kinks.
Floats Points() {
  Floats points;
  for (const float kink : {0.0f, 3.0f, 6.0f}) {
    for (const float sign : {-1.0f, 1.0f}) {
      points.push_back(sign * kink);
      points.push_back(std::nextafter(sign * kink, 100.0f));
      points.push_back(std::nextafter(sign * kink, -100.0f));
    }
  }
  for (const float scale : {1e-3f, 1.0f, 8.0f, 30.0f}) {
    for (const float v : RandomFloats(200, 5)) points.push_back(scale * v);
  }
  for (const float v : {50.0f, 80.0f, 1000.0f}) {
    points.push_back(v);
    points.push_back(-v);
  }
  return points;
}

double Tolerance(double value) {
  return 1e-6 * std::max(1.0, std::fabs(value)) + 2e-7;
}

TEST(ActivationsTest, Activation_ManyPoints_HasTheDefinitionsValueAndSlope) {
  const Floats x = Points();
  const auto n = static_cast<int64_t>(x.size());
  for (const Activation a : naive::kOfOneNumber) {
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(ActivationName(a));
      OpRunner runner(ActivationLayer(a), {{1}});
      const OpRun run = runner.Run(n, {x}, {}, Floats(x.size(), 1), threads);
      for (size_t i = 0; i < x.size(); ++i) {
        const double y = naive::Activate(a, x[i]);
        const double slope = naive::Slope(a, x[i]);
        if (std::fabs(y) > 1e38) continue;  // more than a float holds
        EXPECT_NEAR(run.y[i], y, Tolerance(y)) << "at " << x[i];
        // At a kink either of the two slopes is right.
        const double jump =
            naive::Slope(a, x[i] + 1e-6) - naive::Slope(a, x[i] - 1e-6);
        if (std::fabs(jump) > 0.1 && a != kExponential) continue;
        EXPECT_NEAR(run.dx[0][i], slope, Tolerance(slope)) << "at " << x[i];
      }
    }
  }
}

TEST(ActivationsTest, Activation_HugeValuesOrNan_DoesNotOverflowAndKeepsNan) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const Activation a : naive::kOfOneNumber) {
    SCOPED_TRACE(ActivationName(a));
    OpRunner runner(ActivationLayer(a), {{3}});
    const OpRun run =
        runner.Run(1, {{1e30f, -1e30f, std::nanf("")}}, {}, {1, 1, 1});
    EXPECT_TRUE(a == kExponential ? run.y[0] == kInf : run.y[0] <= 1.1e30f);
    EXPECT_FALSE(std::isnan(run.y[1]));
    EXPECT_TRUE(std::isnan(run.y[2]));
    if (a != kExponential) {
      EXPECT_FALSE(std::isnan(run.dx[0][0]));
    }
    EXPECT_FALSE(std::isnan(run.dx[0][1]));
  }
}

TEST(ActivationsTest, LogSoftmax_AnyRow_IsTheLogarithmOfSoftmax) {
  const Floats x = {1, 2, 3, -50, 80, 0, 1e4f, 1e4f, -1e4f};
  const Floats dy = {1, -2, 0.5f, 1, 1, 1, 3, 0, 1};
  OpRunner runner(ActivationLayer(kLogSoftmax), {{3}});
  for (const int threads : {1, 3}) {
    const OpRun run = runner.Run(3, {x}, {}, dy, threads);
    for (size_t row = 0; row < 9; row += 3) {
      double largest = x[row], sum = 0, total = 0;
      for (size_t j = row; j < row + 3; ++j) {
        largest = std::max(largest, double{x[j]});
        total += dy[j];
      }
      for (size_t j = row; j < row + 3; ++j) sum += std::exp(x[j] - largest);
      for (size_t j = row; j < row + 3; ++j) {
        const double y = x[j] - largest - std::log(sum);
        EXPECT_NEAR(run.y[j], y, Tolerance(y));
        EXPECT_NEAR(run.dx[0][j], dy[j] - std::exp(y) * total, 1e-6);
      }
    }
  }
}

// A layer with an activation computes the same as the layer and an Activation
// behind it, in training and in prediction, whatever overwrites its output.
TEST(ActivationsTest, ActivationField_AnyLayer_EqualsALayerBehindIt) {
  for (const NamedActivation& row : kActivations) {
    SCOPED_TRACE(row.name);
    for (const Layer& layer : {Dense(5), Conv2D(3, 2)}) {
      Layer with = layer;
      with.activation = row.value;
      const Shape x =
          layer.kind == Layer::Kind::kDense ? Shape{4} : Shape{4, 3, 2};
      OpRunner alone(layer, {x}), both(with, {x});
      const std::vector<Floats> w = alone.RandomWeights(3);
      const auto floats = static_cast<size_t>(x.elements() * 3);
      const Floats in = RandomFloats(floats, 1);
      const OpRun z = alone.Run(3, {in}, w, {});
      const Floats dy = RandomFloats(z.y.size(), 2);
      OpRunner behind(ActivationLayer(row.value), {alone.op().output()});
      const OpRun a = behind.Run(3, {z.y}, {}, dy);
      const OpRun expected = alone.Run(3, {in}, w, a.dx[0]);
      for (const int threads : {1, 2}) {
        const OpRun actual = both.Run(3, {in}, w, dy, threads, 8);
        EXPECT_EQ(actual.y, a.y);
        if (threads == 1) {
          EXPECT_EQ(actual.dx, expected.dx);
          EXPECT_EQ(actual.d_weights, expected.d_weights);
        }
        both.training = false;
        EXPECT_EQ(both.Run(3, {in}, w, {}, threads).y, a.y);
        both.training = true;
      }
    }
  }
}

// Dense layers write their input's gradient over it, where that can be.
TEST(ActivationsTest, DenseChain_WithActivations_TrainsAsSeparateLayers) {
  for (const NamedActivation& row : kActivations) {
    if (row.value == kExponential) continue;  // grows out of floats' range
    SCOPED_TRACE(row.name);
    Sequential fused(
        {Input({6}), Dense(9, row.value), Dense(7, row.value), Dense(2)});
    Sequential apart({Input({6}), Dense(9).Name("dense"),
                      ActivationLayer(row.value), Dense(7).Name("dense_1"),
                      ActivationLayer(row.value), Dense(2).Name("dense_2")});
    const Floats x = RandomFloats(6 * 20, 4), y = RandomFloats(2 * 20, 8);
    for (Model* model :
         {static_cast<Model*>(&fused), static_cast<Model*>(&apart)}) {
      model->Compile(Adam(0.01f), MeanSquaredError(), {}, {});
      ASSERT_OK(model->status());
      Philox random(1, 2);
      for (int64_t i = 0; i < model->num_weights(); ++i) {
        model->weights()[i] =
            0.5f - Philox::Unit(random.At(static_cast<uint64_t>(i))[0]);
      }
      for (int step = 0; step < 5; ++step) {
        Batch batch;
        batch.x = x.data();
        batch.y = y.data();
        batch.count = batch.global_count = step == 4 ? 1 : 20;
        ASSERT_OK(model->TrainStep(batch));
      }
    }
    EXPECT_EQ(WeightsOf(&fused), WeightsOf(&apart));
  }
}

TEST(ActivationsTest, Gradients_EachActivation_AgreeWithFiniteDifferences) {
  for (const Activation a :
       {kElu, kSelu, kExponential, kSoftsign, kSoftplus, kLogSoftmax, kGelu,
        kSilu, kHardSilu, kMish, kHardSigmoid}) {
    SCOPED_TRACE(ActivationName(a));
    for (const Layer& layer : {Dense(5, a), ActivationLayer(a)}) {
      EXPECT_OK(CheckGradients(layer, {{6}}));
    }
  }
}

double ReluOf(const Layer& l, double x) {
  const double top = l.max_value;
  if (x > l.threshold) return std::min(x, top);
  return l.negative_slope * (x - l.threshold);
}

TEST(ActivationsTest, ReluLeakyReluElu_AnyParameters_FollowTheDefinition) {
  constexpr float kNone = std::numeric_limits<float>::infinity();
  Floats x = RandomFloats(301, 9);
  for (float& v : x) v *= 6;
  const Floats dy = RandomFloats(301, 10);
  for (const Layer& layer :
       {ReLU(), ReLU(6), ReLU(2.5f), ReLU(3, 0.1f), ReLU(kNone, 0.25f),
        ReLU(kNone, 0, 1), ReLU(5, 0.5f, 2), LeakyReLU(), LeakyReLU(0), ELU(),
        ELU(0.3f), ELU(0)}) {
    SCOPED_TRACE(ClassName(layer));
    OpRunner runner(layer, {{7}});
    for (const int threads : {1, 3}) {
      const OpRun run = runner.Run(43, {x}, {}, dy, threads, 50);
      for (size_t i = 0; i < x.size(); ++i) {
        const auto value = [&](double at) {
          if (layer.kind != Layer::Kind::kELU) return ReluOf(layer, at);
          return at > 0 ? at : layer.alpha * std::expm1(at);
        };
        const double h = 1e-5;
        const double slope = (value(x[i] + h) - value(x[i] - h)) / (2 * h);
        EXPECT_NEAR(run.y[i], value(x[i]), 1e-6 * 6);
        EXPECT_NEAR(run.dx[0][i], dy[i] * slope, 2e-5) << "at " << x[i];
      }
    }
  }
  EXPECT_FALSE(OpRunner(LeakyReLU(-1), {{2}}).status().ok());
  EXPECT_FALSE(OpRunner(ReLU(-1), {{2}}).status().ok());
  EXPECT_FALSE(OpRunner(ELU(-1), {{2}}).status().ok());
}

// TensorFlow's gradients: a clip lets one through at its ends, relu6 does not.
TEST(ActivationsTest, Gradient_AtTheBends_EqualsTensorFlow) {
  constexpr float kNone = std::numeric_limits<float>::infinity();
  const auto slopes = [](const Layer& layer, const Floats& x) {
    const auto n = static_cast<int64_t>(x.size());
    OpRunner runner(layer, {{n}});
    return runner.Run(1, {x}, {}, Floats(x.size(), 1.0f)).dx[0];
  };
  EXPECT_EQ(slopes(ReLU(6), {-1, 0, 5, 6, 7}), (Floats{0, 0, 1, 0, 0}));
  EXPECT_EQ(slopes(ActivationLayer(kRelu6), {0, 5, 6, 7}),
            (Floats{0, 1, 0, 0}));
  EXPECT_EQ(slopes(ReLU(6, 0.5f), {-1, 0, 6, 7}), (Floats{0.5f, 0, 0, 0}));
  EXPECT_EQ(slopes(ReLU(2), {-1, 0, 1, 2, 3}), (Floats{0, 0, 1, 1, 0}));
  EXPECT_EQ(slopes(ReLU(2, 0.5f), {-1, 0, 2, 3}), (Floats{0.5f, 0, 1, 0}));
  EXPECT_EQ(slopes(ReLU(6, 0, 1), {0, 1, 2, 6, 7}), (Floats{0, 0, 1, 1, 0}));
  EXPECT_EQ(slopes(ReLU(kNone, 0.5f, 1), {0, 1, 2}), (Floats{0.5f, 0, 1}));
  EXPECT_EQ(slopes(ReLU(0), {-1, 0, 1}), (Floats{0, 0, 0}));
  EXPECT_EQ(slopes(LeakyReLU(0.5f), {-1, 0, 1}), (Floats{0.5f, 0.5f, 1}));
  EXPECT_EQ(
      slopes(ActivationLayer(kHardSigmoidKeras2), {-3, -2.5f, 0, 2.5f, 3}),
      (Floats{0, 0.2f, 0.2f, 0.2f, 0}));
}

// Compares with the definition in double; the values of a row are one sum.
TEST(ActivationsTest, Softmax_OverOtherAxes_EqualsItsRows) {
  struct Case {
    std::vector<int64_t> axes;
    int64_t outer, count, inner;  // extents of axes of (3, 5, 70)
  };
  const int64_t batch = 4, size = 3 * 5 * 70;
  const Floats x = RandomFloats(batch * size, 5),
               dy = RandomFloats(batch * size, 6);
  for (const Case& c : {Case{{1}, 1, 3, 350}, Case{{-2}, 3, 5, 70},
                        Case{{2, 1}, 1, 15, 70}, Case{{-1, -2}, 3, 350, 1},
                        Case{{1, 2, 3}, 1, size, 1}, Case{{3}, 15, 70, 1}}) {
    OpRunner runner(Softmax(c.axes), {{3, 5, 70}});
    ASSERT_OK(runner.status());
    const OpRun run = runner.Run(batch, {x}, {}, dy);
    for (int64_t row = 0; row < batch * c.outer * c.inner; ++row) {
      const int64_t first = row / c.inner * c.count * c.inner + row % c.inner;
      double sum = 0, dot = 0;
      for (int64_t i = 0; i < c.count; ++i) {
        const int64_t at = first + i * c.inner;
        sum += std::exp(double{x[at]});
        dot += std::exp(double{x[at]}) * dy[at];
      }
      for (int64_t i = 0; i < c.count; ++i) {
        const int64_t at = first + i * c.inner;
        const double y = std::exp(double{x[at]}) / sum;
        ASSERT_NEAR(run.y[at], y, 1e-6 * y + 1e-7) << "at " << at;
        ASSERT_NEAR(run.dx[0][at], y * (dy[at] - dot / sum), 2e-6);
      }
    }
    for (int threads : {2, 3}) {
      const OpRun same = runner.Run(batch, {x}, {}, dy, threads, batch + 2);
      EXPECT_EQ(same.y, run.y);
      EXPECT_EQ(same.dx, run.dx);
    }
  }
  for (const std::vector<int64_t>& axes : std::vector<std::vector<int64_t>>{
           {}, {0}, {1, 3}, {4}, {-4}, {1, 1}, {1, -3}}) {
    const OpRunner runner(Softmax(axes), {{3, 5, 70}});
    EXPECT_TRUE(Contains(runner.status(), "axis must be"));
  }
  OpRunner large(Softmax({1}), {{2, 1}});
  EXPECT_EQ(large.Run(1, {{1e4f, -1e4f}}, {}, {}).y, (Floats{1, 0}));
}

double PReluOf(double x, double alpha) { return x < 0 ? alpha * x : x; }

TEST(ActivationsTest, PReLU_AnySharedAxes_TrainsTheSlopeBelowZero) {
  struct Case {
    std::vector<int64_t> shared;
    Shape alpha;
  };
  const Shape shape = {4, 3, 5};
  const size_t batch = 131, size = 60;
  Floats x = RandomFloats(batch * size, 5);
  const Floats dy = RandomFloats(batch * size, 6);
  x[7] = 0;
  for (const Case& c : {Case{{}, {4, 3, 5}}, Case{{1, 2}, {1, 1, 5}},
                        Case{{1, 2, 3}, {1, 1, 1}}, Case{{2}, {4, 1, 5}},
                        Case{{3}, {4, 3, 1}}, Case{{1, 3}, {1, 3, 1}}}) {
    SCOPED_TRACE(c.alpha.ToString());
    OpRunner runner(PReLU(c.shared), {shape});
    ASSERT_OK(runner.status());
    EXPECT_EQ(runner.op().weights()[0].shape, c.alpha);
    const std::vector<Floats> w = runner.RandomWeights(8);
    const OpRun run = runner.Run(batch, {x}, w, dy);
    std::vector<double> slopes(w[0].size());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t at[] = {i / 15 % 4, i / 5 % 3, i % 5};
      size_t a = 0;
      for (int axis = 0; axis < 3; ++axis) {
        const auto n = static_cast<size_t>(c.alpha[axis]);
        a = a * n + (n == 1 ? 0 : at[axis]);
      }
      ASSERT_FLOAT_EQ(run.y[i], PReluOf(x[i], w[0][a])) << "at " << i;
      ASSERT_FLOAT_EQ(run.dx[0][i], x[i] > 0   ? dy[i]
                                    : x[i] < 0 ? w[0][a] * dy[i]
                                               : 0);
      if (x[i] < 0) slopes[a] += double{x[i]} * dy[i];
    }
    for (size_t a = 0; a < slopes.size(); ++a) {
      EXPECT_NEAR(run.d_weights[0][a], slopes[a], 2e-5) << "at " << a;
    }
    for (int threads : {2, 3}) {
      const OpRun same = runner.Run(batch, {x}, w, dy, threads, batch + 200);
      EXPECT_EQ(same.y, run.y);
      EXPECT_EQ(same.dx, run.dx);
      EXPECT_EQ(same.d_weights, run.d_weights);
    }
    OpRunner frozen(PReLU(c.shared).Trainable(false), {shape});
    EXPECT_EQ(frozen.Run(batch, {x}, w, dy, 2).dx, run.dx);
    runner.wants_dx = false;
    EXPECT_EQ(runner.Run(batch, {x}, w, dy, 2).d_weights, run.d_weights);
  }
  for (const int64_t axis : {0, -1, 4}) {
    const OpRunner runner(PReLU({axis}), {shape});
    EXPECT_TRUE(Contains(runner.status(), "shared_axes"));
  }
}

}  // namespace
}  // namespace ringlet
