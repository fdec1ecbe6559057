// Recurrent layers and their wrappers as JSON of Keras 2 and 3.

#include <gtest/gtest.h>

#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_json.h"
#include "core/layers/layer_kind.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

// A Sequential over (6, 3) with one layer.
std::string With(const std::string& kind, const std::string& config) {
  return R"({"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 6, 3]}},
      {"class_name": ")" +
         kind + R"(", "config": {)" + config + "}}]}}";
}

TEST(RecurrentJsonTest, Load_LstmOfKeras3_HasItsFields) {
  const auto model = LoadJson(With("LSTM", R"(
      "name": "lstm", "trainable": true,
      "dtype": {"module": "keras", "class_name": "DTypePolicy",
                "config": {"name": "float32"}, "registered_name": null},
      "return_sequences": true, "return_state": false, "go_backwards": true,
      "stateful": false, "unroll": true, "zero_output_for_mask": false,
      "units": 8, "activation": "softsign",
      "recurrent_activation": "hard_sigmoid", "use_bias": true,
      "kernel_initializer": {"module": "keras.initializers",
          "class_name": "GlorotUniform", "config": {"seed": null},
          "registered_name": null},
      "recurrent_initializer": {"module": "keras.initializers",
          "class_name": "Orthogonal", "config": {"seed": null, "gain": 0.5},
          "registered_name": null},
      "bias_initializer": {"module": "keras.initializers",
          "class_name": "Zeros", "config": {}, "registered_name": null},
      "unit_forget_bias": false, "kernel_regularizer": null,
      "recurrent_regularizer": {"module": "keras.regularizers",
          "class_name": "L2", "config": {"l2": 0.25}, "registered_name": null},
      "bias_regularizer": null, "activity_regularizer": null,
      "kernel_constraint": null, "recurrent_constraint": null,
      "bias_constraint": null, "dropout": 0.25, "recurrent_dropout": 0.5,
      "seed": 7)"));
  ASSERT_NE(model, nullptr);
  const Layer& lstm = model->layer(1);
  EXPECT_EQ(lstm.kind, Layer::Kind::kLSTM);
  EXPECT_EQ(lstm.units, 8);
  EXPECT_EQ(lstm.activation, kSoftsign);
  EXPECT_EQ(lstm.recurrent_activation, kHardSigmoid);
  EXPECT_EQ(lstm.recurrent_initializer.kind, Initializer::Kind::kOrthogonal);
  EXPECT_EQ(lstm.recurrent_initializer.a, 0.5f);
  EXPECT_EQ(lstm.recurrent_regularizer.l2, 0.25f);
  EXPECT_FALSE(lstm.unit_forget_bias);
  EXPECT_TRUE(lstm.return_sequences);
  EXPECT_TRUE(lstm.go_backwards);
  EXPECT_EQ(lstm.dropout, 0.25f);
  EXPECT_EQ(lstm.recurrent_dropout, 0.5f);
  EXPECT_EQ(lstm.seed, 7u);
  EXPECT_EQ(model->output_shape(1), (Shape{6, 8}));
  EXPECT_EQ(model->variables()[0].path, "lstm/kernel");
  EXPECT_EQ(model->variables()[1].path, "lstm/recurrent_kernel");
  EXPECT_EQ(model->variables()[1].shape, (Shape{8, 32}));
  ExpectSameTwice(*model);
}

TEST(RecurrentJsonTest, Load_OmittedFields_AreTheDefaultsOfKeras) {
  const auto gru = LoadJson(With("GRU", R"("units": 4)"));
  ASSERT_NE(gru, nullptr);
  EXPECT_EQ(gru->layer(1).activation, kTanh);
  EXPECT_EQ(gru->layer(1).recurrent_activation, kSigmoid);
  EXPECT_EQ(gru->variables()[2].shape, (Shape{2, 12}));
  EXPECT_EQ(gru->output_shape(1), (Shape{4}));
  ExpectSameTwice(*gru);
  const auto linear =
      LoadJson(With("SimpleRNN", R"("units": 4, "activation": null)"));
  ASSERT_NE(linear, nullptr);
  EXPECT_EQ(linear->layer(1).activation, kLinear);
  ExpectSameTwice(*linear);
  const auto steps = LoadJson(With("TimeDistributed", R"(
      "layer": {"class_name": "Dense", "config": {"units": 2}})"));
  ASSERT_NE(steps, nullptr);
  EXPECT_EQ(steps->layer(1).layer->name, "dense");
  ExpectSameTwice(*steps);
}

// As tf.keras 2.11 writes them.
TEST(RecurrentJsonTest, Load_BidirectionalOfKeras2_IsBothDirections) {
  const auto model = LoadJson(With("Bidirectional", R"(
      "name": "both", "trainable": true, "dtype": "float32",
      "layer": {"class_name": "LSTM", "config": {
          "name": "lstm", "trainable": true, "dtype": "float32",
          "return_sequences": true, "return_state": false,
          "go_backwards": false, "stateful": false, "unroll": false,
          "time_major": false, "units": 4, "activation": "tanh",
          "recurrent_activation": "sigmoid", "use_bias": true,
          "kernel_initializer": {"class_name": "GlorotUniform",
              "config": {"seed": null}, "shared_object_id": 1},
          "recurrent_initializer": {"class_name": "Orthogonal",
              "config": {"gain": 1.0, "seed": null}, "shared_object_id": 2},
          "bias_initializer": {"class_name": "Zeros", "config": {},
              "shared_object_id": 3},
          "unit_forget_bias": true, "kernel_regularizer": null,
          "recurrent_regularizer": null, "bias_regularizer": null,
          "activity_regularizer": null, "kernel_constraint": null,
          "recurrent_constraint": null, "bias_constraint": null,
          "dropout": 0.0, "recurrent_dropout": 0.0, "implementation": 2}},
      "merge_mode": "concat")"));
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->output_shape(model->num_nodes() - 1), (Shape{6, 8}));
  ASSERT_EQ(model->variables().size(), 6u);
  EXPECT_EQ(model->variables()[0].path, "both/forward_lstm/kernel");
  EXPECT_EQ(model->variables()[5].path, "both/backward_lstm/bias");
  EXPECT_TRUE(Contains(model->Summary(), "both (Bidirectional)"));
  EXPECT_TRUE(Contains(ToJson(*model), R"("class_name":"Bidirectional")"));
  ExpectSameTwice(*model);
}

// Keras 2 and TensorFlow.js write a shape of the input into every Embedding,
// open without input_length.
TEST(RecurrentJsonTest, Load_EmbeddingOfKeras2_MayHaveAnOpenShape) {
  const auto with = [](const std::string& shape, const std::string& input) {
    return R"({"class_name": "Sequential", "config": {"layers": [)" + input +
           R"({"class_name": "Embedding", "config": {
        "name": "embedding", "trainable": true, "batch_input_shape": )" +
           shape + R"(, "dtype": "float32", "input_dim": 20, "output_dim": 3,
        "embeddings_initializer": {"class_name": "RandomUniform", "config": {
            "minval": -0.05, "maxval": 0.05, "seed": null}},
        "embeddings_regularizer": null, "activity_regularizer": null,
        "embeddings_constraint": null, "mask_zero": false,
        "input_length": null}}]}, "keras_version": "2.8.0"})";
  };
  const std::string input = R"({"class_name": "InputLayer", "config": {
      "batch_input_shape": [null, 6]}}, )";
  for (const char* shape : {"[null, null]", "[null, 6]"}) {
    const auto model = LoadJson(with(shape, input));
    ASSERT_NE(model, nullptr) << shape;
    EXPECT_EQ(model->output_shape(), (Shape{6, 3}));
    ExpectSameTwice(*model);
  }
  const auto first = LoadJson(with("[null, 6]", ""));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->output_shape(), (Shape{6, 3}));
  const auto expect = [](const std::string& json, const char* message) {
    EXPECT_TRUE(Contains(JsonError(json), message));
  };
  expect(with("[null, null]", ""), "write the number of steps there");
  expect(with("[null, 7]", input), "batch_input_shape: is (7,)");
  expect(with("[null, null, null]", input), "batch_input_shape: is (-1, -1)");
}

TEST(RecurrentJsonTest, RoundTrip_EveryLayer_IsTheSame) {
  Sequential model({Input({12})});
  model.Add(Embedding(100, 3).EmbeddingsRegularizer(L2(0.5f)));
  model.Add(SimpleRNN(4, kRelu).ReturnSequences(true).UseBias(false));
  model.Add(LSTM(3).ReturnSequences(true).GoBackwards(true).Dropout(0.5f));
  model.Add(Bidirectional(GRU(5).ReturnSequences(true), kMergeSum));
  model.Add(Bidirectional(
      LSTM(2).ReturnSequences(true).Name("a"),
      GRU(2).ReturnSequences(true).GoBackwards(true).Name("b"), kMergeMul));
  model.Add(TimeDistributed(Dense(4, kRelu).KernelRegularizer(L1(0.1f))));
  model.Add(TimeDistributed(Reshape({2, 2, 1})));
  model.Add(TimeDistributed(Conv2D(3, 2)).Name("convolved"));
  model.Add(Reshape({12, 3}));
  model.Add(Bidirectional(SimpleRNN(3), kMergeAve).Trainable(false));
  model.Add(RepeatVector(2));
  model.Add(GRU(3).ResetAfter(false).RecurrentDropout(0.25f).Seed(9));
  ASSERT_OK(model.status());
  EXPECT_EQ(model.output_shape(), (Shape{3}));
  ExpectSameTwice(model);
  // A model with such layers, within another.
  Sequential outer({Input({12}), model.AsLayer().Name("inner"), Dense(2)});
  ASSERT_OK(outer.status());
  ExpectSameTwice(outer);
}

// A saved model could not be read again without it.
TEST(RecurrentJsonTest, Load_LayerWithoutName_GetsThatOfItsClass) {
  const auto dense = LoadJson(With("TimeDistributed", R"("layer": {
      "class_name": "Dense", "config": {"units": 2}})"));
  ASSERT_NE(dense, nullptr);
  EXPECT_EQ(dense->layer(1).layer->name, "dense");
  ExpectSameTwice(*dense);
  const auto both = LoadJson(With("Bidirectional", R"("layer": {
      "class_name": "LSTM", "config": {"units": 2}}, "backward_layer": {
      "class_name": "GRU", "config": {"units": 2, "go_backwards": true}})"));
  ASSERT_NE(both, nullptr);
  EXPECT_EQ(both->variables()[3].path, "bidirectional/backward_gru/kernel");
  ExpectSameTwice(*both);
}

TEST(RecurrentJsonTest, Load_FrozenLayerOfEachStep_IsNotTrained) {
  const auto model = LoadJson(With("TimeDistributed", R"("layer": {
      "class_name": "Dense", "config": {"units": 2, "trainable": false}})"));
  ASSERT_NE(model, nullptr);
  EXPECT_FALSE(model->layer(1).trainable);
  ExpectSameTwice(*model);
  ASSERT_OK(model->SetTrainable("time_distributed", true));
  model->Compile(SGD(0.1f), MeanSquaredError());
  ASSERT_OK(model->status());
  EXPECT_TRUE(model->layer(1).trainable);
  ExpectSameTwice(*model);
}

// A state and a mask that a call of a functional model gives, as Keras 3 and
// Keras 2 write them.
TEST(RecurrentJsonTest, Load_StateOrMaskOfCall_IsRefusedWithItsPlace) {
  const auto error = [](const std::string& nodes) {
    const std::string input =
        R"({"class_name": "InputLayer", "name": "%", "config": {
        "name": "%", "batch_shape": [null, 6, 3]}, "inbound_nodes": []}, )";
    return JsonError(
        R"({"class_name": "Functional", "config": {"name": "f", "layers": [)" +
        Replaced(Replaced(input, "%", "x"), "%", "x") +
        Replaced(Replaced(input, "%", "h"), "%", "h") +
        R"({"class_name": "GRU", "name": "gru", "config": {"name": "gru",
            "units": 3}, "inbound_nodes": )" +
        nodes + R"(}], "input_layers": [["x", 0, 0], ["h", 0, 0]],
            "output_layers": [["gru", 0, 0]]}})");
  };
  const auto tensor = [](const std::string& name) {
    return R"({"class_name": "__keras_tensor__", "config": {
        "shape": [null, 6, 3], "dtype": "float32",
        "keras_history": [")" +
           name + R"(", 0, 0]}})";
  };
  const auto call = [&](const std::string& kwargs) {
    return "[{\"args\": [" + tensor("x") + "], \"kwargs\": {" + kwargs + "}}]";
  };
  EXPECT_TRUE(Contains(error(call("\"initial_state\": [" + tensor("h") + "]")),
                       "an initial state must be (3,), not (6, 3)"));
  EXPECT_TRUE(Contains(error(call("\"mask\": " + tensor("h"))),
                       "inbound_nodes: mask: ringlet supports only the mask "
                       "that an Embedding"));
  EXPECT_TRUE(Contains(error(call("\"mask\": [" + tensor("h") + "]")),
                       "kwargs.mask: is "));
  EXPECT_TRUE(Contains(error(R"([[["x", 0, 0, {}], ["h", 0, 0, {}]]])"),
                       "an initial state must be (3,), not (6, 3)"));
  EXPECT_TRUE(
      Contains(error(R"([[["x", 0, 0, {"initial_state": ["h", 0, 0]}]]])"),
               "an initial state must be (3,), not (6, 3)"));
  // Without a state only the unused input is wrong.
  EXPECT_TRUE(Contains(
      error(call(R"("initial_state": null, "mask": null, "training": false)")),
      "no layer takes its output"));
}

TEST(RecurrentJsonTest, Load_UnsupportedField_IsRefusedWithItsPlace) {
  const auto expect = [](const std::string& kind, const std::string& config,
                         const std::string& part) {
    const std::string error = JsonError(With(kind, config));
    EXPECT_TRUE(Contains(error, part));
  };
  expect("LSTM", R"("units": 4, "stateful": true)",
         "stateful: is true; ringlet supports only false: a state begins as "
         "zeros in each batch");
  expect("GRU", R"("units": 4, "time_major": true)",
         "time_major: is true; ringlet supports only false");
  expect("GRU", R"("units": 4, "dropout": 1)", "dropout: is 1");
  expect("GRU", R"("units": 4, "activation": "gelu")", "'gelu'");
  expect("LSTM", R"("output_dim": 4)", "the name of 'units' in Keras 1");
  expect("LSTM", R"("units": 4, "inner_activation": "tanh")",
         "'recurrent_activation' in Keras 1");
  const std::string lstm =
      R"("layer": {"class_name": "LSTM", "config": {"units": 4}})";
  expect("Bidirectional", lstm + R"(, "merge_mode": "none")", "merge_mode");
  expect("Bidirectional", lstm + R"(, "merge_mode": "max")", "merge_mode");
  expect("Bidirectional",
         R"("layer": {"class_name": "LSTM", "config": {"units": 4,
            "stateful": true}})",
         "layer.config.stateful: is true");
  expect("Bidirectional",
         R"("layer": {"class_name": "Dense", "config": {"units": 4}})",
         "takes a SimpleRNN, LSTM or GRU, not a Dense");
  expect("Bidirectional", lstm + R"(, "backward_layer": {"class_name": "GRU",
         "config": {"units": 4}})",
         "go_backwards must be");
  expect("TimeDistributed", R"("layer": null)", "layer");
  expect("TimeDistributed", R"("name": "x")", "layer");
  expect("TimeDistributed",
         R"("layer": {"class_name": "BatchNormalization", "config": {}})",
         "TimeDistributed cannot have a BatchNormalization");
  expect("TimeDistributed",
         R"("layer": {"class_name": "Sequential", "config": {"layers": []}})",
         "layer.config.layers: the shape of the input is not given");
  expect("TimeDistributed", R"("layer": {"class_name": "Add", "config": {}})",
         "TimeDistributed cannot apply Add");
}

}  // namespace
}  // namespace ringlet
