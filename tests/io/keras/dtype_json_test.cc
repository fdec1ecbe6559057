// The field "dtype" of layers and models: float32 or mixed_bfloat16.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "ringlet/checkpoint.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

constexpr char kPolicyOfKeras2[] =
    R"({"class_name": "Policy", "config": {"name": "mixed_bfloat16"}})";
constexpr char kPolicyOfKeras3[] =
    R"({"module": "keras", "class_name": "DTypePolicy",
        "config": {"name": "mixed_bfloat16"}, "registered_name": null})";

// The names of the layers with the policy, or that apply one, in the order of
// the nodes.
std::string Mixed(const Model& model) {
  std::string names;
  for (int i = 0; i < model.num_nodes(); ++i) {
    const Layer& layer = model.layer(i);
    const Layer* applied = &layer;
    bool mixed = false;
    for (; applied != nullptr; applied = applied->layer.get()) {
      mixed |= applied->dtype == DTypePolicy::kMixedBFloat16;
    }
    if (mixed) names += layer.name + " ";
  }
  return names;
}

std::unique_ptr<Model> Read(const std::string& text) {
  std::unique_ptr<Model> model;
  EXPECT_OK(ModelFromJson(text, &model));
  return model;
}

// Reads the text, writes it and reads that again.
void ExpectMixed(const std::string& text, const std::string& names) {
  const std::unique_ptr<Model> model = Read(text);
  ASSERT_NE(model, nullptr) << text;
  EXPECT_EQ(Mixed(*model), names);
  const std::string written = ToJson(*model);
  const std::unique_ptr<Model> again = Read(written);
  ASSERT_NE(again, nullptr) << written;
  EXPECT_EQ(Mixed(*again), names) << written;
  EXPECT_EQ(ToJson(*again), written);
}

std::string Field(const std::string& dtype) {
  return dtype.empty() ? "" : R"(, "dtype": )" + dtype;
}

// A Sequential with dtypes of the model, of its first Dense and of the last.
std::string TwoLayers(const std::string& of_model, const std::string& first,
                      const std::string& last) {
  return R"({"class_name": "Sequential", "config": {"name": "s")" +
         Field(of_model) + R"(, "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 3],
                                              "dtype": "float32"}},
      {"class_name": "Dense", "config": {"name": "a", "units": 2)" +
         Field(first) + R"(}},
      {"class_name": "Dense", "config": {"name": "b", "units": 2)" +
         Field(last) + "}}]}}";
}

TEST(DTypeJsonTest, FromJson_Policies_AreKept) {
  for (const std::string& policy :
       {std::string(R"("mixed_bfloat16")"), std::string(kPolicyOfKeras2),
        std::string(kPolicyOfKeras3)}) {
    ExpectMixed(TwoLayers("", policy, R"("float32")"), "a ");
    ExpectMixed(TwoLayers(policy, policy, R"("float32")"), "a ");
    // A layer without a dtype has the model's.
    ExpectMixed(TwoLayers(policy, "", R"("float32")"), "a ");
    ExpectMixed(TwoLayers(policy, "", ""), "a b ");
    ExpectMixed(TwoLayers(R"("float32")", "", policy), "b ");
  }
  ExpectMixed(TwoLayers("", "", ""), "");
}

TEST(DTypeJsonTest, FromJson_OtherPolicies_AreRefused) {
  for (const char* other : {R"("mixed_float16")", R"("bfloat16")",
                            R"({"class_name": "Policy",
                                "config": {"name": "float16"}})"}) {
    std::unique_ptr<Model> model;
    const Status read = ModelFromJson(TwoLayers("", other, ""), &model);
    const std::string message = read.message();
    EXPECT_NE(message.find("config.layers[1].config.dtype"), std::string::npos);
    EXPECT_NE(message.find("\"mixed_bfloat16\""), std::string::npos) << message;
  }
}

// Keras writes no dtype of an operation, which has the dtype of its tensors.
TEST(DTypeJsonTest, FromJson_Operation_HasThePolicyOfTheOthers) {
  const std::string text = R"({"class_name": "Functional", "config": {
    "name": "f", "layers": [
    {"class_name": "InputLayer", "name": "x", "config": {"name": "x",
      "batch_shape": [null, 3]}, "inbound_nodes": []},
    {"class_name": "Dense", "name": "a", "config": {"name": "a", "units": 3,
      "dtype": "mixed_bfloat16"}, "inbound_nodes": [[["x", 0, 0, {}]]]},
    {"module": "keras.src.ops.numpy", "class_name": "Multiply", "name": "m",
      "config": {"name": "m"}, "inbound_nodes": [{"args": [
        {"class_name": "__keras_tensor__", "config": {"shape": [null, 3],
          "dtype": "bfloat16", "keras_history": ["a", 0, 0]}}, 2.0],
        "kwargs": {}}]},
    {"class_name": "Dense", "name": "b", "config": {"name": "b", "units": 1},
      "inbound_nodes": [[["m", 0, 0, {}]]]}],
    "input_layers": [["x", 0, 0]], "output_layers": [["b", 0, 0]]}})";
  ExpectMixed(text, "a m ");
}

// Layers in others, and those that are expanded into several.
TEST(DTypeJsonTest, ToJson_LayersInLayers_KeepThePolicy) {
  const DTypePolicy mixed = DTypePolicy::kMixedBFloat16;
  const auto body = [&] {
    Sequential inner({Input({4, 3}), Dense(3).DType(mixed), Dense(3)});
    return inner.AsLayer().Name("inner");
  };
  Sequential model(
      {Input({4, 3}), body(),
       Bidirectional(LSTM(2).ReturnSequences(true).DType(mixed)).DType(mixed),
       TimeDistributed(Dense(3)).DType(mixed),
       TimeDistributed(Dense(3).DType(mixed)).Name("inner_policy"), Flatten(),
       Dense(1)});
  ASSERT_OK(model.status());
  const std::string written = ToJson(model);
  const std::unique_ptr<Model> again = Read(written);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(Mixed(*again), Mixed(model));
  EXPECT_NE(Mixed(model).find("merge"), std::string::npos) << Mixed(model);
  EXPECT_EQ(ToJson(*again), written);

  // The policy of Compile holds for all layers.
  CompileOptions options;
  options.dtype_policy = mixed;
  model.Compile(SGD(), MeanSquaredError(), {}, options);
  ASSERT_OK(model.status());
  const std::unique_ptr<Model> compiled = Read(ToJson(model));
  ASSERT_NE(compiled, nullptr);
  for (int i = 1; i < compiled->num_nodes(); ++i) {
    EXPECT_EQ(compiled->layer(i).dtype, mixed) << compiled->layer(i).name;
  }
  options.dtype_policy = DTypePolicy::kFloat32;
  model.Compile(SGD(), MeanSquaredError(), {}, options);
  EXPECT_EQ(ToJson(model).find("mixed"), std::string::npos);
}

}  // namespace
}  // namespace ringlet
