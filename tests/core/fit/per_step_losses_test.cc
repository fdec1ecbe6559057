// A loss for each step of a sequence, of which some targets are ignored, on any
// number of threads and workers.

#include <gtest/gtest.h>

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
  model->Compile(
      Adam(0.02f), SparseCategoricalCrossentropy(kFromProbabilities, kIgnored),
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
    const auto history =
        model->Fit(data.Shuffle(static_cast<uint64_t>(fit)).Batch(batch),
                   Quiet(2));
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
  for (const char* name : {"loss", "accuracy", "weighted",
                           "sparse_top_k_categorical_accuracy",
                           "sparse_categorical_crossentropy"}) {
    EXPECT_EQ(*a.value().Find(name), *b.value().Find(name)) << name;
  }
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
