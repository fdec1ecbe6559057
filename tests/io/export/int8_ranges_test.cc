// Ranges of int8 exports: rows of an Embedding that no example has, and numbers
// so small or large that their scale is no float32.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/exports.h"
#include "ringlet/export.h"

namespace ringlet {
namespace {

Dataset Tokens(const std::vector<float>& x, const std::vector<float>& y) {
  return Dataset(MemorySource({DType::kFloat32, {2}}, x.data(),
                              {DType::kFloat32, {2, 3}}, y.data(),
                              static_cast<int64_t>(x.size() / 2)))
      .Batch(1);
}

// The row of token 4 has other numbers than the examples' rows.
TEST(Int8RangesTest, RowsWithoutExamples_BehindFunctions_KeepTheirNumbers) {
  const std::vector<std::vector<Layer>> chains = {
      {},
      {ReLU()},
      {ReLU(6)},
      {LeakyReLU()},
      {ELU()},
      {ActivationLayer(kTanh)},
      {ActivationLayer(kRelu)},
      {Rescaling(3)},
      {Rescaling(2), ReLU()},
      {Reshape({3, 2}), ReLU(), Reshape({2, 3})},
      {LeakyReLU(), ActivationLayer(kSoftplus)},
      {Permute({2, 1}), ReLU(), Permute({2, 1})}};
  for (size_t i = 0; i < chains.size(); ++i) {
    SCOPED_TRACE(i);
    Functional model;
    auto x = model.Add(Embedding(5, 3), {model.Add(Input({2}))});
    for (const Layer& layer : chains[i]) x = model.Add(layer, {x});
    model.Compile(SGD(), MeanSquaredError());
    ASSERT_OK(model.status());
    for (int k = 0; k < 15; ++k) {
      model.weights()[k] = k < 12 ? 0.25f : static_cast<float>(k % 2 * 12 - 4);
    }
    const std::vector<float> known = {0, 1, 2, 3}, other = {4, 1};
    std::vector<float> y(12);
    ASSERT_OK(model.Forward(other.data(), 1, /*training=*/false));
    std::copy_n(model.output(), 6, y.begin());
    ExportCOptions options;
    options.calibration = Tokens(known, std::vector<float>(12));
    options.test = Tokens(other, y);
    Int8Report report;
    Exported([&](const std::string& path) {
      return ExportC(&model, path, options, &report);
    });
    ASSERT_NE(report.after.Find("loss"), nullptr);
    EXPECT_LT(*report.after.Find("loss"), 0.02);
  }
}

TEST(Int8RangesTest, Numbers_OfAnySize_AreWrittenAsNumbersOrRefused) {
  for (const float number :
       {0.0f, 1e-42f, 1e-37f, 1e-20f, 1e-10f, 1e10f, 1e20f, 1e30f, 3e38f}) {
    for (const Layer& layer :
         {LayerNormalization(), LayerNormalization(1e8f), LSTM(2), Dense(2),
          Layer(PReLU()), ActivationLayer(kSoftmax), ActivationLayer(kTanh)}) {
      SCOPED_TRACE(std::string(ClassName(layer)) + " " +
                   std::to_string(number));
      Sequential model({Input({2, 3}), layer});
      CompileOne(&model);
      const std::vector<float> x(6, number), y(6);
      ExportCOptions options;
      options.calibration =
          Dataset(MemorySource({DType::kFloat32, {2, 3}}, x.data(),
                               {DType::kFloat32, model.output_shape()},
                               y.data(), 1))
              .Batch(1);
      TempFolder folder;
      const Status status = ExportC(&model, folder / "m", options);
      if (!status.ok()) {
        EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
        EXPECT_GT(number, 1e10f) << status.message();
        continue;
      }
      const std::string file = ReadWhole(folder / "m");
      EXPECT_FALSE(Contains(file, "inf.f"));
      EXPECT_FALSE(Contains(file, "inff"));
      EXPECT_FALSE(Contains(file, "nan.f"));
      EXPECT_FALSE(Contains(file, "nanf"));
    }
  }
}

}  // namespace
}  // namespace ringlet
