// Models as values: returned from functions, assigned, moved from.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "ringlet/ringlet.h"

namespace ringlet {
namespace {

Sequential BuildAndCompile(const CompileOptions& options = {}) {
  Sequential model({Input({2}), Dense(16, kRelu), Dense(3)});
  model.Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()}, options);
  return model;
}

bool WasMoved(const Status& status) {
  return std::string(status.message()).find("was moved from") !=
         std::string::npos;
}

TEST(ModelMoveTest, Move_TrainedModel_TrainsOnAsIfItHadStayed) {
  const Dataset data = Points(100).Shuffle(3).Batch(32);
  Sequential stayed = BuildAndCompile();
  ASSERT_OK(stayed.Fit(data, Quiet(1)));
  ASSERT_OK(stayed.Fit(data, Quiet(1)));

  std::vector<Sequential> models;
  models.push_back(BuildAndCompile());
  ASSERT_OK(models[0].Fit(data, Quiet(1)));
  Saveable* const state = models[0].weights_state();
  for (int i = 0; i < 5; ++i) models.push_back(Sequential());  // moves [0]
  Sequential other = BuildAndCompile();
  other = std::move(models[0]);
  Sequential& same = other;
  other = std::move(same);
  ASSERT_OK(other.Fit(data, Quiet(1)));
  EXPECT_EQ(WeightsOf(&other), WeightsOf(&stayed));
  EXPECT_EQ(other.weights_state(), state);
  EXPECT_EQ(other.iterations(), stayed.iterations());
  std::vector<StateSpan> spans;
  state->AppendState(&spans);
  EXPECT_EQ(spans[0].data, other.weights());

  Functional graph;
  const auto x = graph.Add(Input({2}));
  Functional moved = std::move(graph);
  moved.Add(Dense(3), {x});
  moved.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits));
  EXPECT_OK(moved.Fit(data, Quiet(1)));
  EXPECT_STREQ(moved.class_name(), "Functional");
}

TEST(ModelMoveTest, Call_OnAModelMovedFrom_IsAnError) {
  const TempFolder folder;
  const Dataset data = Points(8).Batch(8);
  Sequential model = BuildAndCompile();
  ASSERT_OK(model.Fit(data, Quiet(1)));
  Sequential taken = std::move(model);
  EXPECT_OK(taken.status());

  EXPECT_STREQ(model.status().message(),
               "model 'sequential' was moved from; assign another to it");
  Batch batch;
  double loss = 0;
  std::unique_ptr<BatchLoader> loader;
  const float x[2] = {};
  EXPECT_TRUE(WasMoved(model.Fit(data, Quiet(1)).status()));
  EXPECT_TRUE(WasMoved(model.Evaluate(data).status()));
  EXPECT_TRUE(WasMoved(model.Predict(data).status()));
  EXPECT_TRUE(WasMoved(model.TrainStep(batch)));
  EXPECT_TRUE(WasMoved(model.TestStep(batch)));
  EXPECT_TRUE(WasMoved(model.Forward(x, 1, /*training=*/true)));
  EXPECT_TRUE(WasMoved(model.ComputeLoss(batch, &loss)));
  EXPECT_TRUE(WasMoved(model.Reserve(1, /*training=*/true)));
  EXPECT_TRUE(WasMoved(model.OpenLoader(data, {}, &loader)));
  EXPECT_TRUE(WasMoved(model.SetInitialWeights({})));
  EXPECT_TRUE(WasMoved(SaveModel(&model, folder / "m.safetensors")));
  EXPECT_TRUE(WasMoved(SaveWeights(&model, folder / "m.safetensors")));
  EXPECT_TRUE(WasMoved(LoadWeights(&model, folder / "m.safetensors")));
  EXPECT_FALSE(model.Backward().ok());
  EXPECT_FALSE(model.ApplyGradients().ok());
  model.Add(Dense(3));
  model.Compile(SGD(0.1f), MeanSquaredError());
  EXPECT_TRUE(WasMoved(model.status()));
  // The moved model is empty, and no call crashes.
  EXPECT_EQ(model.num_nodes(), 0);
  EXPECT_EQ(model.num_weights(), 0);
  EXPECT_EQ(model.output(), nullptr);
  EXPECT_EQ(model.weights(), nullptr);
  EXPECT_EQ(model.BytesNeeded(8), 0u);
  EXPECT_FALSE(model.compiled());
  EXPECT_FALSE(model.Summary().empty());
  EXPECT_FALSE(ToJson(model).empty());

  model = std::move(taken);
  EXPECT_OK(model.Fit(data, Quiet(1)));
}

TEST(ModelMoveTest, Move_LoaderIsOpen_LoaderContinuesAndKeepsTheMemory) {
  Sequential model = BuildAndCompile();
  std::unique_ptr<BatchLoader> loader;
  ASSERT_OK(model.OpenLoader(Points(40).Batch(8), LoaderOptions(), &loader));
  Batch batch;
  ASSERT_OK(loader->Next(&batch));
  Sequential taken = std::move(model);
  EXPECT_OK(taken.TrainStep(batch));
  ASSERT_OK(loader->Next(&batch));
  EXPECT_OK(taken.TrainStep(batch));
  taken.Compile(SGD(0.1f), MeanSquaredError());
  EXPECT_FALSE(taken.status().ok());  // the loader is open
  loader.reset();
  taken = BuildAndCompile();
  EXPECT_OK(taken.Fit(Points(40).Batch(8)));  // Fit has default options
}

TEST(ModelMoveTest, Move_AfterFitInAJob_TrainsFurther) {
  RunRanks(3, [&](Collective* collective) {
    Sequential model = BuildAndCompile(CompileOptions(collective));
    EXPECT_OK(model.Fit(Points(60).Batch(16), Quiet(1)));
    Sequential taken = std::move(model);
    EXPECT_OK(taken.Fit(Points(60).Batch(16), Quiet(1)));
    EXPECT_OK(taken.CheckReplicas());
  });
}

TEST(ModelMoveTest, Move_WhileFitRuns_EndsTheFit) {
  class Taker final : public Callback {
   public:
    const char* name() const override { return "taker"; }
    Status OnTrainBatchEnd(FitState&, const Logs&) override {
      taken = std::move(*from);
      return Status();
    }
    Sequential* from = nullptr;
    Sequential taken;
  };
  Sequential model = BuildAndCompile();
  const auto taker = std::make_shared<Taker>();
  taker->from = &model;
  FitOptions options = Quiet(2);
  options.callbacks = {taker};
  EXPECT_TRUE(WasMoved(model.Fit(Points(60).Batch(16), options).status()));
  EXPECT_OK(taker->taken.Fit(Points(60).Batch(16), Quiet(1)));
}

}  // namespace
}  // namespace ringlet
