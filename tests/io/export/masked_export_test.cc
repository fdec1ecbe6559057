// Tests exports of models with masks, and of Dot. tests/onnx_test.py and
// c_file_test.py test that the files compute the model's outputs.

#include <gtest/gtest.h>

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

// With a mask, the kernel in the file has one more input than the layer. A
// layer that has this number of inputs must not load the kernel.
TEST(MaskedExportTest, Onnx_KernelWithMask_IsNotReadBack) {
  TempFolder folder;
  const std::string path = folder / "m.onnx";
  for (const int64_t inputs : {2, 3}) {
    Functional model;
    const auto x = model.Add(Masking(), {model.Add(Input({5, inputs}))});
    const auto y = model.Add(LSTM(3).ReturnState(true).Name("memory"), {x});
    model.Outputs({model.Add(RecurrentOutput(2), {y})});
    CompileOne(&model);
    if (inputs == 2) {
      ASSERT_OK(ExportOnnx(&model, path));
    }
    EXPECT_TRUE(
        Contains(LoadWeights(&model, path), "one more input, for a mask"));
  }
}

// Expects that the int8 export names the layer, and what to do.
void ExpectNoInt8(Model* model, const std::string& layer,
                  const std::string& why = "which has no int8 form") {
  CompileOne(model);
  Examples examples;
  ExportCOptions options;
  options.calibration = examples.Batches({4, 2}, {1}, 4);
  ExpectRefused(
      [&](const std::string& path) { return ExportC(model, path, options); },
      {layer, why + "; export the model without int8"});
}

TEST(MaskedExportTest, Int8_MaskOrDot_IsRefusedByName) {
  Sequential masked(
      {Input({4, 2}), Masking().Name("padding"), GRU(3), Dense(1)});
  ExpectNoInt8(&masked, "layer 'padding'", "makes a mask, and int8 has none");
  Functional products;
  const auto x = products.Add(Input({4, 2}));
  const auto dot = products.Add(Dot({2, 2}).Name("products"), {x, x});
  products.Outputs({products.Add(Dense(1), {products.Add(Flatten(), {dot})})});
  ExpectNoInt8(&products, "layer 'products' is a Dot");
}

// Both tensors, the outputs and the last state, use one node Where.
TEST(MaskedExportTest, Onnx_OutputsAndState_HideTheirStepsOnce) {
  Functional model;
  const auto x = model.Add(Masking(), {model.Add(Input({4, 2}))});
  const auto y = model.Add(GRU(3).ReturnSequences(true).ReturnState(true), {x});
  const auto steps = model.Add(RecurrentOutput(0), {y}),
             last = model.Add(RecurrentOutput(1), {y});
  model.Outputs({steps, last});
  CompileOne(&model);
  const std::string file = Exported(
      [&](const std::string& path) { return ExportOnnx(&model, path); });
  EXPECT_EQ(CountOccurrences(file, "\x22\x05Where"), 1);
}

// Each set of axes that gives one product of rows: the ONNX file has a
// Transpose only for an input with its axis in the other place.
TEST(MaskedExportTest, Onnx_Dot_TransposesWhatItsAxesAskFor) {
  const auto count_transposes = [](int64_t a, int64_t b) {
    Functional model;
    const auto x = model.Add(Input({3, 3}));
    model.Outputs({model.Add(Dot({a, b}), {x, x})});
    CompileOne(&model);
    return CountOccurrences(Exported([&](const std::string& path) {
                              return ExportOnnx(&model, path);
                            }),
                            "\x22\x09Transpose");
  };
  EXPECT_EQ(count_transposes(2, 1), 0);
  EXPECT_EQ(count_transposes(2, 2), 1);
  EXPECT_EQ(count_transposes(-2, 1), 1);
  EXPECT_EQ(count_transposes(1, -1), 2);
}

}  // namespace
}  // namespace ringlet
