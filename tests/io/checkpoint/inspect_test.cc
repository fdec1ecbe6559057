#include "io/checkpoint/inspect.h"
#include "io/readers/storage.h"
#include "io/weights/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/simulated_file_system.h"
#include "../../support/some_state.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "core/base/json.h"
#include "io/readers/arrays/npy_layout.h"
#include "io/readers/arrays/npz.h"
#include "ringlet/checkpoint.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Spans of the test's own, in a file of the simulated disk.
class Spans final : public Saveable {
 public:
  explicit Spans(std::vector<StateSpan> spans) : spans_(std::move(spans)) {}
  void AppendState(std::vector<StateSpan>* spans) override {
    spans->insert(spans->end(), spans_.begin(), spans_.end());
  }

 private:
  const std::vector<StateSpan> spans_;
};

class InspectTest : public testing::Test {
 protected:
  InspectTest() { EXPECT_OK(files_.MakeFolder("d")); }

  void Save(const std::string& path, const std::vector<StateSpan>& spans,
            const Metadata& metadata = {}, Storage weights = Storage::kF32) {
    Spans state(spans);
    SaveOptions options;
    options.files = &files_;
    options.weights = weights;
    ASSERT_OK(SaveCheckpoint(path, {&state}, metadata, options));
  }
  FileInfo Inspect(const std::string& path) {
    FileInfo info;
    EXPECT_OK(InspectFile(path, &info, &files_));
    return info;
  }
  FileComparison Compare(size_t most = 20) {
    FileComparison comparison;
    EXPECT_OK(CompareFiles("d/a", "d/b", &comparison, most, &files_));
    return comparison;
  }

  SimulatedFileSystem files_;
};

TEST_F(InspectTest, Inspect_SeveralTensors_AreListedWithStatistics) {
  float kernel[6] = {1, -2, 0.5f, NAN, kInf, 2.5f};
  int64_t step = -7;
  uint8_t bytes[2] = {255, 1};
  double mean[2] = {0.25, 0.75};
  int32_t ints[3] = {-1, 5, 2};
  float nothing = 0;
  Save("d/a",
       {{"model/dense/kernel", DType::kFloat32, {2, 3}, kernel},
        {"fit/step", DType::kInt64, {}, &step},
        {"bytes", DType::kUint8, {2}, bytes},
        {"mean", DType::kFloat64, {2}, mean},
        {"ints", DType::kInt32, {3}, ints},
        {"none", DType::kFloat32, {0, 4}, &nothing}},
       {{"note", "two\nlines"}});
  const FileInfo info = Inspect("d/a");
  EXPECT_EQ(info.bytes, static_cast<int64_t>(files_.Content("d/a")->size()));
  EXPECT_EQ(info.verification, Verification::kVerified);
  EXPECT_EQ(info.metadata.at("note"), "two\nlines");
  ASSERT_EQ(info.tensors.size(), 6u);
  const auto expect = [&](const char* name, double min, double max,
                          double mean_of, int64_t not_finite) {
    for (const TensorInfo& tensor : info.tensors) {
      if (tensor.name != name) continue;
      EXPECT_EQ(tensor.min, min) << name;
      EXPECT_EQ(tensor.max, max) << name;
      EXPECT_EQ(tensor.mean, mean_of) << name;
      EXPECT_EQ(tensor.not_finite, not_finite) << name;
      return;
    }
    ADD_FAILURE() << name;
  };
  expect("model/dense/kernel", -2, 2.5, 0.5, 2);
  expect("fit/step", -7, -7, -7, 0);
  expect("bytes", 1, 255, 128, 0);
  expect("mean", 0.25, 0.75, 0.5, 0);
  expect("ints", -1, 5, 2, 0);
  expect("none", 0, 0, 0, 0);

  const std::string text = ToText(info);
  EXPECT_TRUE(Contains(text, "6 tensors, verified\n"));
  EXPECT_TRUE(Contains(text, "two?lines\n"));
  EXPECT_TRUE(Contains(text,
                       "model/dense/kernel  F32  (2, 3)  min -2    max 2.5   "
                       "mean 0.5  2 not finite\n"));
}

TEST_F(InspectTest, Inspect_HalfPrecision_IsReadAsStored) {
  float kernel[2] = {1, 1.0009765625f};
  Save("d/a", {{"model/k", DType::kFloat32, {2}, kernel}}, {}, Storage::kBF16);
  const FileInfo info = Inspect("d/a");
  EXPECT_EQ(info.tensors[0].storage, Storage::kBF16);
  EXPECT_EQ(info.tensors[0].max, 1);
}

TEST_F(InspectTest, ToJson_ModelFile_HoldsAllFields) {
  auto model = TinyModel(Adam(0.01f));
  SaveModelOptions options;
  options.files = &files_;
  options.metadata = {{"note", "a \"quote\"\n"}};
  ASSERT_OK(SaveModel(model.get(), "d/a", options));
  const FileInfo info = Inspect("d/a");
  Json json;
  ASSERT_OK(Json::Parse(ToJson(info), "info", &json));
  EXPECT_EQ(json["path"].text(), "d/a");
  EXPECT_EQ(json["bytes"].number(), static_cast<double>(info.bytes));
  EXPECT_EQ(json["verification"].text(), "verified");
  EXPECT_EQ(json["metadata"]["note"].text(), "a \"quote\"\n");
  EXPECT_EQ(json["metadata"]["model"].text(), info.metadata.at("model"));
  ASSERT_EQ(json["tensors"].size(), static_cast<int>(info.tensors.size()));
  const Json first = json["tensors"].first();
  EXPECT_EQ(first["name"].text(), "model/dense/kernel");
  EXPECT_EQ(first["dtype"].text(), "F32");
  EXPECT_EQ(first["shape"].size(), 2);
  EXPECT_EQ(first["shape"].first().next().number(), 16);
  EXPECT_EQ(first["min"].number(), info.tensors[0].min);
  EXPECT_EQ(first["not_finite"].number(), 0);
}

TEST_F(InspectTest, Inspect_DamagedTensor_IsNamedAndTheOthersAreListed) {
  float a[2] = {1, 2}, b[64] = {3};
  Save("d/a",
       {{"a", DType::kFloat32, {2}, a}, {"b", DType::kFloat32, {64}, b}});
  const FileInfo whole = Inspect("d/a");
  std::string* bytes = files_.Content("d/a");
  // Tensor b ends where the footer of 28 bytes begins.
  (*bytes)[bytes->size() - 29] ^= 1;
  const FileInfo info = Inspect("d/a");
  EXPECT_EQ(info.verification, Verification::kDamaged);
  EXPECT_TRUE(Contains(info.damage, "'b'"));
  EXPECT_FALSE(info.tensors[0].damaged);
  EXPECT_EQ(info.tensors[0].max, 2);
  EXPECT_TRUE(info.tensors[1].damaged);
  EXPECT_TRUE(Contains(ToText(info), "DAMAGED"));
  EXPECT_TRUE(Contains(ToJson(info), "\"damaged\":true"));
  FileComparison comparison;
  EXPECT_EQ(CompareFiles("d/a", "d/a", &comparison, 20, &files_).code(),
            Code::kCorruption);
}

TEST_F(InspectTest, Inspect_PlainSafetensors_IsUnverified) {
  float a[2] = {1, 2};
  SafetensorsWriter writer;
  SafetensorsWriter::Options plain;
  plain.profile = false;
  ASSERT_OK(writer.Plan({{"a", DType::kFloat32, {2}, a}}, {}, plain));
  std::unique_ptr<File> file;
  ASSERT_OK(files_.Create("d/a", &file));
  ASSERT_OK(writer.Write(file.get()));
  const FileInfo info = Inspect("d/a");
  EXPECT_EQ(info.verification, Verification::kUnverified);
  EXPECT_EQ(info.tensors.size(), 1u);
}

TEST_F(InspectTest, Inspect_MissingOrUnknownFile_IsRefused) {
  FileInfo info;
  EXPECT_EQ(InspectFile("d/none", &info, &files_).code(), Code::kNotFound);
  std::unique_ptr<File> file;
  ASSERT_OK(files_.Create("d/a", &file));
  ASSERT_OK(file->Write("not a file", 10));
  EXPECT_EQ(InspectFile("d/a", &info, &files_).code(), Code::kInvalidArgument);
  FileComparison comparison;
  EXPECT_EQ(CompareFiles("d/a", "d/none", &comparison, 20, &files_).code(),
            Code::kInvalidArgument);
}

class InspectNumpyTest : public InspectTest {
 protected:
  // An npz with a kernel of the mean 0.5, and the number of steps, 3.
  void WriteArchive(const char* path) {
    const int64_t steps[1] = {3};
    NpzWriter npz;
    ASSERT_OK(npz.Open(&files_, path));
    ASSERT_OK(npz.Add("dense/kernel", DType::kFloat32, {2, 2}, kernel_));
    ASSERT_OK(npz.Add("steps", DType::kInt64, {1}, steps));
    ASSERT_OK(npz.Finish());
  }

  float kernel_[4] = {1, -2, 0.5f, 2.5f};
};

TEST_F(InspectNumpyTest, Inspect_Archive_IsListedAndComparedWithAnother) {
  WriteArchive("d/a");
  WriteArchive("d/b");
  const FileInfo info = Inspect("d/a");
  EXPECT_EQ(info.format, "npz");
  EXPECT_EQ(info.verification, Verification::kVerified);
  ASSERT_EQ(info.tensors.size(), 2u);
  EXPECT_EQ(info.tensors[0].mean, 0.5);
  EXPECT_TRUE(Contains(ToText(info), " bytes, npz, 2 tensors, verified\n"));
  const FileComparison comparison = Compare();
  EXPECT_TRUE(comparison.same());
  EXPECT_EQ(comparison.tensors_compared, 2);
}

// An archive lacks the metadata and the prefix of a file of ringlet.
TEST_F(InspectNumpyTest, Compare_ArchiveWithAFileOfRinglet_FindsOtherSteps) {
  WriteArchive("d/a");
  int64_t steps = 4;
  Save("d/b",
       {{"model/dense/kernel", DType::kFloat32, {2, 2}, kernel_},
        {"steps", DType::kInt64, {1}, &steps}},
       {{"epoch", "1"}});
  const FileComparison comparison = Compare();
  ASSERT_EQ(comparison.first.size(), 1u);
  EXPECT_EQ(comparison.first[0].name, "steps");
  EXPECT_EQ(comparison.first[0].kind, FileDifference::Kind::kValues);
}

TEST_F(InspectNumpyTest, Inspect_SingleArrayWholeOrCut_IsListedOrDamaged) {
  const std::string bytes =
      NpyHeader(DType::kFloat64, {2}) + std::string(16, '\0');
  std::unique_ptr<File> file;
  ASSERT_OK(files_.Create("d/n", &file));
  ASSERT_OK(file->Write(bytes.data(), bytes.size()));
  FileInfo info = Inspect("d/n");
  EXPECT_EQ(info.format, "npy");
  EXPECT_EQ(info.verification, Verification::kUnverified);
  ASSERT_EQ(info.tensors.size(), 1u);
  EXPECT_EQ(info.tensors[0].name, "arr_0");
  EXPECT_EQ(info.tensors[0].storage, Storage::kF64);
  for (size_t n = 6; n < bytes.size(); ++n) {
    ASSERT_OK(files_.Remove("d/n"));
    ASSERT_OK(files_.Create("d/n", &file));
    ASSERT_OK(file->Write(bytes.data(), n));
    EXPECT_EQ(InspectFile("d/n", &info, &files_).code(), Code::kCorruption)
        << n;
  }
}

TEST(InspectArrayTest, Inspect_ArrayOrField_IsShownAlone) {
  TempFolder folder;
  const float x[4] = {1, -2, 0.5f, NAN};
  const int64_t n[2] = {3, 5};
  NpzWriter npz;
  ASSERT_OK(npz.Open(PosixFiles(), folder / "a.dat"));
  ASSERT_OK(npz.Add("x", DType::kFloat32, {2, 2}, x));
  ASSERT_OK(npz.Add("n", DType::kInt64, {2}, n));
  ASSERT_OK(npz.Finish());
  FileInfo info;
  Status status = InspectFile(folder / "a.dat:x", &info);
  ASSERT_OK(status);
  ASSERT_EQ(info.tensors.size(), 1u);
  EXPECT_EQ(info.tensors[0].max, 1);
  EXPECT_EQ(info.tensors[0].not_finite, 1);
  const std::string text = ToText(info);
  EXPECT_EQ(text.find(folder / "a.dat:x: "), 0u) << text;
  EXPECT_NE(text.find(" bytes, npz, 1 tensor, verified\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("x  F32  (2, 2)  min -2  max 1"), std::string::npos)
      << text;
  status = InspectFile(folder / "a.dat:y", &info);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("has no array 'y'"),
            std::string::npos);

  // An array of text, with the checksum of the numbers before.
  std::string bytes = ReadWhole(folder / "a.dat");
  const size_t descr = bytes.find("'<i8'");
  ASSERT_NE(descr, std::string::npos);
  WriteWhole(folder / "b.dat", bytes.replace(descr, 5, "'|S8'"));
  for (const char* name : {"b.dat", "b.dat:n"}) {
    status = InspectFile(folder / name, &info);
    const std::string error =
        status.ok() ? info.damage : std::string(status.message());
    EXPECT_TRUE(Contains(error, "'n': its CRC-32 differs")) << name;
    EXPECT_TRUE(!status.ok() || info.verification == Verification::kDamaged);
  }

  // A table of numbers and texts: three records of five bytes.
  std::string table = NpyHeader(DType::kUint8, {3});
  const std::string type = "'|u1'";
  const std::string fields = "[('k', '|u1'), ('t', '|S4')]";
  table.replace(table.find(type), type.size(), fields);
  table.erase(table.find(", }") + 3, fields.size() - type.size());
  WriteWhole(folder / "t.npy", table + "\1one.\4two.\7six.");
  status = InspectFile(folder / "t.npy:k", &info);
  ASSERT_OK(status);
  EXPECT_EQ(info.format, "npy");
  EXPECT_EQ(info.verification, Verification::kUnverified);
  EXPECT_EQ(info.tensors[0].mean, 4);
  ASSERT_OK(InspectFile(folder / "t.npy:t", &info));
  EXPECT_EQ(info.tensors[0].note, "text, 3 different: 'one.', 'six.', 'two.'");
  status = InspectFile(folder / "t.npy", &info);
  EXPECT_NE(std::string(status.message()).find("name one, as in"),
            std::string::npos)
      << status.message();
}

TEST_F(InspectTest, Inspect_CsvFile_ReportsItsKindAndUse) {
  std::unique_ptr<File> file;
  ASSERT_OK(files_.Create("d/t", &file));
  ASSERT_OK(file->Write("a,b\n1,2\n", 8));
  const FileInfo info = Inspect("d/t");
  EXPECT_EQ(info.format, "csv");
  EXPECT_EQ(ToText(info),
            "d/t: 8 bytes, a table in text (CSV)\nas data: \"csv\" of "
            "RUN.json, --csv\n");
  Json json;
  ASSERT_OK(Json::Parse(ToJson(info), "info", &json));
  EXPECT_EQ(json["format"].text(), "csv");
  EXPECT_EQ(json["advice"].text(), info.advice);
  FileComparison comparison;
  const Status status = CompareFiles("d/t", "d/t", &comparison, 20, &files_);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
}

TEST_F(InspectTest, Inspect_ModelFile_ShowsLayersAndTheLearningRate) {
  SaveModelOptions options;
  options.files = &files_;
  const struct {
    Optimizer optimizer;
    const char *compiled, *note;
  } cases[] = {
      {SGD(0.5f), "SGD, learning rate 0.5; ", "as compiled, 0.5"},
      {Adam(CosineDecay(0.1f, 9)), "Adam, learning rate CosineDecay; ",
       "the schedule CosineDecay"},
      {SGD(PiecewiseConstantDecay({1}, {1.f, 2.f})),
       "SGD, learning rate PiecewiseConstantDecay; ",
       "the schedule PiecewiseConstantDecay"},
  };
  for (const auto& c : cases) {
    auto model = TinyModel(c.optimizer);
    ASSERT_OK(SaveModel(model.get(), "d/a", options));
    FileInfo info = Inspect("d/a");
    EXPECT_EQ(info.summary, model->Summary());
    EXPECT_EQ(info.compiled.find(c.compiled), 0u) << info.compiled;
    EXPECT_EQ(info.tensors.back().name, "optimizer/learning_rate");
    EXPECT_EQ(info.tensors.back().note, c.note);
    std::string summary, compiled;
    ASSERT_OK(SummarizeModelFile("d/a", &summary, &compiled, &files_));
    EXPECT_EQ(summary, info.summary);
    EXPECT_EQ(compiled, info.compiled);
    // A rate that was set is a number like any other.
    model->SetLearningRate(0.25f);
    ASSERT_OK(SaveModel(model.get(), "d/a", options));
    info = Inspect("d/a");
    EXPECT_EQ(info.tensors.back().note, "");
    EXPECT_EQ(info.tensors.back().max, 0.25);
  }
}

TEST_F(InspectTest, Compare_EqualFilesInAnotherOrder_NoDifference) {
  float a[3] = {1, NAN, -0.0f};
  int64_t step = 3;
  Save("d/a",
       {{"a", DType::kFloat32, {3}, a}, {"s", DType::kInt64, {}, &step}});
  // The arrays are in another order.
  Save("d/b",
       {{"s", DType::kInt64, {}, &step}, {"a", DType::kFloat32, {3}, a}});
  const FileComparison comparison = Compare();
  EXPECT_TRUE(comparison.same());
  EXPECT_EQ(comparison.tensors_compared, 2);
  EXPECT_EQ(ToText(comparison),
            "A: d/a\nB: d/b\nno difference in metadata and 2 tensors\n");
}

TEST_F(InspectTest, Compare_EveryKindOfDifference_ErrorNamesIt) {
  float a[4] = {1, 2, 3, 4}, b[4] = {1, 2.5f, 3, 3};
  float x[3] = {0, NAN, 1}, y[3] = {-0.0f, 1, 1};
  int32_t whole[4] = {1, 2, 3, 4};
  Save("d/a",
       {{"values", DType::kFloat32, {4}, a},
        {"zeros", DType::kFloat32, {3}, x},
        {"shape", DType::kFloat32, {4}, a},
        {"dtype", DType::kFloat32, {4}, a},
        {"gone", DType::kFloat32, {4}, a}},
       {{"epoch", "3"}, {"only", "a"}});
  Save("d/b",
       {{"values", DType::kFloat32, {4}, b},
        {"zeros", DType::kFloat32, {3}, y},
        {"shape", DType::kFloat32, {2, 2}, a},
        {"dtype", DType::kInt32, {4}, whole},
        {"new", DType::kFloat32, {4}, a}},
       {{"epoch", "4"}, {"other", "b"}});
  const FileComparison comparison = Compare();
  EXPECT_EQ(ToText(comparison),
            "A: d/a\nB: d/b\n"
            "metadata 'epoch': '3' in A, '4' in B\n"
            "metadata 'only': only in A\n"
            "metadata 'other': only in B\n"
            "tensor 'values': 2 of 4 elements differ, from element 1 on, by "
            "at most 1\n"
            "tensor 'zeros': 2 of 3 elements differ, from element 0 on, by at "
            "most inf\n"
            "tensor 'shape': shape (4,) in A, (2, 2) in B\n"
            "tensor 'dtype': dtype F32 in A, I32 in B\n"
            "tensor 'gone': only in A\n"
            "tensor 'new': only in B\n");
  EXPECT_EQ(comparison.count, 9);
  Json json;
  ASSERT_OK(Json::Parse(ToJson(comparison), "diff", &json));
  EXPECT_FALSE(json["same"].as_bool());
  EXPECT_EQ(json["count"].number(), 9);
  EXPECT_EQ(json["first"].size(), 9);

  const FileComparison cut = Compare(/*most=*/2);
  EXPECT_EQ(cut.first.size(), 2u);
  EXPECT_EQ(cut.count, 9);
  EXPECT_TRUE(Contains(ToText(cut), "and 7 more differences"));
}

TEST_F(InspectTest, Compare_HalfWithFullPrecision_CountsWhatDiffers) {
  float a[2] = {1, 1.0009765625f};
  Save("d/a", {{"model/k", DType::kFloat32, {2}, a}});
  Save("d/b", {{"model/k", DType::kFloat32, {2}, a}}, {}, Storage::kBF16);
  const FileComparison comparison = Compare();
  ASSERT_EQ(comparison.first.size(), 2u);
  EXPECT_EQ(comparison.first[0].kind, FileDifference::Kind::kDType);
  EXPECT_EQ(comparison.first[1].differing, 1);
  EXPECT_EQ(comparison.first[1].largest, 0.0009765625);
}

}  // namespace
}  // namespace ringlet
