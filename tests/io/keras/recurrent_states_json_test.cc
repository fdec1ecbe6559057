// An encoder and a decoder that begins with its states, as Keras 3, Keras 2 and
// TensorFlow.js write them.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_json.h"
#include "ringlet/checkpoint.h"
#include "ringlet/layers.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

// %calls of the layers encoder, decoder and dense.
std::string Seq2Seq(const std::string& encoder, const std::string& decoder,
                    const std::string& dense) {
  const auto input = [](const std::string& name, const std::string& field) {
    return R"({"class_name": "InputLayer", "name": ")" + name +
           R"(", "config": {"name": ")" + name + "\", \"" + field +
           R"(": [null, 5, 3]}, "inbound_nodes": []}, )";
  };
  const auto layer = [](const std::string& kind, const std::string& name,
                        const std::string& fields, const std::string& nodes) {
    return "{\"class_name\": \"" + kind + "\", \"name\": \"" + name +
           "\", \"config\": {\"name\": \"" + name + "\", " + fields +
           "}, \"inbound_nodes\": " + nodes + "}";
  };
  return R"({"class_name": "Functional", "config": {"name": "functional", "layers": [)" +
         input("from", "batch_input_shape") + input("to", "batch_input_shape") +
         layer("LSTM", "encoder", R"("units": 4, "return_state": true)",
               encoder) +
         ", " +
         layer("LSTM", "decoder",
               R"("units": 4, "return_sequences": true, "return_state": true)",
               decoder) +
         ", " + layer("Dense", "dense", R"("units": 2)", dense) +
         R"(], "input_layers": [["from", 0, 0], ["to", 0, 0]],
             "output_layers": [["dense", 0, 0]]}})";
}

std::string Tensor(const std::string& name, int tensor) {
  return R"({"class_name": "__keras_tensor__", "config": {
      "shape": [null, 4], "dtype": "float32", "keras_history": [")" +
         name + "\", 0, " + std::to_string(tensor) + "]}}";
}

std::string Keras3() {
  const auto call = [](const std::string& args, const std::string& kwargs) {
    return "[{\"args\": [" + args + "], \"kwargs\": {" + kwargs + "}}]";
  };
  return Seq2Seq(
      call(Tensor("from", 0), R"("training": false, "mask": null)"),
      call(Tensor("to", 0), R"("initial_state": [)" + Tensor("encoder", 1) +
                                ", " + Tensor("encoder", 2) + "]"),
      call(Tensor("decoder", 0), ""));
}

// Keras 2 and TensorFlow.js make the states further inputs.
std::string Keras2() {
  return Seq2Seq(R"([[["from", 0, 0, {}]]])",
                 R"([[["to", 0, 0, {}], ["encoder", 0, 1, {}],
                      ["encoder", 0, 2, {}]]])",
                 R"([[["decoder", 0, 0, {}]]])");
}

// Some versions of Keras 2 have them as an argument.
std::string Keras2Argument() {
  return Seq2Seq(R"([[["from", 0, 0, {}]]])",
                 R"([[["to", 0, 0, {"initial_state": [["encoder", 0, 1],
                      ["encoder", 0, 2]]}]]])",
                 R"([[["decoder", 0, 0, {}]]])");
}

std::string Built() {
  Functional model;
  const auto from = model.Add(Input({5, 3}).Name("from")),
             to = model.Add(Input({5, 3}).Name("to"));
  const auto encoder =
      model.Add(LSTM(4).ReturnState(true).Name("encoder"), {from});
  const auto h = model.Add(RecurrentOutput(1), {encoder}),
             c = model.Add(RecurrentOutput(2), {encoder});
  const auto decoder =
      model.Add(LSTM(4).ReturnSequences(true).ReturnState(true).Name("decoder"),
                {to, h, c});
  model.Add(Dense(2).Name("dense"), {model.Add(RecurrentOutput(0), {decoder})});
  return ToJson(model);
}

TEST(RecurrentStatesJsonTest, Load_EncoderAndDecoder_IsTheBuiltModel) {
  const std::string built = Built();
  for (const std::string& json : {Keras3(), Keras2(), Keras2Argument()}) {
    const auto model = LoadJson(json);
    EXPECT_EQ(ToJson(*model), built);
    EXPECT_EQ(model->num_nodes(), 8);
    model->Compile(SGD(), MeanSquaredError());
    EXPECT_OK(model->status());
  }
  EXPECT_EQ(ToJson(*LoadJson(built)), built);
  EXPECT_TRUE(Contains(built, "[\"encoder\",0,2]"));
  EXPECT_FALSE(Contains(built, "RecurrentOutput"));
}

// A model in which a layer of this name takes the tensors.
std::string NamedDense(const std::string& name) {
  std::string json = Keras2();
  for (size_t at; (at = json.find("\"dense\"")) != std::string::npos;) {
    json.replace(at, 7, "\"" + name + "\"");
  }
  return json;
}

TEST(RecurrentStatesJsonTest, Load_LayerNamedAsATensor_KeepsItsName) {
  for (const char* const name :
       {"encoder_output_1", "decoder_output_0", "encoder_output_2"}) {
    const auto model = LoadJson(NamedDense(name));
    const std::string json = ToJson(*model);
    const auto again = LoadJson(json);
    EXPECT_EQ(ToJson(*again), json);
    ASSERT_EQ(again->num_nodes(), model->num_nodes());
    for (int node = 0; node < model->num_nodes(); ++node) {
      EXPECT_EQ(again->layer(node).name, model->layer(node).name);
    }
  }
}

// The GRU comes first in the file, and its second call waits for a state.
TEST(RecurrentStatesJsonTest, Load_SharedLayerBeforeItsStates_IsRead) {
  const auto layer = [](const std::string& kind, const std::string& name,
                        const std::string& fields, const std::string& nodes) {
    return "{\"class_name\": \"" + kind + "\", \"name\": \"" + name +
           "\", \"config\": {\"name\": \"" + name + "\", " + fields +
           "}, \"inbound_nodes\": [" + nodes + "]}";
  };
  const auto model = LoadJson(
      R"({"class_name": "Functional", "config": {"name": "f", "layers": [)" +
      layer("InputLayer", "x", R"("batch_input_shape": [null, 3, 2])", "") +
      ", " +
      layer("GRU", "gru", R"("units": 2)",
            R"([["x", 0, 0, {}]], [["x", 0, 0, {}], ["lstm", 0, 1, {}]])") +
      ", " +
      layer("LSTM", "lstm", R"("units": 2, "return_state": true)",
            R"([["x", 0, 0, {}]])") +
      R"(], "input_layers": [["x", 0, 0]], "output_layers": [["gru", 0, 0],
            ["lstm", 0, 2], ["gru", 1, 0]]}})");
  model->Compile(SGD(), MeanSquaredError());
  EXPECT_OK(model->status());
  EXPECT_EQ(model->num_nodes(), 6);
  EXPECT_EQ(ToJson(*LoadJson(ToJson(*model))), ToJson(*model));
}

// The states of a Bidirectional are the states of its layer, then the states of
// its backward layer.
TEST(RecurrentStatesJsonTest, Load_BidirectionalEncoder_IsTheBuiltModel) {
  const auto wrapped = [](const std::string& name, bool sequences) {
    return "{\"class_name\": \"Bidirectional\", \"name\": \"" + name +
           R"(", "config": {"layer": {"class_name": "GRU", "config": {
               "units": 4, "return_state": true, "return_sequences": )" +
           (sequences ? "true" : "false") + "}}}, \"inbound_nodes\": ";
  };
  const auto model_of = [&](const std::string& from, const std::string& to,
                            const std::string& end) {
    return R"({"class_name": "Functional", "config": {"name": "functional",
        "layers": [{"class_name": "InputLayer", "name": "x", "config": {
            "name": "x", "batch_shape": [null, 5, 3]}, "inbound_nodes": []}, )" +
           wrapped("encoder", /*sequences=*/false) + from + "}, " +
           wrapped("decoder", /*sequences=*/true) + to +
           "}], \"input_layers\": [[\"x\", 0, 0]], \"output_layers\": " + end +
           "}}";
  };
  const std::string ends = R"([["decoder", 0, 0], ["encoder", 0, 2]])";
  const std::string keras3 = model_of(
      "[{\"args\": [" + Tensor("x", 0) + R"(], "kwargs": {}}])",
      "[{\"args\": [" + Tensor("x", 0) + R"(], "kwargs": {"initial_state": [)" +
          Tensor("encoder", 1) + ", " + Tensor("encoder", 2) + "]}}]",
      ends);
  const std::string keras2 =
      model_of(R"([[["x", 0, 0, {}]]])",
               R"([[["x", 0, 0, {}], ["encoder", 0, 1, {}],
                    ["encoder", 0, 2, {}]]])",
               ends);
  Functional built;
  const auto x = built.Add(Input({5, 3}).Name("x"));
  const auto encoder = built.Add(
      Bidirectional(GRU(4).ReturnState(true).Name("gru")).Name("encoder"), {x});
  const auto forward = built.Add(RecurrentOutput(1), {encoder}),
             backward = built.Add(RecurrentOutput(2), {encoder});
  const auto decoder = built.Add(
      Bidirectional(GRU(4).ReturnState(true).ReturnSequences(true).Name("gru"))
          .Name("decoder"),
      {x, forward, backward});
  built.Outputs({built.Add(RecurrentOutput(0), {decoder}), backward});
  EXPECT_OK(built.status());
  for (const std::string& json : {keras3, keras2}) {
    const auto model = LoadJson(json);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->num_nodes(), built.num_nodes());
    EXPECT_EQ(ToJson(*LoadJson(ToJson(*model))), ToJson(*model));
    EXPECT_TRUE(Contains(ToJson(*model), R"(["encoder",0,2])"));
    EXPECT_TRUE(Contains(ToJson(*model), "initial_state"));
    model->Compile(SGD(), MeanSquaredError());
    EXPECT_OK(model->status());
  }
  EXPECT_TRUE(Contains(
      JsonError(model_of(R"([[["x", 0, 0, {}]]])",
                         R"([[["x", 0, 0, {}], ["encoder", 0, 1, {}]]])",
                         ends)),
      "as many initial states"));
  EXPECT_TRUE(
      Contains(JsonError(model_of(R"([[["x", 0, 0, {}]]])",
                                  R"([[["x", 0, 0, {}], ["encoder", 0, 1, {}],
                              ["encoder", 0, 3, {}]]])",
                                  ends)),
               "the layer has tensors 0 to 2, and not 3"));
}

TEST(RecurrentStatesJsonTest, Load_SequentialWithStates_IsRefused) {
  for (const char* const kind : {"SimpleRNN", "GRU", "LSTM"}) {
    for (const bool last : {false, true}) {
      const std::string json =
          R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
              {"class_name": "InputLayer",
               "config": {"batch_shape": [null, 4, 2]}}, {"class_name": ")" +
          std::string(kind) +
          R"(", "config": {"units": 2, "return_state": true}})" +
          (last ? "" : R"(, {"class_name": "Flatten", "config": {}})") + "]}}";
      EXPECT_TRUE(Contains(JsonError(json),
                           "config.return_state: is true, and a Sequential"));
    }
  }
}

TEST(RecurrentStatesJsonTest, Load_WrongStates_AreRefused) {
  const auto error = [](const std::string& encoder,
                        const std::string& decoder) {
    return JsonError(Seq2Seq(R"([[["from", 0, 0, {}]]])",
                             "[[[\"to\", 0, 0, {}], " + encoder + "]]",
                             decoder));
  };
  const std::string both = R"(["encoder", 0, 1, {}], ["encoder", 0, 2, {}])";
  EXPECT_TRUE(Contains(
      error(R"(["encoder", 0, 1, {}])", R"([[["decoder", 0, 0, {}]]])"),
      "has 2 initial states, not 1"));
  EXPECT_TRUE(Contains(error(R"(["encoder", 0, 1, {}], ["encoder", 0, 3, {}])",
                             R"([[["decoder", 0, 0, {}]]])"),
                       "the layer has tensors 0 to 2, and not 3"));
  EXPECT_TRUE(Contains(error(R"(["encoder", 1, 1, {}], ["encoder", 0, 2, {}])",
                             R"([[["decoder", 0, 0, {}]]])"),
                       "call 1 of layer 'encoder'"));
  EXPECT_TRUE(Contains(error(both, R"([[["to", 0, 1, {}]]])"),
                       "takes tensor 1 of layer 'to', which gives one"));
}

}  // namespace
}  // namespace ringlet
