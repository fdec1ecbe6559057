// Masks in functional models as Keras 3 writes them, with the operations that
// computed them; TimeDistributed models.

#include <gtest/gtest.h>

#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_json.h"
#include "ringlet/checkpoint.h"
#include "ringlet/layers.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

std::string Tensor(const std::string& name) {
  return R"({"class_name": "__keras_tensor__", "config": {
      "shape": [null, 4], "dtype": "float32", "keras_history": [")" +
         name + "\", 0, 0]}}";
}

std::string Entry(const std::string& kind, const std::string& name,
                  const std::string& config, const std::string& args,
                  const std::string& kwargs = "") {
  return ", {\"class_name\": \"" + kind + "\", \"name\": \"" + name +
         "\", \"config\": {" + config + "}, \"inbound_nodes\": [{\"args\": [" +
         args + "], \"kwargs\": {" + kwargs + "}}]}";
}

std::string Mask(const std::string& name) {
  return "\"mask\": " + Tensor(name);
}

// A model with an input x of this shape and the output "last".
std::string Functional3(const std::string& shape, const std::string& entries) {
  return R"({"class_name": "Functional", "config": {"name": "functional",
      "layers": [{"class_name": "InputLayer", "name": "x", "config": {
          "name": "x", "batch_shape": )" +
         shape + R"(}, "inbound_nodes": []})" + entries +
         R"(], "input_layers": [["x", 0, 0]],
             "output_layers": [["last", 0, 0]]}})";
}

const char kTokens[] = "[null, 6]";
const char kEmbedding[] =
    R"("input_dim": 9, "output_dim": 4, "mask_zero": true)";

TEST(MasksJsonTest, Load_MaskOfAnEmbedding_IsFoundAgain) {
  const auto json = Functional3(
      kTokens,
      Entry("Embedding", "words", kEmbedding, Tensor("x")) +
          Entry("NotEqual", "not_equal", R"("name": "not_equal")",
                Tensor("x") + ", 0") +
          Entry("GRU", "gru", R"("units": 3, "return_sequences": true)",
                Tensor("words"), Mask("not_equal")) +
          Entry("Bidirectional", "both",
                R"("layer": {"class_name": "LSTM", "config": {"units": 2}})",
                Tensor("gru"), Mask("not_equal") + R"(, "training": false)") +
          Entry("Dense", "last", R"("units": 1)", Tensor("both")));
  const auto model = LoadJson(json);
  ASSERT_NE(model, nullptr);
  Functional built;
  const auto x = built.Add(Input({6}).Name("x"));
  auto y = built.Add(Embedding(9, 4).MaskZero(true).Name("words"), {x});
  y = built.Add(GRU(3).ReturnSequences(true).Name("gru"), {y});
  y = built.Add(Bidirectional(LSTM(2)).Name("both"), {y});
  built.Add(Dense(1).Name("last"), {y});
  EXPECT_EQ(ToJson(*model), ToJson(built));
  EXPECT_EQ(model->num_nodes(), built.num_nodes());
  EXPECT_FALSE(Contains(ToJson(*model), "NotEqual"));
  ExpectSameTwice(*model);
}

TEST(MasksJsonTest, Load_MaskOfAMaskingAndOfAnAdd_IsFoundAgain) {
  const auto with = [](const std::string& value, const std::string& axis) {
    return Functional3(
        "[null, 6, 4]",
        Entry("Masking", "masking", R"("mask_value": -1.0)", Tensor("x")) +
            Entry("NotEqual", "not_equal", "", Tensor("x") + ", " + value) +
            Entry("Any", "any", R"("axis": )" + axis + R"(, "keepdims": false)",
                  Tensor("not_equal")) +
            Entry("Dense", "dense", R"("units": 4)", Tensor("masking")) +
            Entry("Add", "add", "",
                  "[" + Tensor("masking") + ", " + Tensor("dense") + "]",
                  R"("mask": null)") +
            Entry("LogicalOr", "or", "", Tensor("any") + ", " + Tensor("any")) +
            Entry("GlobalAveragePooling1D", "last", "", Tensor("add"),
                  Mask("or")));
  };
  for (const char* axis : {"-1", "[-1]"}) {
    const auto model = LoadJson(with("-1.0", axis));
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->layer(1).mask_value, -1);
    ExpectSameTwice(*model);
  }
  EXPECT_TRUE(Contains(JsonError(with("0.0", "-1")),
                       "ringlet supports only the mask that"));
  EXPECT_TRUE(Contains(JsonError(with("-1.0", "1")), "axis"));
}

TEST(MasksJsonTest, Load_AnotherMask_IsRefused) {
  const auto json = [](const std::string& embedding,
                       const std::string& compared, const std::string& mask) {
    return Functional3(
        kTokens, Entry("Embedding", "words", embedding, Tensor("x")) +
                     Entry("Embedding", "more", kEmbedding, Tensor("x")) +
                     Entry("GlobalMaxPooling1D", "pool", "", Tensor("more")) +
                     Entry("NotEqual", "not_equal", "", compared) +
                     Entry("LSTM", "lstm", R"("units": 4)", Tensor("words"),
                           Mask(mask)) +
                     Entry("Add", "last", "",
                           "[" + Tensor("lstm") + ", " + Tensor("pool") + "]"));
  };
  const auto error = [&](const std::string& embedding,
                         const std::string& compared, const std::string& mask) {
    return JsonError(json(embedding, compared, mask));
  };
  const std::string zeros = Tensor("x") + ", 0";
  EXPECT_NE(LoadJson(json(kEmbedding, zeros, "not_equal")), nullptr);
  const char* const refused =
      "ringlet supports only the mask that an Embedding";
  EXPECT_TRUE(
      Contains(error(R"("input_dim": 9, "output_dim": 4)", zeros, "not_equal"),
               refused));
  for (const std::string& compared :
       {Tensor("x") + ", 1", Tensor("more") + ", 0", Tensor("x"),
        std::string("0, 0")}) {
    EXPECT_TRUE(Contains(error(kEmbedding, compared, "not_equal"), refused))
        << compared;
  }
  EXPECT_TRUE(Contains(error(kEmbedding, zeros, "x"), refused));
  EXPECT_TRUE(Contains(error(kEmbedding, zeros, "nothing"), refused));
  EXPECT_TRUE(
      Contains(error(kEmbedding, Tensor("nothing") + ", 0", "not_equal"),
               "there is no layer 'nothing'"));
}

// A MultiHeadAttention has a mask for each of its arguments, and an Attention a
// list of them.
TEST(MasksJsonTest, Load_MasksOfAttention_AreFoundAgain) {
  const auto json = [](const std::string& heads, const std::string& attention) {
    return Functional3(
        kTokens, Entry("Embedding", "words", kEmbedding, Tensor("x")) +
                     Entry("NotEqual", "not_equal", "", Tensor("x") + ", 0") +
                     Entry("MultiHeadAttention", "heads",
                           R"("num_heads": 2, "key_dim": 3)",
                           Tensor("words") + ", " + Tensor("words"), heads) +
                     Entry("Attention", "last", "",
                           "[" + Tensor("heads") + ", " + Tensor("words") + "]",
                           attention));
  };
  const std::string mask = Tensor("not_equal");
  const std::string heads = R"("query_mask": )" + mask + R"(, "value_mask": )" +
                            mask + R"(, "key_mask": null)",
                    both = R"("mask": [)" + mask + ", " + mask + "]";
  const auto model = LoadJson(json(heads, both));
  ASSERT_NE(model, nullptr);
  Functional built;
  const auto x = built.Add(Input({6}).Name("x")),
             words =
                 built.Add(Embedding(9, 4).MaskZero(true).Name("words"), {x});
  built.Add(Attention().Name("last"),
            {built.Add(MultiHeadAttention(2, 3).Name("heads"), {words, words}),
             words});
  EXPECT_EQ(ToJson(*model), ToJson(built));
  EXPECT_EQ(model->num_nodes(), built.num_nodes());
  ExpectSameTwice(*model);
  EXPECT_NE(LoadJson(json("", "")), nullptr);
  const std::string of_key = R"("key_mask": )" + mask;
  EXPECT_TRUE(Contains(JsonError(json(of_key, both)),
                       "ringlet supports only the mask that an Embedding"));
  const std::string other = R"("query_mask": )" + Tensor("x");
  EXPECT_TRUE(Contains(JsonError(json(other, both)),
                       "ringlet supports only the mask that an Embedding"));
  for (const std::string& wrong :
       {R"("mask": [)" + mask + ", 1]",
        R"("mask": [null, null, null, )" + mask + "]",
        std::string(R"("mask": [[1, 0]])")}) {
    EXPECT_TRUE(Contains(JsonError(json(heads, wrong)), "mask")) << wrong;
  }
  EXPECT_TRUE(Contains(JsonError(json(R"("attention_mask": )" + mask, both)),
                       "attention_mask"));
}

// The output of an operation that computes a mask cannot be the input of a
// layer.
TEST(MasksJsonTest, Load_MaskAsAnInput_IsRefused) {
  EXPECT_TRUE(Contains(
      JsonError(Functional3(
          kTokens,
          Entry("NotEqual", "not_equal", "", Tensor("x") + ", 0") +
              Entry("Dense", "last", R"("units": 2)", Tensor("not_equal")))),
      "not_equal"));
}

TEST(MasksJsonTest, Load_TimeDistributedModel_IsTheModelAtEachStep) {
  Sequential cnn({Input({6, 6, 1}), Conv2D(3, 3, kRelu).Name("conv"), Flatten(),
                  Dense(2).Trainable(false).Name("dense")});
  Functional inner;
  const auto x = inner.Add(Input({2}));
  const auto a = inner.Add(Dense(4).Name("a"), {x}),
             b = inner.Add(Dense(4).Name("b"), {x});
  inner.Add(Multiply(), {a, b});
  Sequential model(
      {Input({5, 6, 6, 1}), TimeDistributed(cnn.AsLayer()).Name("frames"),
       TimeDistributed(inner.AsLayer()).Name("gates"),
       TimeDistributed(Reshape({2, 2})),
       TimeDistributed(Bidirectional(GRU(3))).Name("both"), LSTM(4)});
  ASSERT_OK(model.status());
  EXPECT_EQ(model.output_shape(), (Shape{4}));
  EXPECT_EQ(model.variables()[0].path, "frames/conv/kernel");
  EXPECT_FALSE(model.variables()[2].trained());
  EXPECT_TRUE(Contains(model.Summary(), "frames (TimeDistributed)"));
  const std::string json = ToJson(model);
  EXPECT_TRUE(Contains(json, R"("class_name":"TimeDistributed")"));
  EXPECT_TRUE(Contains(json, R"("class_name":"Sequential")"));
  EXPECT_FALSE(Contains(json, R"("class_name":"Model")"));
  ExpectSameTwice(model);
  const auto loaded = LoadJson(json);
  ASSERT_NE(loaded, nullptr);
  EXPECT_EQ(loaded->variables().size(), model.variables().size());
  for (size_t i = 0; i < model.variables().size(); ++i) {
    EXPECT_EQ(loaded->variables()[i].path, model.variables()[i].path);
  }
}

TEST(MasksJsonTest, Add_TimeDistributedModelThatDoesNotFit_IsRefused) {
  Sequential dense({Input({3}), Dense(2)});
  const auto error = [&](const Shape& input, const Layer& layer) {
    Sequential model({Input(input), TimeDistributed(layer)});
    return std::string(model.status().message());
  };
  EXPECT_EQ(error({4, 3}, dense.AsLayer()), "");
  EXPECT_TRUE(Contains(error({4, 2}, dense.AsLayer()),
                       "the model takes steps of (3,), not of (2,)"));
  EXPECT_TRUE(Contains(error({3}, dense.AsLayer()), "with steps first"));
  Functional two;
  const auto a = two.Add(Input({3})), b = two.Add(Input({3}));
  two.Add(Add(), {a, b});
  EXPECT_TRUE(Contains(error({4, 3}, two.AsLayer()),
                       "one input and one output, and this one has 2 and 1"));
  Sequential normal({Input({3}), BatchNormalization()});
  EXPECT_TRUE(Contains(error({4, 3}, normal.AsLayer()),
                       "TimeDistributed cannot have a BatchNormalization"));
}

}  // namespace
}  // namespace ringlet
