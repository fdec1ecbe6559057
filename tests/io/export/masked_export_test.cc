// Tests exports of models with masks. tests/onnx_test.py and c_file_test.py
// test that the files compute the model's outputs.

#include <gtest/gtest.h>

#include <string>

#include "../../support/contains.h"
#include "../../support/exports.h"
#include "../../support/made_examples.h"
#include "ringlet/export.h"

namespace ringlet {
namespace {

TEST(MaskedExportTest, Onnx_MaskThatOnlyTrainingReads_IsNotInTheFile) {
  Sequential model({Input({4}), Embedding(9, 3).MaskZero(true),
                    BatchNormalization(), Flatten(), Dense(2)});
  CompileOne(&model);
  const std::string file = Exported(
      [&](const std::string& path) { return ExportOnnx(&model, path); });
  EXPECT_FALSE(Contains(file, "/mask"));
}

TEST(MaskedExportTest, Onnx_CarryWithGatesThatDoNotClose_IsRefused) {
  Functional model;
  const auto x = model.Add(Masking(), {model.Add(Input({4, 2}))});
  const auto y = model.Add(
      LSTM(3, kTanh, kSoftsign).ReturnState(true).Name("memory"), {x});
  model.Outputs({model.Add(RecurrentOutput(2), {y})});
  CompileOne(&model);
  ExpectRefused(
      [&](const std::string& path) { return ExportOnnx(&model, path); },
      {"layer 'memory' is an LSTM", "a mask, return_state", "'softsign'"});
  EXPECT_TRUE(Contains(
      Exported([&](const std::string& path) { return ExportC(&model, path); }),
      "static void mask("));
}

}  // namespace
}  // namespace ringlet
