// A recurrent operator of an ONNX model that computes something else than the
// layer with its weights is refused.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "../../support/temp_folder.h"
#include "io/export/onnx/onnx_graph.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

constexpr int kUnits = 2, kFeatures = 3;
using States = std::function<std::vector<int>(OnnxGraph*)>;

const std::vector<int>& NoStates(OnnxGraph*) {
  static const std::vector<int> none;
  return none;
}

int StateOf(OnnxGraph* graph, const std::string& name, float number) {
  const float floats[] = {0, number};
  return graph->AddFloats(name, {1, 1, kUnits}, floats, kUnits);
}

// Loads a file with one operator into the layer. Returns the error.
std::string Load(const Layer& layer, const char* op, int gates,
                 OnnxAttributes attributes, const States& states = NoStates) {
  TempFolder folder;
  OnnxGraph graph;
  const std::vector<float> floats(100, 0.5f);
  const int x = graph.AddInput("x", {2, kFeatures});
  const int64_t n = gates * kUnits;
  std::vector<int> inputs = {
      x,
      graph.AddFloats("g/W", {1, n, kFeatures}, floats.data(), n * kFeatures),
      graph.AddFloats("g/R", {1, n, kUnits}, floats.data(), n * kUnits),
      graph.AddFloats("g/B", {1, 2 * n}, floats.data(), 2 * n)};
  const std::vector<int> given = states(&graph);
  if (!given.empty()) inputs.push_back(-1);
  inputs.insert(inputs.end(), given.begin(), given.end());
  graph.AddOutput(
      "y", {2, kUnits},
      graph.AddNode(op, inputs.data(), inputs.size(), attributes, "g"));
  EXPECT_OK(graph.Write("g", {}, PosixFiles(), folder / "m"));
  Sequential model({Input({2, kFeatures}), Layer(layer).Name("g")});
  model.Compile(SGD(), MeanSquaredError());
  EXPECT_OK(model.status());
  LoadWeightsOptions options;
  options.warn = [](const std::string&) {};
  return LoadWeights(&model, folder / "m", options).message();
}

TEST(OnnxRecurrenceTest, Load_AttributesOfNoLayer_AreRefused) {
  const float limit = 0.5f;
  const OnnxAttribute clip("clip", limit);
  EXPECT_TRUE(Contains(Load(LSTM(kUnits), "LSTM", 4, {clip}),
                       "node 'y' (LSTM): its attribute clip"));
  EXPECT_TRUE(Contains(Load(SimpleRNN(kUnits), "RNN", 1, {clip}),
                       "node 'y' (RNN): its attribute clip"));
  EXPECT_TRUE(Contains(Load(LSTM(kUnits), "LSTM", 4, {{"input_forget", 1}}),
                       "its attribute input_forget"));
  EXPECT_TRUE(Contains(Load(LSTM(kUnits), "LSTM", 4, {{"direction", "both"}}),
                       "its attribute direction is 'both'"));
}

TEST(OnnxRecurrenceTest, Load_OtherDirection_IsRefused) {
  for (const bool backward : {false, true}) {
    const Layer layer = SimpleRNN(kUnits).GoBackwards(backward);
    const OnnxAttribute same = {"direction", backward ? "reverse" : "forward"},
                        other = {"direction", backward ? "forward" : "reverse"};
    EXPECT_EQ(Load(layer, "RNN", 1, {same}), "");
    EXPECT_TRUE(Contains(Load(layer, "RNN", 1, {other}),
                         backward ? "layer 'g' has go_backwards true, and node "
                                    "'y' of the file computes forward"
                                  : "layer 'g' has go_backwards false, and "
                                    "node 'y' of the file computes backward"));
  }
}

TEST(OnnxRecurrenceTest, Load_OtherActivations_AreRefused) {
  const std::vector<const char*> names = {"HardSigmoid", "relu", "Relu"},
                                 one = {"Elu"}, many = {"Tanh", "Tanh"};
  const std::vector<float> alphas = {0.2f}, betas = {0.5f}, half = {0.5f};
  const OnnxAttribute activations("activations", &names);
  const OnnxAttributes keras2 = {
      activations, {"activation_alpha", &alphas}, {"activation_beta", &betas}};
  EXPECT_EQ(Load(LSTM(kUnits, kRelu, kHardSigmoidKeras2), "LSTM", 4, keras2),
            "");
  EXPECT_EQ(
      Load(LSTM(kUnits, kRelu, kHardSigmoidKeras2), "LSTM", 4, {activations}),
      "");
  EXPECT_TRUE(Contains(
      Load(LSTM(kUnits), "LSTM", 4, keras2),
      "layer 'g' computes the activations sigmoid, tanh, tanh, and node 'y'"));
  EXPECT_TRUE(Contains(Load(LSTM(kUnits, kRelu), "LSTM", 4, {}),
                       "attribute activations sigmoid, tanh, tanh"));
  EXPECT_EQ(Load(SimpleRNN(kUnits, kElu), "RNN", 1, {{"activations", &one}}),
            "");
  EXPECT_TRUE(
      Contains(Load(SimpleRNN(kUnits, kElu), "RNN", 1,
                    {{"activations", &one}, {"activation_alpha", &half}}),
               "attribute activations Elu(0.5, 0)"));
  EXPECT_TRUE(
      Contains(Load(SimpleRNN(kUnits), "RNN", 1, {{"activations", &many}}),
               "its attribute activations has 2 names in place of 1"));
}

TEST(OnnxRecurrenceTest, Load_ConstantStates_AreZeros) {
  for (const float number : {0.0f, 0.25f}) {
    const std::string error =
        number == 0 ? "" : "is a constant of other numbers than 0";
    const auto expect_error = [&](const std::string& message) {
      EXPECT_EQ(message.empty(), error.empty());
      EXPECT_TRUE(Contains(message, error));
    };
    expect_error(Load(LSTM(kUnits), "LSTM", 4, {}, [&](OnnxGraph* graph) {
      return std::vector<int>{StateOf(graph, "h", 0),
                              StateOf(graph, "c", number)};
    }));
    // As PyTorch writes them for a batch: a constant that is expanded.
    expect_error(Load(
        GRU(kUnits), "GRU", 3, {{"linear_before_reset", 1}},
        [&](OnnxGraph* graph) {
          const int shape[] = {graph->AddInput("shape", {3})};
          const int inputs[] = {StateOf(graph, "h", number), shape[0]};
          return std::vector<int>{graph->AddNode("Expand", inputs, 2, {}, "s")};
        }));
    // Two states in one tensor.
    expect_error(Load(SimpleRNN(kUnits), "RNN", 1, {}, [&](OnnxGraph* graph) {
      int at = graph->AddInput("shape", {3});
      const int inputs[] = {graph->AddNode("ConstantOfShape", &at, 1, {}, "a"),
                            StateOf(graph, "h", number)};
      at = graph->AddNode("Concat", inputs, 2, {{"axis", 0}}, "b");
      return std::vector<int>{graph->AddNode("Slice", &at, 1, {}, "c")};
    }));
  }
}

// PyTorch's exporter numbers the weights of an LSTM, so its node has the name.
TEST(OnnxRecurrenceTest, Load_NestedModules_HaveTheirPathAsName) {
  TempFolder folder;
  OnnxGraph graph;
  int x = graph.AddInput("x", {2, 1});
  std::vector<float> floats;
  for (int i = 0; i < 4; ++i) floats.push_back(static_cast<float>(i + 1));
  for (int i = 0; i < 2; ++i) {
    const std::string number = std::to_string(i);
    const float* const own = floats.data() + 2 * i;
    const int inputs[] = {
        x, graph.AddFloats("onnx::RNN_w" + number, {1, 1, 1}, own, 1),
        graph.AddFloats("onnx::RNN_r" + number, {1, 1, 1}, own + 1, 1)};
    x = graph.AddNode("RNN", inputs, 3, {},
                      i == 0 ? "/encoder/rnn" : "/decoder/rnn");
  }
  graph.AddOutput("y", {2, 1}, graph.AddNode("Identity", &x, 1, {}, "end"));
  ASSERT_OK(graph.Write("g", {}, PosixFiles(), folder / "m"));
  const Layer rnn = SimpleRNN(1).UseBias(false).ReturnSequences(true);
  Sequential model({Input({2, 1}), Layer(rnn).Name("decoder.rnn"),
                    Layer(rnn).Name("encoder.rnn")});
  model.Compile(SGD(), MeanSquaredError());
  LoadWeightsOptions options;
  options.warn = [](const std::string&) {};
  ASSERT_OK(LoadWeights(&model, folder / "m", options));
  EXPECT_EQ(WeightsOf(&model), std::vector<float>({3, 4, 1, 2}));
}

TEST(OnnxRecurrenceTest, Load_StatesOfTheGraph_NeedALayerWithStates) {
  EXPECT_TRUE(
      Contains(Load(SimpleRNN(kUnits), "RNN", 1, {},
                    [](OnnxGraph* graph) {
                      return std::vector<int>{graph->AddInput("h", {kUnits})};
                    }),
               "layer 'g' is called without initial states, and node 'y'"));
}

}  // namespace
}  // namespace ringlet
