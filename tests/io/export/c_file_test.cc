// Tests the text of a C file, and the models that are refused.
// tests/c_file_test.py tests that the file computes the model's outputs.

#include "ringlet/export.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/exports.h"
#include "../../support/made_examples.h"
#include "core/base/crc32c.h"
#include "core/compute/gemm.h"
#include "io/export/reconstruction.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

std::string TextOf(Model* model) {
  return Exported(
      [&](const std::string& path) { return ExportC(model, path); });
}

void ExpectRefusedC(Model* model, bool softmax,
                    const std::vector<std::string>& message_parts) {
  ExportCOptions options;
  options.softmax = softmax;
  ExpectRefused(
      [&](const std::string& path) { return ExportC(model, path, options); },
      message_parts);
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
  EXPECT_EQ(Crc32c(file.data(), file.size()), 3251079898u);
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
  EXPECT_TRUE(Contains(TextOf(&shared), "RAM:   896 bytes"));
}

// The part of an image that is resized, and its border, are not copied.
TEST(CFileTest, Buffers_ResizedPart_IsNotCopied) {
  const auto ram = [](const Layer& resizing) {
    Sequential model({Input({40, 60, 1}), resizing, Flatten(), Dense(2)});
    CompileOne(&model);
    const std::string file = TextOf(&model);
    const size_t at = file.find("RAM:   ");
    return at == std::string::npos ? -1 : std::atol(file.c_str() + at + 7);
  };
  const long whole = ram(Resizing(9, 9));
  EXPECT_GT(whole, 0);
  EXPECT_EQ(ram(Resizing(9, 9).PadToAspectRatio(true)), whole);
  EXPECT_EQ(ram(Resizing(9, 9).PadToAspectRatio(true).FillValue(1)), whole);
  EXPECT_EQ(ram(Resizing(9, 9).CropToAspectRatio(true)), whole);
}

TEST(CFileTest, Export_EveryLayer_IsWrittenOrRefusedByName) {
  EXPECT_GE(ExportEveryLayer([](Model* model, const std::string& path) {
              return ExportC(model, path);
            }),
            40);
}

TEST(CFileTest, Export_UnsuitableModel_IsRefusedByName) {
  Sequential raw({Input({4}), Dense(3)});
  ExpectRefusedC(&raw, /*softmax=*/false, {"Compile"});
  Sequential probabilities({Input({4}), Dense(3, kSoftmax).Name("p")});
  CompileOne(&probabilities);
  ExpectRefusedC(&probabilities, /*softmax=*/true, {"layer 'p'", "'softmax'"});
  Sequential diverged({Input({4}), Dense(3).Name("d")});
  CompileOne(&diverged);
  diverged.weights()[2] = NAN;
  ExpectRefusedC(&diverged, /*softmax=*/false, {"weight 'd/kernel'", "nan"});
}

// --- compiled programs -------------------------------------------------------

const std::string kCompiler = EnvironmentOr("CXX", "c++");
// Tests that compile are skipped without it.
const bool kHasCompiler =
    std::getenv("RINGLET_EMULATED") == nullptr &&
    std::system((kCompiler + " --version > /dev/null 2>&1").c_str()) == 0;

// Compiles files of C, and main.cc, to main.
bool Compile(const TempFolder& folder, const std::vector<std::string>& files) {
  const std::string in_folder = "cd " + folder.path() + " && " + kCompiler;
  std::string link = in_folder + " -std=c++17 main.cc";
  for (const std::string& file : files) {
    const std::string compile =
        in_folder + " -x c -std=c99 -Wall -Wextra -pedantic -Werror -c " +
        file + ".c -o " + file + ".o";
    if (std::system(compile.c_str()) != 0) return false;
    link += " " + file + ".o";
  }
  return std::system((link + " -o main -lm").c_str()) == 0;
}

int ExitCodeOf(const TempFolder& folder) {
  return std::system(("cd " + folder.path() + " && ./main").c_str());
}

TEST(CFileTest, Export_FileOfTheUserIsThere_IsKept) {
  TempFolder folder;
  Sequential model({Input({2}), Dense(3)});
  CompileOne(&model);
  const std::string own = "int main(void) { return 0; }\n";
  WriteWhole(folder / "main.c", own);
  const Status status = ExportC(&model, folder / "main.c");
  EXPECT_TRUE(Contains(status, "main.c: the model would replace this file"));
  EXPECT_EQ(ReadWhole(folder / "main.c"), own);
  // The error comes before the calibration, which would fail.
  ExportCOptions int8;
  int8.calibration = NpyDataset(folder / "missing.npy").Batch(1);
  EXPECT_TRUE(Contains(ExportC(&model, folder / "main.c", int8),
                       "the model would replace this file"));
  ASSERT_OK(ExportC(&model, folder / "model.c"));
  EXPECT_OK(ExportC(&model, folder / "model.c"));
}

TEST(CFileTest, Name_TwoModels_LinkIntoOneProgram) {
  if (!kHasCompiler) GTEST_SKIP() << "needs a compiler of this machine";
  TempFolder folder;
  Sequential one({Input({2}), Dense(3)}), two({Input({4}), Dense(1)});
  CompileOne(&one);
  CompileOne(&two);
  ExportCOptions options;
  options.name = "one";
  ASSERT_OK(ExportC(&one, folder / "one.c", options));
  options.name = "Two_2";
  ASSERT_OK(ExportC(&two, folder / "two.c", options));
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
  ASSERT_TRUE(Compile(folder, {"one", "two"}));
  EXPECT_EQ(ExitCodeOf(folder), 0);
}

// A norm of 5e-7 is above the least norm of Dot, and below UnitNormalization's.
TEST(CFileTest, Dot_ShortRows_AreNormalizedAsInTraining) {
  if (!kHasCompiler) GTEST_SKIP() << "needs a compiler of this machine";
  TempFolder folder;
  Functional model;
  const int x = model.Add(Input({1, 2}));
  model.Outputs({model.Add(Dot({2, 2}, /*normalize=*/true), {x, x})});
  CompileOne(&model);
  ASSERT_OK(ExportC(&model, folder / "model.c"));
  WriteWhole(folder / "main.cc", R"(#include "model.h"
int main() {
  const float in[2] = {3e-7f, 4e-7f};
  float y;
  return model_predict(in, &y) != 0 || y < 0.999f || y > 1.001f;
}
)");
  ASSERT_TRUE(Compile(folder, {"model"}));
  EXPECT_EQ(ExitCodeOf(folder), 0);
}

// Names that differ in their letters' case alone have the same macros.
TEST(CFileTest, Name_SameLettersInAnotherCase_NeedsAnotherFile) {
  if (!kHasCompiler) GTEST_SKIP() << "needs a compiler of this machine";
  TempFolder folder;
  Sequential model({Input({2}), Dense(3)});
  CompileOne(&model);
  ExportCOptions options;
  options.name = "Ab";
  ASSERT_OK(ExportC(&model, folder / "one.c", options));
  Sequential other({Input({2}), Dense(5)});
  CompileOne(&other);
  options.name = "aB";
  ASSERT_OK(ExportC(&other, folder / "two.c", options));
  const char kMain[] = R"(#include "one.h"
#include "one.h"
static_assert(AB_OUT == 3, "");
extern "C" int second(const float* in);
int main() {
  const float in[AB_IN] = {1, 2};
  float y[AB_OUT];
  return Ab_predict(in, y) + second(in);
}
)";
  const char kSecond[] = R"(#include "two.h"
int second(const float* in);
int second(const float* in) {
  float y[AB_OUT];
  return aB_predict(in, y) + (AB_OUT - 5);
}
)";
  WriteWhole(folder / "main.cc", kMain);
  WriteWhole(folder / "second.c", kSecond);
  ASSERT_TRUE(Compile(folder, {"one", "two", "second"}));
  EXPECT_EQ(ExitCodeOf(folder), 0);
  WriteWhole(folder / "both.c", "#include \"one.h\"\n#include \"two.h\"\n");
  EXPECT_NE(std::system(("cd " + folder.path() + " && " + kCompiler +
                         " -x c -c both.c 2> errors")
                            .c_str()),
            0);
  EXPECT_TRUE(Contains(ReadWhole(folder / "errors"),
                       "AB_IN is also the name of another macro: give one of "
                       "the models another name"));
}

DataDescription Described(const Scale& scale,
                          const std::vector<std::string>& classes = {}) {
  DataDescription data;
  data.scale = scale;
  data.classes = classes;
  return data;
}

TEST(CFileTest, ClassNames_AnyBytes_AreStringsOfC) {
  if (!kHasCompiler) GTEST_SKIP() << "needs a compiler of this machine";
  const std::vector<std::string> names = {"owl",
                                          "a\"; int x; //",
                                          "back\\slash\\",
                                          "line\nnext\r",
                                          "?\?/?\?'?\?(",
                                          "%s %n",
                                          "*/ /*",
                                          "M\xc3\xb6we",
                                          "\377\0017",
                                          "",
                                          "\t",
                                          "0",
                                          std::string(300, 'x')};
  for (const bool int8 : {false, true}) {
    TempFolder folder;
    Sequential model({Input({2}), Dense(13)});
    CompileOne(&model);
    model.set_data_description(Described(Scale(), names));
    Examples examples;
    ExportCOptions options;
    options.name = "bird";
    if (int8) options.calibration = examples.Batches({2}, {13}, 4);
    ASSERT_OK(ExportC(&model, folder / "bird.c", options));
    std::string main =
        "#include \"bird.h\"\n#include <cstdio>\n"
        "static_assert(BIRD_CLASSES == 13, \"\");\nint main() {\n"
        "  FILE* file = std::fopen(\"names\", \"wb\");\n"
        "  for (const char* name : bird_class_names)"
        " std::fprintf(file, \"%s;\", name);\n"
        "  return std::fclose(file);\n}\n";
    WriteWhole(folder / "main.cc", main);
    ASSERT_TRUE(Compile(folder, {"bird"}));
    ASSERT_EQ(ExitCodeOf(folder), 0);
    std::string all;
    for (const std::string& name : names) all += name + ";";
    EXPECT_EQ(ReadWhole(folder / "names"), all);
  }
}

TEST(CFileTest, ClassNames_ModelWithoutClasses_AreAbsent) {
  Sequential model({Input({2}), Dense(3)});
  CompileOne(&model);
  model.set_data_description(Described(Scale()));
  EXPECT_FALSE(Contains(TextOf(&model), "class_names"));
}

// --- raw values --------------------------------------------------------------

// Compares the model that scales raw values with the one that takes ringlet's
// scaled ones. The first example is of bytes. Writes outputs and scores.
constexpr char kRawMain[] = R"(
#include <cstdio>
#include <cstring>
#include <utility>
#include "raw.h"
#include "scaled.h"
static FILE* Opened(const char* path, const char* mode) {
  FILE* file = std::fopen(path, mode);
  return file != nullptr ? file : stdin;
}
int main() {
  float raw[RAW_IN], scaled[RAW_IN], y[RAW_OUT], other[RAW_OUT];
  unsigned char bytes[RAW_IN];
  FILE* const raws = Opened("raws", "rb");
  FILE* const scaleds = Opened("scaleds", "rb");
  FILE* const out = Opened("out", "wb");
  for (int i = 0; std::fread(raw, sizeof raw, 1, raws) == 1; ++i) {
    if (std::fread(scaled, sizeof scaled, 1, scaleds) != 1) return 1;
    raw_predict(raw, y);
    scaled_predict(scaled, other);
    if (std::memcmp(y, other, sizeof y) != 0) return 2;
    for (int k = 0; k < RAW_IN && i == 0; ++k) bytes[k] = (unsigned char)raw[k];
    if (i == 0) raw_predict_bytes(bytes, other);
    if (std::memcmp(y, other, sizeof y) != 0) return 3;
    const float score = raw_anomaly_score(raw, y);
    if (score != scaled_anomaly_score(scaled, y)) return 4;
    std::fwrite(y, sizeof y, 1, out);
    std::fwrite(&score, sizeof score, 1, out);
  }
  return std::fclose(out);
}
)";

template <typename T>
void WriteNumbers(const std::string& path, const std::vector<T>& numbers) {
  WriteWhole(path, std::string(reinterpret_cast<const char*>(numbers.data()),
                               numbers.size() * sizeof(T)));
}

// A compiled model of 12 values, and these for some examples.
struct RawModel {
  static constexpr int64_t kCount = 40, kWidth = 12;
  Model* const model;
  std::vector<float> raws, scaleds;
  TempFolder folder;

  RawModel(Model* m, const Scale& scale) : model(m) {
    CompileOne(model);
    model->set_data_description(Described(scale));
    for (int64_t i = 0; i < kWidth; ++i) {
      raws.push_back(static_cast<float>(255 - i * i));
    }
    raws.insert(raws.end(), {-0.0f, 1e-41f, -333.3f, 400.217f, 0.1f});
    for (const float x : SomeNumbers(kCount * kWidth - raws.size())) {
      raws.push_back(300 * x);
    }
    std::unique_ptr<BatchLoader> loader;
    Batch batch;
    EXPECT_OK(model->OpenLoader(Raw(), {}, &loader));
    EXPECT_OK(loader->Next(&batch));
    scaleds.assign(batch.x, batch.x + kCount * kWidth);
  }

  Dataset Raw() const {
    return Dataset(MemorySource({DType::kFloat32, model->output_shape(0)},
                                raws.data(), {DType::kFloat32, {kWidth}},
                                raws.data(), kCount))
        .Map(model->data_description()->scale)
        .Batch(kCount);
  }

  // Outputs and score of each example, from the compiled file.
  std::vector<float> Run(ReconstructionError error, bool int8) {
    ExportCOptions options;
    options.anomaly_score = error;
    if (int8) options.calibration = Raw();
    for (const char* name : {"raw", "scaled"}) {
      options.name = name;
      options.with_preprocessing = options.name == "raw";
      EXPECT_OK(ExportC(model, folder / (options.name + ".c"), options));
    }
    WriteWhole(folder / "main.cc", kRawMain);
    WriteNumbers(folder / "raws", raws);
    WriteNumbers(folder / "scaleds", scaleds);
    EXPECT_TRUE(Compile(folder, {"raw", "scaled"}));
    EXPECT_EQ(ExitCodeOf(folder), 0);
    const std::string out = ReadWhole(folder / "out");
    std::vector<float> numbers(out.size() / sizeof(float));
    std::memcpy(numbers.data(), out.data(), out.size());
    return numbers;
  }
};

bool SameBits(const float* a, const float* b, int64_t count) {
  return std::memcmp(a, b, static_cast<size_t>(count) * sizeof(float)) == 0;
}

TEST(CFileTest, RawValues_InC_AreScaledToTheBitsOfTraining) {
  if (!kHasCompiler) GTEST_SKIP() << "needs a compiler of this machine";
  Sequential only_views({Input({3, 4}), Flatten()});
  Sequential dense({Input({12}), ActivationLayer(kTanh), Dense(12)});
  Sequential rows(
      {Input({4, 3}), Rescaling({1, 2, 0.5f}, {0, 1, -1}), Flatten()});
  Sequential image({Input({4, 3, 1}), Conv2D(1, 3).Padding(kSame), Flatten()});
  Functional twice;
  const auto x = twice.Add(Input({12}));
  twice.Add(Add(), {twice.Add(Dense(12), {x}), x});
  // A fused multiply-add has other bits with this scale.
  const Scale scale(1 / 255.f, -0.4215f);
  const std::pair<Model*, Scale> cases[] = {
      {&only_views, scale}, {&dense, scale}, {&dense, Scale()},
      {&image, scale},      {&rows, scale},  {&twice, scale}};
  for (const auto& [model, scale_of_case] : cases) {
    RawModel raw(model, scale_of_case);
    for (const bool int8 : {false, true}) {
      const auto error = int8 == (model == &dense)
                             ? ReconstructionError::kSquared
                             : ReconstructionError::kAbsolute;
      const std::vector<float> actual = raw.Run(error, int8);
      ASSERT_EQ(actual.size(), 13u * 40);
      for (int64_t i = 0; i < 40; ++i) {
        const float* const y = actual.data() + 13 * i;
        const float* const scaled = raw.scaleds.data() + 12 * i;
        const float score = ComputeError(error, scaled, y, 12);
        EXPECT_TRUE(SameBits(&score, y + 12, 1)) << y[12] << " " << score;
        if (model != &only_views || int8) continue;
        EXPECT_TRUE(SameBits(scaled, y, 12)) << i;
      }
    }
  }
}

TEST(CFileTest, RawValues_WithoutAScaleThatCIsToApply_AreRefused) {
  const auto refuse = [](Model* model,
                         const std::vector<std::string>& message_parts) {
    ExportCOptions options;
    options.with_preprocessing = true;
    ExpectRefused(
        [&](const std::string& path) { return ExportC(model, path, options); },
        message_parts);
  };
  Sequential model({Input({2}), Dense(3)});
  CompileOne(&model);
  refuse(&model, {"does not know the scale", "scale the input"});
  model.set_data_description(Described(Scale(INFINITY)));
  refuse(&model, {"not finite"});
  DataDescription table = Described(Scale());
  table.encoding.columns[1].categories = {"a", "b"};
  model.set_data_description(table);
  refuse(&model, {"does not fit", "up to column 2"});
  for (const int64_t place : {-1, 2}) {
    table.encoding.columns.clear();
    table.encoding.columns[place].fill = 2;
    model.set_data_description(table);
    refuse(&model, {"does not fit"});
  }
  table.encoding.columns[0].fill = NAN;
  model.set_data_description(table);
  refuse(&model, {"not finite"});
}

// "1,5" is a number in a table with decimal commas only.
TEST(CFileTest, MissingNumbers_OfATable_HaveItsDecimalPoint) {
  TempFolder folder;
  WriteWhole(folder / "train.csv", "a;b\n1;2\n3;4\n");
  Sequential model({Input({2}), Dense(3)});
  CompileOne(&model);
  ExportCOptions options;
  options.with_preprocessing = true;
  for (const char decimal : {'.', ','}) {
    CsvOptions training;
    training.has_label = false;
    training.separator = ';';
    training.decimal = decimal;
    training.na_values = {"1,5", "-2.5", "-999"};
    const Dataset train = CsvDataset(folder / "train.csv", training);
    ASSERT_TRUE(train.source() != nullptr) << train.status().message();
    DataDescription data = Described(Scale());
    data.encoding = train.source()->Description().encoding;
    model.set_data_description(data);
    ASSERT_OK(ExportC(&model, folder / "m.c", options));
    const std::string header = ReadWhole(folder / "m.h");
    const char* const numbers =
        decimal == '.' ? "NAN or -2.5 or -999" : "NAN or -999 or 1.5";
    EXPECT_TRUE(Contains(header, std::string(numbers) + " where it is missing"))
        << header;
  }
}

// Writes the outputs of rows of columns, and the names.
constexpr char kTableMain[] = R"(
#include <cmath>
#include <cstdio>
#include "raw.h"
static_assert(RAW_IN == 5 && RAW_OUT == 7, "");
int main() {
  float row[RAW_IN], y[RAW_OUT];
  FILE* const rows = std::fopen("raws", "rb");
  FILE* const out = std::fopen("out", "wb");
  if (rows == nullptr || out == nullptr) return 1;
  while (std::fread(row, sizeof row, 1, rows) == 1) {
    if (raw_predict(row, y) != 0) return 2;
    if (raw_anomaly_score(row, y) < 0) return 3;
    std::fwrite(y, sizeof y, 1, out);
  }
  const float wrong[][RAW_IN] = {{NAN, 0, 0, 0, 0}, {INFINITY, 0, 0, 0, 0},
                                 {0, 3, 0, 0, 0},   {0, -1, 0, 0, 0},
                                 {0, 0, 0, 3, 0},   {0, 0, 0, 0, NAN},
                                 {-999, 0, 0, 0, 0}};
  for (const auto& each : wrong) {
    if (raw_predict(each, y) != 1) return 4;
    if (raw_anomaly_score(each, y) != -1) return 5;
  }
  for (const char* name : raw_columns) std::fprintf(out, "%s,", name);
  for (const char* name : raw_categories_1) std::fprintf(out, "%s,", name);
  for (const char* name : raw_categories_3) std::fprintf(out, "%s,", name);
  return std::fclose(out);
}
)";

TEST(CFileTest, RawValues_OfATable_AreEncodedToTheBitsOfTraining) {
  if (!kHasCompiler) GTEST_SKIP() << "needs a compiler of this machine";
  TempFolder folder;
  WriteWhole(folder / "train.csv",
             "a,island,b,sex,c*/\n1,Biscoe,,male,3\n"
             "-2,\"Dr\"\"eam\",4,,5\n0.1,Biscoe,1.3,female,-7.5\n");
  WriteWhole(folder / "new.csv",
             "a,island,b,sex,c*/\n7,Biscoe,2,female,3\n"
             "0.3,Torgersen,,,5\n-1,\"Dr\"\"eam\",-0.7,male,9\n"
             "1,Biscoe,-999,female,2\n");
  const std::vector<float> raws = {7,  0, 2,     1, 3, 0.3f, 2, NAN,  NAN, 5,
                                   -1, 1, -0.7f, 2, 9, 1,    0, -999, 1,   2};
  CsvOptions training;
  training.has_label = false;
  training.categorical = {{"island", true, true}, {"sex", false, false}};
  training.missing_by_column["b"].kind = CsvOptions::Missing::kMean;
  training.missing_by_column["sex"].kind = CsvOptions::Missing::kConstant;
  training.na_values = {"-999", "?"};
  const Dataset train = CsvDataset(folder / "train.csv", training);
  ASSERT_TRUE(train.source() != nullptr) << train.status().message();
  DataDescription data = Described(Scale(0.3f, -0.4215f));
  data.columns = train.source()->Description().columns;
  data.encoding = train.source()->Description().encoding;
  CsvOptions more;
  more.has_label = false;
  more.encoding = data.encoding;

  Sequential model({Input({7}), Reshape({7, 1})});
  CompileOne(&model);
  model.set_data_description(data);
  std::unique_ptr<BatchLoader> loader;
  LoaderOptions unlabelled;
  unlabelled.targets = unlabelled.training = false;
  ASSERT_OK(model.OpenLoader(
      CsvDataset(folder / "new.csv", more).Map(data.scale).Batch(4), unlabelled,
      &loader));
  Batch batch;
  ASSERT_OK(loader->Next(&batch));
  constexpr size_t kValues = 28;
  const std::vector<float> encoded(batch.x, batch.x + kValues);
  loader.reset();

  WriteWhole(folder / "main.cc", kTableMain);
  WriteNumbers(folder / "raws", raws);
  for (const bool int8 : {false, true}) {
    ExportCOptions options;
    options.name = "raw";
    options.with_preprocessing = true;
    options.anomaly_score = ReconstructionError::kAbsolute;
    Examples examples;
    if (int8) options.calibration = examples.Batches({7}, {7, 1}, 4);
    ASSERT_OK(ExportC(&model, folder / "raw.c", options));
    ASSERT_TRUE(Compile(folder, {"raw"}));
    ASSERT_EQ(ExitCodeOf(folder), 0);
    const std::string out = ReadWhole(folder / "out");
    const size_t bytes = kValues * sizeof(float);
    ASSERT_GT(out.size(), bytes);
    EXPECT_EQ(out.substr(bytes),
              "a,island,b,sex,c*/,Biscoe,Dr\"eam,,female,male,");
    if (int8) continue;
    EXPECT_EQ(std::memcmp(out.data(), encoded.data(), bytes), 0);
  }
}

TEST(CFileTest, AnomalyScore_ModelThatReconstructsNothing_IsRefused) {
  Sequential model({Input({2}), Dense(3)});
  CompileOne(&model);
  ExportCOptions options;
  options.anomaly_score = ReconstructionError::kSquared;
  ExpectRefused(
      [&](const std::string& path) { return ExportC(&model, path, options); },
      {"autoencoder", "(2,)", "(3,)"});
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
  EXPECT_TRUE(Contains(status, "m.h: the model would replace this file"));
  EXPECT_EQ(ReadWhole(folder / "m.h"), "// mine\n");
  // A header that ringlet wrote is replaced.
  for (const char* name : {"first", "second"}) {
    ExportCOptions options;
    options.name = name;
    ASSERT_OK(ExportC(&model, folder / "k.c", options));
    EXPECT_TRUE(
        Contains(ReadWhole(folder / "k.h"), std::string(name) + "_predict("));
  }
}

}  // namespace
}  // namespace ringlet
