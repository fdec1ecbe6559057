// A run of R replicas, on any number of workers.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "io/checkpoint/backup_metadata.h"
#include "ringlet/checkpoint.h"
#include "ringlet/compute.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

struct Job {
  int replicas = 4;
  int64_t examples = 50, batch = 16, epochs = 2, steps_per_epoch = 0;
  int64_t validation_batch = 10;
  Optimizer optimizer = Adam(0.01f);
  AutoShardPolicy policy = AutoShardPolicy::kData;
  bool repeats = false, prefetch = true, recompute = false, functional = false;
  int threads = 1;
  Reduction reduction = Reduction::kRing;
  LocalUpdates local;
  std::vector<std::shared_ptr<Callback>> callbacks;
};

struct Outcome {
  Status status;
  std::vector<double> losses, accuracies, validation;
  std::vector<float> weights, predictions;
};

CompileOptions OptionsOf(const Job& job, Collective* collective) {
  CompileOptions options(collective);
  options.seed = 3;
  options.replicas = job.replicas;
  options.reduction = job.reduction;
  options.local = job.local;
  options.recompute = job.recompute;
  options.threads = job.threads;
  return options;
}

// Two inputs, a merge of branches and a layer that is called twice.
std::unique_ptr<Model> TwoInputs(const Job& job,
                                 const CompileOptions& options) {
  auto model = std::make_unique<Functional>();
  const auto a = model->Add(Input({2})), b = model->Add(Input({2}));
  const auto once = model->Add(Dense(8, kTanh), {a});
  const auto twice = model->CallAgain(once, {b});
  const auto both = model->Add(Add(), {once, twice});
  const auto noisy = model->Add(Dropout(0.3f), {both});
  model->Add(Dense(2), {model->Add(BatchNormalization(0.9f), {noisy})});
  model->Compile(job.optimizer, MeanSquaredError(), {}, options);
  return model;
}

std::unique_ptr<Model> ModelOf(const Job& job, Collective* collective) {
  const CompileOptions options = OptionsOf(job, collective);
  if (job.functional) return TwoInputs(job, options);
  return TinyModel(job.optimizer, 0.3f, options);
}

Dataset DataOf(const Job& job, int64_t examples, uint64_t seed) {
  const Dataset points = Points(examples, seed);
  return job.functional ? Zip({points, points}, {points}) : points;
}

Outcome Train(const Job& job, Collective* collective) {
  Outcome outcome;
  const auto model = ModelOf(job, collective);
  Dataset data = DataOf(job, job.examples, 7).AutoShard(job.policy).Shuffle(3);
  if (job.repeats) data = data.Repeat();
  FitOptions options = Quiet(job.epochs);
  options.steps_per_epoch = job.steps_per_epoch;
  options.prefetch = job.prefetch;
  options.check_replicas_every = 1;
  options.validation_data = DataOf(job, 23, 9).Batch(job.validation_batch);
  options.callbacks = job.callbacks;
  const auto history = model->Fit(data.Batch(job.batch), options);
  outcome.status = history.status();
  if (!history.ok()) return outcome;
  outcome.losses = history->Values("loss");
  if (!job.functional) outcome.accuracies = history->Values("accuracy");
  outcome.validation = history->Values("val_loss");
  outcome.weights = WeightsOf(model.get());
  const auto predicted =
      model->Predict(DataOf(job, 23, 9).Batch(job.validation_batch));
  EXPECT_OK(predicted.status());
  outcome.predictions = predicted.value();
  return outcome;
}

// Trains on `workers` ranks and returns their common outcome.
Outcome TrainOn(int workers, const Job& job) {
  if (workers == 1) return Train(job, nullptr);
  std::vector<Outcome> ranks(static_cast<size_t>(workers));
  RunRanks(workers, [&](Collective* collective) {
    ranks[static_cast<size_t>(collective->rank())] = Train(job, collective);
  });
  for (const Outcome& rank : ranks) {
    EXPECT_OK(rank.status);
    EXPECT_EQ(rank.weights, ranks[0].weights);
    EXPECT_EQ(rank.losses, ranks[0].losses);
    EXPECT_EQ(rank.validation, ranks[0].validation);
    EXPECT_EQ(rank.predictions, ranks[0].predictions);
  }
  return ranks[0];
}

template <typename T>
void ExpectNear(const std::vector<T>& a, const std::vector<T>& b, double by) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], by * (1 + std::fabs(b[i]))) << i;
  }
}

void ExpectSame(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.weights, b.weights);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.accuracies, b.accuracies);
  EXPECT_EQ(a.validation, b.validation);
  EXPECT_EQ(a.predictions, b.predictions);
}

// One worker has the same outcome, for any assignment and number of threads.
void ExpectSameOnMoreWorkers(Job job, const Outcome& one) {
  for (int workers = 2; workers <= job.replicas; ++workers) {
    SCOPED_TRACE(workers);
    job.threads = 1 + workers % 3;
    ExpectSame(TrainOn(workers, job), one);
  }
}

std::vector<Job> Jobs() {
  std::vector<Job> jobs(11);
  jobs[1].batch = 15;
  jobs[2].batch = 5;  // some replicas have no example of it
  jobs[3].optimizer = SGD(0.1f, 0.9f).GlobalClipNorm(0.5f);
  jobs[4].optimizer = Adam(0.01f).GradientAccumulationSteps(3);
  jobs[4].prefetch = false;
  jobs[5].policy = AutoShardPolicy::kOff;
  jobs[6].repeats = true;
  jobs[6].steps_per_epoch = 3;
  jobs[7].validation_batch = 23;
  jobs[7].batch = 6;
  jobs[7].threads = 2;
  jobs[8].recompute = true;
  jobs[8].replicas = 5;
  jobs[9].functional = true;
  jobs[10].functional = true;
  jobs[10].replicas = 7;
  jobs[10].prefetch = false;
  return jobs;
}

// The workers' sums are made in the order of the ranks. So one worker that
// computes all replicas has the bits of as many workers.
TEST(ReplicasTest, Replicas_OnOneWorker_HaveTheBitsOfAsManyWorkers) {
  int number = 0;
  for (const Job& job : Jobs()) {
    SCOPED_TRACE(number++);
    const Outcome one = TrainOn(1, job), all = TrainOn(job.replicas, job);
    ASSERT_OK(one.status);
    ExpectSame(one, all);
  }
}

TEST(ReplicasTest, Replicas_OnFewerWorkers_FollowWithinRounding) {
  int number = 0;
  for (const Job& job : Jobs()) {
    SCOPED_TRACE(number++);
    const Outcome all = TrainOn(job.replicas, job);
    for (int workers = 2; workers < job.replicas; ++workers) {
      SCOPED_TRACE(workers);
      const Outcome some = TrainOn(workers, job);
      ExpectNear(some.losses, all.losses, 1e-4);
      ExpectNear(some.validation, all.validation, 1e-3);
      ExpectNear(some.weights, all.weights, 1e-3);
    }
  }
}

// Exact sums: for any assignment and number of threads.
TEST(ReplicasTest, ExactSums_AnyNumberOfWorkers_HaveTheSameBits) {
  int number = 0;
  for (Job job : Jobs()) {
    SCOPED_TRACE(number++);
    const Outcome floats = TrainOn(job.replicas, job);
    job.reduction = Reduction::kExact;
    const Outcome one = TrainOn(1, job);
    ASSERT_OK(one.status);
    ExpectNear(one.weights, floats.weights, 1e-3);
    ExpectSameOnMoreWorkers(job, one);
  }
}

// Rounds of 1 to 7 steps, some cut short by the epoch's end.
TEST(ReplicasTest, LocalUpdates_AnyNumberOfWorkers_HaveTheSameBits) {
  int number = 0;
  for (Job job : Jobs()) {
    SCOPED_TRACE(number++);
    if (job.optimizer.accumulates()) job.optimizer = Adam(0.01f).ClipNorm(1);
    job.local.steps = 1 + number % 3 + (number % 4 == 0 ? 4 : 0);
    if (number % 3 == 0) job.local.delta = LocalUpdates::Delta::kFloat32;
    const Outcome one = TrainOn(1, job);
    ASSERT_OK(one.status);
    ExpectSameOnMoreWorkers(job, one);
  }
}

// The weights do not change, so only examples, masks, statistics of batches and
// metrics could differ.
TEST(ReplicasTest, ExamplesMasksMetrics_FewerWorkers_EqualThoseOfReplicas) {
  int number = 0;
  for (Job job : Jobs()) {
    SCOPED_TRACE(number++);
    job.optimizer = SGD(0);
    job.epochs = 4;
    const Outcome all = TrainOn(job.replicas, job);
    for (int workers = 1; workers < job.replicas; ++workers) {
      SCOPED_TRACE(workers);
      const Outcome some = TrainOn(workers, job);
      EXPECT_EQ(some.losses, all.losses);
      EXPECT_EQ(some.accuracies, all.accuracies);
    }
    job.replicas += 1;
    EXPECT_NE(TrainOn(1, job).losses, all.losses) << "the test sees nothing";
  }
}

// Without num_replicas there are as many replicas as workers.
TEST(ReplicasTest, NumReplicas_NotGiven_IsTheNumberOfWorkers) {
  for (int workers = 1; workers <= 3; ++workers) {
    Job job;
    job.replicas = workers;
    const Outcome given = TrainOn(workers, job);
    job.replicas = 0;
    const Outcome not_given = TrainOn(workers, job);
    EXPECT_EQ(given.weights, not_given.weights);
    EXPECT_EQ(given.losses, not_given.losses);
  }
}

// Requests the end of the fit at a step, as a signal does.
class StopsAt final : public Callback {
 public:
  explicit StopsAt(int64_t step) : step_(step) {}
  const char* name() const override { return "stops_at"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    fit.interrupted |= fit.epoch == 1 && fit.step + 1 == step_;
    return Status();
  }

 private:
  const int64_t step_;
};

// Stops on two workers within an epoch, and continues on one and on four.
void ExpectGoesOn(Job job) {
  job.epochs = 3;
  job.batch = 12;
  const Outcome undisturbed = TrainOn(4, job);
  for (const int workers : {1, 2, 4}) {
    const TempFolder folder;
    std::vector<Status> ended(2);
    RunRanks(2, [&](Collective* collective) {
      Job cut = job;
      cut.callbacks = {BackupAndRestore(folder.path()),
                       std::make_shared<StopsAt>(2)};
      const auto rank = static_cast<size_t>(collective->rank());
      ended[rank] = Train(cut, collective).status;
    });
    EXPECT_EQ(ended[0].code(), Code::kCancelled) << ended[0].message();
    std::vector<Outcome> ranks(static_cast<size_t>(workers));
    RunRanks(workers, [&](Collective* collective) {
      Job rest = job;
      rest.callbacks = {BackupAndRestore(folder.path())};
      ranks[static_cast<size_t>(collective->rank())] = Train(rest, collective);
    });
    ASSERT_OK(ranks[0].status);
    ExpectNear(ranks[0].weights, undisturbed.weights, 1e-3);
    if (job.reduction == Reduction::kExact || job.local.enabled()) {
      EXPECT_EQ(ranks[0].weights, undisturbed.weights);
    }
    // The epochs that were trained after it.
    ASSERT_EQ(ranks[0].losses.size(), 2u);
    EXPECT_NEAR(ranks[0].losses[1], undisturbed.losses[2], 1e-4);
  }
}

TEST(ReplicasTest, Backup_OtherNumberOfWorkers_Continues) {
  ExpectGoesOn(Job());
}

TEST(ReplicasTest, Backup_ExactSumsOnOtherWorkers_ContinuesWithTheSameBits) {
  Job job;
  job.reduction = Reduction::kExact;
  ExpectGoesOn(job);
  job.optimizer = Adam(0.01f).GradientAccumulationSteps(3);
  ExpectGoesOn(job);
}

TEST(ReplicasTest, Backup_LocalUpdatesOnOtherWorkers_ContinuesWithTheSameBits) {
  Job job;
  for (const int64_t steps : {1, 2}) {  // the stop comes where a round ends
    job.local.steps = steps;
    ExpectGoesOn(job);
  }
}

// A backup without scales begins with none. A backup with scales may continue
// without them.
TEST(ReplicasTest, Backup_OfTheOtherReduction_Continues) {
  for (const bool exact : {false, true}) {
    const TempFolder folder;
    Job cut;
    cut.reduction = exact ? Reduction::kExact : Reduction::kRing;
    cut.callbacks = {BackupAndRestore(folder.path()),
                     std::make_shared<StopsAt>(2)};
    EXPECT_EQ(TrainOn(1, cut).status.code(), Code::kCancelled);
    Job rest;
    rest.reduction = exact ? Reduction::kRing : Reduction::kExact;
    const Outcome undisturbed = TrainOn(1, rest);
    rest.callbacks = {BackupAndRestore(folder.path())};
    const Outcome outcome = TrainOn(1, rest);
    ASSERT_OK(outcome.status);
    ExpectNear(outcome.weights, undisturbed.weights, 1e-3);
  }
}

TEST(ReplicasTest, Backup_OfOtherReplicas_ContinuesWithANote) {
  const TempFolder folder;
  EXPECT_EQ(ReplicasOfBackup(folder.path()), 0);
  Job job;
  job.replicas = 2;
  job.callbacks = {BackupAndRestore(folder.path()),
                   std::make_shared<StopsAt>(2)};
  EXPECT_EQ(Train(job, nullptr).status.code(), Code::kCancelled);
  EXPECT_EQ(ReplicasOfBackup(folder.path()), 2);
  // A damaged one is passed over, as by the resume.
  std::ofstream(folder.path() + "/backup-999.safetensors") << "cut of";
  EXPECT_EQ(ReplicasOfBackup(folder.path()), 2);
  job.replicas = 3;
  job.callbacks.pop_back();
  testing::internal::CaptureStderr();
  const Status resumed = Train(job, nullptr).status;
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_OK(resumed);
  EXPECT_TRUE(Contains(printed, "by a run of 2 replicas, and this run has 3"));
}

// --- refusals ---------------------------------------------------------------

TEST(ReplicasTest, NumReplicas_FewerThanWorkers_IsRefused) {
  RunRanks(3, [](Collective* collective) {
    CompileOptions options(collective);
    options.replicas = 2;
    const auto model = TinyModel(SGD(0.1f), 0, options);
    EXPECT_EQ(model->status().code(), Code::kInvalidArgument);
  });
  for (const int replicas : {-1, 8193, 1 << 30}) {
    CompileOptions options;
    options.replicas = replicas;
    EXPECT_FALSE(TinyModel(SGD(0.1f), 0, options)->status().ok());
  }
}

TEST(ReplicasTest, NumReplicas_DiffersBetweenRanks_IsRefused) {
  RunRanks(2, [](Collective* collective) {
    CompileOptions options(collective);
    options.replicas = 2 + collective->rank();
    const auto model = TinyModel(SGD(0.1f), 0, options);
    EXPECT_TRUE(Contains(model->status(), "replicas"));
  });
}

// A worker without num_replicas gets the number that another sets, as when the
// chief alone has read the run's start.
TEST(ReplicasTest, NumReplicas_GivenByOneWorker_HoldsForAll) {
  RunRanks(3, [](Collective* collective) {
    CompileOptions options(collective);
    options.replicas = collective->rank() == 1 ? 7 : 0;
    const auto model = TinyModel(SGD(0.1f), 0, options);
    EXPECT_OK(model->status());
    EXPECT_EQ(model->num_replicas(), 7);
  });
}

TEST(ReplicasTest, Reduction_DiffersBetweenRanks_IsRefused) {
  RunRanks(2, [](Collective* collective) {
    CompileOptions options(collective);
    if (collective->rank() == 1) options.reduction = Reduction::kExact;
    const auto model = TinyModel(SGD(0.1f), 0, options);
    EXPECT_TRUE(Contains(model->status(), "the reduction"));
  });
}

TEST(ReplicasTest, UserLoop_FewerWorkersThanReplicas_IsRefused) {
  CompileOptions options;
  options.replicas = 2;
  const auto model = TinyModel(SGD(0.1f), 0, options);
  ASSERT_OK(model->status());
  EXPECT_EQ(model->num_replicas(), 2);
  const float x[2] = {1, 0};
  const int32_t y = 1;
  Batch batch;
  batch.count = batch.global_count = 1;
  batch.x = x;
  batch.y = &y;
  EXPECT_EQ(model->TrainStep(batch).code(), Code::kInvalidArgument);
  EXPECT_EQ(model->Forward(x, 1, /*training=*/true).code(),
            Code::kInvalidArgument);
  EXPECT_OK(model->Forward(x, 1, /*training=*/false));
  EXPECT_OK(model->TestStep(batch));
}

TEST(ReplicasTest, SynchronizedLayer_FewerWorkersThanReplicas_IsRefused) {
  const auto compile = [](Collective* collective, int replicas) {
    Sequential model({Input({2}), Dense(4),
                      BatchNormalization().Synchronized(true), Dense(3)});
    CompileOptions options(collective);
    options.replicas = replicas;
    model.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits), {},
                  options);
    return model.status();
  };
  EXPECT_OK(compile(nullptr, 1));
  const Status refused = compile(nullptr, 2);
  EXPECT_TRUE(Contains(refused, "synchronized"));
  RunRanks(2,
           [&](Collective* collective) { EXPECT_OK(compile(collective, 2)); });
}

// A worker with several replicas keeps one span more, the sum of their
// gradients.
TEST(ReplicasTest, Replicas_OnOneWorker_TakeTheMemoryOfOneAndASum) {
  CompileOptions options;
  const auto one = TinyModel(SGD(0.1f), 0.3f, options);
  options.replicas = 6;
  const auto six = TinyModel(SGD(0.1f), 0.3f, options);
  const MemoryPlan plan_of_one = one->PlanMemory(16),
                   plan_of_six = six->PlanMemory(16);
  EXPECT_EQ(plan_of_six.gradients, 2 * plan_of_one.gradients);
  EXPECT_EQ(plan_of_six.total(), plan_of_one.total() + plan_of_one.gradients);
  ASSERT_OK(six->Fit(Points(96).Batch(96), Quiet(1)));
  EXPECT_EQ(six->BytesUsed(), plan_of_six.total());
  // Exact sums take a byte for 256 weights.
  options.reduction = Reduction::kExact;
  const auto exact = TinyModel(SGD(0.1f), 0.3f, options);
  const MemoryPlan exact_plan = exact->PlanMemory(16);
  EXPECT_EQ(exact_plan.gradients, plan_of_six.gradients + 64);
  ASSERT_OK(exact->Fit(Points(96).Batch(96), Quiet(1)));
  EXPECT_EQ(exact->BytesUsed(), exact_plan.total());
}

// One of four workers has weights of its own, or none has.
TEST(ReplicasTest, Weights_BeforeTraining_TravelOnlyWhereTheyDiffer) {
  for (const int other : {-1, 0, 2}) {
    SCOPED_TRACE(other);
    std::vector<float> weights[4];
    int64_t bytes[4];
    RunRanks(4, [&](Collective* collective) {
      const int rank = collective->rank();
      const auto model = TinyModel(Adam(0.01f), 0, CompileOptions(collective));
      if (rank == other) model->weights()[model->num_weights() - 1] += 1;
      model->Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                     {Accuracy()}, CompileOptions(collective));
      ASSERT_OK(model->Fit(Points(50, 7).Batch(16), Quiet(1)));
      weights[rank] = WeightsOf(model.get());
      bytes[rank] =
          static_cast<ThreadCollective*>(collective)->broadcast_bytes();
    });
    const auto whole = static_cast<int64_t>(4 * weights[0].size());
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(weights[rank], weights[0]);
      EXPECT_EQ(bytes[rank] >= whole, other >= 0) << bytes[rank];
    }
  }
}

}  // namespace
}  // namespace ringlet
