// Layers with return_state and initial states. A sequence in two calls, of
// which the second begins with the states of the first, is the whole sequence.

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

constexpr int64_t kSteps = 6, kFeatures = 3, kExamples = 232;

Dataset Sequences() {
  static const SequenceExamples examples(kSteps, kFeatures, kExamples);
  return examples.All();
}

int States(const Layer& layer) {
  return layer.kind == Layer::Kind::kLSTM ? 2 : 1;
}

// The layer over all steps, or in two calls of `first` and the other steps.
void AddLayers(const Layer& layer, int64_t first, Functional* model) {
  auto x = model->Add(Input({kSteps, kFeatures}));
  if (first == 0) {
    x = model->Add(layer, {x});
  } else {
    const auto begin = model->Add(Cropping1D(0, kSteps - first), {x});
    const auto end = model->Add(Cropping1D(first, 0), {x});
    Layer with = layer;
    const auto one = model->Add(with.ReturnState(true), {begin});
    std::vector<Functional::Node> inputs = {end};
    for (int k = 1; k <= States(layer); ++k) {
      inputs.push_back(model->Add(RecurrentOutput(k), {one}));
    }
    x = model->Add(RecurrentOutput(0), {model->CallAgain(one, inputs)});
  }
  if (layer.return_sequences) {
    x = model->Add(GlobalAveragePooling1D(), {x});
  }
  model->Add(Dense(2), {x});
}

std::vector<Layer> Recurrences() {
  return {SimpleRNN(4), LSTM(4), GRU(4), GRU(4).ResetAfter(false),
          LSTM(4).UseBias(false)};
}

TEST(RecurrentStatesTest, Fit_SequenceInTwoCalls_IsTheWholeSequence) {
  for (const Layer& layer : Recurrences()) {
    for (const int64_t batch : {1, 32, 100}) {
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(std::string(ClassName(layer)) + " " +
                     std::to_string(batch) + " " + std::to_string(threads));
        Functional whole, parts;
        AddLayers(layer, 0, &whole);
        AddLayers(layer, batch == 32 ? 1 : 4, &parts);
        CompileWithSgd(&whole, 0.1f, threads);
        CompileWithSgd(&parts, 0.1f, threads);
        ASSERT_EQ(WeightsOf(&whole), WeightsOf(&parts));
        EXPECT_EQ(whole.Predict(Sequences().Batch(batch)).value(),
                  parts.Predict(Sequences().Batch(batch)).value());
        for (Functional* model : {&whole, &parts}) {
          for (int fit = 0; fit < 2; ++fit) {
            ASSERT_OK(model->Fit(Sequences().Batch(batch), Quiet(1)).status());
          }
        }
        const std::vector<float> a = WeightsOf(&whole), b = WeightsOf(&parts);
        for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5);
      }
    }
  }
}

std::vector<float> TrainParts(const CompileOptions& options) {
  Functional model;
  AddLayers(LSTM(4).Dropout(0.2f).RecurrentDropout(0.1f), 4, &model);
  model.Compile(SGD(0.1f), MeanSquaredError(), {}, options);
  EXPECT_OK(model.status());
  EXPECT_OK(model.Fit(Sequences().Batch(24), Quiet(2)).status());
  return WeightsOf(&model);
}

TEST(RecurrentStatesTest, Fit_OnThreeWorkers_HasTheResultOfOne) {
  const std::vector<float> one = TrainParts(ExactSums(nullptr, 3));
  const auto ranks = ResultsOfRanks(3, [&](Collective* collective) {
    return TrainParts(ExactSums(collective, 3));
  });
  for (const std::vector<float>& rank : ranks) EXPECT_EQ(rank, one);
}

TEST(RecurrentStatesTest, Load_SavedModel_PredictsTheSame) {
  TempFolder folder;
  Functional model;
  AddLayers(GRU(4).ReturnSequences(true), 4, &model);
  CompileWithSgd(&model, 0.1f, 1);
  ASSERT_OK(SaveModel(&model, folder / "m"));
  std::unique_ptr<Model> loaded;
  ASSERT_OK(LoadModel(folder / "m", &loaded));
  EXPECT_EQ(loaded->Predict(Sequences().Batch(32)).value(),
            model.Predict(Sequences().Batch(32)).value());
}

TEST(RecurrentStatesTest, Add_PackedTensors_AreRefused) {
  const auto error = [](const auto& add) {
    Functional model;
    const auto x = model.Add(Input({kSteps, kFeatures}));
    const auto lstm = model.Add(LSTM(4).ReturnState(true).Name("encoder"), {x});
    add(&model, x, lstm);
    model.Compile(SGD(), MeanSquaredError());
    return std::string(model.status().message());
  };
  using Node = Functional::Node;
  const char* const several =
      "layer 'encoder' has return_state, so it gives several tensors: take one "
      "by RecurrentOutput";
  EXPECT_TRUE(Contains(error([](Functional*, Node, Node) {}), several));
  EXPECT_TRUE(Contains(error([](Functional* model, Node, Node lstm) {
                         model->Add(Flatten(), {lstm});
                       }),
                       several));
  EXPECT_TRUE(Contains(error([](Functional* model, Node x, Node) {
                         model->Add(RecurrentOutput(0), {x});
                       }),
                       "has one output: RecurrentOutput takes"));
  for (const Layer& layer : {LSTM(4).ReturnState(true), RecurrentOutput(1)}) {
    EXPECT_FALSE(error([&layer](Functional* model, Node x, Node) {
                   model->Add(TimeDistributed(layer), {x});
                 }).empty());
  }
  EXPECT_TRUE(Contains(error([](Functional* model, Node, Node lstm) {
                         model->Add(RecurrentOutput(3), {lstm});
                       }),
                       "the layer has tensors 0 to 2, and not 3"));
  EXPECT_TRUE(Contains(error([](Functional* model, Node, Node lstm) {
                         model->Add(RecurrentOutput(1), {lstm});
                         model->Add(RecurrentOutput(0), {lstm});
                       }),
                       "in the order of the tensors"));
  EXPECT_TRUE(Contains(error([](Functional* model, Node x, Node lstm) {
                         model->CallAgain(
                             model->Add(RecurrentOutput(1), {lstm}), {x});
                       }),
                       "layer 'encoder_output_1': a RecurrentOutput is not "
                       "called again"));
  EXPECT_TRUE(Contains(error([](Functional* model, Node, Node lstm) {
                         model->Add(RecurrentOutput(1).Name("h"), {lstm});
                       }),
                       "has the name 'encoder_output_1'"));
  EXPECT_TRUE(Contains(error([](Functional* model, Node, Node lstm) {
                         model->Add(Dense(2).Name("encoder_output_1"),
                                    {model->Add(RecurrentOutput(1), {lstm})});
                       }),
                       "two layers have this name"));
  EXPECT_TRUE(Contains(error([](Functional* model, Node x, Node lstm) {
                         const Node h = model->Add(RecurrentOutput(1), {lstm});
                         model->Add(LSTM(4), {x, h});
                       }),
                       "has 2 initial states, not 1"));
  EXPECT_TRUE(Contains(error([](Functional* model, Node x, Node lstm) {
                         const Node h = model->Add(RecurrentOutput(1), {lstm});
                         model->Add(GRU(3), {x, h});
                       }),
                       "an initial state must be (3,), not (4,)"));
}

}  // namespace
}  // namespace ringlet
