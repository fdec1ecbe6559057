// Attention layers, position embeddings and transposed convolutions as JSON of
// Keras 2 and 3.

#include <gtest/gtest.h>

#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_json.h"
#include "core/layers/layer_kind.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

std::string InputTensor(const std::string& layer) {
  return R"({"class_name": "__keras_tensor__", "config": {"shape": [null, 6, 4],
      "dtype": "float32", "keras_history": [")" +
         layer + "\", 0, 0]}}";
}

// A Functional of inputs "q" and "v" of (6, 4), and one layer "it". `nodes` are
// its inbound nodes.
std::string WithInputs(const std::string& kind, const std::string& config,
                       const std::string& nodes) {
  const auto input = [](const std::string& name) {
    return R"({"class_name": "InputLayer", "name": ")" + name +
           R"(", "config": {"name": ")" + name +
           R"(", "batch_shape": [null, 6, 4]}, "inbound_nodes": []}, )";
  };
  return R"({"class_name": "Functional", "config": {"name": "m", "layers": [)" +
         input("q") + input("v") + R"({"class_name": ")" + kind +
         R"(", "name": "it", "config": {"name": "it")" +
         (config.empty() ? "" : ", " + config) + R"(}, "inbound_nodes": )" +
         nodes + R"(}], "input_layers": [["q", 0, 0], ["v", 0, 0]],
         "output_layers": [["it", 0, 0]]}})";
}

std::string CallOf(const std::string& args, const std::string& kwargs) {
  return R"([{"args": [)" + args + R"(], "kwargs": {)" + kwargs + "}}]";
}

// As Keras 3.8 writes them.
constexpr char kHeadsOfKeras3[] = R"(
    "trainable": true, "dtype": {"module": "keras", "class_name": "DTypePolicy",
        "config": {"name": "float32"}, "registered_name": null},
    "num_heads": 2, "key_dim": 3, "value_dim": 3, "dropout": 0.25,
    "use_bias": true, "output_shape": null, "attention_axes": [1],
    "kernel_initializer": {"module": "keras.initializers",
        "class_name": "HeNormal", "config": {"seed": null},
        "registered_name": null},
    "bias_initializer": {"module": "keras.initializers", "class_name": "Zeros",
        "config": {}, "registered_name": null},
    "kernel_regularizer": {"module": "keras.regularizers", "class_name": "L2",
        "config": {"l2": 0.25}, "registered_name": null},
    "bias_regularizer": null, "activity_regularizer": null,
    "kernel_constraint": null, "bias_constraint": null, "seed": 7)";

TEST(AttentionJsonTest, Load_HeadsOfKeras3_HaveTheirFieldsAndCall) {
  const auto model =
      LoadJson(WithInputs("MultiHeadAttention", kHeadsOfKeras3,
                          CallOf(InputTensor("q") + ", " + InputTensor("v"),
                                 R"("query_mask": null, "value_mask": null,
                   "use_causal_mask": true)")));
  ASSERT_NE(model, nullptr);
  const Layer& it = model->layer(2);
  EXPECT_EQ(it.kind, Layer::Kind::kMultiHeadAttention);
  EXPECT_EQ(it.num_heads, 2);
  EXPECT_EQ(it.key_dim, 3);
  EXPECT_EQ(it.value_dim, 3);
  EXPECT_EQ(it.dropout, 0.25f);
  EXPECT_EQ(it.seed, 7u);
  EXPECT_EQ(it.kernel_regularizer.l2, 0.25f);
  EXPECT_TRUE(it.use_causal_mask);
  EXPECT_EQ(model->output_shape(2), (Shape{6, 4}));
  EXPECT_EQ(model->variables()[0].path, "it/query_kernel");
  EXPECT_EQ(model->variables()[0].shape, (Shape{4, 2, 3}));
  EXPECT_EQ(model->inputs(2), (std::vector<int>{0, 1}));
  ExpectSameTwice(*model);
}

// Inputs by name, and value and key of Keras 2 in the arguments of the query.
TEST(AttentionJsonTest, Load_InputsByName_AreInTheirOrder) {
  const std::string by_name = CallOf(
      "", "\"key\": " + InputTensor("q") + ", \"value\": " + InputTensor("v") +
              ", \"query\": " + InputTensor("q"));
  for (const std::string& nodes :
       {by_name,
        CallOf(InputTensor("q") + ", " + InputTensor("v"),
               "\"key\": " + InputTensor("q")),
        std::string(R"([[["q", 0, 0, {"value": ["v", 0, 0],
            "key": ["q", 0, 0], "use_causal_mask": false}]]])")}) {
    const auto model = LoadJson(WithInputs(
        "MultiHeadAttention", R"("num_heads": 1, "key_dim": 2)", nodes));
    ASSERT_NE(model, nullptr) << nodes;
    EXPECT_EQ(model->inputs(2), (std::vector<int>{0, 1, 0}));
    EXPECT_FALSE(model->layer(2).use_causal_mask);
    EXPECT_EQ(model->layer(2).value_dim, 0);
    ExpectSameTwice(*model);
  }
}

TEST(AttentionJsonTest, Load_AttentionOfEachVersion_IsTheSame) {
  const std::string list =
      "[" + InputTensor("q") + ", " + InputTensor("v") + "]";
  const auto expect = [](const std::string& config, const std::string& nodes) {
    const auto model = LoadJson(WithInputs("Attention", config, nodes));
    ASSERT_NE(model, nullptr);
    EXPECT_TRUE(model->layer(2).use_scale);
    EXPECT_TRUE(model->layer(2).use_causal_mask);
    EXPECT_EQ(model->layer(2).dropout, 0.5f);
    EXPECT_EQ(model->variables()[0].path, "it/scale");
    ExpectSameTwice(*model);
  };
  const std::string config =
      R"("use_scale": true, "score_mode": "dot", "dropout": 0.5)";
  expect(config,
         CallOf(list, R"("use_causal_mask": true, "mask": [null, null])"));
  expect(config, R"([[["q", 0, 0, {"use_causal_mask": true}],
                      ["v", 0, 0, {"use_causal_mask": true}]]])");
  expect(config + R"(, "causal": true)",
         R"([[["q", 0, 0, {}], ["v", 0, 0, {}]]])");
  expect(config + R"(, "causal": true)",
         R"([[["q", 0, 0, {"use_causal_mask": false}], ["v", 0, 0, {}]]])");
}

TEST(AttentionJsonTest, Load_PositionEmbeddingOfKerasHub_HasItsFields) {
  Functional model;
  const auto x = model.Add(Input({6, 4}));
  model.Add(
      Add(),
      {x, model.Add(PositionEmbedding(8).EmbeddingsInitializer(RandomNormal()),
                    {x})});
  ASSERT_OK(model.status());
  const std::string json = ToJson(model);
  EXPECT_TRUE(Contains(json, R"("module":"keras_hub.layers",)"
                             R"("class_name":"PositionEmbedding")"));
  const auto again = LoadJson(json);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(ToJson(*again), json);
  EXPECT_TRUE(
      Contains(ToJson(Sequential(
                   {Input({2, 6, 4}), TimeDistributed(PositionEmbedding(8))})),
               R"("layer":{"module":"keras_hub.layers")"));
  const auto loaded = LoadJson(R"({"class_name": "Sequential", "config":
      {"layers": [{"class_name": "InputLayer", "config": {
          "batch_shape": [null, 6, 4]}},
      {"module": "keras_hub.src.layers.modeling.position_embedding",
       "class_name": "PositionEmbedding", "config": {
          "name": "position_embedding", "trainable": true,
          "dtype": "float32", "sequence_length": 8, "hierarchical_alpha": 0.4,
          "initializer": {"module": "keras.initializers",
              "class_name": "RandomNormal", "config": {"mean": 0.0,
                  "stddev": 0.02, "seed": null}, "registered_name": null}},
       "registered_name": "keras_hub>PositionEmbedding"}]}})");
  ASSERT_NE(loaded, nullptr);
  EXPECT_EQ(loaded->layer(1).input_dim, 8);
  EXPECT_EQ(loaded->layer(1).embeddings_initializer.b, 0.02f);
  EXPECT_EQ(loaded->variables()[0].path, "position_embedding/embeddings");
  // Keras 2 has the package in the name of the class.
  for (const char* package : {"keras_nlp>", "keras_hub>"}) {
    const auto keras2 = LoadJson(R"({"class_name": "Sequential", "config":
        {"layers": [{"class_name": "InputLayer", "config": {
            "batch_input_shape": [null, 6, 4]}}, {"class_name": ")" +
                                 std::string(package) +
                                 R"(PositionEmbedding", "config": {
            "name": "position_embedding", "sequence_length": 8, "initializer": {
                "class_name": "GlorotUniform", "config": {"seed": null}}}}]}})");
    ASSERT_NE(keras2, nullptr) << package;
    EXPECT_EQ(keras2->layer(1).kind, Layer::Kind::kPositionEmbedding);
  }
}

TEST(AttentionJsonTest, Load_TransposedConvolutions_HaveTheirFields) {
  const auto with = [](const std::string& kind, const std::string& shape,
                       const std::string& config) {
    return R"({"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": )" +
           shape + R"(}}, {"class_name": ")" + kind + R"(", "config": {)" +
           config + "}}]}}";
  };
  // Keras 3 leaves output_padding out; Keras 2 writes it.
  const auto plane = LoadJson(with("Conv2DTranspose", "[null, 5, 4, 3]", R"(
      "name": "up", "trainable": true, "dtype": "float32", "filters": 6,
      "kernel_size": [3, 3], "strides": [2, 1], "padding": "same",
      "data_format": "channels_last", "dilation_rate": [1, 1], "groups": 1,
      "activation": "relu", "use_bias": true,
      "kernel_initializer": {"class_name": "GlorotUniform",
          "config": {"seed": null}},
      "bias_initializer": {"class_name": "Zeros", "config": {}},
      "kernel_regularizer": null, "bias_regularizer": null,
      "activity_regularizer": null, "kernel_constraint": null,
      "bias_constraint": null, "output_padding": [1, 0])"));
  ASSERT_NE(plane, nullptr);
  EXPECT_EQ(plane->layer(1).output_padding[0], 1);
  EXPECT_EQ(plane->output_shape(1), (Shape{10, 4, 6}));
  ExpectSameTwice(*plane);
  for (const char* padding :
       {"", R"(, "output_padding": null)", R"(, "output_padding": [0])"}) {
    const auto line = LoadJson(
        with("Convolution1DTranspose", "[null, 5, 3]",
             std::string(R"("filters": 6, "kernel_size": 2, "strides": 4)") +
                 padding));
    ASSERT_NE(line, nullptr) << padding;
    const bool least = padding[0] != 0 && padding[20] == '[';
    EXPECT_EQ(line->output_shape(1), (Shape{least ? 18 : 20, 6}));
    ExpectSameTwice(*line);
  }
  const auto expect = [&](const std::string& config, const char* message) {
    EXPECT_TRUE(Contains(
        JsonError(with("Conv1DTranspose", "[null, 5, 3]",
                       R"("filters": 6, "kernel_size": 3, )" + config)),
        message));
  };
  expect(R"("strides": 2, "dilation_rate": 2)", "both");
  expect(R"("strides": 2, "output_padding": 2)", "not less than strides");
  expect(R"("output_padding": -1)", "from 0 to");
  expect(R"("padding": "causal")", "padding");
  expect(R"("groups": 2)", "groups: is 2; ringlet supports only 1");
}

TEST(AttentionJsonTest, Load_UnsupportedArgument_IsRefusedWithItsPlace) {
  const std::string args = InputTensor("q") + ", " + InputTensor("v"),
                    heads = R"("num_heads": 1, "key_dim": 2)";
  const auto expect = [](const std::string& json, const char* message) {
    EXPECT_TRUE(Contains(JsonError(json), message));
  };
  expect(WithInputs("MultiHeadAttention", heads,
                    CallOf(args, R"("return_attention_scores": true)")),
         "inbound_nodes[0].kwargs.return_attention_scores: is true; ringlet "
         "supports only false");
  expect(WithInputs("MultiHeadAttention", heads,
                    CallOf(args, "\"attention_mask\": " + InputTensor("v"))),
         "attention_mask");
  expect(WithInputs("MultiHeadAttention", heads + R"(, "output_shape": 3)",
                    CallOf(args, "")),
         "output_shape: is 3; ringlet does not support it (only null)");
  expect(WithInputs("MultiHeadAttention",
                    heads + R"(, "attention_axes": [1, 2])", CallOf(args, "")),
         "attention_axes");
  expect(
      WithInputs("MultiHeadAttention", R"("num_heads": 1)", CallOf(args, "")),
      "key_dim: is missing");
  expect(WithInputs("Attention", R"("score_mode": "concat")",
                    CallOf("[" + args + "]", "")),
         "score_mode: is \"concat\"; ringlet supports only \"dot\"");
  // An argument that is not given is false.
  const std::string causal = R"("use_causal_mask": true)";
  for (const auto& [first, second] :
       {std::pair<std::string, std::string>("", causal), {causal, ""}}) {
    expect(WithInputs("MultiHeadAttention", heads,
                      R"([{"args": [)" + args + R"(], "kwargs": {)" + first +
                          R"(}}, {"args": [)" + args + R"(], "kwargs": {)" +
                          second + "}}]"),
           "inbound_nodes[1]: use_causal_mask: the layer's first call has "
           "another");
  }
}

}  // namespace
}  // namespace ringlet
