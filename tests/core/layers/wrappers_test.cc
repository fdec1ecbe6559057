// TimeDistributed, RepeatVector and Embedding against their definitions.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/op_checks.h"
#include "core/layers/layer_table.h"
#include "ringlet/layers.h"

namespace ringlet {
namespace {

// A batch of steps is a batch of examples for the layer within.
TEST(TimeDistributedTest, Layer_OfEachStep_ComputesTheBatchOfAllSteps) {
  struct Case {
    Layer inner;
    Shape step;
  };
  const Case cases[] = {{Dense(7, kRelu), {5}},
                        {Dense(3, kSoftmax).UseBias(false), {4, 5}},
                        {Conv2D(3, 3, kTanh).Padding(kSame), {6, 5, 2}},
                        {Dropout(0.5f), {6}},
                        {LSTM(3), {4, 2}},
                        {ActivationLayer(kGelu), {6}}};
  constexpr int64_t kBatch = 3, kSteps = 4;
  for (const Case& c : cases) {
    SCOPED_TRACE(ClassName(c.inner));
    Shape all = {kSteps};
    for (int i = 0; i < c.step.rank(); ++i) all.Append(c.step[i]);
    OpRunner runner(TimeDistributed(c.inner), {all}), inner(c.inner, {c.step});
    ASSERT_OK(runner.status());
    ASSERT_OK(inner.status());
    const std::vector<Floats> w = inner.RandomWeights(7);
    const Floats x =
        RandomFloats(static_cast<size_t>(kBatch * all.elements()), 9);
    const Floats dy = RandomFloats(
        static_cast<size_t>(kBatch * runner.op().output().elements()), 8);
    const OpRun run = runner.Run(kBatch, {x}, w, dy, 2);
    const OpRun expected = inner.Run(kBatch * kSteps, {x}, w, dy, 2);
    EXPECT_EQ(run.y, expected.y);
    EXPECT_EQ(run.dx, expected.dx);
    EXPECT_EQ(run.d_weights, expected.d_weights);
    ExpectSameBits(TimeDistributed(c.inner), {all}, 5);
  }
  CheckGradients(TimeDistributed(Dense(3, kTanh)), {{4, 5}}, 2);
  OpRunner view(TimeDistributed(Flatten()), {{4, 2, 3}});
  ASSERT_OK(view.status());
  EXPECT_TRUE(view.op().is_view());
  EXPECT_EQ(view.op().output(), (Shape{4, 6}));
}

// A layer without a gradient of its input says so, also within a wrapper.
// Otherwise dx would keep the earlier content of its memory.
TEST(TimeDistributedTest, AnyLayer_WritesGradientOfInputOrHasNone) {
  int layers = 0;
  for (const LayerClass& row : AllLayers()) {
    if (row.make == nullptr || row.make_op == nullptr) continue;
    Layer layer = row.make();
    layer.units = 2;
    for (const Shape& step :
         {Shape{600}, Shape{5, 4}, Shape{5, 6, 3}, Shape{3, 4, 4, 2}}) {
      Shape all = {2};
      for (int i = 0; i < step.rank(); ++i) all.Append(step[i]);
      OpRunner runner(TimeDistributed(layer), {all}), inner(layer, {step});
      if (!runner.status().ok() || !inner.status().ok()) continue;
      SCOPED_TRACE(std::string(row.name) + " of " + step.ToString());
      ++layers;
      const Op &op = runner.op(), &step_op = inner.op();
      EXPECT_EQ(op.has_gradient(), step_op.has_gradient());
      EXPECT_EQ(op.backward_may_fail(), step_op.backward_may_fail());
      EXPECT_EQ(op.table_bytes(), step_op.table_bytes());
      EXPECT_EQ(op.multiply_adds(), 2 * step_op.multiply_adds());
      if (!op.has_gradient() || op.is_view()) continue;
      const Floats x(static_cast<size_t>(3 * all.elements()), 0.5f);
      const Floats dy(static_cast<size_t>(3 * op.output().elements()), 1.0f);
      const Floats dx =
          runner.Run(3, {x}, runner.RandomWeights(7), dy, 2).dx[0];
      EXPECT_EQ(std::count(dx.begin(), dx.end(), GuardedFloats::kUnwritten), 0);
    }
  }
  EXPECT_GT(layers, 60);
}

TEST(RepeatVectorTest, Row_Repeated_SumsItsGradients) {
  OpRunner runner(RepeatVector(2), {{3}});
  ASSERT_OK(runner.status());
  const OpRun run = runner.Run(2, {{1, 2, 3, 4, 5, 6}}, {},
                               {1, 2, 3, 10, 20, 30, 4, 5, 6, 40, 50, 60});
  EXPECT_EQ(run.y, (Floats{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
  EXPECT_EQ(run.dx[0], (Floats{11, 22, 33, 44, 55, 66}));
  ExpectSameBits(RepeatVector(28), {{64}}, 7);
}

TEST(EmbeddingTest, Numbers_Chosen_GiveRowsAndAddGradients) {
  OpRunner runner(Embedding(3, 2), {{2}});
  ASSERT_OK(runner.status());
  EXPECT_EQ(runner.op().output(), (Shape{2, 2}));
  const Floats table = {1, 2, 3, 4, 5, 6};
  for (const int threads : {1, 2, 5}) {
    const OpRun run = runner.Run(2, {{2, 0, 2, 2.5f}}, {table},
                                 {1, 2, 3, 4, 10, 20, 100, 200}, threads);
    EXPECT_EQ(run.y, (Floats{5, 6, 1, 2, 5, 6, 5, 6}));
    EXPECT_EQ(run.d_weights[0], (Floats{3, 4, 0, 0, 111, 222}));
    EXPECT_EQ(run.dx[0], (Floats{0, 0, 0, 0}));
  }
}

TEST(EmbeddingTest, Backward_ZerosLeftOut_GivesTheSameSums) {
  OpRunner runner(Embedding(90, 7), {{20}});
  const std::vector<Floats> w = runner.RandomWeights(7);
  Floats x = RandomFloats(6 * 20, 1);
  for (float& number : x) number = std::floor((number + 1) * 45);
  const Floats dy = RandomFloats(6 * 20 * 7, 2);
  const OpRun whole = runner.Run(6, {x}, w, dy);
  runner.skips_zeros = true;
  for (const int threads : {1, 2, 5}) {
    const OpRun rows = runner.Run(6, {x}, w, dy, threads, 9);
    EXPECT_EQ(rows.taken, whole.d_weights[0]);
    EXPECT_EQ(rows.ready, (std::vector<int64_t>{1000}));
  }
}

TEST(WrapperTest, Build_WrongLayerOrInput_ErrorNamesTheReason) {
  const auto expect = [](const Layer& layer, const Shape& x,
                         const std::string& part) {
    const std::string text = OpRunner(layer, {x}).status().message();
    EXPECT_TRUE(Contains(text, part));
  };
  expect(TimeDistributed(Dense(1)), {4}, "with steps first");
  expect(TimeDistributed(Add()), {4, 4}, "cannot apply Add");
  expect(TimeDistributed(Bidirectional(LSTM(1))), {4, 4, 4},
         "cannot apply Bidirectional");
  expect(TimeDistributed(BatchNormalization()), {4, 4},
         "cannot have a BatchNormalization");
  expect(TimeDistributed(Dense(0)), {4, 4}, "units must be at least 1");
  expect(TimeDistributed(Dense(1)).Seed(1), {4, 4},
         "TimeDistributed has no seed");
  expect(RepeatVector(0), {4}, "n must be at least 1");
  expect(RepeatVector(2), {4, 4}, "RepeatVector needs an input (features)");
  expect(Embedding(0, 1), {4}, "input_dim must be at least 1");
  expect(Embedding(1 << 25, 1), {4}, "is too large");
  expect(Embedding(4, 0), {4}, "output_dim must be at least 1");
  expect(Embedding(4, int64_t{1} << 40), {4}, "is too large");
}

}  // namespace
}  // namespace ringlet
