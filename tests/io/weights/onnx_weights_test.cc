// Weights of ONNX models: files that ringlet wrote are read back, and damaged
// ones refused. Files of PyTorch: tests/fuzz/corpus/onnx.

#include "io/weights/onnx_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/exports.h"
#include "../../support/model_weights.h"
#include "io/export/onnx/onnx_graph.h"
#include "io/files/file_system.h"
#include "ringlet/checkpoint.h"
#include "ringlet/export.h"

namespace ringlet {
namespace {

Sequential SomeModel() {
  return Sequential({Input({9, 8, 2}), Conv2D(4, 3, kRelu),
                     BatchNormalization(), DepthwiseConv2D(2),
                     SeparableConv2D(6, 3).Padding(kSame), PReLU({1, 2}),
                     MaxPooling2D(), LayerNormalization(), Flatten(),
                     Dense(5, kTanh), BatchNormalization(), Dense(3)});
}

LoadWeightsOptions Silent() {
  LoadWeightsOptions options;
  options.warn = [](const std::string&) {};
  return options;
}

TEST(OnnxWeightsTest, Load_ExportedModel_HasTheSameBits) {
  TempFolder folder;
  Sequential model = SomeModel(), other = SomeModel();
  CompileOne(&model);
  ASSERT_OK(ExportOnnx(&model, folder / "m"));
  other.Compile(SGD(), MeanSquaredError());
  WeightsReport report;
  ASSERT_OK(LoadWeights(&other, folder / "m", Silent(), &report));
  EXPECT_FALSE(report.verified);
  EXPECT_EQ(report.loaded.size(), model.variables().size());
  EXPECT_EQ(WeightsOf(&other), WeightsOf(&model));
}

// The file has no Transpose, from which their flattened order would follow.
TEST(OnnxWeightsTest, Load_PermutedRows_AreTheSameOrRefused) {
  const auto upsampled = [] {
    return Sequential({Input({10, 5}), Permute({2, 1}), UpSampling1D(3),
                       Flatten(), Dense(5)});
  };
  const auto pooled = [] {
    return Sequential({Input({12, 3}), DepthwiseConv1D(3),
                       GlobalAveragePooling1D().KeepDims(true), Permute({2, 1}),
                       Dense(2), Flatten(), Dense(5)});
  };
  TempFolder folder;
  int back = 0;
  for (const std::function<Sequential()>& make :
       {std::function<Sequential()>(upsampled), {pooled}}) {
    Sequential model = make(), other = make();
    CompileOne(&model);
    ASSERT_OK(ExportOnnx(&model, folder / "m"));
    other.Compile(SGD(), MeanSquaredError());
    if (!LoadWeights(&other, folder / "m", Silent()).ok()) continue;
    ++back;
    EXPECT_EQ(WeightsOf(&other), WeightsOf(&model));
  }
  EXPECT_EQ(back, 1);
}

TEST(OnnxWeightsTest, Load_ModulesOfPyTorch_AreFoundInOrder) {
  const char* const source = std::getenv("RINGLET_SOURCE");
  ASSERT_NE(source, nullptr);
  const std::string corpus = std::string(source) + "/tests/fuzz/corpus/onnx/";
  std::vector<float> first;
  for (const char* file : {"torch.onnx", "float_data.onnx"}) {
    Sequential model({Input({3, 3, 1}), Conv2D(2, 2), BatchNormalization(),
                      PReLU({1, 2}), Flatten(), Dense(2)});
    model.Compile(SGD(), MeanSquaredError());
    ASSERT_OK(LoadWeights(&model, corpus + file, Silent()));
    const std::vector<float> weights = WeightsOf(&model);
    if (first.empty()) first = weights;
    EXPECT_EQ(weights, first);
    // torch.nn.PReLU begins with 0.25.
    EXPECT_EQ(std::count(weights.begin(), weights.end(), 0.25f), 2);
  }
}

// Nothing in the file shows that the channels of these rows come first.
TEST(OnnxWeightsTest, Load_RowsFlattenedByPyTorch_KeepTheirOrder) {
  const char* const source = std::getenv("RINGLET_SOURCE");
  ASSERT_NE(source, nullptr);
  const std::string file =
      std::string(source) + "/tests/fuzz/corpus/onnx/torch_rows.onnx";
  Sequential model({Input({2, 2}), Dense(3), Flatten(), Dense(1)});
  model.Compile(SGD(), MeanSquaredError());
  ASSERT_OK(LoadWeights(&model, file, Silent()));
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(model.weights()[2 * 3 + 3 + i], static_cast<float>(i));
  }
}

// PyTorch's images have their channels first. Another program's file has a
// node that moves them.
TEST(OnnxWeightsTest, Load_RowsReshapedToImages_AreRefusedOfPyTorch) {
  TempFolder folder;
  const auto make = [] {
    return Sequential(
        {Input({5}), Dense(12).Name("fc"), Reshape({2, 2, 3}), Conv2D(2, 1)});
  };
  Sequential model = make(), other = make();
  CompileOne(&model);
  ASSERT_OK(ExportOnnx(&model, folder / "m"));
  other.Compile(SGD(), MeanSquaredError());
  ASSERT_OK(LoadWeights(&other, folder / "m", Silent()));
  EXPECT_EQ(WeightsOf(&other), WeightsOf(&model));
  std::string file = ReadWhole(folder / "m");
  const size_t producer = file.find("ringlet");
  ASSERT_NE(producer, std::string::npos);
  WriteWhole(folder / "torch", file.replace(producer, 7, "pytorch"));
  EXPECT_TRUE(Contains(LoadWeights(&other, folder / "torch", Silent()),
                       "layer 'fc': its outputs are reshaped to images"));
}

// Two normalizations share one tensor, since both have factors of 1.
TEST(OnnxWeightsTest, Load_TensorSharedInThePyTorchFile_GoesToBothLayers) {
  const char* const source = std::getenv("RINGLET_SOURCE");
  ASSERT_NE(source, nullptr);
  const std::string file =
      std::string(source) + "/tests/fuzz/corpus/onnx/torch_twins.onnx";
  Sequential model(
      {Input({2}), BatchNormalization(), ReLU(), BatchNormalization()});
  model.Compile(SGD(), MeanSquaredError());
  ASSERT_OK(LoadWeights(&model, file, Silent()));
  const std::vector<float> weights = WeightsOf(&model);
  for (const float number : {3.0f, 4.0f, 5.0f, 6.0f}) {
    EXPECT_EQ(std::count(weights.begin(), weights.end(), number), 2);
  }
}

struct Slopes {
  bool first;  // channels, in the file
  OnnxInts dims;
  std::vector<int64_t> shared;  // axes
};

// Writes a file with the slopes 0, 1, 2 and so on, and loads it into a model of
// input (4, 5, 3). *weights gets the model's slopes. Returns the message of the
// error, or an empty text.
std::string SlopesFrom(const std::string& file, const Slopes& s,
                       std::vector<float>* weights) {
  OnnxGraph graph;
  int x = graph.AddInput("x", {4, 5, 3});
  if (s.first)
    x = graph.AddNode("Transpose", &x, 1, {{"perm", {0, 3, 1, 2}}}, "t");
  std::vector<float> values;
  int64_t count = 1;
  for (const int64_t dim : s.dims) count *= dim;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  const int inputs[] = {
      x, graph.AddFloats("p/alpha", s.dims, values.data(), count)};
  graph.AddOutput("y", {4, 5, 3}, graph.AddNode("PRelu", inputs, 2, {}, "p"));
  EXPECT_OK(graph.Write("g", {}, PosixFiles(), file));
  std::string bytes = ReadWhole(file);  // another program's file
  WriteWhole(file, bytes.replace(bytes.find("ringlet"), 7, "another"));
  Sequential model({Input({4, 5, 3}), PReLU(s.shared).Name("p")});
  model.Compile(SGD(), MeanSquaredError());
  const Status status = LoadWeights(&model, file, Silent());
  *weights = WeightsOf(&model);
  return status.message();
}

TEST(OnnxWeightsTest, Load_SlopesOfPRelu_FollowTheOrderOfTheImages) {
  TempFolder folder;
  const std::vector<int64_t> channels = {1, 2}, rows = {1}, none;
  const Slopes all[] = {
      {false, {3}, channels},       {false, {1, 1, 3}, channels},
      {false, {3, 1, 1}, channels}, {false, {1, 1, 1, 3}, channels},
      {true, {3, 1, 1}, channels},  {true, {1, 3, 1, 1}, channels},
      {false, {4, 5, 3}, none},     {true, {3, 4, 5}, none},
      {true, {1, 3, 4, 5}, none},   {false, {5, 3}, rows},
      {true, {3, 1, 5}, rows},      {true, {1}, {1, 2, 3}},
  };
  for (const Slopes& s : all) {
    std::vector<float> weights;
    ASSERT_EQ(SlopesFrom(folder / "m", s, &weights), "") << s.dims.count;
    const size_t pixels = weights.size() / 3;
    for (size_t i = 0; i < weights.size(); ++i) {
      const size_t source_index =
          s.first && pixels > 0 ? i % 3 * pixels + i / 3 : i;
      ASSERT_EQ(weights[i], static_cast<float>(source_index)) << s.dims.count;
    }
  }
  std::vector<float> weights;
  EXPECT_TRUE(
      Contains(SlopesFrom(folder / "m", {true, {4, 1, 1}, channels}, &weights),
               "p/alpha: F32 (4, 1, 1) in the file (p.weight), F32 "
               "(3, 1, 1) expected"));
}

TEST(OnnxWeightsTest, Load_UnreadableTensor_IsNotCalledMissing) {
  TempFolder folder;
  for (const bool cast : {false, true}) {
    OnnxGraph graph;
    int inputs[] = {graph.AddInput("x", {1}),
                    graph.AddInts("d/kernel", {1, 2, 3})};
    if (cast)
      inputs[1] = graph.AddNode("Cast", &inputs[1], 1, {{"to", 1}}, "c");
    graph.AddOutput("y", {3}, graph.AddNode("MatMul", inputs, 2, {}, "d"));
    ASSERT_OK(graph.Write("g", {}, PosixFiles(), folder / "m"));
    Sequential model({Input({1}), Dense(3).UseBias(false).Name("d")});
    model.Compile(SGD(), MeanSquaredError());
    const std::string error =
        LoadWeights(&model, folder / "m", Silent()).message();
    EXPECT_FALSE(Contains(error, "missing"));
    EXPECT_TRUE(
        Contains(error, cast ? "d/kernel: given by a node Cast in the file"
                             : "d/kernel: I64 (3,) in the file (d.weight), "
                               "F32 (3, 1) expected"));
  }
}

TEST(OnnxWeightsTest, Load_OtherModelOrCutFile_OverwritesNothing) {
  TempFolder folder;
  Sequential model = SomeModel();
  CompileOne(&model);
  ASSERT_OK(ExportOnnx(&model, folder / "m"));
  const std::string file = ReadWhole(folder / "m");
  Sequential smaller({Input({4}), Dense(2)});
  CompileOne(&smaller);
  const float before = smaller.weights()[0];
  EXPECT_EQ(LoadWeights(&smaller, folder / "m", Silent()).code(),
            Code::kInvalidArgument);
  for (size_t bytes = 3; bytes < file.size(); bytes += 37) {
    WriteWhole(folder / "cut", file.substr(0, bytes));
    const Status status = LoadWeights(&smaller, folder / "cut", Silent());
    EXPECT_FALSE(status.ok()) << bytes;
    EXPECT_TRUE(Contains(status, folder / "cut"));
  }
  EXPECT_EQ(smaller.weights()[0], before);
}

}  // namespace
}  // namespace ringlet
