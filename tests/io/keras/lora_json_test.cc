// lora_rank and lora_alpha in the JSON of Keras 3.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

std::string WithLayer(const std::string& kind, const std::string& config) {
  return R"({"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 4]}},
      {"class_name": ")" +
         kind + R"(", "config": {)" + config + "}}]}}";
}

// As Keras 3.13 writes them, in part.
constexpr char kDenseOfKeras[] = R"("name": "dense", "trainable": true,
    "units": 3, "activation": "linear", "use_bias": true,
    "kernel_regularizer": null, "kernel_constraint": null,
    "quantization_config": null, "lora_rank": 4, "lora_alpha": 8)";
constexpr char kEmbeddingOfKeras[] = R"("name": "embedding", "input_dim": 9,
    "output_dim": 3, "mask_zero": false, "quantization_config": null,
    "lora_rank": 2, "lora_alpha": 2)";

TEST(LoraJsonTest, Read_LayersOfKeras_HaveTheirFields) {
  std::unique_ptr<Model> model;
  ASSERT_OK(ModelFromJson(WithLayer("Dense", kDenseOfKeras), &model));
  EXPECT_EQ(model->layer(1).lora_rank, 4);
  EXPECT_EQ(model->layer(1).lora_alpha, 8);
  const std::string written = ToJson(*model);
  EXPECT_TRUE(Contains(written, R"("lora_rank":4,"lora_alpha":8)"));
  std::unique_ptr<Model> again;
  ASSERT_OK(ModelFromJson(written, &again));
  EXPECT_EQ(ToJson(*again), written);
  ASSERT_OK(ModelFromJson(WithLayer("Embedding", kEmbeddingOfKeras), &model));
  EXPECT_EQ(model->layer(1).lora_rank, 2);
  EXPECT_EQ(model->variables()[0].path, "embedding/embeddings");
  EXPECT_EQ(model->variables()[2].path, "embedding/lora_embeddings_b");
}

// Keras writes them only for a layer with LoRA.
TEST(LoraJsonTest, Write_LayerWithoutLora_HasNoFieldsOfLora) {
  std::unique_ptr<Model> model;
  ASSERT_OK(ModelFromJson(
      WithLayer("Dense",
                R"("units": 3, "lora_rank": null, "lora_alpha": null)"),
      &model));
  EXPECT_EQ(model->layer(1).lora_rank, 0);
  EXPECT_FALSE(Contains(ToJson(*model), "lora"));
}

TEST(LoraJsonTest, Fields_DoNotFit_AreErrors) {
  const auto expect = [](const std::string& kind, const std::string& config,
                         const std::string& part) {
    std::unique_ptr<Model> model;
    EXPECT_TRUE(Contains(ModelFromJson(WithLayer(kind, config), &model), part));
  };
  expect("Dense", R"("units": 3, "lora_rank": -2)", "lora_rank");
  expect("Dense", R"("units": 3, "lora_rank": 1.5)", "lora_rank");
  expect("Dense", R"("units": 3, "lora_rank": 0)", "lora_rank");
  expect("Dense", R"("units": 3, "lora_alpha": 8)",
         "a lora_alpha of 8 needs a lora_rank");
  expect("Dense",
         R"("units": 3, "lora_rank": 2, "kernel_constraint":
         {"class_name": "NonNeg"})",
         "kernel_constraint: does not go with lora_rank");
  expect("Conv1D", R"("filters": 3, "kernel_size": 1, "lora_rank": 2)",
         "lora_rank");
}

}  // namespace
}  // namespace ringlet
