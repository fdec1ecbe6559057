// SimpleRNN, LSTM and GRU against the reference cases recurrent_* (float64, by
// tests/reference/generate_recurrent.py), finite differences, and each other.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/op_checks.h"
#include "../../support/reference.h"
#include "core/layers/layer_table.h"
#include "ringlet/layers.h"

namespace ringlet {
namespace {

constexpr double kTolerance = 2e-5;

Activation NamedAs(const Json& name) {
  for (const NamedActivation& row : kActivations) {
    if (name.text() == row.name) return row.value;
  }
  ADD_FAILURE() << "unknown activation " << name.text();
  return kLinear;
}

bool IsTrue(const Json& about, const char* key, bool otherwise) {
  return about[key] ? about[key].as_bool() : otherwise;
}

Layer RecurrentLayerOf(const Json& about) {
  const std::string kind = about["layer"].text();
  Layer layer = kind == "LSTM"  ? LSTM(1)
                : kind == "GRU" ? GRU(1)
                                : SimpleRNN(1);
  EXPECT_EQ(kind, ClassName(layer));
  layer.units = static_cast<int64_t>(about["units"].number());
  layer.activation = NamedAs(about["activation"]);
  layer.recurrent_activation = NamedAs(about["recurrent_activation"]);
  layer.reset_after = IsTrue(about, "reset_after", /*otherwise=*/true);
  return layer.UseBias(IsTrue(about, "use_bias", /*otherwise=*/true))
      .ReturnSequences(IsTrue(about, "return_sequences", /*otherwise=*/false))
      .GoBackwards(IsTrue(about, "go_backwards", /*otherwise=*/false));
}

TEST(RecurrentTest, Layers_EachReferenceCase_AgreeForwardAndBackward) {
  const std::vector<std::string> cases = ReferenceCases("recurrent_");
  ASSERT_FALSE(cases.empty()) << "none in " << ReferenceFolder();
  for (const std::string& path : cases) {
    SCOPED_TRACE(path);
    const Reference r = LoadReference(path);
    const Shape& x = r.tensors.at("x").shape;
    OpRunner runner(RecurrentLayerOf(r.about), {{x[1], x[2]}});
    ASSERT_OK(runner.status());
    std::vector<Floats> weights;
    for (const WeightSpec& weight : runner.op().weights()) {
      ASSERT_EQ(weight.shape, r.tensors.at(weight.name).shape);
      weights.push_back(r.floats(weight.name));
    }
    for (const int threads : {1, 2, 3}) {
      const OpRun run =
          runner.Run(x[0], {r.floats("x")}, weights, r.floats("dy"), threads);
      EXPECT_LT(RelativeError(run.y, r.floats("y")), kTolerance);
      EXPECT_LT(RelativeError(run.dx[0], r.floats("dx")), kTolerance);
      for (size_t w = 0; w < weights.size(); ++w) {
        const std::string name = "d_" + runner.op().weights()[w].name;
        EXPECT_LT(RelativeError(run.d_weights[w], r.floats(name)), kTolerance)
            << name;
      }
    }
    // Without training no gates are saved.
    runner.training = false;
    EXPECT_LT(RelativeError(runner.Run(x[0], {r.floats("x")}, weights, {}, 2).y,
                            r.floats("y")),
              kTolerance);
  }
}

std::vector<Layer> AllRecurrentLayers(int64_t units) {
  return {SimpleRNN(units), LSTM(units), GRU(units),
          GRU(units).ResetAfter(false)};
}

TEST(RecurrentTest, Gradients_EachLayer_MatchTheOutput) {
  for (const Layer& plain : AllRecurrentLayers(3)) {
    CheckGradients(plain, {{4, 2}}, 3, 2);
    Layer all = plain;
    CheckGradients(all.ReturnSequences(true).GoBackwards(true), {{4, 2}}, 3, 2);
    Layer drops = plain;
    CheckGradients(drops.Dropout(0.25f), {{4, 3}}, 3, 2);
    CheckGradients(drops.RecurrentDropout(0.25f), {{4, 3}}, 3, 2);
    CheckGradients(drops.Dropout(0).UseBias(false), {{4, 3}}, 3, 2);
  }
}

// Shapes of users: steps of an image, of a sensor; the last batch is short.
TEST(RecurrentTest, Bits_AnyThreadsAndMemory_AreTheSame) {
  const std::vector<Shape> shapes = {{1, 3}, {2, 1}, {28, 28}, {128, 6}};
  for (const int64_t units : {1, 7, 64}) {
    for (const Shape& shape : shapes) {
      for (const Layer& plain : AllRecurrentLayers(units)) {
        const bool large = units == 64 && shape[0] > 2;
        for (const int64_t batch : {1, 4, 32, 100}) {
          if (large && (batch > 4 || plain.kind == Layer::Kind::kSimpleRNN)) {
            continue;
          }
          ExpectSameBits(plain, {shape}, batch);
        }
        Layer drops = plain;
        ExpectSameBits(drops.Dropout(0.5f).RecurrentDropout(0.3f), {shape}, 5);
      }
    }
  }
}

TEST(RecurrentTest, Gradients_OneLeftOut_OtherIsTheSame) {
  for (const Layer& plain : AllRecurrentLayers(7)) {
    ExpectSameGradientsAlone(plain, {{6, 3}}, 5);
    Layer drops = plain;
    ExpectSameGradientsAlone(drops.Dropout(0.5f).RecurrentDropout(0.5f),
                             {{6, 3}}, 5);
  }
}

// In any order of the examples and any batch, an example has its own result.
TEST(RecurrentTest, Example_InAnyBatch_HasTheSameBits) {
  const int64_t batch = 37, steps = 28, features = 5;
  for (const Layer& layer : AllRecurrentLayers(7)) {
    OpRunner runner(layer, {{steps, features}});
    ASSERT_OK(runner.status());
    const std::vector<Floats> w = runner.RandomWeights(7);
    const Floats x =
        RandomFloats(static_cast<size_t>(batch * steps * features), 9);
    const Floats all = runner.Run(batch, {x}, w, {}, 2).y;
    for (const bool training : {false, true}) {
      runner.training = training;
      for (const int64_t example : {0, 1, 36}) {
        const auto begin = x.begin() + example * steps * features;
        const Floats own(begin, begin + steps * features);
        const auto numbers = all.begin() + example * 7;
        EXPECT_EQ(runner.Run(1, {own}, w, {}).y, Floats(numbers, numbers + 7));
      }
    }
  }
}

// The runner's random numbers, as in noise_test.cc.
float Mask(int64_t number, float rate) {
  const Philox random(3, 5);
  const auto n = static_cast<uint64_t>(number);
  return Philox::Unit(random.At(n & ~uint64_t{3})[n & 3]) >= rate
             ? 1 / (1 - rate)
             : 0;
}

TEST(RecurrentTest, Dropout_OfInputs_HasOneMaskForAllSteps) {
  const int64_t batch = 5, steps = 4, features = 6;
  for (const Layer& layer : AllRecurrentLayers(3)) {
    Layer drops = layer;
    OpRunner plain(layer, {{steps, features}}),
        runner(drops.Dropout(0.5f), {{steps, features}});
    ASSERT_OK(runner.status());
    const std::vector<Floats> w = plain.RandomWeights(7);
    const Floats x =
        RandomFloats(static_cast<size_t>(batch * steps * features), 9);
    const Floats dy = RandomFloats(static_cast<size_t>(batch * 3), 8);
    Floats masked = x, masks = x;
    for (size_t i = 0; i < x.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t example = at / (steps * features);
      masks[i] = Mask(example * 8 + at % features, 0.5f);
      masked[i] *= masks[i];
    }
    const OpRun expected = plain.Run(batch, {masked}, w, dy);
    const OpRun run = runner.Run(batch, {x}, w, dy, 2);
    EXPECT_EQ(run.y, expected.y);
    EXPECT_EQ(run.d_weights, expected.d_weights);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(run.dx[0][i], expected.dx[0][i] * masks[i]);
    }
    runner.training = false;
    EXPECT_EQ(runner.Run(batch, {x}, w, {}).y, plain.Run(batch, {x}, w, {}).y);
    runner.training = true;
    runner.counter = 6;
    EXPECT_NE(runner.Run(batch, {x}, w, {}).y, run.y);
  }
}

// A mask of the state for a gate is a factor of that gate's rows of the
// recurrent kernel, for one example.
TEST(RecurrentTest, RecurrentDropout_EachGate_HasItsOwnMask) {
  const int64_t steps = 5, units = 4;
  for (const Layer& layer : AllRecurrentLayers(units)) {
    SCOPED_TRACE(ClassName(layer));
    Layer drops = layer;
    OpRunner plain(layer, {{steps, 3}}),
        runner(drops.RecurrentDropout(0.5f), {{steps, 3}});
    ASSERT_OK(runner.status());
    const std::vector<Floats> w = plain.RandomWeights(7);
    const Floats x = RandomFloats(static_cast<size_t>(steps * 3), 9);
    const Floats dy = RandomFloats(static_cast<size_t>(units), 8);
    std::vector<Floats> scaled = w;
    const int64_t width = plain.op().weights()[1].shape[1];
    const auto mask = [&](size_t i) {
      const int64_t row = static_cast<int64_t>(i) / width,
                    gate = static_cast<int64_t>(i) % width / units;
      return Mask(gate * units + row, 0.5f);
    };
    for (size_t i = 0; i < scaled[1].size(); ++i) scaled[1][i] *= mask(i);
    const OpRun expected = plain.Run(1, {x}, scaled, dy);
    const OpRun run = runner.Run(1, {x}, w, dy);
    EXPECT_EQ(run.y, expected.y);
    ExpectClose(run.dx[0], expected.dx[0], 1e-6);
    ExpectClose(run.d_weights[0], expected.d_weights[0], 1e-6);
    Floats recurrent = expected.d_weights[1];
    for (size_t i = 0; i < recurrent.size(); ++i) recurrent[i] *= mask(i);
    ExpectClose(run.d_weights[1], recurrent, 1e-6);
    ExpectClose(run.d_weights[2], expected.d_weights[2], 1e-6);
  }
}

TEST(RecurrentTest, Layer_DoesNotFit_ErrorNamesIt) {
  const auto expect = [](const Layer& layer, const Shape& x,
                         const std::string& part) {
    const std::string text = OpRunner(layer, {x}).status().message();
    EXPECT_TRUE(Contains(text, part));
  };
  expect(LSTM(0), {4, 4}, "units must be at least 1");
  expect(LSTM(4), {4}, "LSTM needs an input (steps, features), not (4,)");
  expect(GRU(4), {4, 4, 1}, "GRU needs an input (steps, features)");
  expect(LSTM(int64_t{1} << 28), {1 << 20, 4}, "are too many");
  expect(LSTM(INT64_MAX), {4, 4}, "are too many");
  expect(LSTM(4, kSoftmax), {4, 4}, "cannot have the activation 'softmax'");
  expect(LSTM(4, kTanh, kGelu), {4, 4}, "cannot have the activation 'gelu'");
  expect(LSTM(4).Dropout(1), {4, 4},
         "dropout must be a number in [0, 1), not 1");
  expect(LSTM(4).RecurrentDropout(-1), {4, 4}, "recurrent_dropout must be");
  expect(SimpleRNN(4).ResetAfter(true), {4, 4}, "SimpleRNN has no reset_after");
}

}  // namespace
}  // namespace ringlet
