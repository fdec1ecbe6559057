// Models as JSON: what ringlet writes, it reads again.

#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_json.h"
#include "../../support/temp_folder.h"
#include "same_models.h"

namespace ringlet {
namespace {

std::vector<std::string> KerasFiles() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(
           EnvironmentOr("RINGLET_SOURCE", ".") + "/tests/keras_json")) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

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

}  // namespace
}  // namespace ringlet
