// Tests exports of a GroupNormalization. tests/onnx_test.py and c_file_test.py
// test that the files compute the model's outputs.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/exports.h"
#include "../../support/made_examples.h"
#include "../../support/temp_folder.h"
#include "ringlet/checkpoint.h"
#include "ringlet/export.h"

namespace ringlet {
namespace {

std::string OnnxOf(Model* model) {
  return Exported(
      [&](const std::string& path) { return ExportOnnx(model, path); });
}

int NodesOf(const std::string& file, const std::string& op) {
  return CountOccurrences(
      file, "\x22" + std::string(1, static_cast<char>(op.size())) + op);
}

TEST(GroupNormalizationExportTest, Onnx_AfterAConvolution_KeepsChannelsFirst) {
  Sequential images({Input({6, 5, 2}), Conv2D(4, 3), GroupNormalization(2),
                     Conv2D(3, 1), Flatten(), Dense(2)});
  CompileOne(&images);
  EXPECT_EQ(NodesOf(OnnxOf(&images), "Transpose"), 1);
  Sequential rows({Input({6, 5, 4}), GroupNormalization(4)});
  CompileOne(&rows);
  EXPECT_EQ(NodesOf(OnnxOf(&rows), "Transpose"), 0);
}

// gamma and beta have an axis for each axis of the image there.
TEST(GroupNormalizationExportTest, Onnx_ReadBack_GivesTheSameWeights) {
  const auto add = [](Sequential* model) {
    for (const Layer& layer :
         {Input({6, 5, 2}), Conv2D(4, 3).Name("image"),
          GroupNormalization(2).Name("images"), Flatten(), Dense(6).Name("row"),
          GroupNormalization(3).Scale(false).Name("rows")}) {
      model->Add(layer);
    }
    CompileOne(model);
  };
  Sequential model, read;
  add(&model);
  add(&read);
  const auto count = static_cast<size_t>(model.num_weights());
  for (size_t i = 0; i < count; ++i) {
    model.weights()[i] = static_cast<float>(i + 1);
  }
  const TempFolder folder;
  const std::string path = folder / "m.onnx";
  EXPECT_OK(ExportOnnx(&model, path));
  LoadWeightsOptions options;
  options.warn = [](const std::string&) {};
  EXPECT_OK(LoadWeights(&read, path, options));
  EXPECT_TRUE(
      std::equal(model.weights(), model.weights() + count, read.weights()));
}

TEST(GroupNormalizationExportTest, C_AnyRank_CountsRowsAndGroups) {
  Sequential model({Input({3, 2, 6}), GroupNormalization(3).Center(false),
                    Flatten(), GroupNormalization(4, 0.5f).Scale(false)});
  CompileOne(&model);
  const std::string file =
      Exported([&](const std::string& path) { return ExportC(&model, path); });
  EXPECT_TRUE(Contains(file, ", 6, 3, 2, 0.001")) << file;
  EXPECT_TRUE(Contains(file, ", 1, 4, 9, 0.5f, 0, ")) << file;
}

TEST(GroupNormalizationExportTest, Int8_IsRefusedByName) {
  Sequential model({Input({4}), Dense(4), GroupNormalization(2).Name("g")});
  CompileOne(&model);
  Examples examples;
  ExportCOptions options;
  options.calibration = examples.Batches({4}, {4}, 4);
  ExpectRefused(
      [&](const std::string& path) { return ExportC(&model, path, options); },
      {"layer 'g'", "GroupNormalization", "int8"});
}

}  // namespace
}  // namespace ringlet
