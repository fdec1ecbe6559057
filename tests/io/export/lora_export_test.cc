// Exports of a model with LoRA equal the exports of the model with merged
// kernels.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "../../support/exports.h"
#include "../../support/op_runner.h"
#include "core/layers/basic/lora.h"
#include "ringlet/export.h"

namespace ringlet {
namespace {

// A shared layer, one for each step, and an embedding; with LoRA or without.
std::unique_ptr<Functional> Make(bool lora) {
  const auto with = [lora](Layer layer, int64_t rank, int64_t alpha) {
    return lora ? layer.LoraRank(rank).LoraAlpha(alpha) : layer;
  };
  auto model = std::make_unique<Functional>();
  const auto x = model->Add(Input({3}).Name("x"));
  const auto rows = model->Add(with(Embedding(5, 4).Name("rows"), 2, 3), {x});
  const auto once =
      model->Add(with(Dense(4, kRelu).Name("both"), 1, 4), {rows});
  const auto twice = model->CallAgain(once, {once});
  const auto each =
      model->Add(TimeDistributed(with(Dense(2), 2, 1)).Name("each"), {twice});
  model->Add(Dense(2).Name("end"), {model->Add(Flatten(), {each})});
  CompileOne(model.get());
  return model;
}

const Variable* Find(const Model& model, const std::string& path) {
  for (const Variable& v : model.variables()) {
    if (v.path == path) return &v;
  }
  return nullptr;
}

// Gives a model of the same layers the weights of `lora`, merged.
void MergeInto(Model& lora, Model* plain) {
  for (const Variable& v : plain->variables()) {
    const size_t slash = v.path.rfind('/');
    const std::string name = v.path.substr(0, slash);
    const std::string start = name + "/lora_" + v.path.substr(slash + 1);
    const float* const w = lora.weights() + Find(lora, v.path)->offset;
    std::vector<float> values(w, w + v.size());
    const Variable *const a = Find(lora, start + "_a"), *const b = Find(
                                                            lora, start + "_b");
    for (int node = 0; a != nullptr && node < lora.num_nodes(); ++node) {
      const Layer& own = lora.layer(node);
      if (own.name != name) continue;
      values =
          MergeLora(own.layer != nullptr ? *own.layer : own, v.shape, w,
                    lora.weights() + a->offset, lora.weights() + b->offset);
    }
    std::copy(values.begin(), values.end(), plain->weights() + v.offset);
  }
}

Dataset Calibration() {
  static const std::vector<float> x = RandomFloats(64 * 6, 3), y(64 * 3, 0.0f);
  return Dataset(MemorySource({DType::kFloat32, {6}}, x.data(),
                              {DType::kFloat32, {3}}, y.data(), 64))
      .Batch(16);
}

TEST(LoraExportTest, OnnxAndC_OfLora_EqualMergedKernels) {
  const auto lora = Make(/*lora=*/true), plain = Make(/*lora=*/false);
  MergeInto(*lora, plain.get());
  const auto onnx = [](Model* model) {
    return Exported(
        [&](const std::string& path) { return ExportOnnx(model, path); });
  };
  const auto c = [](Model* model) {
    return Exported(
        [&](const std::string& path) { return ExportC(model, path); });
  };
  EXPECT_EQ(onnx(lora.get()), onnx(plain.get()));
  EXPECT_EQ(c(lora.get()), c(plain.get()));
}

TEST(LoraExportTest, Int8_OfLora_EqualsMergedKernels) {
  Sequential lora({Input({6}), Dense(8, kRelu).LoraRank(2).LoraAlpha(5),
                   Dense(3).LoraRank(1)}),
      plain({Input({6}), Dense(8, kRelu), Dense(3)});
  CompileOne(&lora);
  CompileOne(&plain);
  MergeInto(lora, &plain);
  const auto int8 = [](Model* model) {
    ExportCOptions options;
    options.calibration = Calibration();
    return Exported(
        [&](const std::string& path) { return ExportC(model, path, options); });
  };
  EXPECT_EQ(int8(&lora), int8(&plain));
}

}  // namespace
}  // namespace ringlet
