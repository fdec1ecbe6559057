// Elastic jobs: workers join, and are lost meanwhile.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../support/await.h"
#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/random_cases.h"
#include "../../support/tiny_model.h"
#include "elastic_fits.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

// The setting of a joining worker that differs from the setting of the other
// workers.
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

class BeginFailure final : public Callback {
 public:
  explicit BeginFailure(Wrong wrong) : wrong_(wrong) {}
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
  fit.callbacks = {std::make_shared<BeginFailure>(wrong)};
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
  const std::string printed = testing::internal::GetCapturedStderr();
  if (HasFailure()) ADD_FAILURE() << printed;
}

// A fit of three epochs that calls `what` before step number `step`, or never
// with -1. All workers of a job need the same callback.
FitOptions CallsAt(int64_t step,
                   const std::function<void(FitState&)>& what = nullptr) {
  FitOptions options = Quiet(3);
  options.callbacks = {
      std::make_shared<AtStep>(step, what, /*handles_signals=*/false)};
  return options;
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
  run.digest = model->DigestWeights();
  return run;
}

struct Rejoined {
  int ended = 0, refused = 0;
};

// The workers run `program`. The process of `ending_worker` ends in its call
// number `last_call`, and is started again.
Rejoined RunProgramAndRejoin(Program program, int workers, int ending_worker,
                             int last_call, uint64_t undisturbed) {
  Rejoined count;
  ElasticJob job;
  RunWorkers(&job, workers, [&](int w) {
    if (w == ending_worker) {
      {
        ElasticCollective collective(&job, w, last_call);
        RunProgram(program, &collective);
        if (!collective.ended()) return;
      }
      ++count.ended;
      job.Arrive(w);
    }
    ElasticCollective collective(&job, w);
    const ElasticRun run = RunProgram(program, &collective);
    if (w == ending_worker && run.status.code() == Code::kInvalidArgument) {
      ++count.refused;
      EXPECT_TRUE(Contains(run.status, "workers are taken back in the first"));
      return;
    }
    EXPECT_OK(run.status) << "worker " << w << " of " << workers;
    EXPECT_EQ(run.digest, undisturbed);
  });
  return count;
}

// A joining worker begins with the first Fit. If the other workers are in a
// later one, they continue without it, and never with its initial weights.
TEST(ElasticTest, Joiner_OthersAreInALaterFit_IsRefused) {
  testing::internal::CaptureStderr();
  uint64_t undisturbed[4];
  for (int p = 0; p < 4; ++p) {
    undisturbed[p] = RunProgram(static_cast<Program>(p), nullptr).digest;
  }
  int ended = 0, refused = 0;
  for (unsigned seed = 0; seed < 2 * SeedCount() && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int workers = 2 + static_cast<int>(random() % 3);
    const int ending_worker = random() % 2 == 0 ? 0 : workers - 1;
    const int last_call = 1 + static_cast<int>(random() % 220);
    const Rejoined count =
        RunProgramAndRejoin(static_cast<Program>(seed % 4), workers,
                            ending_worker, last_call, undisturbed[seed % 4]);
    ended += count.ended;
    refused += count.refused;
  }
  const std::string printed = testing::internal::GetCapturedStderr();
  if (HasFailure()) ADD_FAILURE() << printed;
  EXPECT_GT(ended, 20);
  EXPECT_GT(refused, 10);
}

// The joiner's trained weights have no step number, so no run may begin with
// them.
TEST(ElasticTest, Joiner_DonorLostInTheTransfer_HasRightBitsOrEnds) {
  testing::internal::CaptureStderr();
  ASSERT_OK(Undisturbed().status);
  for (int last_call = 1; last_call <= 60; ++last_call) {
    SCOPED_TRACE(last_call);
    ElasticJob job;
    job.Arrive(0);
    std::atomic<bool> may_join{false};
    ElasticRun joined;
    RunThreads(2, [&](int w) {
      if (w == 1) {
        Await(may_join);
        job.Arrive(1);
      }
      ElasticCollective collective(&job, w);
      if (w == 1) {
        joined = Train(Exact(&collective), CallsAt(-1));
        return;
      }
      Train(Exact(&collective), CallsAt(5, [&](FitState&) {
              may_join = true;
              collective.EndAfterReform(last_call);
              AwaitJoiner(&job);
            }));
    });
    if (joined.status.ok()) {
      EXPECT_EQ(joined.digest, Undisturbed().digest);
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
    ASSERT_OK(Undisturbed(local_steps).status);
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
      const int ending_worker = joiner == 0 ? 2 : 0;
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
              if (w == ending_worker) collective.EndAfterReform(last_call);
              while (!job.has_joiner()) std::this_thread::yield();
            },
            false)};
        const ElasticRun r = Train(Exact(&collective), options);
        if (w == 1) run = r;
      });
      EXPECT_OK(run.status) << joiner << " " << last_call;
      EXPECT_EQ(run.digest, Undisturbed().digest) << joiner << " " << last_call;
    }
  }
  testing::internal::GetCapturedStderr();
}

// The fits of two workers that stay.
struct TwoFits {
  ElasticRun old, joined;
};

// `old` trains alone. Before step 5 `bad` and `good` join, and `bad` gives up.
TwoFits JoinWithOneThatGivesUp(int old, int bad, int good) {
  ElasticJob job;
  job.Arrive(old);
  std::atomic<bool> may_join{false}, good_joins{false};
  TwoFits fits;
  RunThreads(3, [&](int w) {
    if (w != old) Await(may_join);
    ElasticCollective collective(&job, w);
    if (w == bad) {
      Await(good_joins);
      JoinWith(Wrong::kGivesUp, &collective).IgnoreError();
    } else if (w == good) {
      good_joins = true;
      fits.joined = Train(Exact(&collective), CallsAt(-1));
    } else {
      fits.old = Train(Exact(&collective), CallsAt(5, [&](FitState&) {
                         job.Arrive(bad);
                         job.Arrive(good);
                         may_join = true;
                         AwaitJoiner(&job);
                       }));
    }
  });
  return fits;
}

TEST(ElasticTest, Joiner_OneOfTwoGivesUp_EndsAlone) {
  testing::internal::CaptureStderr();
  const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                           {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const auto& [old, bad, good] : orders) {
    const TwoFits fits = JoinWithOneThatGivesUp(old, bad, good);
    EXPECT_OK(fits.old.status);
    EXPECT_OK(fits.joined.status);
    EXPECT_EQ(fits.joined.digest, Undisturbed().digest);
  }
  testing::internal::GetCapturedStderr();
}

// Calls a function before each of some steps, once.
class AtSteps final : public Callback {
 public:
  explicit AtSteps(std::map<int64_t, std::function<void()>> calls)
      : calls_(std::move(calls)) {}
  const char* name() const override { return "at_step"; }
  Status OnTrainBatchBegin(FitState& fit) override {
    const auto call = calls_.find(fit.model->iterations());
    if (call == calls_.end()) return Status();
    const std::function<void()> what = call->second;
    calls_.erase(call);
    what();
    return Status();
  }

 private:
  std::map<int64_t, std::function<void()>> calls_;
};

// The state that the joiner received is its own by now.
//
// step  event                                          expected
// 5     worker 1 joins worker 0
// 9     worker 0 is lost; if `third_gives_up`, worker
//       2 joins and gives up
// end                                                  worker 1 is undisturbed
TEST(ElasticTest, Joiner_DonorLostAfterTheTransfer_HasTheWholeState) {
  testing::internal::CaptureStderr();
  for (const bool third_gives_up : {false, true}) {
    SCOPED_TRACE(third_gives_up);
    ElasticJob job;
    job.Arrive(0);
    std::atomic<bool> may_join{false}, third_may_join{false};
    ElasticRun joined;
    const auto train_donor = [&] {
      ElasticCollective collective(&job, 0);
      const auto lets_join = [&] {
        may_join = true;
        AwaitJoiner(&job);
      };
      const auto is_lost = [&] {
        if (third_gives_up) job.Arrive(2);
        third_may_join = true;
        collective.EndInNextCall();
      };
      FitOptions options = Quiet(3);
      options.callbacks = {
          std::make_shared<AtSteps>(std::map<int64_t, std::function<void()>>{
              {5, lets_join}, {9, is_lost}})};
      Train(Exact(&collective), options);
      may_join = third_may_join = true;  // also after a failed fit
    };
    RunThreads(3, [&](int w) {
      if (w == 0) return train_donor();
      Await(w == 1 ? may_join : third_may_join);
      if (w == 2 && !third_gives_up) return;
      if (w == 1) job.Arrive(1);
      ElasticCollective collective(&job, w);
      if (w == 1) {
        joined = Train(Exact(&collective), CallsAt(-1));
      } else {
        JoinWith(Wrong::kGivesUp, &collective).IgnoreError();
      }
    });
    EXPECT_OK(joined.status);
    EXPECT_EQ(joined.digest, Undisturbed().digest);
  }
  testing::internal::GetCapturedStderr();
}

// Runs one worker, which ends in a random call and is started again, `deaths`
// times. `seed` decides the calls. Some of its processes join with a wrong
// setting. Returns the fit of the last process.
ElasticRun LiveToTheEnd(ElasticJob* job, int worker, unsigned seed,
                        int deaths) {
  std::mt19937 random(seed);
  for (;; --deaths) {
    const int most = random() % 2 == 1 ? 60 : 400;
    const int last_call =
        deaths > 0 ? 1 + static_cast<int>(random() % most) : kNever;
    job->Arrive(worker);
    ElasticCollective collective(job, worker, last_call);
    if (random() % 8 == 0 && deaths > 1 && deaths <= 3) {
      const auto wrong = static_cast<Wrong>(random() % 8);
      JoinWith(wrong, &collective).IgnoreError();
      continue;
    }
    const ElasticRun run = Train(Exact(&collective), CallsAt(-1));
    if (!collective.ended()) return run;
  }
}

// No worker is sure to stay: a worker with exit code 0 has the bits of the
// undisturbed run.
TEST(ElasticTest, Workers_AllMayDie_NoBitIsWrong) {
  ASSERT_OK(Undisturbed().status);
  testing::internal::CaptureStderr();
  std::atomic<uint64_t> ended_well{0};
  RandomCases cases("RINGLET_DEATHS");
  while (cases.Next()) {
    SCOPED_TRACE(cases.command());
    std::mt19937 random(static_cast<unsigned>(cases.number()));
    const int workers = 2 + static_cast<int>(random() % 3);
    ElasticJob job;
    // The seed and the number of losses of each worker.
    std::vector<std::pair<unsigned, int>> drawn;
    for (int w = 0; w < workers; ++w) {
      job.Arrive(w);
      const unsigned seed = static_cast<unsigned>(random());
      drawn.emplace_back(seed, static_cast<int>(random() % 5));
    }
    RunThreads(workers, [&](int w) {
      const auto [seed, deaths] = drawn[static_cast<size_t>(w)];
      const ElasticRun run = LiveToTheEnd(&job, w, seed, deaths);
      if (!run.status.ok()) return;
      ++ended_well;
      EXPECT_EQ(run.digest, Undisturbed().digest)
          << cases.command() << ", worker " << w << " of " << workers;
    });
  }
  testing::internal::GetCapturedStderr();
  EXPECT_GE(ended_well, cases.count() / 4);
}

}  // namespace
}  // namespace ringlet
