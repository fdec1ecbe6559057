// Fits of workers, as threads, one of whose machines computes wrong: it is
// named and left out within 100 steps, nothing that was saved is wrong, and the
// final bits are those of a run in which it did not take part.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "../../support/elastic_collective.h"
#include "../../support/one_bit_layer.h"
#include "../../support/tiny_model.h"
#include "core/fit/fit.h"

namespace ringlet {
namespace {

constexpr int64_t kEpochs = 6, kSteps = 55;  // of an epoch

// What is saved, by step, and minus it where an epoch has ended: the weights
// after a check that found nothing.
class Saves final : public Callback {
 public:
  Saves(std::function<void(FitState&)> before_step,
        std::function<void()> returned, int64_t save_freq)
      : before_step_(std::move(before_step)),
        returned_(std::move(returned)),
        save_freq_(save_freq) {}
  const char* name() const override { return "saves"; }
  Status OnTrainBatchBegin(FitState& fit) override {
    if (before_step_ != nullptr) before_step_(fit);
    return Status();
  }
  Status OnSavePoint(FitState& fit, bool epoch_ended) override {
    const int64_t step = fit.model->iterations();
    if (!epoch_ended && step % save_freq_ != 0) return Status();
    RINGLET_RETURN_IF_ERROR(fit.model->CheckReplicas());
    saved_.emplace_back(epoch_ended ? -step : step,
                        fit.model->weights_digest());
    return Status();
  }
  void OnFitReturn(FitState&, const Status&) override {
    if (returned_ != nullptr) returned_();
  }
  const std::vector<std::pair<int64_t, uint64_t>>& saved() const {
    return saved_;
  }

 private:
  const std::function<void(FitState&)> before_step_;
  const std::function<void()> returned_;
  const int64_t save_freq_;
  std::vector<std::pair<int64_t, uint64_t>> saved_;
};

struct Trained {
  Status status;
  uint64_t digest = 0;
  double loss = 0;
  std::vector<std::pair<int64_t, uint64_t>> saved;
};

// Of local updates; 0: there are none.
struct Rounds {
  Rounds(int64_t n = 0, bool is_sparse = false, bool overlaps = false)
      : steps(n), sparse(is_sparse), overlap(overlaps) {}
  int64_t steps;
  bool sparse, overlap;
  bool operator<(const Rounds& other) const {
    return std::tie(steps, sparse, overlap) <
           std::tie(other.steps, other.sparse, other.overlap);
  }
};

struct Way {
  Rounds rounds;
  bool cross_check = true;
  int64_t save_freq = 20;
  std::function<void()> returned;  // by a loss too
};

const Way kNoSaves = {0, true, 1 << 20, nullptr};

Trained Train(Collective* collective, const Way& way,
              std::shared_ptr<OneBitLayer> layer,
              std::function<void(FitState&)> before_step = nullptr) {
  CompileOptions options(collective);
  options.reduction = Reduction::kExact;
  options.replicas = 8;
  options.local.steps = way.rounds.steps;
  options.local.overlap = way.rounds.overlap;
  if (way.rounds.sparse) options.local.delta = LocalUpdates::Delta::kSparse;
  Sequential model({Input({2}), Dense(16, kRelu), Dropout(0.2f),
                    BatchNormalization(0.9f), Custom(std::move(layer)),
                    Dense(3)});
  model.Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()}, options);
  const auto saves = std::make_shared<Saves>(std::move(before_step),
                                             way.returned, way.save_freq);
  FitOptions fit = Quiet(kEpochs);
  fit.steps_per_epoch = kSteps;
  fit.cross_check = way.cross_check;
  fit.callbacks = {saves};
  const auto history =
      model.Fit(Points(203).Shuffle(3).Repeat().Batch(40), fit);
  Trained run{history.status(), model.weights_digest(), 0, saves->saved()};
  if (history.ok() && !history->logs.empty()) {
    run.loss = *history->logs.back().Find("loss");
  }
  return run;
}

// Its saves are of every step.
const Trained& Undisturbed(const Rounds& rounds) {
  static std::map<Rounds, Trained> runs;
  Trained& run = runs[rounds];
  if (run.saved.empty()) {
    Way way;
    way.rounds = rounds;
    way.save_freq = 1;
    run = Train(nullptr, way, std::make_shared<OneBitLayer>(0));
  }
  return run;
}

void ExpectSavedIsRight(const Trained& run, const Rounds& rounds) {
  const auto& saved = Undisturbed(rounds).saved;
  const std::map<int64_t, uint64_t> right(saved.begin(), saved.end());
  for (const auto& [step, digest] : run.saved) {
    EXPECT_EQ(digest, right.at(step)) << "saved after step " << step;
  }
}

// The steps after which it says that something was found.
int64_t FoundAfter(const Status& status) {
  const char* const at = std::strstr(status.message(), "' after ");
  return at == nullptr ? -1 : std::atoll(at + 8);
}

// What each of the job's workers makes of `train`, on a thread of its own.
template <typename TrainOne>
std::vector<Trained> OnAll(ElasticJob* job, int workers,
                           const TrainOne& train) {
  std::vector<Trained> runs(static_cast<size_t>(workers));
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w) job->Arrive(w);
  for (int w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      ElasticCollective collective(job, w, 1 << 30);
      runs[static_cast<size_t>(w)] = train(w, &collective);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return runs;
}

// `workers` of which number `broken` computes wrong from step `from` on.
std::vector<Trained> Job(int workers, int broken, int64_t from, int bit,
                         const Way& way) {
  ElasticJob job;
  return OnAll(&job, workers, [&](int w, ElasticCollective* collective) {
    const auto layer = std::make_shared<OneBitLayer>(bit);
    return Train(collective, way, layer, [&](FitState& fit) {
      if (w == broken && fit.model->iterations() >= from) layer->Break();
    });
  });
}

void ExpectFound(const std::vector<Trained>& runs, int broken, int64_t from,
                 const Rounds& rounds) {
  for (size_t w = 0; w < runs.size(); ++w) {
    SCOPED_TRACE("worker " + std::to_string(w));
    ExpectSavedIsRight(runs[w], rounds);
    const bool ends = static_cast<int>(w) == broken || runs.size() == 2;
    if (!ends) {
      EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
      EXPECT_EQ(runs[w].digest, Undisturbed(rounds).digest);
      EXPECT_EQ(runs[w].loss, Undisturbed(rounds).loss);
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
  for (const int w : {0, 1}) {
    EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
    EXPECT_EQ(runs[w].digest, Undisturbed({}).digest);
  }
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
  for (const int w : {0, 1}) {
    EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
    EXPECT_EQ(runs[w].digest, Undisturbed({}).digest);
  }
}

// A loss may keep one from hearing what the others have heard: that a worker's
// numbers are in everybody's weights, or that all are to stop.
constexpr size_t kOfACheck = 4 * sizeof(int64_t);

TEST(CrossCheckTest, OneThatDoesNotHearAVerdictFollowsThoseWhoDo) {
  for (const int deaf : {0, 1, 2}) {
    SCOPED_TRACE(deaf);
    ElasticJob job;
    const std::vector<Trained> runs =
        OnAll(&job, 3, [&](int w, ElasticCollective* collective) {
          const auto layer = std::make_shared<OneBitLayer>(28);
          int heard = 0;
          return Train(collective, kNoSaves, layer, [&](FitState& fit) {
            const int64_t step = fit.model->iterations();
            if (w == 2 && step >= 170) layer->Break();
            if (w == deaf && step == 199 && heard++ == 0) {
              collective->LoseGather(kOfACheck);
            }
          });
        });
    EXPECT_EQ(runs[2].status.code(), Code::kOutOfSync);
    for (const int w : {0, 1}) {
      EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
      EXPECT_EQ(runs[w].digest, Undisturbed(0).digest);
      EXPECT_EQ(runs[w].loss, Undisturbed(0).loss);
      ExpectSavedIsRight(runs[w], 0);
    }
  }
}

TEST(CrossCheckTest, OneThatDoesNotHearThatAllStopStops) {
  for (const int deaf : {0, 1}) {
    ElasticJob job;
    const std::vector<Trained> runs =
        OnAll(&job, 2, [&](int w, ElasticCollective* collective) {
          const auto layer = std::make_shared<OneBitLayer>(28);
          return Train(collective, kNoSaves, layer, [&](FitState& fit) {
            const int64_t step = fit.model->iterations();
            if (w == 1 && step >= 170) layer->Break();
            if (w == deaf && step == 199) {
              collective->LoseGather(kOfACheck);
            }
          });
        });
    for (const Trained& run : runs) {
      EXPECT_EQ(run.status.code(), Code::kOutOfSync) << run.status.message();
    }
  }
}

// Where nobody was there to compare with since a comparison long ago, and one
// that comes is lost before it has compared.
TEST(CrossCheckTest, OneThatWasAloneGoesBackNoFurtherThanAHundredSteps) {
  for (const Rounds& rounds : {Rounds(0), Rounds(5, /*is_sparse=*/true)}) {
    SCOPED_TRACE(rounds.steps);
    Way way = kNoSaves;
    way.rounds = rounds;
    constexpr int64_t kComes = 320;
    ElasticJob job;
    for (int w = 0; w < 2; ++w) job.Arrive(w);
    std::atomic<bool> called{false};
    std::thread other([&] {
      for (const bool again : {false, true}) {
        while (again && !called) std::this_thread::yield();
        job.Arrive(0);
        ElasticCollective collective(&job, 0, 1 << 30);
        if (again) collective.DieInGather(kOfACheck);
        Train(&collective, way, std::make_shared<OneBitLayer>(0),
              [&](FitState& fit) {
                if (fit.model->iterations() > 4) collective.DieInNextCall();
              });
        EXPECT_TRUE(collective.dead());
      }
    });
    int64_t least = kComes;  // that it was at once it had been further
    {
      ElasticCollective collective(&job, 1, 1 << 30);
      const Trained run =
          Train(&collective, way, std::make_shared<OneBitLayer>(0),
                [&](FitState& fit) {
                  const int64_t step = fit.model->iterations();
                  if (called) least = std::min(least, step);
                  if (step != kComes || called) return;
                  called = true;
                  while (!job.visited()) std::this_thread::yield();
                });
      EXPECT_TRUE(run.status.ok()) << run.status.message();
      EXPECT_EQ(run.digest, Undisturbed(rounds).digest);
    }
    other.join();
    EXPECT_GE(least, kComes - 120);
  }
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
  for (const Trained& run : runs) {
    EXPECT_TRUE(run.status.ok()) << run.status.message();
    EXPECT_EQ(run.digest, Undisturbed(0).digest);
    EXPECT_EQ(run.loss, Undisturbed(0).loss);
  }
}

// What a check has found that failed is no history: one that is cut off then,
// and passes that step alone, has the history that the others have.
TEST(CrossCheckTest, AFailedCheckIsNoHistory) {
  ElasticJob job, other;
  std::atomic<bool> waits{false};
  const std::vector<Trained> runs =
      OnAll(&job, 4, [&](int w, ElasticCollective* collective) {
        const auto layer = std::make_shared<OneBitLayer>(28);
        int returns = 0, gone = 0;
        Way way = kNoSaves;
        way.returned = [&] {
          if (returns++ == 0 && w == 2) collective->MoveTo(&other);
        };
        return Train(collective, way, layer, [&](FitState& fit) {
          const int64_t step = fit.model->iterations();
          if (w == 3 && step >= 170) layer->Break();
          if (w == 0 && step == 230 && gone++ == 0) {
            waits = true;
            while (!job.visited()) std::this_thread::yield();
          } else if (w == 2 && step == 250 && gone++ == 0) {
            while (!waits) std::this_thread::yield();
            collective->MoveTo(&job);
          }
        });
      });
  EXPECT_EQ(runs[3].status.code(), Code::kOutOfSync);
  for (const int w : {0, 1, 2}) {
    EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
    EXPECT_EQ(runs[w].digest, Undisturbed(0).digest);
  }
}

// One that was cut off before a verdict, with the wrong numbers in its weights,
// meets the others when all have taken the state of those that went back. It
// has gone further, and has nothing to give; nor is it at fault for another
// history, where the others have the steps that it has made too.
TEST(CrossCheckTest, WhoMissedAVerdictTakesTheOthersState) {
  for (const int64_t meets : {120, 220}) {
    SCOPED_TRACE(meets);
    ElasticJob job, other;
    std::atomic<bool> waits{false};
    const std::vector<Trained> runs =
        OnAll(&job, 4, [&](int w, ElasticCollective* collective) {
          const auto layer = std::make_shared<OneBitLayer>(24);
          int gone = 0;  // any step may be begun a second time
          return Train(collective, kNoSaves, layer, [&](FitState& fit) {
            const int64_t step = fit.model->iterations();
            if (w == 3 && step >= 110) layer->Break();
            if (w == 0 && step == 150 && gone == 0) {
              ++gone;
              collective->MoveTo(&other);
            } else if (w == 0 && step == 250 && gone == 1) {
              ++gone;
              while (!waits) std::this_thread::yield();
              collective->MoveTo(&job);
            } else if (w == 1 && step == meets &&
                       gone++ == (meets < 150 ? 1 : 0)) {
              waits = true;
              while (!job.visited()) std::this_thread::yield();
            }
          });
        });
    EXPECT_EQ(runs[3].status.code(), Code::kOutOfSync);
    for (const int w : {0, 1, 2}) {
      EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
      EXPECT_EQ(runs[w].digest, Undisturbed(0).digest) << w;
    }
  }
}

// … also where those are lost while their state travels: it has heard by then
// that it may not go on from what it has.
TEST(CrossCheckTest, WhoMissedAVerdictDoesNotGoOnAlone) {
  ElasticJob job, other;
  std::atomic<bool> waits{false};
  const std::vector<Trained> runs =
      OnAll(&job, 4, [&](int w, ElasticCollective* collective) {
        const auto layer = std::make_shared<OneBitLayer>(24);
        int gone = 0;
        return Train(collective, kNoSaves, layer, [&](FitState& fit) {
          const int64_t step = fit.model->iterations();
          if (w == 3 && step >= 110) layer->Break();
          if (w == 0 && step == 150 && gone == 0) {
            ++gone;
            collective->MoveTo(&other);
          } else if (w == 0 && step == 250 && gone == 1) {
            ++gone;
            while (!waits) std::this_thread::yield();
            collective->MoveTo(&job);
          } else if (w == 2 && step == 110 && gone++ == 1) {
            collective->DieInNextCall();
          } else if (w == 1 && step == 120 && gone++ == 1) {
            waits = true;
            while (!job.visited()) std::this_thread::yield();
            collective->DieInBroadcast(1);
          }
        });
      });
  EXPECT_EQ(runs[0].status.code(), Code::kCancelled)
      << runs[0].status.message();
}

// … or where one that has heard it has nothing to give.
TEST(CrossCheckTest, WhoMissedAVerdictGivesNothing) {
  ElasticJob job, other;
  std::atomic<bool> calls{false}, heard{false};
  Trained comer;
  std::thread comes([&] {
    while (!calls) std::this_thread::yield();
    job.Arrive(2);
    ElasticCollective collective(&job, 2, 1 << 30);
    comer = Train(&collective, kNoSaves, std::make_shared<OneBitLayer>(0));
  });
  const std::vector<int> workers = {0, 1, 3};
  for (const int w : workers) job.Arrive(w);
  std::vector<Trained> runs(4);
  std::vector<std::thread> threads;
  for (const int w : workers) {
    threads.emplace_back([&, w] {
      ElasticCollective collective(&job, w, 1 << 30);
      const auto layer = std::make_shared<OneBitLayer>(24);
      int returns = 0, gone = 0;
      Way way = kNoSaves;
      way.returned = [&] {
        if (w != 1 || ++returns != 2) return;
        heard = true;
        while (!job.visited()) std::this_thread::yield();
        collective.DieInNextCall();
      };
      runs[static_cast<size_t>(w)] =
          Train(&collective, way, layer, [&](FitState& fit) {
            const int64_t step = fit.model->iterations();
            if (w == 3 && step >= 110) layer->Break();
            if (w == 0 && step == 150 && gone == 0) {
              ++gone;
              calls = true;
              while (!job.visited()) std::this_thread::yield();
              collective.MoveTo(&other);
            } else if (w == 0 && step == 160 && gone == 1) {
              ++gone;
              while (!heard) std::this_thread::yield();
              collective.MoveTo(&job);
            }
          });
    });
  }
  for (std::thread& thread : threads) thread.join();
  comes.join();
  EXPECT_EQ(runs[3].status.code(), Code::kOutOfSync);
  for (const Trained& run : {runs[0], comer}) {
    EXPECT_EQ(run.status.code(), Code::kCancelled) << run.status.message();
  }
}

// One that did not hear it, and went back in doubt, is where the others are.
TEST(CrossCheckTest, WhoWentBackInDoubtHasTheStateToo) {
  ElasticJob job;
  const std::vector<Trained> runs =
      OnAll(&job, 3, [&](int w, ElasticCollective* collective) {
        const auto layer = std::make_shared<OneBitLayer>(28);
        bool deaf = false;
        Way way = kNoSaves;
        way.returned = [&] {
          if (w == 0) collective->DieInGather((6 + 2 * 64) * sizeof(int64_t));
        };
        return Train(collective, way, layer, [&](FitState& fit) {
          const int64_t step = fit.model->iterations();
          if (w == 2 && step >= 170) layer->Break();
          if (w == 1 && step == 199 && !deaf) {
            deaf = true;
            collective->LoseGather(kOfACheck);
          }
        });
      });
  EXPECT_EQ(runs[2].status.code(), Code::kOutOfSync);
  EXPECT_EQ(runs[0].status.code(), Code::kInternal);  // dead
  EXPECT_TRUE(runs[1].status.ok()) << runs[1].status.message();
  EXPECT_EQ(runs[1].digest, Undisturbed(0).digest);
}

// Nobody goes back for one that was wrong elsewhere, nor does who comes later.
TEST(CrossCheckTest, AVerdictOnAnotherHistoryCostsNoSteps) {
  ElasticJob job, others[2];
  std::atomic<int> waits{0};
  std::atomic<int64_t> least{1 << 20};
  const std::vector<Trained> runs =
      OnAll(&job, 4, [&](int w, ElasticCollective* collective) {
        const auto layer = std::make_shared<OneBitLayer>(24);
        int gone = 0;
        const auto away = [&](int64_t step, int64_t from, int64_t to, int n) {
          if (gone == 0 && step == from) {
            ++gone;
            if (w == 3) layer->Break();
            collective->MoveTo(&others[n]);
          } else if (gone == 1 && step == to) {
            ++gone;
            while (waits <= n) std::this_thread::yield();
            layer->Mend();
            collective->MoveTo(&job);
          }
        };
        return Train(collective, kNoSaves, layer, [&](FitState& fit) {
          const int64_t step = fit.model->iterations();
          if (w == 3) away(step, 120, 250, 0);
          if (w == 0) away(step, 150, 310, 1);
          if (w == 0 && gone == 2) least = std::min(least.load(), step);
          if (w != 1 || step != (gone == 0 ? 230 : 260)) return;
          if (gone++ > 1) return;
          ++waits;
          while (!job.visited()) std::this_thread::yield();
        });
      });
  EXPECT_EQ(runs[3].status.code(), Code::kOutOfSync);
  EXPECT_GE(least, 310);
  for (const int w : {0, 1, 2}) {
    EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
    EXPECT_EQ(runs[w].digest, Undisturbed(0).digest);
  }
}

// One that was cut off with the wrong numbers in its weights, and is back as
// the others compare: what it has found right alone is later than what all had.
TEST(CrossCheckTest, WhatOneFoundRightAloneIsNotGoneBackTo) {
  ElasticJob job, other;
  std::atomic<bool> back{false};
  const std::vector<Trained> runs =
      OnAll(&job, 4, [&](int w, ElasticCollective* collective) {
        const auto layer = std::make_shared<OneBitLayer>(24);
        int gone = 0, returns = 0;
        Way way = kNoSaves;
        way.returned = [&] {
          if (w == 0 && ++returns == 2) {
            job.Arrive(0);
            back = true;
          }
          while (w != 0 && !back) std::this_thread::yield();
        };
        return Train(collective, way, layer, [&](FitState& fit) {
          const int64_t step = fit.model->iterations();
          if (w == 3 && step >= 110) layer->Break();
          if (w == 0 && step == 150 && gone == 0) {
            ++gone;
            collective->MoveTo(&other);
          } else if (w == 0 && step == 155 && gone == 1) {
            ++gone;
            collective->MoveTo(&job);
          }
        });
      });
  EXPECT_EQ(runs[3].status.code(), Code::kOutOfSync);
  for (const int w : {0, 1, 2}) {
    EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
    EXPECT_EQ(runs[w].digest, Undisturbed(0).digest) << w;
  }
}

// … nor where the others are in doubt alone, for who heard the verdict is lost,
// or the only one who lives and heard it is that one.
void FoundRightAlone(bool hears) {
  SCOPED_TRACE(hears);
  ElasticJob job, other;
  std::atomic<bool> back{false};
  const std::vector<Trained> runs =
      OnAll(&job, 4, [&](int w, ElasticCollective* collective) {
        const auto layer = std::make_shared<OneBitLayer>(24);
        int gone = 0, returns = 0;
        Way way = kNoSaves;
        way.returned = [&] {
          ++returns;
          if (w == 0 && returns == 2) {
            job.Arrive(0);
            back = true;
          }
          if (w == 1 && returns == 1) collective->LoseGather(kOfACheck);
          const bool waits = hears || returns == 2;
          while (w != 0 && waits && !back) std::this_thread::yield();
          if (w == 2 && returns == 2) collective->DieInNextCall();
        };
        return Train(collective, way, layer, [&](FitState& fit) {
          const int64_t step = fit.model->iterations();
          if (w == 3 && step >= 110) layer->Break();
          if (w == 0 && step == 150 && gone == 0) {
            ++gone;
            collective->MoveTo(&other);
          } else if (w == 0 && step == 155 && gone == 1) {
            ++gone;
            collective->MoveTo(&job);
          }
        });
      });
  EXPECT_EQ(runs[3].status.code(), Code::kOutOfSync);
  EXPECT_EQ(runs[2].status.code(), Code::kInternal);  // dead
  for (const int w : {0, 1}) {
    EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
    EXPECT_EQ(runs[w].digest, Undisturbed(0).digest) << w;
  }
}

TEST(CrossCheckTest, WhatOneFoundRightAloneIsNotGoneBackToInDoubt) {
  for (const bool hears : {false, true}) FoundRightAlone(hears);
}

// … nor where three did, as many as had compared what is right.
TEST(CrossCheckTest, WhatAPartFoundRightWithoutItIsNotGoneBackTo) {
  ElasticJob job, other;
  std::atomic<int> back{0};
  std::atomic<bool> calls{false};
  std::vector<Trained> runs(5);
  std::vector<std::thread> threads;
  for (const int w : {0, 1, 2}) job.Arrive(w);
  for (int w = 0; w < 5; ++w) {
    threads.emplace_back([&, w] {
      const bool late = w > 2, moves = late || w == 0;
      while (late && !calls) std::this_thread::yield();
      ElasticCollective collective(late ? &other : &job, w, 1 << 30);
      const auto layer = std::make_shared<OneBitLayer>(24);
      int gone = late ? 1 : 0, returns = gone;
      Way way = kNoSaves;
      way.returned = [&] {
        if (moves && ++returns == 2) {
          job.Arrive(w);
          ++back;
        }
        while (!moves && back < 3) std::this_thread::yield();
      };
      runs[static_cast<size_t>(w)] =
          Train(&collective, way, layer, [&](FitState& fit) {
            const int64_t step = fit.model->iterations();
            if (w == 2 && step >= 110) layer->Break();
            if (w == 0 && step == 150 && gone == 0) {
              ++gone;
              for (const int there : {0, 3, 4}) other.Arrive(there);
              calls = true;
              collective.MoveTo(&other);
            } else if (moves && step == 155 && gone == 1) {
              ++gone;
              collective.MoveTo(&job);
            }
          });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs[2].status.code(), Code::kOutOfSync);
  for (const int w : {0, 1, 3, 4}) {
    EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
    EXPECT_EQ(runs[w].digest, Undisturbed(0).digest) << w;
  }
}

// But where who has gone back is lost on the way, what one found right alone is
// all that is left.
TEST(CrossCheckTest, WhatOneFoundRightAloneIsKeptUntilTheOthersIsThere) {
  int lost = 0;
  for (int cut = 1; cut <= 12; ++cut) {
    SCOPED_TRACE(cut);
    ElasticJob job, other;
    std::atomic<bool> cut_off{false}, back{false};
    const std::vector<Trained> runs =
        OnAll(&job, 3, [&](int w, ElasticCollective* collective) {
          int gone = 0, returns = 0;
          Way way = kNoSaves;
          way.returned = [&] {
            ++returns;
            if (w == 0 && returns == 2) {
              job.Arrive(0);
              back = true;
            }
            if (w != 1 || returns != 2) return;
            cut_off = true;
            while (!back) std::this_thread::yield();
            collective->DieInBroadcast(cut);
          };
          const auto layer = std::make_shared<OneBitLayer>(24);
          return Train(collective, way, layer, [&](FitState& fit) {
            const int64_t step = fit.model->iterations();
            if (w == 0 && step == 150 && gone == 0) {
              ++gone;
              collective->MoveTo(&other);
            } else if (w == 0 && step == 155 && gone == 1) {
              ++gone;
              while (!cut_off) std::this_thread::yield();
              collective->MoveTo(&job);
            } else if (w == 2 && step == 199) {
              collective->DieInGather(kOfACheck);
            }
          });
        });
    EXPECT_EQ(runs[2].status.code(), Code::kInternal)  // dead
        << runs[2].status.message();
    lost += runs[1].status.code() == Code::kInternal;
    EXPECT_TRUE(runs[0].status.ok()) << runs[0].status.message();
    EXPECT_EQ(runs[0].digest, Undisturbed(0).digest);
  }
  EXPECT_GT(lost, 3);
}

// … nor where it has heard the verdict, and is cut off once more: what it goes
// back to is further, and goes on.
TEST(CrossCheckTest, WhatOneFoundRightAloneDoesNotCountLater) {
  ElasticJob job, other, third;
  std::atomic<bool> back{false}, waits{false};
  const std::vector<Trained> runs =
      OnAll(&job, 4, [&](int w, ElasticCollective* collective) {
        const auto layer = std::make_shared<OneBitLayer>(24);
        int gone = 0, returns = 0;
        Way way = kNoSaves;
        way.returned = [&] {
          if (w == 0 && ++returns == 2) {
            job.Arrive(0);
            back = true;
          } else if (w == 0 && returns == 3) {
            collective->MoveTo(&third);
          }
          while (w != 0 && !back) std::this_thread::yield();
        };
        return Train(collective, way, layer, [&](FitState& fit) {
          const int64_t step = fit.model->iterations();
          if (w == 3 && step >= 110) layer->Break();
          if (w == 0 && step == 150 && gone == 0) {
            ++gone;
            collective->MoveTo(&other);
          } else if (w == 0 && step == 155 && gone == 1) {
            ++gone;
            collective->MoveTo(&job);
          } else if (w == 0 && step == 290 && gone == 2) {
            ++gone;
            while (!waits) std::this_thread::yield();
            collective->MoveTo(&job);
          } else if (w == 1 && step == 180 && gone++ == 0) {
            waits = true;
            while (!job.visited()) std::this_thread::yield();
          }
        });
      });
  EXPECT_EQ(runs[3].status.code(), Code::kOutOfSync);
  for (const int w : {0, 1, 2}) {
    EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
    EXPECT_EQ(runs[w].digest, Undisturbed(0).digest) << w;
  }
}

// What one has found right long ago, before it stood still, is as right as what
// the others have since then, and so they go back no further than to that.
TEST(CrossCheckTest, WhoWasAwayForLongCostsNoSteps) {
  ElasticJob job, other;
  std::atomic<bool> waits{false};
  std::atomic<int64_t> least{1 << 20};
  const std::vector<Trained> runs =
      OnAll(&job, 4, [&](int w, ElasticCollective* collective) {
        const auto layer = std::make_shared<OneBitLayer>(24);
        int gone = 0;
        Way way = kNoSaves;
        way.returned = [&] {
          if (w != 0 || gone++ != 1) return;
          job.Leave(0);
          while (!waits) std::this_thread::yield();
          job.Arrive(0);
          collective->MoveTo(nullptr);
        };
        return Train(collective, way, layer, [&](FitState& fit) {
          const int64_t step = fit.model->iterations();
          if (w == 3 && step >= 295) layer->Break();
          if (w == 0 && step == 105 && gone == 0) {
            ++gone;
            collective->MoveTo(&other);
          }
          if (w == 1 && step == 298 && gone++ == 0) {
            waits = true;
            while (!job.visited()) std::this_thread::yield();
          }
          if (w == 1 && waits) least = std::min(least.load(), step);
        });
      });
  EXPECT_EQ(runs[3].status.code(), Code::kOutOfSync);
  EXPECT_GE(least, 200);
  for (const int w : {0, 1, 2}) {
    EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
    EXPECT_EQ(runs[w].digest, Undisturbed(0).digest) << w;
  }
}

// One that was cut off, and computed wrong where nobody could see it, has
// another history than the others when it hears them again.
TEST(CrossCheckTest, AnotherHistoryIsRefusedWherePartsMeet) {
  ElasticJob job, other;
  std::atomic<bool> waits{false};
  const std::vector<Trained> runs =
      OnAll(&job, 4, [&](int w, ElasticCollective* collective) {
        const auto layer = std::make_shared<OneBitLayer>(24);
        int gone = 0;  // any step may be begun a second time
        return Train(collective, {}, layer, [&](FitState& fit) {
          const int64_t step = fit.model->iterations();
          if (w == 0 && step == 230 && gone++ == 0) {
            waits = true;
            while (!job.visited()) std::this_thread::yield();
          } else if (w == 3 && step == 120 && gone == 0) {
            gone = 1;
            layer->Break();
            collective->MoveTo(&other);
          } else if (w == 3 && step == 250 && gone == 1) {
            gone = 2;
            while (!waits) std::this_thread::yield();
            layer->Mend();  // so that no check of now would find it
            collective->MoveTo(&job);
          }
        });
      });
  const std::string said = runs[3].status.message();
  EXPECT_EQ(runs[3].status.code(), Code::kOutOfSync) << said;
  EXPECT_NE(said.find("after 200 steps, while the workers were apart: rank 3"),
            std::string::npos)
      << said;
  for (const int w : {0, 1, 2}) {
    EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
    EXPECT_EQ(runs[w].digest, Undisturbed({}).digest);
  }
}

// … also where it was cut off as they compared, and went on alone.
TEST(CrossCheckTest, AnotherHistoryOfOneInDoubtIsRefused) {
  ElasticJob job, other;
  std::atomic<bool> waits{false};
  const std::vector<Trained> runs =
      OnAll(&job, 4, [&](int w, ElasticCollective* collective) {
        const auto layer = std::make_shared<OneBitLayer>(24);
        int gone = 0;
        return Train(collective, kNoSaves, layer, [&](FitState& fit) {
          const int64_t step = fit.model->iterations();
          if (w == 0 && step == 230 && gone++ == 0) {
            waits = true;
            while (!job.visited()) std::this_thread::yield();
          } else if (w == 3 && step == 99 && gone == 0) {
            gone = 1;
            collective->MoveInGather(kOfACheck, &other);
          } else if (w == 3 && step == 120 && gone == 1) {
            layer->Break();
          } else if (w == 3 && step == 250 && gone == 1) {
            gone = 2;
            while (!waits) std::this_thread::yield();
            layer->Mend();  // so that no check of now would find it
            collective->MoveTo(&job);
          }
        });
      });
  EXPECT_EQ(runs[3].status.code(), Code::kOutOfSync)
      << runs[3].status.message();
  for (const int w : {0, 1, 2}) {
    EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
    EXPECT_EQ(runs[w].digest, Undisturbed({}).digest);
  }
}

// One that was cut off as they compared has what it kept alone where the others
// are lost as they give it theirs.
TEST(CrossCheckTest, WhoWasInDoubtKeepsWhatItHas) {
  for (int dies = 1; dies < 8; ++dies) {
    SCOPED_TRACE(dies);
    ElasticJob job, other;
    std::atomic<bool> waits{false};
    const std::vector<Trained> runs =
        OnAll(&job, 2, [&](int w, ElasticCollective* collective) {
          int gone = 0;
          return Train(collective, kNoSaves, std::make_shared<OneBitLayer>(0),
                       [&](FitState& fit) {
                         const int64_t step = fit.model->iterations();
                         if (w == 1 && step == 199 && gone == 0) {
                           ++gone;
                           collective->MoveInGather(kOfACheck, &other);
                         } else if (w == 1 && step == 320 && gone == 1) {
                           ++gone;
                           while (!waits) std::this_thread::yield();
                           collective->MoveTo(&job);
                         } else if (w == 0 && step == 325 && gone++ == 0) {
                           waits = true;
                           while (!job.visited()) std::this_thread::yield();
                           collective->DieInBroadcast(dies);
                         }
                       });
        });
    EXPECT_TRUE(runs[1].status.ok()) << runs[1].status.message();
    EXPECT_EQ(runs[1].digest, Undisturbed(0).digest);
  }
}

// One that died before the others compared is wrong when it comes back, and
// with it one comes that has kept nothing to go back to.
TEST(CrossCheckTest, AComerCostsTheOthersNothingByAVerdict) {
  ElasticJob job;
  std::atomic<bool> calls{false};
  std::atomic<int64_t> least{1 << 20};
  std::vector<Trained> runs(5);
  std::vector<std::thread> threads;
  const auto live = [&](int w, bool again) {
    ElasticCollective collective(&job, w, 1 << 30);
    const auto layer = std::make_shared<OneBitLayer>(24);
    if (w == 3 && again) layer->Break();
    int gone = 0;
    runs[static_cast<size_t>(w)] =
        Train(&collective, kNoSaves, layer, [&](FitState& fit) {
          const int64_t step = fit.model->iterations();
          if (w == 3 && step == 150) collective.DieInNextCall();
          if (w == 1 && calls) least = std::min(least.load(), step);
          if (w != 1 || step != 230 || gone++ > 0) return;
          for (const int comes : {3, 4}) job.Arrive(comes);
          calls = true;
          while (!job.visited()) std::this_thread::yield();
        });
  };
  for (const int w : {0, 1, 2, 3}) job.Arrive(w);
  for (int w = 0; w < 5; ++w) {
    threads.emplace_back([&, w] {
      if (w < 4) live(w, false);
      if (w < 3) return;
      while (!calls) std::this_thread::yield();
      live(w, true);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs[3].status.code(), Code::kOutOfSync);
  EXPECT_GE(least, 230);
  for (const int w : {0, 1, 2, 4}) {
    EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
    EXPECT_EQ(runs[w].digest, Undisturbed(0).digest) << w;
  }
}

// One that stood still for long is back, and another one dies as they compare:
// that it may be wrong itself is no reason to go back to what it had.
TEST(CrossCheckTest, WhoStoodStillDoesNotDecideInDoubt) {
  ElasticJob job, other;
  std::atomic<bool> waits{false};
  std::atomic<int64_t> least{1 << 20};
  const std::vector<Trained> runs =
      OnAll(&job, 4, [&](int w, ElasticCollective* collective) {
        int gone = 0;
        Way way = kNoSaves;
        way.returned = [&] {
          if (w != 2 || gone++ != 1) return;
          job.Leave(2);
          while (!waits) std::this_thread::yield();
          job.Arrive(2);
          collective->MoveTo(nullptr);
        };
        return Train(collective, way, std::make_shared<OneBitLayer>(0),
                     [&](FitState& fit) {
                       const int64_t step = fit.model->iterations();
                       if (w == 2 && step == 105 && gone == 0) {
                         ++gone;
                         collective->MoveTo(&other);
                       }
                       if (w == 1 && step == 298 && gone++ == 0) {
                         waits = true;
                         while (!job.visited()) std::this_thread::yield();
                       }
                       if (w == 3 && step == 298)
                         collective->DieInGather(kOfACheck);
                       if (w == 1 && waits)
                         least = std::min(least.load(), step);
                     });
      });
  EXPECT_EQ(runs[3].status.code(), Code::kInternal);  // dead
  EXPECT_GE(least, 200);
  for (const int w : {0, 1, 2}) {
    EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
    EXPECT_EQ(runs[w].digest, Undisturbed(0).digest) << w;
  }
}

// Two were cut off right after a comparison. One of them, which is wrong, comes
// back and is named; the other has its numbers of fewer steps than the others
// have made, and then goes further than they.
TEST(CrossCheckTest, WhoWasApartWithTheWrongOneTakesTheOthersState) {
  ElasticJob job, other;
  std::atomic<int> waits{0};
  const std::vector<Trained> runs =
      OnAll(&job, 5, [&](int w, ElasticCollective* collective) {
        const auto layer = std::make_shared<OneBitLayer>(24);
        int gone = 0;
        return Train(collective, kNoSaves, layer, [&](FitState& fit) {
          const int64_t step = fit.model->iterations();
          if (w > 2 && step == 200 && gone == 0) {
            ++gone;
            for (const int there : {3, 4}) other.Arrive(there);
            collective->MoveTo(&other);
          } else if (w == 3 && step == 205) {
            layer->Break();
          } else if (gone == 1 && step == (w == 3 ? 215 : 290) && w > 2) {
            ++gone;
            while (waits < w - 2) std::this_thread::yield();
            collective->MoveTo(&job);
          } else if (w == 1 && step == (gone == 0 ? 230 : 240) && gone < 2) {
            ++gone;
            ++waits;
            while (!job.visited()) std::this_thread::yield();
          }
        });
      });
  EXPECT_EQ(runs[3].status.code(), Code::kOutOfSync);
  for (const int w : {0, 1, 2, 4}) {
    EXPECT_TRUE(runs[w].status.ok()) << runs[w].status.message();
    EXPECT_EQ(runs[w].digest, Undisturbed(0).digest) << w;
  }
}

}  // namespace
}  // namespace ringlet
