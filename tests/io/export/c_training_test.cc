// Tests that a C file that trains has the trainer's bits: weights, slots and
// losses after each of several steps, for random models.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../../support/c_training.h"
#include "../../support/exports.h"
#include "../../support/made_examples.h"

namespace ringlet {
namespace {

TEST_F(CTrainingTest, Steps_DrawnModels_HaveTheTrainersBits) {
  const int first = std::atoi(EnvironmentOr("RINGLET_FIRST_SEED", "1").c_str());
  const int last = std::atoi(EnvironmentOr("RINGLET_LAST_SEED", "9").c_str());
  constexpr int64_t kBatches[] = {1, 5, 32, 150};
  int compared = 0;
  for (int seed = first; seed < last && !HasFailure(); ++seed) {
    const int64_t batch = kBatches[seed % 4];
    DrawnModel drawn(static_cast<uint32_t>(seed));
    Model* const model = drawn.model();
    if (!model->status().ok() || model->num_trained() == 0) continue;
    SCOPED_TRACE(FormatText("seed %d, batch %d, %s, %s\n%s", seed,
                            static_cast<int>(batch), model->optimizer().name(),
                            model->loss().class_name(),
                            model->Summary().c_str()));
    ASSERT_OK(Export(model, batch, drawn.frozen()));
    const std::string flags[] = {std::string(kFused) + kChecked, kChecked,
                                 kFast};
    const CLibrary c(folder_, flags[seed / 4 % 3]);
    Compare(&drawn, c, batch, 7);
    ++compared;
  }
  std::printf("%d models\n", compared);
}

// A model of which the head is trained.
Sequential SomeHead() {
  return Sequential({Input({6, 5, 2}),
                     Conv2D(4, 3, kRelu).Trainable(false).Name("body"),
                     Flatten(), Dense(7, kSoftmax).Name("head")});
}

TEST_F(CTrainingTest, Export_NamesWithCommentMarks_AreCompiled) {
  Sequential model(
      {Input({4}), Dropout(0.5f).Name("a/*b"), Dense(3).Name("c*/int d;/*")});
  model.Compile(SGD(), MeanSquaredError());
  ASSERT_OK(Export(&model, 1));
  EXPECT_TRUE(Contains(ReadWhole(folder_ / "model.c"), "c_/int d;/_/kernel"));
  const CLibrary c(folder_, kChecked);
}

TEST_F(CTrainingTest, Load_SavedState_ContinuesWithTheSameBits) {
  Sequential model = SomeHead();
  model.Compile(Adam(0.01f), SparseCategoricalCrossentropy());
  ASSERT_OK(Export(&model, 3));
  const CLibrary c(folder_, kChecked);
  const auto bytes = static_cast<size_t>(Defined(folder_, "STATE"));
  Examples examples;
  std::vector<float> x = SomeNumbers(60 * 9);
  const auto train = [&](int begin, int end) {
    for (int i = begin; i < end; ++i) {
      const int32_t y = i % 7;
      ASSERT_EQ(c.Train(x.data() + 60 * i, &y, nullptr), 0);
    }
  };
  train(0, 3);
  const std::string first = c.Save(bytes);
  train(3, 9);
  const std::string last = c.Save(bytes);
  train(0, 2);  // dropped
  ASSERT_EQ(c.Load(first), 0);
  EXPECT_EQ(c.Save(bytes), first);
  train(3, 9);
  EXPECT_EQ(c.Save(bytes), last);
  EXPECT_NE(first, last);

  // The model takes it back.
  WriteWhole(folder_ / "board.safetensors", last);
  EXPECT_OK(VerifyCheckpoint(folder_ / "board.safetensors"));
  LoadWeightsOptions options;
  options.by_name = true;
  options.warn = [](const std::string&) {};
  WeightsReport report;
  ASSERT_OK(
      LoadWeights(&model, folder_ / "board.safetensors", options, &report));
  EXPECT_EQ(report.loaded,
            (std::vector<std::string>{"head/kernel", "head/bias"}));
  EXPECT_TRUE(report.unexpected.empty());
  const std::string weights = NumbersOf(&model).substr(0, 4 * (12 * 4 * 7 + 7));
  EXPECT_TRUE(Contains(last, weights));
}

TEST_F(CTrainingTest, Load_WrongBytes_AreRefusedWithoutAChange) {
  Sequential model = SomeHead();
  model.Compile(SGD(0.1f, 0.9f), SparseCategoricalCrossentropy());
  ASSERT_OK(Export(&model, 1));
  const CLibrary c(folder_, kChecked);
  const std::string state =
      c.Save(static_cast<size_t>(Defined(folder_, "STATE")));
  for (size_t i = 0; i < state.size(); ++i) {
    std::string wrong = state;
    wrong[i] = static_cast<char>(wrong[i] ^ (1 << i % 8));
    ASSERT_NE(c.Load(wrong), 0) << i;
  }
  EXPECT_EQ(c.Load(state.substr(0, state.size() - 1)), 1);
  EXPECT_EQ(c.Load(state + '\0'), 1);
  EXPECT_EQ(c.Load(""), 1);
  EXPECT_EQ(c.Save(state.size()), state);
  const int32_t wrong_class[] = {7}, negative[] = {-1};
  const std::vector<float> x(60);
  EXPECT_EQ(c.Train(x.data(), wrong_class, nullptr), 1);
  EXPECT_EQ(c.Train(x.data(), negative, nullptr), 1);
  EXPECT_EQ(c.Begin(0), 1);
  EXPECT_EQ(c.Begin(2), 1);
  EXPECT_EQ(c.Save(state.size()), state);
}

// The numbers of the first comment are those that the compiler reports.
TEST_F(CTrainingTest, Comment_StaticMemory_EqualsTheFiles) {
  Sequential model = SomeHead();
  model.Compile(Adam(0.01f), SparseCategoricalCrossentropy());
  ASSERT_OK(Export(&model, 200));
  const std::string text = ReadWhole(folder_ / "model.c");
  EXPECT_TRUE(Contains(text, "have the bits of `ringlet train`"));
  const size_t at = text.find("RAM:   ");
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(std::system(
                ("cd " + folder_.path() +
                 " && cc -std=c99 -O2 -c model.c && size model.o | tail -n 1 > "
                 "size")
                    .c_str()),
            0);
  long code = 0, data = 0, bss = 0;
  ASSERT_EQ(std::sscanf(ReadWhole(folder_ / "size").c_str(), "%ld %ld %ld",
                        &code, &data, &bss),
            3);
  const long ram = std::atol(text.c_str() + at + 7);
  EXPECT_NEAR(static_cast<double>(ram), static_cast<double>(data + bss),
              64 + 0.01 * static_cast<double>(ram));
}

// Each class of layer, frozen before a trained one, is compiled, and has the
// trainer's bits if the file's comment says so.
TEST_F(CTrainingTest, FrozenLayers_NamedAsExact_HaveTheTrainersBits) {
  int exact = 0;
  for (const LayerClass& row : AllLayers()) {
    if (row.make == nullptr || row.inputs == LayerInputs::kNone) continue;
    SCOPED_TRACE(row.name);
    Layer layer = row.make().Name("it").Trainable(false);
    if (layer.kind == Layer::Kind::kReshape) layer.shape = {-1, 4};
    if (layer.kind == Layer::Kind::kPermute) layer.shape = {3, 1, 2};
    if (layer.kind == Layer::Kind::kNormalization) {
      layer.means = {0.3f};
      layer.variances = {1.7f};
    }
    Functional model;
    const auto x =
        model.Add(Input(row.axes == 1 ? Shape{8, 4} : Shape{8, 6, 4}));
    std::vector<int> inputs = {x};
    if (row.inputs == LayerInputs::kList || row.inputs == LayerInputs::kQuery) {
      inputs.push_back(model.Add(ActivationLayer(kTanh), {x}));
    }
    const auto y = model.Add(layer, inputs);
    model.Add(Dense(3), {model.Add(Flatten(), {y})});
    model.Compile(SGD(), MeanSquaredError());
    if (!model.status().ok() || !Export(&model, 1).ok()) continue;
    if (!Contains(ReadWhole(folder_ / "model.c"), "have the bits of")) {
      const CLibrary c(folder_, "-O0");
      continue;
    }
    const std::vector<float> in =
        SomeNumbers(static_cast<size_t>(model.input_shape().elements()));
    if (!model.Forward(in.data(), 1, /*training=*/false).ok())
      continue;  // not tokens
    for (const char* flags : {"-O0", kFast}) {
      SCOPED_TRACE(flags);
      const CLibrary c(folder_, flags);
      float out[3];
      ASSERT_EQ(c.Predict(in.data(), out), 0);
      EXPECT_TRUE(std::equal(out, out + 3, model.output()));
    }
    ++exact;
  }
  EXPECT_GE(exact, 30) << "of all classes";
  std::printf("%d classes\n", exact);
}

TEST_F(CTrainingTest, Steps_FrozenRecurrentFront_AreTheTrainers) {
  const Layer fronts[] = {LSTM(3),
                          GRU(3),
                          SimpleRNN(3),
                          GRU(3).ReturnSequences(true),
                          Bidirectional(LSTM(3)),
                          Bidirectional(GRU(3)),
                          TimeDistributed(LSTM(3)),
                          TimeDistributed(Dense(3))};
  for (Layer front : fronts) {
    const bool of_steps = front.kind == Layer::Kind::kTimeDistributed;
    Sequential model({Input(of_steps ? Shape{3, 6, 4} : Shape{6, 4}),
                      front.Trainable(false), Flatten(), Dense(70, kRelu),
                      Dense(3)});
    model.Compile(SGD(0.1f, 0.9f), MeanSquaredError());
    SCOPED_TRACE(model.Summary());
    ASSERT_OK(Export(&model, 32));
    const CLibrary c(folder_, kChecked);
    const int64_t inputs = model.input_shape().elements();
    for (const int64_t count : {32, 32, 1, 5}) {
      const std::vector<float> x =
          SomeNumbers(static_cast<size_t>(inputs * count));
      Batch step;
      step.count = step.global_count = count;
      step.x = x.data();
      step.y = x.data();
      ASSERT_EQ(c.Begin(static_cast<int>(count)), 0);
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(c.Train(x.data() + inputs * i, x.data() + 3 * i, nullptr), 0);
      }
      ASSERT_OK(model.TrainStep(step));
    }
    const std::string state =
        c.Save(static_cast<size_t>(Defined(folder_, "STATE")));
    const std::string numbers = NumbersOf(&model);
    const auto* const bytes =
        reinterpret_cast<const unsigned char*>(state.data());
    std::vector<float> in_c(numbers.size() / 4), here(numbers.size() / 4);
    std::memcpy(in_c.data(), bytes + 8 + LoadLittle<uint64_t>(bytes),
                numbers.size());
    std::memcpy(here.data(), numbers.data(), numbers.size());
    for (size_t i = 0; i < here.size(); ++i) {
      ASSERT_NEAR(in_c[i], here[i], 1e-5) << i;
    }
  }
}

TEST(CTrainingFileTest, Export_WhatCDoesNotTrain_IsRefusedByName) {
  ExportCOptions options;
  options.train_batch = 1;
  const auto expect_refused = [&](Model* model,
                                  const std::vector<std::string>& parts) {
    ASSERT_OK(model->status());
    ExpectRefused(
        [&](const std::string& path) { return ExportC(model, path, options); },
        parts);
  };
  const auto expect_layer = [&](const Layer& layer, const char* why) {
    Sequential model(
        {Input({6, 6, 2}), Conv2D(4, 3), layer, Flatten(), Dense(3)});
    model.Compile(SGD(), MeanSquaredError());
    expect_refused(&model, {"it", why, "train only layers that follow it"});
  };
  expect_layer(LayerNormalization().Trainable(false).Name("it"),
               "has no gradient");
  expect_layer(SeparableConv2D(3, 3).Name("it"), "has a depthwise part");
  expect_layer(
      DepthwiseConv2D(3).DepthMultiplier(2).Trainable(false).Name("it"),
      "has a depth_multiplier");
  expect_layer(ActivationLayer(kSilu).Name("it"), "without a gradient in C");
  expect_layer(GlobalMaxPooling2D().KeepDims(true).Name("it"), "maxima");
  Sequential steps({Input({3, 6, 6, 2}),
                    TimeDistributed(Conv2D(2, 3)).Name("it"), Flatten(),
                    Dense(3)});
  steps.Compile(SGD(), MeanSquaredError());
  expect_refused(&steps, {"it", "is computed for each step"});
  Sequential last({Input({4}), Dense(4, kGelu).Name("it")});
  last.Compile(SGD(), MeanSquaredError());
  expect_refused(&last, {"it", "without a gradient", "no layer follows it"});
  Sequential normalized(
      {Input({4}), Dense(4), BatchNormalization().Name("it")});
  normalized.Compile(SGD(), MeanSquaredError());
  expect_refused(&normalized, {"C cannot train weight 'it/gamma'"});
  const auto expect_compile = [&](const Optimizer& optimizer, const Loss& loss,
                                  const char* why) {
    Sequential model({Input({4}), Dense(4)});
    model.Compile(optimizer, loss);
    expect_refused(&model, {why});
  };
  expect_compile(Lion(), MeanSquaredError(), "Lion: it is not SGD");
  expect_compile(SGD(ExponentialDecay(0.1f, 10, 0.5f)), MeanSquaredError(),
                 "give --learning-rate");
  expect_compile(SGD().ClipNorm(1), MeanSquaredError(), "clips");
  expect_compile(SGD(), Huber(), "the loss Huber");
  expect_compile(SGD(), CategoricalCrossentropy(kFromLogits, 0.1f),
                 "label_smoothing");
  Sequential masked({Input({5, 4}), Masking(),
                     LSTM(3).Trainable(false).ReturnSequences(true), Dense(2)});
  masked.Compile(SGD(), MeanSquaredError());
  expect_refused(&masked, {"masks, which C does not"});
  Sequential frozen({Input({4}), Dense(4).Trainable(false)});
  frozen.Compile(SGD(), MeanSquaredError());
  expect_refused(&frozen, {"no weights to train"});
}

TEST(CTrainingFileTest, Comment_LayersWithOtherBits_AreNamed) {
  TempFolder folder;
  Sequential model({Input({5, 4}), LSTM(3).Name("memory").Trainable(false),
                    Dropout(0.5f).Name("drop"), Dense(3)});
  model.Compile(SGD(), MeanSquaredError());
  ExportCOptions options;
  options.train_batch = 1;
  ASSERT_OK(ExportC(&model, folder / "model.c", options));
  const std::string text = ReadWhole(folder / "model.c");
  EXPECT_TRUE(Contains(text, "Not with the bits of `ringlet train`"));
  EXPECT_TRUE(Contains(text, "layer 'drop' (Dropout) is left out"));
  EXPECT_TRUE(Contains(text, "layer 'memory' (LSTM) is computed"));
}

TEST(CTrainingFileTest, Comment_LayersOfMixedBFloat16_AreNamedOnce) {
  TempFolder folder;
  const auto mixed = DTypePolicy::kMixedBFloat16;
  Sequential model(
      {Input({5, 4}),
       TimeDistributed(Dense(3).DType(mixed)).Name("a").Trainable(false),
       TimeDistributed(Dense(3)).DType(mixed).Name("b").Trainable(false),
       TimeDistributed(Dense(3)).Name("c").Trainable(false),
       Flatten().DType(mixed), Dense(3).DType(mixed).Name("output")});
  model.Compile(SGD(), MeanSquaredError());
  ExportCOptions options;
  options.train_batch = 1;
  ASSERT_OK(ExportC(&model, folder / "model.c", options));
  const std::string text = ReadWhole(folder / "model.c");
  EXPECT_TRUE(Contains(
      text,
      "Not with the bits of `ringlet train`:\n"
      "     layer 'a' (TimeDistributed) is not rounded to bfloat16\n"
      "     layer 'b' (TimeDistributed) is not rounded to bfloat16\n\n"))
      << text.substr(0, 2000);
}

}  // namespace
}  // namespace ringlet
