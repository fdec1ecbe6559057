// Averages of the weights have the same bits for any number of threads, and
// after an interrupted and resumed training.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "../../support/copy_state.h"
#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "../../support/op_runner.h"
#include "../../support/thread_collective.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

constexpr int64_t kWidth = 6, kClasses = 3;

std::unique_ptr<Model> Make(const Optimizer& optimizer, int threads,
                            Collective* collective = nullptr) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({kWidth}));
  model->Add(Dense(40, kTanh).KernelRegularizer(L2(0.01f)));
  model->Add(BatchNormalization(0.5f));
  model->Add(Dropout(0.2f));
  model->Add(Dense(kClasses));
  CompileOptions options;
  options.threads = threads;
  options.collective = collective;
  model->Compile(optimizer, SparseCategoricalCrossentropy(kFromLogits), {},
                 options);
  EXPECT_OK(model->status());
  return model;
}

// Step `step` of rank `rank`, of 7 examples each.
void Train(Model* model, int step, int rank = 0, int world = 1) {
  const Floats x =
      RandomFloats(7 * kWidth, static_cast<uint64_t>(100 * step + rank));
  std::vector<int32_t> y;
  for (int i = 0; i < 7; ++i) y.push_back((i * 5 + step + rank) % kClasses);
  Batch batch;
  batch.count = 7;
  batch.global_count = 7 * world;
  batch.x = x.data();
  batch.y = y.data();
  ASSERT_OK(model->TrainStep(batch));
}

std::vector<Optimizer> Optimizers() {
  return {SGD(0.05f, 0.9f).UseEma(0.9f), Adam(0.01f).UseEma(0.5f, 3),
          AdamW(0.01f).UseEma(0.9f, 1).GlobalClipNorm(0.1f),
          RMSprop(0.01f).UseEma(0.9f, 2).GradientAccumulationSteps(3),
          Adam(0.01f).UseEma(0.9f).ClipNorm(0.1f).GradientAccumulationSteps(2)};
}

TEST(EmaTest, Training_AnyNumberOfThreads_HasTheSameBits) {
  for (const Optimizer& optimizer : Optimizers()) {
    std::vector<float> expected;
    for (const int threads : {1, 2, 3}) {
      const auto model = Make(optimizer, threads);
      for (int step = 0; step < 8; ++step) Train(model.get(), step);
      if (threads == 1) expected = WeightsOf(model.get());
      EXPECT_EQ(WeightsOf(model.get()), expected) << threads;
    }
  }
}

// Wherever it is cut: in the middle of an accumulation, before an overwrite.
TEST(EmaTest, Training_CutAtAnyStep_ContinuesWithTheSameBits) {
  for (const Optimizer& optimizer : Optimizers()) {
    const auto whole = Make(optimizer, 1);
    for (int step = 0; step < 9; ++step) Train(whole.get(), step);
    for (int cut = 0; cut < 9; ++cut) {
      const auto first = Make(optimizer, 1), second = Make(optimizer, 2);
      for (int step = 0; step < cut; ++step) Train(first.get(), step);
      CopyState(first->weights_state(), second->weights_state());
      CopyState(first->optimizer_state(), second->optimizer_state());
      for (int step = cut; step < 9; ++step) Train(second.get(), step);
      EXPECT_EQ(WeightsOf(second.get()), WeightsOf(whole.get())) << cut;
    }
  }
}

bool AveragesAreWeights(Model* model) {
  std::vector<StateSpan> spans;
  model->optimizer_state()->AppendState(&spans);
  bool same = true;
  for (const Variable& v : model->variables()) {
    for (const StateSpan& span : spans) {
      if (span.name != "optimizer/average/" + v.path) continue;
      same &= std::memcmp(span.data, model->weights() + v.offset,
                          span.bytes()) == 0;
    }
  }
  return same;
}

// The first step begins the averages.
TEST(EmaTest, Overwrite_EveryThirdStep_MakesTheWeightsTheAverages) {
  const auto model = Make(Adam(0.01f).UseEma(0.5f, 3), 1);
  for (int step = 1; step <= 7; ++step) {
    Train(model.get(), step);
    EXPECT_EQ(AveragesAreWeights(model.get()), step == 1 || step % 3 == 0)
        << step;
  }
}

TEST(EmaTest, Averages_TwoWorkers_AreTheSame) {
  for (const Optimizer& optimizer : Optimizers()) {
    std::vector<float> runs[2];
    for (std::vector<float>& run : runs) {
      RunRanks(2, [&](Collective* collective) {
        const auto model = Make(optimizer, 1, collective);
        for (int step = 0; step < 8; ++step) {
          Train(model.get(), step, collective->rank(), 2);
        }
        ASSERT_OK(model->CheckReplicas());
        if (collective->rank() == 1) run = WeightsOf(model.get());
      });
    }
    EXPECT_EQ(runs[0], runs[1]);
  }
}

}  // namespace
}  // namespace ringlet
