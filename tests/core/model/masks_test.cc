// Masks: padded sequences give what they give without their padding.
// tests/architectures_test.py compares training with Keras's formulas.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "../../support/sequence_examples.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "core/layers/layer_kind.h"
#include "ringlet/checkpoint.h"
#include "ringlet/layers.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

using Node = Functional::Node;
constexpr int64_t kSteps = 5, kPadding = 3, kNumbers = 7, kExamples = 132;

// Sequences of numbers from 1 on, with zeros in front of and behind them; the
// targets are a number of each step and one of the example.
struct Numbers {
  Numbers(int64_t before, int64_t after)
      : steps(before + kSteps + after), before(before) {
    for (int64_t i = 0; i < kExamples; ++i) {
      for (int64_t t = 0; t < steps; ++t) {
        const int64_t s = t - before;
        const int64_t number = PaddedNumber(i, s, kSteps, kNumbers);
        x.push_back(static_cast<float>(number));
        y.push_back(number == 0 ? 99 : std::sin(static_cast<float>(i + 3 * s)));
      }
    }
  }
  Dataset All(int64_t examples = kExamples) const {
    return Dataset(MemorySource({DType::kFloat32, {steps}}, x.data(),
                                {DType::kFloat32, {steps, 1}}, y.data(),
                                examples));
  }

  int64_t steps, before;
  std::vector<float> x, y;
};

double LossOf(Model* model, const Numbers& numbers, int64_t batch) {
  const auto logs = model->Evaluate(numbers.All().Batch(batch));
  EXPECT_OK(logs.status());
  return *logs.value().Find("loss");
}

std::unique_ptr<Sequential> MaskedModel(const Numbers& numbers,
                                        const std::vector<Layer>& layers,
                                        int threads = 1) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({numbers.steps}));
  model->Add(Embedding(kNumbers, 4).MaskZero(true));
  for (const Layer& layer : layers) model->Add(layer);
  CompileWithSgd(model.get(), 0.1f, threads);
  return model;
}

std::vector<Layer> Recurrences() {
  return {SimpleRNN(3),
          LSTM(3),
          GRU(3),
          GRU(3).ResetAfter(false),
          Bidirectional(LSTM(3)),
          Bidirectional(GRU(2), kMergeSum)};
}

// A step has the same bits wherever it is.
TEST(MasksTest, Padding_OfARecurrentLayer_ChangesNoBit) {
  const Numbers bare(0, 0), padded(kPadding, kPadding - 1);
  for (const Layer& layer : Recurrences()) {
    for (const int64_t batch : {1, 32, 100}) {
      SCOPED_TRACE(std::string(ClassName(layer)) + " " + std::to_string(batch));
      const auto expected = MaskedModel(bare, {layer, Dense(2)})
                                ->Predict(bare.All().Batch(batch));
      for (const int threads : {1, 2}) {
        const auto actual = MaskedModel(padded, {layer, Dense(2)}, threads)
                                ->Predict(padded.All().Batch(batch));
        EXPECT_EQ(actual.value(), expected.value());
      }
    }
  }
}

TEST(MasksTest, Padding_OfAMean_DoesNotCount) {
  const Numbers bare(0, 0), padded(kPadding, 1);
  const std::vector<Layer> layers = {Dense(3, kTanh), Dropout(0.5f),
                                     GlobalAveragePooling1D()};
  const auto expected =
      MaskedModel(bare, layers)->Predict(bare.All().Batch(32)).value();
  const auto actual =
      MaskedModel(padded, layers)->Predict(padded.All().Batch(32)).value();
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 1e-6);
  }
}

// The targets of the padding are far away, and have no loss.
TEST(MasksTest, Loss_OfMaskedSteps_IsLeftOut) {
  const Numbers bare(0, 0), padded(kPadding, 2);
  const std::vector<Layer> layers = {GRU(4).ReturnSequences(true),
                                     TimeDistributed(Dense(1))};
  for (const int64_t batch : {1, 32, 100}) {
    SCOPED_TRACE(batch);
    const auto expected = MaskedModel(bare, layers),
               actual = MaskedModel(padded, layers);
    EXPECT_NEAR(LossOf(actual.get(), padded, batch),
                LossOf(expected.get(), bare, batch), 1e-5);
    for (int fit = 0; fit < 2; ++fit) {
      for (const auto& each : {std::make_pair(actual.get(), &padded),
                               std::make_pair(expected.get(), &bare)}) {
        ASSERT_OK(each.first->Fit(each.second->All().Batch(batch), Quiet(1))
                      .status());
      }
    }
    const std::vector<float> a = WeightsOf(actual.get()),
                             b = WeightsOf(expected.get());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4);
  }
}

TEST(MasksTest, Sequence_OfPaddingAlone_HasNoLossAndAMeanOfZeros) {
  Numbers empty(0, 0);
  std::fill(empty.x.begin(), empty.x.end(), 0.0f);
  const auto steps =
      MaskedModel(empty, {LSTM(3).ReturnSequences(true), Dense(1)});
  EXPECT_EQ(LossOf(steps.get(), empty, 32), 0);
  const std::vector<float> before = WeightsOf(steps.get());
  ASSERT_OK(steps->Fit(empty.All().Batch(32), Quiet(1)).status());
  EXPECT_EQ(WeightsOf(steps.get()), before);
  const auto mean = MaskedModel(empty, {GlobalAveragePooling1D()});
  for (const float y : mean->Predict(empty.All().Batch(32)).value()) {
    EXPECT_EQ(y, 0);
  }
}

// With states of another layer, steps before the first that counts are zeros.
TEST(MasksTest, Output_OfMaskedSteps_EqualsTheStepBeforeOrZeros) {
  const Numbers padded(2, 1);
  const auto predict = [&](const Layer& layer, bool states) {
    Functional model;
    const Node x = model.Add(Input({padded.steps}));
    const Node e = model.Add(Embedding(kNumbers, 4).MaskZero(true), {x});
    std::vector<Node> inputs = {e};
    if (states) {
      inputs.push_back(model.Add(GRU(3).Name("first"), {e}));
    }
    model.Add(layer, inputs);
    CompileWithSgd(&model, 0.1f);
    return model.Predict(padded.All(1).Batch(1)).value();
  };
  const auto row = [](const std::vector<float>& y, int64_t t) {
    return std::vector<float>(y.begin() + t * 3, y.begin() + t * 3 + 3);
  };
  const std::vector<float> zeros(3, 0.0f);
  for (const bool states : {false, true}) {
    Layer layer = GRU(3).ReturnSequences(true);
    const std::vector<float> y = predict(layer, states);
    EXPECT_EQ(row(y, 0), zeros);
    EXPECT_EQ(row(y, 1), zeros);
    EXPECT_NE(row(y, 6), zeros);
    EXPECT_EQ(row(y, 7), row(y, 6));
    const std::vector<float> z = predict(layer.ZeroOutputForMask(true), states);
    EXPECT_EQ(row(z, 6), row(y, 6));
    EXPECT_EQ(row(z, 7), zeros);
  }
}

TEST(MasksTest, Masking_OfFeatures_IsTheMaskOfTheirSteps) {
  const auto predict = [](std::vector<float> x, float value) {
    Sequential model({Input({3, 2}), Masking(value), LSTM(2)});
    CompileWithSgd(&model, 0.1f);
    const float y[2] = {};
    return model
        .Predict(Dataset(MemorySource({DType::kFloat32, {3, 2}}, x.data(),
                                      {DType::kFloat32, {2}}, y, 1))
                     .Batch(1))
        .value();
  };
  const std::vector<float> expected = predict({1, 0, 0, 0, 0, 2}, 0);
  EXPECT_EQ(predict({1, 0, 7, 7, 0, 2}, 7), expected);
  EXPECT_NE(predict({1, 0, 7, 7, 0, 2}, 0), expected);
  EXPECT_NE(predict({1, 0, 7, 6, 0, 2}, 7), expected);
}

// In Keras 3 a step counts if it counts in one of the inputs, and all steps of
// an input without a mask count.
TEST(MasksTest, Concatenate_WithAnInputWithoutMask_HasNoMask) {
  const Numbers padded(kPadding, 1);
  const auto predict = [&](bool mask, bool other_mask) {
    Functional model;
    const Node x = model.Add(Input({padded.steps}));
    const Node a = model.Add(Embedding(kNumbers, 4).MaskZero(mask), {x});
    const Node b = model.Add(Embedding(kNumbers, 4).MaskZero(other_mask), {x});
    model.Add(GRU(3), {model.Add(Concatenate(), {a, b})});
    CompileWithSgd(&model, 0.1f);
    return model.Predict(padded.All().Batch(32)).value();
  };
  const std::vector<float> expected =
      predict(/*mask=*/false, /*other_mask=*/false);
  EXPECT_EQ(predict(/*mask=*/true, /*other_mask=*/false), expected);
  EXPECT_EQ(predict(/*mask=*/false, /*other_mask=*/true), expected);
  EXPECT_NE(predict(/*mask=*/true, /*other_mask=*/true), expected);
}

TEST(MasksTest, Load_SavedModel_PredictsTheSame) {
  TempFolder folder;
  const Numbers padded(1, 2);
  const auto model = MaskedModel(
      padded, {Bidirectional(GRU(4).ReturnSequences(true)), LSTM(2), Dense(1)});
  ASSERT_OK(SaveModel(model.get(), folder / "m"));
  std::unique_ptr<Model> loaded;
  ASSERT_OK(LoadModel(folder / "m", &loaded));
  EXPECT_EQ(loaded->Predict(padded.All().Batch(32)).value(),
            model->Predict(padded.All().Batch(32)).value());
  EXPECT_EQ(ToJson(*loaded), ToJson(*model));
  EXPECT_FALSE(Contains(model->Summary(), "Mask"));
}

TEST(MasksTest, Add_LayerWithoutMasks_IsRefused) {
  const auto error = [](const auto& add) {
    Functional model;
    const Node x = model.Add(Input({6}));
    add(&model, x,
        model.Add(Embedding(9, 4).MaskZero(true).Name("words"), {x}));
    model.Compile(SGD(), MeanSquaredError());
    return std::string(model.status().message());
  };
  const auto refused = [&](const Layer& layer) {
    return error(
        [&](Functional* model, Node, Node e) { model->Add(layer, {e}); });
  };
  EXPECT_TRUE(Contains(refused(Softmax({1})),
                       "its input has the mask of layer 'words', and Softmax "
                       "has no such mask in ringlet; leave out mask_zero"));
  Functional two;
  const Node a = two.Add(Input({6})), b = two.Add(Input({6}));
  const auto words = [&](Node x) {
    return two.Add(Embedding(9, 4).MaskZero(true), {x});
  };
  // Both layers make the same mask of one input.
  const Node same = two.Add(Add(), {words(a), words(a)});
  EXPECT_OK(two.status());
  two.Add(Add(), {same, words(b)});
  EXPECT_TRUE(Contains(std::string(two.status().message()),
                       "its inputs have the masks of the layers 'embedding' "
                       "and 'embedding_2'"));
  // A Flatten loses the mask, and so does a Conv1D.
  EXPECT_EQ(refused(Conv1D(2, 2)), "");
  EXPECT_EQ(refused(Flatten()), "");
}

}  // namespace
}  // namespace ringlet
