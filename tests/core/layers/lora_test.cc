// LoRA of Dense and Embedding against its definition, in doubles.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/op_checks.h"
#include "core/layers/basic/lora.h"
#include "ringlet/layers.h"

namespace ringlet {
namespace {

using Doubles = std::vector<double>;

// m(rows, cols) = a(rows, k) b(k, cols)
Doubles Times(const Doubles& a, const Doubles& b, size_t rows, size_t k,
              size_t cols) {
  Doubles m(rows * cols, 0.0);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t t = 0; t < k; ++t) {
      for (size_t j = 0; j < cols; ++j) {
        m[i * cols + j] += a[i * k + t] * b[t * cols + j];
      }
    }
  }
  return m;
}

Doubles Transposed(const Doubles& a, size_t rows, size_t cols) {
  Doubles m(a.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < cols; ++j) m[j * rows + i] = a[i * cols + j];
  }
  return m;
}

Doubles Wide(const Floats& values) {
  return Doubles(values.begin(), values.end());
}

Doubles Scaled(double by, Doubles values) {
  for (double& value : values) value *= by;
  return values;
}

// W + scale A B.
Doubles Merged(const Doubles& w, const Doubles& a, const Doubles& b,
               double scale, size_t rows, size_t rank, size_t cols) {
  Doubles m = Times(a, b, rows, rank, cols);
  for (size_t i = 0; i < m.size(); ++i) m[i] = w[i] + scale * m[i];
  return m;
}

void ExpectNear(const Floats& actual, const Doubles& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i],
                1e-5 * std::max(1.0, std::fabs(expected[i])))
        << "at " << i;
  }
}

// A Dense with LoRA, and the results of a run of three examples of two rows.
class DenseLoraTest : public testing::Test {
 protected:
  static constexpr size_t kIn = 7, kOut = 5, kRank = 3, kRows = 6;
  static constexpr int64_t kAlpha = 12;
  static constexpr double kScale = static_cast<double>(kAlpha) / kRank;

  static Layer MakeLayer() {
    return Dense(kOut).LoraRank(kRank).LoraAlpha(kAlpha);
  }
  void SetUp() override {
    ASSERT_OK(runner_.status());
    w_ = runner_.RandomWeights(7);
    run_ = runner_.Run(3, {x_}, w_, dy_, /*threads=*/2);
    a_ = Wide(w_[2]);
    b_ = Wide(w_[3]);
    merged_ = Merged(Wide(w_[0]), a_, b_, kScale, kIn, kRank, kOut);
  }

  OpRunner runner_{MakeLayer(), {{2, kIn}}};
  const Floats x_ = RandomFloats(kRows * kIn, 1),
               dy_ = RandomFloats(kRows * kOut, 2);
  std::vector<Floats> w_;  // kernel, bias, A, B
  OpRun run_;
  Doubles a_, b_, merged_;
};

TEST_F(DenseLoraTest, Weights_OfDense_AreTheFrozenKernelBiasAAndB) {
  const std::vector<WeightSpec>& specs = runner_.op().weights();
  ASSERT_EQ(specs.size(), 4u);
  const char* const names[] = {"kernel", "bias", "lora_kernel_a",
                               "lora_kernel_b"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(specs[i].name, names[i]);
    EXPECT_EQ(specs[i].trainable, i > 0);
  }
}

TEST_F(DenseLoraTest, Forward_AnyMatrices_EqualsTheMergedKernel) {
  Doubles y = Times(Wide(x_), merged_, kRows, kIn, kOut);
  for (size_t i = 0; i < y.size(); ++i) y[i] += double{w_[1][i % kOut]};
  ExpectNear(run_.y, y);
}

TEST_F(DenseLoraTest, Backward_AnyMatrices_EqualsTheMergedKernel) {
  ExpectNear(run_.dx[0], Times(Wide(dy_), Transposed(merged_, kIn, kOut), kRows,
                               kOut, kIn));
  Doubles d_bias(kOut, 0.0);
  for (size_t i = 0; i < dy_.size(); ++i) d_bias[i % kOut] += double{dy_[i]};
  ExpectNear(run_.d_weights[1], d_bias);
  const Doubles dw =
      Times(Transposed(Wide(x_), kRows, kIn), Wide(dy_), kIn, kRows, kOut);
  ExpectNear(
      run_.d_weights[2],
      Scaled(kScale, Times(dw, Transposed(b_, kRank, kOut), kIn, kOut, kRank)));
  ExpectNear(run_.d_weights[3], Scaled(kScale, Times(Transposed(a_, kIn, kRank),
                                                     dw, kRank, kIn, kOut)));
}

TEST_F(DenseLoraTest, MergeLora_AnyMatrices_IsTheMergedKernel) {
  ExpectNear(MergeLora(MakeLayer(), {kIn, kOut}, w_[0].data(), w_[2].data(),
                       w_[3].data()),
             merged_);
}

TEST(LoraTest, Embedding_WithMatrices_HasRowsAndGradientsOfTheMergedMatrix) {
  constexpr size_t kIn = 5, kOut = 4, kRank = 2, kNumbers = 6;
  OpRunner runner(Embedding(kIn, kOut).LoraRank(kRank).LoraAlpha(1), {{3}});
  ASSERT_OK(runner.status());
  const std::vector<WeightSpec>& specs = runner.op().weights();
  ASSERT_EQ(specs.size(), 3u);
  EXPECT_FALSE(specs[0].trainable);
  EXPECT_EQ(specs[1].name, "lora_embeddings_a");
  const std::vector<Floats> w = runner.RandomWeights(7);
  const Floats x = {4, 0, 4, 2, 4, 1}, dy = RandomFloats(kNumbers * kOut, 2);
  const OpRun run = runner.Run(2, {x}, w, dy, 3);
  const Doubles a = Wide(w[1]), b = Wide(w[2]);
  const Doubles merged = Merged(Wide(w[0]), a, b, 0.5, kIn, kRank, kOut);
  Doubles y, dw(kIn * kOut, 0.0);
  for (size_t i = 0; i < kNumbers; ++i) {
    for (size_t c = 0; c < kOut; ++c) {
      const size_t at = static_cast<size_t>(x[i]) * kOut + c;
      y.push_back(merged[at]);
      dw[at] += double{dy[i * kOut + c]};
    }
  }
  ExpectNear(run.y, y);
  ExpectNear(run.d_weights[1], Scaled(0.5, Times(dw, Transposed(b, kRank, kOut),
                                                 kIn, kOut, kRank)));
  ExpectNear(run.d_weights[2], Scaled(0.5, Times(Transposed(a, kIn, kRank), dw,
                                                 kRank, kIn, kOut)));
}

TEST(LoraTest, Gradients_OfEachActivationAndShape_MatchTheOutput) {
  const struct {
    Layer layer;
    Shape x;
  } cases[] = {{Dense(3, kTanh).LoraRank(2).LoraAlpha(5), {6}},
               {Dense(4, kSoftmax).LoraRank(1).UseBias(false), {3, 5}},
               {Dense(9, kGelu).LoraRank(8).LoraAlpha(1), {2, 2, 3}},
               {TimeDistributed(Dense(3).LoraRank(2)), {4, 5}}};
  for (const auto& c : cases) {
    CheckGradients(c.layer, {c.x}, 3, 2);
    ExpectSameBits(c.layer, {c.x}, 5);
    ExpectSameGradientsAlone(c.layer, {c.x}, 4);
  }
  ExpectSameBits(Dense(130, kRelu).LoraRank(4), {{7, 150}}, 9);
}

TEST(LoraTest, Embedding_AnyThreads_HasOneResult) {
  OpRunner runner(Embedding(50, 33).LoraRank(4), {{20}});
  ASSERT_OK(runner.status());
  const std::vector<Floats> w = runner.RandomWeights(7);
  Floats x = RandomFloats(7 * 20, 1);
  for (float& number : x) number = std::floor((number + 1) * 25);
  const Floats dy = RandomFloats(7 * 20 * 33, 2);
  const OpRun one = runner.Run(7, {x}, w, dy);
  for (const int threads : {2, 3, 5}) {
    const OpRun run = runner.Run(7, {x}, w, dy, threads, 12);
    EXPECT_EQ(run.y, one.y);
    EXPECT_EQ(run.d_weights, one.d_weights);
  }
}

// As in Keras A begins with he_uniform and B with zeros, so the output does not
// change.
TEST(LoraTest, Initialize_MatricesOfLora_ChangesNoOutput) {
  OpRunner runner(Dense(5).LoraRank(2), {{7}}), plain(Dense(5), {{7}});
  std::vector<Floats> w = runner.RandomWeights(7);
  std::fill(w[3].begin(), w[3].end(), 0.0f);
  const Floats x = RandomFloats(4 * 7, 1);
  EXPECT_EQ(runner.Run(4, {x}, w, {}).y, plain.Run(4, {x}, {w[0], w[1]}, {}).y);
  runner.training = false;
  EXPECT_EQ(runner.Run(4, {x}, w, {}).y, plain.Run(4, {x}, {w[0], w[1]}, {}).y);
  const std::vector<WeightSpec>& specs = runner.op().weights();
  EXPECT_EQ(specs[2].initializer.kind, HeUniform().kind);
  EXPECT_EQ(specs[3].initializer.kind, Zeros().kind);
}

// As in Keras the matrices have the kernel's regularizer, and the kernel none.
TEST(LoraTest, Regularizer_OfTheKernel_CountsBothMatrices) {
  const OpRunner runner(Dense(5).LoraRank(2).KernelRegularizer(L2(0.5f)),
                        {{7}});
  ASSERT_OK(runner.status());
  const std::vector<WeightSpec>& specs = runner.op().weights();
  EXPECT_TRUE(specs[0].regularizer.empty());
  EXPECT_EQ(specs[2].regularizer.l2, 0.5f);
  EXPECT_EQ(specs[3].regularizer.l2, 0.5f);
}

TEST(LoraTest, Setting_DoesNotFit_ErrorNamesIt) {
  const auto expect = [](const Layer& layer, const std::string& part) {
    EXPECT_TRUE(Contains(OpRunner(layer, {{4, 4, 4}}).status(), part));
  };
  expect(Dense(3).LoraRank(2).KernelConstraint(NonNeg()),
         "kernel_constraint: does not go with lora_rank");
  expect(Embedding(3, 3).LoraRank(2).EmbeddingsConstraint(NonNeg()),
         "embeddings_constraint: does not go with lora_rank");
  expect(Dense(3).LoraRank(-1),
         "lora_rank must be a whole number from 1 to 2147483648, not -1");
  expect(Dense(3).LoraRank(4).LoraAlpha(-1),
         "lora_alpha must be a whole number from 1 to 2147483648, not -1");
  expect(Dense(3).LoraRank(4).LoraAlpha(int64_t{1} << 40), "lora_alpha must");
  expect(Dense(3).LoraAlpha(8), "a lora_alpha of 8 needs a lora_rank");
  expect(Embedding(3, 3).LoraAlpha(8), "a lora_alpha of 8 needs a lora_rank");
  expect(Conv2D(3, 1).LoraRank(1), "Conv2D has no lora_rank");
  expect(Dense(3).LoraRank(int64_t{1} << 40), "not 1099511627776");
  expect(Dense(3).LoraRank(int64_t{1} << 28), "is too large for 16 rows");
  expect(Embedding(3, 3).LoraRank(int64_t{1} << 26),
         "is too large for 64 rows");
}

}  // namespace
}  // namespace ringlet
