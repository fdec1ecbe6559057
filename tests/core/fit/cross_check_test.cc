// Fits of workers, as threads, one of whose machines computes wrong: it is
// named and left out within 100 steps, nothing that was saved is wrong, and the
// final bits are those of a run in which it did not take part.

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

#include "../../support/one_bit_job.h"
#include "core/fit/fit.h"

namespace ringlet {
namespace {

// The steps after which it says that something was found.
int64_t FoundAfter(const Status& status) {
  const char* const at = std::strstr(status.message(), "' after ");
  return at == nullptr ? -1 : std::atoll(at + 8);
}

// `workers` of which number `broken` computes wrong from step `from` on.
std::vector<Trained> Job(int workers, int broken, int64_t from, int bit,
                         const Way& way) {
  ElasticJob job;
  return Play(&job, workers, [&](Actor* a) {
    a->layer = std::make_shared<OneBitLayer>(bit);
    a->way = way;
    if (a->number == broken) a->BreaksAt(from);
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
    const std::string said = runs[w].status.message();
    EXPECT_EQ(runs[w].status.code(), Code::kOutOfSync) << said;
    const std::string named = runs.size() == 2
                                  ? "rank 0 and rank 1 differ"
                                  : "rank " + std::to_string(broken) + " has";
    EXPECT_NE(said.find(named), std::string::npos) << said;
    EXPECT_NE(said.find("gradients"), std::string::npos) << said;
    EXPECT_GE(FoundAfter(runs[w].status), from) << said;
    EXPECT_LE(FoundAfter(runs[w].status), from + 100) << said;
  }
}

void ExpectFoundInAll(const Rounds& rounds, unsigned seeds) {
  ASSERT_TRUE(Undisturbed(rounds).status.ok());
  for (unsigned seed = 1; seed <= seeds && !testing::Test::HasFailure();
       ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int workers = 2 + static_cast<int>(random() % 3);
    const int broken = static_cast<int>(random()) & 1 ? 0 : workers - 1;
    const int64_t from = static_cast<int64_t>(random() % 300);
    // Of the number itself the sign, the exponent or a high digit.
    const int bit = 17 + static_cast<int>(random() % 15);
    Way way;
    way.rounds = rounds;
    // Saves look too: mostly only the checks of every hundredth step.
    way.save_freq = random() % 4 == 0 ? 20 : 1 << 20;
    ExpectFound(Job(workers, broken, from, bit, way), broken, from, rounds);
  }
}

TEST(CrossCheckTest, AWrongBitIsFoundAndSpoilsNothing) {
  ExpectFoundInAll(/*rounds=*/{}, /*seeds=*/16);
}

TEST(CrossCheckTest, AWrongBitInRoundsIsFoundAndSpoilsNothing) {
  ExpectFoundInAll(/*rounds=*/{5}, /*seeds=*/6);
}

// They go back to where all had the whole state of the rounds.
TEST(CrossCheckTest, AWrongBitInScatteredRoundsIsFoundAndSpoilsNothing) {
  for (const Rounds& rounds :
       {Rounds{5, true, false}, {5, false, true}, {5, true, true}}) {
    ExpectFoundInAll(rounds, /*seeds=*/3);
  }
}

// --- models of other kinds ----------------------------------------------

// Of two inputs and two outputs, with what an optimizer, layers and callbacks
// may keep from step to step.
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

// Rows of three numbers, and of a class and, where it is asked for, a number.
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

// Two fits; each compares every `every` steps.
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
    fit.callbacks = {ReduceLROnPlateau(plateau), EarlyStopping(stopping),
                     std::make_shared<Saves>(before_step, nullptr, 1 << 20)};
    const auto history =
        model->Fit(Rows(110 + 10 * static_cast<int64_t>(seed % 3), two)
                       .Shuffle(3)
                       .Batch(20),
                   fit);
    run.status = history.status();
    if (history.ok()) run.loss += *history->logs.back().Find("val_loss");
  }
  run.digest = model->weights_digest();
  return run;
}

// Of the first fit or of the second; without one that is broken all are right.
TEST(CrossCheckTest, AnyModelIsCheckedAndNotChangedByIt) {
  for (unsigned seed = 0; seed < 24 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Trained alone =
        TrainDrawn(seed, nullptr, 100, std::make_shared<OneBitLayer>(0));
    ASSERT_TRUE(alone.status.ok()) << alone.status.message();
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
      EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
      EXPECT_EQ(runs[w].digest, alone.digest);
      EXPECT_EQ(runs[w].loss, alone.loss);
    }
  }
}

// The gradient is then infinite, and soon all weights of all workers are no
// numbers: whoever computes with them has what the others have.
TEST(CrossCheckTest, ABitAfterWhichNothingIsANumberIsFound) {
  ExpectFound(Job(3, 1, 20, 30, {}), 1, 20, 0);
}

// Where it is switched off the wrong bit is in everybody's weights, and nobody
// knows: what the other tests look at does differ.
TEST(CrossCheckTest, WithoutItNobodyKnows) {
  Way way;
  way.cross_check = false;
  for (const Trained& run : Job(3, 1, 20, 28, way)) {
    EXPECT_TRUE(run.status.ok()) << run.status.message();
    EXPECT_NE(run.digest, Undisturbed({}).digest);
  }
}

// One whose weights alone differ, as where its optimizer computes wrong.
TEST(CrossCheckTest, OtherWeightsAreFound) {
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
  EXPECT_NE(std::string(runs[2].status.message()).find("other weights"),
            std::string::npos)
      << runs[2].status.message();
  ExpectRight(runs, {0, 1});
}

// A broken one that is started again and again is left out each time before it
// takes part, and the others lose nothing by it.
TEST(CrossCheckTest, ABrokenOneThatComesBackTakesNoPart) {
  ElasticJob job;
  std::vector<Trained> runs(3);
  std::vector<std::thread> threads;
  std::atomic<bool> done{false};
  std::atomic<int> lives{0}, lost{0};
  for (int w = 0; w < 3; ++w) job.Arrive(w);
  for (int w = 0; w < 2; ++w) {
    threads.emplace_back([&, w] {
      int64_t last = 0;
      {
        ElasticCollective collective(&job, w, 1 << 30);
        runs[static_cast<size_t>(w)] =
            Train(&collective, {}, std::make_shared<OneBitLayer>(0),
                  [&](FitState& fit) {
                    const int64_t step = fit.model->iterations();
                    if (w == 0 && step < last) ++lost;  // steps are made again
                    last = step;
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                  });
      }
      done = true;
    });
  }
  threads.emplace_back([&] {
    const auto layer = std::make_shared<OneBitLayer>(29);
    layer->Mend();
    while (!done && lives < 6) {
      if (lives > 0) job.Arrive(2);
      ElasticCollective collective(&job, 2, 1 << 30);
      if (done) return;
      const Trained run = Train(&collective, {}, layer, [&](FitState& fit) {
        if (fit.model->iterations() >= 30) layer->Break();
      });
      if (run.status.ok()) return;  // all was done
      ++lives;
      EXPECT_EQ(run.status.code(), Code::kOutOfSync) << run.status.message();
      ExpectSavedIsRight(run, {});
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(lives, 2);
  EXPECT_EQ(lost, 1);  // by the first time alone
  ExpectRight(runs, {0, 1});
}

// A check that a program of its own asks for, anywhere in a step.
TEST(CrossCheckTest, ACheckBeforeAStepChangesNothing) {
  ElasticJob job;
  const std::vector<Trained> runs =
      OnAll(&job, 3, [&](int, ElasticCollective* collective) {
        return Train(collective, {}, std::make_shared<OneBitLayer>(0),
                     [&](FitState& fit) {
                       if (fit.model->iterations() % 7 != 3) return;
                       EXPECT_TRUE(fit.model->CheckReplicas().ok());
                     });
      });
  ExpectRight(runs, {0, 1, 2});
}

// Rounds that scatter their state go back to where all had it, however seldom
// the ranks are to compare: so they compare there.
TEST(CrossCheckTest, WhatIsKeptOfScatteredRoundsWasCompared) {
  const Rounds rounds(5, /*is_sparse=*/true);
  ElasticJob job;
  const auto runs = Play(&job, 4, [&](Actor* a) {
    a->way.rounds = rounds;
    a->way.check_every = 0;
    if (a->number == 3) a->BreaksAt(60);
  });
  ExpectEnd(runs, 3, Code::kOutOfSync);
  ExpectRight(runs, {0, 1, 2}, rounds);
}

}  // namespace
}  // namespace ringlet
