// Masks of attention, of BatchNormalization and at the steps of a
// TimeDistributed: padded texts give what they give without their padding.
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
constexpr int64_t kSteps = 5, kNumbers = 7, kExamples = 132;

// Texts of kSteps numbers from 1 on, with zeros in front of and behind them.
struct Texts {
  Texts(int64_t before, int64_t after)
      : steps(before + kSteps + after), before(before) {
    for (int64_t i = 0; i < kExamples; ++i) {
      for (int64_t t = 0; t < steps; ++t) {
        x.push_back(
            static_cast<float>(PaddedNumber(i, t - before, kSteps, kNumbers)));
      }
      y.push_back(std::sin(static_cast<float>(i)));
    }
  }
  // Returns the data as examples, or as sentences of examples.
  Dataset All(int64_t sentences = 1) const {
    const Shape shape = sentences == 1 ? Shape{steps} : Shape{sentences, steps};
    return Dataset(MemorySource({DType::kFloat32, shape}, x.data(),
                                {DType::kFloat32, {1}}, y.data(),
                                kExamples / sentences));
  }

  int64_t steps, before;
  std::vector<float> x, y;
};

Node AddWords(int64_t steps, Functional* model, bool mask_zero = true) {
  return model->Add(Embedding(kNumbers, 6).MaskZero(mask_zero).Name("words"),
                    {model->Add(Input({steps}))});
}

// The block of a transformer, and the mean of the steps that count.
void AddClassifier(const Layer& attention, int64_t steps, Functional* model) {
  const Node words = AddWords(steps, model);
  Node x = model->Add(attention, {words, words});
  x = model->Add(LayerNormalization(), {model->Add(Add(), {words, x})});
  x = model->Add(Add(), {x, model->Add(Dense(6, kRelu), {x})});
  model->Add(Dense(1), {model->Add(GlobalAveragePooling1D(), {x})});
}

std::vector<Layer> Attentions() {
  const Layer heads = MultiHeadAttention(2, 3);
  return {heads, Layer(heads).UseCausalMask(true), Attention(),
          Attention().UseScale(true).UseCausalMask(true)};
}

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b,
                double limit) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], limit) << i;
}

TEST(AttentionMasksTest, Padding_OfATransformer_DoesNotCount) {
  const Texts bare(0, 0), padded(3, 2);
  for (const Layer& layer : Attentions()) {
    for (const int64_t batch : {1, 32, 100}) {
      SCOPED_TRACE(std::string(ClassName(layer)) + " " + std::to_string(batch));
      Functional a, b, c;
      AddClassifier(layer, bare.steps, &a);
      for (Functional* model : {&b, &c}) {
        AddClassifier(layer, padded.steps, model);
      }
      CompileWithSgd(&a, 0.01f);
      CompileWithSgd(&b, 0.01f);
      CompileWithSgd(&c, 0.01f, 2);
      ExpectNear(b.Predict(padded.All().Batch(batch)).value(),
                 a.Predict(bare.All().Batch(batch)).value(), 2e-6);
      for (int fit = 0; fit < 2; ++fit) {
        ASSERT_OK(a.Fit(bare.All().Batch(batch), Quiet(1)).status());
        ASSERT_OK(b.Fit(padded.All().Batch(batch), Quiet(1)).status());
        ASSERT_OK(c.Fit(padded.All().Batch(batch), Quiet(1)).status());
      }
      EXPECT_EQ(WeightsOf(&b), WeightsOf(&c));
      ExpectNear(WeightsOf(&b), WeightsOf(&a), 1e-4);
    }
  }
}

// As in Keras a query that sees no step weighs all alike, and an Attention
// writes zeros at a masked query.
TEST(AttentionMasksTest, Queries_ThatSeeNothing_HaveTheMeanOrZeros) {
  const Texts padded(1, 1);
  const auto predict = [&](const Layer& layer) {
    Functional model;
    const Node words = AddWords(padded.steps, &model);
    model.Add(layer, {words, words});
    CompileWithSgd(&model, 0.01f);
    return model.Predict(padded.All().Batch(32)).value();
  };
  for (const bool causal : {false, true}) {
    const auto y = predict(MultiHeadAttention(2, 3).UseCausalMask(causal));
    const auto z = predict(Attention().UseCausalMask(causal));
    const size_t width = 6, last = width * (kSteps + 1);
    for (size_t c = 0; c < width; ++c) {
      EXPECT_EQ(y[c], y[last + c]);  // both means are of all steps
      EXPECT_EQ(z[c], 0);
      EXPECT_EQ(z[last + c], 0);
    }
    EXPECT_NE(z[width], 0);
  }
}

// The queries are three steps, and count all.
TEST(AttentionMasksTest, Mask_OfTheValueAlone_LeavesItsStepsOut) {
  const auto predict = [](const Texts& texts, const Layer& layer) {
    Functional model;
    const Node x = model.Add(Input({texts.steps})),
               value = model.Add(Embedding(kNumbers, 4).MaskZero(true), {x}),
               other = model.Add(Embedding(kNumbers, 4), {x}),
               query = model.Add(
                   Cropping1D(texts.before, texts.steps - texts.before - 3),
                   {other});
    const Node y = model.Add(layer, {query, value});
    model.Add(Dense(1), {model.Add(Flatten(), {y})});
    CompileWithSgd(&model, 0.01f);
    return model.Predict(texts.All().Batch(32)).value();
  };
  for (const Layer& layer : {MultiHeadAttention(1, 3), Layer(Attention())}) {
    ExpectNear(predict(Texts(2, 1), layer), predict(Texts(0, 0), layer), 2e-6);
  }
}

TEST(AttentionMasksTest, Statistics_OfABatchNormalization_AreOfTheOtherSteps) {
  const Texts bare(0, 0), padded(2, 1);
  for (const bool synchronized : {false, true}) {
    for (const int64_t batch : {1, 32, 100}) {
      SCOPED_TRACE(batch);
      const auto train = [&](const Texts& texts, int threads) {
        auto model = std::make_unique<Functional>();
        Node x = AddWords(texts.steps, model.get());
        x = model->Add(Dense(5, kTanh), {x});
        x = model->Add(BatchNormalization(0.8f).Synchronized(synchronized),
                       {x});
        x = model->Add(GlobalAveragePooling1D(), {model->Add(Dense(3), {x})});
        model->Add(Dense(1), {x});
        CompileWithSgd(model.get(), 0.01f, threads);
        for (int fit = 0; fit < 2; ++fit) {
          EXPECT_OK(model->Fit(texts.All().Batch(batch), Quiet(1)).status());
        }
        return WeightsOf(model.get());
      };
      const std::vector<float> weights = train(padded, 1);
      EXPECT_EQ(train(padded, 2), weights);
      ExpectNear(weights, train(bare, 1), 1e-4);
    }
  }
}

// The first row of the batch is masked, and much larger than the others.
TEST(AttentionMasksTest, Statistics_PaddingIsLarge_KeepTheirDigits) {
  const auto train = [](const Texts& texts) {
    auto model = std::make_unique<Functional>();
    const Node x = model->Add(BatchNormalization(0.0f),
                              {AddWords(texts.steps, model.get())});
    model->Add(Dense(1), {model->Add(GlobalAveragePooling1D(), {x})});
    CompileWithSgd(model.get(), 0.01f, 1);
    std::fill_n(model->weights(), 6, 1e5f);  // the Embedding's row of padding
    EXPECT_OK(model->Fit(texts.All().Batch(32), Quiet(1)).status());
    return WeightsOf(model.get());
  };
  ExpectNear(train(Texts(2, 1)), train(Texts(0, 0)), 1e-5);
}

TEST(AttentionMasksTest, BatchNormalization_OfPaddingAlone_IsFinite) {
  Texts empty(0, 0);
  std::fill(empty.x.begin(), empty.x.end(), 0.0f);
  Functional model;
  const Node x = model.Add(BatchNormalization(), {AddWords(kSteps, &model)});
  model.Add(Dense(1), {model.Add(GlobalMaxPooling1D(), {x})});
  model.Compile(SGD(1e-4f), MeanSquaredError());
  ASSERT_OK(model.Fit(empty.All().Batch(32), Quiet(1)).status());
  for (const float w : WeightsOf(&model)) EXPECT_TRUE(std::isfinite(w));
}

// A model of a sentence, with masks of its own, at each sentence of a text.
TEST(AttentionMasksTest, TimeDistributed_OfAModelWithMasks_IsTheModelEach) {
  const Texts bare(0, 0), padded(2, 1);
  const std::vector<std::vector<Layer>> readers = {
      {LSTM(3)},
      {Bidirectional(GRU(3))},
      {Bidirectional(GRU(3).ReturnSequences(true)), GlobalAveragePooling1D()},
      {Dense(4, kTanh), GlobalAveragePooling1D(), Dense(3)}};
  for (size_t i = 0; i < readers.size(); ++i) {
    SCOPED_TRACE(i);
    const auto add = [&](const Texts& texts, int64_t sentences) {
      Sequential each(
          {Input({texts.steps}), Embedding(kNumbers, 4).MaskZero(true)});
      for (const Layer& layer : readers[i]) each.Add(layer);
      auto model = std::make_unique<Sequential>();
      model->Add(Input({sentences, texts.steps}));
      model->Add(TimeDistributed(each.AsLayer()));
      model->Add(GRU(2));
      model->Add(Dense(1));
      CompileWithSgd(model.get(), 0.01f);
      return model;
    };
    const auto a = add(bare, 3), b = add(padded, 3);
    EXPECT_FALSE(Contains(b->Summary(), "Mask"));
    EXPECT_EQ(b->Predict(padded.All(3).Batch(32)).value(),
              a->Predict(bare.All(3).Batch(32)).value());
    for (int fit = 0; fit < 2; ++fit) {
      ASSERT_OK(a->Fit(bare.All(3).Batch(8), Quiet(1)).status());
      ASSERT_OK(b->Fit(padded.All(3).Batch(8), Quiet(1)).status());
    }
    ExpectNear(WeightsOf(b.get()), WeightsOf(a.get()), 1e-4);
    TempFolder folder;
    ASSERT_OK(SaveModel(b.get(), folder / "m"));
    std::unique_ptr<Model> loaded;
    ASSERT_OK(LoadModel(folder / "m", &loaded));
    EXPECT_EQ(loaded->Predict(padded.All(3).Batch(32)).value(),
              b->Predict(padded.All(3).Batch(32)).value());
  }
}

// The mask of an Embedding of sentences, as layers at each of them.
TEST(AttentionMasksTest, TimeDistributed_OfALayer_TakesTheMaskOfItsSteps) {
  const Texts bare(0, 0), padded(2, 1);
  const auto predict = [](const Texts& texts, const Layer& layer) {
    Sequential model({Input({3, texts.steps}),
                      Embedding(kNumbers, 4).MaskZero(true),
                      TimeDistributed(layer), GRU(2)});
    CompileWithSgd(&model, 0.01f);
    return model.Predict(texts.All(3).Batch(32)).value();
  };
  for (const Layer& layer : {LSTM(3), GRU(3), Bidirectional(LSTM(3))}) {
    EXPECT_EQ(predict(padded, layer), predict(bare, layer));
  }
  ExpectNear(predict(padded, GlobalAveragePooling1D()),
             predict(bare, GlobalAveragePooling1D()), 1e-6);
}

TEST(AttentionMasksTest, TimeDistributed_MaskOfItsOwnSteps_IsRefused) {
  const auto error = [](const Layer& layer) {
    Sequential model({Input({3, 4}), Masking().Name("pads"), Dense(6),
                      Reshape({3, 3, 2}), TimeDistributed(layer)});
    return std::string(model.status().message());
  };
  EXPECT_EQ(error(LSTM(3)), "");  // a Reshape loses the mask
  Sequential steps({Input({3, 4}), Masking().Name("pads"),
                    TimeDistributed(Reshape({2, 2})),
                    TimeDistributed(LSTM(3))});
  EXPECT_TRUE(Contains(std::string(steps.status().message()),
                       "its input has the mask of layer 'pads', and "
                       "TimeDistributed has no such mask in ringlet"));
}

TEST(AttentionMasksTest, Load_SavedTransformer_PredictsTheSame) {
  TempFolder folder;
  const Texts padded(1, 2);
  for (const Layer& layer : Attentions()) {
    Functional model;
    AddClassifier(layer, padded.steps, &model);
    CompileWithSgd(&model, 0.01f);
    ASSERT_OK(model.Fit(padded.All().Batch(32), Quiet(1)).status());
    ASSERT_OK(SaveModel(&model, folder / "m"));
    std::unique_ptr<Model> loaded;
    ASSERT_OK(LoadModel(folder / "m", &loaded));
    EXPECT_EQ(loaded->Predict(padded.All().Batch(32)).value(),
              model.Predict(padded.All().Batch(32)).value());
    EXPECT_EQ(ToJson(*loaded), ToJson(model));
  }
}

}  // namespace
}  // namespace ringlet
