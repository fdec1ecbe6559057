// Tests the C files of models with several inputs and outputs.
// tests/c_file_test.py tests that such files compute the models' outputs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/exports.h"
#include "../../support/made_examples.h"
#include "ringlet/export.h"

namespace ringlet {
namespace {

struct Files {
  std::string file, header;
};

Files FilesOf(Model* model, const ExportCOptions& options = {}) {
  TempFolder folder;
  EXPECT_OK(ExportC(model, folder / "m.c", options));
  return {ReadWhole(folder / "m.c"), ReadWhole(folder / "m.h")};
}

TEST(CArgumentsTest, Export_SeveralInputsAndOutputs_HaveTheLayersNames) {
  Functional model;
  const auto image = model.Add(Input({4, 4, 1}).Name("image"));
  const auto numbers = model.Add(Input({3}).Name("num-bers"));
  const auto flat = model.Add(Flatten(), {image});
  const auto both = model.Add(Concatenate(), {flat, numbers});
  const auto kind = model.Add(Dense(5).Name("kind"), {both});
  const auto size = model.Add(Dense(1).Name("size"), {both});
  model.Outputs({kind, size});
  CompileOne(&model);
  const Files files = FilesOf(&model);
  for (const std::string& text : {files.file, files.header}) {
    EXPECT_TRUE(Contains(
        text,
        "int model_predict(const float* in_image, const float* in_num_bers, "
        "float* out_kind, float* out_size);"));
  }
  EXPECT_TRUE(Contains(files.file,
                       "   in_image: 16 floats, (4, 4, 1)\n"
                       "   in_num_bers: 3 floats, (3,)\n"
                       "   out_kind: 5 floats, (5,)\n"
                       "   out_size: 1 floats, (1,)\n"));
  for (const char* define : {"MODEL_IN_IMAGE 16", "MODEL_IN_NUM_BERS 3",
                             "MODEL_OUT_KIND 5", "MODEL_OUT_SIZE 1"}) {
    EXPECT_TRUE(Contains(files.header, std::string("#define ") + define));
  }
  EXPECT_TRUE(Contains(files.header, "#ifdef MODEL_IN_IMAGE\n#error"));
}

// Macros of arguments are in capitals, so 'a b' and 'A_B' would have one macro:
// the second gets a number.
TEST(CArgumentsTest, Export_LikeNames_HaveNumbers) {
  Functional model;
  const auto a = model.Add(Input({2}).Name("a b"));
  const auto b = model.Add(Input({2}).Name("A_B"));
  const auto c = model.Add(Input({2}).Name(std::string(90, 'x')));
  model.Add(Add(), {model.Add(Add(), {a, b}), c});
  CompileOne(&model);
  EXPECT_TRUE(
      Contains(FilesOf(&model).header,
               "(const float* in_a_b, const float* in_A_B_2, const float* in_" +
                   std::string(40, 'x') + ", float* out);"));
}

// An output that another layer reads, a view of an input, and an output that
// depends on no input.
TEST(CArgumentsTest, Export_OutputsInUse_AreCopied) {
  Functional model;
  const auto x = model.Add(Input({4}).Name("x"));
  const auto unused = model.Add(Input({2, 3}).Name("unused"));
  const auto view = model.Add(Reshape({2, 2}).Name("view"), {x});
  const auto first = model.Add(Dense(4).Name("first"), {x});
  const auto end = model.Add(ReLU().Name("end"), {first});
  const auto places = model.Add(PositionEmbedding(2), {unused});
  model.Outputs({view, first, end, places});
  CompileOne(&model);
  const std::string file = FilesOf(&model).file;
  EXPECT_TRUE(Contains(file, "copy(in_x, out_view, 1, "));
  EXPECT_TRUE(Contains(file, "conv(in_x, out_first, "));
  EXPECT_TRUE(Contains(file, "copy(out_first, out_end, 1, "));
  EXPECT_TRUE(Contains(file, "  (void)in_unused;\n"));
}

TEST(CArgumentsTest, Export_StatesOfARecurrence_AreInputsAndOutputs) {
  Functional model;
  const auto x = model.Add(Input({1, 3}).Name("x"));
  const auto h = model.Add(Input({4}).Name("h"));
  const auto c = model.Add(Input({4}).Name("c"));
  const auto lstm = model.Add(LSTM(4).ReturnState(true).Name("r"), {x, h, c});
  std::vector<Functional::Node> outputs;
  for (int k = 0; k < 3; ++k) {
    outputs.push_back(model.Add(RecurrentOutput(k), {lstm}));
  }
  model.Outputs(outputs);
  CompileOne(&model);
  const std::string file = FilesOf(&model).file;
  EXPECT_TRUE(
      Contains(file,
               "  recur(in_x, b0, &c3, lstm_step, n0, in_h, in_c, 0, b1);\n"
               "  copy(b0 + 0, out_r_output_0, 1, n1);\n"
               "  copy(b0 + 4, out_r_output_1, 1, n2);\n"
               "  copy(b0 + 8, out_r_output_2, 1, n3);\n"));
}

TEST(CArgumentsTest, Export_WhatTakesOneInputOrOutput_IsRefused) {
  Functional model;
  const auto a = model.Add(Input({2}).Name("a"));
  const auto b = model.Add(Input({2}).Name("b"));
  const auto sum = model.Add(Add(), {a, b});
  model.Outputs({model.Add(Dense(2), {sum}), model.Add(Dense(2), {sum})});
  CompileOne(&model);
  model.set_data_description(DataDescription());
  const auto refuse = [&](const ExportCOptions& options, const char* says) {
    ExpectRefused(
        [&](const std::string& path) { return ExportC(&model, path, options); },
        {says});
  };
  ExportCOptions softmax, scaled, score;
  softmax.softmax = true;
  refuse(softmax, "a softmax can be put behind one output");
  scaled.with_preprocessing = true;
  refuse(scaled, "the preprocessing is that of one input");
  score.anomaly_score = ReconstructionError::kSquared;
  refuse(score, "one input and one output");
}

// Tokens and scaled numbers; a softmax at one end, and an output in use.
TEST(CArgumentsTest, Int8_SeveralInputsAndOutputs_IsNearTheModel) {
  Functional model;
  const auto words = model.Add(Input({5}).Name("words"));
  const auto numbers = model.Add(Input({3}).Name("numbers"));
  const auto rows = model.Add(Embedding(20, 4), {words});
  const auto scaled =
      model.Add(Normalization({1, 2, 3}, {1, 0.1f, 2}), {numbers});
  const auto state = model.Add(GRU(6), {rows});
  const auto both = model.Add(Concatenate(), {state, scaled});
  const auto size = model.Add(Dense(2).Name("size"), {both});
  const auto kind = model.Add(Dense(4, kSoftmax).Name("kind"), {size});
  model.Outputs({kind, size});
  CompileOne(&model);

  constexpr int64_t kCount = 40;
  std::vector<float> x = SomeNumbers(8 * kCount);
  for (size_t i = 0; i < 5 * kCount; ++i) x[i] = std::floor(10 * (x[i] + 1));
  ASSERT_OK(model.Forward(x.data(), kCount, /*training=*/false));
  const std::vector<float> kinds(model.output(0), model.output(0) + 4 * kCount);
  const std::vector<float> sizes(model.output(1), model.output(1) + 2 * kCount);
  const auto dataset_of = [&](const float* values, int64_t width) {
    return Dataset(MemorySource({DType::kFloat32, {width}}, values,
                                {DType::kFloat32, {width}}, values, kCount));
  };
  ExportCOptions options;
  options.calibration = options.test =
      Zip({dataset_of(x.data(), 5), dataset_of(x.data() + 5 * kCount, 3)},
          {dataset_of(kinds.data(), 4), dataset_of(sizes.data(), 2)})
          .Batch(7);
  Int8Report report;
  TempFolder folder;
  ASSERT_OK(ExportC(&model, folder / "m.c", options, &report));
  for (const auto& [output, values] :
       {std::pair("kind", &kinds), std::pair("size", &sizes)}) {
    const auto ends = std::minmax_element(values->begin(), values->end());
    const double step = (double{*ends.second} - double{*ends.first}) / 255;
    const double* const loss = report.after.Find(std::string(output) + "_loss");
    ASSERT_NE(loss, nullptr);
    EXPECT_GT(*loss, 0);
    EXPECT_LT(std::sqrt(*loss), 4 * step) << output;
  }
  EXPECT_TRUE(
      Contains(ReadWhole(folder / "m.h"),
               "int model_predict_int8(const int32_t* in_words, const int8_t* "
               "in_numbers, int8_t* out_kind, int8_t* out_size);"));
  const std::string file = ReadWhole(folder / "m.c");
  EXPECT_TRUE(
      Contains(file, "   in_words: 5 numbers, (5,); whole numbers of tokens"));
  EXPECT_TRUE(Contains(file, ", before the softmax\n   out_size: 2 numbers"));
}

// The softmax is an output, and another layer reads it.
TEST(CArgumentsTest, OutputSoftmaxInUse_OfInt8_IsComputed) {
  Functional model;
  const auto x = model.Add(Input({4}));
  const auto first = model.Add(Dense(3, kSoftmax), {x});
  model.Outputs({first, model.Add(Dense(2), {first})});
  CompileOne(&model);
  constexpr int64_t kCount = 20;
  const std::vector<float> in = SomeNumbers(4 * kCount);
  ASSERT_OK(model.Forward(in.data(), kCount, /*training=*/false));
  const auto dataset_of = [&](const float* values, int64_t width) {
    return Dataset(MemorySource({DType::kFloat32, {width}}, values,
                                {DType::kFloat32, {width}}, values, kCount));
  };
  const std::vector<float> y(model.output(0), model.output(0) + 3 * kCount),
      z(model.output(1), model.output(1) + 2 * kCount);
  ExportCOptions options;
  options.calibration = options.test =
      Zip({dataset_of(in.data(), 4)},
          {dataset_of(y.data(), 3), dataset_of(z.data(), 2)})
          .Batch(kCount);
  Int8Report report;
  TempFolder folder;
  ASSERT_OK(ExportC(&model, folder / "m.c", options, &report));
  EXPECT_LT(*report.after.Find("loss"), 1e-4);
}

}  // namespace
}  // namespace ringlet
