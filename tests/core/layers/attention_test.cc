// Attention, AdditiveAttention, MultiHeadAttention and PositionEmbedding,
// against loops over their definitions in double, by shapes drawn from a seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/draw.h"
#include "../../support/expect_ok.h"
#include "../../support/op_checks.h"
#include "core/layers/layer_kind.h"
#include "ringlet/layers.h"

namespace ringlet {
namespace {

struct AttentionCase {
  Layer layer;
  std::vector<Shape> inputs;  // query, value, perhaps key
  int64_t batch = 1;
};

std::string TextOf(const AttentionCase& c) {
  std::string text = ClassName(c.layer) + std::string(" of");
  for (const Shape& x : c.inputs) text += " " + x.ToString();
  return text + (c.layer.use_causal_mask ? " causal" : "") + " batch " +
         std::to_string(c.batch);
}

// Rows of numbers.
struct DoubleRows {
  int64_t rows, width;
  std::vector<double> at;
  double& operator()(int64_t r, int64_t c) {
    return at[static_cast<size_t>(r * width + c)];
  }
};

// y = x w + b for rows of an example; b may be empty.
DoubleRows RowsTimes(const float* x, int64_t rows, int64_t in, const Floats& w,
                     const Floats& b) {
  const int64_t out = static_cast<int64_t>(w.size()) / in;
  DoubleRows y = {rows, out,
                  std::vector<double>(static_cast<size_t>(rows * out))};
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < out; ++o) {
      double z = b.empty() ? 0 : b[static_cast<size_t>(o)];
      for (int64_t i = 0; i < in; ++i) {
        z += double{x[r * in + i]} * w[static_cast<size_t>(i * out + o)];
      }
      y(r, o) = z;
    }
  }
  return y;
}

// The contexts of the queries, over `heads` parts of each row. With `factors`,
// one for each number of a key, the scores are an AdditiveAttention's.
DoubleRows ContextOf(DoubleRows query, DoubleRows key, DoubleRows value,
                     int64_t heads, double scale, bool causal,
                     const std::vector<double>& factors = {}) {
  DoubleRows y = {
      query.rows, value.width,
      std::vector<double>(static_cast<size_t>(query.rows * value.width))};
  const int64_t k = query.width / heads, v = value.width / heads;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t t = 0; t < query.rows; ++t) {
      std::vector<double> weights;
      double sum = 0;
      for (int64_t s = 0; s < value.rows && (!causal || s <= t); ++s) {
        double score = 0;
        for (int64_t i = 0; i < k; ++i) {
          const double q = query(t, h * k + i), of_key = key(s, h * k + i);
          score += factors.empty() ? q * of_key
                                   : factors[static_cast<size_t>(i)] *
                                         std::tanh(q + of_key);
        }
        weights.push_back(std::exp(score * scale));
        sum += weights.back();
      }
      for (int64_t s = 0; s < static_cast<int64_t>(weights.size()); ++s) {
        for (int64_t i = 0; i < v; ++i) {
          y(t, h * v + i) +=
              weights[static_cast<size_t>(s)] / sum * value(s, h * v + i);
        }
      }
    }
  }
  return y;
}

Floats AsFloats(const DoubleRows& rows) {
  Floats floats;
  for (const double value : rows.at) {
    floats.push_back(static_cast<float>(value));
  }
  return floats;
}

DoubleRows AsRows(const float* x, const Shape& shape) {
  return {shape[0], shape[1], std::vector<double>(x, x + shape.elements())};
}

Floats Attended(const AttentionCase& c, const std::vector<Floats>& x,
                const std::vector<Floats>& w) {
  const Layer& l = c.layer;
  Floats y;
  for (int64_t e = 0; e < c.batch; ++e) {
    const auto input = [&](size_t i) {
      return x[i].data() + e * c.inputs[i].elements();
    };
    const size_t key = c.inputs.size() - 1;
    DoubleRows context;
    if (l.kind == Layer::Kind::kAdditiveAttention) {
      std::vector<double> factors(static_cast<size_t>(c.inputs[0][1]), 1.0);
      if (l.use_scale) factors.assign(w[0].begin(), w[0].end());
      context = ContextOf(
          AsRows(input(0), c.inputs[0]), AsRows(input(key), c.inputs[key]),
          AsRows(input(1), c.inputs[1]), 1, 1, l.use_causal_mask, factors);
    } else if (l.kind == Layer::Kind::kAttention) {
      context = ContextOf(AsRows(input(0), c.inputs[0]),
                          AsRows(input(key), c.inputs[key]),
                          AsRows(input(1), c.inputs[1]), 1,
                          l.use_scale ? double{w[0][0]} : 1, l.use_causal_mask);
    } else {
      const auto project = [&](size_t i, size_t part) {
        const size_t at = l.use_bias ? 2 * part : part;
        return RowsTimes(input(i), c.inputs[i][0], c.inputs[i][1], w[at],
                         l.use_bias ? w[at + 1] : Floats());
      };
      const Floats all = AsFloats(ContextOf(
          project(0, 0), project(key, 1), project(1, 2), l.num_heads,
          1 / std::sqrt(static_cast<double>(l.key_dim)), l.use_causal_mask));
      const int64_t width = static_cast<int64_t>(all.size()) / c.inputs[0][0];
      context = RowsTimes(all.data(), c.inputs[0][0], width,
                          w[l.use_bias ? 6 : 3], l.use_bias ? w[7] : Floats());
    }
    const Floats one = AsFloats(context);
    y.insert(y.end(), one.begin(), one.end());
  }
  return y;
}

AttentionCase DrawAttention(uint64_t seed) {
  Draw draw(seed, 6);
  const bool is_long = draw.From(0, 7) == 0;
  const auto steps = [&] {
    return is_long ? draw.From(60, 140) : draw.From(1, 9);
  };
  AttentionCase c;
  c.batch = draw.From(0, 5) > 0 ? draw.From(1, 4) : 32;
  const int64_t values = steps(), size = draw.From(1, 9);
  c.inputs = {{steps(), size}, {values, draw.From(1, 9)}};
  const int64_t kind = draw.From(0, 3);
  if (kind < 2) {
    c.layer = (kind == 0 ? Attention() : AdditiveAttention())
                  .UseScale(draw.From(0, 1) == 0);
    if (draw.From(0, 1) == 0) {
      c.inputs[1] = {values, size};
    } else {
      c.inputs.push_back({values, size});
    }
  } else {
    c.layer = MultiHeadAttention(draw.From(1, 4), draw.From(1, 8))
                  .UseBias(draw.From(0, 3) > 0);
    if (draw.From(0, 1) == 0) c.layer.ValueDim(draw.From(1, 8));
    if (draw.From(0, 1) == 0) c.inputs.push_back({values, draw.From(1, 9)});
  }
  c.layer.UseCausalMask(draw.From(0, 1) == 0);
  return c;
}

TEST(AttentionTest, Attention_RandomCases_EqualsTheDefinition) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const AttentionCase c = DrawAttention(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + TextOf(c));
    OpRunner runner(c.layer, c.inputs);
    ASSERT_OK(runner.status());
    const std::vector<Floats> x = RandomInputs(c.inputs, c.batch);
    const std::vector<Floats> w = runner.RandomWeights(2);
    ExpectClose(runner.Run(c.batch, x, w, {}, 2).y, Attended(c, x, w), 4e-5);
    runner.training = false;
    ExpectClose(runner.Run(c.batch, x, w, {}, 2).y, Attended(c, x, w), 4e-5);
    const bool large = c.batch * c.inputs[0][0] > 40;
    if (seed % 3 == 0) ExpectSameGradientsAlone(c.layer, c.inputs, c.batch);
    if (seed % 3 == 1) ExpectSameBits(c.layer, c.inputs, c.batch);
    if (seed % 3 == 2 && !large) {
      CheckGradients(c.layer, c.inputs, c.batch, 2);
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(AttentionTest, Gradients_OfSeveralBlocksOfQueries_MatchTheOutputs) {
  CheckGradients(MultiHeadAttention(2, 3).UseCausalMask(true),
                 {{70, 2}, {70, 2}}, 1, 2);
  CheckGradients(Attention().UseScale(true), {{130, 2}, {5, 2}}, 1, 2);
  CheckGradients(AdditiveAttention(), {{130, 2}, {5, 2}}, 1, 2);
}

// Both passes have the same masks, which a finite difference shows.
TEST(AttentionTest, Dropout_InTraining_HasItsGradientsAndBits) {
  const Layer layers[] = {
      MultiHeadAttention(2, 3).Dropout(0.4f),
      Attention().UseScale(true).UseCausalMask(true).Dropout(0.25f),
      AdditiveAttention().UseCausalMask(true).Dropout(0.25f)};
  for (const Layer& layer : layers) {
    CheckGradients(layer, {{5, 4}, {7, 4}}, 3, 2);
    ExpectSameBits(layer, {{5, 4}, {7, 4}}, 32);
    OpRunner runner(layer, {{5, 4}, {7, 4}});
    const std::vector<Floats> x = RandomInputs({{5, 4}, {7, 4}}, 2);
    const std::vector<Floats> w = runner.RandomWeights(2);
    const Floats first = runner.Run(2, x, w, {}).y;
    runner.counter = 6;
    EXPECT_NE(runner.Run(2, x, w, {}).y, first);
    runner.training = false;
    const Floats predicted = runner.Run(2, x, w, {}).y;
    runner.counter = 5;
    EXPECT_EQ(runner.Run(2, x, w, {}).y, predicted);
  }
}

// With equal scores a query's output is the mean of what is kept.
TEST(AttentionTest, Dropout_OfEqualWeights_KeepsTheirMean) {
  constexpr int64_t kSteps = 4000;
  OpRunner runner(Attention().Dropout(0.25f), {{8, 1}, {kSteps, 1}});
  const Floats ones(kSteps, 1.0f), zeros(8, 0.0f);
  const Floats y = runner.Run(1, {zeros, ones}, {}, {}).y;
  for (const float value : y) EXPECT_NEAR(value, 1, 0.05);
  EXPECT_NE(y[0], y[1]);
}

TEST(AttentionTest, CausalMask_LaterSteps_ChangeNoEarlierOutput) {
  for (const Layer& layer :
       {MultiHeadAttention(2, 3), Attention(), AdditiveAttention()}) {
    const Layer causal = Layer(layer).UseCausalMask(true);
    OpRunner runner(causal, {{70, 3}, {70, 3}});
    ASSERT_OK(runner.status());
    std::vector<Floats> x = RandomInputs({{70, 3}, {70, 3}}, 1);
    const std::vector<Floats> w = runner.RandomWeights(4);
    const Floats before = runner.Run(1, x, w, {}).y;
    x[1][3 * 66] += 1;  // step 66 of the value
    const Floats after = runner.Run(1, x, w, {}).y;
    for (size_t i = 0; i < 3 * 66; ++i) EXPECT_EQ(after[i], before[i]) << i;
    EXPECT_NE(after[3 * 66], before[3 * 66]);
  }
}

TEST(AttentionTest, Weights_EachLayer_HaveKerasShapes) {
  const auto shapes = [](const Layer& layer, const std::vector<Shape>& x) {
    OpRunner runner(layer, x);
    std::string text = runner.status().message();
    for (const WeightSpec& w : runner.op().weights()) {
      text += w.name + w.shape.ToString() + " ";
    }
    return text;
  };
  EXPECT_EQ(shapes(MultiHeadAttention(2, 3).ValueDim(4), {{9, 5}, {8, 6}}),
            "query_kernel(5, 2, 3) query_bias(2, 3) key_kernel(6, 2, 3) "
            "key_bias(2, 3) value_kernel(6, 2, 4) value_bias(2, 4) "
            "attention_output_kernel(2, 4, 5) attention_output_bias(5,) ");
  EXPECT_EQ(
      shapes(MultiHeadAttention(2, 3).UseBias(false), {{9, 5}, {8, 6}, {8, 7}}),
      "query_kernel(5, 2, 3) key_kernel(7, 2, 3) value_kernel(6, 2, 3) "
      "attention_output_kernel(2, 3, 5) ");
  EXPECT_EQ(shapes(Attention(), {{9, 5}, {8, 5}}), "");
  EXPECT_EQ(shapes(Attention().UseScale(true), {{9, 5}, {8, 5}}), "scale() ");
  EXPECT_EQ(shapes(AdditiveAttention(), {{9, 5}, {8, 5}}), "scale(5,) ");
  EXPECT_EQ(shapes(AdditiveAttention().UseScale(false), {{9, 5}, {8, 5}}), "");
  EXPECT_EQ(shapes(PositionEmbedding(9), {{8, 5}}), "embeddings(9, 5) ");
}

TEST(AttentionTest, Layer_DoesNotFit_ErrorNamesIt) {
  const auto expect = [](const Layer& layer, const std::vector<Shape>& x,
                         const std::string& part) {
    EXPECT_TRUE(
        Contains(std::string(OpRunner(layer, x).status().message()), part));
  };
  const Layer heads = MultiHeadAttention(2, 3);
  expect(heads, {{4, 3}}, "two or three inputs");
  expect(heads, {{4, 3}, {3}}, "inputs (steps, size), not (3,)");
  expect(heads, {{4, 3}, {5, 3}, {4, 3}}, "as many keys as values");
  expect(Attention(), {{4, 3}, {5, 3}, {5, 3}, {5, 3}}, "not 4 inputs");
  expect(Attention(), {{4, 3}, {5, 2}}, "query and key of one size");
  expect(Attention().Dropout(1), {{4, 3}, {5, 3}},
         "dropout must be a number in [0, 1)");
  expect(MultiHeadAttention(0, 3), {{4, 3}, {5, 3}}, "at least 1");
  expect(MultiHeadAttention(1, 0), {{4, 3}, {5, 3}}, "at least 1");
  expect(MultiHeadAttention(1 << 20, 1 << 20), {{4, 3}, {5, 3}}, "too many");
  expect(Attention(), {{1 << 25, 1}, {1, 1}}, "2^24 steps");
  expect(PositionEmbedding(3), {{4, 3}}, "less than the steps");
  expect(PositionEmbedding(3), {{3}}, "(steps, features)");
  expect(Attention().ValueDim(3), {{4, 3}, {5, 3}},
         "Attention has no value_dim");
}

TEST(PositionEmbeddingTest, Forward_EachStep_EqualsItsRowForAnyInput) {
  OpRunner runner(PositionEmbedding(4), {{3, 2}});
  ASSERT_OK(runner.status());
  const std::vector<Floats> x = RandomInputs({{3, 2}}, 2);
  const Floats rows = {0, 1, 2, 3, 4, 5, 6, 7};
  const Floats dy = {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60};
  const OpRun run = runner.Run(2, x, {rows}, dy);
  EXPECT_EQ(run.y, (Floats{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(run.d_weights[0], (Floats{11, 22, 33, 44, 55, 66, 0, 0}));
  EXPECT_EQ(run.dx[0], Floats(12, 0.0f));
  for (const int64_t batch : {1, 32}) {
    ExpectSameBits(PositionEmbedding(9), {{7, 5}}, batch);
    ExpectSameBits(PositionEmbedding(3), {{2, 3, 4}}, batch);
  }
  CheckGradients(PositionEmbedding(3), {{2, 3, 4}}, 2, 2);
  ExpectSameGradientsAlone(PositionEmbedding(5), {{4, 3}}, 3);
}

}  // namespace
}  // namespace ringlet
