// Tests the text of a C file, and the models that are refused.
// tests/c_file_test.py tests that the file computes the model's outputs.

#include "ringlet/export.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "../../support/exports.h"
#include "core/base/crc32c.h"
#include "core/compute/gemm.h"

namespace ringlet {
namespace {

std::string TextOf(Model* model) {
  return Exported(
      [&](const std::string& path) { return ExportC(model, path); });
}

void ExpectRefusedC(Model* model, bool softmax,
                    const std::vector<std::string>& says) {
  ExportCOptions options;
  options.softmax = softmax;
  ExpectRefused(
      [&](const std::string& path) { return ExportC(model, path, options); },
      says);
}

Sequential SomeModel() {
  return Sequential({Input({12, 10, 2}), Rescaling({0.5f, 0.25f}, {0, -1}),
                     Conv2D(4, 3, kRelu).Padding(kSame), BatchNormalization(),
                     LeakyReLU(), SeparableConv2D(6, 3), MaxPooling2D(),
                     Flatten(), Dropout(0.5f), Dense(4, kGelu),
                     LayerNormalization(), Dense(3, kSoftmax)});
}

TEST(CFileTest, Text_AnyMachine_HasTheSameBytes) {
  Sequential model = SomeModel();
  CompileOne(&model);
  const std::string file = WithoutVersion(TextOf(&model));
  EXPECT_EQ(WithoutVersion(TextOf(&model)), file);
  EXPECT_EQ(Crc32c(file.data(), file.size()), 2904207103u);
}

TEST(CFileTest, Buffers_DisjointLifetimes_ShareBytes) {
  Sequential model = SomeModel();
  CompileOne(&model);
  const std::string file = TextOf(&model);
  const size_t at = file.find("RAM:   ");
  ASSERT_NE(at, std::string::npos);
  const long ram = std::atol(file.c_str() + at + 7);
  EXPECT_GT(ram, 0);
  EXPECT_LE(static_cast<size_t>(ram), model.PlanMemory(1).activations);
  // The first activation may write over its input, the second may not.
  Functional shared;
  const auto x = shared.Add(Input({100}));
  const auto y = shared.Add(Dense(100), {x});
  const auto z = shared.Add(ActivationLayer(kTanh), {y});
  shared.Add(Add(), {shared.Add(ReLU(), {z}), y});
  CompileOne(&shared);
  EXPECT_NE(TextOf(&shared).find("RAM:   896 bytes"), std::string::npos);
}

TEST(CFileTest, Export_EveryLayer_IsWrittenOrRefusedByName) {
  EXPECT_GE(ExportEveryLayer([](Model* model, const std::string& path) {
              return ExportC(model, path);
            }),
            40);
}

TEST(CFileTest, Export_UnsuitableModel_IsRefusedByName) {
  Sequential raw({Input({4}), Dense(3)});
  ExpectRefusedC(&raw, false, {"Compile"});
  Sequential probabilities({Input({4}), Dense(3, kSoftmax).Name("p")});
  CompileOne(&probabilities);
  ExpectRefusedC(&probabilities, true, {"layer 'p'", "'softmax'"});
  Sequential diverged({Input({4}), Dense(3).Name("d")});
  CompileOne(&diverged);
  diverged.weights()[2] = NAN;
  ExpectRefusedC(&diverged, false, {"weight 'd/kernel'", "nan"});
}

// --- several in one program ---

TEST(CFileTest, Name_TwoModels_LinkIntoOneProgram) {
  const std::string compiler = EnvironmentOr("CXX", "c++");
  if (std::getenv("RINGLET_EMULATED") != nullptr ||
      std::system((compiler + " --version > /dev/null 2>&1").c_str()) != 0) {
    GTEST_SKIP() << "needs a compiler of this machine";
  }
  TempFolder folder;
  Sequential one({Input({2}), Dense(3)}), two({Input({4}), Dense(1)});
  CompileOne(&one);
  CompileOne(&two);
  ExportCOptions options;
  options.name = "one";
  ASSERT_TRUE(ExportC(&one, folder / "one.c", options).ok());
  options.name = "Two_2";
  ASSERT_TRUE(ExportC(&two, folder / "two.c", options).ok());
  WriteWhole(folder / "main.cc", R"(#include "one.h"
#include "two.h"
#include "one.h"
static_assert(ONE_IN == 2 && ONE_OUT == 3 && TWO_2_IN == 4 && TWO_2_OUT == 1, "");
int main() {
  const float in[4] = {1, 2, 3, 4};
  float y[3], z[1];
  return one_predict(in, y) + Two_2_predict(in, z);
}
)");
  const std::string in_folder = "cd " + folder.path() + " && " + compiler;
  for (const char* file : {"one.c", "two.c"}) {
    const std::string compile =
        in_folder + " -x c -std=c99 -Wall -Wextra -pedantic -Werror -c " + file;
    ASSERT_EQ(std::system(compile.c_str()), 0);
  }
  const std::string link =
      in_folder + " -std=c++17 main.cc one.o two.o -o main -lm";
  ASSERT_EQ(std::system(link.c_str()), 0);
  if (EnvironmentOr("RINGLET_EMULATED", "") == "1") return;
  EXPECT_EQ(std::system((folder / "main").c_str()), 0);
}

TEST(CFileTest, Name_ThatIsNoneInC_IsRefused) {
  Sequential model({Input({2}), Dense(3)});
  CompileOne(&model);
  for (const std::string name :
       {"", "2nd", "key-word", "a b", "_x", "\xC3\xA4", "a;b",
        "a1234567890123456789012345678901234567890"}) {
    ExpectRefused(
        [&](const std::string& path) {
          ExportCOptions options;
          options.name = name;
          return ExportC(&model, path, options);
        },
        {"is not a name that C functions can begin with"});
  }
}

TEST(CFileTest, Header_FileThatRingletHasNotWritten_Stays) {
  TempFolder folder;
  Sequential model({Input({2}), Dense(3)});
  CompileOne(&model);
  WriteWhole(folder / "m.h", "// mine\n");
  const Status status = ExportC(&model, folder / "m.c");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("m.h: the model's header"),
            std::string::npos)
      << status.message();
  EXPECT_EQ(ReadWhole(folder / "m.h"), "// mine\n");
  // A header that ringlet wrote is replaced.
  for (const char* name : {"first", "second"}) {
    ExportCOptions options;
    options.name = name;
    ASSERT_TRUE(ExportC(&model, folder / "k.c", options).ok());
    EXPECT_NE(ReadWhole(folder / "k.h").find(std::string(name) + "_predict("),
              std::string::npos);
  }
}

// --- int8 --------------------------------------------------------------------

// Numbers of [-1, 1), the same everywhere.
std::vector<float> SomeNumbers(size_t count) {
  std::vector<float> numbers;
  uint32_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    numbers.push_back(static_cast<float>(state >> 8) / (1 << 23) - 1);
  }
  return numbers;
}

struct Examples {
  std::vector<float> x, y;
  Dataset Batches(const Shape& in, const Shape& out, int64_t count) {
    x = SomeNumbers(static_cast<size_t>(count * in.elements()));
    y = SomeNumbers(static_cast<size_t>(count * out.elements()));
    return Dataset(MemorySource({DType::kFloat32, in}, x.data(),
                                {DType::kFloat32, out}, y.data(), count))
        .Batch(4);
  }
};

Sequential PlainEnough() {
  return Sequential({Input({12, 10, 2}), Rescaling(0.5f),
                     Conv2D(4, 3, kRelu).Padding(kSame), BatchNormalization(),
                     Conv2D(6, 3).Strides(2), BatchNormalization(), ReLU(6),
                     LeakyReLU(), SeparableConv2D(6, 3).Padding(kSame),
                     AveragePooling2D(), Flatten(), Dropout(0.5f),
                     Dense(4, kGelu), Dense(3, kSoftmax)});
}

// The ranges are computed in a class of arithmetic that has the same bits
// everywhere.
TEST(CFileTest, Int8Text_AnyMachine_HasTheSameBytes) {
  Sequential model = PlainEnough();
  CompileOne(&model);
  Examples examples;
  ExportCOptions options;
  options.calibration = examples.Batches({12, 10, 2}, {3}, 10);
  const std::string file = WithoutVersion(Exported(
      [&](const std::string& path) { return ExportC(&model, path, options); }));
  EXPECT_EQ(Crc32c(file.data(), file.size()),
            GemmFuses() ? 803703918u : 822648558u);
}

TEST(CFileTest, Int8Report_TestData_HasTheLossesOfBothModels) {
  Sequential model = PlainEnough();
  CompileOne(&model);
  Examples examples;
  ExportCOptions options;
  options.calibration = options.test = examples.Batches({12, 10, 2}, {3}, 10);
  Int8Report report;
  Exported([&](const std::string& path) {
    return ExportC(&model, path, options, &report);
  });
  ASSERT_NE(report.before.Find("loss"), nullptr);
  ASSERT_NE(report.after.Find("loss"), nullptr);
  EXPECT_NE(*report.after.Find("loss"), *report.before.Find("loss"));
  EXPECT_NEAR(*report.after.Find("loss"), *report.before.Find("loss"), 0.01);
}

// How far int8 is off, as the root of a mean square.
double Int8Error(Model* model, const Shape& in, const Shape& out) {
  constexpr int64_t kCount = 64;
  Examples examples;
  ExportCOptions options;
  options.calibration = examples.Batches(in, out, kCount);
  EXPECT_TRUE(model->Forward(examples.x.data(), kCount, false).ok());
  std::copy_n(model->output(), examples.y.size(), examples.y.begin());
  options.test = options.calibration;
  Int8Report report;
  Exported([&](const std::string& path) {
    return ExportC(model, path, options, &report);
  });
  EXPECT_EQ(*report.before.Find("loss"), 0);
  return std::sqrt(*report.after.Find("loss"));
}

TEST(CFileTest, Int8_ReluBehindARelu_Saturates) {
  Sequential model({Input({4}), Dense(8, kRelu), ReLU(0.5f), Dense(2)});
  CompileOne(&model);
  for (int i = 0; i < 32; ++i) model.weights()[i] *= 20;
  EXPECT_LT(Int8Error(&model, {4}, {2}), 0.02);
}

TEST(CFileTest, Int8_FilterWithoutWeights_KeepsItsBias) {
  Sequential model({Input({4}), Rescaling(300), Dense(2)});
  CompileOne(&model);
  const float weights[] = {0, 0.001f, 0, 0.002f, 0, 0.001f, 0, 0, 0.3f, 0};
  std::copy(std::begin(weights), std::end(weights), model.weights());
  EXPECT_LT(Int8Error(&model, {4}, {2}), 0.005);
  std::fill_n(model.weights(), 8, 0.0f);
  EXPECT_LT(Int8Error(&model, {4}, {2}), 0.001);
}

TEST(CFileTest, Int8_UnsupportedLayers_AreRefusedByName) {
  const auto refuse = [](Model* model, const Shape& in, const Shape& out,
                         const std::vector<std::string>& says) {
    CompileOne(model);
    Examples examples;
    ExportCOptions options;
    options.calibration = examples.Batches(in, out, 4);
    ExpectRefused(
        [&](const std::string& path) { return ExportC(model, path, options); },
        says);
  };
  Sequential normalized({Input({4}), LayerNormalization().Name("n")});
  refuse(&normalized, {4}, {4}, {"layer 'n'", "LayerNormalization", "int8"});
  Sequential slopes({Input({4}), Dense(3), PReLU().Name("p")});
  refuse(&slopes, {4}, {3}, {"layer 'p'", "PReLU"});
  Sequential attention({Input({4}), Dense(3, kSoftmax).Name("s"), Dense(2)});
  refuse(&attention, {4}, {2},
         {"layer 's'", "softmax that is not the model's end"});
  Sequential rows({Input({4, 3}), Softmax({1}).Name("r")});
  refuse(&rows, {4, 3}, {4, 3}, {"layer 'r'", "axis"});
  Sequential large({Input({2}), Dense(2), ActivationLayer(kExponential)});
  CompileOne(&large);
  for (int i = 0; i < 4; ++i) large.weights()[i] = 300;
  Examples examples;
  ExportCOptions options;
  options.calibration = examples.Batches({2}, {2}, 4);
  ExpectRefused(
      [&](const std::string& path) { return ExportC(&large, path, options); },
      {"Activation", "inf"});
}

}  // namespace
}  // namespace ringlet
