// A frozen body runs a training step's batch in parts, with the bits of the
// whole batch.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "../../support/op_runner.h"
#include "../../support/thread_collective.h"
#include "core/graph/step_plan.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

constexpr int64_t kSide = 16, kFloats = kSide * kSide * 2, kClasses = 3;

// Random flips, a frozen body with a pool, a residual and two outputs to the
// head, and a trained head with Dropout.
std::unique_ptr<Functional> PhotosModel() {
  auto model = std::make_unique<Functional>();
  int x = model->Add(Input({kSide, kSide, 2}));
  const auto add = [&](Layer layer) {
    x = model->Add(layer.Trainable(false), {x});
  };
  add(RandomFlip());
  add(Conv2D(24, 3).Padding(kSame).Name("first"));
  add(BatchNormalization());
  add(ReLU(6));
  add(MaxPooling2D(2));
  const int from = x;
  add(DepthwiseConv2D(3).Padding(kSame));
  add(Conv2D(24, 1, kRelu));
  x = model->Add(Add(), {x, from});
  add(Conv2D(8, 3, kRelu).Strides(2));
  const int deep = x;
  const int head =
      model->Add(Concatenate(),
                 {model->Add(GlobalAveragePooling2D(), {from}),
                  model->Add(Flatten(), {model->Add(Conv2D(4, 3), {deep})})});
  model->Add(Dense(kClasses).Name("head"), {model->Add(Dropout(0.3f), {head})});
  return model;
}

struct Case {
  int64_t batch = 32;
  int threads = 1, workers = 1;
  bool exact = false, mixed = false;
};

struct Result {
  std::vector<double> losses;
  std::vector<float> weights;
  MemoryPlan plan;
};

// Trains with the body frozen, with a short last batch and weights of examples,
// then with its first layer trained too.
void Train(const Case& c, Collective* collective, Result* result) {
  const auto model = PhotosModel();
  CompileOptions options;
  options.threads = c.threads;
  options.collective = collective;
  if (c.exact) options.reduction = Reduction::kExact;
  if (c.mixed) options.dtype_policy = DTypePolicy::kMixedBFloat16;
  const auto n = static_cast<size_t>(c.batch);
  const Floats x = RandomFloats(n * kFloats, 1);
  const Floats y = RandomFloats(n * kClasses, 2);
  const Floats weights = RandomFloats(n, 3);
  for (const bool trains_first : {false, true}) {
    ASSERT_OK(model->SetTrainable("first", trains_first));
    model->Compile(Adam(0.01f), MeanSquaredError(), {}, options);
    ASSERT_OK(model->status());
    if (!trains_first) result->plan = model->PlanMemory(c.batch);
    for (const int64_t count : {c.batch, c.batch, (c.batch + 1) / 2}) {
      Batch batch;
      batch.x = x.data();
      batch.y = y.data();
      batch.weights = {weights.data()};
      batch.count = count;
      batch.global_count = count * c.workers;
      ASSERT_OK(model->TrainStep(batch));
      result->losses.push_back(model->step_metrics()[0].total);
      ASSERT_OK(model->TestStep(batch));
      result->losses.push_back(model->rank_metrics()[0].total);
    }
  }
  result->weights = WeightsOf(model.get());
}

Result Trained(const Case& c, int64_t part) {
  StepPlan::ForceForTests({true, 0, true, part});
  std::vector<Result> results(static_cast<size_t>(c.workers));
  if (c.workers == 1) {
    Train(c, nullptr, results.data());
  } else {
    RunRanks(c.workers, [&](Collective* collective) {
      Train(c, collective, &results[collective->rank()]);
    });
  }
  StepPlan::ForceForTests({});
  return results[0];
}

TEST(FrozenPartsTest, Step_InParts_HasTheBitsOfTheWholeBatch) {
  const Case cases[] = {{1},
                        {7, 2},
                        {32, 3},
                        {100},
                        {32, 1, 3},
                        {33, 1, 1, /*exact=*/true},
                        {32, 1, 3, /*exact=*/true},
                        {32, 2, 1, false, /*mixed=*/true}};
  for (const Case& c : cases) {
    const Result whole = Trained(c, /*part=*/-1);
    for (const int64_t part : {0, 1, 5}) {
      SCOPED_TRACE("batch " + std::to_string(c.batch) + ", part " +
                   std::to_string(part));
      const Result parts = Trained(c, part);
      EXPECT_EQ(parts.losses, whole.losses);
      EXPECT_EQ(parts.weights, whole.weights);
    }
  }
}

TEST(FrozenPartsTest, Plan_OfALargeBatch_HasAPartOfTheBody) {
  const uint64_t whole = Trained({100}, /*part=*/-1).plan.total();
  EXPECT_LT(Trained({100}, /*part=*/0).plan.total(), whole);
  EXPECT_LT(Trained({100}, /*part=*/4).plan.total(), whole / 2);
}

// Each part would read its weights again.
TEST(FrozenPartsTest, Plan_LargeFrozenDense_SeesTheWholeBatch) {
  const auto bytes = [](int64_t units, int64_t part) {
    StepPlan::ForceForTests({true, 0, true, part});
    Sequential model({Input({64}), Dense(units).Trainable(false),
                      Dense(units).Trainable(false), Dense(kClasses)});
    model.Compile(SGD(0.1f), MeanSquaredError());
    EXPECT_OK(model.status());
    const uint64_t total = model.PlanMemory(1000).total();
    StepPlan::ForceForTests({});
    return total;
  };
  EXPECT_EQ(bytes(1025, 4), bytes(1025, -1));
  EXPECT_LT(bytes(128, 4), bytes(128, -1));
}

}  // namespace
}  // namespace ringlet
