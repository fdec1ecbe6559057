// Tests int8 files: their text, their error, and the models that are refused.
// tests/c_file_test.py tests that the file computes what the report says.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/exports.h"
#include "../../support/made_examples.h"
#include "core/base/crc32c.h"
#include "core/compute/gemm.h"
#include "ringlet/export.h"

namespace ringlet {
namespace {

Sequential PlainEnough() {
  return Sequential({Input({12, 10, 2}), Rescaling(0.5f),
                     Conv2D(4, 3, kRelu).Padding(kSame), BatchNormalization(),
                     Conv2D(6, 3).Strides(2), BatchNormalization(), ReLU(6),
                     LeakyReLU(), SeparableConv2D(6, 3).Padding(kSame),
                     AveragePooling2D(), Flatten(), Dropout(0.5f),
                     Dense(4, kGelu), Dense(3, kSoftmax)});
}

// The ranges are computed in a class of arithmetic that has the same bits
// everywhere.
TEST(Int8FileTest, Text_AnyMachine_HasTheSameBytes) {
  Sequential model = PlainEnough();
  CompileOne(&model);
  Examples examples;
  ExportCOptions options;
  options.calibration = examples.Batches({12, 10, 2}, {3}, 10);
  const std::string file = WithoutVersion(Exported(
      [&](const std::string& path) { return ExportC(&model, path, options); }));
  EXPECT_EQ(Crc32c(file.data(), file.size()),
            UsesFusedMultiplyAdd() ? 1718178917u : 405880204u);
}

TEST(Int8FileTest, Report_TestData_HasTheLossesOfBothModels) {
  Sequential model = PlainEnough();
  CompileOne(&model);
  Examples examples;
  ExportCOptions options;
  options.calibration = options.test = examples.Batches({12, 10, 2}, {3}, 10);
  Int8Report report;
  Exported([&](const std::string& path) {
    return ExportC(&model, path, options, &report);
  });
  ASSERT_NE(report.before.Find("loss"), nullptr);
  ASSERT_NE(report.after.Find("loss"), nullptr);
  EXPECT_NE(*report.after.Find("loss"), *report.before.Find("loss"));
  EXPECT_NEAR(*report.after.Find("loss"), *report.before.Find("loss"), 0.01);
}

// How far int8 is off, as the root of a mean square.
double Int8Error(Model* model, const Shape& in, const Shape& out) {
  constexpr int64_t kCount = 64;
  Examples examples;
  ExportCOptions options;
  options.calibration = examples.Batches(in, out, kCount);
  EXPECT_OK(model->Forward(examples.x.data(), kCount, /*training=*/false));
  std::copy_n(model->output(), examples.y.size(), examples.y.begin());
  options.test = options.calibration;
  Int8Report report;
  Exported([&](const std::string& path) {
    return ExportC(model, path, options, &report);
  });
  EXPECT_EQ(*report.before.Find("loss"), 0);
  return std::sqrt(*report.after.Find("loss"));
}

TEST(Int8FileTest, Export_ReluBehindARelu_Saturates) {
  Sequential model({Input({4}), Dense(8, kRelu), ReLU(0.5f), Dense(2)});
  CompileOne(&model);
  for (int i = 0; i < 32; ++i) model.weights()[i] *= 20;
  EXPECT_LT(Int8Error(&model, {4}, {2}), 0.02);
}

TEST(Int8FileTest, Export_RowsRepeated_EqualTheModels) {
  Sequential model({Input({4}), Dense(6, kTanh), RepeatVector(3),
                    TimeDistributed(Dense(4, kRelu)), UpSampling1D(2),
                    TimeDistributed(Reshape({2, 2})), UpSampling2D(1, 2),
                    Flatten(), Dense(2)});
  CompileOne(&model);
  EXPECT_LT(Int8Error(&model, {4}, {2}), 0.02);
}

TEST(Int8FileTest, Export_FilterWithoutWeights_KeepsItsBias) {
  Sequential model({Input({4}), Rescaling(300), Dense(2)});
  CompileOne(&model);
  const float weights[] = {0, 0.001f, 0, 0.002f, 0, 0.001f, 0, 0, 0.3f, 0};
  std::copy(std::begin(weights), std::end(weights), model.weights());
  EXPECT_LT(Int8Error(&model, {4}, {2}), 0.005);
  std::fill_n(model.weights(), 8, 0.0f);
  EXPECT_LT(Int8Error(&model, {4}, {2}), 0.001);
}

// --- integer sums, and floats between them -----------------------------------

// The error of int8, in steps of 1/255 of the outputs' range. `change` maps the
// index and the value of each made input to the input that is used.
double Int8Steps(Model* model,
                 const std::function<float(size_t i, float x)>& change) {
  constexpr int64_t kCount = 64;
  CompileOne(model);
  if (!model->status().ok()) return HUGE_VAL;
  const Shape &in = model->output_shape(0),
              &out = model->output_shape(model->num_nodes() - 1);
  Examples examples;
  ExportCOptions options;
  options.calibration = options.test = examples.Batches(in, out, kCount);
  for (size_t i = 0; i < examples.x.size(); ++i) {
    examples.x[i] = change(i, examples.x[i]);
  }
  EXPECT_OK(model->Forward(examples.x.data(), kCount, /*training=*/false));
  std::copy_n(model->output(), examples.y.size(), examples.y.begin());
  const auto ends = std::minmax_element(examples.y.begin(), examples.y.end());
  const double range = double{*ends.second} - double{*ends.first};
  Int8Report report;
  Exported([&](const std::string& path) {
    return ExportC(model, path, options, &report);
  });
  return std::sqrt(*report.after.Find("loss")) / (range / 255);
}

double Int8Steps(Model* model) {
  return Int8Steps(model, [](size_t, float x) { return x; });
}

// The inputs are whole numbers below `tokens`.
double Int8StepsOfTokens(Model* model, int tokens) {
  return Int8Steps(model, [=](size_t, float x) {
    return std::floor((x + 1) / 2 * static_cast<float>(tokens));
  });
}

// A LayerNormalization divides by a deviation of a few of its input's steps.
constexpr double kSteps = 5, kNormalizedSteps = 12;

TEST(Int8FileTest, Recurrences_AnyCell_AreWithinAStep) {
  const Layer cells[] = {SimpleRNN(6),
                         SimpleRNN(5).UseBias(false),
                         LSTM(6),
                         LSTM(3).GoBackwards(true).UseBias(false),
                         GRU(6),
                         GRU(5).UseBias(false),
                         GRU(6).ResetAfter(false),
                         GRU(3, kSoftsign, kHardSigmoid),
                         Bidirectional(LSTM(4)),
                         Bidirectional(GRU(3), kMergeSum)};
  for (const bool sequences : {false, true}) {
    for (const Layer& cell : cells) {
      SCOPED_TRACE(ClassName(cell));
      Layer layer = cell;
      if (layer.kind != Layer::Kind::kBidirectional) {
        layer.ReturnSequences(sequences);
      }
      Sequential model({Input({7, 4}), layer, Dense(3)});
      EXPECT_LT(Int8Steps(&model), 1);
    }
  }
}

// A state without bounds has more than int8's range of the examples.
TEST(Int8FileTest, Recurrence_StateWithoutBounds_IsWithinSteps) {
  Sequential model({Input({20, 4}), SimpleRNN(6, kRelu), Dense(3)});
  EXPECT_LT(Int8Steps(&model), kSteps);
}

TEST(Int8FileTest, Tokens_OfEmbeddings_StayWhole) {
  Sequential model({Input({12}), Embedding(1000, 8), PositionEmbedding(12),
                    GRU(6), Dense(3)});
  EXPECT_LT(Int8StepsOfTokens(&model, 1000), kSteps);
  ExportCOptions options;
  Examples examples;
  options.calibration = examples.Batches({12}, {3}, 4);
  for (float& x : examples.x) x = std::floor(500 * (x + 1));
  const std::string file = Exported(
      [&](const std::string& path) { return ExportC(&model, path, options); });
  EXPECT_TRUE(Contains(
      file, "int model_predict_int8(const int32_t* in, int8_t* out);"));
  EXPECT_TRUE(Contains(file, "(12,); whole numbers of tokens"));
}

TEST(Int8FileTest, Attention_AnyHeads_IsWithinSteps) {
  for (const int64_t heads : {1, 3}) {
    for (const bool causal : {false, true}) {
      Functional model;
      const auto x = model.Add(Input({6, 5}));
      const auto query = model.Add(Dense(4, kTanh), {x});
      const auto value = model.Add(Dense(3, kTanh), {x});
      const auto y = model.Add(
          MultiHeadAttention(heads, 2).ValueDim(4).UseCausalMask(causal),
          {query, value});
      model.Add(Dense(3), {y});
      EXPECT_LT(Int8Steps(&model), kSteps) << heads;
      Functional alone;
      const auto z = alone.Add(Input({6, 5}));
      const auto keys = alone.Add(Dense(5), {z});
      alone.Add(Attention().UseScale(heads > 1).UseCausalMask(causal),
                {z, z, keys});
      EXPECT_LT(Int8Steps(&alone), kSteps) << heads;
    }
  }
}

TEST(Int8FileTest, LayersBetweenIntegers_AnyAxes_AreWithinSteps) {
  Layer over_rows = LayerNormalization().Scale(false);
  over_rows.axes = {2, 3};
  const std::vector<std::vector<Layer>> layers = {
      {LayerNormalization()},
      {over_rows},
      {LayerNormalization(), PReLU()},
      {PReLU({1, 2}), BatchNormalization()},
      {Softmax()},
      {Softmax({1})},
      {Softmax({1, 2}), Dense(3)},
      {Softmax({2, 3}), ReLU()},
      {ActivationLayer(kSoftmax), Dense(4)},
      {Conv2DTranspose(3, 2).Strides(2)},
      {Conv2DTranspose(3, 3, kTanh).Padding(kSame), BatchNormalization()},
      {Conv2DTranspose(2, 2).Strides(3).UseBias(false), ReLU()},
  };
  for (const std::vector<Layer>& some : layers) {
    SCOPED_TRACE(ClassName(some[0]));
    Sequential model({Input({5, 4, 3}), Conv2D(4, 2)});
    for (const Layer& layer : some) model.Add(layer);
    const bool normalized = some[0].kind == Layer::Kind::kLayerNormalization;
    EXPECT_LT(Int8Steps(&model), normalized ? kNormalizedSteps : kSteps);
  }
  Sequential line({Input({8, 3}), Conv1DTranspose(4, 3).Strides(2), PReLU()});
  EXPECT_LT(Int8Steps(&line), kSteps);
}

TEST(Int8FileTest, Steps_OfATimeDistributed_AreComputedOneByOne) {
  Sequential images(
      {Input({3, 6, 5, 2}), TimeDistributed(Conv2D(4, 3, kRelu).Padding(kSame)),
       TimeDistributed(Rescaling({1, 2, 0.5f, -1}, {0, 1, 0, 0})),
       TimeDistributed(ZeroPadding2D(1)), TimeDistributed(MaxPooling2D()),
       TimeDistributed(SeparableConv2D(3, 2)), TimeDistributed(PReLU()),
       TimeDistributed(Flatten()), LSTM(5), Dense(3)});
  EXPECT_LT(Int8Steps(&images), kSteps);
  Sequential rows(
      {Input({4, 7, 3}), TimeDistributed(GRU(4)),
       TimeDistributed(LayerNormalization()), TimeDistributed(RepeatVector(4)),
       TimeDistributed(Conv1D(3, 2)), TimeDistributed(Softmax({1, 2}))});
  EXPECT_LT(Int8Steps(&rows), kNormalizedSteps);
  Sequential one({Input({1, 7, 3}), TimeDistributed(Conv1D(3, 2)), Flatten()});
  EXPECT_LT(Int8Steps(&one), kSteps);
  CompileOne(&one);
  EXPECT_FALSE(
      Contains(Exported([&](const std::string& path) {
                 Examples examples;
                 ExportCOptions options;
                 options.calibration = examples.Batches({1, 7, 3}, {18}, 4);
                 return ExportC(&one, path, options);
               }),
               " t * "));
  Sequential tokens({Input({4, 7}), TimeDistributed(Embedding(90, 3)),
                     TimeDistributed(GlobalAveragePooling1D()), Dense(2)});
  EXPECT_LT(Int8StepsOfTokens(&tokens, 90), kSteps);
}

// The first channel differs by 1 around 1000, the second by 0.001 around 0.
TEST(Int8FileTest, Normalization_OfTheInput_HasAFactorForEachChannel) {
  Sequential model({Input({3, 2}), Normalization({1000, 0}, {1, 1e-6f}),
                    Flatten(), Dense(4, kTanh), Dense(2)});
  EXPECT_LT(Int8Steps(&model,
                      [](size_t i, float x) {
                        return i % 2 == 0 ? 1000 + x : x / 1000;
                      }),
            kSteps);
  Functional both;  // reads the input elsewhere too
  const auto x = both.Add(Input({4}));
  const auto y = both.Add(Normalization({0, 0.5f, 0, 1}, {1, 2, 3, 4}), {x});
  both.Add(Add(), {x, y});
  EXPECT_LT(Int8Steps(&both), kSteps);
}

TEST(Int8FileTest, Export_UnsupportedLayers_AreRefusedByName) {
  const auto refuse = [](Model* model, const Shape& in, const Shape& out,
                         const std::vector<std::string>& says) {
    CompileOne(model);
    Examples examples;
    ExportCOptions options;
    options.calibration = examples.Batches(in, out, 4);
    ExpectRefused(
        [&](const std::string& path) { return ExportC(model, path, options); },
        says);
  };
  Sequential logs({Input({4}), Dense(3, kLogSoftmax).Name("s"), Dense(2)});
  refuse(&logs, {4}, {2}, {"layer 's'", "log_softmax", "the model's end"});
  Sequential computed({Input({4}), Dense(3, kRelu), Embedding(9, 2).Name("e")});
  refuse(&computed, {4}, {3, 2}, {"layer 'e'", "another layer computes"});
  Functional both;
  const auto tokens = both.Add(Input({4}));
  const auto rows = both.Add(Flatten(), {both.Add(Embedding(9, 1), {tokens})});
  both.Add(Add().Name("a"), {tokens, rows});
  refuse(&both, {4}, {4}, {"layer 'a'", "reads the tokens"});
  Functional states;
  const auto gru = states.Add(GRU(3).ReturnState(true).Name("g"),
                              {states.Add(Input({4, 2}))});
  states.Add(Dense(2), {states.Add(RecurrentOutput(1), {gru})});
  refuse(&states, {4, 2}, {2}, {"layer 'g'", "GRU, with return_state"});
  Sequential padded({Input({4}), Embedding(9, 2).MaskZero(true).Name("e"),
                     GRU(3).Name("g"), Dense(2)});
  refuse(&padded, {4}, {2},
         {"layer 'e' makes a mask, and int8 has none; export the model without "
          "int8"});
  Sequential masked({Input({4, 2}), Masking().Name("m"), LSTM(3), Dense(2)});
  refuse(&masked, {4, 2}, {2}, {"layer 'm'", "int8"});
  Functional added;
  const auto steps = added.Add(Input({4, 2}));
  added.Add(AdditiveAttention().Name("a"), {steps, steps});
  refuse(&added, {4, 2}, {4, 2}, {"layer 'a' is an AdditiveAttention"});
  Sequential large({Input({2}), Dense(2), ActivationLayer(kExponential)});
  CompileOne(&large);
  for (int i = 0; i < 4; ++i) large.weights()[i] = 300;
  Examples examples;
  ExportCOptions options;
  options.calibration = examples.Batches({2}, {2}, 4);
  ExpectRefused(
      [&](const std::string& path) { return ExportC(&large, path, options); },
      {"Activation", "inf"});
}

}  // namespace
}  // namespace ringlet
