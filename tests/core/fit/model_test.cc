// Sequential: its summary, Compile, metrics and memory.

#include "ringlet/fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/tiny_model.h"

namespace ringlet {
namespace {

TEST(ModelTest, Summary_SequentialModel_IsKerasTable) {
  Sequential model({Input({28, 28}), Reshape({28, 28, 1}), Conv2D(32, 3, kRelu),
                    Flatten(), Dense(128, kRelu), Dense(10)});
  model.Compile(SGD(), SparseCategoricalCrossentropy(kFromLogits));
  const std::string summary = model.Summary();
  EXPECT_EQ(summary.find("Model: \"sequential\"\n"), 0u);
  for (const char* row :
       {"│ reshape (Reshape)               │ (None, 28, 28, 1)      │",
        "│ conv2d (Conv2D)                 │ (None, 26, 26, 32)     │"
        "           320 │\n",
        "│ dense_1 (Dense)                 │ (None, 10)             │"
        "         1,290 │\n",
        " Total params: 2,770,634 (10.57 MB)\n",
        " Trainable params: 2,770,634 (10.57 MB)\n"}) {
    EXPECT_TRUE(Contains(summary, row));
  }
  EXPECT_FALSE(Contains(summary, "InputLayer"));
  Functional graph;
  graph.Add(Dense(3), {graph.Add(Input({2}))});
  EXPECT_TRUE(Contains(graph.Summary(), "InputLayer"));
}

TEST(ModelTest, Summary_NamesOfUmlauts_AreCutAndPaddedByCharacters) {
  Sequential model({Input({2}), Dense(3).Name("äö"),
                    Dense(1).Name("größenverhältnisschätzungüberblick")});
  model.Compile(SGD(), MeanSquaredError());
  const std::string summary = model.Summary();
  EXPECT_TRUE(Contains(summary, "│ äö (Dense)                      │ (None"));
  EXPECT_TRUE(Contains(summary, "│ größenverhältnisschätzungüberb… │ (None"));
}

TEST(ModelTest, Compile_ShapesDoNotChain_NamesTheLayer) {
  auto error = [](std::initializer_list<Layer> layers) {
    Sequential model(layers);
    model.Compile(SGD(), MeanSquaredError());
    return std::string(model.status().message());
  };
  EXPECT_TRUE(Contains(error({Input({4}), Conv2D(2, 3).Name("c1")}), "c1"));
  EXPECT_TRUE(
      Contains(error({Input({4, 4, 1}), Conv2D(2, 5).Name("wide")}), "wide"));
  EXPECT_TRUE(Contains(error({Input({4}), Reshape({3}).Name("r")}), "r"));
  EXPECT_NE(error({Dense(3)}), "");
  EXPECT_TRUE(Contains(
      error({Input({4}), Dense(3).Name("a"), Dense(2).Name("a")}), "a"));
  EXPECT_NE(error({}), "");
  EXPECT_EQ(error({Input({4}), Dense(3)}), "");
}

// Products that overflow are refused like those that are only too large.
TEST(ModelTest, Shapes_ProductBeyondInt64_AreRefused) {
  constexpr int64_t kHuge = int64_t{1} << 32, kMax = INT64_MAX;
  const auto error = [](std::initializer_list<Layer> layers) {
    return std::string(Sequential(layers).status().message());
  };
  for (const Shape& shape : {Shape{kHuge, kHuge}, Shape{1, kMax, kMax},
                             Shape{kHuge, kHuge / 2, 0}}) {
    EXPECT_TRUE(Contains(error({Input(shape), Flatten()}), "is not the shape"))
        << shape.ToString();
  }
  EXPECT_NE(error({Input({4}), Dense(kMax)}), "");
  EXPECT_NE(error({Input({4, 4, 2}), Conv2D(kMax, 3)}), "");
  EXPECT_NE(error({Input({4}), Reshape({kMax, kMax, -1})}), "");
}

TEST(ModelTest, Add_AfterCompile_IsAnError) {
  auto model = TinyModel();
  model->Add(Dense(3));
  EXPECT_EQ(model->status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(model->status(), "'dense_2'"));
  EXPECT_FALSE(model->Predict(Points(8).Batch(4)).ok());
  model->Compile(SGD(), SparseCategoricalCrossentropy(kFromLogits));
  EXPECT_FALSE(model->status().ok());
}

TEST(ModelTest, Batch_BeyondAllMemory_IsAnError) {
  auto model = TinyModel();
  for (const int64_t batch : {int64_t{1} << 40, int64_t{1} << 60, INT64_MAX}) {
    EXPECT_EQ(model->Reserve(batch, /*training=*/true).code(),
              Code::kResourceExhausted);
    EXPECT_EQ(model->Fit(Points(8).Batch(batch), Quiet(1)).status().code(),
              Code::kInvalidArgument);
  }
  EXPECT_OK(model->Fit(Points(8).Batch(8), Quiet(1)));
}

TEST(ModelTest, Metrics_OfOneName_AreNumbered) {
  Sequential model({Input({2}), Dense(3)});
  model.Compile(SGD(), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy(), Accuracy(), Accuracy().Name("loss")});
  ASSERT_OK(model.status());
  EXPECT_EQ(model.metric_name(1), "accuracy");
  EXPECT_EQ(model.metric_name(2), "accuracy_1");
  EXPECT_EQ(model.metric_name(3), "loss_1");
}

TEST(ModelTest, WeightedMetrics_OfANameThatIsTaken_BeginWithWeighted) {
  Sequential model({Input({2}), Dense(3)});
  model.Compile(SGD(), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy(), Accuracy().Weighted(), Accuracy().Weighted(),
                 SparseTopKCategoricalAccuracy(2).Weighted()});
  ASSERT_OK(model.status());
  EXPECT_EQ(model.metric_name(1), "accuracy");
  EXPECT_EQ(model.metric_name(2), "weighted_accuracy");
  EXPECT_EQ(model.metric_name(3), "weighted_accuracy_1");
  EXPECT_EQ(model.metric_name(4), "sparse_top_k_categorical_accuracy");
}

TEST(ModelTest, MemoryGiven_TooSmallForTheModel_ErrorNamesIt) {
  CompileOptions compile;
  compile.memory_limit = 1 << 20;
  Sequential model({Input({1000}), Dense(1000), Dense(3)});
  model.Compile(SGD(), SparseCategoricalCrossentropy(kFromLogits), {}, compile);
  Status status = model.status();
  if (status.ok()) status = model.Reserve(8, /*training=*/true);
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
  EXPECT_TRUE(Contains(status, "1048576"));
}

TEST(ModelTest, Compile_OutputOfALayerUnused_NamesTheLayer) {
  Functional model;
  const auto x = model.Add(Input({4}));
  model.Add(Dense(3).Name("unused"), {x});
  model.Add(Dense(2), {x});
  model.Compile(SGD(), MeanSquaredError());
  EXPECT_TRUE(Contains(model.status(), "unused"));
}

TEST(ModelTest, Gradients_ResidualModel_AgreeWithFiniteDifferences) {
  Functional model;
  auto x = model.Add(Input({4, 4, 2}));
  auto a = model.Add(Conv2D(2, 3, kTanh).Padding(kSame), {x});
  auto sum = model.Add(Add(), {x, a});
  auto b = model.Add(Conv2D(2, 1, kTanh), {sum});
  auto joined = model.Add(Concatenate(), {sum, b});
  model.Add(Dense(3), {model.Add(Flatten(), {joined})});
  model.Compile(SGD(), MeanSquaredError());
  ASSERT_OK(model.status());

  std::vector<float> inputs(2 * 32), targets = {.1f, .5f, -.3f, 1, 0, .7f};
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = std::sin(static_cast<float>(i));
  }
  const Dataset data =
      Dataset(MemorySource({DType::kFloat32, {4, 4, 2}}, inputs.data(),
                           {DType::kFloat32, {3}}, targets.data(), 2))
          .Batch(2);
  std::unique_ptr<BatchLoader> loader;
  ASSERT_OK(model.OpenLoader(data, {}, &loader));
  Batch batch;
  ASSERT_OK(loader->Next(&batch));
  auto loss = [&] {
    double value = 0;
    EXPECT_OK(model.Forward(batch.x, batch.count, /*training=*/true));
    EXPECT_OK(model.ComputeLoss(batch, &value));
    return value;
  };
  loss();
  ASSERT_OK(model.Backward());
  const std::vector<float> gradients(model.gradients(),
                                     model.gradients() + model.num_weights());
  for (int64_t i = 0; i < model.num_weights(); i += 3) {
    const float kept = model.weights()[i], h = 1e-2f;
    model.weights()[i] = kept + h;
    const double up = loss();
    model.weights()[i] = kept - h;
    const double down = loss();
    model.weights()[i] = kept;
    EXPECT_NEAR(gradients[i], (up - down) / (2 * h), 2e-4) << i;
  }
}

TEST(ModelTest, Softmax_BeforeTheLoss_EqualsLogits) {
  auto weights = [](bool softmax) {
    Sequential model({Input({2}), Dense(8, kTanh), Dense(3)});
    if (softmax) model.Add(Softmax());
    model.Compile(SGD(0.5f), SparseCategoricalCrossentropy(
                                 softmax ? kFromProbabilities : kFromLogits));
    EXPECT_OK(model.Fit(Points(30).Batch(10), Quiet(3)));
    return WeightsOf(&model);
  };
  EXPECT_EQ(weights(true), weights(false));
}

// The weights after some steps, and the losses by each function that gives one.
std::vector<float> TrainedWithLogits(const Layer& last, const Loss& loss) {
  Sequential model({Input({2}), Dense(8, kTanh), last});
  model.Compile(SGD(0.5f), loss);
  std::vector<float> numbers;
  const Dataset data = Points(30).Batch(10);
  EXPECT_OK(model.Fit(data, Quiet(3)));
  numbers = WeightsOf(&model);
  std::unique_ptr<BatchLoader> loader;
  EXPECT_OK(model.OpenLoader(data, {}, &loader));
  Batch batch;
  EXPECT_OK(loader->Next(&batch));
  EXPECT_OK(model.TestStep(batch));
  const float tested = static_cast<float>(model.rank_metrics()[0].Result());
  numbers.push_back(tested);
  for (const bool training : {true, false}) {
    double alone = 0;
    EXPECT_OK(model.Forward(batch.x, batch.count, training));
    EXPECT_OK(model.ComputeLoss(batch, &alone));
    EXPECT_NEAR(alone, tested, 1e-5) << training;
  }
  return numbers;
}

TEST(ModelTest, FromLogits_SoftmaxOrSigmoid_TakesItsInputAndWarnsOnce) {
  const Loss sparse = SparseCategoricalCrossentropy(kFromLogits);
  const Loss binary = BinaryCrossentropy(kFromLogits);
  testing::internal::CaptureStderr();
  const auto softmax = TrainedWithLogits(Dense(3, kSoftmax), sparse);
  const auto sigmoid = TrainedWithLogits(Dense(1, kSigmoid), binary);
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(softmax, TrainedWithLogits(Dense(3), sparse));
  EXPECT_EQ(sigmoid, TrainedWithLogits(Dense(1), binary));
  EXPECT_EQ(printed,
            "warning: `sparse_categorical_crossentropy` received "
            "`from_logits=True`, but the output of model 'sequential' was "
            "produced by the softmax activation of layer 'dense_1' and thus "
            "does not represent logits. Was this intended? The loss takes that "
            "activation's input\n");
  // Predictions stay probabilities.
  Sequential model({Input({2}), Dense(3, kSoftmax)});
  model.Compile(SGD(), sparse);
  const auto outputs = model.Predict(Points(4).Batch(4));
  ASSERT_OK(outputs);
  const std::vector<float>& p = outputs.value();
  EXPECT_NEAR(p[0] + p[1] + p[2], 1, 1e-6);
}

TEST(ModelTest, LinearOutput_LossOfProbabilities_WarnsOnceAsItTrains) {
  const auto use = [](const Layer& last, const Loss& loss, bool trains) {
    Sequential model({Input({2}), Dense(4, kRelu), last, Flatten()});
    model.Compile(SGD(), loss);
    EXPECT_OK(model.status());
    const Dataset points = Points(8).Batch(8);
    EvaluateOptions quiet;
    quiet.verbose = Verbose::kSilent;
    EXPECT_OK(model.Evaluate(points, quiet));
    if (!trains) return;
    EXPECT_OK(model.Fit(points, Quiet(1)));
  };
  testing::internal::CaptureStderr();
  use(Dense(3), SparseCategoricalCrossentropy(kFromLogits), /*trains=*/true);
  use(Dense(3, kSoftmax), SparseCategoricalCrossentropy(), /*trains=*/true);
  use(Dense(3), SparseCategoricalCrossentropy(), /*trains=*/false);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  use(Dense(3), SparseCategoricalCrossentropy(), /*trains=*/true);
  use(Dense(3), SparseCategoricalCrossentropy(), /*trains=*/true);
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(
      printed.find("warning: `sparse_categorical_crossentropy` takes "
                   "probabilities, but the output of model 'sequential' is "
                   "that of layer 'dense_1', which has no activation"),
      0u)
      << printed;
  EXPECT_EQ(printed.find("warning"), printed.rfind("warning")) << printed;
}

TEST(ModelTest, Compile_SecondTime_KeepsWeightsAndForgetsTheOptimizer) {
  auto model = TinyModel(Adam());
  ASSERT_OK(model->Fit(Points(30).Batch(10), Quiet(1)));
  const auto weights = WeightsOf(model.get());
  model->Compile(SGD(), SparseCategoricalCrossentropy(kFromLogits));
  ASSERT_OK(model->status());
  EXPECT_EQ(WeightsOf(model.get()), weights);
  EXPECT_EQ(model->iterations(), 0);
}

TEST(ModelTest, LearningRate_Schedule_IsFollowedUntilItIsSet) {
  auto model = TinyModel(SGD(ExponentialDecay(1, 1, 0.5f)));
  EXPECT_FLOAT_EQ(model->LearningRate(), 1);
  ASSERT_OK(model->Fit(Points(8).Batch(4), Quiet(1)));
  EXPECT_FLOAT_EQ(model->LearningRate(), 0.25f);
  model->SetLearningRate(0.125f);
  EXPECT_FLOAT_EQ(model->LearningRate(), 0.125f);
}

}  // namespace
}  // namespace ringlet
