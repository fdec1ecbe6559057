// Weights of a layers model of TensorFlow.js: model.json and its shards.

#include "io/weights/tfjs_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "core/base/byte_order.h"
#include "core/base/float16.h"
#include "core/model/model_parts.h"
#include "io/checkpoint/inspect.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

using Floats = std::vector<float>;

constexpr char kTopology[] = R"({"keras_version": "2.4.0",
    "backend": "tensorflow", "model_config": {"class_name": "Sequential",
    "config": {"name": "sequential", "layers": [
      {"class_name": "InputLayer", "config":
        {"batch_input_shape": [null, 2], "dtype": "float32", "name": "in"}},
      {"class_name": "Dense", "config": {"name": "dense", "units": 3}}]}}})";

template <typename T>
std::string BytesOf(const std::vector<T>& numbers) {
  std::string bytes;
  for (const T number : numbers) AppendLittle(number, &bytes);
  return bytes;
}

std::string FloatBytes(const Floats& floats) {
  std::string bytes(4 * floats.size(), '\0');
  EncodeElements(Storage::kF32, floats.data(), floats.size(),
                 reinterpret_cast<unsigned char*>(&bytes[0]));
  return bytes;
}

std::string Weight(const std::string& name, const std::string& shape,
                   const std::string& more = "") {
  return R"({"name": ")" + name + R"(", "shape": )" + shape +
         R"(, "dtype": "float32")" + more + "}";
}

std::string Quantization(const std::string& dtype, const std::string& numbers) {
  return R"(, "quantization": {"dtype": ")" + dtype +
         R"(", "original_dtype": "float32")" + numbers + "}";
}

std::string Group(const std::string& paths, const std::string& weights) {
  return R"({"paths": [)" + paths + R"(], "weights": [)" + weights + "]}";
}

std::string ModelJson(const std::string& groups) {
  return std::string(
             R"({"format": "layers-model", "generatedBy": "keras v2.4.0",
      "convertedBy": "TensorFlow.js Converter v3.18.0", "modelTopology": )") +
         kTopology + R"(, "weightsManifest": [)" + groups + "]}";
}

const std::string& TwoWeights() {
  static const std::string text =
      Weight("dense/kernel", "[2, 3]") + ", " + Weight("dense/bias", "[3]");
  return text;
}

const Floats kKernel = {1, -2, 3, 0.5, 0.25, -0.125};
const Floats kBias = {10, 20, 30};

// The model of `json` with the weights of the file beside it.
Status Load(const std::string& path, std::unique_ptr<Model>* model,
            WeightsReport* report = nullptr) {
  EXPECT_OK(ModelFromJson(ReadWhole(path), model));
  CompileOptions options;
  options.seed = 3;
  (*model)->Compile(SGD(), MeanSquaredError(), {}, options);
  LoadWeightsOptions silent;
  silent.warn = [](const std::string&) {};
  return LoadWeights(model->get(), path, silent, report);
}

Floats Loaded(const std::string& path) {
  std::unique_ptr<Model> model;
  WeightsReport report;
  const Status status = Load(path, &model, &report);
  EXPECT_OK(status);
  EXPECT_EQ(report.loaded.size(), 2u);
  EXPECT_FALSE(report.verified);
  return {model->weights(), model->weights() + model->num_weights()};
}

Floats Joined(const Floats& a, const Floats& b) {
  Floats all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

TEST(TfjsWeightsTest, Load_WeightsOverShards_HaveTheirValues) {
  const DataFiles files;
  const std::string bytes = FloatBytes(Joined(kKernel, kBias));
  const std::string path = files.Write(
      "model.json",
      ModelJson(Group(R"("group1-shard1of3.bin", "./group1-shard2of3.bin",
                         "group1-shard3of3.bin")",
                      TwoWeights())));
  files.Write("group1-shard1of3.bin", bytes.substr(0, 10));
  files.Write("group1-shard2of3.bin", bytes.substr(10, 17));
  files.Write("group1-shard3of3.bin", bytes.substr(27));
  EXPECT_EQ(Loaded(path), Joined(kKernel, kBias));
}

TEST(TfjsWeightsTest, Load_TwoGroups_HaveTheirValues) {
  const DataFiles files;
  std::filesystem::create_directory(files.Path("weights"));
  const std::string path = files.Write(
      "model.json",
      ModelJson(Group(R"("a.bin")", Weight("sequential/dense/bias", "[3]")) +
                ", " +
                Group(R"("weights/b.bin")", Weight("dense/kernel", "[2, 3]"))));
  files.Write("a.bin", FloatBytes(kBias));
  files.Write("weights/b.bin", FloatBytes(kKernel));
  EXPECT_EQ(Loaded(path), Joined(kKernel, kBias));
}

// The numbers of TensorFlow.js are number * scale + min, in double.
TEST(TfjsWeightsTest, Load_QuantizedWeights_AreScaled) {
  const DataFiles files;
  const std::string path = files.Write(
      "model.json",
      ModelJson(Group(
          R"("w.bin")",
          Weight("dense/kernel", "[2, 3]",
                 Quantization("uint8", R"(, "scale": 0.25, "min": -8.0)")) +
              ", " +
              Weight("dense/bias", "[3]",
                     Quantization("uint16",
                                  R"(, "scale": 0.001, "min": -1.5)")))));
  files.Write("w.bin", BytesOf<uint8_t>({0, 1, 32, 33, 128, 255}) +
                           BytesOf<uint16_t>({0, 1500, 65535}));
  EXPECT_EQ(Loaded(path), Floats({-8, -7.75, 0, 0.25, 24, 55.75, -1.5, 0,
                                  static_cast<float>(65535 * 0.001 - 1.5)}));
}

TEST(TfjsWeightsTest, Load_HalfPrecision_HasTheRoundedValues) {
  const DataFiles files;
  const std::string path = files.Write(
      "model.json",
      ModelJson(Group(R"("w.bin")", Weight("dense/kernel", "[2, 3]",
                                           Quantization("float16", "")) +
                                        ", " + Weight("dense/bias", "[3]"))));
  std::vector<uint16_t> halves;
  for (const float value : kKernel) halves.push_back(Float16OfFloat(value));
  files.Write("w.bin", BytesOf(halves) + FloatBytes(kBias));
  EXPECT_EQ(Loaded(path), Joined(kKernel, kBias));
}

TEST(TfjsWeightsTest, Forward_LoadedModel_ComputesItsProduct) {
  const DataFiles files;
  const std::string path =
      files.Write("model.json", ModelJson(Group(R"("w.bin")", TwoWeights())));
  files.Write("w.bin", FloatBytes(Joined(kKernel, kBias)));
  std::unique_ptr<Model> model;
  ASSERT_OK(Load(path, &model));
  for (const int64_t batch : {1, 32, 100, 33}) {
    Floats x;
    for (int64_t i = 0; i < 2 * batch; ++i) x.push_back(float(i % 7) - 3);
    ASSERT_OK(model->Forward(x.data(), batch, /*training=*/false));
    for (int64_t i = 0; i < 3 * batch; ++i) {
      const size_t row = static_cast<size_t>(i / 3) * 2, c = i % 3;
      EXPECT_EQ(model->output()[i],
                x[row] * kKernel[c] + x[row + 1] * kKernel[3 + c] + kBias[c]);
    }
  }
}

TEST(TfjsWeightsTest, Inspect_ModelJson_ListsItsWeights) {
  const DataFiles files;
  const std::string path = files.Write(
      "model.json",
      ModelJson(Group(R"("w.bin")",
                      TwoWeights() + R"(, {"name": "phase", "shape": [1],
                          "dtype": "complex64"}, {"name": "step", "shape": [],
                          "dtype": "int32"})")));
  files.Write("w.bin", FloatBytes(Joined(kKernel, kBias)) +
                           std::string(8, '\1') + BytesOf<int32_t>({-5}));
  FileInfo info;
  const Status status = InspectFile(path, &info);
  ASSERT_OK(status);
  EXPECT_EQ(info.format, "tfjs");
  ASSERT_EQ(info.tensors.size(), 4u);
  EXPECT_EQ(info.tensors[1].name, "dense/bias");
  EXPECT_EQ(info.tensors[1].max, 30);
  EXPECT_EQ(info.tensors[2].note, "not read: complex64");
  EXPECT_EQ(info.tensors[3].min, -5);
}

// Keras stores what Normalization.adapt computed as weights.
TEST(TfjsWeightsTest, Load_AdaptedNormalization_HasItsStatistics) {
  const DataFiles files;
  const std::string path = files.Write(
      "model.json",
      ModelJson(Group(R"("w.bin")",
                      Weight("normalization/mean", "[2]") + ", " +
                          Weight("normalization/variance", "[1, 1, 2]") + ", " +
                          Weight("normalization/count", "[]") + ", " +
                          TwoWeights())));
  files.Write("w.bin",
              FloatBytes(Joined({1, -2, 4, 16, 9}, Joined(kKernel, kBias))));
  Sequential model({Input({2}), Normalization(), Dense(3)});
  model.Compile(SGD(), MeanSquaredError());
  EXPECT_FALSE(ModelParts(&model).graph().CheckAdapted().ok());
  LoadWeightsOptions silent;
  silent.warn = [](const std::string&) {};
  WeightsReport report;
  const Status status = LoadWeights(&model, path, silent, &report);
  ASSERT_OK(status);
  EXPECT_EQ(report.unexpected.size(), 0u);
  ASSERT_OK(ModelParts(&model).graph().CheckAdapted());
  EXPECT_EQ(model.layer(1).means, Floats({1, -2}));
  EXPECT_EQ(model.layer(1).variances, Floats({4, 16}));
  const float x[] = {5, 2};
  ASSERT_OK(model.Forward(x, 1, /*training=*/false));
  for (size_t c = 0; c < 3; ++c) {  // 2 and 1 after the normalization
    EXPECT_EQ(model.output()[c], 2 * kKernel[c] + kKernel[3 + c] + kBias[c]);
  }
}

// --- what is refused --------------------------------------------------------

struct Wrong {
  const char* name;
  const char* from;  // the replaced text of model.json
  const char* to;    // the new text
  const char* message;
};

std::ostream& operator<<(std::ostream& out, const Wrong& wrong) {
  return out << wrong.name;
}

class WrongTfjsTest : public testing::TestWithParam<Wrong> {};

TEST_P(WrongTfjsTest, Load_WrongManifest_IsRefusedWithItsPlace) {
  const DataFiles files;
  std::filesystem::create_directory(files.Path("m"));
  std::string json = ModelJson(Group(R"("w.bin")", TwoWeights()));
  const size_t at = json.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  json.replace(at, std::string(GetParam().from).size(), GetParam().to);
  const std::string bytes = FloatBytes(Joined(kKernel, kBias));
  const std::string path = files.Write("m/model.json", json);
  files.Write("m/w.bin", bytes);
  files.Write("w.bin", bytes);
  files.Write("m/short.bin", bytes.substr(0, 30));
  files.Write("m/long.bin", bytes + "12345");
  std::unique_ptr<Model> model;
  const Status status = Load(path, &model);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find(GetParam().message),
            std::string::npos)
      << status.message();
}

const Wrong kWrong[] = {
    {"ShardAbove", "w.bin", "../w.bin",
     "weightsManifest[0].paths[0]: '../w.bin' is not the path of a file in the "
     "folder"},
    {"ShardAboveWithin", "w.bin", "m/../../w.bin", "not the path of a file"},
    {"ShardAboveAtTheEnd", "w.bin", "./a/..", "not the path of a file"},
    {"AbsoluteShard", "w.bin", "/etc/passwd", "'/etc/passwd' is not the path"},
    {"AbsoluteShardBehindADot", "w.bin", ".//etc/passwd", "not the path"},
    {"ShardWithAnEmptyPart", "w.bin", "a//w.bin", "not the path of a file"},
    {"ShardThroughADot", "w.bin", "./././w.bin", "not the path of a file"},
    {"ShardTwice", "\"w.bin\"", "\"w.bin\", \"./w.bin\"", "paths[1]: names "},
    {"ShardOfWindows", "w.bin", "..\\\\w.bin", "not the path of a file"},
    {"ShardWithoutName", "w.bin", "", "not the path of a file"},
    {"ShardOfANumber", "\"w.bin\"", "7", "not the path of a file"},
    {"NoShard", "\"w.bin\"", "", "\"paths\" must be a list of files"},
    {"MissingShard", "w.bin", "group1-shard1of1.bin",
     "/m/group1-shard1of1.bin"},
    {"ShortShard", "w.bin", "short.bin",
     "/m/short.bin: is cut short, or another model's: weight 'dense/bias'"},
    {"LongShard", "w.bin", "long.bin", "/m/long.bin: has 5 bytes more"},
    {"SecondShardMissing", "\"w.bin\"", "\"w.bin\", \"v.bin\"",
     "weightsManifest[0].paths[1]: "},
    {"HugeShape", "[2, 3]", "[9007199254740992, 2]", "is too large"},
    {"ShapeBeyondTheShard", "[2, 3]", "[2, 300000000]", "w.bin: is cut short"},
    {"NegativeSize", "[2, 3]", "[-2, -3]", "\"shape\" must be a list"},
    {"ShapeOfText", "[2, 3]", "\"2\"", "\"shape\" must be a list"},
    {"ShapeOfNineAxes", "[2, 3]", "[2, 3, 1, 1, 1, 1, 1, 1, 1]",
     "at most 8 sizes"},
    {"NoName", "\"name\": \"dense/kernel\"", "\"name\": 3",
     "weightsManifest[0].weights[0]: \"name\" must be a string"},
    {"TwoOfOneName", "dense/bias", "dense/kernel",
     "two weights 'dense/kernel'"},
    {"Strings", "\"dtype\": \"float32\"}]", "\"dtype\": \"string\"}]",
     "weights[1] 'dense/bias': dtype 'string' is not supported"},
    {"NoManifest", "\"weightsManifest\"", "\"manifest\"",
     "has no \"weightsManifest\""},
    {"NoWeights", "\"weights\"", "\"weight\"", "\"weights\" must be a list"},
    {"QuantizedWithoutScale", "\"dtype\": \"float32\"}]",
     "\"dtype\": \"float32\", \"quantization\": {\"dtype\": \"uint8\"}}]",
     "\"scale\" and \"min\" must be numbers"},
    {"QuantizedBeyondFloat", "\"dtype\": \"float32\"}]",
     "\"dtype\": \"float32\", \"quantization\": {\"dtype\": \"uint8\", "
     "\"scale\": 1e38, \"min\": 0}}]",
     "within float32"},
    {"QuantizedAsOther", "\"dtype\": \"float32\"}]",
     "\"dtype\": \"float32\", \"quantization\": {\"dtype\": \"int4\"}}]",
     "is float32 as int4"},
    {"QuantizedIntegers", "\"dtype\": \"float32\"}]",
     "\"dtype\": \"int32\", \"quantization\": {\"dtype\": \"uint8\"}}]",
     "is int32 as uint8"},
    {"OtherName", "dense/kernel", "other/kernel",
     "missing in the file 'dense/kernel'"},
    {"OtherShape", "[2, 3]", "[3, 2]", "dense/kernel: F32 (3, 2) in the file"},
};

INSTANTIATE_TEST_SUITE_P(Tfjs, WrongTfjsTest, testing::ValuesIn(kWrong),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

// All shards but the last have the size of the largest.
TEST(TfjsWeightsTest, Open_ShardOfSeveralIsShort_ErrorNamesIt) {
  const std::string bytes = FloatBytes(Joined(kKernel, kBias));
  for (const int cut : {1, 2, 3}) {
    const DataFiles files;
    const std::string path = files.Write(
        "model.json",
        ModelJson(Group(R"("1.bin", "2.bin", "3.bin")", TwoWeights())));
    for (const int shard : {1, 2, 3}) {
      const std::string all =
          bytes.substr(static_cast<size_t>(shard - 1) * 16, 16);
      files.Write(std::to_string(shard) + ".bin",
                  shard == cut ? all.substr(0, 2) : all);
    }
    TfjsWeights weights;
    const Status status = weights.Open(PosixFiles(), path);
    EXPECT_NE(std::string(status.message())
                  .find("/" + std::to_string(cut) + ".bin: is cut short"),
              std::string::npos)
        << status.message();
  }
}

// A shard that changes while it is in use.
TEST(TfjsWeightsTest, Read_ShardCutAfterOpen_IsAnErrorWithItsName) {
  const DataFiles files;
  const std::string path =
      files.Write("model.json", ModelJson(Group(R"("w.bin")", TwoWeights())));
  files.Write("w.bin", FloatBytes(Joined(kKernel, kBias)));
  TfjsWeights weights;
  ASSERT_OK(weights.Open(PosixFiles(), path));
  files.Write("w.bin", "short");
  Floats read(6);
  const Status status = weights.Read(weights.tensors()[0], read.data());
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(std::string(status.message()).find("w.bin"), std::string::npos);
}

TEST(TfjsWeightsTest, Open_TextThatIsCut_NamesThePlace) {
  const DataFiles files;
  const std::string json = ModelJson(Group(R"("w.bin")", TwoWeights()));
  const std::string path =
      files.Write("model.json", json.substr(0, json.size() - 20));
  Sequential model({Input({2}), Dense(3)});
  model.Compile(SGD(), MeanSquaredError());
  const Status status = LoadWeights(&model, path);
  EXPECT_NE(std::string(status.message()).find("model.json: line "),
            std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace ringlet
