// LoadWeights, and files of other programs.

#include "io/weights/safetensors.h"
#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/python.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "core/base/byte_order.h"
#include "io/files/atomic_file.h"
#include "io/files/file_system.h"
#include "trained_file.h"

namespace ringlet {
namespace {

// --- weights ----------------------------------------------------------------

using Names = std::vector<std::string>;

LoadWeightsOptions Silent() {
  LoadWeightsOptions options;
  options.warn = [](const std::string&) {};
  return options;
}

TEST(LoadWeightsTest, LoadWeights_LayersInAnotherOrder_AreFoundByName) {
  TempFolder folder;
  Functional a, b;
  {
    const auto x = a.Add(Input({4}));
    const auto l = a.Add(Dense(4).Name("left"), {x});
    const auto r = a.Add(Dense(4).Name("right"), {x});
    a.Add(Dense(2).Name("out"), {a.Add(Add(), {l, r})});
  }
  {
    const auto x = b.Add(Input({4}));
    const auto r = b.Add(Dense(4).Name("right"), {x});
    const auto l = b.Add(Dense(4).Name("left"), {x});
    b.Add(Dense(2).Name("out"), {b.Add(Add(), {l, r})});
  }
  CompileOptions other_seed;
  other_seed.seed = 9;
  a.Compile(SGD(0.1f), MeanSquaredError());
  b.Compile(SGD(0.1f), MeanSquaredError(), {}, other_seed);
  ASSERT_OK(SaveWeights(&a, folder / "w"));
  WeightsReport report;
  ASSERT_OK(LoadWeights(&b, folder / "w", {}, &report));
  EXPECT_TRUE(report.verified);
  EXPECT_EQ(report.loaded, (Names{"right/kernel", "right/bias", "left/kernel",
                                  "left/bias", "out/kernel", "out/bias"}));
  for (const Variable& v : a.variables()) {
    for (const Variable& w : b.variables()) {
      if (v.path != w.path) continue;
      EXPECT_EQ(std::memcmp(a.weights() + v.offset, b.weights() + w.offset,
                            sizeof(float) * static_cast<size_t>(v.size())),
                0)
          << v.path;
    }
  }
}

TEST(LoadWeightsTest, LoadWeights_Mismatch_IsReportedAndOverwritesNothing) {
  TempFolder folder;
  Sequential saved({Input({2}), Dense(8).Name("a"), Dense(4).Name("b"),
                    Dense(3).Name("old")});
  Sequential model({Input({2}), Dense(8).Name("a"), Dense(5).Name("b"),
                    Dense(3).Name("new")});
  CompileOptions other_seed;
  other_seed.seed = 9;
  saved.Compile(SGD(0.1f), MeanSquaredError());
  model.Compile(SGD(0.1f), MeanSquaredError(), {}, other_seed);
  ASSERT_OK(SaveWeights(&saved, folder / "w"));
  const std::vector<float> before = WeightsOf(&model);

  WeightsReport report;
  LoadWeightsOptions options = Silent();
  Status status = LoadWeights(&model, folder / "w", options, &report);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status, "b/kernel: F32 (8, 4) in the file, F32 (8, 5)"));
  EXPECT_EQ(report.missing, (Names{"new/kernel", "new/bias"}));
  EXPECT_EQ(report.unexpected, (Names{"old/kernel", "old/bias"}));
  EXPECT_EQ(report.mismatched,
            (Names{"b/kernel: F32 (8, 4) in the file, F32 (8, 5) here",
                   "b/bias: F32 (4,) in the file, F32 (5,) here"}));
  EXPECT_EQ(report.loaded, Names());
  EXPECT_EQ(WeightsOf(&model), before);

  options.by_name = true;  // shapes must fit
  EXPECT_FALSE(LoadWeights(&model, folder / "w", options, &report).ok());
  EXPECT_EQ(WeightsOf(&model), before);

  std::string warned;
  options.skip_mismatch = true;
  const std::string path = folder / "w";
  options.warn = [&](const std::string& message) {
    EXPECT_EQ(message.find(path + ": "), 0u) << message;
    warned += message.substr(path.size() + 2) + "\n";
  };
  status = LoadWeights(&model, folder / "w", options, &report);
  ASSERT_OK(status);
  EXPECT_EQ(report.loaded, (Names{"a/kernel", "a/bias"}));
  EXPECT_EQ(warned,
            "skipped: b/kernel: F32 (8, 4) in the file, F32 (8, 5) here\n"
            "skipped: b/bias: F32 (4,) in the file, F32 (5,) here\n"
            "skipped: new/kernel: missing in the file\n"
            "skipped: new/bias: missing in the file\n"
            "skipped: old/kernel: in the file only\n"
            "skipped: old/bias: in the file only\n"
            "2 of 6 weights are taken, 2 differ, 2 missing in the file, 2 in "
            "the file only\n");
  const std::vector<float> after = WeightsOf(&model);
  EXPECT_EQ(std::memcmp(after.data(), saved.weights(), 24 * sizeof(float)), 0);
  EXPECT_EQ(std::vector<float>(after.begin() + 24, after.end()),
            std::vector<float>(before.begin() + 24, before.end()));
}

TEST(LoadWeightsTest, LoadWeights_NothingInCommon_IsRefused) {
  TempFolder folder;
  Sequential saved({Input({2}), Dense(8).Name("a")});
  Sequential model({Input({3}), Dense(8).Name("b")});
  saved.Compile(SGD(0.1f), MeanSquaredError());
  model.Compile(SGD(0.1f), MeanSquaredError());
  ASSERT_OK(SaveWeights(&saved, folder / "w"));
  LoadWeightsOptions options = Silent();
  options.by_name = true;
  Status status = LoadWeights(&model, folder / "w", options);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status,
                       "missing in the file 'b/kernel', 'b/bias'; in the file "
                       "only 'a/kernel', 'a/bias'. by_name (--by-name) needs "
                       "layers of the same names"));
  options.by_name = false;
  options.skip_mismatch = true;
  EXPECT_FALSE(LoadWeights(&model, folder / "w", options).ok());
  Sequential other({Input({3}), Dense(8).Name("a")});
  other.Compile(SGD(0.1f), MeanSquaredError());
  for (const bool by_name : {false, true}) {  // one name, but another shape
    options.by_name = by_name;
    status = LoadWeights(&other, folder / "w", options);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, "differing 'a/kernel"));
  }
}

TEST(LoadWeightsTest, LoadWeights_ManyMissing_WarnsInAFewLines) {
  TempFolder folder;
  Sequential saved({Input({2}), Dense(2).Name("first")});
  Sequential model({Input({2}), Dense(2).Name("first"), Dense(2), Dense(2),
                    Dense(2), Dense(2), Dense(2), Dense(2)});
  saved.Compile(SGD(0.1f), MeanSquaredError());
  model.Compile(SGD(0.1f), MeanSquaredError());
  ASSERT_OK(SaveWeights(&saved, folder / "w"));
  LoadWeightsOptions options;
  options.by_name = true;
  std::vector<std::string> warned;
  options.warn = [&](const std::string& line) { warned.push_back(line); };
  ASSERT_OK(LoadWeights(&model, folder / "w", options));
  ASSERT_EQ(warned.size(), 11u);
  EXPECT_TRUE(Contains(warned.back(), "2 of 14 weights are taken, 12 missing"));
}

TEST(LoadWeightsTest, LoadWeights_LayerFitsInPart_IsNotLoaded) {
  TempFolder folder;
  Sequential saved({Input({2}), Dense(8).Name("a"), Dense(4).Name("b")});
  Sequential wider({Input({3}), Dense(8).Name("a"), Dense(4).Name("b")});
  saved.Compile(SGD(0.1f), MeanSquaredError());
  wider.Compile(SGD(0.1f), MeanSquaredError());
  ASSERT_OK(SaveWeights(&saved, folder / "w"));
  WeightsReport report;
  LoadWeightsOptions options = Silent();
  options.skip_mismatch = true;
  ASSERT_OK(LoadWeights(&wider, folder / "w", options, &report));
  EXPECT_EQ(report.skipped, (Names{"a/bias"}));
  EXPECT_EQ(report.loaded, (Names{"b/kernel", "b/bias"}));

  Sequential no_bias(
      {Input({2}), Dense(8).UseBias(false).Name("a"), Dense(4).Name("b")});
  no_bias.Compile(SGD(0.1f), MeanSquaredError());
  ASSERT_OK(SaveWeights(&no_bias, folder / "n"));
  options.skip_mismatch = false;
  options.by_name = true;
  const Status status = LoadWeights(&saved, folder / "n", options, &report);
  EXPECT_TRUE(Contains(status, "missing in the file 'a/bias'"));
}

TEST(LoadWeightsTest, LoadWeights_NaNOrInfinity_Warns) {
  TempFolder folder;
  const auto made = [] {
    std::unique_ptr<Sequential> model(
        new Sequential({Input({2}), Dense(3).Name("a"), Dense(4).Name("b")}));
    model->Compile(SGD(0.1f), MeanSquaredError());
    return model;
  };
  auto model = made();
  for (const float value : {NAN, -INFINITY, 1.0f}) {
    model->weights()[model->num_weights() - 1] = value;
    ASSERT_OK(SaveWeights(model.get(), folder / "w"));
    ASSERT_OK(SaveModel(model.get(), folder / "m.safetensors"));
    std::string printed;
    LoadWeightsOptions options;
    options.warn = [&printed](const std::string& text) { printed += text; };
    ASSERT_OK(LoadWeights(made().get(), folder / "w", options));
    testing::internal::CaptureStderr();
    std::unique_ptr<Model> loaded;
    ASSERT_OK(LoadModel(folder / "m.safetensors", &loaded));
    const std::string whole = testing::internal::GetCapturedStderr();
    const std::string expected = ": NaN or infinite numbers in 'b/bias', and";
    for (const std::string& text : {printed, whole}) {
      EXPECT_EQ(text.find(expected) == std::string::npos, value == 1) << text;
    }
  }
}

TEST(LoadWeightsTest, LoadWeights_FileOfAWholeModel_IsTaken) {
  TempFolder folder;
  auto model = TinyModel(Adam(0.01f));
  Train(model.get(), 1);
  ASSERT_OK(SaveModel(model.get(), folder / "m"));
  CompileOptions other_seed;
  other_seed.seed = 9;
  auto other = TinyModel(SGD(0.1f), 0, other_seed);
  WeightsReport report;
  ASSERT_OK(LoadWeights(other.get(), folder / "m", {}, &report));
  EXPECT_EQ(report.unexpected, Names());
  EXPECT_TRUE(SameBits(model.get(), other.get()));
}

TEST(LoadWeightsTest, LoadWeights_DamagedFile_OverwritesNothing) {
  SimulatedFileSystem files;
  ASSERT_OK(files.MakeFolder("d"));
  SaveOptions saving;
  saving.files = &files;
  LoadWeightsOptions options = Silent();
  options.files = &files;
  auto model = TinyModel();
  ASSERT_OK(SaveWeights(model.get(), "d/w", saving));
  const std::string whole = *files.Content("d/w");
  const std::vector<float> before = WeightsOf(model.get());
  Train(model.get(), 1);
  const std::vector<float> trained = WeightsOf(model.get());
  for (size_t at = 0; at < whole.size(); at += 3) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    *files.Content("d/w") = damaged;
    EXPECT_FALSE(LoadWeights(model.get(), "d/w", options).ok()) << at;
    EXPECT_EQ(WeightsOf(model.get()), trained) << at;
  }
  *files.Content("d/w") = whole;
  EXPECT_OK(LoadWeights(model.get(), "d/w", options));
  EXPECT_EQ(WeightsOf(model.get()), before);
}

// --- other programs ---------------------------------------------------------

bool HaveNumpy() {
  return HavePython() &&
         std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") == 0;
}

TEST(OtherProgramsTest, SaveModel_ReadByPython_GivesTheSameLogits) {
  if (!HaveNumpy()) GTEST_SKIP() << "python3 with numpy is not installed";
  TempFolder folder;
  constexpr int64_t kCount = 12, kPixels = 28 * 28;
  std::vector<float> x(kCount * kPixels);
  std::vector<int32_t> y(kCount);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = 0.5f + 0.5f * std::sin(static_cast<float>(i * i % 9973));
  }
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i % 10);
  const Dataset data =
      Dataset(MemorySource({DType::kFloat32, {28, 28}}, x.data(),
                           {DType::kInt32, {}}, y.data(), kCount))
          .Batch(4);
  Sequential model({Input({28, 28}), Reshape({28, 28, 1}), Conv2D(32, 3, kRelu),
                    Flatten(), Dense(128, kRelu), Dense(10)});
  model.Compile(SGD(0.05f), SparseCategoricalCrossentropy(kFromLogits));
  ASSERT_OK(model.Fit(data, Quiet(3)));  // biases are no longer zero
  auto predicted = model.Predict(data);
  ASSERT_OK(predicted.status());

  ASSERT_OK(SaveModel(&model, folder / "cnn.safetensors"));
  SwapToLittle(x.data(), sizeof(float), x.size());
  WriteWhole(folder / "x.f32", {reinterpret_cast<const char*>(x.data()),
                                x.size() * sizeof(float)});
  const std::vector<std::string> lines =
      RunPython(Script("model_logits.py") + folder.path() +
                "/cnn.safetensors " + folder.path() + "/x.f32");
  ASSERT_EQ(lines.size(), static_cast<size_t>(kCount));
  float largest = 0;
  for (size_t row = 0; row < lines.size(); ++row) {
    std::istringstream line(lines[row]);
    for (size_t i = 0; i < 10; ++i) {
      float other = NAN;
      ASSERT_TRUE(line >> other) << lines[row];
      EXPECT_NEAR(predicted.value()[row * 10 + i], other, 1e-4);
      largest = std::max(largest, std::fabs(other));
    }
  }
  EXPECT_GT(largest, 0.1f);  // zeros would prove nothing
}

TEST(OtherProgramsTest, LoadWeights_WrittenByPython_AreTakenAsUnverified) {
  if (!HaveNumpy()) GTEST_SKIP() << "python3 with numpy is not installed";
  TempFolder folder;
  for (const char* prefix : {"''", "model/"}) {
    auto model = TinyModel();
    const std::string path = folder / "w.safetensors";
    RunPython(Script("write_safetensors.py") + path + " " + prefix +
              " dense_1/kernel=16x3 dense_1/bias=3 dense/kernel=2x16"
              " dense/bias=16");
    WeightsReport report;
    std::string warned;
    LoadWeightsOptions options;
    options.warn = [&](const std::string& message) { warned += message; };
    ASSERT_OK(LoadWeights(model.get(), path, options, &report));
    EXPECT_FALSE(report.verified);
    EXPECT_TRUE(Contains(warned, "not verified"));
    EXPECT_EQ(report.loaded.size(), 4u);
    for (const Variable& v : model->variables()) {
      for (int64_t i = 0; i < v.size(); ++i) {
        ASSERT_EQ(model->weights()[v.offset + i], static_cast<float>(i) / 8)
            << v.path;
      }
    }
  }
}

TEST(OtherProgramsTest, LoadWeights_PlainFileOfOtherTensors_ReportsThem) {
  TempFolder folder;
  auto model = TinyModel();
  SafetensorsWriter writer;
  SafetensorsWriter::Options plain;
  plain.profile = false;
  float values[3] = {1, 2, 3};
  ASSERT_OK(writer.Plan({{"dense_1/bias", DType::kFloat32, {3}, values},
                         {"head.weight", DType::kFloat32, {3}, values}},
                        {}, plain));
  AtomicFile file;
  ASSERT_OK(file.Open(PosixFiles(), folder / "p", writer.file_bytes()));
  ASSERT_OK(writer.Write(file.file()));
  ASSERT_OK(file.Commit());
  WeightsReport report;
  EXPECT_FALSE(LoadWeights(model.get(), folder / "p", Silent(), &report).ok());
  EXPECT_EQ(report.unexpected, (Names{"head.weight"}));
  EXPECT_EQ(report.missing,
            (Names{"dense/kernel", "dense/bias", "dense_1/kernel"}));
  EXPECT_EQ(report.skipped, (Names{"dense_1/bias"}));
  std::unique_ptr<Model> loaded;
  EXPECT_TRUE(Contains(LoadModel(folder / "p", &loaded), "LoadWeights"));
}

}  // namespace
}  // namespace ringlet
