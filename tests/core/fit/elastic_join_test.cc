// Elastic jobs: workers join, and are lost meanwhile.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/random_cases.h"
#include "../../support/tiny_model.h"
#include "elastic_fits.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

// The setting of a joining worker that differs from the others'.
enum class Wrong {
  kRate,
  kReplicas,
  kCompile,
  kGivesUp,
  kEpochs,
  kFitOptions,
  kSetup,
  kTrainBegin,
  kCount
};

class FailsToBegin final : public Callback {
 public:
  explicit FailsToBegin(Wrong wrong) : wrong_(wrong) {}
  const char* name() const override { return "at_step"; }
  Status OnSetup(FitState&) override { return At(Wrong::kSetup); }
  Status OnTrainBegin(FitState&) override { return At(Wrong::kTrainBegin); }

 private:
  Status At(Wrong where) const {
    return wrong_ == where ? Error(Code::kIo, "no camera") : Status();
  }
  const Wrong wrong_;
};

Status JoinWith(Wrong wrong, ElasticCollective* collective) {
  if (wrong == Wrong::kGivesUp) {
    const Status status = InvalidArgument("no data");
    collective->Abort(status);
    return status;
  }
  CompileOptions options = Exact(collective);
  if (wrong == Wrong::kReplicas) options.replicas = kReplicas + 1;
  if (wrong == Wrong::kCompile) options.threads = 0;
  auto model = TinyModel(Adam(wrong == Wrong::kRate ? 0.02f : 0.01f),
                         /*dropout=*/0.2f, options, kUnits);
  FitOptions fit = Quiet(wrong == Wrong::kEpochs ? 4 : 3);
  if (wrong == Wrong::kFitOptions) fit.validation_freq = 0;
  fit.callbacks = {std::make_shared<FailsToBegin>(wrong)};
  return model->Fit(Points(203).Shuffle(3).Batch(40), fit).status();
}

const char* SaysOf(Wrong wrong) {
  switch (wrong) {
    case Wrong::kRate:
      return "the optimizer's learning rate is 0.02 on rank";
    case Wrong::kReplicas:
      return "6 on rank";
    case Wrong::kCompile:
      return "threads";
    case Wrong::kGivesUp:
      return "no data";
    case Wrong::kEpochs:
      return "epochs is 4 on rank";
    case Wrong::kFitOptions:
      return "validation_freq";
    default:
      return "no camera";
  }
}

// The joining worker ends alone, with the reason, whatever its number is.
TEST(ElasticTest, Joiner_AnotherModel_EndsAlone) {
  testing::internal::CaptureStderr();
  for (unsigned seed = 0; seed < 48 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto wrong =
        static_cast<Wrong>(seed % static_cast<unsigned>(Wrong::kCount));
    const int workers = 2 + static_cast<int>(random() % 3);
    const int joiner = static_cast<int>(random() % 4) % workers;
    const int64_t at = 1 + random() % 13;
    ElasticJob job;
    for (int w = 0; w < workers; ++w) {
      if (w != joiner) job.Arrive(w);
    }
    std::atomic<bool> called{false};
    RunThreads(workers, [&](int w) {
      if (w == joiner) {
        while (!called) std::this_thread::yield();
        job.Arrive(w);
        ElasticCollective collective(&job, w);
        const Status status = JoinWith(wrong, &collective);
        EXPECT_TRUE(Contains(status, SaysOf(wrong)));
        return;
      }
      ElasticCollective collective(&job, w);
      FitOptions options = Quiet(3);
      options.callbacks = {std::make_shared<AtStep>(
          at,
          [&](FitState&) {
            called = true;
            while (!job.has_joiner()) std::this_thread::yield();
          },
          false)};
      const ElasticRun run = Train(Exact(&collective), options);
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, Undisturbed().digest);
    });
  }
  const std::string said = testing::internal::GetCapturedStderr();
  if (HasFailure()) ADD_FAILURE() << said;
}

// The programs that differ from one Compile and one Fit with a strategy.
enum class Program { kTwoFits, kTwoCompiles, kCompilesTwice, kTwoModels };

Status FitOnce(Sequential* model) {
  return model->Fit(Points(203).Shuffle(3).Batch(40), Quiet(2)).status();
}

ElasticRun RunProgram(Program program, Collective* collective) {
  const auto recompile = [&](Sequential* model) {
    model->Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                   {Accuracy()}, Exact(collective));
    return model->status();
  };
  ElasticRun run;
  auto model =
      TinyModel(Adam(0.01f), /*dropout=*/0.2f, Exact(collective), kUnits);
  if (program != Program::kCompilesTwice) run.status = FitOnce(model.get());
  if (run.status.ok() && program == Program::kTwoModels) {
    model = TinyModel(Adam(0.01f), /*dropout=*/0.2f, Exact(collective), kUnits);
  } else if (run.status.ok() && program != Program::kTwoFits) {
    run.status = recompile(model.get());
  }
  if (run.status.ok()) run.status = FitOnce(model.get());
  run.digest = model->weights_digest();
  return run;
}

// A joining worker begins with the first Fit. If the others are in a later one,
// they continue without it, and never with its initial weights.
TEST(ElasticTest, Joiner_OthersAreInALaterFit_IsRefused) {
  testing::internal::CaptureStderr();
  int refused = 0, died = 0;
  uint64_t undisturbed[4];
  for (int p = 0; p < 4; ++p) {
    undisturbed[p] = RunProgram(static_cast<Program>(p), nullptr).digest;
  }
  for (unsigned seed = 0; seed < 2 * SeedCount() && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto program = static_cast<Program>(seed % 4);
    const int workers = 2 + static_cast<int>(random() % 3);
    const int victim = random() % 2 == 0 ? 0 : workers - 1;
    const int last_call = 1 + static_cast<int>(random() % 220);
    const uint64_t whole = undisturbed[seed % 4];
    ElasticJob job;
    RunWorkers(&job, workers, [&](int w) {
      bool dead = false;
      if (w == victim) {
        ElasticCollective collective(&job, w, last_call);
        RunProgram(program, &collective);
        dead = collective.ended();
        died += dead;
      }
      if (w == victim && !dead) return;
      if (w == victim) job.Arrive(w);
      ElasticCollective collective(&job, w);
      const ElasticRun run = RunProgram(program, &collective);
      if (w == victim && run.status.code() == Code::kInvalidArgument) {
        ++refused;
        EXPECT_TRUE(
            Contains(run.status, "workers are taken back in the first"));
        return;
      }
      EXPECT_TRUE(run.status.ok()) << "worker " << w << " of " << workers
                                   << ": " << run.status.message();
      EXPECT_EQ(run.digest, whole);
    });
  }
  const std::string said = testing::internal::GetCapturedStderr();
  if (HasFailure()) ADD_FAILURE() << said;
  EXPECT_GT(died, 20);
  EXPECT_GT(refused, 10);
}

// The joiner's trained weights have no step number, so no run may begin with
// them.
TEST(ElasticTest, Joiner_DonorLostInTheTransfer_HasRightBitsOrEnds) {
  testing::internal::CaptureStderr();
  ASSERT_TRUE(Undisturbed().status.ok());
  for (int last_call = 1; last_call <= 60; ++last_call) {
    ElasticJob job;
    job.Arrive(0);
    std::atomic<bool> called{false};
    ElasticRun run;
    std::thread joiner([&] {
      while (!called) std::this_thread::yield();
      job.Arrive(1);
      ElasticCollective collective(&job, 1);
      FitOptions options = Quiet(3);
      options.callbacks = {std::make_shared<AtStep>(-1, nullptr, false)};
      run = Train(Exact(&collective), options);
    });
    {
      ElasticCollective collective(&job, 0);
      FitOptions options = Quiet(3);
      options.callbacks = {std::make_shared<AtStep>(
          5,
          [&](FitState&) {
            called = true;
            collective.EndAfterReform(last_call);
            while (!job.has_joiner()) std::this_thread::yield();
          },
          false)};
      Train(Exact(&collective), options);
    }
    joiner.join();
    if (run.status.ok()) {
      EXPECT_EQ(run.digest, Undisturbed().digest) << last_call;
    }
  }
  testing::internal::GetCapturedStderr();
}

// Two parts of a job meet, and one of them is behind. The donor ends in the
// transfer, and one of the receivers may end too.
TEST(ElasticTest, Transfer_DonorIsLost_LeavesNoMixedState) {
  testing::internal::CaptureStderr();
  int cut_off = 0;
  for (const int64_t local_steps : {0, 2}) {
    ASSERT_TRUE(Undisturbed(local_steps).status.ok());
    for (int first = 1; first <= 12; ++first) {
      for (int second = first; second <= first + 3; ++second) {
        ElasticJob ahead, behind, all;
        ahead.Arrive(0);
        behind.Arrive(1);
        behind.Arrive(2);
        for (int w = 0; w < 3; ++w) all.Arrive(w);
        ElasticRun stays;
        std::atomic<int> dead{0};
        RunThreads(3, [&](int w) {
          ElasticCollective collective(w == 0 ? &ahead : &behind, w);
          FitOptions options = Quiet(3);
          options.callbacks = {std::make_shared<AtStep>(
              w == 0 ? 10 : 4,
              [&](FitState&) {
                if (w != 1) {
                  collective.EndInBroadcast(w == 0 ? first : second);
                }
                collective.MoveTo(&all);
              },
              false)};
          const ElasticRun run =
              Train(Exact(&collective, local_steps), options);
          if (w == 1) stays = run;
          dead += collective.ended();
        });
        EXPECT_OK(stays.status);
        EXPECT_EQ(stays.digest, Undisturbed(local_steps).digest)
            << local_steps << " " << first << " " << second;
        cut_off += dead == 2;
      }
    }
  }
  testing::internal::GetCapturedStderr();
  EXPECT_GT(cut_off, kSanitized ? 0 : 20);
}

// A joiner that has not begun joins once more, also if a worker is lost
// meanwhile.
TEST(ElasticTest, Joiner_AnotherModelAndALoss_EndsAlone) {
  testing::internal::CaptureStderr();
  for (const Wrong wrong : {Wrong::kEpochs, Wrong::kSetup, Wrong::kRate}) {
    for (int run_of = 0; run_of < 40; ++run_of) {
      const int joiner = run_of % 2 == 0 ? 0 : 2;
      const int last_call = 1 + run_of / 2;
      ElasticJob job;
      const int victim = joiner == 0 ? 2 : 0;
      for (int w = 0; w < 3; ++w) {
        if (w != joiner) job.Arrive(w);
      }
      std::atomic<bool> called{false};
      ElasticRun run;
      RunThreads(3, [&](int w) {
        if (w == joiner) {
          while (!called) std::this_thread::yield();
          job.Arrive(w);
          ElasticCollective collective(&job, w);
          JoinWith(wrong, &collective).IgnoreError();
          return;
        }
        ElasticCollective collective(&job, w);
        FitOptions options = Quiet(3);
        options.callbacks = {std::make_shared<AtStep>(
            5,
            [&](FitState&) {
              called = true;
              if (w == victim) collective.EndAfterReform(last_call);
              while (!job.has_joiner()) std::this_thread::yield();
            },
            false)};
        const ElasticRun r = Train(Exact(&collective), options);
        if (w == 1) run = r;
      });
      EXPECT_TRUE(run.status.ok())
          << joiner << " " << last_call << " " << run.status.message();
      EXPECT_EQ(run.digest, Undisturbed().digest) << joiner << " " << last_call;
    }
  }
  testing::internal::GetCapturedStderr();
}

TEST(ElasticTest, Joiner_OneOfTwoGivesUp_EndsAlone) {
  testing::internal::CaptureStderr();
  for (int bad = 0; bad < 3; ++bad) {
    for (int good = 0; good < 3; ++good) {
      if (bad == good) continue;
      const int old = 3 - bad - good;
      ElasticJob job;
      job.Arrive(old);
      std::atomic<bool> called{false}, good_comes{false};
      ElasticRun lived, comes;
      RunThreads(3, [&](int w) {
        if (w != old) {
          while (!called) std::this_thread::yield();
          ElasticCollective collective(&job, w);
          if (w == bad) {
            while (!good_comes) std::this_thread::yield();
            JoinWith(Wrong::kGivesUp, &collective).IgnoreError();
          } else {
            FitOptions o = Quiet(3);
            o.callbacks = {std::make_shared<AtStep>(-1, nullptr, false)};
            good_comes = true;
            comes = Train(Exact(&collective), o);
          }
          return;
        }
        ElasticCollective collective(&job, w);
        FitOptions options = Quiet(3);
        options.callbacks = {std::make_shared<AtStep>(
            5,
            [&](FitState&) {
              job.Arrive(bad);
              job.Arrive(good);
              called = true;
              while (!job.has_joiner()) std::this_thread::yield();
            },
            false)};
        lived = Train(Exact(&collective), options);
      });
      EXPECT_OK(lived.status);
      EXPECT_OK(comes.status);
      EXPECT_EQ(comes.digest, Undisturbed().digest);
    }
  }
  testing::internal::GetCapturedStderr();
}

// The state that the joiner received is its own by now.
TEST(ElasticTest, Joiner_DonorLostAfterTheTransfer_HasTheWholeState) {
  testing::internal::CaptureStderr();
  for (const bool comes_bad : {false, true}) {
    ElasticJob job;
    job.Arrive(0);
    std::atomic<bool> called{false}, bad{false}, ends{false};
    ElasticRun run;
    std::thread one([&] {
      while (!called) std::this_thread::yield();
      job.Arrive(1);
      ElasticCollective collective(&job, 1);
      FitOptions o = Quiet(3);
      o.callbacks = {std::make_shared<AtStep>(-1, nullptr, false)};
      run = Train(Exact(&collective), o);
      ends = true;
    });
    std::thread two([&] {
      while (!bad && !ends) std::this_thread::yield();
      if (!bad) return;
      ElasticCollective collective(&job, 2);
      JoinWith(Wrong::kGivesUp, &collective).IgnoreError();
    });
    {
      ElasticCollective collective(&job, 0);
      FitOptions options = Quiet(3);
      const auto at9 = std::make_shared<AtStep>(
          9,
          [&](FitState&) {
            if (comes_bad) {
              job.Arrive(2);
              bad = true;
            }
            collective.EndInNextCall();
          },
          false);
      const auto at5 = std::make_shared<AtStep>(
          5,
          [&](FitState&) {
            called = true;
            while (!job.has_joiner()) std::this_thread::yield();
          },
          false);
      struct Both final : Callback {
        std::shared_ptr<AtStep> a, b;
        const char* name() const override { return "at_step"; }
        Status OnTrainBatchBegin(FitState& fit) override {
          a->OnTrainBatchBegin(fit).IgnoreError();
          return b->OnTrainBatchBegin(fit);
        }
      };
      auto both = std::make_shared<Both>();
      both->a = at5;
      both->b = at9;
      options.callbacks = {both};
      Train(Exact(&collective), options);
    }
    one.join();
    two.join();
    EXPECT_OK(run.status);
    EXPECT_EQ(run.digest, Undisturbed().digest);
  }
  testing::internal::GetCapturedStderr();
}

// No worker is sure to stay: a worker with exit code 0 has the bits of the
// undisturbed run.
TEST(ElasticTest, Workers_AllMayDie_NoBitIsWrong) {
  ASSERT_TRUE(Undisturbed().status.ok());
  testing::internal::CaptureStderr();
  uint64_t oks = 0;
  RandomCases cases("RINGLET_DEATHS");
  while (cases.Next()) {
    SCOPED_TRACE(cases.command());
    const uint64_t seed = cases.number();
    std::mt19937 random(static_cast<unsigned>(seed));
    const int workers = 2 + static_cast<int>(random() % 3);
    ElasticJob job;
    std::vector<std::thread> threads;
    std::mutex m;
    for (int w = 0; w < workers; ++w) job.Arrive(w);
    for (int w = 0; w < workers; ++w) {
      const unsigned own = random();
      int lives = static_cast<int>(random() % 5);
      threads.emplace_back([&, w, own, lives]() mutable {
        std::mt19937 r(own);
        for (;;) {
          const bool short_life = r() % 2;
          const int last_call =
              lives-- > 0 ? 1 + static_cast<int>(r() % (short_life ? 60 : 400))
                          : kNever;
          job.Arrive(w);
          ElasticCollective collective(&job, w, last_call);
          const bool wrong = r() % 8 == 0 && lives > 0 && lives < 3;
          if (wrong) {
            const auto what = static_cast<Wrong>(r() % 8);
            JoinWith(what, &collective).IgnoreError();
            continue;
          }
          FitOptions o = Quiet(3);
          o.callbacks = {std::make_shared<AtStep>(-1, nullptr, false)};
          const ElasticRun run = Train(Exact(&collective), o);
          if (collective.ended()) continue;
          std::lock_guard<std::mutex> lock(m);
          if (run.status.ok()) {
            ++oks;
            EXPECT_EQ(run.digest, Undisturbed().digest)
                << "seed " << seed << ", worker " << w << " of " << workers;
          }
          return;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  testing::internal::GetCapturedStderr();
  EXPECT_GE(oks, cases.count() / 4);
}

}  // namespace
}  // namespace ringlet
