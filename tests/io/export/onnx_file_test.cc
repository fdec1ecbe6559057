// Tests the bytes of an ONNX file, and the models that are refused.
// tests/onnx_test.py tests that the file computes the model's outputs.

#include "ringlet/export.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/exports.h"
#include "../../support/simulated_file_system.h"
#include "core/base/crc32c.h"
#include "ringlet/custom_layer.h"

namespace ringlet {
namespace {

std::string BytesOf(Model* model, const ExportOnnxOptions& options = {}) {
  return Exported([&](const std::string& path) {
    return ExportOnnx(model, path, options);
  });
}

void ExpectRefusedOnnx(Model* model, bool softmax,
                       const std::vector<std::string>& message_parts) {
  ExportOnnxOptions options;
  options.softmax = softmax;
  ExpectRefused(
      [&](const std::string& path) { return ExportOnnx(model, path, options); },
      message_parts);
}

// Nodes with this op_type: field 4 of a NodeProto.
int NodesOf(const std::string& file, const std::string& op) {
  return CountOccurrences(
      file, "\x22" + std::string(1, static_cast<char>(op.size())) + op);
}

// --- what is written --------------------------------------------------------

TEST(OnnxFileTest, Bytes_AnyMachine_AreTheSame) {
  const auto make = [] {
    Sequential model({Input({6, 5, 2}), Rescaling({0.5f, 0.25f}, {0, -1}),
                      Conv2D(3, 3, kRelu).Padding(kSame), BatchNormalization(),
                      DepthwiseConv2D(2).Strides(2), MaxPooling2D(), Flatten(),
                      Dropout(0.5f), Dense(4, kGelu), LayerNormalization(),
                      Dense(3, kSoftmax)});
    CompileOne(&model);
    ExportOnnxOptions options;
    options.metadata["scale"] = "0.5";
    return BytesOf(&model, options);
  };
  const std::string file = make();
  EXPECT_EQ(make(), file);
  const std::string any_version = WithoutVersion(file);
  EXPECT_EQ(any_version.size(), size_t{4034});
  EXPECT_EQ(Crc32c(any_version.data(), any_version.size()), 838683127u);
}

TEST(OnnxFileTest, Images_LayersInARow_AreTransposedOnce) {
  Sequential model({Input({12, 12, 2}), Conv2D(4, 3, kRelu).Padding(kSame),
                    BatchNormalization(), LeakyReLU(), MaxPooling2D(),
                    SeparableConv2D(6, 3), ReLU(6), Dropout(0.25f),
                    UpSampling2D(2), ZeroPadding2D(1), AveragePooling2D(),
                    Flatten(), Dense(3)});
  CompileOne(&model);
  const std::string file = BytesOf(&model);
  EXPECT_EQ(NodesOf(file, "Transpose"), 1);
  EXPECT_EQ(NodesOf(file, "Conv"), 3);
  EXPECT_EQ(NodesOf(file, "Identity"), 0);
  EXPECT_EQ(NodesOf(file, "Flatten"), 1);
}

// The odd pixel of "same" padding is behind the image, as in Keras.
TEST(OnnxFileTest, Pads_OfAnEvenKernel_AreMoreBehindThanBefore) {
  Sequential model({Input({5, 5, 1}), Conv2D(1, 2).Padding(kSame)});
  CompileOne(&model);
  const std::string pads("\x04pads\x40\x00\x40\x00\x40\x01\x40\x01", 13);
  EXPECT_EQ(CountOccurrences(BytesOf(&model), pads), 1);
}

TEST(OnnxFileTest, Weights_OfASharedLayer_AreThereOnce) {
  Functional model;
  const auto x = model.Add(Input({64}));
  auto y = model.Add(Dense(64, kTanh), {x});
  for (int i = 0; i < 9; ++i) y = model.CallAgain(y, {y});
  model.Add(Add(), {x, y});
  CompileOne(&model);
  const std::string file = BytesOf(&model);
  EXPECT_EQ(NodesOf(file, "MatMul"), 10);
  const auto weights = static_cast<size_t>(model.num_weights()) * sizeof(float);
  EXPECT_GT(file.size(), weights);
  EXPECT_LT(file.size(), weights + 8192);
}

TEST(OnnxFileTest, Attention_Causal_HasNoMatrixOfSteps) {
  Functional model;
  const int x = model.Add(Input({1000, 2}));
  int y = x;
  for (int i = 0; i < 2; ++i) {
    y = model.Add(MultiHeadAttention(1, 2).UseCausalMask(true), {y, x});
  }
  CompileOne(&model);
  const std::string file = BytesOf(&model);
  EXPECT_EQ(NodesOf(file, "Where"), 2);
  EXPECT_LT(file.size(), size_t{4 * 4 * 1000 + 10000});
}

TEST(OnnxFileTest, TimeDistributed_OfAnImage_IsOneLayerOverAllSteps) {
  Sequential model({Input({3, 4, 4, 1}), TimeDistributed(Conv2D(2, 3)),
                    TimeDistributed(Flatten()), TimeDistributed(Dense(2))});
  CompileOne(&model);
  const std::string file = BytesOf(&model);
  EXPECT_EQ(NodesOf(file, "Conv"), 1);
  EXPECT_EQ(NodesOf(file, "Reshape"), 3);
}

TEST(OnnxFileTest, Softmax_Option_FollowsTheLogits) {
  Sequential model({Input({4}), Dense(3).Name("logits")});
  CompileOne(&model);
  EXPECT_EQ(NodesOf(BytesOf(&model), "Softmax"), 0);
  ExportOnnxOptions softmax;
  softmax.softmax = true;
  EXPECT_EQ(NodesOf(BytesOf(&model, softmax), "Softmax"), 1);
}

TEST(OnnxFileTest, Export_NoOperators_WritesAnIdentity) {
  Sequential model({Input({4}), Dropout(0.5f)});
  CompileOne(&model);
  EXPECT_EQ(NodesOf(BytesOf(&model), "Identity"), 1);
}

// --- what is refused --------------------------------------------------------

TEST(OnnxFileTest, Export_EveryLayer_IsWrittenOrRefusedByName) {
  EXPECT_GE(ExportEveryLayer([](Model* model, const std::string& path) {
              return ExportOnnx(model, path);
            }),
            40);
}

TEST(OnnxFileTest, Export_UserDefinedLayer_IsRefused) {
  class Mine final : public CustomLayer {
   public:
    const char* class_name() const override { return "Mine"; }
    Status Build(const std::vector<Shape>&, LayerPlan*) const override {
      return Status();
    }
    Status Forward(const LayerCall& call) const override {
      std::copy_n(call.x[0], call.batch * call.output->elements(), call.y);
      return Status();
    }
    Status Backward(const LayerCall&) const override { return Status(); }
  };
  Sequential model(
      {Input({4}), Dense(3), Custom(std::make_shared<Mine>()).Name("own")});
  CompileOne(&model);
  ExpectRefusedOnnx(&model, /*softmax=*/false,
                    {"layer 'own' is a Mine", "user-defined", "ONNX"});
}

TEST(OnnxFileTest, Export_UnsuitableModel_IsRefusedByName) {
  Sequential raw({Input({4}), Dense(3)});
  ExpectRefusedOnnx(&raw, /*softmax=*/false, {"Compile"});
  Sequential none;
  ExpectRefusedOnnx(&none, /*softmax=*/false, {});
  Sequential probabilities({Input({4}), Dense(3, kSoftmax).Name("p")});
  CompileOne(&probabilities);
  ExpectRefusedOnnx(&probabilities, /*softmax=*/true,
                    {"layer 'p'", "'softmax'"});
  Sequential one({Input({4}), Dense(1).Name("p")});
  CompileOne(&one);
  ExpectRefusedOnnx(&one, /*softmax=*/true, {"layer 'p'", "one number"});
  Sequential dropped({Input({4}), Dense(3, kSoftmax).Name("p"), Dropout(0.5f)});
  CompileOne(&dropped);
  ExpectRefusedOnnx(&dropped, /*softmax=*/true, {"layer 'p'", "'softmax'"});
  Sequential rows({Input({3, 4}), Softmax({1}).Name("p")});
  CompileOne(&rows);
  ExpectRefusedOnnx(&rows, /*softmax=*/true, {"layer 'p'", "is one"});
}

TEST(OnnxFileTest, Export_AnyOperationFails_LeavesTheOldFile) {
  Sequential model({Input({4}), Dense(3)});
  CompileOne(&model);
  for (int64_t fail = 1; fail < 12; ++fail) {
    SimulatedFileSystem files;
    ASSERT_OK(files.MakeFolder("d"));
    ExportOnnxOptions options;
    options.files = &files;
    ASSERT_OK(ExportOnnx(&model, "d/m", options));
    const std::string before = *files.Content("d/m");
    options.metadata["a"] = "b";
    files.FailAfter(fail, ENOSPC);
    const Status status = ExportOnnx(&model, "d/m", options);
    files.FailNoMore();
    if (status.ok() || files.last_failed() == "sync directory d") continue;
    EXPECT_EQ(*files.Content("d/m"), before) << files.last_failed();
    EXPECT_EQ(files.Paths().size(), 1u) << files.last_failed();
  }
}

}  // namespace
}  // namespace ringlet
