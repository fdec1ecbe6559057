// Weights of recurrent layers, embeddings and attention in ONNX models: files
// that ringlet wrote, and small ones of PyTorch
// (tests/write_onnx_sequences.py).

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/exports.h"
#include "../../support/model_weights.h"
#include "io/export/onnx/onnx_graph.h"
#include "ringlet/checkpoint.h"
#include "ringlet/export.h"

namespace ringlet {
namespace {

LoadWeightsOptions Silent() {
  LoadWeightsOptions options;
  options.warn = [](const std::string&) {};
  return options;
}

// A layer for each operator, in both directions, with the steps' outputs and
// without.
std::vector<Layer> Recurrences() {
  std::vector<Layer> layers = {
      SimpleRNN(3),
      LSTM(3),
      GRU(3),
      GRU(3).ResetAfter(false),
      LSTM(3).UseBias(false),
      GRU(3).GoBackwards(true),
  };
  for (size_t i = 0, count = layers.size() - 1; i < count; ++i) {
    layers.push_back(Bidirectional(Layer(layers[i])));
    layers.push_back(Bidirectional(Layer(layers[i]).ReturnSequences(true)));
  }
  return layers;
}

// Exports a model, and loads the file into another that `make` makes.
template <typename Make>
void ExpectTheSameBits(const Make& make) {
  TempFolder folder;
  auto model = make(), other = make();
  CompileOne(&model);
  ASSERT_OK(ExportOnnx(&model, folder / "m"));
  other.Compile(SGD(), MeanSquaredError());
  WeightsReport report;
  ASSERT_OK(LoadWeights(&other, folder / "m", Silent(), &report));
  EXPECT_EQ(report.loaded.size(), model.variables().size());
  EXPECT_EQ(WeightsOf(&other), WeightsOf(&model));
}

TEST(OnnxSequencesTest, Load_ExportedRecurrentLayer_HasTheSameBits) {
  for (const Layer& layer : Recurrences()) {
    SCOPED_TRACE(ClassName(layer));
    ExpectTheSameBits([&] {
      return Sequential({Input({5, 4}), layer, Flatten(), Dense(2)});
    });
  }
  ExpectTheSameBits([] {
    return Sequential({Input({2, 5, 4}), TimeDistributed(DepthwiseConv1D(2)),
                       TimeDistributed(GRU(3).ReturnSequences(true)),
                       TimeDistributed(LSTM(3))});
  });
}

TEST(OnnxSequencesTest, Load_ExportedDecoder_HasTheSameBits) {
  for (const Layer& layer : {SimpleRNN(3), LSTM(3), GRU(3)}) {
    SCOPED_TRACE(ClassName(layer));
    ExpectTheSameBits([&] {
      Functional model;
      const auto x = model.Add(Input({5, 4}));
      const auto encoder = model.Add(Layer(layer).ReturnState(true), {x});
      std::vector<Functional::Node> inputs = {x};
      for (int k = 1; k <= (layer.kind == Layer::Kind::kLSTM ? 2 : 1); ++k) {
        inputs.push_back(model.Add(RecurrentOutput(k), {encoder}));
      }
      model.Add(Dense(2), {model.Add(layer, inputs)});
      return model;
    });
  }
}

TEST(OnnxSequencesTest, Load_ExportedTransformer_HasTheSameBits) {
  ExpectTheSameBits([] {
    Functional model;
    auto tokens = model.Add(Input({6}).Name("tokens"));
    auto x = model.Add(Embedding(9, 8), {tokens});
    x = model.Add(Add(), {x, model.Add(PositionEmbedding(6), {x})});
    auto y = model.Add(MultiHeadAttention(2, 4), {x, x});
    x = model.Add(LayerNormalization(), {model.Add(Add(), {x, y})});
    x = model.Add(TimeDistributed(Dense(5)), {x});
    model.Add(Dense(3), {model.Add(Flatten(), {x})});
    return model;
  });
}

// Loads a file of PyTorch, and predicts one example.
std::vector<float> PredictedFrom(const std::string& name, Model* model,
                                 const std::vector<float>& x, size_t outputs) {
  const char* const source = std::getenv("RINGLET_SOURCE");
  if (source == nullptr) return {};
  model->Compile(SGD(), MeanSquaredError());
  EXPECT_OK(LoadWeights(model,
                        std::string(source) + "/tests/fuzz/corpus/onnx/" + name,
                        Silent()));
  const std::vector<float> y(outputs);
  const auto predicted = model->Predict(
      Dataset(MemorySource({DType::kFloat32, model->output_shape(0)}, x.data(),
                           {DType::kFloat32, {2}}, y.data(), 1))
          .Batch(1));
  EXPECT_OK(predicted.status());
  return predicted.ok() ? predicted.value() : y;
}

void ExpectNear(const std::vector<float>& y, const std::vector<float>& exact) {
  ASSERT_EQ(y.size(), exact.size());
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], exact[i], 1e-6);
}

// In the order of the graph, and by the modules' names.
TEST(OnnxSequencesTest, Load_RecurrentModulesOfPyTorch_ComputeTheSame) {
  for (const bool named : {false, true}) {
    SCOPED_TRACE(named);
    const auto name = [named](const char* text) {
      return named ? std::string(text) : "";
    };
    Functional model;
    const auto x = model.Add(Input({3, 3}));
    const auto both = [](Layer lstm) {
      return Bidirectional(lstm.ReturnSequences(true));
    };
    auto y = model.Add(both(LSTM(2)).Name(name("lstm")), {x});
    y = model.Add(both(LSTM(2)).Name(name("lstm_2")), {y});
    const auto steps =
        model.Add(GRU(2).ReturnSequences(true).Name(named ? "gru" : "a"), {y});
    const auto last =
        model.Add(SimpleRNN(2).UseBias(false).Name(name("plain")), {steps});
    const auto one = model.Add(Cropping1D(2, 0), {steps});
    y = model.Add(Concatenate(), {last, model.Add(Flatten(), {one})});
    model.Add(Dense(2).Name(name("fc")), {y});
    ExpectNear(PredictedFrom("torch_recurrent.onnx", &model,
                             {0.5f, -1, 0, 1, 0.25f, -0.5f, -0.75f, 0, 1}, 2),
               {-0.0008955001831054688f, 0.0626145452260971f});
  }
}

TEST(OnnxSequencesTest, Load_AttentionModulesOfPyTorch_ComputeTheSame) {
  Functional model;
  auto x = model.Add(Input({3}));
  x = model.Add(Embedding(7, 4), {x});
  x = model.Add(Add(), {x, model.Add(PositionEmbedding(3), {x})});
  const auto y = model.Add(MultiHeadAttention(2, 2), {x, x});
  auto z = model.Add(Dense(5), {model.Add(Add(), {x, y})});
  z = model.Add(MultiHeadAttention(1, 5), {z, x});
  model.Add(Dense(2), {model.Add(Flatten(), {z})});
  ExpectNear(PredictedFrom("torch_transformer.onnx", &model, {4, 0, 6}, 2),
             {0.469107061624527f, -0.3140273094177246f});
}

// The matrix of positions is no weight of the model: its names decide.
TEST(OnnxSequencesTest, Load_WithoutPositions_IgnoresTheAddedMatrix) {
  TempFolder folder;
  OnnxGraph graph;
  const float floats[] = {1, 2, 3, 4, 5, 6};
  int inputs[] = {graph.AddInput("x", {2, 3}),
                  graph.AddFloats("mean", {2, 3}, floats, 6)};
  inputs[0] = graph.AddNode("Add", inputs, 2, {}, "a");
  inputs[1] = graph.AddFloats("d/kernel", {3, 1}, floats, 3);
  graph.AddOutput("y", {2, 1}, graph.AddNode("MatMul", inputs, 2, {}, "d"));
  ASSERT_OK(graph.Write("g", {}, PosixFiles(), folder / "m"));
  Sequential model({Input({2, 3}), Dense(1).UseBias(false)});
  model.Compile(SGD(), MeanSquaredError());
  ASSERT_OK(LoadWeights(&model, folder / "m", Silent()));
  EXPECT_EQ(WeightsOf(&model), std::vector<float>({1, 2, 3}));
}

TEST(OnnxSequencesTest, Load_OtherGru_IsRefused) {
  TempFolder folder;
  for (const bool after : {false, true}) {
    Sequential model({Input({2, 3}), GRU(2).ResetAfter(after).Name("g")}),
        other({Input({2, 3}), GRU(2).ResetAfter(!after).Name("g")});
    CompileOne(&model);
    ASSERT_OK(ExportOnnx(&model, folder / "m"));
    other.Compile(SGD(), MeanSquaredError());
    const char* const sentence =
        after ? "layer 'g' is a GRU with reset_after false, and the file's "
                "resets the state after its product"
              : "layer 'g' is a GRU with reset_after true, and the file's "
                "resets the state before its product";
    EXPECT_TRUE(
        Contains(LoadWeights(&other, folder / "m", Silent()), sentence));
  }
}

// A file with an operator and weights of these shapes.
void WriteRecurrent(const char* op, const OnnxInts& w, const char* direction,
                    bool peepholes, const std::string& file) {
  OnnxGraph graph;
  const std::vector<float> floats(200, 1.0f);
  int64_t count = 1;
  for (const int64_t n : w) count *= n;
  const int x = graph.AddInput("x", {2, 3});
  const int inputs[] = {x,
                        graph.AddFloats("g/W", w, floats.data(), count),
                        graph.AddFloats("g/R", {1, 8, 2}, floats.data(), 16),
                        graph.AddFloats("g/B", {1, 16}, floats.data(), 16),
                        x,
                        x,
                        x,
                        graph.AddFloats("g/P", {1, 6}, floats.data(), 6)};
  graph.AddOutput("y", {2, 2},
                  graph.AddNode(op, inputs, peepholes ? 8 : 4,
                                {{"direction", direction}}, "g"));
  ASSERT_OK(graph.Write("g", {}, PosixFiles(), file));
}

TEST(OnnxSequencesTest, Load_OtherShapesOrPeepholes_AreRefused) {
  TempFolder folder;
  const auto error = [&](const char* op, const OnnxInts& w,
                         const char* direction, bool peepholes) {
    WriteRecurrent(op, w, direction, peepholes, folder / "m");
    Sequential model({Input({2, 3}), LSTM(2).Name("g")});
    model.Compile(SGD(), MeanSquaredError());
    return std::string(LoadWeights(&model, folder / "m", Silent()).message());
  };
  EXPECT_EQ(error("LSTM", {1, 8, 3}, "forward", /*peepholes=*/false), "");
  EXPECT_EQ(error("LSTM", {8, 3}, "forward", /*peepholes=*/false), "");
  EXPECT_TRUE(
      Contains(error("LSTM", {1, 8, 3}, "bidirectional", /*peepholes=*/false),
               "'g/W' of shape (1, 8, 3) is not the weight of LSTM"));
  for (const OnnxInts& w : {OnnxInts{1, 7, 3}, {2, 8, 3}, {24}, {1, 1, 8, 3}}) {
    EXPECT_TRUE(Contains(error("LSTM", w, "forward", /*peepholes=*/false),
                         "is not the weight of"));
  }
  EXPECT_TRUE(Contains(error("GRU", {1, 9, 3}, "forward", /*peepholes=*/false),
                       "'g/R' of shape (1, 8, 2) is not the weight of GRU"));
  EXPECT_TRUE(Contains(error("LSTM", {1, 8, 3}, "forward", /*peepholes=*/true),
                       "an LSTM with peepholes"));
  EXPECT_TRUE(Contains(error("RNN", {1, 8, 3}, "forward", /*peepholes=*/false),
                       "'g/R' of shape (1, 8, 2) is not the weight of RNN"));
}

}  // namespace
}  // namespace ringlet
