// A step that has to be made again, and steps of several replicas.

#include "core/step/stepper.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/tiny_model.h"
#include "core/data/dataset_loader.h"
#include "core/data/dataset_parts.h"
#include "core/graph/model_memory.h"
#include "core/step/updater.h"

namespace ringlet {
namespace {

// Requests `times` repeats of each step, as exact sums do when a number was
// clamped.
class RepeatingExchange final : public GradientExchange {
 public:
  RepeatingExchange(std::unique_ptr<GradientExchange> inner, int times)
      : inner_(std::move(inner)), times_(times) {}
  bool sums() const override { return true; }
  void Begin(int replica, int replicas) override {
    ++passes;
    inner_->Begin(replica, replicas);
  }
  void OnGradientsFinal(int64_t begin) override {
    inner_->OnGradientsFinal(begin);
  }
  bool failed() const override { return inner_->failed(); }
  Status Finish(bool* must_repeat) override {
    const Status status = inner_->Finish(must_repeat);
    *must_repeat = done_++ < times_;
    return status;
  }
  Status Sum(float* values, int64_t count) override {
    return inner_->Sum(values, count);
  }
  void Drop() override {
    done_ = 0;
    inner_->Drop();
  }
  Status StartReport(const void* report, size_t bytes,
                     void* all_reports) override {
    ++reports;
    return inner_->StartReport(report, bytes, all_reports);
  }
  Status FinishReport() override { return inner_->FinishReport(); }

  int passes = 0, reports = 0;

 private:
  const std::unique_ptr<GradientExchange> inner_;
  const int times_;
  int done_ = 0;
};

// A model's parts, put together as Compile does.
struct Parts {
  Parts(int replicas, int times) {
    for (const Layer& layer : {Input({2}), Dense(8, kRelu), Dropout(0.4f),
                               BatchNormalization(0.9f), Dense(3)}) {
      EXPECT_OK(graph.Add(layer, graph.size() == 0
                                     ? std::vector<int>()
                                     : std::vector<int>{graph.size() - 1}));
    }
    CompileOptions options;
    options.replicas = replicas;
    config.Set(Adam(0.05f), options);
    EXPECT_OK(config.AgreeReplicas(replicas));
    std::vector<OutputLoss> losses(1);
    losses[0].loss = SparseCategoricalCrossentropy(kFromLogits);
    EXPECT_OK(config.SetOutputs(losses, graph));
    EXPECT_OK(graph.Complete(config.Losses()));
    config.ChooseLosses(graph);
    EXPECT_OK(config.MakePool("parts"));
    ModelMemory::Options kept;
    kept.num_slots = config.optimizer.num_slots();
    kept.label_bytes = sizeof(float);
    kept.sums = config.job_replicas.own().count > 1;
    EXPECT_OK(memory.AllocatePersistent(kept));
    graph.DrawWeights(1, memory.persistent().weights);
    updater.Reset();
    auto made = std::make_unique<RepeatingExchange>(
        MakeGradientExchange(config.collective, replicas, memory.persistent(),
                             graph.num_trained(), graph.num_changes(), &timer),
        times);
    exchange = made.get();
    stepper.SetExchange(std::move(made));
    EXPECT_OK(config.ResolveMetrics(graph));
    stepper.report().Reset();
  }

  void OpenLoader(const Dataset& data, bool background) {
    EXPECT_TRUE(
        stepper
            .Reserve(data.parts().LargestPart(config.job_replicas.count()),
                     true)
            .ok());
    DatasetLoader::Options options;
    options.dataset = data;
    options.cursor.world = options.cursor.parts = config.job_replicas.count();
    options.x = memory.step().x;
    options.y = memory.step().y;
    options.x_shapes = {Shape{2}};
    options.outputs.resize(1);
    options.background = background;
    EXPECT_OK(DatasetLoader::Open(options, &loader));
  }

  std::vector<float> weights() const {
    const float* const w = memory.persistent().weights;
    return std::vector<float>(w, w + graph.num_weights());
  }

  StepTimer timer;
  Graph graph{"Sequential", "parts"};
  CompileConfig config;
  ModelMemory memory{&graph};
  Updater updater{&graph, &config, &memory, &timer};
  Stepper stepper{&graph, &config, &memory, &updater, &timer};
  RepeatingExchange* exchange = nullptr;
  std::unique_ptr<BatchLoader> loader;
};

TEST(StepperTest, Step_MadeAgain_IsTheSame) {
  for (const int replicas : {1, 2, 5}) {
    for (const bool background : {false, true}) {
      Parts once(replicas, 0), again(replicas, 2);
      // The last of four steps is short; two passes over the data.
      for (Parts* parts : {&once, &again}) {
        parts->OpenLoader(Points(50).Shuffle(2).Repeat(2).Batch(16),
                          background);
        for (int step = 0; step < 7; ++step) {
          Batch batch;
          ASSERT_OK(parts->loader->Next(&batch));
          bool taken = false;
          ASSERT_OK(parts->stepper.Train(batch, parts->loader.get(), &taken));
          EXPECT_TRUE(taken);
        }
      }
      EXPECT_EQ(once.exchange->passes, 7 * replicas);
      EXPECT_EQ(again.exchange->passes, 3 * 7 * replicas);
      EXPECT_EQ(again.exchange->reports, 7);
      EXPECT_EQ(once.updater.iterations(), again.updater.iterations());
      EXPECT_EQ(once.weights(), again.weights());
      EXPECT_EQ(once.stepper.report().sums()[0].Result(),
                again.stepper.report().sums()[0].Result());
    }
  }
}

// A user-defined loop, which keeps the batch until the gradients are applied.
TEST(StepperTest, Pieces_MadeAgain_AreTheSame) {
  Parts once(1, 0), again(1, 3);
  const float x[] = {1, 0, 0.5f, 0.5f, -1, 0.25f};
  const int32_t y[] = {0, 1, 2};
  for (Parts* parts : {&once, &again}) {
    for (int step = 0; step < 5; ++step) {
      Batch batch;
      batch.count = batch.global_count = 3;
      batch.y = y;
      double loss = 0;
      ASSERT_OK(
          parts->stepper.Forward(x, 3, /*training=*/true, /*for_loss=*/true));
      ASSERT_OK(parts->stepper.ComputeLoss(batch, &loss));
      ASSERT_OK(parts->stepper.Backward(/*update_when_final=*/false));
      if (step % 2 == 0) {
        ASSERT_OK(parts->stepper.FinishGradients());
      }
      ASSERT_OK(parts->stepper.Apply());
    }
  }
  EXPECT_GT(again.exchange->passes, once.exchange->passes);
  EXPECT_EQ(once.weights(), again.weights());
}

}  // namespace
}  // namespace ringlet
