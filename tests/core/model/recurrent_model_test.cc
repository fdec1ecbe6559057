// Models with recurrent layers: both directions, trainings and files.

#include <gtest/gtest.h>

#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/op_runner.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "../../support/two_fits.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

// The points as sequences of two steps.
std::unique_ptr<Sequential> SequenceModel(const CompileOptions& options) {
  auto model = std::make_unique<Sequential>(std::initializer_list<Layer>{
      Input({2}), Reshape({2, 1}),
      Bidirectional(LSTM(7).ReturnSequences(true).Dropout(0.2f)),
      GRU(5).RecurrentDropout(0.25f), Dense(3)});
  model->Compile(Adam(0.02f), SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  return model;
}

Trained Train(int64_t batch, const CompileOptions& options) {
  return TrainTwice(
      SequenceModel(options).get(), [](int64_t count) { return Points(count); },
      batch);
}

TEST(RecurrentModelTest, Fit_AnyBatchAndThreads_HasOneResult) {
  for (const int64_t batch : {1, 32, 100}) {
    CompileOptions options;
    options.seed = 3;
    const Trained one = Train(batch, options);
    EXPECT_LT(one.loss, batch == 1 ? 0.4 : 1.08);
    for (const int threads : {2, 3}) {
      options.threads = threads;
      const Trained several = Train(batch, options);
      EXPECT_EQ(several.weights, one.weights);
      EXPECT_EQ(several.predictions, one.predictions);
    }
  }
}

TEST(RecurrentModelTest, Fit_OnThreeWorkers_HasTheResultOfOne) {
  const Trained one = Train(16, ExactSums(nullptr, 3));
  const auto ranks = ResultsOfRanks(3, [&](Collective* collective) {
    return Train(16, ExactSums(collective, 3));
  });
  for (const Trained& rank : ranks) {
    EXPECT_EQ(rank.weights, one.weights);
    EXPECT_EQ(rank.predictions, one.predictions);
  }
}

TEST(RecurrentModelTest, SavedModel_Loaded_ComputesTheSame) {
  const TempFolder folder;
  const auto model = SequenceModel({});
  ASSERT_OK(model->Fit(Points(64).Batch(32), Quiet(1)).status());
  const std::string path = folder.path() + "/model.safetensors";
  ASSERT_OK(SaveModel(model.get(), path));
  std::unique_ptr<Model> loaded;
  ASSERT_OK(LoadModel(path, &loaded));
  const auto before = model->Predict(Points(23).Batch(10)),
             after = loaded->Predict(Points(23).Batch(10));
  ASSERT_OK(after.status());
  EXPECT_EQ(after.value(), before.value());
}

TEST(BidirectionalTest, Output_EachMergeMode_JoinsBothDirections) {
  const Shape shape = {5, 3};
  const Floats x = RandomFloats(4 * 15, 9);
  const auto outputs = [&](Model* model) {
    EXPECT_OK(model->Forward(x.data(), 4, /*training=*/false));
    return Floats(model->output(),
                  model->output() + 4 * model->output_shape().elements());
  };
  for (const bool all : {false, true}) {
    const Layer forward = LSTM(2).ReturnSequences(all),
                backward = GRU(2).ReturnSequences(all).GoBackwards(true);
    Sequential first({Input(shape), forward}), second({Input(shape), backward});
    for (Model* each :
         {static_cast<Model*>(&first), static_cast<Model*>(&second)}) {
      each->Compile(SGD(), MeanSquaredError());
      ASSERT_OK(each->status());
    }
    const Floats a = outputs(&first), given = outputs(&second);
    Floats b = given;  // the steps in the input's order
    const int64_t steps = all ? 5 : 1;
    for (int64_t row = 0; row < 4 * steps; ++row) {
      const int64_t from = row / steps * steps + steps - 1 - row % steps;
      std::copy_n(given.data() + from * 2, 2, b.data() + row * 2);
    }
    for (const MergeMode mode :
         {kMergeConcat, kMergeSum, kMergeMul, kMergeAve}) {
      Sequential both({Input(shape), Bidirectional(forward, backward, mode)});
      both.Compile(SGD(), MeanSquaredError());
      ASSERT_OK(both.status());
      ASSERT_EQ(both.num_weights(), first.num_weights() + second.num_weights());
      std::copy_n(first.weights(), first.num_weights(), both.weights());
      std::copy_n(second.weights(), second.num_weights(),
                  both.weights() + first.num_weights());
      const Floats y = outputs(&both);
      for (size_t i = 0; i < a.size(); ++i) {
        const size_t at = mode == kMergeConcat ? i / 2 * 4 + i % 2 : i;
        if (mode == kMergeConcat) {
          EXPECT_EQ(y[at], a[i]);
          EXPECT_EQ(y[at + 2], b[i]);
        } else {
          EXPECT_EQ(y[at], mode == kMergeSum   ? a[i] + b[i]
                           : mode == kMergeMul ? a[i] * b[i]
                                               : (a[i] + b[i]) / 2);
        }
      }
    }
  }
}

TEST(BidirectionalTest, Layers_OfTwoKinds_HaveTheNamesOfKeras) {
  Sequential model({Input({5, 3}), Bidirectional(LSTM(2)), RepeatVector(3),
                    Bidirectional(GRU(2).Name("g")).Name("b")});
  ASSERT_OK(model.status());
  std::vector<std::string> paths;
  for (const Variable& v : model.variables()) paths.push_back(v.path);
  EXPECT_EQ(paths[0], "bidirectional/forward_lstm/kernel");
  EXPECT_EQ(paths[5], "bidirectional/backward_lstm/bias");
  EXPECT_EQ(paths[6], "b/forward_g/kernel");
  EXPECT_EQ(paths[10], "b/backward_g/recurrent_kernel");
}

TEST(BidirectionalTest, Layer_DoesNotFit_ErrorNamesIt) {
  const auto error = [](const Layer& layer) {
    Sequential model({Input({5, 3}), layer});
    return std::string(model.status().message());
  };
  const auto expect = [&](const Layer& layer, const char* part) {
    EXPECT_TRUE(Contains(error(layer), part));
  };
  expect(Bidirectional(Dense(3)),
         "takes a SimpleRNN, LSTM or GRU, not a Dense");
  expect(Bidirectional(LSTM(3)).Seed(1), "has no settings except Name");
  expect(Bidirectional(LSTM(3), LSTM(3)), "go_backwards must be");
  expect(
      Bidirectional(LSTM(3), LSTM(3).GoBackwards(true).ReturnSequences(true)),
      "both or none");
  expect(Bidirectional(LSTM(3), LSTM(2).GoBackwards(true), kMergeSum), "(2,)");
  expect(Bidirectional(LSTM(0)), "units must be at least 1");
}

TEST(EmbeddingModelTest, Number_Outside_EndsTheFitWithAnError) {
  Sequential model({Input({3}), Embedding(4, 2), Flatten(), Dense(3)});
  model.Compile(SGD(), SparseCategoricalCrossentropy(kFromLogits));
  ASSERT_OK(model.status());
  const Floats x = {0, 1, 2, 3, 4, 0};
  const std::vector<int32_t> y = {0, 1};
  const Dataset data(MemorySource({DType::kFloat32, {3}}, x.data(),
                                  {DType::kInt32, {}}, y.data(), 2));
  const std::vector<float> before = WeightsOf(&model);
  const Status status = model.Fit(data.Batch(2), Quiet(1)).status();
  EXPECT_TRUE(Contains(status.message(), "number 4 of the batch is 4"));
  EXPECT_EQ(WeightsOf(&model), before);
}

}  // namespace
}  // namespace ringlet
