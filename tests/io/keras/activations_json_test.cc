// Layers that are random while training, and activations with axes or weights,
// in the JSON of Keras 3, Keras 2 and TensorFlow.js. Also hard_sigmoid, of
// which Keras 2 and Keras 3 have different formulas.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_json.h"
#include "core/layers/layer_kind.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

std::string Class(const char* name, const std::string& config,
                  const char* more = "") {
  return std::string(R"({"class_name": ")") + name + R"(", "config": {)" +
         config + "}" + more + "}";
}

// A model of input (4, 6, 3), in the writers' order of fields.
const char kKeras3[] = R"({"module": "keras", "class_name": "Sequential",
 "config": {"name": "noise", "trainable": true, "dtype": {"module": "keras",
 "class_name": "DTypePolicy", "config": {"name": "float32"},
 "registered_name": null}, "layers": [
 {"module": "keras.layers", "class_name": "InputLayer", "config": {
  "batch_shape": [null, 4, 6, 3], "dtype": "float32", "sparse": false,
  "ragged": false, "name": "input_layer"}, "registered_name": null},
 {"module": "keras.layers", "class_name": "GaussianNoise", "config": {
  "name": "gaussian_noise", "trainable": true, "dtype": "float32",
  "stddev": 1, "seed": null}, "registered_name": null},
 {"module": "keras.layers", "class_name": "SpatialDropout2D", "config": {
  "rate": 0.25, "seed": 3, "name": "spatial_dropout2d", "dtype": "float32",
  "data_format": "channels_last"}, "registered_name": null},
 {"module": "keras.layers", "class_name": "PReLU", "config": {
  "name": "p_re_lu", "trainable": true, "dtype": "float32",
  "alpha_initializer": {"module": "keras.initializers",
   "class_name": "Constant", "config": {"value": 0.25},
   "registered_name": null},
  "alpha_regularizer": {"module": "keras.regularizers", "class_name": "L2",
   "config": {"l2": 0.01}, "registered_name": null},
  "alpha_constraint": null, "shared_axes": [1, 2]}, "registered_name": null,
  "build_config": {"input_shape": [null, 4, 6, 3]}},
 {"module": "keras.layers", "class_name": "Softmax", "config": {
  "name": "softmax", "trainable": true, "dtype": "float32", "axis": [1, 2]},
  "registered_name": null},
 {"module": "keras.layers", "class_name": "AlphaDropout", "config": {
  "name": "alpha_dropout", "trainable": true, "dtype": "float32",
  "rate": 0.1, "seed": 7, "noise_shape": null}, "registered_name": null},
 {"module": "keras.layers", "class_name": "Reshape", "config": {
  "name": "reshape", "trainable": true, "dtype": "float32",
  "target_shape": [24, 3]}, "registered_name": null},
 {"module": "keras.layers", "class_name": "SpatialDropout1D", "config": {
  "rate": 0.5, "seed": null, "name": "spatial_dropout1d",
  "dtype": "float32"}, "registered_name": null},
 {"module": "keras.layers", "class_name": "GaussianDropout", "config": {
  "name": "gaussian_dropout", "trainable": true, "dtype": "float32",
  "rate": 0.5, "seed": null}, "registered_name": null},
 {"module": "keras.layers", "class_name": "PReLU", "config": {
  "name": "p_re_lu_1", "trainable": true, "dtype": "float32",
  "alpha_initializer": "zeros", "alpha_regularizer": null,
  "alpha_constraint": null, "shared_axes": null}, "registered_name": null}],
 "build_input_shape": [null, 4, 6, 3]}, "registered_name": null})";

// The same model as Keras 2 writes it, or as TensorFlow.js does, with its
// version.
std::string OfKeras2(const char* version) {
  return std::string(R"({"class_name": "Sequential", "config": {
 "name": "noise", "layers": [)") +
         Class("InputLayer", R"("batch_input_shape": [null, 4, 6, 3],
  "dtype": "float32", "sparse": false, "ragged": false,
  "name": "input_layer")") +
         "," + Class("GaussianNoise", R"("name": "gaussian_noise",
  "trainable": true, "dtype": "float32", "stddev": 1.0)") +
         "," + Class("SpatialDropout2D", R"("name": "spatial_dropout2d",
  "trainable": true, "dtype": "float32", "rate": 0.25, "noise_shape": null,
  "seed": 3)") +
         "," + Class("PReLU", R"("name": "p_re_lu", "trainable": true,
  "dtype": "float32", "alpha_initializer": {"class_name": "Constant",
  "config": {"value": 0.25}}, "alpha_regularizer": {"class_name": "L2",
  "config": {"l2": 0.01}}, "alpha_constraint": null,
  "shared_axes": [1, 2])") +
         "," + Class("Softmax", R"("name": "softmax", "trainable": true,
  "dtype": "float32", "axis": [1, 2])") +
         "," + Class("AlphaDropout", R"("name": "alpha_dropout",
  "trainable": true, "dtype": "float32", "rate": 0.1, "seed": 7)") +
         "," + Class("Reshape", R"("name": "reshape", "trainable": true,
  "dtype": "float32", "target_shape": [24, 3])") +
         "," + Class("SpatialDropout1D", R"("name": "spatial_dropout1d",
  "trainable": true, "dtype": "float32", "rate": 0.5, "noise_shape": null,
  "seed": null)") +
         "," + Class("GaussianDropout", R"("name": "gaussian_dropout",
  "trainable": true, "dtype": "float32", "rate": 0.5)") +
         "," + Class("PReLU", R"("name": "p_re_lu_1", "trainable": true,
  "dtype": "float32", "alpha_initializer": {"class_name": "Zeros",
  "config": {}}, "alpha_regularizer": null, "alpha_constraint": null,
  "shared_axes": null)") +
         R"(]}, "keras_version": ")" + version +
         R"(", "backend": "tensorflow"})";
}

TEST(ActivationsJsonTest, Load_NoiseAndAxesOfAllWriters_GiveTheSameModel) {
  Sequential expected(
      {Input({4, 6, 3}), GaussianNoise(1), SpatialDropout2D(0.25f).Seed(3),
       PReLU({1, 2})
           .AlphaInitializer(Constant(0.25f))
           .AlphaRegularizer(L2(0.01f)),
       Softmax({1, 2}), AlphaDropout(0.1f).Seed(7), Reshape({24, 3}),
       SpatialDropout1D(0.5f), GaussianDropout(0.5f), PReLU()});
  expected.set_name("noise");
  ASSERT_OK(expected.status());
  const std::string json = ToJson(expected);
  for (const std::string& text :
       {json, std::string(kKeras3), OfKeras2("2.15.0"),
        OfKeras2("tfjs-layers 4.22.0")}) {
    const auto model = LoadJson(text);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(ToJson(*model), json);
  }
  // Keras makes these of no more arguments.
  EXPECT_TRUE(
      Contains(json, R"("config":{"name":"spatial_dropout1d","dtype":)"));
  EXPECT_TRUE(Contains(json, R"("shared_axes":[1,2]})"));
  EXPECT_TRUE(Contains(json, R"("shared_axes":null})"));
}

std::string WithOne(const std::string& layer) {
  return R"({"class_name": "Sequential", "config": {"layers": [)" +
         Class("InputLayer", R"("batch_shape": [null, 4, 3])") + "," + layer +
         "]}}";
}

TEST(ActivationsJsonTest, Load_SoftmaxOverTheLastAxis_IsAnActivation) {
  for (const char* axis :
       {R"("axis": -1)", R"("axis": [-1])", R"("axis": 2)", ""}) {
    const auto model = LoadJson(WithOne(Class("Softmax", axis)));
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->layer(1).kind, Layer::Kind::kActivation);
  }
  const auto model = LoadJson(WithOne(Class("Softmax", R"("axis": 1)")));
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->layer(1).axes, (std::vector<int64_t>{1}));
}

TEST(ActivationsJsonTest, Load_WrongSettings_ErrorNamesThem) {
  const auto error = [](const char* name, const char* config) {
    return JsonError(WithOne(Class(name, config)));
  };
  EXPECT_TRUE(Contains(error("Softmax", R"("axis": 0)"), "axis must be"));
  EXPECT_TRUE(Contains(error("Softmax", R"("axis": "x")"), "axis"));
  EXPECT_TRUE(
      Contains(error("PReLU", R"("shared_axes": [3])"), "shared_axes has 3"));
  EXPECT_TRUE(Contains(error("PReLU", R"("alpha_constraint": "NonNegative")"),
                       "alpha_constraint"));
  EXPECT_TRUE(Contains(error("GaussianNoise", R"("stddev": 2)"), "stddev"));
  EXPECT_TRUE(Contains(error("GaussianNoise", ""), "stddev"));
  EXPECT_TRUE(Contains(error("AlphaDropout", R"("rate": 1)"), "rate"));
  EXPECT_TRUE(Contains(
      error("SpatialDropout1D", R"("rate": 0.5, "noise_shape": [1, 1, 3])"),
      "noise_shape"));
}

// Keras 2 writes the kernel's fields for every convolution. A value that would
// be lost is refused.
TEST(ActivationsJsonTest, Load_KernelFieldsOfSeparableConv_AreRefusedIfSet) {
  const auto layer_json = [](const char* more) {
    return WithOne(
        Class("SeparableConv1D", std::string(R"("filters": 2, "kernel_size": 3,
  "depthwise_regularizer": {"class_name": "L2", "config": {"l2": 0.5}},
  "kernel_initializer": {"class_name": "GlorotUniform",
  "config": {"seed": null}}, "kernel_constraint": null, )") +
                                     more));
  };
  const auto model = LoadJson(layer_json(R"("kernel_regularizer": null)"));
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->layer(1).depthwise_regularizer.l2, 0.5f);
  EXPECT_FALSE(Contains(ToJson(*model), "kernel_regularizer\""));
  EXPECT_TRUE(Contains(
      JsonError(layer_json(R"("kernel_regularizer": {"class_name": "L2",
  "config": {"l2": 0.5}})")),
      "kernel_regularizer"));
  EXPECT_TRUE(Contains(JsonError(layer_json(R"("groups": 2)")), "groups"));
}

// --- hard_sigmoid -----------------------------------------------------------

Activation Read(const std::string& more, const char* input = "batch_shape",
                const char* name = "hard_sigmoid") {
  const std::string dense = Class(
      "Dense", std::string(R"("units": 2, "activation": ")") + name + '"');
  const std::string nested = Class(
      "Sequential",
      R"("name": "inner", "layers": [)" +
          Class("InputLayer", std::string("\"") + input + R"(": [null, 3])") +
          "," + dense + "]");
  const auto model = LoadJson(
      R"({"class_name": "Sequential", "config": {"layers": [)" +
      Class("InputLayer", std::string("\"") + input + R"(": [null, 3])") + "," +
      nested + "," + dense + "]}" + more + "}");
  if (model == nullptr) return kLinear;
  // The written JSON is read again as the same model.
  const auto again = LoadJson(ToJson(*model));
  EXPECT_EQ(ToJson(*again), ToJson(*model));
  EXPECT_EQ(again->layer(2).activation, model->layer(2).activation);
  EXPECT_EQ(model->layer(1).activation, model->layer(2).activation);
  return model->layer(2).activation;
}

TEST(ActivationsJsonTest, HardSigmoid_AnyWriter_IsTheWriters) {
  EXPECT_EQ(Read(""), kHardSigmoid);
  EXPECT_EQ(Read(R"(, "keras_version": "3.5.0")"), kHardSigmoid);
  EXPECT_EQ(Read(R"(, "module": "keras")", "batch_input_shape"), kHardSigmoid);
  EXPECT_EQ(Read(R"(, "keras_version": "2.15.0", "backend": "tensorflow")"),
            kHardSigmoidKeras2);
  EXPECT_EQ(Read(R"(, "keras_version": "tfjs-layers 4.22.0")"),
            kHardSigmoidKeras2);
  EXPECT_EQ(Read("", "batch_input_shape"), kHardSigmoidKeras2);
  EXPECT_EQ(Read("", "batch_shape", "hard_sigmoid_keras2"), kHardSigmoidKeras2);
  EXPECT_EQ(Read(R"(, "keras_version": "2.15.0")", "batch_shape", "sigmoid"),
            kSigmoid);
}

}  // namespace
}  // namespace ringlet
