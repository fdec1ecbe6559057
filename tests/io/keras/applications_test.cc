// Models of keras.applications, as tests/keras_applications.py writes them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/python.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "io/readers/arrays/npz.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

std::unique_ptr<Model> LoadApplication(const std::string& arguments) {
  std::unique_ptr<Model> model;
  const auto lines = RunPython(Script("keras_applications.py") + arguments);
  if (lines.size() != 1) return nullptr;
  const Status status = ModelFromJson(lines[0], &model);
  EXPECT_OK(status);
  return model;
}

struct Application {
  const char* name;
  int64_t parameters;    // the number in Keras's summary
  int64_t moving_state;  // mean, variance and count, no weights in ringlet
  std::vector<const char*> weights;
};

std::ostream& operator<<(std::ostream& out, const Application& application) {
  return out << application.name;
}

class ApplicationTest : public testing::TestWithParam<Application> {};

TEST_P(ApplicationTest, Load_At224_HasThePublishedParametersAndNames) {
  if (!HavePython()) GTEST_SKIP() << "needs python3";
  const Application& application = GetParam();
  const auto model = LoadApplication(std::string(application.name) + " 224");
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->num_weights() + application.moving_state,
            application.parameters);
  EXPECT_EQ(model->output_shape(), (Shape{1000}));
  std::set<std::string> paths;
  for (const Variable& variable : model->variables()) {
    paths.insert(variable.path);
  }
  for (const char* path : application.weights) {
    EXPECT_EQ(paths.count(path), 1u) << path;
  }
  // Written and read again it is the same model.
  std::unique_ptr<Model> again;
  const Status status = ModelFromJson(ToJson(*model), &again);
  ASSERT_OK(status);
  EXPECT_EQ(again->Summary(), model->Summary());
}

// The model without its top below a new head, with a short last batch.
TEST_P(ApplicationTest, Fit_NewHead_TrainsTwoSteps) {
  if (!HavePython()) GTEST_SKIP() << "needs python3";
  const auto base =
      LoadApplication(std::string(GetParam().name) + " 32 no_top");
  ASSERT_NE(base, nullptr);
  Sequential model;
  model.Add(Input({32, 32, 3}));
  model.Add(base->AsLayer().Name("base"));
  model.Add(Dense(3).Name("head"));
  model.Compile(SGD(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()});
  ASSERT_OK(model.status());
  constexpr int64_t kImages = 5;
  std::vector<float> x(static_cast<size_t>(kImages * 32 * 32 * 3));
  const Philox random(3, 0);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = Philox::Unit(random.At(i)[0]);
  }
  const std::vector<int32_t> y = {0, 1, 2, 0, 1};
  const Dataset images(MemorySource({DType::kFloat32, {32, 32, 3}}, x.data(),
                                    {DType::kInt32, {}}, y.data(), kImages));
  const std::vector<float> before = WeightsOf(&model);
  const auto history = model.Fit(images.Shuffle(1).Batch(3), Quiet(1));
  ASSERT_OK(history);
  EXPECT_EQ(model.iterations(), 2);
  const std::vector<float> after = WeightsOf(&model);
  EXPECT_TRUE(std::all_of(after.begin(), after.end(),
                          [](float w) { return std::isfinite(w); }));
  // Each layer with weights has trained.
  for (const Variable& v : model.variables()) {
    const auto* const from = &before[static_cast<size_t>(v.offset)];
    EXPECT_FALSE(std::equal(from, from + v.size(),
                            &after[static_cast<size_t>(v.offset)]))
        << v.path;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Keras, ApplicationTest,
    testing::Values(
        Application{
            "MobileNetV2",
            3538984,
            0,
            {"Conv1/kernel", "bn_Conv1/moving_variance",
             "expanded_conv_depthwise/kernel", "block_1_expand/kernel",
             "block_16_project_BN/gamma", "Conv_1/kernel", "predictions/bias"}},
        Application{"ResNet50",
                    25636712,
                    0,
                    {"conv1_conv/kernel", "conv2_block1_0_conv/bias",
                     "conv5_block3_3_bn/beta", "predictions/kernel"}},
        Application{
            "EfficientNetB0",
            5330571,
            7,
            {"stem_conv/kernel", "block1a_dwconv/kernel",
             "block7a_se_reduce/bias", "top_bn/gamma", "predictions/kernel"}},
        Application{"MobileNetV3Small",
                    2554968,
                    0,
                    {"conv/kernel", "expanded_conv_squeeze_excite_conv/kernel",
                     "expanded_conv_10_project_bn/gamma", "conv_2/bias",
                     "logits/kernel"}}),
    [](const testing::TestParamInfo<Application>& test) {
      return std::string(test.param.name);
    });

// EfficientNet's Normalization, behind a Rescaling: 0 and 1 as in Keras, until
// a file of weights has others.
constexpr char kNormalized[] = R"({"class_name": "Functional", "config": {
  "name": "net", "layers": [
    {"class_name": "InputLayer", "name": "x", "inbound_nodes": [],
     "config": {"batch_shape": [null, 3], "name": "x"}},
    {"class_name": "Rescaling", "name": "scale",
     "config": {"name": "scale", "scale": 0.5}, "inbound_nodes": [
       {"args": [{"class_name": "__keras_tensor__",
                  "config": {"keras_history": ["x", 0, 0]}}],
        "kwargs": {}}]},
    {"class_name": "Normalization", "name": "normalization",
     "config": {"name": "normalization", "axis": [1], "mean": null,
                "variance": null}, "inbound_nodes": [
       {"args": [{"class_name": "__keras_tensor__",
                  "config": {"keras_history": ["scale", 0, 0]}}],
        "kwargs": {}}]}],
  "input_layers": [["x", 0, 0]],
  "output_layers": [["normalization", 0, 0]]}})";

constexpr float kMean[] = {1, 2, 3}, kVariance[] = {1, 4, 16};
constexpr float kOnes[] = {1, 1, 1};
constexpr int32_t kCount = 9;

// True: the layers are in a model within another.
class LoadedNormalizationTest : public testing::TestWithParam<bool> {
 protected:
  // The layers of kNormalized, and the sum of their output.
  LoadedNormalizationTest() {
    model_.Add(Input({3}));
    if (GetParam()) {
      std::unique_ptr<Model> base;
      const Status status = ModelFromJson(kNormalized, &base);
      EXPECT_OK(status);
      model_.Add(base->AsLayer());
    } else {
      model_.Add(Rescaling(0.5f));
      model_.Add(Normalization({0}, {1}));
    }
    model_.Add(Dense(1).UseBias(false).Name("sum"));
    model_.Compile(SGD(), MeanSquaredError());
  }

  void WriteArrays(const std::string& mean, const std::string& variance,
                   const std::string& count, const std::string& kernel,
                   const float* kernel_values) {
    NpzWriter writer;
    ASSERT_OK(writer.Open(PosixFiles(), path_));
    ASSERT_OK(writer.Add(mean, DType::kFloat32, {3}, kMean));
    ASSERT_OK(writer.Add(variance, DType::kFloat32, {3}, kVariance));
    ASSERT_OK(writer.Add(count, DType::kInt32, {}, &kCount));
    ASSERT_OK(writer.Add(kernel, DType::kFloat32, {3, 1}, kernel_values));
    ASSERT_OK(writer.Finish());
  }
  void WriteNamedArrays() {
    const std::string layer =
        std::string(GetParam() ? "net/" : "") + "normalization/";
    WriteArrays(layer + "mean", layer + "variance", layer + "count",
                "sum/kernel", kOnes);
  }
  void Load() {
    const Status status = LoadWeights(&model_, path_);
    ASSERT_OK(status);
  }
  static float OutputOf(Model* model) {
    const float x[] = {4, 8, 16};
    EXPECT_OK(model->Forward(x, 1, /*training=*/false));
    return model->output()[0];
  }

  Sequential model_;
  TempFolder folder_;
  const std::string path_ = folder_ / "w.npz";
};

INSTANTIATE_TEST_SUITE_P(AloneAndNested, LoadedNormalizationTest,
                         testing::Bool());

TEST_P(LoadedNormalizationTest,
       LoadWeights_MeanAndVariance_AreTheNormalizations) {
  WriteNamedArrays();
  OutputOf(&model_);  // a pass before the weights are loaded
  Load();
  EXPECT_FLOAT_EQ(OutputOf(&model_), 1 / 1.f + 2 / 2.f + 5 / 4.f);
}

TEST_P(LoadedNormalizationTest,
       LoadWeights_ArraysWithoutNames_AreInKerasOrder) {
  WriteArrays("arr_0", "arr_1", "arr_2", "arr_3", kMean);
  Load();
  EXPECT_FLOAT_EQ(OutputOf(&model_), 1 / 1.f + 2 * 2 / 2.f + 3 * 5 / 4.f);
}

TEST_P(LoadedNormalizationTest, SaveModel_LoadedMeanAndVariance_AreInTheFile) {
  WriteNamedArrays();
  Load();
  ASSERT_OK(SaveModel(&model_, folder_ / "m.safetensors"));
  std::unique_ptr<Model> loaded;
  ASSERT_OK(LoadModel(folder_ / "m.safetensors", &loaded));
  EXPECT_EQ(OutputOf(loaded.get()), OutputOf(&model_));
}

}  // namespace
}  // namespace ringlet
