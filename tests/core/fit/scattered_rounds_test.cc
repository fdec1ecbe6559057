// Rounds of local updates after which no worker has the whole state: sparse
// changes with error feedback, and exchanges that overlap with the next round.
// The reference is separate models and a simple implementation of the changes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/rounds_reference.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

using Delta = LocalUpdates::Delta;
using Job = RoundsJob;

struct Outcome {
  Status status;
  std::vector<float> weights;
  std::vector<double> losses, validation;
};

Outcome Train(const Job& job, Collective* collective) {
  CompileOptions options(collective);
  options.replicas = job.replicas;
  options.local = job.local;
  options.threads = job.threads;
  const auto model = MakeModel(job, options);
  FitOptions fit = Quiet(job.epochs);
  fit.check_replicas_every = 1;
  fit.validation_data = Points(23, 9).Batch(10);
  fit.callbacks = job.callbacks;
  const auto history = model->Fit(MakeData(job), fit);
  Outcome outcome;
  outcome.status = history.status();
  outcome.weights = WeightsOf(model.get());
  if (!history.ok()) return outcome;
  outcome.losses = history->Values("loss");
  outcome.validation = history->Values("val_loss");
  return outcome;
}

Outcome TrainOn(int workers, const Job& job) {
  std::vector<Outcome> ranks(static_cast<size_t>(workers));
  RunRanks(workers, [&](Collective* collective) {
    ranks[static_cast<size_t>(collective->rank())] = Train(job, collective);
  });
  for (const Outcome& rank : ranks) {
    EXPECT_EQ(rank.status.code(), ranks[0].status.code())
        << rank.status.message();
    EXPECT_EQ(rank.weights, ranks[0].weights);
    EXPECT_EQ(rank.losses, ranks[0].losses);
    EXPECT_EQ(rank.validation, ranks[0].validation);
  }
  return ranks[0];
}

// A shape of a run.
struct RunShape {
  const char* name;
  int64_t steps;  // the steps of a round
  void (*set)(Job*);
};
constexpr RunShape kRunShapes[] = {
    {"each step is a round", 1, [](Job* job) { job->local.nesterov = false; }},
    {"5 replicas", 2, [](Job* job) { job->replicas = 5; }},
    {"the epoch's end cuts a round", 3, [](Job* job) { job->batch = 22; }},
    {"replicas without examples", 4,
     [](Job* job) { job->batch = 3, job->examples = 31; }},
    {"an epoch is one round", 100,
     [](Job* job) { job->optimizer = SGD(0.05f, 0.9f).GlobalClipNorm(0.3f); }},
};

// Each format of changes and way of exchange that leaves no worker with the
// whole state, with each shape of a run.
std::vector<Job> Jobs() {
  const std::pair<Delta, const char*> deltas[] = {{Delta::kInt8, "kInt8"},
                                                  {Delta::kFloat32, "kFloat32"},
                                                  {Delta::kSparse, "kSparse"}};
  std::vector<Job> jobs;
  for (const auto& [delta, name] : deltas) {
    for (const bool overlap : {false, true}) {
      if (!overlap && delta != Delta::kSparse) continue;
      for (const RunShape& shape : kRunShapes) {
        Job job;
        job.name = std::string(name) + (overlap ? ", overlap, " : ", ");
        job.name += shape.name;
        job.local.steps = shape.steps;
        job.local.delta = delta;
        job.local.overlap = overlap;
        shape.set(&job);
        jobs.push_back(job);
      }
    }
  }
  return jobs;
}

// --- against models of their own ----------------------------------------

// Sparse rounds equal the reference exactly, except for state, which the
// reference sums in double. Rounds with kFloat32 differ by rounding.
TEST(ScatteredRoundsTest, Rounds_SparseOrOverlapping_FollowTheReference) {
  constexpr double kRounding = 2e-4;
  for (const Job& job : Jobs()) {
    SCOPED_TRACE(job.name);
    if (job.local.delta == Delta::kInt8) continue;
    const std::vector<float> wanted = RoundsReference(job).Train();
    const Outcome outcome = Train(job, nullptr);
    ASSERT_OK(outcome.status);
    ASSERT_EQ(outcome.weights.size(), wanted.size());
    double off = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      off = std::max(off,
                     std::fabs(double{outcome.weights[i]} - double{wanted[i]}));
    }
    EXPECT_LT(off, kRounding);
  }
}

TEST(ScatteredRoundsTest, Rounds_AnyNumberOfWorkers_HaveTheSameBits) {
  for (Job job : Jobs()) {
    SCOPED_TRACE(job.name);
    job.epochs = 2;
    const Outcome one = Train(job, nullptr);
    ASSERT_OK(one.status);
    for (int workers = 2; workers <= job.replicas; ++workers) {
      SCOPED_TRACE(workers);
      job.threads = 1 + workers % 3;
      const Outcome some = TrainOn(workers, job);
      EXPECT_EQ(some.weights, one.weights);
      EXPECT_EQ(some.losses, one.losses);
      EXPECT_EQ(some.validation, one.validation);
    }
  }
}

// --- backups ------------------------------------------------------------

class StopsAt final : public Callback {
 public:
  explicit StopsAt(int64_t step) : step_(step) {}
  const char* name() const override { return "stops_at"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    fit.interrupted |= fit.epoch == 1 && fit.step + 1 >= step_;
    return Status();
  }

 private:
  const int64_t step_;
};

// A job on two or three workers stops in an epoch, and other workers continue
// it. The exchanges made for backups change no bit.
TEST(ScatteredRoundsTest,
     Backup_OtherNumberOfWorkers_ContinuesWithTheSameBits) {
  constexpr int kBefore[] = {1, 3, 2}, kAfter[] = {4, 2, 1};
  int number = 0;
  for (const Job& job : Jobs()) {
    SCOPED_TRACE(number);
    const int before = kBefore[number % 3], after = kAfter[number % 3];
    ++number;
    const auto stopping = [] {
      EarlyStoppingOptions options;
      options.patience = 2;
      options.restore_best_weights = true;
      return EarlyStopping(options);
    };
    Job whole = job;
    whole.callbacks = {stopping()};
    const Outcome undisturbed = Train(whole, nullptr);
    const TempFolder folder;
    const auto train = [&](int workers, bool stops) {
      std::vector<Outcome> ranks(static_cast<size_t>(workers));
      RunRanks(workers, [&](Collective* collective) {
        Job own = job;
        BackupAndRestoreOptions saving;
        saving.save_freq = 1;
        own.callbacks = {BackupAndRestore(folder.path(), saving), stopping()};
        if (stops) own.callbacks.push_back(std::make_shared<StopsAt>(2));
        ranks[static_cast<size_t>(collective->rank())] = Train(own, collective);
      });
      for (const Outcome& r : ranks) EXPECT_EQ(r.weights, ranks[0].weights);
      return ranks[0];
    };
    const Outcome cut = train(before, /*stops=*/true);
    ASSERT_EQ(cut.status.code(), Code::kCancelled) << cut.status.message();
    const Outcome rest = train(after, /*stops=*/false);
    ASSERT_OK(rest.status);
    EXPECT_EQ(rest.weights, undisturbed.weights);
    EXPECT_EQ(rest.losses.back(), undisturbed.losses.back());
    EXPECT_EQ(rest.validation.back(), undisturbed.validation.back());
  }
}

// Trains the first round with backups in the folder, with overlap or with
// sparse changes. Returns the job that continues from there.
Job StoppedWithBackup(const TempFolder& folder, bool overlap) {
  BackupAndRestoreOptions saving;
  saving.save_freq = 1;
  Job job;
  job.local.steps = 2;
  job.local.overlap = overlap;
  if (!overlap) job.local.delta = Delta::kSparse;
  job.callbacks = {BackupAndRestore(folder.path(), saving),
                   std::make_shared<StopsAt>(2)};
  EXPECT_EQ(Train(job, nullptr).status.code(), Code::kCancelled);
  job.callbacks.pop_back();
  return job;
}

// Each replica has state of its own, so the backup needs as many replicas.
TEST(ScatteredRoundsTest, Backup_OfOtherReplicas_IsRefused) {
  for (const int others : {3, 5}) {
    for (const bool overlap : {true, false}) {
      SCOPED_TRACE(std::to_string(others) + (overlap ? " overlap" : " sparse"));
      const TempFolder folder;
      Job job = StoppedWithBackup(folder, overlap);
      job.replicas = others;
      const Status refused = Train(job, nullptr).status;
      EXPECT_EQ(refused.code(), Code::kInvalidArgument);
      EXPECT_TRUE(Contains(refused, "run of 4 replicas"));
    }
  }
}

// A backup of other kinds of rounds is refused too. No message claims that
// training continues.
TEST(ScatteredRoundsTest, Backup_OfOtherRounds_IsRefused) {
  for (const bool overlap : {true, false}) {
    const TempFolder folder;
    const Job job = StoppedWithBackup(folder, overlap);
    for (const bool scatters : {false, true}) {
      Job other = job;
      other.local.overlap = scatters && !overlap;
      other.local.delta =
          scatters && overlap ? Delta::kSparse : Delta::kFloat32;
      testing::internal::CaptureStderr();
      const Status refused = Train(other, nullptr).status;
      EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
      EXPECT_EQ(refused.code(), Code::kInvalidArgument);
      EXPECT_TRUE(
          Contains(refused, overlap ? "a run with overlap (strategy.overlap)"
                                    : "with sparse changes (strategy.delta)"));
    }
  }
}

// A round that was under way as a fit stopped does not continue after a later
// Compile, with or without rounds.
TEST(ScatteredRoundsTest, Compile_RoundUnderWay_ForgetsIt) {
  for (const int64_t steps : {0, 2}) {
    SCOPED_TRACE(steps);
    const TempFolder folder;
    BackupAndRestoreOptions saving;
    saving.save_freq = 1;
    Job job;
    CompileOptions options;
    options.replicas = job.replicas;
    options.local.steps = 2;
    options.local.overlap = true;
    const auto model = MakeModel(job, options), other = MakeModel(job, options);
    FitOptions fit = Quiet(2);
    fit.callbacks = {BackupAndRestore(folder.path(), saving),
                     std::make_shared<StopsAt>(2)};
    ASSERT_EQ(model->Fit(MakeData(job), fit).status().code(), Code::kCancelled);
    CompileOptions next;
    next.replicas = job.replicas;
    next.local.steps = steps;
    std::copy_n(model->weights(), model->num_weights(), other->weights());
    for (Sequential* each : {model.get(), other.get()}) {
      each->Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits), {},
                    next);
      ASSERT_OK(each->Fit(MakeData(job), Quiet(1)).status());
    }
    EXPECT_EQ(WeightsOf(model.get()), WeightsOf(other.get()));
  }
}

// A loop of the program's own that leaves its last epoch has all rounds that it
// has made.
TEST(ScatteredRoundsTest, Loop_EndsWithinAnEpoch_HasItsLastRound) {
  Job job;
  CompileOptions options;
  options.replicas = job.replicas;
  options.local.steps = 2;
  options.local.overlap = true;
  std::vector<std::vector<float>> weights;
  for (const bool ends : {true, false}) {
    const auto model = MakeModel(job, options);
    TrainingLoop loop(model.get(), MakeData(job), Quiet(1));
    ASSERT_OK(loop.Begin());
    while (loop.HasStep()) ASSERT_OK(loop.Step());
    if (ends) {
      ASSERT_OK(loop.EndEpoch());
    }
    ASSERT_OK(loop.End());
    weights.push_back(WeightsOf(model.get()));
  }
  EXPECT_EQ(weights[0], weights[1]);
}

class EndsAt final : public Callback {
 public:
  explicit EndsAt(int64_t step) : step_(step) {}
  const char* name() const override { return "stops_at"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    if (fit.epoch == 1 && fit.step + 1 >= step_) fit.stop_training = 1;
    return Status();
  }

 private:
  const int64_t step_;
};

// Without a backup only the model remains.
TEST(ScatteredRoundsTest, Fit_CutOff_HasItsLastRound) {
  for (const Delta delta : {Delta::kInt8, Delta::kSparse}) {
    for (const int workers : {1, 2}) {
      SCOPED_TRACE(workers);
      Job job;
      job.local.steps = 2;
      job.local.delta = delta;
      job.local.overlap = true;
      job.callbacks = {std::make_shared<EndsAt>(2)};
      const Outcome ended = TrainOn(workers, job);
      ASSERT_OK(ended.status);
      job.callbacks = {std::make_shared<StopsAt>(2)};
      const Outcome cut = TrainOn(workers, job);
      EXPECT_EQ(cut.status.code(), Code::kCancelled) << cut.status.message();
      EXPECT_EQ(cut.weights, ended.weights);
    }
  }
}

// Error feedback is a fit's: a model that was saved and loaded has as much.
TEST(ScatteredRoundsTest, Fit_SecondTime_BeginsWithoutErrorFeedback) {
  for (const Delta delta : {Delta::kSparse, Delta::kInt8}) {
    CompileOptions options;
    options.replicas = 3;
    options.local.steps = 2;
    options.local.delta = delta;
    options.local.overlap = true;
    Job job;
    const auto twice = MakeModel(job, options), other = MakeModel(job, options);
    ASSERT_OK(twice->Fit(MakeData(job), Quiet(1)));
    std::vector<StateSpan> from, to;
    for (const auto& [model, spans] :
         {std::pair{twice.get(), &from}, {other.get(), &to}}) {
      model->weights_state()->AppendState(spans);
      model->optimizer_state()->AppendState(spans);
    }
    ASSERT_EQ(from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i) {
      std::memcpy(to[i].data, from[i].data, from[i].bytes());
    }
    ASSERT_OK(twice->Fit(MakeData(job), Quiet(1)));
    ASSERT_OK(other->Fit(MakeData(job), Quiet(1)));
    EXPECT_EQ(WeightsOf(twice.get()), WeightsOf(other.get()));
  }
}

// --- refusals -----------------------------------------------------------

TEST(ScatteredRoundsTest, Check_ParticipationQuorumOrAutoSteps_IsRefused) {
  LocalUpdates with[3];
  with[0].participation = 2;
  with[1].quorum = 1;
  with[2].steps = LocalUpdates::kAutoSteps;
  const char* const names[] = {"participation", "quorum", "local_steps auto"};
  for (int i = 0; i < 3; ++i) {
    if (with[i].steps == 0) with[i].steps = 2;
    EXPECT_OK(with[i].Check());
    LocalUpdates overlap = with[i], sparse = with[i];
    overlap.overlap = true;
    sparse.delta = Delta::kSparse;
    for (const LocalUpdates& local : {overlap, sparse}) {
      const std::string why = local.Check().message();
      EXPECT_TRUE(Contains(why, names[i]));
    }
  }
}

TEST(ScatteredRoundsTest, Compile_ElasticCollective_IsRefused) {
  ElasticJob elastic;
  elastic.Arrive(0);
  ElasticCollective collective(&elastic, 0);
  const auto compile = [&](Delta delta, bool overlap) {
    CompileOptions options(&collective);
    options.replicas = 4;
    options.local.steps = 2;
    options.local.delta = delta;
    options.local.overlap = overlap;
    return MakeModel(Job(), options)->status();
  };
  EXPECT_OK(compile(Delta::kInt8, /*overlap=*/false));
  const struct {
    Delta delta;
    bool overlap;
    const char* fields;
  } refused[] = {
      {Delta::kSparse, false, "delta sparse with policy shrink"},
      {Delta::kFloat32, true, "overlap with policy shrink"},
      {Delta::kSparse, true, "delta sparse and overlap with policy shrink"}};
  for (const auto& each : refused) {
    const Status status = compile(each.delta, each.overlap);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    for (const char* const part :
         {each.fields, "policy wait with BackupAndRestore",
          "int8 or float32 without overlap"}) {
      EXPECT_TRUE(Contains(status, part));
    }
  }
}

TEST(ScatteredRoundsTest, Setting_DiffersOnOneRank_ErrorNamesIt) {
  for (const bool overlap : {false, true}) {
    std::vector<std::string> messages(2);
    RunRanks(2, [&](Collective* collective) {
      CompileOptions options(collective);
      options.local.steps = 2;
      if (collective->rank() == 1 && overlap) options.local.overlap = true;
      if (collective->rank() == 1 && !overlap) {
        options.local.delta = Delta::kSparse;
      }
      messages[static_cast<size_t>(collective->rank())] =
          MakeModel(Job(), options)->status().message();
    });
    for (const std::string& each : messages) {
      EXPECT_TRUE(Contains(each, overlap ? "overlap of rounds" : "the delta"));
    }
  }
}

}  // namespace
}  // namespace ringlet
