// Layers that change images as JSON of Keras 2, Keras 3 and TensorFlow.js.

#include <gtest/gtest.h>

#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_json.h"
#include "core/layers/layer_kind.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

// A Sequential of images of (8, 6, 3), and one layer "it".
std::string WithImages(const std::string& kind, const std::string& config,
                       const std::string& module = "keras.layers") {
  return R"({"module": "keras", "class_name": "Sequential", "config": {
      "name": "m", "layers": [
      {"module": "keras.layers", "class_name": "InputLayer", "config":
          {"batch_shape": [null, 8, 6, 3], "name": "x"}},
      {"module": ")" +
         module + R"(", "class_name": ")" + kind +
         R"(", "config": {"name": "it", "trainable": true)" +
         (config.empty() ? "" : ", " + config) + R"(}}]}})";
}

// The layer of a text, which is the same when it is written and read.
Layer LayerOf(const std::string& json) {
  const auto model = LoadJson(json);
  if (model == nullptr) return Layer();
  ExpectSameTwice(*model);
  return model->layer(1);
}

void ExpectRange(const FloatRange& range, float lower, float upper) {
  EXPECT_EQ(range.lower, lower);
  EXPECT_EQ(range.upper, upper);
}

TEST(AugmentationJsonTest, Load_LayersOfKeras3_HaveTheirFields) {
  const Layer flip = LayerOf(WithImages(
      "RandomFlip",
      R"("seed": 7, "mode": "vertical", "data_format": "channels_last")"));
  EXPECT_EQ(flip.kind, Layer::Kind::kRandomFlip);
  EXPECT_EQ(flip.mode, FlipMode::kVertical);
  EXPECT_EQ(flip.seed, 7u);
  const Layer moved = LayerOf(WithImages(
      "RandomTranslation", R"("height_factor": 0.25, "width_factor": [0.5, -1],
      "fill_mode": "constant", "interpolation": "nearest", "seed": null,
      "fill_value": 0.5, "data_format": "channels_last")"));
  ExpectRange(moved.height_factor, -0.25f, 0.25f);
  ExpectRange(moved.width_factor, -1, 0.5f);
  EXPECT_EQ(moved.fill_mode, FillMode::kConstant);
  EXPECT_EQ(moved.interpolation, Interpolation::kNearest);
  EXPECT_EQ(moved.fill_value, 0.5f);
  const Layer rotated = LayerOf(WithImages(
      "RandomRotation", R"("factor": [-0.25, 0.5], "fill_mode": "wrap")"));
  ExpectRange(rotated.factor, -0.25f, 0.5f);
  EXPECT_EQ(rotated.fill_mode, FillMode::kWrap);
  const Layer zoomed = LayerOf(WithImages(
      "RandomZoom", R"("height_factor": 0.5, "width_factor": null)"));
  EXPECT_TRUE(zoomed.width_factor.is_none);
  EXPECT_EQ(zoomed.fill_mode, FillMode::kReflect);
  const Layer contrast = LayerOf(WithImages(
      "RandomContrast", R"("factor": [0.0, 0.5], "value_range": [0, 1])"));
  ExpectRange(contrast.factor, 0, 0.5f);
  ExpectRange(
      LayerOf(WithImages("RandomContrast", R"("factor": [0.5, 0.25])")).factor,
      0.5f, 0.25f);
  ExpectRange(
      LayerOf(WithImages("RandomContrast", R"("factor": [0.5, 5])")).factor,
      0.5f, 5);
  ExpectRange(contrast.value_range, 0, 1);
  const Layer bright = LayerOf(WithImages(
      "RandomBrightness", R"("factor": 0.5, "bounding_box_format": null)"));
  ExpectRange(bright.factor, -0.5f, 0.5f);
  ExpectRange(bright.value_range, 0, 255);
  const Layer resized = LayerOf(WithImages(
      "Resizing", R"("height": 4, "width": 5, "interpolation": "bilinear",
      "crop_to_aspect_ratio": false, "pad_to_aspect_ratio": true,
      "fill_mode": "constant", "fill_value": 0.25,
      "data_format": "channels_last")"));
  EXPECT_EQ(resized.height, 4);
  EXPECT_EQ(resized.width, 5);
  EXPECT_TRUE(resized.pad_to_aspect_ratio);
  EXPECT_EQ(resized.fill_value, 0.25f);
  EXPECT_EQ(
      LayerOf(WithImages("RandomCrop", R"("height": 4, "width": 5, "seed": 3)"))
          .kind,
      Layer::Kind::kRandomCrop);
}

// Keras 2 has fewer fields, and a number for the factor of a contrast.
TEST(AugmentationJsonTest, Load_LayersOfKeras2_HaveItsMeaning) {
  for (const char* const module :
       {"keras.layers.experimental.preprocessing",
        "keras.src.layers.preprocessing.image_preprocessing"}) {
    const Layer contrast = LayerOf(WithImages(
        "RandomContrast", R"("factor": 0.25, "seed": null)", module));
    ExpectRange(contrast.factor, 0.25f, 0.25f);
    const Layer resized =
        LayerOf(WithImages("Resizing",
                           R"("dtype": "float32", "height": 4, "width": 5,
                           "interpolation": "nearest",
                           "crop_to_aspect_ratio": true)",
                           module));
    EXPECT_TRUE(resized.crop_to_aspect_ratio);
  }
}

TEST(AugmentationJsonTest, Load_LayersOfTensorFlowJs_HaveTheirFields) {
  const std::string text =
      R"({"class_name": "Sequential", "config": {"name": "m", "layers": [
      {"class_name": "CenterCrop", "config": {"height": 4, "width": 5,
       "name": "center_crop_CenterCrop1", "trainable": true,
       "batch_input_shape": [null, 8, 6, 3], "dtype": "float32"}},
      {"class_name": "Resizing", "config": {"height": 3, "width": 2,
       "interpolation": "nearest", "crop_to_aspect_ratio": false,
       "name": "resizing_Resizing1", "trainable": true}}]},
      "keras_version": "tfjs-layers 4.22.0", "backend": "tensor_flow.js"})";
  const auto model = LoadJson(text);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->layer(1).kind, Layer::Kind::kCenterCrop);
  EXPECT_EQ(model->layer(2).interpolation, Interpolation::kNearest);
  EXPECT_EQ(model->output_shape(2), (Shape{3, 2, 3}));
  ExpectSameTwice(*model);
}

TEST(AugmentationJsonTest, Load_UnsupportedSetting_ErrorNamesIt) {
  const auto expect = [](const std::string& kind, const std::string& config,
                         const std::string& part) {
    EXPECT_TRUE(Contains(JsonError(WithImages(kind, config)), part));
  };
  expect("RandomWidth", R"("factor": 0.5)", "gives each batch another size");
  expect("RandomHeight", R"("factor": 0.5)", "use RandomZoom, or Resizing");
  expect("RandomShear", R"("x_factor": 0.5)", "ringlet does not");
  expect("RandomFlip", R"("mode": "both")", "mode");
  expect("RandomFlip", R"("data_format": "channels_first")", "data_format");
  expect("RandomRotation", R"("factor": 1.5)", "factor");
  expect("RandomRotation", R"("factor": [0, 0, 0])", "factor");
  expect("RandomRotation", R"("factor": [0.5])", "factor");
  expect("RandomRotation", "", "factor");
  expect("RandomZoom", R"("height_factor": 0, "fill_mode": "mirror")",
         "fill_mode");
  expect("RandomBrightness", R"("factor": 0, "value_range": 1)", "value_range");
  expect("RandomBrightness", R"("factor": 0, "value_range": [0, 1e39])",
         "value_range");
  expect("RandomContrast", R"("factor": [1.5, 2])", "with lower <= 1");
  expect("RandomContrast", R"("factor": 1.5)", "with lower <= 1");
  expect("Resizing", R"("height": 4, "width": 5, "interpolation": "bicubic")",
         "Keras has the interpolation 'bicubic', ringlet does not; it has "
         "bilinear, nearest");
  expect("Resizing", R"("height": 4, "width": 5, "interpolation": "lanczos3")",
         "interpolation");
  expect("Resizing", R"("height": 0, "width": 5)", "height");
  expect("CenterCrop", R"("height": 4)", "width");
}

}  // namespace
}  // namespace ringlet
