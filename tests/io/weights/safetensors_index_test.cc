// Weights in several safetensors files with an index, as Hugging Face writes
// large models.

#include "io/weights/safetensors_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/wrapped_disk.h"
#include "io/files/file_system.h"
#include "io/weights/weights_file.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

constexpr char kIndex[] = "/model.safetensors.index.json";

void WriteShard(const std::string& path, const std::vector<StateSpan>& spans) {
  SafetensorsWriter writer;
  SafetensorsWriter::Options plain;
  plain.profile = false;
  ASSERT_OK(writer.Plan(spans, {}, plain));
  std::unique_ptr<File> file;
  ASSERT_OK(PosixFiles()->Create(path, &file));
  ASSERT_OK(writer.Write(file.get()));
}

// A model of two layers in two files; the bias of the first is in the second.
class ShardsTest : public testing::Test {
 protected:
  ShardsTest() {
    WriteShard(folder_ / "model-00001-of-00002.safetensors",
               {{"a.weight", DType::kFloat32, {2, 2}, numbers_}});
    WriteShard(folder_ / "model-00002-of-00002.safetensors",
               {{"a.bias", DType::kFloat32, {2}, numbers_ + 4},
                {"b.weight", DType::kFloat32, {1, 2}, numbers_ + 6},
                {"b.bias", DType::kFloat32, {1}, numbers_ + 8}});
    files_ = {{"a.weight", "model-00001-of-00002.safetensors"},
              {"a.bias", "model-00002-of-00002.safetensors"},
              {"b.weight", "model-00002-of-00002.safetensors"},
              {"b.bias", "model-00002-of-00002.safetensors"}};
  }
  void WriteIndex() {
    std::string map;
    for (const auto& [name, file] : files_) {
      map += (map.empty() ? "\"" : ", \"") + name + "\": \"" + file + "\"";
    }
    WriteText("{\n \"metadata\": {\"total_size\": 36},\n \"weight_map\": {" +
              map + "}\n}\n");
  }
  void WriteText(const std::string& text) {
    WriteWhole(folder_.path() + kIndex, text);
  }
  // The error of loading `path`, or "".
  std::string Load(const std::string& path) {
    Sequential model(
        {Input({2}), Dense(2, kRelu).Name("a"), Dense(1).Name("b")});
    model.Compile(SGD(), MeanSquaredError());
    LoadWeightsOptions options;
    options.layout = WeightsLayout::kTorch;
    options.warn = [](const std::string&) {};
    const Status status = LoadWeights(&model, path, options);
    weights_.assign(model.weights(), model.weights() + model.num_weights());
    return status.message();
  }
  std::string Load() { return Load(folder_.path() + kIndex); }
  // Each text must be in the error, which begins with the index.
  void ExpectError(const std::vector<std::string>& parts) {
    const std::string error = Load();
    EXPECT_EQ(error.find(folder_.path() + kIndex), 0u) << error;
    for (const std::string& part : parts) {
      EXPECT_NE(error.find(part), std::string::npos)
          << error << " lacks " << part;
    }
  }

  TempFolder folder_;
  float numbers_[9] = {1, 3, 2, 4, 5, 6, 7, 8, 9};
  std::map<std::string, std::string> files_;
  std::vector<float> weights_;
};

TEST_F(ShardsTest, Load_Index_TakesTheTensorsOfAllFiles) {
  WriteIndex();
  ASSERT_EQ(Load(), "");
  EXPECT_EQ(weights_, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  WeightsFile file;
  ASSERT_OK(file.Open(PosixFiles(), folder_.path() + kIndex));
  EXPECT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.Find("b.bias")->shape, Shape({1}));
  EXPECT_EQ(file.Find("c"), nullptr);
  EXPECT_FALSE(file.verifiable());
}

// Counts how often each file is opened.
class Counting final : public WrappedDisk {
 public:
  Status Open(const std::string& path, std::unique_ptr<File>* file) override {
    ++opened[path];
    return WrappedDisk::Open(path, file);
  }
  std::map<std::string, int> opened;
};

TEST_F(ShardsTest, Open_AShardOfSeveralTensors_IsOpenedOnce) {
  WriteIndex();
  Counting files;
  SafetensorsIndex index;
  ASSERT_OK(index.Open(&files, folder_.path() + kIndex));
  EXPECT_EQ(files.opened.size(), 3u);
  for (const auto& [path, count] : files.opened) EXPECT_EQ(count, 1) << path;
}

TEST_F(ShardsTest, Load_Folder_NamesTheFileToGive) {
  WriteIndex();
  for (const std::string end : {"", "/"}) {
    EXPECT_EQ(Load(folder_.path() + end),
              folder_.path() + end + ": is a folder; give a file in it, as " +
                  folder_.path() + kIndex);
  }
  std::filesystem::remove(folder_.path() + kIndex);
  EXPECT_NE(Load(folder_.path())
                .find("as " + folder_ / "model-00001-of-00002.safetensors"),
            std::string::npos);
  TempFolder empty;
  EXPECT_EQ(Load(empty.path()), empty.path() + ": not a regular file");
}

TEST_F(ShardsTest, Load_DamagedIndexOrShard_NamesShardAndTensor) {
  for (const char* outside : {"../w", "/etc/passwd", "a/../../w", ""}) {
    files_["a.weight"] = outside;
    WriteIndex();
    ExpectError({"tensor 'a.weight' is said to be in '", outside,
                 "not a file of this folder"});
  }
  files_["a.weight"] = "model-00003-of-00002.safetensors";
  WriteIndex();
  ExpectError({"the file of tensor 'a.weight'",
               folder_ / "model-00003-of-00002.safetensors", "No such file"});
  files_["a.weight"] = "model-00002-of-00002.safetensors";
  WriteIndex();
  ExpectError({"tensor 'a.weight' is not in its file " +
               (folder_ / "model-00002-of-00002.safetensors")});
  files_["a.weight"] = "model-00001-of-00002.safetensors";
  WriteIndex();
  const std::string shard = folder_ / files_["a.weight"];
  const std::string bytes = ReadWhole(shard);
  for (const size_t length : {size_t{0}, size_t{7}, bytes.size() - 1}) {
    WriteWhole(shard, bytes.substr(0, length));
    ExpectError({"the file of tensor 'a.weight'", shard});
  }
  // The index names itself.
  files_["a.weight"] = kIndex + 1;
  WriteIndex();
  ExpectError({"not a safetensors file"});
}

TEST_F(ShardsTest, Load_TextOfAnotherKind_ErrorNamesIt) {
  WriteText("{\"weight_map\": []}");
  ExpectError({"no \"weight_map\" of tensors"});
  WriteText("{\"weight_map\": {}}");
  ExpectError({"no \"weight_map\" of tensors"});
  WriteText("{\"weight_map\": {\"a.weight\": 3}}");
  ExpectError({"'a.weight' is said to be in ''"});
  WriteText("{\"weight_map\": {\"a.weight\": \"x\", \"a.weight\": \"x\"}}");
  ExpectError({"twice"});
  WriteText("{\"model\": \"m.json\", \"data\": {}}");
  ExpectError({"is a RUN.json, not safetensors or npz"});
  WriteText("{\"weight_map\": ");
  ExpectError({"line 1, near column 16: the text ends too early"});
  WriteText("{\"weights\": ");
  ExpectError({"is a JSON text, not safetensors"});
}

// A header of 123 bytes begins like a JSON text.
TEST_F(ShardsTest, Load_SafetensorsWithABraceAsLength_IsNoIndex) {
  std::string header =
      "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  header.append('{' - header.size(), ' ');
  WriteWhole(folder_ / "w",
             std::string("{\0\0\0\0\0\0\0", 8) + header + "1234");
  WeightsFile file;
  ASSERT_OK(file.Open(PosixFiles(), folder_ / "w"));
  EXPECT_EQ(file.format(), WeightsFile::Format::kSafetensors);
}

TEST_F(ShardsTest, Load_AnyByteOfTheIndexChanged_IsReadOrRefused) {
  WriteIndex();
  const std::string good = ReadWhole(folder_.path() + kIndex);
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int flip : {1, 2, 0x20, 0x80}) {
      std::string text = good;
      text[i] = static_cast<char>(text[i] ^ flip);
      WriteText(text);
      const std::string error = Load();
      if (error.empty()) continue;
      EXPECT_EQ(error.find(folder_.path() + kIndex), 0u) << error;
    }
  }
}

}  // namespace
}  // namespace ringlet
