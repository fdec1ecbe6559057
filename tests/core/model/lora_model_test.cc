// Models with LoRA: trainings, memory, and EnableLora.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "../../support/two_fits.h"
#include "ringlet/checkpoint.h"
#include "ringlet/layers.h"

namespace ringlet {
namespace {

// `count` sequences of 3 numbers, with the parity of their sum.
Dataset Sequences(int64_t count) {
  static const auto* const data = [] {
    auto* made = new std::pair<std::vector<float>, std::vector<int32_t>>();
    const Philox random(5, 0);
    for (uint64_t i = 0; i < 400; ++i) {
      int32_t sum = 0;
      for (uint64_t k = 0; k < 3; ++k) {
        const auto number = static_cast<int32_t>(random.At(3 * i + k)[0] % 4);
        made->first.push_back(static_cast<float>(number));
        sum += number;
      }
      made->second.push_back(sum % 2);
    }
    return made;
  }();
  return Dataset(MemorySource({DType::kFloat32, {3}}, data->first.data(),
                              {DType::kInt32, {}}, data->second.data(), count));
}

std::unique_ptr<Sequential> LoraModel(const CompileOptions& options) {
  auto model = std::make_unique<Sequential>(std::initializer_list<Layer>{
      Input({3}), Embedding(4, 6).LoraRank(2),
      Dense(20, kTanh).LoraRank(3).LoraAlpha(6), BatchNormalization(0.9f),
      Flatten(), Dense(2)});
  model->Compile(Adam(0.02f), SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  return model;
}

Trained Train(int64_t batch, const CompileOptions& options) {
  return TrainTwice(LoraModel(options).get(), Sequences, batch);
}

std::vector<float> ValuesOf(Model* model, const std::string& path) {
  for (const Variable& v : model->variables()) {
    if (v.path != path) continue;
    return std::vector<float>(model->weights() + v.offset,
                              model->weights() + v.offset + v.size());
  }
  ADD_FAILURE() << path;
  return {};
}

TEST(LoraModelTest, Fit_AnyBatchAndThreads_HasOneResult) {
  for (const int64_t batch : {1, 32, 100}) {
    CompileOptions options;
    options.seed = 3;
    const Trained one = Train(batch, options);
    EXPECT_LT(one.loss, 0.85);
    for (const int threads : {2, 3}) {
      options.threads = threads;
      const Trained several = Train(batch, options);
      EXPECT_EQ(several.weights, one.weights);
      EXPECT_EQ(several.predictions, one.predictions);
    }
    options.threads = 1;
    options.recompute = true;
    EXPECT_EQ(Train(batch, options).weights, one.weights);
  }
}

TEST(LoraModelTest, Fit_OnThreeWorkers_HasTheResultOfOne) {
  for (const int64_t local_steps : {0, 2}) {
    const Trained one = Train(16, ExactSums(nullptr, 3, local_steps));
    const auto ranks = ResultsOfRanks(3, [&](Collective* collective) {
      return Train(16, ExactSums(collective, 3, local_steps));
    });
    for (const Trained& rank : ranks) {
      EXPECT_EQ(rank.weights, one.weights) << local_steps;
      EXPECT_EQ(rank.predictions, one.predictions) << local_steps;
    }
  }
}

TEST(LoraModelTest, Fit_LayerWithLora_ChangesOnlyTheMatrices) {
  const auto model = LoraModel({});
  const auto kernel = ValuesOf(model.get(), "dense/kernel"),
             rows = ValuesOf(model.get(), "embedding/embeddings"),
             bias = ValuesOf(model.get(), "dense/bias"),
             b = ValuesOf(model.get(), "dense/lora_kernel_b"),
             a = ValuesOf(model.get(), "embedding/lora_embeddings_a");
  ASSERT_OK(model->Fit(Sequences(100).Batch(32), Quiet(2)).status());
  EXPECT_EQ(ValuesOf(model.get(), "dense/kernel"), kernel);
  EXPECT_EQ(ValuesOf(model.get(), "embedding/embeddings"), rows);
  EXPECT_NE(ValuesOf(model.get(), "dense/bias"), bias);
  EXPECT_NE(ValuesOf(model.get(), "dense/lora_kernel_b"), b);
  EXPECT_NE(ValuesOf(model.get(), "embedding/lora_embeddings_a"), a);
}

TEST(LoraModelTest, Plan_OfALargeKernel_HasGradientsOfTheMatricesAlone) {
  Sequential model({Input({512}), Dense(1024).LoraRank(4).UseBias(false)});
  model.Compile(Adam(), MeanSquaredError());
  ASSERT_OK(model.status());
  constexpr uint64_t kSmall = 4 * (512 + 1024) * sizeof(float);
  const MemoryPlan plan = model.PlanMemory(2);
  EXPECT_EQ(plan.gradients, kSmall);
  EXPECT_EQ(plan.slots, 2 * kSmall);
  EXPECT_EQ(plan.weights, 512 * 1024 * sizeof(float) + kSmall);
}

TEST(LoraModelTest, SavedModel_Loaded_TrainsOnWithTheSameBits) {
  const TempFolder folder;
  const auto model = LoraModel({});
  ASSERT_OK(model->Fit(Sequences(64).Batch(32), Quiet(1)).status());
  const std::string path = folder.path() + "/model.safetensors";
  ASSERT_OK(SaveModel(model.get(), path));
  std::unique_ptr<Model> loaded;
  ASSERT_OK(LoadModel(path, &loaded));
  for (Model* each : {static_cast<Model*>(model.get()), loaded.get()}) {
    ASSERT_OK(each->Fit(Sequences(64).Batch(32), Quiet(1)).status());
  }
  EXPECT_EQ(WeightsOf(loaded.get()), WeightsOf(model.get()));
}

// --- EnableLora --------------------------------------------------------------

// A body that is called twice, and a head.
std::unique_ptr<Functional> Nested() {
  Sequential body(
      {Input({4}), Dense(4, kRelu).Name("in"), Dense(4).Name("out")});
  auto model = std::make_unique<Functional>();
  const auto x = model->Add(Input({4}));
  const auto once = model->Add(body.AsLayer().Name("body"), {x});
  const auto twice = model->CallAgain(once, {once});
  model->Outputs({model->Add(Dense(2).Name("head"), {twice}),
                  model->Add(Dropout(0.1f), {once})});
  return model;
}

std::vector<std::string> TrainedPaths(Model* model) {
  std::vector<std::string> paths;
  for (const Variable& v : model->variables()) {
    if (v.trained()) paths.push_back(v.path);
  }
  return paths;
}

using Paths = std::vector<std::string>;

TEST(EnableLoraTest, NamedLayers_OfANestedModel_AreTrainedAlone) {
  const auto model = Nested();
  LoraOptions options;
  options.rank = 2;
  options.layers = {"body/out"};
  std::unique_ptr<Model> tuned;
  ASSERT_OK(EnableLora(*model, options, &tuned));
  tuned->Compile(SGD(), MeanSquaredError());
  ASSERT_OK(tuned->status());
  EXPECT_EQ(TrainedPaths(tuned.get()),
            (Paths{"body/out/bias", "body/out/lora_kernel_a",
                   "body/out/lora_kernel_b"}));
  model->Compile(SGD(), MeanSquaredError());
  EXPECT_EQ(tuned->num_weights(), model->num_weights() + 2 * 2 * 4);
  // The configuration gives a model with these fields.
  std::unique_ptr<Model> read;
  ASSERT_OK(ModelFromJson(ToJson(*tuned), &read));
  EXPECT_EQ(ToJson(*read), ToJson(*tuned));
}

TEST(EnableLoraTest, EnableLora_NoNames_TakesAllDenseAndEmbeddings) {
  const Sequential model({Input({3}), Embedding(4, 6), GRU(5), Dense(2)});
  LoraOptions options;
  options.rank = 1;
  std::unique_ptr<Model> tuned;
  ASSERT_OK(EnableLora(model, options, &tuned));
  tuned->Compile(SGD(), MeanSquaredError());
  ASSERT_OK(tuned->status());
  EXPECT_EQ(
      TrainedPaths(tuned.get()),
      (Paths{"embedding/lora_embeddings_a", "embedding/lora_embeddings_b",
             "dense/bias", "dense/lora_kernel_a", "dense/lora_kernel_b"}));
}

TEST(EnableLoraTest, EnableLora_LayerThatHasLora_KeepsItsAlpha) {
  const Sequential model({Input({3}), Dense(5).LoraRank(4).LoraAlpha(30),
                          Dense(5).LoraRank(4), Dense(2)});
  LoraOptions options;
  options.rank = 4;
  std::unique_ptr<Model> tuned;
  ASSERT_OK(EnableLora(model, options, &tuned));
  EXPECT_EQ(tuned->layer(1).lora_alpha, 30);
  EXPECT_EQ(tuned->layer(2).lora_alpha, 0);
  const auto enable = [&](int64_t alpha, const std::string& layer) {
    options.alpha = alpha;
    options.layers = {layer};
    return EnableLora(model, options, &tuned);
  };
  EXPECT_OK(enable(30, "dense"));
  EXPECT_OK(enable(4, "dense_1"));
  EXPECT_OK(enable(7, "dense_2"));
  EXPECT_TRUE(Contains(enable(4, "dense"),
                       "layer 'dense' has LoRA with alpha 30 already"));
  EXPECT_TRUE(Contains(enable(16, "dense_1"),
                       "layer 'dense_1' has LoRA with alpha 4 already"));
}

TEST(EnableLoraTest, Names_DoNotFit_AreErrors) {
  const auto expect = [](const Model& model, const Paths& layers,
                         const std::string& part) {
    LoraOptions options;
    options.layers = layers;
    std::unique_ptr<Model> tuned;
    EXPECT_TRUE(Contains(EnableLora(model, options, &tuned), part));
    EXPECT_EQ(tuned, nullptr);
  };
  expect(*Nested(), {"out"}, "there is no layer 'out'");
  expect(*Nested(), {"head", "dropout"},
         "layer 'dropout' is a Dropout; only Dense and Embedding have LoRA");
  expect(Sequential({Input({4}), ReLU()}), {}, "no Dense and no Embedding");
}

TEST(EnableLoraTest, Sizes_OutOfRange_AreErrors) {
  const Sequential model({Input({4}), Dense(2)});
  std::unique_ptr<Model> tuned;
  LoraOptions options;
  options.rank = 0;
  EXPECT_TRUE(Contains(EnableLora(model, options, &tuned),
                       "the rank of LoRA must be at least 1, not 0"));
  options.rank = 2;
  options.alpha = -3;
  EXPECT_TRUE(
      Contains(EnableLora(model, options, &tuned), "lora_alpha must be"));
}

}  // namespace
}  // namespace ringlet
