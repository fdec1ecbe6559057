// Files of weights and LoRA: files from before LoRA was enabled, files with
// only what was trained, and files with another alpha.

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
#include "io/files/file_system.h"
#include "npz_arrays.h"
#include "ringlet/checkpoint.h"

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

std::unique_ptr<Model> Tuned(uint64_t seed, int64_t alpha = 0) {
  LoraOptions lora;
  lora.rank = 2;
  lora.alpha = alpha;
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

// Freezes the first layer, and saves the trained weights alone.
void SaveWithoutWide(Model* model, const std::string& path) {
  ASSERT_OK(model->SetTrainable("wide", false));
  model->Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits));
  ASSERT_OK(model->status());
  SaveOptions options;
  options.trainable_only = true;
  ASSERT_OK(SaveWeights(model, path, options));
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

// After LoadWeights the model computes what the saved model does, whatever its
// weights were before.
TEST(LoraWeightsTest, FileWithoutLora_OnTrainedMatrices_IsTheFilesModel) {
  const TempFolder folder;
  const std::string path = folder.path() + "/w.safetensors";
  const auto before = PlainModel(1);
  ASSERT_OK(SaveWeights(before.get(), path));
  const auto tuned = Tuned(2, 6);
  ASSERT_OK(tuned->Fit(Points(96).Batch(32), Quiet(2)).status());
  ASSERT_NE(Outputs(tuned.get()), Outputs(before.get()));
  for (const size_t warnings_expected : {1, 0}) {
    Names warnings;
    LoadWeightsOptions loading;
    loading.warn = [&](const std::string& text) { warnings.push_back(text); };
    WeightsReport report;
    ASSERT_OK(LoadWeights(tuned.get(), path, loading, &report));
    EXPECT_EQ(report.lora.size(), 4u);
    EXPECT_EQ(Outputs(tuned.get()), Outputs(before.get()));
    ASSERT_EQ(warnings.size(), warnings_expected);
    if (warnings_expected == 0) continue;
    EXPECT_TRUE(Contains(warnings[0],
                         "set to zeros: 'wide/lora_kernel_b', "
                         "'head/lora_kernel_b'"));
  }
}

// A layer that is not in the file keeps all it has.
TEST(LoraWeightsTest, LayerNotInTheFile_ByName_KeepsItsMatrices) {
  const TempFolder folder;
  const auto model = Compiled({Input({3}), Dense(2).Name("a").LoraRank(1),
                               Dense(2).Name("b").LoraRank(1)});
  std::fill_n(model->weights(), model->num_weights(), 7.0f);
  const std::string path =
      Arrays(folder, {{"a/kernel", {3, 2}}, {"a/bias", {2}}});
  LoadWeightsOptions loading;
  loading.by_name = true;
  WeightsReport report;
  ASSERT_OK(LoadWeights(model.get(), path, loading, &report));
  EXPECT_EQ(report.lora, (Names{"a/lora_kernel_a", "a/lora_kernel_b"}));
  EXPECT_EQ(report.missing, (Names{"b/kernel", "b/bias", "b/lora_kernel_a",
                                   "b/lora_kernel_b"}));
  for (const Variable& v : model->variables()) {
    const float value = model->weights()[v.offset + 1];
    if (v.path == "a/lora_kernel_b") {
      EXPECT_EQ(value, 0);
    } else if (std::count(report.loaded.begin(), report.loaded.end(), v.path) >
               0) {
      EXPECT_EQ(value, 1) << v.path;
    } else {
      EXPECT_EQ(value, 7) << v.path;
    }
  }
}

// A frozen layer's matrices are not trained either.
TEST(LoraWeightsTest, TrainableOnly_FrozenLayerWithLora_KeepsItsMatrices) {
  const TempFolder folder;
  const std::string small = folder.path() + "/small.safetensors";
  const auto model = Tuned(1);
  ASSERT_OK(model->Fit(Points(96).Batch(32), Quiet(1)).status());
  SaveWithoutWide(model.get(), small);
  const std::vector<float> weights = WeightsOf(model.get());
  WeightsReport report;
  ASSERT_OK(LoadWeights(model.get(), small, {}, &report));
  EXPECT_EQ(report.lora, Names());
  EXPECT_EQ(report.loaded.size(), 3u);
  EXPECT_EQ(WeightsOf(model.get()), weights);
}

// --- alpha -------------------------------------------------------------------

// Layers by themselves, in a nested model, and in a TimeDistributed.
std::unique_ptr<Model> AllLayers(int64_t alpha) {
  const auto with = [alpha](Layer layer) {
    layer.LoraRank(2);
    return alpha > 0 ? layer.LoraAlpha(alpha) : layer;
  };
  const Sequential body({Input({3, 4}), with(Dense(4).Name("in"))});
  return Compiled({Input({3}), with(Embedding(9, 4).Name("rows")),
                   body.AsLayer().Name("body"),
                   TimeDistributed(with(Dense(2))).Name("steps"), Flatten(),
                   with(Dense(2).Name("head"))});
}

// The ways to save weights, by the names of the files.
void SaveAll(Model* model, const TempFolder& folder) {
  const std::string path = folder.path() + "/";
  SaveOptions trainable;
  trainable.trainable_only = true;
  ASSERT_OK(SaveWeights(model, path + "weights"));
  ASSERT_OK(SaveWeights(model, path + "trainable", trainable));
  ASSERT_OK(SaveModel(model, path + "model"));
}

TEST(LoraWeightsTest, OtherAlpha_InTheFile_IsAnErrorThatChangesNothing) {
  const TempFolder folder;
  SaveAll(AllLayers(3).get(), folder);
  for (const char* const name : {"weights", "trainable", "model"}) {
    SCOPED_TRACE(name);
    const std::string path = folder.path() + "/" + name;
    for (const int64_t alpha : {0, 2, 6}) {
      const auto other = AllLayers(alpha);
      const std::vector<float> weights = WeightsOf(other.get());
      for (const bool by_name : {false, true}) {
        LoadWeightsOptions options;
        options.by_name = by_name;
        WeightsReport report;
        const Status refused = LoadWeights(other.get(), path, options, &report);
        EXPECT_TRUE(Contains(
            refused, "lora_alpha 3 in the file, " +
                         std::to_string(alpha > 0 ? alpha : 2) + " here"));
        EXPECT_TRUE(Contains(refused, "the lora_alpha of the file"));
        EXPECT_EQ(report.mismatched.size(), 8u);
        EXPECT_EQ(WeightsOf(other.get()), weights);
      }
    }
    EXPECT_OK(LoadWeights(AllLayers(3).get(), path));
  }
  // Without an alpha it is the rank.
  SaveAll(AllLayers(0).get(), folder);
  EXPECT_OK(LoadWeights(AllLayers(2).get(), folder.path() + "/weights"));
  EXPECT_OK(LoadWeights(AllLayers(2).get(), folder.path() + "/model"));
}

// A run's backup is a file of weights too.
TEST(LoraWeightsTest, OtherAlpha_InABackup_IsAnError) {
  const TempFolder folder;
  BackupAndRestoreOptions keeps;
  keeps.delete_checkpoint = false;
  FitOptions fit = Quiet(1);
  fit.callbacks = {BackupAndRestore(folder.path(), keeps)};
  ASSERT_OK(Tuned(1, 3)->Fit(Points(96).Batch(32), fit).status());
  std::string path;
  ASSERT_OK(LatestCheckpoint(folder.path(), &path, "backup"));
  EXPECT_OK(LoadWeights(Tuned(2, 3).get(), path));
  EXPECT_TRUE(Contains(LoadWeights(Tuned(2, 4).get(), path),
                       "lora_alpha 3 in the file, 4 here"));
}

TEST(LoraWeightsTest, OtherAlphaInOneLayer_SkipMismatch_SkipsTheLayer) {
  const TempFolder folder;
  const std::string path = folder.path() + "/w.safetensors";
  const auto with = [](int64_t alpha) {
    return Compiled({Input({3}), Dense(2).Name("a").LoraRank(1),
                     Dense(2).Name("b").LoraRank(1).LoraAlpha(alpha)});
  };
  ASSERT_OK(SaveWeights(with(4).get(), path));
  LoadWeightsOptions options;
  options.skip_mismatch = true;
  WeightsReport report;
  ASSERT_OK(LoadWeights(with(5).get(), path, options, &report));
  EXPECT_EQ(report.loaded, (Names{"a/kernel", "a/bias", "a/lora_kernel_a",
                                  "a/lora_kernel_b"}));
  EXPECT_EQ(report.skipped, (Names{"b/kernel", "b/bias"}));
}

// Earlier versions wrote no alphas.
TEST(LoraWeightsTest, Load_FileWithoutAlphas_Succeeds) {
  const TempFolder folder;
  const std::string path = folder.path() + "/w.safetensors";
  ASSERT_OK(SaveCheckpoint(path, {AllLayers(3)->weights_state()}));
  EXPECT_OK(LoadWeights(AllLayers(5).get(), path));
}

TEST(LoraWeightsTest, WrongAlphas_InTheMetadata_AreErrors) {
  const TempFolder folder;
  const std::string path = folder.path() + "/w.safetensors";
  for (const char* const text :
       {"", "3", "[3]", "{\"head\": 0}", "{\"head\": -3}", "{\"head\": 1.5}",
        "{\"head\": \"3\"}", "{\"head\": {}}", "{\"head\": 1e300}",
        "{\"head\": null}", "{\"head\": 3"}) {
    SCOPED_TRACE(text);
    const auto model = AllLayers(3);
    ASSERT_OK(SaveCheckpoint(path, {model->weights_state()},
                             {{"lora_alphas", text}}));
    EXPECT_TRUE(Contains(LoadWeights(model.get(), path), "lora_alphas"));
  }
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
  SaveWithoutWide(model.get(), small);
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

// The arrays are from model.get_weights(), before or after enable_lora.
TEST(LoraWeightsTest, Load_ArraysWithoutNames_HaveKerasOrder) {
  const TempFolder folder;
  const auto model = Compiled({Input({3}), Dense(2).LoraRank(1)});
  const std::vector<float> matrices = {7, 7, 7, 8, 8};
  std::copy(matrices.begin(), matrices.end(), model->weights() + 2);
  ASSERT_OK(LoadWeights(model.get(),
                        Arrays(folder, {{"arr_0", {3, 2}}, {"arr_1", {2}}})));
  EXPECT_EQ(WeightsOf(model.get()),
            (std::vector<float>{0, 1, 7, 7, 7, 0, 0, 0, 1, 2, 3, 4, 5}));
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
