// Weights from an npz in the layout of Keras, and the statistics of
// Normalization.

#include <gtest/gtest.h>

#include "../../support/contains.h"
#include "../../support/model_weights.h"
#include "core/model/normalizations.h"
#include "npz_arrays.h"
#include "ringlet/checkpoint.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

TEST(NpzWeightsTest, Load_KerasLayout_IsTaken) {
  TempFolder folder;
  auto model = Compiled({Input({3}), Dense(2)});
  for (const std::string prefix : {"", "model/"}) {
    ASSERT_OK(LoadWeights(model.get(),
                          Arrays(folder, {{prefix + "dense/bias", {2}},
                                          {prefix + "dense/kernel", {3, 2}}})));
    EXPECT_EQ(WeightsOf(model.get()),
              (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1}));
  }
}

TEST(NpzWeightsTest, Load_DepthwiseKernelNameOfKeras2_IsFound) {
  TempFolder folder;
  for (const std::string kernel :
       {"d/depthwise_kernel:0", "m/d/depthwise_kernel", "d/kernel:0",
        "depthwise_kernel:0"}) {
    auto model = Compiled(
        {Input({2, 2, 3}), DepthwiseConv2D(1, 2).Name("d").UseBias(false)});
    ASSERT_OK(
        LoadWeights(model.get(), Arrays(folder, {{kernel, {1, 2, 3, 1}}})));
    EXPECT_EQ(WeightsOf(model.get()), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  }
}

TEST(NpzWeightsTest, Load_NestedKernelNameOfKeras2_IsFound) {
  TempFolder folder;
  for (const std::string kernel :
       {"body/d/depthwise_kernel:0", "m/body/d/depthwise_kernel",
        "d/depthwise_kernel:0", "body/d/kernel:0"}) {
    SCOPED_TRACE(kernel);
    const Sequential body(
        {Input({2, 2, 3}), DepthwiseConv2D(1, 2).Name("d").UseBias(false)});
    auto model = Compiled({Input({2, 2, 3}), body.AsLayer().Name("body")});
    ASSERT_OK(
        LoadWeights(model.get(), Arrays(folder, {{kernel, {1, 2, 3, 1}}})));
    EXPECT_EQ(WeightsOf(model.get()), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  }
}

// Keras names the cell within a recurrent layer, and Keras 2 also numbers it.
TEST(NpzWeightsTest, Load_WeightsOfKerasCells_AreFound) {
  TempFolder folder;
  for (const std::string before :
       {"b/forward_g/", "b/forward_g/gru_cell/", "m/b/forward_g/gru_cell_12/",
        "b/m/b/forward_g/gru_cell/"}) {
    SCOPED_TRACE(before);
    auto model =
        Compiled({Input({2, 2}), Bidirectional(GRU(1).Name("g")).Name("b")});
    std::string after = before;
    after.replace(after.rfind("forward"), 7, "backward");
    std::vector<std::pair<std::string, Shape>> arrays;
    for (const std::string& prefix : {before, after}) {
      arrays.push_back({prefix + "kernel:0", {2, 3}});
      arrays.push_back({prefix + "recurrent_kernel:0", {1, 3}});
      arrays.push_back({prefix + "bias:0", {2, 3}});
    }
    ASSERT_OK(LoadWeights(model.get(), Arrays(folder, arrays)));
    EXPECT_EQ(
        WeightsOf(model.get()),
        (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5,
                            0, 1, 2, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5}));
  }
  auto model = Compiled({Input({2, 2}), TimeDistributed(Dense(1)).Name("t")});
  ASSERT_OK(LoadWeights(model.get(), Arrays(folder, {{"t/dense/kernel", {2, 1}},
                                                     {"t/dense/bias", {1}}})));
  EXPECT_EQ(WeightsOf(model.get()), (std::vector<float>{0, 1, 0}));
}

// Keras 3's order of get_weights() does not depend on what is trained.
TEST(NpzWeightsTest, Load_ArraysWithoutNames_FollowTheOrderOfTheLayers) {
  TempFolder folder;
  for (const bool trainable : {true, false}) {
    auto model =
        Compiled({Input({3}), Dense(2).Trainable(trainable), Dense(1)});
    ASSERT_OK(LoadWeights(model.get(), Arrays(folder, {{"arr_0", {3, 2}},
                                                       {"arr_1", {2}},
                                                       {"arr_2", {2, 1}},
                                                       {"arr_3", {1}}})));
    EXPECT_EQ(WeightsOf(model.get()),
              (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1, 0, 1, 0}));
  }
}

// Keras sorts the layers of a functional model by their depth, in whatever
// order they were made. A shared layer has the depth of its deepest call.
TEST(NpzWeightsTest, Load_ArraysWithoutNames_FollowTheDepthOfTheLayers) {
  TempFolder folder;
  const auto load = [&](Functional* model, const std::vector<Shape>& shapes) {
    model->Compile(SGD(0.1f), MeanSquaredError());
    ASSERT_OK(model->status());
    std::vector<std::pair<std::string, Shape>> arrays;
    for (size_t i = 0; i < shapes.size(); ++i) {
      arrays.emplace_back("arr_" + std::to_string(i), shapes[i]);
    }
    ASSERT_OK(LoadWeights(model, Arrays(folder, arrays)));
  };
  const auto dense = [](int64_t units) { return Dense(units).UseBias(false); };
  Functional branches;
  {
    const auto x = branches.Add(Input({3}));
    const auto shallow = branches.Add(dense(2), {x});
    const auto deep = branches.Add(dense(4), {x});
    branches.Add(Add(), {shallow, branches.Add(dense(2), {deep})});
  }
  load(&branches, {{3, 4}, {3, 2}, {4, 2}});
  Functional shared;
  {
    const auto x = shared.Add(Input({3}));
    const auto before = shared.Add(dense(3), {x});
    const auto shallow = shared.Add(Dense(3), {before});
    const auto deep = shared.CallAgain(shallow, {x});
    const auto behind = shared.Add(dense(5), {deep});
    shared.Add(Add(), {shared.Add(dense(3), {behind}), shallow});
  }
  load(&shared, {{3, 3}, {3}, {3, 5}, {3, 3}, {5, 3}});
}

// Mean, variance and count of each, and no weights between them.
TEST(NpzWeightsTest, Load_ArraysOfTwoNormalizations_GoToEach) {
  TempFolder folder;
  Functional model;
  const auto x = model.Add(Input({2})), y = model.Add(Input({3}));
  const auto normal_x = model.Add(Normalization(), {x});
  const auto normal_y = model.Add(Normalization(), {y});
  model.Add(Dense(1), {model.Add(Concatenate(), {normal_x, normal_y})});
  model.Compile(SGD(0.1f), MeanSquaredError());
  ASSERT_OK(LoadWeights(&model, Arrays(folder, {{"arr_0", {2}},
                                                {"arr_1", {2}},
                                                {"arr_2", {}},
                                                {"arr_3", {3}},
                                                {"arr_4", {3}},
                                                {"arr_5", {}},
                                                {"arr_6", {5, 1}},
                                                {"arr_7", {1}}})));
  EXPECT_EQ(model.layer(2).means, (std::vector<float>{0, 1}));
  EXPECT_EQ(model.layer(3).variances, (std::vector<float>{0, 1, 2}));
}

// As in Keras, the mean and variance belong to the weights.
TEST(NormalizationTest, Load_OwnWeights_HaveTheirStatistics) {
  using Floats = std::vector<float>;
  TempFolder folder;
  const std::string file = folder / "w.safetensors";
  const Layer initial = Normalization({0}, {1}).Name("norm");
  auto trained = Compiled({Input({2}), Rescaling(1), initial, Dense(1)});
  ASSERT_OK(SetNormalization("norm", {1, 2}, {3, 4}, trained.get()));
  ASSERT_OK(SaveWeights(trained.get(), file));
  const auto loaded_means = [&](const Layer& layer) {
    auto model = Compiled({Input({2}), Rescaling(1), layer, Dense(1)});
    EXPECT_OK(LoadWeights(model.get(), file));
    return model->layer(2).means;
  };
  EXPECT_EQ(loaded_means(initial), Floats({1, 2}));
  EXPECT_EQ(loaded_means(Normalization().Name("norm")), Floats({1, 2}));
  EXPECT_EQ(loaded_means(Normalization({5}, {6}).Name("norm")), Floats({5}));
  EXPECT_EQ(loaded_means(Normalization().Name("other")), Floats());
  // A second file replaces what the first one gave.
  ASSERT_OK(LoadWeights(trained.get(), file));
  const std::string second = folder / "second.safetensors";
  ASSERT_OK(SetNormalization("norm", {7, 8}, {3, 4}, trained.get()));
  ASSERT_OK(SaveWeights(trained.get(), second));
  auto twice = Compiled({Input({2}), Rescaling(1), initial, Dense(1)});
  for (const std::string& each : {file, second}) {
    ASSERT_OK(LoadWeights(twice.get(), each));
  }
  EXPECT_EQ(twice->layer(2).means, Floats({7, 8}));
  auto within = Compiled(
      {Input({2}), Sequential({Input({2}), initial, Dense(1).Name("dense")})
                       .AsLayer()
                       .Name("body")});
  ASSERT_OK(LoadWeights(within.get(), file));
  EXPECT_EQ(within->layer(1).means, Floats({1, 2}));
}

// As text the statistics take 7 to 13 bytes a value, and a header has 512 KiB
// for them.
TEST(NormalizationTest, Save_StatisticsOfManyChannels_AreLeftOutWithANote) {
  TempFolder folder;
  for (const int64_t width : {10'000, 60'000}) {
    auto model = Compiled(
        {Input({width}), Normalization().Name("norm"), Dense(1).Name("d")});
    ASSERT_OK(SetNormalization(
        "norm", std::vector<float>(static_cast<size_t>(width), 1.25f),
        std::vector<float>(static_cast<size_t>(width), 2.5f), model.get()));
    testing::internal::CaptureStderr();
    ASSERT_OK(SaveWeights(model.get(), folder / "w.safetensors"));
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_EQ(
        printed.find("w.safetensors: has no mean and variance of the "
                     "Normalization layers, which take more than 512 KiB") !=
            std::string::npos,
        width == 60'000)
        << printed;
    auto loaded = Compiled(
        {Input({width}), Normalization().Name("norm"), Dense(1).Name("d")});
    ASSERT_OK(LoadWeights(loaded.get(), folder / "w.safetensors"));
    EXPECT_EQ(loaded->layer(1).means.empty(), width == 60'000);
  }
}

TEST(NormalizationTest, Load_StatisticsOfOtherChannels_AreSkippedIfAsked) {
  TempFolder folder;
  const std::string file = folder / "w.safetensors";
  const auto make = [](int64_t width) {
    return Compiled({Input({width}), Normalization().Name("norm"),
                     Dense(4).Name("a"), Dense(1).Name("b")});
  };
  auto trained = make(2);
  ASSERT_OK(SetNormalization("norm", {1, 2}, {3, 4}, trained.get()));
  ASSERT_OK(SaveWeights(trained.get(), file));
  auto wider = make(3);
  EXPECT_FALSE(LoadWeights(wider.get(), file).ok());
  LoadWeightsOptions options;
  options.skip_mismatch = true;
  std::string warnings;
  options.warn = [&](const std::string& text) { warnings += text + "\n"; };
  ASSERT_OK(LoadWeights(wider.get(), file, options));
  EXPECT_TRUE(Contains(warnings, "layer 'norm': mean has 2 values"));
  EXPECT_TRUE(wider->layer(1).means.empty());
}

TEST(NormalizationTest, Load_SecondLayerDoesNotFit_ChangesNone) {
  TempFolder folder;
  const std::string file = folder / "w.safetensors";
  const auto make = [](int64_t width) {
    return Compiled({Input({2}), Normalization().Name("a"),
                     Dense(width).Name("x"), Normalization().Name("b"),
                     Dense(1).Name("y")});
  };
  auto trained = make(3);
  ASSERT_OK(SetNormalization("a", {1, 2}, {3, 4}, trained.get()));
  ASSERT_OK(SetNormalization("b", {1, 2, 3}, {4, 5, 6}, trained.get()));
  ASSERT_OK(SaveWeights(trained.get(), file));
  const auto model =
      Compiled({Input({2}), Normalization().Name("a"), Dense(3).Name("x"),
                Reshape({1, 3}), Permute({2, 1}), Normalization().Name("b"),
                Flatten(), Dense(1).Name("y")});
  const std::vector<float> before(model->weights(),
                                  model->weights() + model->num_weights());
  const Status status = LoadWeights(model.get(), file);
  EXPECT_TRUE(Contains(status, "layer 'b'")) << status.message();
  EXPECT_TRUE(model->layer(1).means.empty());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), model->weights()));
}
}  // namespace
}  // namespace ringlet
