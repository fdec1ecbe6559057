#include "ringlet/layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../../support/expect_ok.h"
#include "../../support/naive_layers.h"
#include "../../support/op_checks.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

TEST(LayersTest, Gradients_SmoothLayers_AgreeWithFiniteDifferences) {
  for (int threads : {1, 3}) {
    // Without relu and max: random points may hit their kinks. They are linear
    // around the points of the next test.
    for (Activation a : {kLinear, kSigmoid, kTanh, kSoftmax}) {
      CheckGradients(Dense(5, a), {{7}}, 3, threads);
      CheckGradients(ActivationLayer(a), {{4, 5}}, 3, threads);
    }
    CheckGradients(Dense(4).UseBias(false), {{3, 6}}, 2, threads);
    CheckGradients(Conv2D(3, 3, kTanh), {{6, 7, 2}}, 4, threads);
    CheckGradients(Conv2D(3, 2, 3).Strides(2, 1).Padding(kSame), {{5, 6, 2}}, 4,
                   threads);
    CheckGradients(Conv2D(2, 5, 5).Padding(kSame).UseBias(false), {{3, 4, 1}},
                   2, threads);
    CheckGradients(AveragePooling2D(2), {{5, 6, 3}}, 3, threads);
    CheckGradients(AveragePooling2D(3, 2).Strides(2, 1).Padding(kSame),
                   {{5, 6, 3}}, 3, threads);
    CheckGradients(GlobalAveragePooling2D(), {{5, 6, 3}}, 3, threads);
    CheckGradients(GlobalAveragePooling2D().KeepDims(true), {{1, 4, 2}}, 2,
                   threads);
    CheckGradients(BatchNormalization(), {{5}}, 9, threads);
    CheckGradients(BatchNormalization().Scale(false), {{2, 3, 4}}, 3, threads);
    CheckGradients(BatchNormalization().Center(false).Scale(false), {{2, 4}}, 5,
                   threads);
    CheckGradients(LayerNormalization(), {{3, 5}}, 4, threads);
    CheckGradients(LayerNormalization().Axes({-2, -1}).Scale(false), {{3, 5}},
                   2, threads);
    CheckGradients(UnitNormalization(), {{3, 5}}, 4, threads);
    CheckGradients(UnitNormalization().Axes({1, 2}), {{3, 5}}, 2, threads);
    CheckGradients(Rescaling({1, -2, 0.5f}, {3}), {{4, 3}}, 2, threads);
    CheckGradients(Normalization({1}, {2}), {{4, 3}}, 2, threads);
    CheckGradients(Dropout(0.4f), {{5, 7}}, 3, threads);
    CheckGradients(Add(), {{3, 4}, {3, 4}, {3, 4}}, 2, threads);
    CheckGradients(Concatenate(), {{3, 4}, {3, 2}}, 2, threads);
    for (const Layer& merge : {Add(), Subtract(), Multiply(), Average()}) {
      CheckGradients(merge, {{3, 4}, {3, 4}}, 2, threads);
      CheckGradients(merge, {{2, 3, 4}, {1, 1, 4}}, 3, threads);
      CheckGradients(merge, {{4}, {2, 3, 4}}, 3, threads);
      CheckGradients(merge, {{2, 1, 300}, {3, 1}}, 3, threads);
    }
    CheckGradients(Multiply(), {{3, 4}, {4}, {3, 1}, {3, 4}}, 2, threads);
    CheckGradients(Average(), {{3, 4}, {4}, {1}}, 2, threads);
  }
}

// At a kink the gradient is defined: it is 0 for ReLU at 0, and the first of
// several equal maxima gets it.
TEST(LayersTest, Gradients_KinkedLayers_AreExact) {
  OpRunner relu(ReLU(), {{6}});
  const OpRun run =
      relu.Run(1, {{-2, -1, 0, 0.5f, 1, 2}}, {}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run.y, (Floats{0, 0, 0, 0.5f, 1, 2}));
  EXPECT_EQ(run.dx[0], (Floats{0, 0, 0, 4, 5, 6}));

  // Overlapping windows: a pixel may win twice, a tie goes to the first.
  OpRunner pool(MaxPooling2D(2).Strides(1), {{3, 3, 1}});
  const OpRun max =
      pool.Run(1, {{1, 2, 2, 0, 9, 3, 7, 7, 1}}, {}, {1, 10, 100, 1000});
  EXPECT_EQ(max.y, (Floats{9, 9, 9, 9}));
  EXPECT_EQ(max.dx[0], (Floats{0, 0, 0, 0, 1111, 0, 0, 0, 0}));
  OpRunner tie(MaxPooling2D(2), {{2, 2, 1}});
  EXPECT_EQ(tie.Run(1, {{5, 5, 5, 5}}, {}, {3}).dx[0], (Floats{3, 0, 0, 0}));
}

TEST(LayersTest, Merge_EqualValuesOrBroadcast_EqualsTheDefinition) {
  const auto run = [](const Layer& layer, const std::vector<Shape>& shapes,
                      int64_t batch, const std::vector<Floats>& x,
                      const Floats& dy) {
    OpRunner runner(layer, shapes);
    EXPECT_OK(runner.status());
    return runner.Run(batch, x, {}, dy);
  };
  const std::vector<Floats> three = {{1, 5, 3}, {1, 2, 9}, {0, 5, 9}};
  OpRun actual = run(Maximum(), {{3}, {3}, {3}}, 1, three, {1, 2, 3});
  EXPECT_EQ(actual.y, (Floats{1, 5, 9}));
  EXPECT_EQ(actual.dx, (std::vector<Floats>{{1, 2, 0}, {0, 0, 3}, {0, 0, 0}}));
  actual = run(Minimum(), {{3}, {3}, {3}}, 1, three, {1, 2, 3});
  EXPECT_EQ(actual.y, (Floats{0, 2, 3}));
  EXPECT_EQ(actual.dx, (std::vector<Floats>{{0, 0, 3}, {0, 2, 0}, {1, 0, 0}}));
  // Two examples of two pixels with two channels, times a number for each.
  actual = run(Multiply(), {{2, 1, 2}, {1, 1, 2}}, 2,
               {{1, 2, 3, 4, 5, 6, 7, 8}, {10, 20, 1, -1}},
               {1, 1, 1, 1, 1, 1, 1, 2});
  EXPECT_EQ(actual.y, (Floats{10, 40, 30, 80, 5, -6, 7, -8}));
  EXPECT_EQ(actual.dx[0], (Floats{10, 20, 10, 20, 1, -1, 1, -2}));
  EXPECT_EQ(actual.dx[1], (Floats{4, 6, 12, 22}));
  actual = run(Subtract(), {{1}, {3}}, 1, {{5}, {1, 2, 3}}, {1, 1, 2});
  EXPECT_EQ(actual.y, (Floats{4, 3, 2}));
  EXPECT_EQ(actual.dx, (std::vector<Floats>{{4}, {-1, -1, -2}}));
  const auto error = [](const Layer& layer, const std::vector<Shape>& shapes) {
    return std::string(OpRunner(layer, shapes).status().message());
  };
  EXPECT_EQ(error(Multiply(), {{2, 3}, {2}}),
            "inputs of (2, 3) and (2,) do not fit together");
  EXPECT_EQ(error(Subtract(), {{2}, {2}, {2}}), "takes two inputs, not 3");
}

TEST(LayersTest, GlobalAveragePooling_TwoImages_IsTheMeanOfEachChannel) {
  OpRunner flat(GlobalAveragePooling2D(), {{2, 2, 2}});
  EXPECT_EQ(flat.op().output(), (Shape{2}));
  const OpRun run = flat.Run(2,
                             {{1, 8, 2, 6, 3, 4, 6, 2,  // the first image
                               0, 0, 0, 0, 0, 0, 4, 16}},
                             {}, {4, 8, 12, 16});
  EXPECT_EQ(run.y, (Floats{3, 5, 1, 4}));
  EXPECT_EQ(run.dx[0],
            (Floats{1, 2, 1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4, 3, 4}));
  OpRunner image(GlobalAveragePooling2D().KeepDims(true), {{2, 3, 4}});
  EXPECT_EQ(image.op().output(), (Shape{1, 1, 4}));
}

// dx, where the gradient of each window goes to the first of its largest.
Floats FirstsGradient(const Layer& l, const Shape& x_shape,
                      const Shape& y_shape, const Floats& x, const Floats& dy) {
  const int64_t height = x_shape[0], width = x_shape[1], channels = x_shape[2];
  const int64_t before[2] = {
      naive::Axis(height, l.window[0], l.strides[0], l.padding).before,
      naive::Axis(width, l.window[1], l.strides[1], l.padding).before};
  Floats dx(x.size());
  for (size_t i = 0; i < dy.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i), c = at % channels;
    const int64_t position = at / channels % (y_shape[0] * y_shape[1]);
    const int64_t image = at / y_shape.elements() * x_shape.elements();
    int64_t first = -1;
    for (int64_t k = 0; k < l.window[0] * l.window[1]; ++k) {
      const int64_t iy =
          position / y_shape[1] * l.strides[0] - before[0] + k / l.window[1];
      const int64_t ix =
          position % y_shape[1] * l.strides[1] - before[1] + k % l.window[1];
      if (iy < 0 || iy >= height || ix < 0 || ix >= width) continue;
      const int64_t pixel = image + (iy * width + ix) * channels + c;
      if (first < 0 || x[pixel] > x[first]) first = pixel;
    }
    dx[first] += dy[i];
  }
  return dx;
}

TEST(LayersTest, MaxPooling_EqualMaxima_GivesTheGradientToTheFirst) {
  for (const int64_t channels : {1, 3, 4, 6, 8, 17}) {
    for (const Layer& layer :
         {MaxPooling2D(2), MaxPooling2D(3, 2), MaxPooling2D(2).Padding(kSame),
          MaxPooling2D(3).Strides(2), MaxPooling2D(2).Strides(3),
          MaxPooling2D(3).Strides(2).Padding(kSame)}) {
      const Shape shape = {7, 10, channels};
      OpRunner runner(layer, {shape});
      ASSERT_OK(runner.status());
      const Shape out = runner.op().output();
      // Few values, so that many are equal.
      Floats x = RandomFloats(static_cast<size_t>(2 * shape.elements()), 1);
      Floats dy = RandomFloats(static_cast<size_t>(2 * out.elements()), 2);
      for (float& v : x) v = std::round(2 * v);
      for (float& v : dy) v = std::round(8 * v);
      const OpRun run = runner.Run(2, {x}, {}, dy, 2);
      EXPECT_EQ(run.dx[0], FirstsGradient(layer, shape, out, x, dy));
    }
  }
}

TEST(LayersTest, MaxPooling_Nan_IsPassedOn) {
  OpRunner wide(MaxPooling2D(2, 1), {{2, 1, 6}});
  Floats with_nan(12, 1.0f);
  with_nan[4] = with_nan[9] = std::nanf("");
  const Floats largest = wide.Run(1, {with_nan}, {}, {}).y;
  for (size_t c = 0; c < 6; ++c) {
    EXPECT_EQ(std::isnan(largest[c]), c == 3 || c == 4);
  }
  OpRunner pool(MaxPooling2D(2, 1), {{2, 3, 1}});
  const OpRun run = pool.Run(1, {{NAN, 1, 2, 3, NAN, 4}}, {}, {1, 1, 1});
  EXPECT_TRUE(std::isnan(run.y[0]));
  EXPECT_TRUE(std::isnan(run.y[1]));
  EXPECT_EQ(run.y[2], 4);
}

TEST(LayersTest, FastKernels_AnyShape_AgreeWithTheReference) {
  struct Case {
    int64_t h, w, c, f, kh, kw, sh, sw, batch;
    PaddingMode padding;
  };
  const Case cases[] = {{28, 28, 1, 8, 3, 3, 1, 1, 5, kValid},
                        {7, 5, 3, 4, 3, 2, 2, 3, 4, kSame},
                        {1, 1, 5, 3, 1, 1, 1, 1, 3, kValid},
                        {4, 9, 2, 1, 4, 9, 1, 1, 2, kValid},
                        {5, 5, 1, 2, 7, 7, 1, 1, 3, kSame},
                        {6, 6, 2, 3, 1, 1, 2, 2, 3, kSame},
                        {9, 4, 3, 2, 2, 4, 3, 1, 3, kValid}};
  for (const Case& c : cases) {
    const Shape x_shape = {c.h, c.w, c.c};
    Layer conv =
        Conv2D(c.f, c.kh, c.kw, kRelu).Strides(c.sh, c.sw).Padding(c.padding);
    const Floats x =
        RandomFloats(static_cast<size_t>(c.batch * x_shape.elements()), 1);
    for (int threads : {1, 2, 4}) {
      OpRunner runner(conv, {x_shape});
      const std::vector<Floats> w = runner.RandomWeights(2);
      ExpectClose(runner.Run(c.batch, {x}, w, {}, threads).y,
                  naive::Conv2DForward(conv, x_shape, c.batch, x, w[0], w[1]),
                  1e-5);
      for (Layer pool :
           {MaxPooling2D(c.kh, c.kw), AveragePooling2D(c.kh, c.kw)}) {
        pool.Strides(c.sh, c.sw).Padding(c.padding);
        OpRunner pooled(pool, {x_shape});
        ExpectClose(pooled.Run(c.batch, {x}, {}, {}, threads).y,
                    naive::Pool2DForward(pool, x_shape, c.batch, x), 1e-5);
      }
    }
  }
  for (int64_t units : {1, 2, 31, 130}) {
    for (int64_t inputs : {1, 50, 97}) {
      const Layer dense = Dense(units, kTanh);
      OpRunner runner(dense, {{inputs}});
      const std::vector<Floats> w = runner.RandomWeights(2);
      const Floats x = RandomFloats(static_cast<size_t>(7 * inputs), 1);
      ExpectClose(runner.Run(7, {x}, w, {}, 2).y,
                  naive::DenseForward(dense, 7, inputs, x, w[0], w[1]), 2e-5);
    }
  }
}

// Several blocks of rows, whatever the number of threads.
TEST(LayersTest, Gradients_LargeDense_DoNotDependOnThreads) {
  OpRunner runner(Dense(130), {{5000}});
  const std::vector<Floats> w = runner.RandomWeights(2);
  const Floats x = RandomFloats(3 * 5000, 1), dy = RandomFloats(3 * 130, 5);
  const OpRun one = runner.Run(3, {x}, w, dy, 1);
  EXPECT_GT(one.ready.size(), 3u);
  for (int threads : {2, 3}) {
    const OpRun run = runner.Run(3, {x}, w, dy, threads);
    ExpectClose(run.dx[0], one.dx[0], 1e-5);
    ExpectClose(run.d_weights[0], one.d_weights[0], 1e-5);
    EXPECT_EQ(run.d_weights[1], one.d_weights[1]);
    // Blocks grow with the threads; all come, from the end backwards.
    EXPECT_TRUE(std::is_sorted(run.ready.rbegin(), run.ready.rend()));
    EXPECT_EQ(run.ready.front(), one.ready.front());
    EXPECT_EQ(run.ready.back(), one.ready.back());
  }
}

// The gradient that is written over the input includes the gradient of the
// activation before it. It equals the result of the two ops one after the
// other.
TEST(LayersTest, Dense_GradientOverItsInput_EqualsTheSeparateOne) {
  for (Activation activation : {kLinear, kRelu, kSigmoid, kTanh}) {
    for (int64_t units : {1, 5, 16}) {
      for (int64_t inputs : {1, 3, 4, 50, 1003}) {
        Sequential fused({Input({2}), Dense(inputs, activation), Dense(units)});
        Functional apart;  // x has a second reader, so nothing is fused
        auto x = apart.Add(Dense(inputs, activation), {apart.Add(Input({2}))});
        auto y = apart.Add(Dense(units), {x});
        auto none = apart.Add(Dropout(0), {x});
        apart.Add(Add(), {y, apart.Add(Dense(units).KernelInitializer(Zeros()),
                                       {none})});
        for (Model* model :
             {static_cast<Model*>(&fused), static_cast<Model*>(&apart)}) {
          CompileOptions options;
          options.threads = 2;
          model->Compile(SGD(), MeanSquaredError(), {}, options);
          ASSERT_OK(model->status());
        }
        for (int64_t batch : {1, 4, 7, 300}) {
          // More than 50 inputs test no more than the smaller batches do.
          if (batch == 300 && inputs > 50) continue;
          const Floats inputs_x = RandomFloats(2 * batch, 3);
          const Floats targets = RandomFloats(units * batch, 4);
          Batch b;
          b.count = b.global_count = batch;
          b.y = targets.data();
          double loss;
          for (Model* model :
               {static_cast<Model*>(&fused), static_cast<Model*>(&apart)}) {
            ASSERT_OK(
                model->Forward(inputs_x.data(), batch, /*training=*/true));
            ASSERT_OK(model->ComputeLoss(b, &loss));
            ASSERT_OK(model->Backward());
          }
          const int64_t n = 3 * inputs;  // the first layer's gradients
          ExpectClose(Floats(fused.gradients(), fused.gradients() + n),
                      Floats(apart.gradients(), apart.gradients() + n), 2e-5);
        }
      }
    }
  }
}

TEST(LayersTest, Dropout_TrainingOrNot_DropsItsShareInTrainingOnly) {
  OpRunner runner(Dropout(0.25f), {{1000}});
  const Floats ones(10000, 1.0f);
  const Floats y = runner.Run(10, {ones}, {}, {}, 2).y;
  size_t dropped = 0;
  for (float v : y) {
    ASSERT_TRUE(v == 0 || v == 1 / 0.75f);
    dropped += v == 0;
  }
  EXPECT_NEAR(static_cast<double>(dropped), 2500, 200);
  EXPECT_EQ(runner.Run(10, {ones}, {}, {}, 1).y, y);  // whatever the threads
  runner.counter = 6;
  EXPECT_NE(runner.Run(10, {ones}, {}, {}, 2).y, y);
  runner.training = false;
  EXPECT_EQ(runner.Run(10, {ones}, {}, {}, 2).y, ones);
}

TEST(LayersTest, SigmoidAndSoftmax_LargeValues_StayInRange) {
  OpRunner sigmoid(Sigmoid(), {{4}});
  EXPECT_EQ(sigmoid.Run(1, {{-1e4f, -90, 90, 1e4f}}, {}, {}).y[3], 1);
  for (float v : sigmoid.Run(1, {{-1e4f, -90, 90, 1e4f}}, {}, {}).y) {
    EXPECT_TRUE(v >= 0 && v <= 1);
  }
  OpRunner softmax(Softmax(), {{3}});
  const Floats y = softmax.Run(1, {{1e4f, -1e4f, 1e4f}}, {}, {}).y;
  EXPECT_EQ(y, (Floats{0.5f, 0, 0.5f}));
}

void ExpectRefused(const Layer& layer, const std::vector<Shape>& inputs,
                   const char* message_part) {
  OpRunner runner(layer, inputs);
  ASSERT_FALSE(runner.status().ok()) << message_part;
  EXPECT_EQ(runner.status().code(), Code::kInvalidArgument);
  EXPECT_NE(std::strstr(runner.status().message(), message_part), nullptr)
      << runner.status().message();
}

TEST(LayersTest, Layer_DoesNotFit_ErrorNamesIt) {
  ExpectRefused(Dense(0), {{3}}, "units");
  ExpectRefused(Dense(3), {Shape()}, "dimension");
  ExpectRefused(Dense(3).Padding(kSame), {{3}}, "has no padding");
  ExpectRefused(Flatten().Strides(2), {{3}}, "has no strides");
  ExpectRefused(Conv2D(4, 3), {{28, 28}}, "(height, width, channels)");
  ExpectRefused(Conv2D(4, 3), {{2, 28, 1}}, "does not fit");
  ExpectRefused(Conv2D(4, 3).Strides(0), {{8, 8, 1}}, "does not fit");
  ExpectRefused(Conv2D(0, 3), {{8, 8, 1}}, "filters");
  ExpectRefused(GlobalAveragePooling2D(), {{4, 2}},
                "GlobalAveragePooling2D needs an input of (height");
  ExpectRefused(MaxPooling2D(3), {{2, 2, 1}}, "does not fit");
  ExpectRefused(Dense(3).KernelRegularizer(L2(NAN)), {{2}}, "kernel");
  ExpectRefused(Dense(3).BiasRegularizer(L1(-1)), {{2}}, "bias");
  ExpectRefused(Dropout(1), {{3}}, "rate");
  ExpectRefused(Dropout(std::nanf("")), {{3}}, "rate");
  ExpectRefused(Reshape({5, 5}), {{24}}, "cannot reshape");
  ExpectRefused(Reshape({-1, -1}), {{24}}, "cannot reshape");
  ExpectRefused(Reshape({-1, 7}), {{24}}, "cannot reshape");
  ExpectRefused(Add(), {{3}}, "two or more");
  ExpectRefused(Add(), {{3}, {4}}, "do not fit");
  ExpectRefused(Concatenate(), {{3, 1}, {4, 1}}, "do not fit");
  ExpectRefused(Dense(1 << 15), {{1 << 15, 1 << 15}}, "multiply-adds");
  ExpectRefused(Dense(int64_t{1} << 40), {{int64_t{1} << 20}}, "too large");
}

TEST(LayersTest, Reshape_OneDimensionMissing_FindsIt) {
  OpRunner runner(Reshape({2, -1, 3}), {{24}});
  EXPECT_EQ(runner.op().output(), (Shape{2, 4, 3}));
}

}  // namespace
}  // namespace ringlet
