// An Embedding of which only the rows of a batch are updated.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "ringlet/compute.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

constexpr int64_t kRows = 200, kSteps = 5, kExamples = 64;

struct Examples {
  std::vector<float> x;
  std::vector<int32_t> y;
};

const Examples& Data() {
  static const auto* const data = [] {
    auto* made = new Examples;
    const Philox random(3, 0);
    for (int64_t i = 0; i < kExamples * kSteps; ++i) {
      const auto bits = random.At(static_cast<uint64_t>(i));
      made->x.push_back(static_cast<float>(bits[0] % kRows));
      if (i % kSteps == 0) {
        made->y.push_back(static_cast<int32_t>(bits[1] % 3));
      }
    }
    return made;
  }();
  return *data;
}

std::unique_ptr<Sequential> Make(const Optimizer& optimizer,
                                 const Layer& embedding, int threads) {
  auto model = std::make_unique<Sequential>(std::initializer_list<Layer>{
      Input({kSteps}), embedding, Flatten(), Dense(3)});
  CompileOptions options;
  options.threads = threads;
  model->Compile(optimizer, SparseCategoricalCrossentropy(kFromLogits), {},
                 options);
  EXPECT_OK(model->status());
  return model;
}

// Calls update(batch) for batches of 13 and a short last one.
template <typename Update>
void ForEachBatch(const Update& update) {
  for (int64_t at = 0; at < kExamples; at += 13) {
    Batch batch;
    batch.count = batch.global_count = std::min<int64_t>(13, kExamples - at);
    batch.x = Data().x.data() + at * kSteps;
    batch.y = Data().y.data() + at;
    update(batch);
  }
}

// TrainStep may update rows while the backward pass runs. Separate calls keep
// the whole gradient.
TEST(EmbeddingRowsTest, TrainStep_EachOptimizer_UpdatesAsSeparateCallsDo) {
  const Layer plain = Embedding(kRows, 6);
  const struct {
    Optimizer optimizer;
    Layer embedding;
  } cases[] = {
      {SGD(0.5f), plain},
      {SGD(0.5f), Embedding(kRows, 6).EmbeddingsConstraint(MaxNorm(0.1f))},
      {SGD(0.5f), Embedding(kRows, 6).EmbeddingsRegularizer(L2(0.01f))},
      {SGD(0.5f), Embedding(kRows, 6).LoraRank(2)},
      {SGD(0.5f, 0.9f), plain},
      {SGD(0.5f).GradientAccumulationSteps(2), plain},
      {Adam(0.01f), plain},
      {AdamW(0.01f), plain}};
  int number = 0;
  for (const auto& c : cases) {
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << number << " threads " << threads);
      const auto whole = Make(c.optimizer, c.embedding, 1),
                 rows = Make(c.optimizer, c.embedding, threads);
      for (int epoch = 0; epoch < 2; ++epoch) {
        ForEachBatch([&](const Batch& batch) {
          ASSERT_OK(whole->Forward(batch.x, batch.count, /*training=*/true));
          double loss = 0;
          ASSERT_OK(whole->ComputeLoss(batch, &loss));
          ASSERT_OK(whole->Backward());
          ASSERT_OK(whole->ApplyGradients());
          ASSERT_OK(rows->TrainStep(batch));
        });
      }
      EXPECT_EQ(WeightsOf(rows.get()), WeightsOf(whole.get()));
    }
    ++number;
  }
}

TEST(EmbeddingRowsTest, TrainStep_NumberOutOfRange_FailsBeforeAnUpdate) {
  const auto model = Make(SGD(0.5f), Embedding(kRows, 6), 2);
  const std::vector<float> before = WeightsOf(model.get());
  std::vector<float> x(kSteps, 1);
  x.back() = kRows;
  Batch batch;
  batch.count = batch.global_count = 1;
  batch.x = x.data();
  batch.y = Data().y.data();
  EXPECT_FALSE(model->TrainStep(batch).ok());
  EXPECT_EQ(WeightsOf(model.get()), before);
}

}  // namespace
}  // namespace ringlet
