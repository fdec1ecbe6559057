// Fits of workers that are lost and join again while they train, as threads.
// The final bits equal the bits of an undisturbed run.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/random_cases.h"
#include "../../support/slow_layer.h"
#include "../../support/tiny_model.h"
#include "core/fit/fit_details.h"
#include "core/fit/run_state.h"
#include "elastic_fits.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

// Runs worker `worker`. Its process ends and starts again `restarts` times.
void RunWorker(ElasticJob* job, int worker, unsigned seed, int restarts,
               int64_t local_steps, int* losses, int* views) {
  std::mt19937 random(seed);
  // A fit makes at most `calls` collective calls. kMinLosses checks that enough
  // processes end before their fit does.
  const unsigned calls = local_steps == 0 ? 400 : 80;
  for (;;) {
    const int last_call =
        restarts-- > 0 ? 1 + static_cast<int>(random() % calls) : kNever;
    job->Arrive(worker);
    ElasticCollective collective(job, worker, last_call);
    const ElasticRun run = Train(Exact(&collective, local_steps));
    *views += collective.reforms() - 1;
    if (collective.ended()) {
      ++*losses;
      continue;
    }
    ASSERT_OK(run.status);
    const ElasticRun& undisturbed = Undisturbed(local_steps);
    EXPECT_EQ(run.digest, undisturbed.digest) << "worker " << worker;
    // The losses are empty if this process joined after the last epoch.
    if (!run.losses.empty()) {
      EXPECT_EQ(run.losses.back(), undisturbed.losses.back());
    }
    return;
  }
}

// With fewer losses, or views after the first ones, the seeds test too little.
constexpr int kMinLosses = 20;

void ExpectSameBitsAfterLosses(int64_t local_steps) {
  ASSERT_OK(Undisturbed(local_steps).status);
  int losses = 0, views = 0;
  for (unsigned seed = 1; seed <= SeedCount() && !testing::Test::HasFailure();
       ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int workers = 2 + static_cast<int>(random() % 3);
    const int survivor = static_cast<int>(random() % 4) % workers;
    ElasticJob job;
    std::vector<int> losses_of(static_cast<size_t>(workers)),
        views_of(losses_of);
    std::vector<std::thread> threads;
    for (int w = 0; w < workers; ++w) job.Arrive(w);  // no worker begins alone
    for (int w = 0; w < workers; ++w) {
      const unsigned own = random();
      // Worker `survivor` never ends: a joining worker takes the state from it.
      const int restarts = w == survivor ? 0 : static_cast<int>(random() % 4);
      threads.emplace_back(
          [&job, &losses_of, &views_of, w, own, restarts, local_steps] {
            RunWorker(&job, w, own, restarts, local_steps,
                      &losses_of[static_cast<size_t>(w)],
                      &views_of[static_cast<size_t>(w)]);
          });
    }
    for (std::thread& thread : threads) thread.join();
    for (const int n : losses_of) losses += n;
    for (const int n : views_of) views += n;
  }
  EXPECT_GT(losses, kMinLosses);
  EXPECT_GT(views, kMinLosses);
}

TEST(ElasticTest, Workers_LostAndJoinAgain_EndWithTheSameBits) {
  ExpectSameBitsAfterLosses(0);
}
TEST(ElasticTest, Workers_LostInRounds_EndWithTheSameBits) {
  ExpectSameBitsAfterLosses(2);
  ExpectSameBitsAfterLosses(4);
}

// Three workers have eight replicas. One worker is slow, and one may be lost.
// The results of Fit, Evaluate and Predict have the bits of one worker alone.
void ExpectReplicasFollowSpeed(int64_t local_steps) {
  struct Whole {
    uint64_t digest = 0;
    double loss = 0, val_loss = 0, evaluated = 0;
    std::vector<float> predicted;
    int trained = 0;
  };
  const auto train = [=](Collective* collective, int millis) {
    Whole out;
    CompileOptions options = Exact(collective, local_steps);
    options.replicas = 8;
    const auto slow = std::make_shared<SlowLayer>(millis);
    const auto model = SlowModel(slow, options);
    FitOptions fit = Quiet(3);
    fit.steps_per_epoch = 50;
    fit.validation_data = Points(61).Batch(16);
    const Result<History> history =
        model->Fit(Points(203).Shuffle(3).Repeat().Batch(40), fit);
    out.trained = slow->trained();
    if (!history.ok()) return out;
    out.digest = model->DigestWeights();
    out.loss = *history->logs.back().Find("loss");
    out.val_loss = *history->logs.back().Find("val_loss");
    EvaluateOptions quiet;
    quiet.verbose = Verbose::kSilent;
    const auto evaluated = model->Evaluate(Points(61).Batch(16), quiet);
    if (evaluated.ok()) out.evaluated = *evaluated->Find("loss");
    const auto predicted = model->Predict(Points(61).Batch(16));
    if (predicted.ok()) out.predicted = predicted.value();
    return out;
  };
  const Whole alone = train(nullptr, 0);
  ASSERT_NE(alone.digest, 0u);
  for (const int last_call : {kNever, 300}) {
    SCOPED_TRACE("call " + std::to_string(last_call));
    ElasticJob job;
    Whole workers[3];
    RunWorkers(&job, 3, [&](int w) {
      ElasticCollective collective(&job, w, w == 2 ? last_call : kNever);
      workers[w] = train(&collective, w == 1 ? 8 : 2);
    });
    for (const int w : {0, 1, 2}) {
      if (w == 2 && last_call < 1000) continue;
      SCOPED_TRACE("worker " + std::to_string(w));
      EXPECT_EQ(workers[w].digest, alone.digest);
      EXPECT_EQ(workers[w].loss, alone.loss);
      EXPECT_EQ(workers[w].val_loss, alone.val_loss);
      EXPECT_EQ(workers[w].evaluated, alone.evaluated);
      EXPECT_TRUE(workers[w].predicted == alone.predicted);
    }
    EXPECT_LT(workers[1].trained * 10, workers[0].trained * 9);
  }
}

TEST(ElasticTest, Assignment_SlowWorker_FollowsSpeedsAndChangesNoBit) {
  ExpectReplicasFollowSpeed(/*local_steps=*/0);
}

TEST(ElasticTest, Assignment_SlowWorkerInRounds_FollowsSpeeds) {
  ExpectReplicasFollowSpeed(/*local_steps=*/7);
}

// All begin with the weights of worker 0. It ends in any call of its Compile
// and of the first steps, and does not come back. No step was trained, and the
// other workers begin with one and the same model.
TEST(ElasticTest, Compile_FirstWorkerIsLost_OthersBeginWithOneModel) {
  for (const bool own_weights : {false, true}) {
    for (int last_call = 1; last_call < 40 && !HasFailure(); ++last_call) {
      SCOPED_TRACE("call " + std::to_string(last_call));
      ElasticJob job;
      uint64_t digests[3] = {};
      RunWorkers(&job, 3, [&](int w) {
        ElasticCollective collective(&job, w, w == 0 ? last_call : kNever);
        Sequential model(
            {Input({2}), Dense(16, kRelu), Dropout(0.2f), Dense(3)});
        if (own_weights) {
          const auto n = static_cast<size_t>(model.num_weights());
          EXPECT_OK(model.SetInitialWeights(
              std::vector<float>(n, 0.01f * static_cast<float>(w + 1))));
        }
        model.Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                      {}, Exact(&collective));
        const Status status =
            model.Fit(Points(203).Batch(40), Quiet(1)).status();
        if (w == 0) return;
        EXPECT_OK(status);
        digests[w] = model.DigestWeights();
      });
      EXPECT_EQ(digests[1], digests[2]);
    }
  }
}

// One worker requests a stop in the step in which another is lost.
TEST(ElasticTest, StopRequest_AnotherWorkerIsLost_IsKept) {
  for (unsigned seed = 1; seed <= 24 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int workers = 2 + static_cast<int>(random() % 3);
    const int ending_worker = static_cast<int>(random() % 2);
    const int64_t at = random() % 16;
    const bool raises = random() % 2 == 0;
    ElasticJob job;
    testing::internal::CaptureStderr();
    RunWorkers(&job, workers, [&](int w) {
      ElasticCollective collective(&job, w);
      const auto callback = std::make_shared<AtStep>(
          at,
          [&](FitState& fit) {
            if (w == ending_worker) {
              collective.EndInNextCall();
            } else if (w == 1 - ending_worker && raises) {
              raise(SIGTERM);
            } else if (w == 1 - ending_worker) {
              fit.interrupted = true;
            }
          },
          raises);
      FitOptions options = Quiet(3);
      options.callbacks = {callback};
      const ElasticRun run = Train(Exact(&collective), options);
      if (w == ending_worker) return;
      EXPECT_EQ(run.status.code(),
                raises ? Code::kInterrupted : Code::kCancelled)
          << run.status.message();
      EXPECT_TRUE(callback->saved()) << "worker " << w;
    });
    const std::string printed = testing::internal::GetCapturedStderr();
    // A thread that has left has no rank in the message, but counts as lost.
    EXPECT_TRUE(Contains(printed, "warning: epoch"));
    EXPECT_TRUE(Contains(printed, "; continuing with the present workers"));
    EXPECT_FALSE(Contains(printed, "note: "));
    if (HasFailure()) ADD_FAILURE() << printed;
  }
}

// A callback calls the collective behind a step, as it does to save. One worker
// is lost there. So no worker has completed that step and its callbacks.
class BarrierAfterStep final : public Callback {
 public:
  explicit BarrierAfterStep(std::function<void(FitState&)> during)
      : during_(std::move(during)) {}
  const char* name() const override { return "meets_behind"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    Collective* const collective = fit.model->collective();
    RINGLET_RETURN_IF_ERROR(collective->Barrier());
    during_(fit);
    return collective->Barrier();
  }

 private:
  const std::function<void(FitState&)> during_;
};

TEST(ElasticTest, Loss_InACallbackAfterAStep_EndsWithTheSameBits) {
  for (const int64_t local_steps : {0, 2}) {
    SCOPED_TRACE(local_steps);
    ElasticJob job;
    RunWorkers(&job, 3, [&](int w) {
      ElasticCollective collective(&job, w);
      FitOptions options = Quiet(3);
      options.callbacks = {
          std::make_shared<BarrierAfterStep>([&](FitState& fit) {
            if (w == 0 && fit.model->iterations() == 8) {
              collective.EndInNextCall();
            }
          })};
      const ElasticRun run = Train(Exact(&collective, local_steps), options);
      if (w == 0) return;
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, Undisturbed(local_steps).digest);
    });
  }
}

// Meets the other workers at the end of each step, as ModelCheckpoint does.
class BarrierAtStepEnd final : public Callback {
 public:
  const char* name() const override { return "meets_at_ends"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    return fit.model->collective()->Barrier();
  }
};

// How many steps have ended, of the run.
class StepEndCounter final : public Callback {
 public:
  const char* name() const override { return "counts_ends"; }
  Status OnSetup(FitState&) override {
    ends = 0;
    return Status();
  }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    ends += fit.steps_taken;
    return Status();
  }
  void AppendState(std::vector<StateSpan>* spans) override {
    spans->push_back({"callback/counts_ends/ends", DType::kInt64, {}, &ends});
  }
  int64_t ends = 0;
};

// One of three workers ends in any of its calls, also in calls of callbacks.
// The other workers are behind a step that all have made. The worker ends once,
// and the run continues.
TEST(ElasticTest, Loss_InACallbackAtAStepsEnd_CostsNoStep) {
  for (const int64_t local_steps : {0, 2}) {
    for (int last_call = 1; last_call < 200 && !HasFailure(); ++last_call) {
      if (!RunsCase(last_call)) continue;
      SCOPED_TRACE("rounds of " + std::to_string(local_steps) + ", call " +
                   std::to_string(last_call));
      ElasticJob job;
      RunWorkers(&job, 3, [&](int w) {
        ElasticCollective collective(&job, w, w == 1 ? last_call : kNever);
        const auto counter = std::make_shared<StepEndCounter>();
        FitOptions fit = Quiet(3);
        fit.cross_check = false;
        fit.callbacks = {std::make_shared<BarrierAtStepEnd>(), counter};
        const ElasticRun run = Train(Exact(&collective, local_steps), fit);
        if (collective.ended()) return;
        ASSERT_OK(run.status);
        EXPECT_EQ(run.digest, Undisturbed(local_steps).digest);
        EXPECT_EQ(counter->ends, 3 * 6);
      });
    }
  }
}

// Leaves its worker with an incomplete state after a loss.
class StateBreaker final : public Callback {
 public:
  const char* name() const override { return "takes_a_part"; }
  Status OnTrainBegin(FitState& fit) override {
    if (!fit.details->after_loss || took_) return Status();
    fit.details->source = RestoreSource::kLoading;
    took_ = true;
    std::fill_n(fit.model->weights(), 10, 1e9f);
    fit.epoch = 2;
    return PeerLost(1, "the chief, which gave its backup, was lost");
  }

 private:
  bool took_ = false;
};

// The verified point is still in memory.
TEST(ElasticTest, Loss_StateCutOff_CostsOnlyStepsSinceTheLastCheck) {
  for (const int64_t local_steps : {0, 2}) {
    SCOPED_TRACE(local_steps);
    ElasticJob job;
    RunWorkers(&job, 2, [&](int w) {
      ElasticCollective collective(&job, w, w == 1 ? 60 : kNever);
      FitOptions fit = Quiet(3);
      fit.callbacks = {std::make_shared<StateBreaker>()};
      const ElasticRun run = Train(Exact(&collective, local_steps), fit);
      if (collective.ended()) return;
      ASSERT_OK(run.status);
      EXPECT_EQ(run.digest, Undisturbed(local_steps).digest);
    });
  }
}

// The present chief shows the progress; the other workers print a line at their
// start and at their end.
TEST(ElasticTest, Chief_LowerRankReturns_PrintsTheLinesOfAWorker) {
  ElasticJob job;
  job.Arrive(1);
  std::atomic<bool> called{false};
  FILE* const out = std::tmpfile();
  std::thread returns([&] {
    while (!called) std::this_thread::yield();
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    FitOptions options = Quiet(3);
    options.callbacks = {
        std::make_shared<AtStep>(-1, nullptr, /*handles_signals=*/false)};
    EXPECT_OK(Train(Exact(&collective), options).status);
  });
  {
    ElasticCollective collective(&job, 1);
    FitOptions options = Quiet(3);
    options.verbose = Verbose::kLine;
    options.out = out;
    options.callbacks = {std::make_shared<AtStep>(
        5,
        [&](FitState&) {
          called = true;
          while (!job.has_joiner()) std::this_thread::yield();
        },
        false)};
    EXPECT_OK(Train(Exact(&collective), options).status);
  }
  returns.join();
  std::string text(static_cast<size_t>(std::ftell(out)), '\0');
  std::rewind(out);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), out), text.size());
  std::fclose(out);
  EXPECT_TRUE(Contains(text, "worker 1 of 2: trains "));
  EXPECT_TRUE(Contains(text, "worker 1 of 2: done: "));
}

// Keeps the state at each epoch's start, in case no worker has a newer one.
class StateKeeper final : public Callback {
 public:
  explicit StateKeeper(bool restores) : restores_(restores) {}
  const char* name() const override { return "keeps"; }
  Status OnTrainBegin(FitState& fit) override {
    if (fit.details->source == RestoreSource::kMissing && restores_) {
      RunState state(&fit);
      std::vector<StateSpan> spans;
      state.AppendState(&spans);
      for (size_t i = 0; i < spans.size(); ++i) {
        std::memcpy(spans[i].data, kept_[i].data(), kept_[i].size());
      }
      RINGLET_RETURN_IF_ERROR(state.StateLoaded());
      fit.details->source = RestoreSource::kBackup;
      restored_ = true;
    }
    return Status();
  }
  Status OnSavePoint(FitState& fit, bool epoch_ended) override {
    if (!epoch_ended) return Status();
    RunState state(&fit);
    std::vector<StateSpan> spans;
    state.AppendState(&spans);
    kept_.clear();
    for (const StateSpan& span : spans) {
      const auto* const begin = static_cast<const char*>(span.data);
      kept_.emplace_back(begin, begin + span.bytes());
    }
    return Status();
  }
  bool RestoresAfterLoss() const override { return restores_; }
  bool restored() const { return restored_; }

 private:
  const bool restores_;
  std::vector<std::vector<char>> kept_;
  bool restored_ = false;
};

// One worker is behind. The donor is lost in the middle of the transfer. The
// worker continues from the verified point or from a backup, if there is one,
// and never from a mixed state.
TEST(ElasticTest, Loss_NoRankHasTheWholeModel_LoadsTheBackup) {
  struct Case {
    bool restores, compares;
  };
  for (const Case c : {Case{true, false}, {false, false}, {false, true}}) {
    ElasticJob job;
    RunWorkers(&job, 3, [&](int w) {
      ElasticCollective collective(&job, w);
      const auto keeper = std::make_shared<StateKeeper>(c.restores);
      FitOptions options = Quiet(3);
      const auto lose_state = [&](FitState& fit) {
        if (w == 2) collective.EndInNextCall();
        if (w == 1) fit.model->weights()[0] += 1;
        if (w == 0) collective.EndInBroadcast(1);
      };
      options.callbacks = {
          keeper,
          std::make_shared<AtStep>(7, lose_state, /*handles_signals=*/false)};
      options.cross_check = c.compares;
      const ElasticRun run = Train(Exact(&collective), options);
      if (w != 1) return;
      EXPECT_EQ(keeper->restored(), c.restores);
      if (c.restores || c.compares) {
        EXPECT_OK(run.status);
        EXPECT_EQ(run.digest, Undisturbed().digest);
      } else {
        EXPECT_TRUE(
            Contains(run.status, "no reachable worker has a valid state"));
      }
    });
  }
}

TEST(ElasticTest, Compile_ResultDependsOnTheWorkers_IsRefused) {
  for (const bool exact : {false, true}) {
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    CompileOptions options = Exact(&collective);
    if (!exact) options.reduction = Reduction::kRing;
    Sequential model({Input({2}), Dense(4),
                      BatchNormalization().Synchronized(exact), Dense(3)});
    model.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits), {},
                  options);
    const std::string message = model.status().message();
    EXPECT_TRUE(
        Contains(message, exact ? "is synchronized" : "reduction exact"));
  }
}

// Records the weights at the last epoch's end, and those with which the fit
// begins again after a loss. The worker of `lost` ends as the fit ends.
class WeightRecorder final : public Callback {
 public:
  explicit WeightRecorder(ElasticCollective* lost) : lost_(lost) {}
  const char* name() const override { return "notes_weights"; }
  Status OnSavePoint(FitState& fit, bool epoch_ended) override {
    if (epoch_ended) trained = WeightsOf(fit.model);
    return Status();
  }
  Status OnTrainBegin(FitState& fit) override {
    if (fit.details->in_memory()) again = WeightsOf(fit.model);
    return Status();
  }
  Status OnTrainEnd(FitState& fit, const Logs&) override {
    result = WeightsOf(fit.model);
    if (lost_ != nullptr) lost_->EndInNextCall();
    return Status();
  }
  std::vector<float> trained, again, result;

 private:
  ElasticCollective* const lost_;
};

// use_ema replaces the weights by their averages before the last barrier. When
// the fit begins again, BackupAndRestore must save the trained weights.
TEST(ElasticTest, LossAfterFinalize_FitBeginsAgain_WithTheTrainedWeights) {
  for (const bool compares : {false, true}) {
    SCOPED_TRACE(compares);
    ElasticJob job;
    std::shared_ptr<WeightRecorder> notes[3];
    RunWorkers(&job, 3, [&](int w) {
      ElasticCollective collective(&job, w);
      notes[w] =
          std::make_shared<WeightRecorder>(w == 2 ? &collective : nullptr);
      Optimizer averaged = Adam(0.01f);
      averaged.use_ema = true;
      auto model = TinyModel(averaged, 0, Exact(&collective));
      FitOptions fit = Quiet(2);
      fit.cross_check = compares;
      fit.callbacks = {notes[w]};
      const Status status =
          model->Fit(Points(203).Shuffle(3).Batch(40), fit).status();
      EXPECT_EQ(status.ok(), w != 2) << status.message();
    });
    for (int w = 0; w < 2; ++w) {
      EXPECT_TRUE(notes[w]->again == notes[w]->trained);
      EXPECT_FALSE(notes[w]->result == notes[w]->trained);
      EXPECT_TRUE(notes[w]->result == notes[2]->result);
    }
  }
}

}  // namespace
}  // namespace ringlet
