// A loss for each step of a sequence, of which some targets are ignored or have
// weights, on any number of threads and workers.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

constexpr int64_t kSteps = 7, kValues = 3, kClasses = 5, kExamples = 50;
constexpr int kIgnored = -1;

// Some examples have no class but the ignored one.
Dataset Tagged() {
  struct Data {
    std::vector<float> x;
    std::vector<int32_t> y;
  };
  static const Data* const data = [] {
    auto* const made = new Data;
    const Philox random(3, 4);
    for (int64_t i = 0; i < kExamples * kSteps; ++i) {
      const auto bits = random.At(static_cast<uint64_t>(i));
      for (size_t j = 0; j < kValues; ++j) {
        made->x.push_back(2 * Philox::Unit(bits[j]) - 1);
      }
      const bool ignored = i / kSteps % 11 == 3 || bits[3] % 3 == 0;
      made->y.push_back(ignored ? kIgnored
                                : static_cast<int32_t>(bits[3] / 3 % kClasses));
    }
    return made;
  }();
  return Dataset(MemorySource({DType::kFloat32, {kSteps, kValues}},
                              data->x.data(), {DType::kInt32, {kSteps}},
                              data->y.data(), kExamples));
}

std::unique_ptr<Sequential> Tagger(const CompileOptions& options = {}) {
  auto model = std::make_unique<Sequential>(std::initializer_list<Layer>{
      Input({kSteps, kValues}), GRU(6).ReturnSequences(true),
      Dense(kClasses, kSoftmax)});
  const Metric crossentropy =
      MetricOf(Metric::Kind::kSparseCategoricalCrossentropy)
          .IgnoreClass(kIgnored);
  model->Compile(Adam(0.02f),
                 SparseCategoricalCrossentropy(kFromProbabilities, kIgnored),
                 {Accuracy(), SparseTopKCategoricalAccuracy(2), crossentropy,
                  Metric(crossentropy).Name("weighted").Weighted()},
                 options);
  EXPECT_OK(model->status());
  return model;
}

struct Result {
  std::vector<double> logs;
  std::vector<float> weights;
};

Result TrainTagger(const CompileOptions& options, const Dataset& data,
                   int64_t batch) {
  Result result;
  const auto model = Tagger(options);
  for (int fit = 0; fit < 2; ++fit) {
    const auto history = model->Fit(
        data.Shuffle(static_cast<uint64_t>(fit)).Batch(batch), Quiet(2));
    EXPECT_OK(history.status());
    if (!history.ok()) return result;
    for (const char* name : {"loss", "weighted"}) {
      for (const double value : history->Values(name)) {
        EXPECT_TRUE(std::isfinite(value));
        result.logs.push_back(value);
      }
    }
  }
  result.weights = WeightsOf(model.get());
  return result;
}

double LossOf(Model* model, const Dataset& data) {
  const auto logs = model->Evaluate(data, {});
  EXPECT_OK(logs.status());
  return logs.ok() ? *logs.value().Find("loss") : 0;
}

TEST(PerStepLossesTest, IgnoredTargets_AnyThreadsAndWorkers_HaveOneResult) {
  for (const int64_t batch : {1, 32}) {
    SCOPED_TRACE(batch);
    CompileOptions options = ExactSums(nullptr, 3);
    const Result one = TrainTagger(options, Tagged(), batch);
    options.threads = 2;
    const Result threads = TrainTagger(options, Tagged(), batch);
    EXPECT_EQ(threads.weights, one.weights);
    EXPECT_EQ(threads.logs, one.logs);
    for (int workers = 2; workers <= 3; ++workers) {
      RunRanks(workers, [&](Collective* collective) {
        const Result some =
            TrainTagger(ExactSums(collective, 3), Tagged(), batch);
        EXPECT_EQ(some.weights, one.weights) << workers;
        EXPECT_EQ(some.logs, one.logs) << workers;
      });
    }
  }
}

// As Keras with a strategy: each replica divides by its own valid targets.
TEST(PerStepLossesTest, IgnoredTargets_SeveralReplicas_AreCountedForEach) {
  CompileOptions options;
  options.replicas = 2;
  auto two = Tagger(options), one = Tagger();
  const Dataset data = Tagged().Take(48);
  EXPECT_NEAR(LossOf(two.get(), data.Batch(16)),
              LossOf(one.get(), data.Batch(8)), 1e-9);
  EXPECT_GT(std::fabs(LossOf(one.get(), data.Batch(48)) -
                      LossOf(one.get(), data.Batch(1))),
            1e-3);
}

// An example without a valid target has a loss of 0, and counts as an example.
TEST(PerStepLossesTest, IgnoredTargets_AllOfAnExample_HaveNoLoss) {
  auto model = Tagger();
  EXPECT_EQ(LossOf(model.get(), Tagged().Skip(3).Take(1).Batch(1)), 0);
  const std::vector<float> before = WeightsOf(model.get());
  ASSERT_OK(model->Fit(Tagged().Skip(3).Take(1).Batch(1), Quiet(3)).status());
  EXPECT_EQ(WeightsOf(model.get()), before);
}

TEST(PerStepLossesTest, IgnoredTargets_SavedModel_EvaluatesToTheSameLogs) {
  const TempFolder folder;
  auto model = Tagger();
  ASSERT_OK(model->Fit(Tagged().Batch(32), Quiet(1)).status());
  ASSERT_OK(SaveModel(model.get(), folder / "model.keras"));
  std::unique_ptr<Model> loaded;
  ASSERT_OK(LoadModel(folder / "model.keras", &loaded));
  const auto a = model->Evaluate(Tagged().Batch(32), {});
  const auto b = loaded->Evaluate(Tagged().Batch(32), {});
  ASSERT_OK(b.status());
  for (const char* name :
       {"loss", "accuracy", "weighted", "sparse_top_k_categorical_accuracy",
        "sparse_categorical_crossentropy"}) {
    EXPECT_EQ(*a.value().Find(name), *b.value().Find(name)) << name;
  }
}

// --- a weight for each step --------------------------------------------------

std::vector<float> StepWeights() {
  std::vector<float> weights;
  for (int64_t i = 0; i < kExamples * kSteps; ++i) {
    weights.push_back(static_cast<float>((i * 7 + i / 5) % 6) * 0.5f);
  }
  return weights;
}

Dataset WeightedSteps() { return Tagged().SampleWeight(StepWeights(), kSteps); }

// The float64 sums of a batch: of weights times losses, of weights, and the
// number of valid targets.
struct Sums {
  double losses = 0, weights = 0, right = 0, all_weights = 0, valid = 0;
};

Sums SumsOf(Model* model, int64_t first, int64_t count) {
  Sums sums;
  const Dataset data = Tagged().Skip(first).Take(count);
  const auto predicted = model->Predict(data.Batch(count));
  EXPECT_OK(predicted.status());
  const std::vector<float> weights = StepWeights();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t example = first + i;
    float x[kSteps * kValues];
    int32_t y[kSteps];
    EXPECT_OK(data.source()->Read(&example, 1, x, y));
    for (int64_t step = 0; step < kSteps; ++step) {
      const float* const p =
          &predicted
               .value()[static_cast<size_t>((i * kSteps + step) * kClasses)];
      const double weight =
          double{weights[static_cast<size_t>(example * kSteps + step)]};
      sums.all_weights += weight;
      if (y[step] == kIgnored) continue;
      ++sums.valid;
      sums.weights += weight;
      sums.losses -= weight * std::log(double{p[y[step]]});
      sums.right +=
          weight * (std::max_element(p, p + kClasses) - p == y[step] ? 1 : 0);
    }
  }
  return sums;
}

// As Keras: the loss of a batch is divided by its valid targets, a metric by
// the weights, and the metric of the loss by the weights of the valid targets.
TEST(PerStepLossesTest, WeightsOfSteps_Evaluated_EqualTheFormulas) {
  auto model = Tagger();
  model->Compile(Adam(0.02f),
                 SparseCategoricalCrossentropy(kFromProbabilities, kIgnored),
                 {SparseCategoricalAccuracy().Name("right").Weighted(),
                  MetricOf(Metric::Kind::kSparseCategoricalCrossentropy)
                      .IgnoreClass(kIgnored)
                      .Name("weighted")
                      .Weighted()});
  ASSERT_OK(model->Fit(WeightedSteps().Batch(32), Quiet(2)).status());
  for (const int64_t batch : {1, 32, 50}) {
    SCOPED_TRACE(batch);
    double loss = 0;
    Sums all;
    for (int64_t first = 0; first < kExamples; first += batch) {
      const int64_t count = std::min(batch, kExamples - first);
      const Sums sums = SumsOf(model.get(), first, count);
      if (sums.valid > 0) {
        loss += sums.losses / sums.valid * static_cast<double>(count);
      }
      all.losses += sums.losses;
      all.weights += sums.weights;
      all.all_weights += sums.all_weights;
      all.right += sums.right;
    }
    const auto logs = model->Evaluate(WeightedSteps().Batch(batch), {});
    ASSERT_OK(logs.status());
    EXPECT_NEAR(*logs.value().Find("loss"), loss / kExamples, 1e-6);
    EXPECT_NEAR(*logs.value().Find("weighted"), all.losses / all.weights, 1e-6);
    EXPECT_NEAR(*logs.value().Find("right"), all.right / all.all_weights, 1e-9);
  }
}

TEST(PerStepLossesTest, WeightsOfSteps_AllOfAnExampleEqual_ActAsItsWeight) {
  std::vector<float> example_weights, step_weights;
  for (int64_t i = 0; i < kExamples; ++i) {
    example_weights.push_back(static_cast<float>(i % 4) * 0.5f);
    step_weights.insert(step_weights.end(), kSteps, example_weights.back());
  }
  const Result a = TrainTagger({}, Tagged().SampleWeight(example_weights), 32);
  const Result b =
      TrainTagger({}, Tagged().SampleWeight(step_weights, kSteps), 32);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (size_t i = 0; i < a.weights.size(); ++i) {
    EXPECT_NEAR(a.weights[i], b.weights[i], 1e-4);
  }
  for (size_t i = 0; i < a.logs.size(); ++i) {
    EXPECT_NEAR(a.logs[i], b.logs[i], 1e-5);
  }
}

TEST(PerStepLossesTest, WeightsOfSteps_AnyThreadsAndWorkers_HaveOneResult) {
  for (const int64_t batch : {1, 32}) {
    SCOPED_TRACE(batch);
    CompileOptions options = ExactSums(nullptr, 3);
    const Result one = TrainTagger(options, WeightedSteps(), batch);
    EXPECT_NE(one.weights, TrainTagger(options, Tagged(), batch).weights);
    options.threads = 2;
    EXPECT_EQ(TrainTagger(options, WeightedSteps(), batch).weights,
              one.weights);
    RunRanks(3, [&](Collective* collective) {
      const Result three =
          TrainTagger(ExactSums(collective, 3), WeightedSteps(), batch);
      EXPECT_EQ(three.weights, one.weights);
      EXPECT_EQ(three.logs, one.logs);
    });
  }
}

TEST(PerStepLossesTest, WeightsOfSteps_DoNotFit_AreRefused) {
  EXPECT_FALSE(Tagged().SampleWeight(StepWeights()).Batch(2).status().ok());
  EXPECT_FALSE(
      Tagged().SampleWeight(StepWeights(), kSteps - 1).Batch(2).status().ok());
  auto model = Tagger();
  const Status rows =
      model
          ->Fit(Tagged()
                    .SampleWeight(std::vector<float>(kExamples * 2, 1), 2)
                    .Batch(2),
                Quiet(1))
          .status();
  EXPECT_EQ(rows.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(rows, "2 numbers an example"));
  EXPECT_TRUE(Contains(rows, "7 rows"));
  TimeseriesOptions windows;
  windows.sequence_length = 2;
  EXPECT_TRUE(Contains(
      TimeseriesDatasetFromArray(WeightedSteps(), windows).Batch(1).status(),
      "a window takes one"));
}

TEST(PerStepLossesTest, WeightsOfSteps_OutputWithoutSteps_AreRefused) {
  Sequential model({Input({kSteps, kValues}), GRU(3), Dense(kClasses)});
  model.Compile(SGD(), MeanSquaredError());
  const std::vector<float> x(kSteps * kValues), y(kClasses);
  const Dataset data(MemorySource({DType::kFloat32, {kSteps, kValues}},
                                  x.data(), {DType::kFloat32, {kClasses}},
                                  y.data(), 1));
  const Status status =
      model.Fit(data.SampleWeight({1, 1, 1, 1, 1}, 5).Batch(1), Quiet(1))
          .status();
  EXPECT_TRUE(Contains(status, "give one number an example"));
  EXPECT_OK(model.Fit(data.SampleWeight({2}).Batch(1), Quiet(1)).status());
}

TEST(PerStepLossesTest, LabelOutsideTheClasses_OfALossWithoutIt_IsRefused) {
  auto model = Tagger();
  model->Compile(SGD(), SparseCategoricalCrossentropy(kFromProbabilities, 255));
  const Status status = model->Fit(Tagged().Batch(32), Quiet(1)).status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_TRUE(Contains(status, "label -1"));
  EXPECT_TRUE(Contains(status, "ignore_class"));
}

}  // namespace
}  // namespace ringlet
