// Models within models and shared layers as Keras's JSON, and in files.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_json.h"
#include "../../support/model_weights.h"
#include "../../support/op_runner.h"
#include "../../support/random_models.h"
#include "../../support/temp_folder.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

void ExpectError(const std::string& json,
                 std::initializer_list<const char*> parts) {
  const std::string error = JsonError(json);
  for (const char* part : parts) {
    EXPECT_TRUE(Contains(error, part));
  }
}

void Train(Model* model, int from, int to) {
  for (int step = from; step < to; ++step) {
    const auto seed = static_cast<uint64_t>(step);
    const Floats x = RandomFloats(8 * RandomBlock::kWidth, 2 * seed);
    const Floats y = RandomFloats(8 * RandomBlock::kWidth, 2 * seed + 1);
    Batch batch;
    batch.count = batch.global_count = 8;
    batch.x = x.data();
    batch.y = y.data();
    ASSERT_OK(model->TrainStep(batch));
  }
}

TEST(NestedJsonTest, RoundTrip_RandomNestedModels_AreTheSame) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const auto block = RandomModels(seed).Draw(3);
    const auto model = RandomModels::Nested(*block);
    const std::string json = ToJson(*model);
    const auto again = LoadJson(json);
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(ToJson(*again), json);
    EXPECT_EQ(again->Summary(), model->Summary());
    ASSERT_EQ(again->variables().size(), model->variables().size());
    for (Model* m : {model.get(), again.get()}) {
      m->Compile(Adam(0.01f), MeanSquaredError());
      ASSERT_OK(m->status());
      Train(m, 0, 5);
    }
    for (size_t v = 0; v < model->variables().size(); ++v) {
      EXPECT_EQ(again->variables()[v].path, model->variables()[v].path);
      EXPECT_EQ(again->variables()[v].trained(),
                model->variables()[v].trained());
    }
    ASSERT_EQ(WeightsOf(again.get()), WeightsOf(model.get()));
  }
}

TEST(NestedJsonTest, LoadModel_NestedModels_TrainOnWithTheSameBits) {
  const TempFolder folder;
  const std::string path = folder.path() + "/m.safetensors";
  for (uint32_t seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE(seed);
    const auto model = RandomModels::Nested(*RandomModels(seed).Draw(2));
    model->Compile(Adam(0.01f), MeanSquaredError());
    Train(model.get(), 0, 4);
    ASSERT_OK(SaveModel(model.get(), path));
    std::unique_ptr<Model> again;
    ASSERT_OK(LoadModel(path, &again));
    Train(model.get(), 4, 10);
    Train(again.get(), 4, 10);
    ASSERT_EQ(WeightsOf(again.get()), WeightsOf(model.get()));
  }
}

// --- what Keras writes ------------------------------------------------------

std::string Tensor(const char* name, int call) {
  return R"({"class_name": "__keras_tensor__", "config": {"shape": [null, 4], )"
         R"("dtype": "float32", "keras_history": [")" +
         std::string(name) + R"(", )" + std::to_string(call) + R"(, 0]}})";
}

// A siamese net: `class_name` is called twice, and counts from `first`.
std::string Siamese(const std::string& class_name, int first, bool keras3) {
  const std::string dense =
      R"({"class_name": "Dense", "config": {"name": "d", "units": 4}, )"
      R"("name": "d", "inbound_nodes": [[["i", 0, 0, {}]]]})";
  std::string inner = R"({"name": "inner", "trainable": false, "layers": [)"
                      R"({"class_name": "InputLayer", "config": {"name": "i", )"
                      R"("batch_shape": [null, 4]}, "name": "i", )"
                      R"("inbound_nodes": []}, )" +
                      dense + "]";
  if (class_name != "Sequential") {
    inner +=
        R"(, "input_layers": [["i", 0, 0]], "output_layers": [["d", 0, 0]])";
  }
  const auto call = [&](const std::string& k3, const std::string& k2) {
    return keras3 ? R"({"args": [)" + k3 + R"(], "kwargs": {}})" : k2;
  };
  const std::string a = std::to_string(first), b = std::to_string(first + 1);
  return R"({"class_name": "Functional", "config": {"name": "outer", "layers": [
    {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [null, 4]},
     "name": "x", "inbound_nodes": []},
    {"class_name": ")" +
         class_name + R"(", "config": )" + inner +
         R"(}, "name": "inner", "inbound_nodes": [)" +
         call(Tensor("x", 0), R"([["x", 0, 0, {}]])") + ", " +
         call(Tensor("pre", 0), R"([["pre", 0, 0, {}]])") + R"(]},
    {"class_name": "Dense", "config": {"name": "pre", "units": 4}, "name": "pre",
     "inbound_nodes": [)" +
         call(Tensor("x", 0), R"([["x", 0, 0, {}]])") + R"(]},
    {"class_name": "Add", "config": {"name": "add"}, "name": "add",
     "inbound_nodes": [)" +
         call("[" + Tensor("inner", first) + ", " + Tensor("inner", first + 1) +
                  "]",
              R"([["inner", )" + a + R"(, 0, {}], ["inner", )" + b +
                  R"(, 0, {}]])") +
         R"(]}], "input_layers": [["x", 0, 0]], "output_layers": [["add", 0, 0]]}})";
}

TEST(NestedJsonTest, Load_CallsCountedFromZeroOrOne_AreTheSame) {
  std::string written;
  for (const char* class_name : {"Functional", "Model", "Sequential"}) {
    for (const int first : {0, 1}) {
      for (const bool keras3 : {false, true}) {
        SCOPED_TRACE(std::string(class_name) + std::to_string(first));
        std::string json = Siamese(class_name, first, keras3);
        const auto model = LoadJson(json);
        ASSERT_NE(model, nullptr);
        EXPECT_EQ(model->num_nodes(), 5);
        ASSERT_EQ(model->variables().size(), 4u);
        EXPECT_EQ(model->variables()[0].path, "inner/d/kernel");
        EXPECT_EQ(model->variables()[2].path, "pre/kernel");
        EXPECT_EQ(model->first_call(3), 1);
        EXPECT_FALSE(model->layer(1).trainable);
        // The form is Keras 3's: a Functional counts from 1. A layer frozen
        // from outside has "trainable": false only if it was set on the layer.
        const std::string again = ToJson(*model);
        const bool functional = std::string(class_name) != "Sequential";
        EXPECT_TRUE(Contains(
            again, functional ? R"(["inner",2,0])" : R"(["inner",1,0])"));
        EXPECT_TRUE(Contains(again, R"("name":"inner","trainable":false)"));
        EXPECT_TRUE(Contains(again, R"("name":"d","trainable":true)"));
        EXPECT_EQ(ToJson(*LoadJson(again)), again);
      }
    }
  }
}

TEST(NestedJsonTest, Load_ErrorInAnInnerModel_NamesItsPlace) {
  const std::string good = Siamese("Functional", 1, /*keras3=*/true);
  ExpectError(Replaced(good, R"("units": 4)", R"("units": 0)"),
              {"layer 'inner' (Functional)", "layer 'd' (Dense)",
               "config.layers[1].config.layers[1].config.units"});
  ExpectError(
      Replaced(good, R"("output_layers": [["d")", R"("output_layers": [["e")"),
      {"layer 'inner'", "config.layers[1].config.output_layers"});
  ExpectError(Replaced(good, R"(["inner", 1, 0])", R"(["inner", 0, 0])"),
              {"layer 'add'", "call 0 of layer 'inner'", "1 to 2"});
  ExpectError(Replaced(good, R"(["inner", 2, 0])", R"(["inner", 9, 0])"),
              {"layer 'add'", "call 9 of layer 'inner'"});
  ExpectError(Replaced(good, R"("name": "pre", "units")",
                       R"("name": "inner", "units")"),
              {"inner"});
}

// The first call decides the shapes of the weights.
TEST(NestedJsonTest, Load_SharedModelOfTwoShapes_IsRefused) {
  std::string json = Siamese("Sequential", 0, /*keras3=*/true);
  json = Replaced(json, R"("name": "pre", "units": 4)",
                  R"("name": "pre", "units": 5)");
  ExpectError(json, {"layer 'inner' (Sequential)", "takes an input of (4,)"});
}

TEST(NestedJsonTest, Load_OuterModelIsFrozen_FreezesItsLayers) {
  const std::string json =
      Replaced(Siamese("Functional", 1, /*keras3=*/true), R"("name": "outer")",
               R"("name": "outer", "trainable": false)");
  const auto model = LoadJson(json);
  for (const Variable& v : model->variables()) {
    EXPECT_FALSE(v.trained()) << v.path;
  }
}

// A Sequential with a model as its first layer has that model's input.
TEST(NestedJsonTest, Load_SequentialBeginsWithAModel_TakesItsInput) {
  const auto model =
      LoadJson(R"({"class_name": "Sequential", "config": {"layers": [
    {"class_name": "Sequential", "config": {"name": "body", "layers": [
      {"class_name": "Dense", "config": {"units": 3,
       "batch_input_shape": [null, 5]}}]}},
    {"class_name": "Dense", "config": {"units": 2}}]}})");
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->input_shape(), Shape({5}));
  EXPECT_EQ(model->variables()[0].path, "body/dense/kernel");
  EXPECT_EQ(model->variables()[2].path, "dense/kernel");
}

// --- hostile ----------------------------------------------------------------

TEST(NestedJsonTest, Load_NestedTooDeep_IsRefused) {
  for (const int depth : {15, 16, 17, 40, 10000}) {
    std::string json, end;
    for (int i = 0; i < depth; ++i) {
      json += R"({"class_name": "Sequential", "config": {"layers": [)"
              R"({"class_name": "InputLayer", "config": )"
              R"({"batch_shape": [null, 2]}}, )";
      end += "]}}";
    }
    json += R"({"class_name": "Dense", "config": {"units": 2}})" + end;
    std::unique_ptr<Model> model;
    const Status status = ModelFromJson(json, &model);
    EXPECT_EQ(status.ok(), depth <= 16) << depth << status.message();
  }
}

TEST(NestedJsonTest, Load_CallsThatMultiplyLayers_AreRefused) {
  // The outermost but one is called twice, in it the next one twice, and so on.
  std::string json =
      R"({"class_name": "Dense", "config": {"name": "m0", "units": 2}, )"
      R"("name": "m0", "inbound_nodes": [[["i", 0, 0, {}]], [["m0", 0, 0, {}]]]})";
  for (int i = 1; i < 16; ++i) {
    const std::string name = "m" + std::to_string(i),
                      inner = "m" + std::to_string(i - 1),
                      last = i == 1 ? "1" : "2";
    json = R"({"class_name": "Functional", "config": {"name": ")" + name +
           R"(", "layers": [{"class_name": "InputLayer", "config": )"
           R"({"name": "i", "batch_shape": [null, 2]}, "name": "i", )"
           R"("inbound_nodes": []}, )" +
           json + R"(], "input_layers": [["i", 0, 0]], "output_layers": [[")" +
           inner + R"(", )" + last + R"(, 0]]}, "name": ")" + name +
           R"(", "inbound_nodes": [[["i", 0, 0, {}]], [[")" + name +
           R"(", 1, 0, {}]]]})";
  }
  json.erase(json.rfind(R"(, "name": "m15")"));
  json += "}";
  ExpectError(
      R"({"class_name": "Sequential", "config": {"layers": [)" + json + "]}}",
      {"at most 4096"});
}

}  // namespace
}  // namespace ringlet
