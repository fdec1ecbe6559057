#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_json.h"
#include "../../support/temp_folder.h"
#include "core/layers/constraints.h"
#include "core/layers/layer_settings.h"

namespace ringlet {
namespace {

bool Same(const Initializer& a, const Initializer& b) {
  return a.kind == b.kind && a.a == b.a && a.b == b.b && a.mode == b.mode &&
         a.distribution == b.distribution;
}

void ExpectSameLayer(const Layer& a, const Layer& b) {
  SCOPED_TRACE(a.name);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.kind == Layer::Kind::kInput || a.trainable,
            a.kind == Layer::Kind::kInput || b.trainable);
  EXPECT_EQ(a.keepdims, b.keepdims);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.units, b.units);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(a.window[i], b.window[i]);
    EXPECT_EQ(a.strides[i], b.strides[i]);
  }
  EXPECT_EQ(a.padding, b.padding);
  EXPECT_EQ(a.activation, b.activation);
  EXPECT_EQ(a.use_bias, b.use_bias);
  EXPECT_TRUE(Same(a.kernel_initializer, b.kernel_initializer));
  EXPECT_TRUE(Same(a.bias_initializer, b.bias_initializer));
  EXPECT_EQ(a.kernel_regularizer.l1, b.kernel_regularizer.l1);
  EXPECT_EQ(a.kernel_regularizer.l2, b.kernel_regularizer.l2);
  EXPECT_EQ(a.bias_regularizer.l1, b.bias_regularizer.l1);
  EXPECT_EQ(a.bias_regularizer.l2, b.bias_regularizer.l2);
  EXPECT_EQ(a.rate, b.rate);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.noise_shape, b.noise_shape);
  EXPECT_EQ(a.settings & kSetSeed, b.settings & kSetSeed);
  EXPECT_EQ(a.momentum, b.momentum);
  EXPECT_EQ(a.epsilon, b.epsilon);
  EXPECT_EQ(a.center, b.center);
  EXPECT_EQ(a.scale, b.scale);
  EXPECT_EQ(a.synchronized, b.synchronized);
  EXPECT_TRUE(Same(a.gamma_initializer, b.gamma_initializer));
  EXPECT_TRUE(Same(a.beta_initializer, b.beta_initializer));
  EXPECT_TRUE(Same(a.moving_mean_initializer, b.moving_mean_initializer));
  EXPECT_TRUE(
      Same(a.moving_variance_initializer, b.moving_variance_initializer));
  EXPECT_EQ(a.gamma_regularizer.l2, b.gamma_regularizer.l2);
  EXPECT_EQ(a.scales, b.scales);
  EXPECT_EQ(a.offsets, b.offsets);
  EXPECT_EQ(a.means, b.means);
  EXPECT_EQ(a.variances, b.variances);
  EXPECT_EQ(a.invert, b.invert);
  EXPECT_EQ(a.axes, b.axes);
  EXPECT_EQ(a.beta_regularizer.l1, b.beta_regularizer.l1);
}

void ExpectSameModel(const Model& a, const Model& b) {
  EXPECT_STREQ(a.class_name(), b.class_name());
  EXPECT_EQ(a.name(), b.name());
  EXPECT_EQ(a.Summary(), b.Summary());
  ASSERT_EQ(a.num_nodes(), b.num_nodes());
  for (int i = 0; i < a.num_nodes(); ++i) {
    ExpectSameLayer(a.layer(i), b.layer(i));
    EXPECT_EQ(a.inputs(i), b.inputs(i));
    EXPECT_EQ(a.output_shape(i), b.output_shape(i));
  }
  ASSERT_EQ(a.variables().size(), b.variables().size());
  for (size_t i = 0; i < a.variables().size(); ++i) {
    EXPECT_EQ(a.variables()[i].path, b.variables()[i].path);
    EXPECT_EQ(a.variables()[i].shape, b.variables()[i].shape);
    EXPECT_EQ(a.variables()[i].offset, b.variables()[i].offset);
  }
  EXPECT_EQ(ToJson(a), ToJson(b));
}

// Models built alike, compiled alike, start with the same weights.
void ExpectSameWeights(Model* a, Model* b) {
  for (Model* model : {a, b}) {
    model->Compile(SGD(), MeanSquaredError());
    ASSERT_OK(model->status());
  }
  ASSERT_EQ(a->num_weights(), b->num_weights());
  EXPECT_TRUE(
      std::equal(a->weights(), a->weights() + a->num_weights(), b->weights()));
}

void ExpectRoundTrip(const Model& model) {
  const auto again = LoadJson(ToJson(model));
  ASSERT_NE(again, nullptr);
  ExpectSameModel(model, *again);
}

std::vector<std::string> KerasFiles() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(
           EnvironmentOr("RINGLET_SOURCE", ".") + "/tests/keras_json")) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

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
TEST(ModelJsonTest, Load_Constraints_AreThoseOfTheSetters) {
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

TEST(ModelJsonTest, Pool_StridesLeftOutOrNull_AreItsWindow) {
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

TEST(ModelJsonTest, Load_BuiltInputShapeOfASequential_IsItsInput) {
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

TEST(ModelJsonTest, Load_WrappedNumbers_AreTheirValues) {
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
TEST(ModelJsonTest, Load_HardSigmoidOfAConvertedModel_IsThatOfKeras2) {
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

// --- round trips ------------------------------------------------------------

TEST(ModelJsonTest, RoundTrip_EveryKerasFile_IsTheSame) {
  const auto names = KerasFiles();
  EXPECT_GE(names.size(), 8u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const auto model = LoadJson(KerasJson(name));
    ASSERT_NE(model, nullptr);
    ExpectRoundTrip(*model);
  }
}

TEST(ModelJsonTest, RoundTrip_EverySetting_IsTheSame) {
  using Mode = Initializer::Mode;
  using Distribution = Initializer::Distribution;
  const Initializer initializers[] = {
      Zeros(),
      Ones(),
      Constant(-0.3f),
      RandomUniform(-1, 2),
      RandomNormal(1e-20f, 3),
      TruncatedNormal(0.1f, 1e30f),
      GlorotUniform(),
      GlorotNormal(),
      HeUniform(),
      HeNormal(),
      LecunUniform(),
      LecunNormal(),
      VarianceScaling(1.0f / 3, Mode::kFanOut, Distribution::kUniform),
      VarianceScaling(2, Mode::kFanAvg, Distribution::kUntruncatedNormal)};
  Sequential model({Input({9, 7, 2}).Name("in \"quoted\" \\ ü")});
  model.Add(Conv2D(3, 2, 3, kTanh).Strides(2, 1).Padding(kSame).UseBias(false));
  model.Add(MaxPooling2D(2, 1).Strides(1, 2).Padding(kSame));
  model.Add(AveragePooling2D(1, 2).Strides(2, 1));
  model.Add(GlobalAveragePooling2D().KeepDims(true));
  model.Add(GlobalAveragePooling2D());
  model.Add(Sigmoid());
  model.Add(Tanh());
  model.Add(ReLU());
  model.Add(ActivationLayer(kLinear));
  model.Add(Reshape({-1, 3}));
  model.Add(Flatten());
  for (const Initializer& i : initializers) {
    model.Add(Dense(3, kSigmoid).KernelInitializer(i).BiasInitializer(i));
  }
  model.Add(Dense(2).KernelRegularizer(L1(0.1f)).BiasRegularizer(L2(0.7f)));
  model.Add(Dense(2).KernelRegularizer(L1L2(1e-6f, 3)));
  model.Add(Dropout(0.1f));
  model.Add(Dropout(0).Seed(0));
  model.Add(Dropout(1.0f / 3).Seed(uint64_t{1} << 53));
  model.Add(Dropout(0.9f).Seed(UINT64_MAX));
  model.Add(Softmax());
  model.set_name("every setting");
  ASSERT_OK(model.status());
  ExpectRoundTrip(model);
  const auto again = LoadJson(ToJson(model));
  ExpectSameWeights(&model, again.get());
}

TEST(ModelJsonTest, RoundTrip_FrozenLayers_StayFrozen) {
  const std::string cnn = Replaced(KerasJson("keras3_tutorial_cnn"),
                                   R"("name": "conv2d", "trainable": true)",
                                   R"("name": "conv2d", "trainable": false)");
  const auto model = LoadJson(cnn);
  for (int i = 0; i < model->num_nodes(); ++i) {
    EXPECT_EQ(model->layer(i).trainable, model->layer(i).name != "conv2d");
  }
  ExpectRoundTrip(*model);
  EXPECT_TRUE(Contains(ToJson(*model), R"("name":"conv2d","trainable":false)"));
  const auto null =
      LoadJson(Replaced(KerasJson("keras3_tutorial_cnn"),
                        R"("name": "conv2d", "trainable": true)",
                        R"("name": "conv2d", "trainable": null)"));
  EXPECT_TRUE(null->layer(2).trainable);
  // A model that is frozen as a whole.
  const auto whole =
      LoadJson(Replaced(KerasJson("keras3_tutorial_cnn"),
                        R"("name": "sequential", "trainable": true)",
                        R"("name": "sequential", "trainable": false)"));
  for (int i = 0; i < whole->num_nodes(); ++i) {
    EXPECT_FALSE(whole->layer(i).trainable);
  }
}

TEST(ModelJsonTest, RoundTrip_OneInputMergedTwice_IsTheSame) {
  Functional model;
  const auto x = model.Add(Input({3}));
  const auto y = model.Add(Concatenate(), {x, x});
  model.Add(Add(), {y, y, y});
  ASSERT_OK(model.status());
  ExpectRoundTrip(model);
}

TEST(ModelJsonTest, ToJson_Functional_IsTheTextOfKeras3) {
  Functional model;
  model.set_name("m");
  const auto x = model.Add(Input({3}).Name("x"));
  model.Add(Add().Name("sum"), {x, x});
  const std::string tensor =
      R"({"class_name":"__keras_tensor__","config":{"shape":[null,3],)"
      R"("dtype":"float32","keras_history":["x",0,0]}})";
  EXPECT_EQ(
      ToJson(model),
      R"({"module":"keras.src.models.functional","class_name":"Functional",)"
      R"("config":{"name":"m","trainable":true,"layers":[)"
      R"({"module":"keras.layers","class_name":"InputLayer","config":)"
      R"({"name":"x","batch_shape":[null,3],"dtype":"float32",)"
      R"("sparse":false},"registered_name":null,"name":"x",)"
      R"("inbound_nodes":[]},)"
      R"({"module":"keras.layers","class_name":"Add","config":)"
      R"({"name":"sum","trainable":true,"dtype":{"module":"keras",)"
      R"("class_name":"DTypePolicy","config":{"name":"float32"},)"
      R"("registered_name":null}},"registered_name":null,"name":"sum",)"
      R"("inbound_nodes":[{"args":[[)" +
          tensor + "," + tensor +
          R"(]],"kwargs":{}}]}],"input_layers":[["x",0,0]],)"
          R"("output_layers":[["sum",0,0]]},"registered_name":null})");
}

// --- what is refused --------------------------------------------------------

struct Wrong {
  const char* name;
  const char* file;
  const char* from;  // this is replaced
  const char* to;    // by this
  std::vector<const char*> says;
};

std::ostream& operator<<(std::ostream& out, const Wrong& wrong) {
  return out << wrong.name;
}

class WrongModelJsonTest : public testing::TestWithParam<Wrong> {};

TEST_P(WrongModelJsonTest, Load_WrongJson_IsRefusedWithItsPlace) {
  const Wrong& wrong = GetParam();
  const std::string error =
      JsonError(Replaced(KerasJson(wrong.file), wrong.from, wrong.to));
  for (const char* part : wrong.says) {
    EXPECT_TRUE(Contains(error, part));
  }
}

constexpr char kCnn[] = "keras3_tutorial_cnn";
constexpr char kWindows[] = "keras3_windows";
constexpr char kResidual[] = "keras3_residual";
constexpr char kBranches[] = "keras2_branches";
constexpr char kShort[] = "defaults_omitted";

const Wrong kWrong[] = {
    {"UnknownLayer",
     kCnn,
     R"("class_name": "Flatten")",
     R"("class_name": "Flaten")",
     {"layer 'flatten'", "config.layers[3].class_name", "unknown layer",
      "'Flaten'", "nearest known is 'Flatten'"}},
    {"UnsupportedLayer",
     kCnn,
     R"("class_name": "Flatten")",
     R"("class_name": "GroupNormalization")",
     {"layer 'flatten' (GroupNormalization)", "config.layers[3].class_name"}},
    {"UnknownField",
     kCnn,
     R"("units": 128)",
     R"("unitz": 5, "units": 128)",
     {"layer 'dense' (Dense)", "config.layers[4].config", "unknown field",
      "'unitz'", "nearest known is 'units'"}},
    {"UnknownActivation",
     kCnn,
     R"("activation": "relu")",
     R"("activation": "celu")",
     {"layer 'conv2d' (Conv2D)", "config.layers[2].config.activation", "'celu'",
      "it has linear, relu, sigmoid, tanh, softmax, relu6, elu"}},
    {"ActivationLayerWithinALayer",
     kCnn,
     R"("activation": "relu")",
     R"("activation": {"class_name": "ReLU", "config": {}})",
     {"config.layers[2].config.activation", "a layer as an activation"}},
    {"UnitsOfText",
     kCnn,
     R"("units": 128)",
     R"("units": "128")",
     {"layer 'dense' (Dense)", "config.layers[4].config.units", "\"128\"",
      "whole number"}},
    {"UnitsMissing",
     kShort,
     R"("units": 3)",
     R"("name": "last")",
     {"layer 'last' (Dense)", "config.layers[8].config.units", "missing"}},
    {"UnitsSpelledWrong",
     kCnn,
     R"("units": 128)",
     R"("unitz": 128)",
     {"layer 'dense' (Dense)", "unknown field 'unitz'",
      "nearest known is 'units'"}},
    {"NoUnits", kCnn, R"("units": 128)", R"("units": 0)", {"units", "from 1"}},
    {"HalfAUnit", kCnn, R"("units": 128)", R"("units": 1.5)", {"units", "1.5"}},
    {"FarTooManyUnits",
     kCnn,
     R"("units": 128)",
     R"("units": 1e18)",
     {"units", "1e+18"}},
    {"ChannelsFirst",
     kCnn,
     R"("data_format": "channels_last")",
     R"("data_format": "channels_first")",
     {"layer 'conv2d'", "config.layers[2].config.data_format", "channels_first",
      "only \"channels_last\""}},
    {"Dilation",
     kCnn,
     R"("dilation_rate": [1, 1])",
     R"("dilation_rate": [0, 1])",
     {"config.layers[2].config.dilation_rate", "[0, 1]", "from 1"}},
    {"Groups",
     kCnn,
     R"("groups": 1)",
     R"("groups": 0)",
     {"config.layers[2].config.groups", "is 0", "from 1"}},
    {"GroupsThatDoNotDivide",
     kCnn,
     R"("groups": 1)",
     R"("groups": 4)",
     {"config.layers[2]", "groups of 4 do not divide 1 channels"}},
    {"CausalOfTwoAxes",
     kCnn,
     R"("padding": "valid")",
     R"("padding": "causal")",
     {"config.layers[2].config.padding", "causal"}},
    {"BordersOfOneNumber",
     kWindows,
     R"("padding": [[1, 0], [2, 1]])",
     R"("padding": [[1, 0], [2, -1]])",
     {"config.layers[1].config.padding", "[[top, bottom], [left, right]]"}},
    {"ThreeBorders",
     kWindows,
     R"("padding": [[1, 0], [2, 1]])",
     R"("padding": [1, 2, 3])",
     {"config.layers[1].config.padding", "[[top, bottom], [left, right]]"}},
    {"BordersOfOneAxis",
     kWindows,
     R"("cropping": [1, 0]}, )",
     R"("cropping": [[1, 0], [1, 0]]}, )",
     {"config.layers[15].config.cropping", "[before, after]"}},
    {"TwoSizesOfOneAxis",
     kWindows,
     R"("size": 3)",
     R"("size": [3, 3])",
     {"config.layers[16].config.size", "a whole number from 1"}},
    {"Bilinear",
     kWindows,
     R"("interpolation": "nearest")",
     R"("interpolation": "bilinear")",
     {"config.layers[6].config.interpolation", "only \"nearest\""}},
    {"DimsFromZero",
     kWindows,
     R"("dims": [2, 1, 3])",
     R"("dims": [2, 0, 1])",
     {"config.layers[7].config.dims", "from 1"}},
    {"Constraint",
     kCnn,
     R"("kernel_constraint": null)",
     R"("kernel_constraint": {"class_name": "MaxNorm",
                               "config": {"max_value": -1}})",
     {"config.layers[2].config.kernel_constraint", "max_value", "-1"}},
    {"ConstraintOfNoClass",
     kCnn,
     R"("kernel_constraint": null)",
     R"("kernel_constraint": "RadialConstraint")",
     {"config.layers[2].config.kernel_constraint", "RadialConstraint"}},
    {"ActivityRegularizer",
     kCnn,
     R"("activity_regularizer": null)",
     R"("activity_regularizer": {"class_name": "L2", "config": {}})",
     {"config.layers[2].config.activity_regularizer"}},
    {"FieldOfKeras1",
     kCnn,
     R"("filters": 32)",
     R"("nb_filter": 32)",
     {"layer 'conv2d'", "config.layers[2].config", "'nb_filter'", "'filters'",
      "Keras 1", "to_json()"}},
    {"UnitsOfKeras1",
     kCnn,
     R"("units": 128)",
     R"("output_dim": 128)",
     {"layer 'dense'", "'output_dim' is the name of 'units' in Keras 1"}},
    {"PaddingOfKeras1",
     kCnn,
     R"("padding": "valid")",
     R"("border_mode": "valid")",
     {"'border_mode' is the name of 'padding' in Keras 1", "rename it"}},
    {"Frozen",
     kCnn,
     R"("name": "dense_1", "trainable": true)",
     R"("name": "dense_1", "trainable": 1)",
     {"layer 'dense_1'", "config.layers[5].config.trainable",
      "must be true or false"}},
    {"OtherDType",
     kCnn,
     R"("name": "float32")",
     R"("name": "mixed_float16")",
     {"dtype.config.name", "mixed_float16", "float32"}},
    {"OtherInputDType",
     kCnn,
     R"("dtype": "float32")",
     R"("dtype": "uint8")",
     {"layer 'input_layer'", "config.layers[0].config.dtype", "uint8"}},
    {"UnknownInitializer",
     kCnn,
     R"("class_name": "GlorotUniform")",
     R"("class_name": "Identity")",
     {"config.layers[2].config.kernel_initializer.class_name",
      "Keras has the initializer 'Identity'", "it has Zeros, Ones, "}},
    {"UnknownFieldOfAnInitializer",
     kShort,
     R"("he_uniform")",
     R"({"class_name": "HeUniform", "config": {"gain": 2}})",
     {"config.layers[7].config.kernel_initializer.config", "'gain'"}},
    {"UnknownRegularizer",
     kShort,
     R"("l2")",
     R"("orthogonal")",
     {"config.layers[7].config.kernel_regularizer", "orthogonal"}},
    {"NegativeRegularizer",
     kShort,
     R"("l2")",
     R"({"class_name": "L2", "config": {"l2": -0.5}})",
     {"kernel_regularizer.config.l2", "-0.5", ">= 0"}},
    {"NumberBeyondFloat",
     kShort,
     R"("l2")",
     R"({"class_name": "L2", "config": {"l2": 1e99}})",
     {"kernel_regularizer.config.l2", "float32"}},
    {"UnknownPadding",
     kCnn,
     R"("padding": "valid")",
     R"("padding": "causal")",
     {"config.layers[2].config.padding", "causal"}},
    {"KernelOfThree",
     kCnn,
     R"("kernel_size": [3, 3])",
     R"("kernel_size": [3, 3, 3])",
     {"config.layers[2].config.kernel_size"}},
    {"StridesOfZero",
     kCnn,
     R"("strides": [1, 1])",
     R"("strides": [0, 1])",
     {"config.layers[2].config.strides"}},
    {"KernelLargerThanTheImage",
     kCnn,
     R"("kernel_size": [3, 3])",
     R"("kernel_size": [29, 3])",
     {"config.layers[2]", "'conv2d'", "fit"}},
    {"ReshapeThatDoesNotFit",
     kCnn,
     R"("target_shape": [28, 28, 1])",
     R"("target_shape": [28, 27, 1])",
     {"config.layers[1]", "'reshape'", "cannot reshape"}},
    {"TargetShapeOfText",
     kCnn,
     R"("target_shape": [28, 28, 1])",
     R"("target_shape": "28")",
     {"config.layers[1].config.target_shape"}},
    {"FixedBatch",
     kCnn,
     R"("batch_shape": [null, 28, 28])",
     R"("batch_shape": [32, 28, 28])",
     {"config.layers[0].config.batch_shape", "[32, 28, 28]", "batch"}},
    {"OpenInput",
     kCnn,
     R"("batch_shape": [null, 28, 28])",
     R"("batch_shape": [null, null, 28])",
     {"config.layers[0].config.batch_shape"}},
    {"InputWithoutShape",
     kCnn,
     R"("batch_shape": [null, 28, 28], )",
     "",
     {"config.layers[0].config.batch_shape", "missing"}},
    {"InputBeyondMemory",
     kCnn,
     R"("batch_shape": [null, 28, 28])",
     R"("batch_shape": [null, 2147483647, 2147483647, 2147483647])",
     {"config.layers[0].config.batch_shape", "2^31"}},
    {"SparseInput",
     kCnn,
     R"("sparse": false)",
     R"("sparse": true)",
     {"config.layers[0].config.sparse", "only false"}},
    {"ShapeOfTheFirstLayerDiffers",
     "keras2_tutorial_cnn",
     R"("target_shape")",
     R"("batch_input_shape": [null, 28], "target_shape")",
     {"config.layers[1].config.batch_input_shape", "(28, 28)"}},
    {"NoShapeAtAll",
     "keras3_deferred_input",
     R"("build_input_shape": [null, 7])",
     R"("build_input_shape": null)",
     {"config.layers", "shape of the input", "InputLayer"}},
    {"SecondInput",
     kCnn,
     R"("class_name": "Flatten")",
     R"("class_name": "InputLayer")",
     {"config.layers[3]", "'flatten'"}},
    {"ModelWithinAModel",
     kCnn,
     R"("class_name": "Flatten")",
     R"("class_name": "Functional")",
     {"layer 'flatten' (Functional)", "config.layers[3].config"}},
    {"LeakyReLU",
     kResidual,
     R"("negative_slope": 0.0)",
     R"("negative_slope": -0.3)",
     {"layer 're_lu' (ReLU)", "config.layers[5].config.negative_slope",
      "-0.3"}},
    {"ReLU6",
     kResidual,
     R"("max_value": null)",
     R"("max_value": -6.0)",
     {"config.layers[5].config.max_value", "-6"}},
    {"NoiseShape",
     kResidual,
     R"("noise_shape": null)",
     R"("noise_shape": [1])",
     {"config.layers[8].config.noise_shape"}},
    {"NegativeSeed",
     kResidual,
     R"("seed": 1337)",
     R"("seed": -1)",
     {"layer 'dropout'", "config.layers[8].config.seed"}},
    {"RateOfOne",
     kResidual,
     R"("rate": 0.5)",
     R"("rate": 1.0)",
     {"config.layers[8]", "rate"}},
    {"OtherAxis",
     kBranches,
     R"("axis": -1)",
     R"("axis": 1)",
     {"layer 'concatenate' (Concatenate)", "config.layers[1].config.axis",
      "last axis"}},
    {"NegativeAxis",
     kBranches,
     R"("axis": -1)",
     R"("axis": -2)",
     {"config.layers[1].config.axis", "-2"}},
    {"ClassOfOnesOwn",
     kCnn,
     R"("registered_name": null}, {"module": "keras.layers", "class_name": "Reshape")",
     R"("registered_name": "mine>InputLayer"}, {"class_name": "Reshape")",
     {"config.layers[0]", "registered_name", "mine>InputLayer"}},
    {"UnknownModel",
     kCnn,
     R"("class_name": "Sequential")",
     R"("class_name": "Sequence")",
     {"class_name", "unknown model", "known are 'Sequential', 'Functional'"}},
    {"UnknownFieldOfTheModel",
     kCnn,
     R"("build_input_shape")",
     R"("input")",
     {"config", "unknown field 'input'"}},
    {"LayersOfText",
     kShort,
     R"("layers": [)",
     R"("layers": "x", "name": [)",
     {"config.name"}},
    {"TwoLayersOfOneName",
     kCnn,
     R"("name": "dense_1")",
     R"("name": "dense")",
     {"config.layers[5]", "'dense'", "two layers"}},
    {"NameOfNothing",
     kCnn,
     R"("name": "dense_1")",
     R"("name": "")",
     {"config.layers[5].config.name"}},
    {"NameOfControlCharacters",
     kCnn,
     R"("name": "dense_1")",
     R"("name": "a\nb")",
     {"config.layers[5].config.name"}},
    {"CycleOfTwoCalls",
     kResidual,
     R"("name": "conv_a", "inbound_nodes": [)",
     R"("name": "conv_a", "inbound_nodes": [{"args": [{"class_name": "__keras_tensor__", "config": {"keras_history": ["conv_a", 1, 0]}}]}, )",
     {"layer 'conv_a'", "cycle"}},
    {"Cycle",
     kResidual,
     R"("keras_history": ["stem", 0, 0])",
     R"("keras_history": ["conv_b", 0, 0])",
     {"layer 'conv_a'", "cycle"}},
    {"InputThatIsNotThere",
     kResidual,
     R"("keras_history": ["stem", 0, 0])",
     R"("keras_history": ["stam", 0, 0])",
     {"layer 'conv_a'", "unknown layer 'stam'", "'stem'"}},
    {"SharedLayer",
     kBranches,
     R"([[["left", 0, 0, {}])",
     R"([[["left", 1, 0, {}])",
     {"layer 'concatenate'", "call 1 of layer 'left'", "0 to 0"}},
    {"CalledTwice",
     kBranches,
     R"("inbound_nodes": [[["flatten", 0, 0, {}]]])",
     R"("inbound_nodes": [[["flatten", 0, 0, {}]], [["left", 0, 0, {}]]])",
     {"layer 'head'", "no layer takes its output"}},
    {"SeveralTensors",
     kBranches,
     R"([[["left", 0, 0, {}])",
     R"([[["left", 0, 1, {}])",
     {"layer 'concatenate'", "several tensors"}},
    {"NegativeCall",
     kBranches,
     R"([[["left", 0, 0, {}])",
     R"([[["left", -1, 0, {}])",
     {"layer 'concatenate'", "number of its call"}},
    {"NotCalled",
     kBranches,
     R"("inbound_nodes": [[["flatten", 0, 0, {}]]])",
     R"("inbound_nodes": [])",
     {"layer 'head'", "not called"}},
    {"CallArguments",
     kBranches,
     R"(["flatten", 0, 0, {}])",
     R"(["flatten", 0, 0, {"training": true}])",
     {"layer 'head'", "training", "only false"}},
    {"OutputTwice",
     kBranches,
     R"("output_layers": [)",
     R"("output_layers": [["head", 0, 0], )",
     {"config.output_layers", "names layer 'head' twice"}},
    {"NoOutput",
     "keras3_two_by_two",
     R"("output_layers": [["kind", 0, 0], ["age", 0, 0]])",
     R"("output_layers": [])",
     {"config.output_layers", "is empty"}},
    {"OutputLeftOut",
     "keras3_two_by_two",
     R"("output_layers": [["kind", 0, 0], ["age", 0, 0]])",
     R"("output_layers": [["kind", 0, 0]])",
     {"layer 'age'", "not the model's"}},
    {"InputLeftOut",
     "keras3_two_by_two",
     R"("input_layers": [["image", 0, 0], ["numbers", 0, 0]])",
     R"("input_layers": ["image", 0, 0])",
     {"layer 'numbers'", "input_layers does not name it"}},
    {"InputThatIsNoLayerOfInput",
     kBranches,
     R"("input_layers": [)",
     R"("input_layers": [["left", 0, 0], )",
     {"layer 'left'", "not an InputLayer"}},
    {"OutputThatIsNotThere",
     kBranches,
     R"("output_layers": [["head")",
     R"("output_layers": [["hand")",
     {"config.output_layers", "'hand'"}},
    {"OutputInTheMiddle",
     kBranches,
     R"("output_layers": [["head")",
     R"("output_layers": [["left")",
     {"layer 'head'", "not the model's"}},
    {"InputThatIsNotAnInput",
     kBranches,
     R"("input_layers": [["input_1")",
     R"("input_layers": [["left")",
     {"InputLayer"}},
    {"NoEnds",
     kBranches,
     R"("input_layers")",
     R"("output_layer")",
     {"config", "unknown field 'output_layer'"}},
    {"ShapesThatDoNotAdd",
     kResidual,
     R"("name": "conv_b", "trainable": true)",
     R"("name": "conv_b", "trainable": true, "strides": 2)",
     {"strides"}},
    {"NameOutsideDiffers",
     kResidual,
     R"("name": "stem", "inbound_nodes")",
     R"("name": "stam", "inbound_nodes")",
     {"config.layers[1].name", "stam", "\"stem\""}},
};

INSTANTIATE_TEST_SUITE_P(ModelJson, WrongModelJsonTest,
                         testing::ValuesIn(kWrong), [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(ModelJsonTest, Load_ModelOfKeras0_IsNamedAsSuch) {
  EXPECT_NE(JsonError(R"({"class_name": "Sequential", "layers":
                        [{"name": "Dense", "output_dim": 3}]})")
                .find("is a model of Keras 0"),
            std::string::npos);
}

TEST(ModelJsonTest, Load_SyntaxError_NamesLineAndColumn) {
  EXPECT_TRUE(
      Contains(JsonError("{\n  \"class_name\": }"), "line 2, near column 17"));
  for (const char* text :
       {"", " ", "{", "]", "nonsense", "{}x", "\"a\\u0000\""}) {
    EXPECT_TRUE(Contains(JsonError(text), "line 1")) << text;
  }
}

TEST(ModelJsonTest, Load_DuplicateKey_IsRefused) {
  EXPECT_TRUE(Contains(
      JsonError(R"({"class_name": "Sequential", "class_name": "Model"})"),
      "class_name"));
}

TEST(ModelJsonTest, Load_OtherJson_IsRefused) {
  for (const char* text : {"null", "1", "[]", "{}", "\"Sequential\"",
                           R"({"class_name": "Sequential"})",
                           R"({"class_name": "Functional", "config": null})",
                           R"({"class_name": "Sequential", "config": []})",
                           R"({"class_name": "Functional", "config": []})",
                           R"({"class_name": 3, "config": {}})"}) {
    EXPECT_FALSE(JsonError(text).empty()) << text;
  }
}

TEST(ModelJsonTest, Load_BeyondTheLimits_IsRefused) {
  EXPECT_TRUE(
      Contains(JsonError(std::string((1 << 20) + 1, ' ')), "1048577 bytes"));
  EXPECT_TRUE(Contains(JsonError(std::string(1 << 20, '[')), "more than 64"));
  std::string layers = R"({"class_name":"Sequential","config":[{})";
  for (int i = 0; i < 4096; ++i) layers += ",{}";
  EXPECT_TRUE(Contains(JsonError(layers + "]}"), "4097 layers"));
}

// Long lists of everything cost time in proportion.
TEST(ModelJsonTest, Load_LargestTexts_IsQuick) {
  std::string deep = R"({"class_name":"Sequential","config":[)"
                     R"({"class_name":"InputLayer",)"
                     R"("config":{"batch_shape":[null,4]}})";
  for (int i = 0; i < 4095; ++i) {
    deep += R"(,{"class_name":"Dense","config":{"units":4}})";
  }
  EXPECT_EQ(LoadJson(deep + "]}")->num_nodes(), 4096);

  std::string fields = R"({"class_name":"Sequential","config":{)";
  for (int i = 0; i < 60000; ++i) fields += "\"" + std::to_string(i) + "\":0,";
  JsonError(fields + "\"layers\":[]}}");
  JsonError(R"({"class_name":")" + std::string(900000, 'x') + "\"}");
}

}  // namespace
}  // namespace ringlet
