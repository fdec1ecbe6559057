// What core does in a job of several ranks, over threads instead of a network.

#include <gtest/gtest.h>

#include <cmath>

#include "core/agreement.h"
#include "core/callbacks.h"
#include "core/crc32c.h"
#include "io/backup_and_restore.h"
#include "temp_folder.h"
#include "thread_collective.h"
#include "tiny_model.h"

namespace ringlet {
namespace {

struct Outcome {
  Status status;
  std::vector<double> losses;  // of each step, as the whole job sees it
  std::vector<float> weights;
  std::vector<float> predictions;
  std::vector<double> epochs, validation;
};

// Losses of the steps: Mean over the epoch with one step an epoch.
Outcome Train(Collective* collective, const Dataset& data,
              const Optimizer& optimizer) {
  Outcome outcome;
  CompileOptions compile(collective);
  compile.seed = collective->rank() + 3;  // the chief's weights are taken
  auto model = TinyModel(optimizer, 0, compile);
  FitOptions options = Quiet(12);
  options.steps_per_epoch = 1;
  options.check_replicas_every = 1;
  options.validation_data = Points(23, 9).Batch(10);
  const auto history = model->Fit(data, options);
  outcome.status = history.status();
  if (!history.ok()) return outcome;
  outcome.losses = history->Values("loss");
  outcome.validation = history->Values("val_loss");
  outcome.weights = WeightsOf(model.get());
  auto predictions = model->Predict(Points(23, 9).Batch(10));
  EXPECT_TRUE(predictions.ok());
  outcome.predictions = predictions.value();
  return outcome;
}

// N ranks with a global batch follow one worker with that batch, with uneven
// parts and a short last batch too.
TEST(MultiWorkerTest, RanksFollowOneWorkerWithTheWholeBatch) {
  for (const int64_t batch : {4, 15, 16}) {
    const Dataset data = Points(50).Shuffle(3).Repeat(20).Batch(batch);
    for (const Optimizer& optimizer :
         {SGD(0.1f, 0.9f), Adam(0.01f), SGD(0.1f).GlobalClipNorm(0.5f)}) {
      SoloCollective solo;
      const Outcome one = Train(&solo, data, optimizer);
      ASSERT_TRUE(one.status.ok()) << one.status.message();
      for (int world = 2; world <= 5; ++world) {
        std::vector<Outcome> ranks(world);
        RunRanks(world, [&](Collective* collective) {
          ranks[collective->rank()] = Train(collective, data, optimizer);
        });
        for (const Outcome& rank : ranks) {
          ASSERT_TRUE(rank.status.ok()) << rank.status.message();
          EXPECT_EQ(rank.weights, ranks[0].weights);
          EXPECT_EQ(rank.predictions, ranks[0].predictions);
        }
        for (size_t i = 0; i < one.losses.size(); ++i) {
          EXPECT_NEAR(ranks[0].losses[i], one.losses[i], 1e-4) << i;
          EXPECT_NEAR(ranks[world - 1].losses[i], one.losses[i], 1e-4) << i;
          EXPECT_NEAR(ranks[0].validation[i], one.validation[i], 1e-4) << i;
        }
        ASSERT_EQ(ranks[0].predictions.size(), one.predictions.size());
        for (size_t i = 0; i < one.predictions.size(); ++i) {
          EXPECT_NEAR(ranks[0].predictions[i], one.predictions[i], 1e-3);
        }
      }
    }
  }
}

TEST(MultiWorkerTest, DropoutDiffersByRankAndRepeatsByRun) {
  std::vector<float> runs[2];
  for (auto& run : runs) {
    std::vector<std::vector<float>> weights(2);
    RunRanks(2, [&](Collective* collective) {
      auto model = TinyModel(SGD(0.1f), 0.5f, CompileOptions(collective));
      ASSERT_TRUE(
          model->Fit(Points(40).Shuffle(1).Batch(8), Quiet(2)).ok());
      weights[collective->rank()] = WeightsOf(model.get());
    });
    EXPECT_EQ(weights[0], weights[1]);
    run = weights[0];
  }
  EXPECT_EQ(runs[0], runs[1]);
}

std::vector<std::string> Messages(
    int world, const std::function<Status(Collective*)>& body) {
  std::vector<std::string> messages(world);
  RunRanks(world, [&](Collective* collective) {
    const Status status = body(collective);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    messages[collective->rank()] = status.message();
  });
  for (const std::string& m : messages) EXPECT_EQ(m, messages[0]);
  return messages;
}

TEST(MultiWorkerTest, DifferingModelsDataAndOptionsAreNamedOnEveryRank) {
  const auto model = Messages(3, [](Collective* collective) {
    Sequential model({Input({2}), Dense(collective->rank() == 2 ? 5 : 4)});
    model.Compile(SGD(), MeanSquaredError(), {}, collective);
    return model.status();
  });
  EXPECT_NE(model[0].find("rank 2"), std::string::npos) << model[0];
  const auto batch = Messages(2, [](Collective* collective) {
    auto model = TinyModel(SGD(), 0, CompileOptions(collective));
    return model
        ->Fit(Points(40).Batch(collective->rank() == 1 ? 10 : 8), Quiet(1))
        .status();
  });
  EXPECT_NE(batch[0].find("the batch size is 10 on rank 1, but 8 on rank 0"),
            std::string::npos)
      << batch[0];
  const auto shuffle = Messages(2, [](Collective* collective) {
    auto model = TinyModel(SGD(), 0, CompileOptions(collective));
    return model
        ->Fit(Points(40).Shuffle(2 * collective->rank()).Batch(8), Quiet(1))
        .status();
  });
  EXPECT_NE(shuffle[0].find("seed"), std::string::npos);
}

TEST(MultiWorkerTest, ReplicaThatDriftsIsNamed) {
  Messages(3, [](Collective* collective) {
    auto model = TinyModel(SGD(), 0, CompileOptions(collective));
    if (collective->rank() == 1) model->weights()[3] += 1e-3f;
    FitOptions options = Quiet(1);
    options.check_replicas_every = 2;
    const Status status =
        model->Fit(Points(40).Batch(8), options).status();
    EXPECT_NE(std::string(status.message()).find("rank 1 has other weights"),
              std::string::npos)
        << status.message();
    return status;
  });
}

TEST(MultiWorkerTest, OneRanksWishToStopIsEverybodys) {
  class Stops final : public Callback {
   public:
    explicit Stops(bool wishes) : wishes_(wishes) {}
    const char* name() const override { return "stops"; }
    Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
      if (wishes_ && fit.step == 2) fit.stop_training = true;
      return Status();
    }

   private:
    const bool wishes_;
  };
  RunRanks(3, [&](Collective* collective) {
    auto model = TinyModel(SGD(), 0, CompileOptions(collective));
    FitOptions options = Quiet(4);
    options.callbacks = {std::make_shared<Stops>(collective->rank() == 1)};
    ASSERT_TRUE(model->Fit(Points(40).Batch(8), options).ok());
    EXPECT_EQ(model->iterations(), 3);
  });
}

class Dies final : public Callback {
 public:
  explicit Dies(int64_t at) : at_(at) {}
  const char* name() const override { return "dies"; }
  Status OnSavePoint(FitState& fit, bool) override {
    if (at_ == 0 || fit.model->iterations() < at_) return Status();
    return Error(Code::kInternal, "the power went");
  }

 private:
  const int64_t at_;
};

// Only the chief has the backup; a job resumed from it ends with the bits of
// the undisturbed one, running metrics included.
TEST(MultiWorkerTest, BackupOfAJobResumesExactly) {
  for (const int64_t freq : {0, 3}) {
    const auto run = [&](const std::string& folder, int64_t die_at,
                         std::vector<float>* weights, std::string* log) {
      RunRanks(3, [&](Collective* collective) {
        auto model =
            TinyModel(Adam(0.01f), 0.2f, CompileOptions(collective));
        FitOptions options = Quiet(3);
        options.steps_per_epoch = 7;
        BackupAndRestoreOptions backup;
        backup.save_freq = freq;
        backup.save_before_preemption = false;
        options.callbacks = {
            CSVLogger(folder + "/log.csv"),
            BackupAndRestore(folder + "/backup", backup),
            std::make_shared<Dies>(die_at)};
        const auto history = model->Fit(
            Points(50).Shuffle(1).Repeat().Batch(8), options);
        EXPECT_EQ(history.ok(), die_at == 0) << history.status().message();
        if (collective->rank() == 1) *weights = WeightsOf(model.get());
      });
      *log = ReadWhole(folder + "/log.csv");
    };
    TempFolder undisturbed, killed;
    std::vector<float> expected, resumed;
    std::string expected_log, log;
    run(undisturbed.path(), 0, &expected, &expected_log);
    run(killed.path(), 12, &resumed, &log);
    run(killed.path(), 0, &resumed, &log);
    EXPECT_EQ(resumed, expected) << freq;
    EXPECT_EQ(log, expected_log) << freq;
  }
}

}  // namespace
}  // namespace ringlet
