// A Bidirectional with return_state and initial states is its two layers.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "../../support/sequence_examples.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "core/layers/layer_kind.h"
#include "ringlet/checkpoint.h"
#include "ringlet/layers.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

using Node = Functional::Node;
constexpr int64_t kSteps = 5, kFeatures = 3, kUnits = 4, kExamples = 132;

Dataset Sequences() {
  static const SequenceExamples examples(kSteps, kFeatures, kExamples);
  return examples.All();
}

std::vector<Layer> Recurrences() {
  return {SimpleRNN(kUnits), LSTM(kUnits), GRU(kUnits),
          LSTM(kUnits).UseBias(false)};
}

// Both layers over the inputs; the output, then the forward and the backward
// states.
std::vector<Node> AddPair(Layer layer, const std::vector<Node>& inputs,
                          Functional* model) {
  const size_t states = layer.kind == Layer::Kind::kLSTM ? 2 : 1;
  layer.ReturnState(true);
  std::vector<Node> both, tensors = {{}};
  for (const bool backwards : {false, true}) {
    std::vector<Node> taken = {inputs[0]};
    for (size_t i = 1; i < inputs.size(); ++i) {
      if ((i > states) == backwards) taken.push_back(inputs[i]);
    }
    const Node one = model->Add(layer.GoBackwards(backwards), taken);
    both.push_back(model->Add(RecurrentOutput(0), {one}));
    for (size_t k = 1; k <= states; ++k) {
      tensors.push_back(
          model->Add(RecurrentOutput(static_cast<int64_t>(k)), {one}));
    }
  }
  tensors[0] = model->Add(Concatenate(), both);
  return tensors;
}

std::vector<Node> AddBidirectional(Layer layer, const std::vector<Node>& inputs,
                                   Functional* model) {
  const int64_t states = layer.kind == Layer::Kind::kLSTM ? 2 : 1;
  const Node both = model->Add(Bidirectional(layer.ReturnState(true)), inputs);
  std::vector<Node> tensors;
  for (int64_t k = 0; k <= 2 * states; ++k) {
    tensors.push_back(model->Add(RecurrentOutput(k), {both}));
  }
  return tensors;
}

// Adds a Bidirectional without a merge mode, and joins its outputs.
std::vector<Node> AddUnmerged(Layer layer, const std::vector<Node>& inputs,
                              Functional* model) {
  const int64_t states = layer.kind == Layer::Kind::kLSTM ? 2 : 1;
  const Node both =
      model->Add(Bidirectional(layer.ReturnState(true), kMergeNone), inputs);
  std::vector<Node> tensors;
  for (int64_t k = 0; k <= 2 * states + 1; ++k) {
    tensors.push_back(model->Add(RecurrentOutput(k), {both}));
  }
  const Node joined = model->Add(Concatenate(), {tensors[0], tensors[1]});
  tensors.erase(tensors.begin());
  tensors[0] = joined;
  return tensors;
}

// An encoder; its states begin another such layer and, joined, a decoder.
using AddBoth = std::vector<Node> (*)(Layer, const std::vector<Node>&,
                                      Functional*);
void AddLayers(const Layer& layer, AddBoth add, Functional* model) {
  const Node x = model->Add(Input({kSteps, kFeatures}));
  const std::vector<Node> encoded = add(layer, {x}, model);
  std::vector<Node> inputs = encoded;
  inputs[0] = x;
  const std::vector<Node> again = add(layer, inputs, model);
  const size_t states = encoded.size() / 2;
  std::vector<Node> decoder = {x};
  for (size_t k = 1; k <= states; ++k) {
    decoder.push_back(
        model->Add(Concatenate(), {encoded[k], encoded[k + states]}));
  }
  Layer wide = layer;
  wide.units = 2 * kUnits;
  std::vector<Node> all = again;
  all.push_back(encoded[0]);
  all.push_back(model->Add(wide, decoder));
  model->Add(Dense(2), {model->Add(Concatenate(), all)});
}

TEST(BidirectionalStatesTest, Fit_EncoderAndDecoder_EqualsBothLayers) {
  for (const Layer& layer : Recurrences()) {
    for (const int64_t batch : {1, 32, 100}) {
      SCOPED_TRACE(std::string(ClassName(layer)) + " " + std::to_string(batch));
      Functional pair;
      AddLayers(layer, AddPair, &pair);
      CompileWithSgd(&pair, 0.1f, 1);
      const std::vector<float> first = WeightsOf(&pair);
      const std::vector<float> y =
          pair.Predict(Sequences().Batch(batch)).value();
      for (int fit = 0; fit < 2; ++fit) {
        ASSERT_OK(pair.Fit(Sequences().Batch(batch), Quiet(1)).status());
      }
      const std::vector<float> a = WeightsOf(&pair);
      for (const AddBoth add : {AddBidirectional, AddUnmerged}) {
        Functional both;
        AddLayers(layer, add, &both);
        CompileWithSgd(&both, 0.1f, 2);
        ASSERT_EQ(WeightsOf(&both), first);
        EXPECT_EQ(both.Predict(Sequences().Batch(batch)).value(), y);
        for (int fit = 0; fit < 2; ++fit) {
          ASSERT_OK(both.Fit(Sequences().Batch(batch), Quiet(1)).status());
        }
        const std::vector<float> b = WeightsOf(&both);
        for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5);
      }
    }
  }
}

std::vector<float> Train(const CompileOptions& options) {
  Functional model;
  AddLayers(LSTM(kUnits).Dropout(0.2f), AddUnmerged, &model);
  model.Compile(SGD(0.1f), MeanSquaredError(), {}, options);
  EXPECT_OK(model.status());
  EXPECT_OK(model.Fit(Sequences().Batch(24), Quiet(2)).status());
  return WeightsOf(&model);
}

TEST(BidirectionalStatesTest, Fit_OnThreeWorkers_HasTheResultOfOne) {
  const std::vector<float> one = Train(ExactSums(nullptr, 3));
  const auto ranks = ResultsOfRanks(3, [&](Collective* collective) {
    return Train(ExactSums(collective, 3));
  });
  for (const std::vector<float>& rank : ranks) EXPECT_EQ(rank, one);
}

TEST(BidirectionalStatesTest, Load_SavedModel_PredictsTheSame) {
  TempFolder folder;
  for (size_t i = 0; i < 2 * Recurrences().size(); ++i) {
    Functional model;
    AddLayers(Recurrences()[i / 2], i % 2 == 0 ? AddBidirectional : AddUnmerged,
              &model);
    CompileWithSgd(&model, 0.1f, 1);
    ASSERT_OK(SaveModel(&model, folder / "m"));
    std::unique_ptr<Model> loaded;
    ASSERT_OK(LoadModel(folder / "m", &loaded));
    EXPECT_EQ(ToJson(*loaded), ToJson(model));
    EXPECT_EQ(loaded->Predict(Sequences().Batch(32)).value(),
              model.Predict(Sequences().Batch(32)).value());
    EXPECT_FALSE(Contains(ToJson(model), "RecurrentOutput"));
  }
}

TEST(BidirectionalStatesTest, Call_OfAModelWithStates_EqualsItsLayers) {
  Functional inner, model;
  AddLayers(GRU(kUnits), AddUnmerged, &inner);
  CompileWithSgd(&inner, 0.1f, 1);
  const std::vector<float> y = inner.Predict(Sequences().Batch(32)).value();
  const Node x = model.Add(Input({kSteps, kFeatures})),
             once = model.Add(inner.AsLayer(), {x});
  model.Add(Add(), {once, model.CallAgain(once, {x})});
  CompileWithSgd(&model, 0.1f, 1);
  const std::vector<float> sum = model.Predict(Sequences().Batch(32)).value();
  ASSERT_EQ(sum.size(), y.size());
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(sum[i], 2 * y[i]);
}

// Nothing takes the merge, as in an encoder.
TEST(BidirectionalStatesTest, Fit_OfStatesAlone_TrainsBothLayers) {
  for (const bool nested : {false, true}) {
    Functional encoder, model;
    Functional* const to = nested ? &encoder : &model;
    const Node x = to->Add(Input({kSteps, kFeatures})),
               both =
                   to->Add(Bidirectional(LSTM(kUnits).ReturnState(true)), {x});
    Node y = to->Add(Concatenate(), {to->Add(RecurrentOutput(1), {both}),
                                     to->Add(RecurrentOutput(4), {both})});
    if (nested) {
      y = model.Add(encoder.AsLayer(), {model.Add(Input({kSteps, kFeatures}))});
    }
    model.Add(Dense(2), {y});
    CompileWithSgd(&model, 0.1f, 2);
    const std::vector<float> before = WeightsOf(&model);
    ASSERT_OK(model.Fit(Sequences().Batch(32), Quiet(1)).status());
    const std::vector<float> after = WeightsOf(&model);
    const size_t of_a_layer = (kFeatures + kUnits + 1) * 4 * kUnits;
    for (size_t i = 0; i < 2 * of_a_layer; i += of_a_layer) {
      EXPECT_NE(before[i], after[i]);  // the first number of each kernel
    }
  }
}

TEST(BidirectionalStatesTest, CallAgain_OfTheLayer_HasTheStatesOfThatCall) {
  Functional model;
  const Node x = model.Add(Input({kSteps, kFeatures})),
             once =
                 model.Add(Bidirectional(GRU(kUnits).ReturnState(true)), {x}),
             first = model.Add(RecurrentOutput(2), {once}),
             twice = model.CallAgain(once, {model.Add(Rescaling(-1), {x})}),
             second = model.Add(RecurrentOutput(2), {twice});
  model.Outputs({first, second});
  model.Compile(SGD(), MeanSquaredError());
  ASSERT_OK(model.status());
  EXPECT_EQ(ToJson(model).find("RecurrentOutput"), std::string::npos);
}

// Without a merge mode and without states.
TEST(BidirectionalStatesTest, Fit_OutputsAlone_TrainsTheLayersTaken) {
  for (const int64_t taken : {0, 1}) {
    Functional model;
    const Node x = model.Add(Input({kSteps, kFeatures})),
               both = model.Add(Bidirectional(GRU(kUnits), kMergeNone), {x});
    model.Add(Dense(2), {model.Add(RecurrentOutput(taken), {both})});
    CompileWithSgd(&model, 0.1f, 2);
    ASSERT_OK(model.status());
    const std::vector<float> before = WeightsOf(&model);
    ASSERT_OK(model.Fit(Sequences().Batch(32), Quiet(1)).status());
    const std::vector<float> after = WeightsOf(&model);
    const size_t of_backward = (kFeatures + kUnits + 2) * 3 * kUnits;
    EXPECT_EQ(before[0] != after[0], taken == 0);
    EXPECT_EQ(before[of_backward] != after[of_backward], taken == 1);
  }
}

TEST(BidirectionalStatesTest, Add_WithoutMerge_RefusesWhatDoesNotFit) {
  const Layer both = Bidirectional(LSTM(kUnits), kMergeNone);
  Functional model;
  const Node node =
      model.Add(Layer(both).Name("b"), {model.Add(Input({kSteps, kFeatures}))});
  model.Add(RecurrentOutput(2), {node});
  EXPECT_TRUE(Contains(model.status().message(),
                       "the layer has tensors 0 to 1, and not 2"));
  Sequential last({Input({kSteps, kFeatures}), Layer(both).Name("b")});
  last.Compile(SGD(), MeanSquaredError());
  EXPECT_TRUE(Contains(last.status().message(),
                       "layer 'b' has no merge mode, so it gives several"));
  Sequential steps({Input({2, kSteps, kFeatures}), TimeDistributed(both)});
  EXPECT_TRUE(Contains(steps.status().message(),
                       "a Bidirectional without a merge mode has two"));
}

TEST(BidirectionalStatesTest, Add_WhatDoesNotFit_IsRefused) {
  const auto error = [](const auto& add) {
    Functional model;
    const Node x = model.Add(Input({kSteps, kFeatures}));
    const Layer both = Bidirectional(LSTM(kUnits).ReturnState(true));
    add(&model, x, model.Add(Layer(both).Name("both"), {x}));
    model.Compile(SGD(), MeanSquaredError());
    return std::string(model.status().message());
  };
  EXPECT_TRUE(Contains(error([](Functional* model, Node, Node both) {
                         model->Add(Dense(2), {both});
                       }),
                       "layer 'both' has return_state, so it gives several"));
  EXPECT_TRUE(Contains(error([](Functional*, Node, Node) {}),
                       "layer 'both' has return_state, so it gives several"));
  EXPECT_TRUE(Contains(error([](Functional* model, Node, Node both) {
                         model->Add(RecurrentOutput(5), {both});
                       }),
                       "the layer has tensors 0 to 4, and not 5"));
  EXPECT_TRUE(Contains(error([](Functional* model, Node x, Node both) {
                         const Node h = model->Add(RecurrentOutput(1), {both});
                         model->Add(Bidirectional(GRU(kUnits)), {x, h});
                       }),
                       "as many initial states"));
  EXPECT_TRUE(Contains(error([](Functional* model, Node x, Node both) {
                         const Node h = model->Add(RecurrentOutput(1), {both});
                         model->Add(Bidirectional(LSTM(kUnits)), {x, h, h});
                       }),
                       "has 2 initial states, not 1"));
  EXPECT_TRUE(Contains(error([](Functional* model, Node x, Node) {
                         const Layer one = LSTM(kUnits).ReturnState(true);
                         model->Add(TimeDistributed(Bidirectional(one)), {x});
                       }),
                       "TimeDistributed"));
  Functional half;
  half.Add(Bidirectional(LSTM(2).ReturnState(true), LSTM(2).GoBackwards(true)),
           {half.Add(Input({3, 2}))});
  EXPECT_TRUE(Contains(std::string(half.status().message()),
                       "both or none return_state"));
}

}  // namespace
}  // namespace ringlet
