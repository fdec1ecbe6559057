// The replica check, in fits of workers that are threads. The machine of one
// worker computes wrong. A check finds that rank within 100 steps, and the
// other workers continue without it. Nothing that was saved is wrong, and the
// final bits equal the undisturbed run's.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/one_bit_job.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

// The number of steps in a failed check's message.
int64_t FoundAfter(const Status& status) {
  const char* const at = std::strstr(status.message(), "' after ");
  return at == nullptr ? -1 : std::atoll(at + 8);
}

// A job in which worker number `broken` computes wrong from step `from` on.
std::vector<Trained> Job(int workers, int broken, int64_t from, int bit,
                         const JobSettings& settings) {
  ElasticJob job;
  return RunScripts(&job, workers, [&](WorkerScript* script) {
    script->layer = std::make_shared<OneBitLayer>(bit);
    script->settings = settings;
    if (script->number == broken) script->BreaksAt(from);
  });
}

void ExpectFound(const std::vector<Trained>& runs, int broken, int64_t from,
                 const Rounds& rounds) {
  for (size_t w = 0; w < runs.size(); ++w) {
    SCOPED_TRACE("worker " + std::to_string(w));
    ExpectSavedIsRight(runs[w], rounds);
    const bool ends = static_cast<int>(w) == broken || runs.size() == 2;
    if (!ends) {
      ExpectRight(runs, {static_cast<int>(w)}, rounds);
      continue;
    }
    const std::string message = runs[w].status.message();
    EXPECT_EQ(runs[w].status.code(), Code::kOutOfSync) << message;
    const std::string ranks = runs.size() == 2
                                  ? "rank 0 and rank 1 differ"
                                  : "rank " + std::to_string(broken) + " has";
    EXPECT_TRUE(Contains(message, ranks));
    EXPECT_TRUE(Contains(message, "gradients"));
    EXPECT_GE(FoundAfter(runs[w].status), from) << message;
    EXPECT_LE(FoundAfter(runs[w].status), from + 100) << message;
  }
}

void ExpectFoundInAll(const Rounds& rounds, unsigned seeds) {
  ASSERT_OK(Undisturbed(rounds).status);
  for (unsigned seed = 1; seed <= seeds && !testing::Test::HasFailure();
       ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int workers = 2 + static_cast<int>(random() % 3);
    const int broken = static_cast<int>(random()) & 1 ? 0 : workers - 1;
    const int64_t from = static_cast<int64_t>(random() % 300);
    // The sign, the exponent or a high digit of a float.
    const int bit = 17 + static_cast<int>(random() % 15);
    JobSettings settings;
    settings.rounds = rounds;
    // A save checks too. Most jobs check at every hundredth step alone.
    settings.save_freq = random() % 4 == 0 ? 20 : kNeverSave;
    ExpectFound(Job(workers, broken, from, bit, settings), broken, from,
                rounds);
  }
}

TEST(ReplicaCheckTest, WrongBit_InAnyStep_IsFound) {
  ExpectFoundInAll(/*rounds=*/{}, /*seeds=*/16);
}

TEST(ReplicaCheckTest, WrongBit_InRounds_IsFound) {
  ExpectFoundInAll(/*rounds=*/{5}, /*seeds=*/6);
}

// --- models of other kinds ----------------------------------------------

// A model of two inputs and two outputs, with state of optimizers and layers.
std::unique_ptr<Functional> DrawModel(unsigned seed, Collective* collective,
                                      std::shared_ptr<OneBitLayer> layer) {
  auto model = std::make_unique<Functional>();
  const int a = model->Add(Input({2}).Name("a")),
            b = model->Add(Input({1}).Name("b"));
  Layer first = Dense(6, kTanh);
  if (seed % 3 == 0) first = first.Trainable(false);
  int trunk =
      model->Add(Add(), {model->Add(first, {a}), model->Add(Dense(6), {b})});
  if (seed % 2 == 0) trunk = model->Add(GaussianNoise(0.1f), {trunk});
  if (seed % 4 == 1) trunk = model->Add(BatchNormalization(0.8f), {trunk});
  if (seed % 4 == 2) trunk = model->Add(LayerNormalization(), {trunk});
  trunk = model->Add(Custom(std::move(layer)), {trunk});
  model->Outputs({model->Add(Dense(3).Name("kind"), {trunk}),
                  model->Add(Dense(1).Name("size"), {trunk})});
  OutputLoss kind{"kind", SparseCategoricalCrossentropy(kFromLogits)};
  kind.metrics = {Accuracy()};
  OutputLoss size{"size", MeanSquaredError(), {MeanAbsoluteErrorMetric()}};
  size.trains = seed % 5 != 4;
  if (!size.trains) size.metrics.clear();
  size.weight = 0.3f;
  Optimizer optimizer = Adam(0.01f);
  switch (seed % 4) {
    case 0:
      optimizer = SGD(0.05f, 0.9f).UseEma(0.9f, /*overwrite_frequency=*/7);
      break;
    case 1:
      optimizer = Adam(0.01f).GradientAccumulationSteps(3);
      break;
    case 2:
      optimizer = AdamW(0.01f).GlobalClipNorm(0.5f);
      break;
  }
  CompileOptions options(collective);
  options.reduction = Reduction::kExact;
  options.replicas = 4;
  model->Compile(optimizer, {kind, size}, options);
  return model;
}

// Rows of three numbers, a class and, with two targets, another number.
Dataset Rows(int64_t count, bool two_targets) {
  static std::vector<float> x, ys[2];
  static std::once_flag once;
  std::call_once(once, [] {
    std::mt19937 random(3);
    for (int i = 0; i < 300; ++i) {
      for (int k = 0; k < 3; ++k) {
        x.push_back(static_cast<float>(random() % 1000) / 500 - 1);
      }
      const float kind = x[x.size() - 2] > 0 ? 1 : x.back() > 0 ? 2 : 0;
      ys[0].push_back(kind);
      ys[1].insert(ys[1].end(), {kind, x.back() * 2});
    }
  });
  const int64_t targets = two_targets ? 2 : 1;
  return Dataset(MemorySource({DType::kFloat32, {3}}, x.data(),
                              {DType::kFloat32, {targets}},
                              ys[two_targets].data(), count));
}

// Two fits, which check every `every` steps.
Trained TrainDrawn(unsigned seed, Collective* collective, int64_t every,
                   std::shared_ptr<OneBitLayer> layer,
                   std::function<void(FitState&)> before_step = nullptr) {
  const auto model = DrawModel(seed, collective, std::move(layer));
  Trained run;
  const bool two = seed % 5 != 4;
  for (int i = 0; i < 2 && run.status.ok(); ++i) {
    FitOptions fit = Quiet(6);
    fit.check_replicas_every = every;
    fit.prefetch = seed % 2 == 0;
    fit.validation_data = Rows(37, two).Batch(20);
    EarlyStoppingOptions stopping;
    stopping.patience = 1;
    stopping.restore_best_weights = true;
    ReduceLROnPlateauOptions plateau;
    plateau.patience = 1;
    fit.callbacks = {
        ReduceLROnPlateau(plateau), EarlyStopping(stopping),
        std::make_shared<DigestRecorder>(before_step, nullptr, kNeverSave)};
    const auto history =
        model->Fit(Rows(110 + 10 * static_cast<int64_t>(seed % 3), two)
                       .Shuffle(3)
                       .Batch(20),
                   fit);
    run.status = history.status();
    if (history.ok()) run.loss += *history->logs.back().Find("val_loss");
  }
  run.digest = model->DigestWeights();
  return run;
}

// In the first eight models no machine is faulty.
TEST(ReplicaCheckTest, AnyModel_Checked_HasTheSameBits) {
  for (unsigned seed = 0; seed < 24 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Trained alone =
        TrainDrawn(seed, nullptr, 100, std::make_shared<OneBitLayer>(0));
    ASSERT_OK(alone.status);
    const int broken = seed < 8 ? -1 : static_cast<int>(seed % 3);
    ElasticJob job;
    const std::vector<Trained> runs =
        OnAll(&job, 3, [&](int w, ElasticCollective* collective) {
          const auto layer = std::make_shared<OneBitLayer>(28);
          const int64_t from = 5 + 3 * seed % 20;
          return TrainDrawn(seed, collective, seed % 2 == 0 ? 1 : 7, layer,
                            [&](FitState& fit) {
                              const int64_t step = fit.model->iterations();
                              if (w == broken && step >= from) layer->Break();
                            });
        });
    for (int w = 0; w < 3; ++w) {
      if (w == broken) {
        EXPECT_EQ(runs[w].status.code(), Code::kOutOfSync)
            << runs[w].status.message();
        continue;
      }
      EXPECT_OK(runs[w].status);
      EXPECT_EQ(runs[w].digest, alone.digest);
      EXPECT_EQ(runs[w].loss, alone.loss);
    }
  }
}

// All weights of all workers soon are NaN. With these, a faulty worker computes
// the same as the other workers.
TEST(ReplicaCheckTest, InfiniteGradient_OnOneRank_IsFound) {
  ExpectFound(Job(3, 1, 20, 30, {}), 1, 20, 0);
}

// The weights of all workers have the wrong bit. So the digests that the other
// tests compare do differ.
TEST(ReplicaCheckTest, WrongBit_WithoutCheck_IsNotFound) {
  JobSettings settings;
  settings.cross_check = false;
  for (const Trained& run : Job(3, 1, 20, 28, settings)) {
    EXPECT_OK(run.status);
    EXPECT_NE(run.digest, Undisturbed({}).digest);
  }
}

// The weights of one rank differ, as if its optimizer computed wrong.
TEST(ReplicaCheckTest, OtherWeights_OnOneRank_AreFound) {
  ElasticJob job;
  const std::vector<Trained> runs =
      OnAll(&job, 3, [&](int w, ElasticCollective* collective) {
        return Train(collective, {}, std::make_shared<OneBitLayer>(0),
                     [&](FitState& fit) {
                       if (w == 2 && fit.model->iterations() == 130) {
                         fit.model->weights()[5] += 1;
                       }
                     });
      });
  EXPECT_EQ(runs[2].status.code(), Code::kOutOfSync);
  EXPECT_TRUE(Contains(runs[2].status, "other weights"));
  ExpectRight(runs, {0, 1});
}

// The machine of worker 2 computes wrong from step 30 on. The worker ends and
// is started again, while the other workers continue. Its first process costs
// the job the steps since the last check. Later, the check at the begin of each
// view finds the faulty worker before it makes a step.
TEST(ReplicaCheckTest, FaultyWorker_Restarted_ContributesNothing) {
  ElasticJob job;
  for (int w = 0; w < 3; ++w) job.Arrive(w);
  std::vector<Trained> runs(3);
  std::atomic<bool> done{false};
  std::atomic<int> faulty_runs{0}, rollbacks{0};
  // The faulty worker is back before the fit ends.
  const auto await_return = [&] {
    while (faulty_runs < 1) std::this_thread::yield();
    while (faulty_runs < 2 && !job.has_joiner()) std::this_thread::yield();
  };
  const auto train_right = [&](int w) {
    int64_t last = 0;
    bool awaited = false;
    {
      ElasticCollective collective(&job, w);
      runs[static_cast<size_t>(w)] =
          Train(&collective, {}, std::make_shared<OneBitLayer>(0),
                [&](FitState& fit) {
                  if (w != 0) return;
                  const int64_t step = fit.model->iterations();
                  if (step < last) ++rollbacks;
                  last = step;
                  if (rollbacks == 0 || awaited) return;
                  await_return();
                  awaited = true;
                });
    }
    done = true;
  };
  const auto train_faulty = [&] {
    const auto layer = std::make_shared<OneBitLayer>(29);
    layer->Mend();
    while (!done && faulty_runs < 6) {
      if (faulty_runs > 0) job.Arrive(2);
      ElasticCollective collective(&job, 2);
      if (done) return;
      const Trained run = Train(&collective, {}, layer, [&](FitState& fit) {
        if (fit.model->iterations() >= 30) layer->Break();
      });
      if (run.status.ok()) return;  // the other workers had finished
      ++faulty_runs;
      EXPECT_EQ(run.status.code(), Code::kOutOfSync) << run.status.message();
      ExpectSavedIsRight(run, {});
    }
  };
  RunThreads(3, [&](int w) { w == 2 ? train_faulty() : train_right(w); });
  EXPECT_GE(faulty_runs, 2);
  EXPECT_EQ(rollbacks, 1);  // only the first faulty process cost a rollback
  ExpectRight(runs, {0, 1});
}

// A program may call CheckReplicas before any step.
TEST(ReplicaCheckTest, Check_InACallback_ChangesNothing) {
  ElasticJob job;
  const std::vector<Trained> runs =
      OnAll(&job, 3, [&](int, ElasticCollective* collective) {
        return Train(collective, {}, std::make_shared<OneBitLayer>(0),
                     [&](FitState& fit) {
                       if (fit.model->iterations() % 7 != 3) return;
                       EXPECT_OK(fit.model->CheckReplicas());
                     });
      });
  ExpectRight(runs, {0, 1, 2});
}

}  // namespace
}  // namespace ringlet
