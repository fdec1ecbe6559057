// Tests of class_weight, sample weights and weighted metrics, and of metrics
// with several states; alone and over ranks.

#include <gtest/gtest.h>

#include <cmath>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/memory_backup.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"

namespace ringlet {
namespace {

// "large" has more states than a step copies.
std::unique_ptr<Sequential> WithStates(const CompileOptions& options = {}) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({2}));
  model->Add(Dense(8, kTanh));
  model->Add(Dense(3, kSoftmax));
  model->Compile(
      SGD(0.1f, 0.9f), SparseCategoricalCrossentropy(),
      {MeanIoU(1000).Name("large"), MeanIoU(3).Name("weighted").Weighted()},
      options);
  EXPECT_OK(model->status());
  return model;
}

std::vector<int32_t> ClassesOf(const Dataset& data) {
  std::vector<int32_t> classes(static_cast<size_t>(data.size()));
  for (int64_t i = 0; i < data.size(); ++i) {
    float x[2];
    EXPECT_OK(data.source()->Read(&i, 1, x, &classes[static_cast<size_t>(i)]));
  }
  return classes;
}

std::vector<float> SomeWeights(int64_t count) {
  std::vector<float> weights;
  for (int64_t i = 0; i < count; ++i) {
    weights.push_back(static_cast<float>((i * 7) % 5) * 0.5f);
  }
  return weights;
}

TEST(ExampleWeightsTest, ClassWeight_SomeClasses_EqualsTheirSampleWeights) {
  const Dataset data = Points(50);
  const ClassWeights class_weights = {{0, 0.25f}, {2, 3.0f}};
  std::vector<float> weights;
  for (const int32_t number : ClassesOf(data)) {
    weights.push_back(number == 0 ? 0.25f : number == 2 ? 3.0f : 1.0f);
  }
  auto plain = WithStates(), by_class = WithStates(), by_sample = WithStates();
  FitOptions options = Quiet(3);
  const auto order = [](const Dataset& d) { return d.Shuffle(1).Batch(8); };
  ASSERT_OK(plain->Fit(order(data), options));
  const auto sample =
      by_sample->Fit(order(data.SampleWeight(weights)), options);
  ASSERT_OK(sample.status());
  options.class_weight = class_weights;
  const auto classed = by_class->Fit(order(data), options);
  ASSERT_OK(classed.status());
  EXPECT_EQ(WeightsOf(by_class.get()), WeightsOf(by_sample.get()));
  EXPECT_NE(WeightsOf(by_class.get()), WeightsOf(plain.get()));
  for (const char* name : {"loss", "large", "weighted"}) {
    EXPECT_EQ(classed->Values(name), sample->Values(name)) << name;
  }
}

// The sum of the weighted losses is divided by the number of examples.
TEST(ExampleWeightsTest, Loss_Weighted_IsDividedByTheNumberOfExamples) {
  const Dataset data = Points(10);
  auto model = WithStates();
  std::vector<float> one(10, 0.0f);
  double sum = 0;
  const std::vector<float> weights = SomeWeights(10);
  for (size_t i = 0; i < 10; ++i) {
    one.assign(10, 0.0f);
    one[i] = 1;
    const auto logs = model->Evaluate(data.SampleWeight(one).Batch(10), {});
    ASSERT_OK(logs.status());
    sum += weights[i] * *logs.value().Find("loss");
  }
  const auto logs = model->Evaluate(data.SampleWeight(weights).Batch(4), {});
  ASSERT_OK(logs);
  EXPECT_NEAR(*logs.value().Find("loss"), sum, 1e-6);
}

TEST(ExampleWeightsTest, Weights_DoNotFit_AreRefused) {
  const Dataset data = Points(10);
  EXPECT_FALSE(data.SampleWeight({1, 2}).Batch(2).status().ok());
  std::vector<float> weights(10, 1.0f);
  weights[3] = NAN;
  EXPECT_FALSE(data.SampleWeight(weights).Batch(2).status().ok());
  auto model = WithStates();
  FitOptions options = Quiet(1);
  options.class_weight = {{0, 2.0f}};
  const Status both =
      model->Fit(data.SampleWeight(SomeWeights(10)).Batch(2), options).status();
  EXPECT_EQ(both.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(both, "at the same time"));
  options.class_weight = {{0, NAN}};
  EXPECT_FALSE(model->Fit(data.Batch(2), options).ok());
}

TEST(ExampleWeightsTest, ClassWeight_ExampleOfSeveralClasses_IsRefused) {
  Sequential model({Input({2}), Dense(6), Reshape({2, 3})});
  model.Compile(SGD(), SparseCategoricalCrossentropy(kFromLogits));
  const float x[4] = {};
  const int32_t y[4] = {0, 1, 2, 0};
  const Dataset data = Dataset(MemorySource({DType::kFloat32, {2}}, x,
                                            {DType::kInt32, {2}}, y, 2))
                           .Batch(2);
  FitOptions options = Quiet(1);
  EXPECT_OK(model.Fit(data, options));
  options.class_weight = {{0, 2.0f}};
  const Status status = model.Fit(data, options).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status, "class_weight"));
}

TEST(ExampleWeightsTest, Metrics_SeveralRanks_AgreeExactlyOnCounts) {
  const Dataset data = Points(53).SampleWeight(SomeWeights(53));
  auto alone = WithStates();
  const auto expected = alone->Evaluate(data.Batch(12), {});
  ASSERT_OK(expected);
  for (int world = 2; world <= 3; ++world) {
    RunRanks(world, [&](Collective* collective) {
      CompileOptions options(collective);
      auto model = WithStates(options);
      const auto logs = model->Evaluate(data.Batch(12), {});
      ASSERT_OK(logs.status());
      for (const char* name : {"large", "weighted"}) {
        EXPECT_EQ(*logs.value().Find(name), *expected.value().Find(name));
      }
      FitOptions fit = Quiet(2);
      fit.class_weight = {{1, 2.0f}};
      ASSERT_OK(model->Fit(Points(53).Batch(12), fit).status());
    });
  }
}

TEST(ExampleWeightsTest, SampleWeights_OtherOnOneRank_ErrorNamesThem) {
  RunRanks(2, [&](Collective* collective) {
    CompileOptions options(collective);
    auto model = WithStates(options);
    std::vector<float> weights = SomeWeights(20);
    if (collective->rank() == 1) weights[7] += 1;
    const Status status =
        model->Fit(Points(20).SampleWeight(weights).Batch(4), Quiet(1))
            .status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, "other sample weights"));
  });
}

// The states of a metric are part of what is restored, however many.
TEST(ExampleWeightsTest, Metrics_OfSeveralStates_AreRestored) {
  const Dataset data =
      Points(40).SampleWeight(SomeWeights(40)).Shuffle(2).Repeat().Batch(6);
  FitOptions options = Quiet(2);
  options.steps_per_epoch = 5;
  auto undisturbed = WithStates();
  const auto expected = undisturbed->Fit(data, options);
  ASSERT_OK(expected);
  for (int64_t step = 1; step <= 9; ++step) {
    auto backup = std::make_shared<MemoryBackup>();
    backup->save_after_step = step;
    backup->fail_after_step = step + 1;
    options.callbacks = {backup};
    auto killed = WithStates();
    ASSERT_FALSE(killed->Fit(data, options).ok());
    backup->fail_after_step.reset();
    auto resumed = WithStates();
    const auto history = resumed->Fit(data, options);
    ASSERT_OK(history.status());
    for (const char* name : {"loss", "large", "weighted"}) {
      EXPECT_EQ(history->Values(name).back(), expected->Values(name).back())
          << name << " " << step;
    }
  }
}

}  // namespace
}  // namespace ringlet
