#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_json.h"
#include "core/layers/constraints.h"
#include "same_models.h"

namespace ringlet {
namespace {

// --- what Keras writes ------------------------------------------------------

TEST(ModelJsonTest, Load_TutorialModelOfKeras3_IsTheSame) {
  Sequential expected({Input({28, 28}), Reshape({28, 28, 1}),
                       Conv2D(32, 3, kRelu), Flatten(), Dense(128, kRelu),
                       Dense(10)});
  const auto model = LoadJson(KerasJson("keras3_tutorial_cnn"));
  ASSERT_NE(model, nullptr);
  ExpectSameModel(expected, *model);
  ExpectSameWeights(&expected, model.get());
}

// Inputs come first whatever the file's order; all spellings are one model.
TEST(ModelJsonTest, Load_TwoInputsAndTwoOutputs_AreTheSameForAllWriters) {
  Functional expected;
  const auto image = expected.Add(Input({4, 4, 1}).Name("image"));
  const auto numbers = expected.Add(Input({3}).Name("numbers"));
  const auto flat = expected.Add(Flatten().Name("flat"), {image});
  const auto join = expected.Add(Concatenate().Name("join"), {flat, numbers});
  const auto hidden = expected.Add(Dense(8, kRelu).Name("hidden"), {join});
  const auto kind = expected.Add(Dense(5, kSoftmax).Name("kind"), {hidden});
  const auto age = expected.Add(Dense(1).Name("age"), {hidden});
  expected.Outputs({kind, age});
  for (const char* file :
       {"keras3_two_by_two", "keras2_two_by_two", "tfjs_two_by_two"}) {
    SCOPED_TRACE(file);
    const auto model = LoadJson(KerasJson(file));
    ASSERT_NE(model, nullptr);
    expected.set_name(model->name());
    ExpectSameModel(expected, *model);
    ASSERT_EQ(model->num_inputs(), 2);
    ASSERT_EQ(model->num_outputs(), 2);
    EXPECT_EQ(model->output_name(0), "kind");
    EXPECT_EQ(model->output_name(1), "age");
    EXPECT_EQ(ToJson(*LoadJson(ToJson(*model))), ToJson(*model));
  }
  // The names are in another order, and a layer has one of them.
  Functional other;
  const auto x = other.Add(Input({2}).Name("x"));
  const auto y = other.Add(Input({2}).Name("y"));
  const auto a = other.Add(Dense(2).Name("a"), {y});
  const auto b = other.CallAgain(a, {other.Add(Add(), {a, x})});
  other.Outputs({b, a});
  const auto again = LoadJson(ToJson(other));
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(ToJson(*again), ToJson(other));
  EXPECT_EQ(again->output_name(0), "a");
  EXPECT_EQ(again->output_name(1), "a_1");
  EXPECT_EQ(again->output_node(1), a);
}

TEST(ModelJsonTest, Load_BatchNormalizationOfKeras3_IsTheSame) {
  Sequential expected({Input({8, 8, 3}),
                       Conv2D(4, 3).Padding(kSame).UseBias(false),
                       BatchNormalization(),
                       BatchNormalization(0.9f, 1e-5f)
                           .Name("frozen")
                           .Trainable(false)
                           .Center(false)
                           .MovingMeanInitializer(Constant(0.5f))
                           .GammaRegularizer(L2(0.01f))});
  const auto model = LoadJson(KerasJson("keras3_batch_normalization"));
  ASSERT_NE(model, nullptr);
  ExpectSameModel(expected, *model);
  ExpectSameWeights(&expected, model.get());
  ExpectRoundTrip(expected);
  const std::string json = ToJson(expected);
  EXPECT_TRUE(Contains(JsonError(Replaced(json, "\"axis\":-1", "\"axis\":1")),
                       "only the last axis"));
  EXPECT_TRUE(Contains(
      JsonError(Replaced(json, "\"momentum\":0.99", "\"momentum\":1.5")),
      "momentum"));
  EXPECT_TRUE(
      Contains(JsonError(Replaced(json, "\"synchronized\":false",
                                  "\"synchronized\":false,\"renorm\":true")),
               "renorm"));
}

TEST(ModelJsonTest, Load_BatchNormalizationOfKeras2_IsTheSame) {
  Sequential expected(
      {Input({4, 4, 2}).Name("input_1"), BatchNormalization().Scale(false)});
  const auto model = LoadJson(KerasJson("keras2_batch_normalization"));
  ASSERT_NE(model, nullptr);
  ExpectSameModel(expected, *model);
}

TEST(ModelJsonTest, Load_NormalizationsOfKeras3_AreTheSame) {
  Sequential expected(
      {Input({4, 5, 3}), Rescaling(1.0f / 255),
       Rescaling({1, 2, 4}, {-0.5f, 0, 0.5f}),
       Normalization({0.25f, 0.5f, 0.75f}, {1, 2, 4}),
       Normalization({0.5f}, {2}).Invert(true), LayerNormalization().Axes({3}),
       LayerNormalization(1e-5f).Axes({1, 2, 3}).Center(false)});
  const auto model = LoadJson(KerasJson("keras3_normalizations"));
  ASSERT_NE(model, nullptr);
  ExpectSameModel(expected, *model);
  ExpectSameWeights(&expected, model.get());
  ExpectRoundTrip(expected);
  const std::string json = ToJson(expected);
  const auto error = [&json](const char* from, const char* to) {
    return JsonError(Replaced(json, from, to));
  };
  EXPECT_TRUE(Contains(error("\"rms_scaling\":false", "\"rms_scaling\":true"),
                       "rms_scaling"));
  EXPECT_TRUE(
      Contains(error("\"axis\":[1,2,3]", "\"axis\":[1,2]"), "axis must be"));
  EXPECT_TRUE(Contains(error("\"axis\":[1,2,3]", "\"axis\":[]"), "axis"));
  EXPECT_TRUE(Contains(error("\"mean\":0.5", "\"mean\":null"), "mean"));
  EXPECT_TRUE(Contains(error("\"mean\":0.5,", ""), "mean"));
  EXPECT_TRUE(Contains(error("\"mean\":0.5", "\"mean\":[[0.5]]"), "mean"));
  EXPECT_TRUE(
      Contains(error("\"variance\":2.0", "\"variance\":-2"), "variance"));
  EXPECT_TRUE(Contains(error("\"scale\":[1.0,2.0,4.0]", "\"scale\":[1.0,2.0]"),
                       "scale has 2 values"));
  EXPECT_TRUE(Contains(
      error("\"scale\":[1.0,2.0,4.0]", "\"scale\":[1.0,1e39,4.0]"), "scale"));
}

TEST(ModelJsonTest, Load_NormalizationsOfKeras2_AreTheSame) {
  Sequential expected({Input({4, 2}).Name("input_1"), Rescaling(0.5f, -1),
                       LayerNormalization().Axes({1, 2}),
                       Normalization({1, 2}, {1, 4})});
  const auto model = LoadJson(KerasJson("keras2_normalizations"));
  ASSERT_NE(model, nullptr);
  ExpectSameModel(expected, *model);
}

TEST(ModelJsonTest, Load_TutorialModelOfKeras2_IsTheSame) {
  Sequential expected({Input({28, 28}).Name("input_1"), Reshape({28, 28, 1}),
                       Conv2D(32, 3, kRelu), Flatten(), Dense(128, kRelu),
                       Dense(10)});
  const auto model = LoadJson(KerasJson("keras2_tutorial_cnn"));
  ASSERT_NE(model, nullptr);
  ExpectSameModel(expected, *model);
}

TEST(ModelJsonTest, Load_InputImpliedByTheFirstLayer_IsAdded) {
  Sequential expected(
      {Input({784}).Name("dense_input"),
       Dense(64, kRelu).KernelRegularizer(L2()).KernelInitializer(HeNormal()),
       Dropout(0.2f), Dense(10, kSoftmax).BiasRegularizer(L1L2(1e-3f, 0))});
  expected.set_name("mlp");
  const auto model = LoadJson(KerasJson("keras2_implied_input"));
  ASSERT_NE(model, nullptr);
  ExpectSameModel(expected, *model);
}

TEST(ModelJsonTest, Load_BareListOfLayers_IsASequential) {
  Sequential expected({Input({28, 28, 1}).Name("conv2d_1_input"),
                       Conv2D(8, 3, kRelu).Padding(kSame).Name("conv2d_1"),
                       MaxPooling2D().Name("max_pooling2d_1"),
                       Flatten().Name("flatten_1"),
                       Dense(10, kSoftmax).Name("dense_1")});
  const auto model = LoadJson(KerasJson("keras2_bare_list"));
  ASSERT_NE(model, nullptr);
  ExpectSameModel(expected, *model);
}

TEST(ModelJsonTest, Load_ResidualModelOfKeras3_IsTheSame) {
  Functional expected;
  expected.set_name("residual");
  const auto image = expected.Add(Input({8, 8, 3}).Name("image"));
  const auto stem =
      expected.Add(Conv2D(16, 3, kRelu).Padding(kSame).Name("stem"), {image});
  const auto a =
      expected.Add(Conv2D(16, 3, kRelu).Padding(kSame).Name("conv_a"), {stem});
  const auto b = expected.Add(
      Conv2D(16, 3).Padding(kSame).UseBias(false).Name("conv_b"), {a});
  auto y = expected.Add(Add(), {stem, b});
  y = expected.Add(ReLU().Name("re_lu"), {y});
  y = expected.Add(AveragePooling2D(), {y});
  y = expected.Add(Flatten(), {y});
  y = expected.Add(Dropout(0.5f).Seed(1337), {y});
  expected.Add(Dense(10).Name("logits"), {y});
  const auto model = LoadJson(KerasJson("keras3_residual"));
  ASSERT_NE(model, nullptr);
  ExpectSameModel(expected, *model);
  ExpectSameWeights(&expected, model.get());
}

// The name of each constraint of Keras 2 and 3, and their defaults.
TEST(ModelJsonTest, Load_Constraints_EqualTheSetters) {
  Sequential expected(
      {Input({8, 8, 3}),
       DepthwiseConv2D(3).DepthwiseConstraint(UnitNorm({0, 1})),
       SeparableConv2D(4, 3)
           .DepthwiseConstraint(NonNeg())
           .PointwiseConstraint(MaxNorm(3, {}))
           .BiasConstraint(NonNeg()),
       BatchNormalization().GammaConstraint(MaxNorm()).BetaConstraint(NonNeg()),
       PReLU().AlphaConstraint(NonNeg()), Reshape({-1, 4}),
       LSTM(5)
           .KernelConstraint(MaxNorm(0.5f, {-2}))
           .RecurrentConstraint(MinMaxNorm(0.25f, 0.75f, 0.5f, {1})),
       Dense(10).KernelConstraint(MaxNorm(1.5f))});
  ASSERT_OK(expected.status());
  ExpectRoundTrip(expected);
  const std::string json = ToJson(expected);
  EXPECT_TRUE(Contains(json, R"("axis":null)"));
  EXPECT_TRUE(Contains(json, R"("axis":[0,1])"));
  const auto model = LoadJson(json);
  ASSERT_NE(model, nullptr);
  for (size_t i = 0; i < expected.variables().size(); ++i) {
    EXPECT_EQ(ConstraintText(model->variables()[i].constraint),
              ConstraintText(expected.variables()[i].constraint));
  }
  const std::string null = R"("kernel_constraint": null)";
  for (const char* constraint :
       {R"("max_norm")", R"({"class_name": "MaxNorm", "config": {}})",
        R"({"module": "keras.constraints", "class_name": "MaxNorm", "config":
           {"max_value": 2, "axis": 0}, "registered_name": null})"}) {
    const auto named = LoadJson(
        Replaced(KerasJson("keras3_tutorial_cnn"), null,
                 R"("kernel_constraint": )" + std::string(constraint)));
    ASSERT_NE(named, nullptr) << constraint;
    EXPECT_EQ(ConstraintText(named->variables()[0].constraint),
              "MaxNorm max 2 axis 0");
  }
}

// The names of the classes as they are written differ in the spelling alone.
TEST(ModelJsonTest, Load_WindowLayersOfKeras2And3_AreTheSame) {
  Sequential expected(
      {Input({24, 20, 4}), ZeroPadding2D(1, 0, 2, 1),
       DepthwiseConv2D(3)
           .DepthMultiplier(2)
           .Strides(2)
           .UseBias(false)
           .DepthwiseRegularizer(L2(0.0001f)),
       SeparableConv2D(6, 3, kRelu)
           .Padding(kSame)
           .PointwiseInitializer(HeNormal()),
       Conv2D(6, 3).Groups(3).DilationRate(2, 1).Padding(kSame),
       Cropping2D(1, 0, 0, 2), UpSampling2D(2, 1), Permute({2, 1, 3}),
       Reshape({-1, 6}), ZeroPadding1D(1, 2),
       Conv1D(8, 3).Padding(kCausal).DilationRate(1, 2),
       MaxPooling1D().Padding(kSame), DepthwiseConv1D(3).Padding(kSame),
       SeparableConv1D(5, 3).Padding(kSame).Strides(1, 2).PointwiseInitializer(
           HeNormal()),
       AveragePooling1D().Padding(kSame), Cropping1D(1, 0), UpSampling1D(3),
       GlobalMaxPooling1D().KeepDims(true), GlobalAveragePooling1D()});
  expected.set_name("windows");
  ASSERT_OK(expected.status());
  for (const char* name : {"keras2_windows", "keras3_windows"}) {
    SCOPED_TRACE(name);
    const auto model = LoadJson(KerasJson(name));
    ASSERT_NE(model, nullptr);
    ExpectSameModel(expected, *model);
    ExpectSameWeights(&expected, model.get());
  }
}

TEST(ModelJsonTest, Load_WindowLayersOfTensorFlowJs_HaveTheirShapes) {
  const auto model = LoadJson(KerasJson("tfjs_windows"));
  ASSERT_NE(model, nullptr);
  std::string text;
  for (const Variable& v : model->variables()) {
    text += v.path.substr(v.path.find('/')) + v.shape.ToString();
  }
  EXPECT_EQ(text,
            "/kernel(3, 3, 4, 2)/depthwise_kernel(3, 2, 8, 1)"
            "/pointwise_kernel(1, 1, 8, 6)/bias(6,)/kernel(3, 3, 6, 5)"
            "/bias(5,)/kernel(3, 5, 8)/bias(8,)");
}

TEST(ModelJsonTest, Load_GraphInAnyOrder_IsTheSame) {
  Functional expected;
  expected.set_name("model");
  const auto x = expected.Add(Input({6, 6, 2}).Name("input_1"));
  const auto right =
      expected.Add(Conv2D(3, 5, kTanh).Padding(kSame).Name("right"), {x});
  const auto left =
      expected.Add(Conv2D(4, 1, kSigmoid).Padding(kSame).Name("left"), {x});
  const auto pool =
      expected.Add(MaxPooling2D(3).Strides(1).Padding(kSame).Name("pool"), {x});
  const auto all = expected.Add(Concatenate(), {left, right, pool});
  expected.Add(Dense(5, kSoftmax).Name("head"),
               {expected.Add(Flatten(), {all})});
  const auto model = LoadJson(KerasJson("keras2_branches"));
  ASSERT_NE(model, nullptr);
  ExpectSameModel(expected, *model);
}

TEST(ModelJsonTest, Pool_StridesLeftOutOrNull_EqualTheWindow) {
  for (const char* strides : {"", ", \"strides\": null"}) {
    const auto model = LoadJson(
        std::string(R"({"class_name": "Sequential", "config": {"layers": [
          {"class_name": "InputLayer",
           "config": {"batch_shape": [null, 6, 9, 1]}},
          {"class_name": "MaxPooling2D", "config": {"pool_size": [2, 3])") +
        strides + "}}]}}");
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->output_shape(), Shape({3, 3, 1}));
  }
}

TEST(ModelJsonTest, Load_ModulesAndOldNodesOfTfKeras_AreTheSame) {
  Functional expected;
  expected.set_name("model");
  auto y = expected.Add(Input({4}).Name("x"));
  y = expected.Add(Dense(8, kRelu)
                       .KernelInitializer(RandomNormal())
                       .BiasInitializer(Constant(0.1f))
                       .Name("hidden"),
                   {y});
  y = expected.Add(Dropout(0.25f).Seed(3).Name("drop"), {y});
  y = expected.Add(Tanh().Name("act"), {y});
  expected.Add(Softmax().Name("softmax"), {y});
  const auto model = LoadJson(KerasJson("tf_keras_2_15_functional"));
  ASSERT_NE(model, nullptr);
  ExpectSameModel(expected, *model);
}

// Keras 3, Keras 2 and TensorFlow.js.
TEST(ModelJsonTest, Load_ActivationAndMergeLayers_AreTheSame) {
  const auto layer = [](const std::string& name, const std::string& config) {
    return R"({"class_name": ")" + name + R"(", "config": {)" + config + "}}";
  };
  const auto model_of = [](const std::string& layers) {
    return R"({"class_name": "Sequential", "config": {"name": "m", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 4],
       "name": "x"}}, )" +
           layers + "]}}";
  };
  const auto model = LoadJson(model_of(
      layer("ReLU", R"("name": "a", "max_value": 6.0)") + "," +
      layer("ReLU", R"("name": "b", "negative_slope": 0.5, "threshold": 1)") +
      "," + layer("LeakyReLU", R"("name": "c", "alpha": 0.25)") + "," +
      layer("LeakyReLU", R"("name": "d", "negative_slope": 0.5)") + "," +
      layer("LeakyReLU", R"("name": "e")") + "," +
      layer("ELU", R"("name": "f", "alpha": 2.0)") + "," +
      layer("Activation", R"("name": "g", "activation": "swish")") + "," +
      layer("Dense", R"("name": "h", "units": 2, "activation": "gelu")")));
  ASSERT_NE(model, nullptr);
  constexpr float kNone = std::numeric_limits<float>::infinity();
  Sequential expected(
      {Input({4}).Name("x"), ReLU(6).Name("a"), ReLU(kNone, 0.5f, 1).Name("b"),
       LeakyReLU(0.25f).Name("c"), LeakyReLU(0.5f).Name("d"),
       LeakyReLU().Name("e"), ELU(2).Name("f"),
       ActivationLayer(kSilu).Name("g"), Dense(2, kGelu).Name("h")});
  expected.set_name("m");
  ExpectSameModel(expected, *model);
  EXPECT_EQ(model->layer(3).negative_slope, 0.25f);
  EXPECT_EQ(model->layer(1).max_value, 6);
  EXPECT_EQ(model->layer(2).threshold, 1);
  EXPECT_EQ(model->layer(5).negative_slope, 0.3f);
  const std::string written = ToJson(*model);
  const auto again = LoadJson(written);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(ToJson(*again), written);
}

TEST(ModelJsonTest, Load_OmittedFields_AreTheDefaultsOfKeras) {
  Sequential expected(
      {Input({12, 12, 1}), Conv2D(4, 3), ReLU(), MaxPooling2D(),
       AveragePooling2D(), Flatten(), Dropout(0.5f),
       Dense(6, kRelu).KernelInitializer(HeUniform()).KernelRegularizer(L2()),
       Dense(3), Softmax()});
  const auto model = LoadJson(KerasJson("defaults_omitted"));
  ASSERT_NE(model, nullptr);
  ExpectSameModel(expected, *model);
}

TEST(ModelJsonTest, Load_BuiltInputShapeOfASequential_BecomesItsInput) {
  Sequential expected({Input({7}),
                       Dense(4, kRelu)
                           .KernelInitializer(TruncatedNormal(0, 0.02f))
                           .BiasInitializer(Ones())
                           .KernelRegularizer(L1())
                           .Name("dense_2"),
                       Dense(2, kSoftmax)
                           .KernelInitializer(VarianceScaling(
                               0.5f, Initializer::Mode::kFanOut,
                               Initializer::Distribution::kUntruncatedNormal))
                           .Name("dense_3")});
  expected.set_name("late");
  const auto model = LoadJson(KerasJson("keras3_deferred_input"));
  ASSERT_NE(model, nullptr);
  ExpectSameModel(expected, *model);
}

TEST(ModelJsonTest, Load_TuplesOfASavedModel_AreLists) {
  Sequential expected(
      {Input({8, 8, 3}).Name("input_1"), Normalization(),
       ZeroPadding2D(1, 0, 2, 1).Name("pad"), Conv2D(3, 3, kRelu).Name("conv"),
       BatchNormalization().Name("bn"), MaxPooling2D().Name("pool"),
       Dropout(0.5f), Reshape({-1, 3})});
  const auto model = LoadJson(KerasJson("tf_keras_2_6_saved_model"));
  ASSERT_NE(model, nullptr);
  ExpectSameModel(expected, *model);
  EXPECT_EQ(model->layer(1).means.size(), 0u);
  const std::string built = KerasJson("keras3_deferred_input");
  EXPECT_EQ(
      ToJson(*LoadJson(Replaced(built, R"("build_input_shape": [null, 7])",
                                R"("build_input_shape": {"class_name":
                               "TensorShape", "items": [null, 7]})"))),
      ToJson(*LoadJson(built)));
}

TEST(ModelJsonTest, Load_WrappedNumbers_AreUnwrapped) {
  const std::string json = KerasJson("keras3_residual");
  const std::string expected = ToJson(
      *LoadJson(Replaced(json, R"("max_value": null)", R"("max_value": 6.0)")));
  for (const char* wrapped :
       {R"({"type": "ndarray", "value": 6.0})",
        R"({"class_name": "ndarray", "value": 6})",
        R"({"class_name": "__numpy__", "config": {"value": 6.0,
            "dtype": "float32"}})",
        R"({"class_name": "__tensor__", "config": {"value": 6.0}})"}) {
    EXPECT_EQ(
        ToJson(*LoadJson(Replaced(json, R"("max_value": null)",
                                  std::string(R"("max_value": )") + wrapped))),
        expected);
  }
  for (const char* wrong :
       {R"({"type": "ndarray"})", R"({"class_name": "__numpy__"})",
        R"({"class_name": "__tuple__", "items": [6]})",
        R"({"type": "ndarray", "value": {"type": "ndarray", "value": 6}})"}) {
    EXPECT_NE(JsonError(Replaced(json, R"("max_value": null)",
                                 std::string(R"("max_value": )") + wrong))
                  .find("config.layers[5].config.max_value"),
              std::string::npos);
  }
}

TEST(ModelJsonTest, Load_BatchNormalizationOfVersions_IsTheSame) {
  const std::string json = KerasJson("keras2_batch_normalization");
  const auto expected = LoadJson(json);
  for (const char* version : {"V1", "V2"}) {
    const auto model = LoadJson(Replaced(
        json, R"("class_name": "BatchNormalization")",
        std::string(R"("class_name": "BatchNormalization)") + version + "\""));
    ASSERT_NE(model, nullptr);
    ExpectSameModel(*expected, *model);
  }
}

// model.json of TensorFlow.js, saved there or converted from Keras, and the
// attributes of an HDF5 file.
TEST(ModelJsonTest, Load_TextsAroundAModel_AreTheModel) {
  const std::string inner = KerasJson("keras2_branches");
  const std::string expected = ToJson(*LoadJson(inner));
  const std::string config = R"({"keras_version": "2.4.0", "backend":
      "tensorflow", "model_config": )" +
                             inner + "}";
  for (const std::string& text :
       {R"({"modelTopology": )" + inner + R"(, "format": "layers-model",
            "generatedBy": "TensorFlow.js tfjs-layers v4.22.0",
            "convertedBy": null, "weightsManifest": []})",
        R"({"format": "layers-model", "modelTopology": )" + config + "}",
        config}) {
    EXPECT_EQ(ToJson(*LoadJson(text)), expected);
  }
  EXPECT_NE(JsonError(Replaced(config, "\"left\"", "7"))
                .find("model_config.config.layers["),
            std::string::npos);
  EXPECT_NE(JsonError(R"({"format": "graph-model", "modelTopology":
                        {"node": [], "versions": {}}})")
                .find("tfjs_layers_model"),
            std::string::npos);
  EXPECT_FALSE(JsonError(R"({"modelTopology": null})").empty());
  EXPECT_FALSE(
      JsonError(R"({"modelTopology": {"modelTopology": {}}})").empty());
}

// A converted model has the version beside it.
TEST(ModelJsonTest, Load_HardSigmoidOfAConvertedModel_EqualsKeras2) {
  const std::string model = R"({"class_name": "Sequential", "config": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 1]}},
      {"class_name": "Activation", "config": {"activation": "hard_sigmoid"}}]})";
  const auto activation = [&](const char* version) {
    return LoadJson(R"({"modelTopology": {"keras_version": ")" +
                    std::string(version) + R"(", "model_config": )" + model +
                    "}}")
        ->layer(1)
        .activation;
  };
  EXPECT_EQ(activation("2.4.0"), kHardSigmoidKeras2);
  EXPECT_EQ(activation("3.5.0"), kHardSigmoid);
}

}  // namespace
}  // namespace ringlet
