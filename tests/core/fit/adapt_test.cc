// Normalization layers that compute mean and variance from the data.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "core/model/model_parts.h"
#include "ringlet/checkpoint.h"
#include "ringlet/dataset.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

constexpr int64_t kChannels = 3;
constexpr int32_t kLabels[8] = {};

// Examples of (2, 3) with channels that have different means and ranges.
class Rows final : public Source {
 public:
  explicit Rows(int64_t count, uint64_t seed = 1) : count_(count) {
    std::mt19937_64 draw(seed);
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < count * 2 * kChannels; ++i) {
      const int64_t c = i % kChannels;
      x_.push_back(static_cast<float>(1e4 * static_cast<double>(c) +
                                      std::pow(10, c - 1) * normal(draw)));
    }
  }
  int64_t size() const override { return count_; }
  ExampleSpec x() const override { return {DType::kFloat32, {2, kChannels}}; }
  ExampleSpec y() const override { return {DType::kInt32, {}}; }
  std::string name() const override { return "rows"; }
  Status Read(const int64_t* index, int count, void* x, void* y) override {
    for (int i = 0; i < count; ++i) {
      if (x != nullptr) {
        std::copy_n(x_.begin() + index[i] * 2 * kChannels, 2 * kChannels,
                    static_cast<float*>(x) + i * 2 * kChannels);
      }
      if (y != nullptr) {
        static_cast<int32_t*>(y)[i] = static_cast<int32_t>(index[i] % 2);
      }
    }
    return Status();
  }
  float at(int64_t example, int64_t j) const {
    return x_[static_cast<size_t>(example * 2 * kChannels + j)];
  }

 private:
  const int64_t count_;
  std::vector<float> x_;
};

std::unique_ptr<Sequential> MakeModel(Collective* collective = nullptr) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({2, kChannels}));
  model->Add(Normalization().Name("norm"));
  model->Add(Flatten());
  model->Add(Dense(2));
  CompileOptions options;
  options.collective = collective;
  model->Compile(SGD(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  EXPECT_OK(model->status());
  return model;
}

const Layer& NormOf(const Model& model) { return model.layer(1); }

FitOptions OneEpoch() {
  FitOptions options;
  options.epochs = 1;
  options.verbose = Verbose::kSilent;
  return options;
}

// The statistics of these examples, in long double.
void ExpectStatistics(const Layer& norm, const Rows& rows,
                      const std::vector<int64_t>& examples, Scale scale) {
  ASSERT_EQ(norm.means.size(), static_cast<size_t>(kChannels));
  ASSERT_EQ(norm.variances.size(), static_cast<size_t>(kChannels));
  for (int64_t c = 0; c < kChannels; ++c) {
    std::vector<long double> values;
    for (const int64_t example : examples) {
      for (const int64_t j : {c, c + kChannels}) {
        values.push_back(static_cast<long double>(
            rows.at(example, j) * scale.factor + scale.offset));
      }
    }
    long double mean = 0, variance = 0;
    const auto n = static_cast<long double>(values.size());
    for (const long double v : values) mean += v / n;
    for (const long double v : values) variance += (v - mean) * (v - mean) / n;
    const auto near = [](float actual, long double want) {
      return std::fabs(static_cast<long double>(actual) - want) <=
             1e-6L * std::fabs(want) + 1e-9L;
    };
    const size_t i = static_cast<size_t>(c);
    EXPECT_TRUE(near(norm.means[i], mean)) << norm.means[i] << " " << c;
    EXPECT_TRUE(near(norm.variances[i], variance)) << norm.variances[i];
  }
}

TEST(AdaptTest, Fit_AnyNumberOfExamples_HasTheirMeanAndVariance) {
  for (const int64_t count : {1, 32, 63, 64, 65, 128, 1000}) {
    SCOPED_TRACE(count);
    const auto rows = std::make_shared<Rows>(count);
    auto model = MakeModel();
    EXPECT_TRUE(NormOf(*model).means.empty());
    ASSERT_OK(model->Fit(Dataset(rows).Batch(32), OneEpoch()));
    std::vector<int64_t> all;
    for (int64_t i = 0; i < count; ++i) all.push_back(i);
    ExpectStatistics(NormOf(*model), *rows, all, Scale());
    // A second fit keeps them.
    const std::vector<float> means = NormOf(*model).means;
    const auto others = std::make_shared<Rows>(100, 2);
    ASSERT_OK(model->Fit(Dataset(others).Batch(32), OneEpoch()));
    EXPECT_EQ(NormOf(*model).means, means);
  }
}

TEST(AdaptTest, Adapt_SelectedAndScaledData_HasTheirStatistics) {
  const auto rows = std::make_shared<Rows>(100);
  const Scale scale(0.5f, -3);
  auto model = MakeModel();
  ASSERT_OK(model->Adapt(
      Dataset(rows).Map(scale).Skip(10).Take(80).Shard(3, 1).Batch(32)));
  std::vector<int64_t> examples;
  for (int64_t i = 11; i < 90; i += 3) examples.push_back(i);
  ExpectStatistics(NormOf(*model), *rows, examples, scale);
}

TEST(AdaptTest, Outputs_AfterAdapt_EqualGivenStatistics) {
  const Dataset data = Dataset(std::make_shared<Rows>(50)).Batch(7);
  auto model = MakeModel();
  ASSERT_OK(model->Fit(data, OneEpoch()));
  const Layer& norm = NormOf(*model);
  Sequential given({Input({2, kChannels}),
                    Normalization(norm.means, norm.variances), Flatten(),
                    Dense(2)});
  given.Compile(SGD(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()});
  ASSERT_OK(given.Fit(data, OneEpoch()));
  EXPECT_EQ(model->Predict(data).value(), given.Predict(data).value());
}

TEST(AdaptTest, SaveModel_AfterAdapt_KeepsTheStatistics) {
  TempFolder folder;
  const Dataset data = Dataset(std::make_shared<Rows>(50)).Batch(7);
  auto model = MakeModel();
  EXPECT_TRUE(Contains(ToJson(*model), "\"mean\":null"));
  ASSERT_OK(model->Fit(data, OneEpoch()));
  ASSERT_OK(SaveModel(model.get(), folder / "m"));
  std::unique_ptr<Model> loaded;
  ASSERT_OK(LoadModel(folder / "m", &loaded));
  EXPECT_EQ(NormOf(*loaded).means, NormOf(*model).means);
  EXPECT_EQ(NormOf(*loaded).variances, NormOf(*model).variances);
  EXPECT_EQ(loaded->Predict(data).value(), model->Predict(data).value());
}

TEST(AdaptTest, Model_BeforeAdapt_ComputesNothing) {
  TempFolder folder;
  const Dataset data = Dataset(std::make_shared<Rows>(50)).Batch(7);
  auto model = MakeModel();
  for (const Status& status :
       {model->Evaluate(data).status(), model->Predict(data).status(),
        SaveModel(model.get(), folder / "m")}) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, "layer 'norm' (Normalization): has no mean"));
  }
}

TEST(AdaptTest, Layer_NotBehindAnInput_IsRefused) {
  Sequential model(
      {Input({2, kChannels}), Dense(2), Normalization(), Flatten(), Dense(2)});
  model.Compile(SGD(0.01f), SparseCategoricalCrossentropy(kFromLogits));
  const Status status =
      model.Fit(Dataset(std::make_shared<Rows>(8)).Batch(4), OneEpoch())
          .status();
  EXPECT_TRUE(Contains(status, "must be an input of the model"));
}

TEST(AdaptTest, Layer_CalledTwice_IsRefused) {
  Functional model;
  const auto a = model.Add(Input({2, kChannels}));
  const auto b = model.Add(Input({2, kChannels}));
  const auto x = model.Add(Normalization(), {a});
  const auto y = model.CallAgain(x, {b});
  model.Add(Dense(2), {model.Add(Flatten(), {model.Add(Add(), {x, y})})});
  model.Compile(SGD(0.01f), SparseCategoricalCrossentropy(kFromLogits));
  ASSERT_OK(model.status());
  const Dataset rows{std::make_shared<Rows>(8)};
  const Dataset labels{
      MemorySource({DType::kInt32, {}}, kLabels, {}, nullptr, 8)};
  const Status status = model.Adapt(Zip({rows, rows}, {labels}).Batch(4));
  EXPECT_TRUE(Contains(status, "can be called only once"));
}

// A source may have the values of all inputs in one row, as the loader takes
// it.
TEST(AdaptTest, Inputs_InOneRow_HaveTheirOwnStatistics) {
  Functional model;
  const auto a = model.Add(Input({1}));
  const auto b = model.Add(Input({1}));
  model.Add(Dense(2),
            {model.Add(Concatenate(), {model.Add(Normalization(), {a}),
                                       model.Add(Normalization(), {b})})});
  model.Compile(SGD(0.01f), SparseCategoricalCrossentropy(kFromLogits));
  ASSERT_OK(model.status());
  const float x[] = {1, 10, 3, 30};
  const Dataset data(
      MemorySource({DType::kFloat32, {2}}, x, {DType::kInt32, {}}, kLabels, 2));
  ASSERT_OK(model.Adapt(data));
  EXPECT_EQ(model.layer(2).means, std::vector<float>{2});
  EXPECT_EQ(model.layer(3).means, std::vector<float>{20});
}

TEST(AdaptTest, Adapt_DataThatDoNotFit_ChangeNothing) {
  Sequential model(
      {Input({kChannels, 2}), Normalization(), Flatten(), Dense(2)});
  model.Compile(SGD(0.01f), SparseCategoricalCrossentropy(kFromLogits));
  const Dataset data = Dataset(std::make_shared<Rows>(8)).Batch(4);
  const Status status = model.Fit(data, OneEpoch()).status();
  EXPECT_TRUE(Contains(status, "change its Input"));
  EXPECT_FALSE(ModelParts(&model).graph().CheckAdapted().ok());
}

// A worker that starts again compares its model before it reads its data.
TEST(AdaptTest, Compile_OfAnAdaptedAndANewModel_Agree) {
  const Dataset data = Dataset(std::make_shared<Rows>(50)).Batch(7);
  RunRanks(2, [&](Collective* collective) {
    auto alone = MakeModel();
    if (collective->rank() == 0) {
      EXPECT_OK(alone->Adapt(data));
    }
    CompileOptions options;
    options.collective = collective;
    alone->Compile(SGD(0.01f), SparseCategoricalCrossentropy(kFromLogits), {},
                   options);
    EXPECT_OK(alone->status());
    EXPECT_OK(alone->Fit(data, OneEpoch()).status());
  });
}

TEST(AdaptTest, Workers_OfOneJob_HaveTheBitsOfOne) {
  const Dataset data = Dataset(std::make_shared<Rows>(100)).Batch(32);
  auto alone = MakeModel();
  ASSERT_OK(alone->Adapt(data));
  std::vector<float> means[3];
  RunRanks(3, [&](Collective* collective) {
    auto model = MakeModel(collective);
    ASSERT_OK(model->Fit(data, OneEpoch()).status());
    means[collective->rank()] = NormOf(*model).means;
  });
  for (const std::vector<float>& each : means) {
    EXPECT_EQ(each, NormOf(*alone).means);
  }
}

TEST(AdaptTest, Configuration_WithoutMean_AdaptsUnlessRefused) {
  const auto parse = [](const std::string& config) {
    std::unique_ptr<Model> model;
    return ModelFromJson(
        R"({"class_name": "Sequential", "config": {"layers": [
             {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
             {"class_name": "Normalization", "config": {)" +
            config + "}}]}}",
        &model);
  };
  EXPECT_OK(parse(""));
  EXPECT_OK(parse(R"("adapt": true)"));
  EXPECT_OK(parse(R"("mean": null, "variance": null, "adapt": true)"));
  EXPECT_OK(parse(R"("mean": 1, "variance": [1, 2])"));
  for (const char* bad :
       {R"("adapt": false)", R"("mean": 1)", R"("variance": 1)",
        R"("mean": [1, 2, 3], "variance": 1)"}) {
    EXPECT_FALSE(parse(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace ringlet
