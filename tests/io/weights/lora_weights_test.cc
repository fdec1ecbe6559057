// Files of weights and LoRA: those written before LoRA was enabled, and those
// with only what was trained.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "npz_arrays.h"
#include "ringlet/checkpoint.h"
#include "ringlet/files.h"

namespace ringlet {
namespace {

std::unique_ptr<Sequential> PlainModel(uint64_t seed) {
  CompileOptions options;
  options.seed = seed;
  auto model = std::make_unique<Sequential>(std::initializer_list<Layer>{
      Input({2}), Dense(8, kRelu).Name("wide"),
      BatchNormalization().Name("norm"), Dense(3).Name("head")});
  model->Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits), {},
                 options);
  EXPECT_OK(model->status());
  return model;
}

std::unique_ptr<Model> Tuned(uint64_t seed) {
  LoraOptions lora;
  lora.rank = 2;
  std::unique_ptr<Model> model;
  EXPECT_OK(EnableLora(*PlainModel(seed), lora, &model));
  CompileOptions options;
  options.seed = seed;
  model->Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits), {},
                 options);
  EXPECT_OK(model->status());
  return model;
}

std::vector<float> Outputs(Model* model) {
  const auto outputs = model->Predict(Points(23).Batch(10));
  EXPECT_OK(outputs.status());
  return outputs.value();
}

using Names = std::vector<std::string>;

TEST(LoraWeightsTest, FileWithoutLora_Loaded_KeepsInitialMatrices) {
  const TempFolder folder;
  const std::string path = folder.path() + "/w.safetensors";
  const auto before = PlainModel(1);
  ASSERT_OK(SaveWeights(before.get(), path));
  const auto tuned = Tuned(2);
  WeightsReport report;
  ASSERT_OK(LoadWeights(tuned.get(), path, {}, &report));
  EXPECT_EQ(report.lora, (Names{"wide/lora_kernel_a", "wide/lora_kernel_b",
                                "head/lora_kernel_a", "head/lora_kernel_b"}));
  EXPECT_TRUE(report.missing.empty());
  EXPECT_TRUE(report.skipped.empty());
  EXPECT_EQ(report.loaded.size(), before->variables().size());
  EXPECT_EQ(Outputs(tuned.get()), Outputs(before.get()));
}

TEST(LoraWeightsTest, TrainableOnly_OnTheSameKernels_IsTheWholeModel) {
  const TempFolder folder;
  const std::string base = folder.path() + "/base.safetensors",
                    small = folder.path() + "/small.safetensors";
  ASSERT_OK(SaveWeights(PlainModel(1).get(), base));
  const auto trained = Tuned(2);
  ASSERT_OK(LoadWeights(trained.get(), base));
  ASSERT_OK(trained->Fit(Points(96).Batch(32), Quiet(2)).status());
  SaveOptions options;
  options.trainable_only = true;
  ASSERT_OK(SaveWeights(trained.get(), small, options));

  const auto other = Tuned(3);
  ASSERT_OK(LoadWeights(other.get(), base));
  Names warnings;
  LoadWeightsOptions loading;
  loading.warn = [&](const std::string& text) { warnings.push_back(text); };
  WeightsReport report;
  ASSERT_OK(LoadWeights(other.get(), small, loading, &report));
  EXPECT_EQ(warnings, Names());
  EXPECT_EQ(report.loaded,
            (Names{"wide/bias", "wide/lora_kernel_a", "wide/lora_kernel_b",
                   "head/bias", "head/lora_kernel_a", "head/lora_kernel_b"}));
  EXPECT_EQ(WeightsOf(other.get()), WeightsOf(trained.get()));
}

TEST(LoraWeightsTest, TrainableOnly_OnOtherKernels_IsAWarning) {
  const TempFolder folder;
  const std::string small = folder.path() + "/small.safetensors";
  SaveOptions options;
  options.trainable_only = true;
  ASSERT_OK(SaveWeights(Tuned(1).get(), small, options));
  Names warnings;
  LoadWeightsOptions loading;
  loading.warn = [&](const std::string& text) { warnings.push_back(text); };
  ASSERT_OK(LoadWeights(Tuned(2).get(), small, loading));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(Contains(warnings[0], "trained with other frozen weights"));
}

// The moving statistics are among what training changes, also without LoRA.
TEST(LoraWeightsTest, TrainableOnly_OfAFrozenBody_HasTheRest) {
  const TempFolder folder;
  const std::string small = folder.path() + "/small.safetensors";
  const auto model = PlainModel(1);
  ASSERT_OK(model->SetTrainable("wide", false));
  model->Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits));
  ASSERT_OK(model->status());
  SaveOptions options;
  options.trainable_only = true;
  ASSERT_OK(SaveWeights(model.get(), small, options));
  WeightsReport report;
  ASSERT_OK(LoadWeights(model.get(), small, {}, &report));
  EXPECT_EQ(report.loaded,
            (Names{"norm/gamma", "norm/beta", "norm/moving_mean",
                   "norm/moving_variance", "head/kernel", "head/bias"}));
  // A model with other trained weights lacks some.
  const auto whole = PlainModel(2);
  const Status missing = LoadWeights(whole.get(), small);
  EXPECT_TRUE(Contains(missing, "missing in the file 'wide/kernel'"));
}

TEST(LoraWeightsTest, OneMatrixOfTwo_InTheFile_IsAnError) {
  const TempFolder folder;
  const auto model = Compiled({Input({3}), Dense(2).LoraRank(1)});
  const std::string path = Arrays(folder, {{"dense/kernel", {3, 2}},
                                           {"dense/bias", {2}},
                                           {"dense/lora_kernel_a", {3, 1}}});
  EXPECT_TRUE(Contains(LoadWeights(model.get(), path),
                       "missing in the file 'dense/lora_kernel_b'"));
}

// Those of model.get_weights(), before or after enable_lora.
TEST(LoraWeightsTest, ArraysWithoutNames_HaveKerasOrder) {
  const TempFolder folder;
  const auto model = Compiled({Input({3}), Dense(2).LoraRank(1)});
  const std::vector<float> matrices = {7, 7, 7, 8, 8};
  std::copy(matrices.begin(), matrices.end(), model->weights() + 2);
  ASSERT_OK(LoadWeights(model.get(),
                        Arrays(folder, {{"arr_0", {3, 2}}, {"arr_1", {2}}})));
  EXPECT_EQ(WeightsOf(model.get()),
            (std::vector<float>{0, 1, 7, 7, 7, 8, 8, 0, 1, 2, 3, 4, 5}));
  ASSERT_OK(LoadWeights(model.get(), Arrays(folder, {{"arr_0", {3, 2}},
                                                     {"arr_1", {2}},
                                                     {"arr_2", {3, 1}},
                                                     {"arr_3", {1, 2}}})));
  EXPECT_EQ(WeightsOf(model.get()),
            (std::vector<float>{0, 1, 0, 1, 2, 0, 1, 0, 1, 2, 3, 4, 5}));
}

TEST(LoraWeightsTest, WeightsOfPyTorch_Loaded_AreTheKernel) {
  const TempFolder folder;
  const auto model =
      Compiled({Input({3}), Dense(2).LoraRank(1), Dense(2).LoraRank(1)});
  LoadWeightsOptions options;
  options.layout = WeightsLayout::kTorch;
  for (const std::string name : {"dense", "0"}) {
    const std::string second = name == "0" ? "1" : "dense_1";
    WeightsReport report;
    ASSERT_OK(LoadWeights(model.get(),
                          Arrays(folder, {{name + ".weight", {2, 3}},
                                          {name + ".bias", {2}},
                                          {second + ".weight", {2, 2}},
                                          {second + ".bias", {2}}}),
                          options, &report));
    EXPECT_EQ(report.lora.size(), 4u);
    const std::vector<float> weights = WeightsOf(model.get());
    EXPECT_EQ(std::vector<float>(weights.end() - 10, weights.end()),
              (std::vector<float>{0, 3, 1, 4, 2, 5, 0, 2, 1, 3}));
  }
}

}  // namespace
}  // namespace ringlet
