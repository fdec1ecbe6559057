// Convolutions, against plain loops over their definitions in double, by shapes
// drawn from a seed.

#include <gtest/gtest.h>

#include <string>

#include "../../support/contains.h"
#include "../../support/draw.h"
#include "../../support/expect_ok.h"
#include "../../support/naive_layers.h"
#include "../../support/op_checks.h"
#include "core/layers/layer_table.h"

namespace ringlet {
namespace {

// A layer, its image, and the groups of channels of its reference
// implementation.
struct Case {
  Layer layer;
  Shape image;
  int64_t batch = 1, groups = 1;
  bool is_1d = false;  // a layer of one axis: the image has one row

  std::vector<Shape> inputs() const {
    return {is_1d ? Shape{image[1], image[2]} : image};
  }
};

void DrawWindow(Draw* draw, Case* c) {
  Layer& l = c->layer;
  c->is_1d = ClassOf(l).axes == 1;
  c->image = {c->is_1d ? 1 : draw->From(1, 9), draw->From(1, 12),
              draw->From(1, 21)};
  c->batch = draw->From(0, 3) > 0 ? draw->From(1, 5) : draw->From(14, 35);
  l.Padding(draw->From(0, 1) == 1 ? kSame : kValid);
  if (l.kind == Layer::Kind::kConv1D && draw->From(0, 1) == 1) {
    l.Padding(kCausal);
  }
  const auto size = [&](int axis, int64_t high) {
    return c->is_1d && axis == 0 ? 1 : draw->From(1, high);
  };
  const int64_t what = draw->From(0, 2);
  if (what == 0) l.DilationRate(size(0, 3), size(1, 3));
  if (what == 1) l.Strides(size(0, 4), size(1, 4));
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t fits = (c->image[axis] - 1) / l.dilation[axis] + 1;
    l.window[axis] =
        size(axis, l.padding == kValid ? std::min<int64_t>(5, fits) : 5);
  }
  l.use_bias = draw->From(0, 3) > 0;
  l.activation = draw->From(0, 1) == 1 ? kTanh : kLinear;
}

Case DepthwiseCase(Draw* draw) {
  Case c;
  c.layer = draw->From(0, 2) == 0 ? DepthwiseConv1D(1) : DepthwiseConv2D(1);
  DrawWindow(draw, &c);
  c.layer.DepthMultiplier(draw->From(0, 2) > 0 ? 1 : draw->From(2, 4));
  c.layer.units = c.image[2] * c.layer.depth_multiplier;
  c.groups = c.image[2];
  return c;
}

Case ConvCase(Draw* draw) {
  Case c;
  c.layer = draw->From(0, 2) == 0 ? Conv1D(1, 1) : Conv2D(1, 1);
  DrawWindow(draw, &c);
  c.groups = draw->From(0, 1) == 0 ? 1 : draw->From(2, 4);
  c.layer.Groups(c.groups).units = c.groups * draw->From(1, 9);
  c.image[2] = c.groups * draw->From(1, 6);
  return c;
}

Case SeparableCase(Draw* draw) {
  Case c;
  c.layer =
      draw->From(0, 2) == 0 ? SeparableConv1D(1, 1) : SeparableConv2D(1, 1);
  DrawWindow(draw, &c);
  c.layer.DepthMultiplier(draw->From(1, 3)).units = draw->From(1, 9);
  return c;
}

Case TransposedCase(Draw* draw) {
  Case c;
  c.layer =
      draw->From(0, 2) == 0 ? Conv1DTranspose(1, 1) : Conv2DTranspose(1, 1);
  Layer& l = c.layer;
  DrawWindow(draw, &c);
  l.units = draw->From(1, 20);
  if (draw->From(0, 1) == 0) return c;
  const bool odd = l.padding == kSame;
  int64_t more[2] = {0, 0};
  for (int axis = c.is_1d ? 1 : 0; axis < 2; ++axis) {
    if (odd) l.window[axis] |= 1;
    more[axis] = draw->From(0, l.strides[axis] - 1);
  }
  l.OutputPadding(more[0], more[1]);
  return c;
}

std::string Text(const Case& c) {
  std::string text = ClassName(c.layer);
  for (const LayerField& field : ClassOf(c.layer).fields) {
    text += std::string(" ") + field.name + " " + ValueText(field, c.layer);
  }
  return text + " of " + c.image.ToString() + " batch " +
         std::to_string(c.batch);
}

Floats Twin(const Case& c, const Shape& y, const Floats& x,
            const std::vector<Floats>& w) {
  const Floats bias = c.layer.use_bias ? w.back() : Floats();
  if (c.layer.kind == Layer::Kind::kConv2DTranspose ||
      c.layer.kind == Layer::Kind::kConv1DTranspose) {
    return naive::Conv2DTransposeForward(c.layer, c.image,
                                         c.is_1d ? Shape{1, y[0], y[1]} : y,
                                         c.batch, x, w[0], bias);
  }
  const bool separable = ClassOf(c.layer).name[0] == 'S';
  if (!separable) {
    return naive::Conv2DForward(c.layer, c.image, c.batch, x, w[0], bias,
                                c.groups);
  }
  Layer depthwise = c.layer;
  depthwise.activation = kLinear;
  depthwise.units = c.image[2] * c.layer.depth_multiplier;
  const Floats middle = naive::Conv2DForward(depthwise, c.image, c.batch, x,
                                             w[0], {}, c.image[2]);
  const Layer point = Conv2D(c.layer.units, 1, c.layer.activation);
  return naive::Conv2DForward(
      point,
      {1, static_cast<int64_t>(middle.size()) / depthwise.units / c.batch,
       depthwise.units},
      c.batch, middle, w[1], bias);
}

void ExpectTwin(const Case& c) {
  OpRunner runner(c.layer, c.inputs());
  ASSERT_OK(runner.status());
  const std::vector<Floats> x = RandomInputs(c.inputs(), c.batch);
  const std::vector<Floats> w = runner.RandomWeights(2);
  ExpectClose(runner.Run(c.batch, x, w, {}, 2).y,
              Twin(c, runner.op().output(), x[0], w), 4e-5);
}

using MakeCase = Case(Draw*);

void ExpectAll(MakeCase* make) {
  for (uint64_t seed = 0; seed < 90; ++seed) {
    Draw draw(seed);
    const Case c = make(&draw);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + Text(c));
    ASSERT_NO_FATAL_FAILURE(ExpectTwin(c));
    if (seed % 3 == 0) ExpectSameGradientsAlone(c.layer, c.inputs(), c.batch);
    if (seed % 3 == 1) ExpectSameBits(c.layer, c.inputs(), c.batch);
    if (seed % 3 == 2 && c.batch < 6) {
      CheckGradients(c.layer, c.inputs(), c.batch, 2);
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ConvolutionTest, DepthwiseConv_RandomCases_EqualsTheDefinition) {
  ExpectAll(DepthwiseCase);
}
TEST(ConvolutionTest, SeparableConv_RandomCases_EqualsTheDefinition) {
  ExpectAll(SeparableCase);
}
TEST(ConvolutionTest, ConvTranspose_RandomCases_EqualsTheDefinition) {
  ExpectAll(TransposedCase);
}
TEST(ConvolutionTest, ConvTranspose_ShapesOfADecoder_HaveTheSameBits) {
  for (const int64_t batch : {1, 32, 33}) {
    ExpectSameBits(Conv2DTranspose(16, 3, kRelu).Padding(kSame).Strides(2),
                   {{7, 7, 32}}, batch);
    ExpectSameBits(Conv1DTranspose(8, 4, kTanh).Strides(2), {{20, 12}}, batch);
    ExpectSameBits(Conv2DTranspose(5, 1), {{6, 5, 3}}, batch);
  }
}
// keras.layers.Conv1DTranspose has these sizes.
TEST(ConvolutionTest, ConvTranspose_EachPadding_HasKerasSize) {
  const auto steps = [](const Layer& layer) {
    OpRunner runner(layer, {{5, 2}});
    EXPECT_OK(runner.status());
    return runner.op().output()[0];
  };
  EXPECT_EQ(steps(Conv1DTranspose(1, 3)), 7);
  EXPECT_EQ(steps(Conv1DTranspose(1, 3).Padding(kSame)), 5);
  EXPECT_EQ(steps(Conv1DTranspose(1, 3).Strides(2)), 11);
  EXPECT_EQ(steps(Conv1DTranspose(1, 3).Strides(2).Padding(kSame)), 10);
  EXPECT_EQ(steps(Conv1DTranspose(1, 2).Strides(4)), 20);
  EXPECT_EQ(steps(Conv1DTranspose(1, 2).Strides(4).OutputPadding(0)), 18);
  EXPECT_EQ(steps(Conv1DTranspose(1, 3).Strides(2).OutputPadding(1)), 12);
  EXPECT_EQ(
      steps(Conv1DTranspose(1, 3).Strides(2).OutputPadding(0).Padding(kSame)),
      9);
  EXPECT_EQ(steps(Conv1DTranspose(1, 3).DilationRate(2)), 9);
}

TEST(ConvolutionTest, Conv_GroupsAndDilation_EqualsTheDefinition) {
  ExpectAll(ConvCase);
}

// LeNet-5, ResNet-8 and MobileNet have these shapes. The shapes have more
// positions and taps than a block of a sum.
TEST(ConvolutionTest, Conv_ShapesOfKnownModels_EqualsTheDefinition) {
  const struct {
    Layer layer;
    Shape image;
    int64_t batch;
  } cases[] = {{Conv2D(6, 5, kTanh).Padding(kSame), {28, 28, 1}, 3},
               {Conv2D(16, 5), {14, 14, 6}, 3},
               {Conv2D(33, 3).Padding(kSame), {16, 16, 32}, 2},
               {Conv2D(32, 3).Padding(kSame).Strides(2), {32, 32, 16}, 2},
               {Conv2D(32, 1).Padding(kSame).Strides(2), {32, 32, 16}, 2},
               {Conv2D(20, 1, kTanh), {12, 12, 24}, 3},
               {Conv2D(64, 10, 4).Padding(kSame).Strides(2), {49, 10, 1}, 2}};
  for (const auto& c : cases) {
    Case one = {c.layer, c.image, c.batch, 1};
    SCOPED_TRACE(Text(one));
    ExpectTwin(one);
    ExpectSameBits(c.layer, one.inputs(), c.batch);
    ExpectSameGradientsAlone(c.layer, one.inputs(), c.batch);
    CheckGradients(c.layer, one.inputs(), 2, 2);
  }
}

// Shapes that users have; more examples than blocks.
TEST(ConvolutionTest,
     DepthwiseConv_ShapesOfMobileNetAndDsCnn_EqualsTheDefinition) {
  for (const int64_t batch : {1, 32, 100}) {
    ExpectSameBits(DepthwiseConv2D(3).Padding(kSame), {{25, 5, 64}}, batch);
  }
  Case c = {DepthwiseConv2D(3).Padding(kSame).Strides(2), {24, 24, 8}, 3, 8};
  c.layer.units = 8;
  ExpectTwin(c);
  ExpectSameBits(c.layer, c.inputs(), c.batch);
  ExpectSameBits(SeparableConv2D(16, 3).Padding(kSame), {{25, 25, 8}}, 33);
}

// A layer of one axis equals one of two with a single row.
TEST(ConvolutionTest, Layers_OfOneAxis_EqualThoseOfTwo) {
  const std::pair<Layer, Layer> pairs[] = {
      {Conv1D(3, 4, kRelu).Padding(kSame).Strides(2),
       Conv2D(3, 1, 4, kRelu).Padding(kSame).Strides(1, 2)},
      {DepthwiseConv1D(3, kRelu), DepthwiseConv2D(1, 3, kRelu)},
      {SeparableConv1D(3, 2).DilationRate(2),
       SeparableConv2D(3, 1, 2).DilationRate(1, 2)},
      {MaxPooling1D(3).Strides(2), MaxPooling2D(1, 3).Strides(1, 2)},
      {AveragePooling1D(2).Padding(kSame),
       AveragePooling2D(1, 2).Padding(kSame)},
      {GlobalAveragePooling1D(), GlobalAveragePooling2D()},
      {GlobalMaxPooling1D(), GlobalMaxPooling2D()},
      {ZeroPadding1D(2, 1), ZeroPadding2D(0, 0, 2, 1)},
      {Cropping1D(1, 2), Cropping2D(0, 0, 1, 2)},
      {UpSampling1D(3), UpSampling2D(1, 3)}};
  for (const auto& [line, plane] : pairs) {
    SCOPED_TRACE(ClassName(line));
    OpRunner one(line, {{9, 5}}), two(plane, {{1, 9, 5}});
    ASSERT_OK(one.status());
    ASSERT_OK(two.status());
    const Shape &a = one.op().output(), &b = two.op().output();
    EXPECT_EQ(a, b.rank() == 3 ? (Shape{b[1], b[2]}) : b);
    const std::vector<Floats> x = RandomInputs({{9, 5}}, 3);
    const std::vector<Floats> w = one.RandomWeights(3);
    const Floats dy = RandomFloats(static_cast<size_t>(3 * a.elements()), 4);
    const OpRun run = one.Run(3, x, w, dy), twin = two.Run(3, x, w, dy);
    EXPECT_EQ(run.y, twin.y);
    EXPECT_EQ(run.dx, twin.dx);
    EXPECT_EQ(run.d_weights, twin.d_weights);
  }
  OpRunner kept(GlobalMaxPooling1D().KeepDims(true), {{4, 3}});
  EXPECT_EQ(kept.op().output(), (Shape{1, 3}));
}

TEST(ConvolutionTest, Weights_EachConvolution_HaveKerasShapes) {
  const auto shapes = [](const Layer& layer, const Shape& x) {
    OpRunner runner(layer, {x});
    std::string text = runner.status().message();
    for (const WeightSpec& w : runner.op().weights()) {
      text += w.name + w.shape.ToString() + " ";
    }
    return text;
  };
  EXPECT_EQ(shapes(DepthwiseConv2D(3, 2).DepthMultiplier(4), {9, 9, 5}),
            "kernel(3, 2, 5, 4) bias(20,) ");
  EXPECT_EQ(shapes(SeparableConv2D(7, 3, 2).DepthMultiplier(4), {9, 9, 5}),
            "depthwise_kernel(3, 2, 5, 4) pointwise_kernel(1, 1, 20, 7) "
            "bias(7,) ");
  EXPECT_EQ(shapes(SeparableConv1D(7, 3), {9, 5}),
            "depthwise_kernel(3, 5, 1) pointwise_kernel(1, 5, 7) bias(7,) ");
  EXPECT_EQ(shapes(DepthwiseConv1D(3).UseBias(false), {9, 5}),
            "kernel(3, 5, 1) ");
  EXPECT_EQ(shapes(Conv2D(6, 3, 2).Groups(2), {9, 9, 4}),
            "kernel(3, 2, 2, 6) bias(6,) ");
  EXPECT_EQ(shapes(Conv1D(6, 3), {9, 4}), "kernel(3, 4, 6) bias(6,) ");
  EXPECT_EQ(shapes(Conv2DTranspose(6, 3, 2), {9, 9, 4}),
            "kernel(3, 2, 6, 4) bias(6,) ");
  EXPECT_EQ(shapes(Conv1DTranspose(6, 3).UseBias(false), {9, 4}),
            "kernel(3, 6, 4) ");
}

// All strides beyond the image give the same output, and must take the same
// time: a loop over the stride would exceed the test's time limit.
TEST(ConvolutionTest, Strides_FarBeyondTheImage_EqualAnyBeyondIt) {
  const auto run = [](Layer layer, int64_t stride) {
    const Shape image = {5, 4, 3};
    OpRunner runner(layer.Padding(kSame).Strides(stride), {image});
    EXPECT_OK(runner.status());
    const Floats dy =
        RandomFloats(static_cast<size_t>(2 * runner.op().output()[2]), 3);
    return runner.Run(2, RandomInputs({image}, 2), runner.RandomWeights(2), dy);
  };
  for (const Layer& layer :
       {Conv2D(3, 3), DepthwiseConv2D(3), SeparableConv2D(2, 3)}) {
    const OpRun expected = run(layer, 7);
    for (int64_t less = 0; less < 64; ++less) {
      const OpRun actual = run(layer, (int64_t{1} << 31) - less);
      ASSERT_EQ(actual.y, expected.y);
      ASSERT_EQ(actual.dx, expected.dx);
      ASSERT_EQ(actual.d_weights, expected.d_weights);
    }
  }
}

TEST(ConvolutionTest, Convolution_DoesNotFit_ErrorNamesIt) {
  const auto error = [](const Layer& layer, const Shape& x) {
    return std::string(OpRunner(layer, {x}).status().message());
  };
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_TRUE(Contains(text, part));
  };
  expect(error(Conv1D(4, 3), {8, 8, 1}),
         "Conv1D needs an input of (steps, channels)");
  expect(error(Conv1D(4, 3), {2, 1}), "a kernel of 3 with strides 1");
  expect(error(Conv1D(4, 3).Strides(3, 2), {8, 1}), "one axis");
  expect(error(Conv1D(4, 3).DilationRate(4), {8, 1}), "dilated by 4");
  expect(error(Conv2D(4, 3).Padding(kCausal), {8, 8, 1}), "causal");
  expect(error(MaxPooling1D().Padding(kCausal), {8, 1}), "causal");
  expect(error(Conv2D(4, 3).Groups(3), {8, 8, 6}), "groups");
  expect(error(Conv2D(4, 3).Groups(2), {8, 8, 3}), "groups");
  expect(error(Conv2D(4, 3).Groups(0), {8, 8, 3}), "groups");
  expect(error(Conv2D(4, 3).Strides(2).DilationRate(2), {8, 8, 3}), "both");
  expect(error(Conv2D(4, 3).DilationRate(INT64_MAX), {8, 8, 3}), "fit");
  expect(error(Conv2D(4, 3).Strides(INT64_MAX), {8, 8, 3}), "fit");
  expect(error(DepthwiseConv2D(3).DepthMultiplier(0), {8, 8, 3}), "depth_mult");
  constexpr int64_t kLarge = int64_t{1} << 31;
  expect(error(DepthwiseConv2D(3).DepthMultiplier(kLarge), {8, 8, 3}),
         "too large");
  expect(error(SeparableConv2D(4, 3).DepthMultiplier(kLarge), {8, 8, 3}),
         "too many");
  expect(error(DepthwiseConv2D(3).DepthMultiplier(kLarge + 1), {8, 8, 3}),
         "from 1 to 2147483648");
  // Each weight and output could be counted, but not four threads' columns.
  expect(error(Conv2D(1, 1 << 15).Padding(kSame), {1 << 15, 1 << 15, 1}),
         "too many");
  expect(error(Conv2D(1, kLarge).Padding(kSame), {8, 8, 3}), "too many");
  expect(error(Conv2D(1, 2).Padding(kSame).DilationRate(kLarge), {8, 8, 3}),
         "too many");
  expect(error(SeparableConv2D(0, 3), {8, 8, 3}), "filters");
  expect(error(Conv2DTranspose(0, 3), {8, 8, 3}), "filters");
  expect(error(Conv2DTranspose(4, 3).Strides(2).DilationRate(2), {8, 8, 3}),
         "both");
  expect(error(Conv2DTranspose(4, 3).Strides(2).OutputPadding(2), {8, 8, 3}),
         "not less than strides");
  expect(error(Conv2DTranspose(4, 3).OutputPadding(-2), {8, 8, 3}),
         "not less than strides");
  expect(
      error(Conv2DTranspose(4, 3).Strides(2).OutputPadding(1, -1), {8, 8, 3}),
      "for both");
  expect(error(Conv1DTranspose(4, 2).OutputPadding(0).Padding(kSame), {8, 3}),
         "odd size");
  expect(error(Conv2DTranspose(4, 3).Strides(kLarge), {8, 8, 3}), "fit");
  expect(error(Conv1DTranspose(4, 3).Strides(kLarge), {1, 3}), "too large");
  expect(error(Conv2DTranspose(4, 3).Padding(kCausal), {8, 8, 3}), "causal");
  expect(error(Conv2D(4, 3).OutputPadding(1), {8, 8, 3}),
         "Conv2D has no output_padding");
  expect(error(DepthwiseConv2D(3).KernelInitializer(Zeros()), {8, 8, 3}),
         "DepthwiseConv2D has no kernel_initializer");
}

}  // namespace
}  // namespace ringlet
