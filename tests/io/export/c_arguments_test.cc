// Tests the C files of models with several inputs and outputs.
// tests/c_file_test.py tests that such files compute the models' outputs.

#include <gtest/gtest.h>

#include "../../support/contains.h"
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

TEST(CArgumentsTest, SeveralInputsAndOutputs_HaveTheLayersNames) {
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

// Macros ignore the case of letters.
TEST(CArgumentsTest, LikeNames_HaveNumbers) {
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
TEST(CArgumentsTest, OutputsInUse_AreCopied) {
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

TEST(CArgumentsTest, WhatTakesOneInputOrOutput_IsRefused) {
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
  ExportCOptions softmax, scaled, score, int8;
  softmax.softmax = true;
  refuse(softmax, "a softmax can be put behind one output");
  scaled.with_preprocessing = true;
  refuse(scaled, "the preprocessing is that of one input");
  score.anomaly_score = ReconstructionError::kSquared;
  refuse(score, "one input and one output");
  Examples examples;
  int8.calibration = examples.Batches({2}, {2}, 4);
  refuse(int8, "in int8 a model has one input");
}

}  // namespace
}  // namespace ringlet
