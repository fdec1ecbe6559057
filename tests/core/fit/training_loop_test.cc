// User-defined training loops. Their bits equal Fit's, also if workers are lost
// and join again.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

constexpr int kEpochs = 3, kReplicas = 5;

Dataset Data() { return Points(203).Shuffle(3).Batch(40); }

FitOptions Options() {
  FitOptions options = Quiet(kEpochs);
  options.validation_data = Points(61).Batch(16);
  return options;
}

CompileOptions Replicas(Collective* collective, int64_t local_steps = 0) {
  return ExactSums(collective, kReplicas, local_steps);
}

struct Trained {
  Status status;
  uint64_t digest = 0;
  // By epoch: the loss, the validation's loss, a sum that the loop makes with
  // the other workers, and the loss of its own Evaluate. Zeros for epochs that
  // the worker did not train.
  std::vector<std::vector<double>> epochs =
      std::vector<std::vector<double>>(kEpochs, std::vector<double>(4));
};

Trained Fitted(const CompileOptions& compile) {
  Trained out;
  const auto model = TinyModel(Adam(0.01f), /*dropout=*/0.2f, compile);
  const Result<History> history = model->Fit(Data(), Options());
  out.status = history.status();
  out.digest = model->DigestWeights();
  for (size_t e = 0; history.ok() && e < history->logs.size(); ++e) {
    out.epochs[e][0] = *history->logs[e].Find("loss");
    out.epochs[e][1] = *history->logs[e].Find("val_loss");
  }
  return out;
}

// The training loop of a program.
Status Run(Model* model, TrainingLoop* loop, Trained* out) {
  RINGLET_RETURN_IF_ERROR(loop->Begin());
  while (loop->HasEpoch()) {
    EvaluateOptions quiet;
    quiet.verbose = Verbose::kSilent;
    while (loop->HasStep()) {
      RINGLET_RETURN_IF_ERROR(loop->Step());
      if (loop->step() != 2) continue;  // the model is used in between
      loop->CloseData();
      RINGLET_RETURN_IF_ERROR(
          model->Evaluate(Points(50).Batch(10), quiet).status());
    }
    const auto epoch = static_cast<size_t>(loop->epoch());
    const double workers = model->collective()->size();
    double sum = 1 / workers;
    RINGLET_RETURN_IF_ERROR(SumOverRanks(model->collective(), &sum, 1));
    const auto evaluated = model->Evaluate(Points(50).Batch(10), quiet);
    RINGLET_RETURN_IF_ERROR(evaluated.status());
    RINGLET_RETURN_IF_ERROR(loop->EndEpoch());
    EXPECT_EQ(loop->epoch(), static_cast<int64_t>(epoch) + 1);
    EXPECT_EQ(loop->step(), 0);
    out->epochs[epoch] = {*loop->logs().Find("loss"),
                          *loop->logs().Find("val_loss"), sum,
                          *evaluated->Find("loss")};
  }
  return loop->End();
}

Trained Looped(const CompileOptions& compile,
               const FitOptions& options = Options()) {
  Trained out;
  const auto model = TinyModel(Adam(0.01f), /*dropout=*/0.2f, compile);
  TrainingLoop loop(model.get(), Data(), options);
  do {
    out.status = Run(model.get(), &loop, &out);
  } while (loop.Recover(&out.status));
  out.digest = model->DigestWeights();
  return out;
}

TEST(TrainingLoopTest, Loop_StepsOrRounds_HasTheBitsOfFit) {
  for (const int64_t local_steps : {0, 2}) {
    const Trained fit = Fitted(Replicas(nullptr, local_steps));
    const Trained loop = Looped(Replicas(nullptr, local_steps));
    ASSERT_OK(fit.status);
    ASSERT_OK(loop.status);
    EXPECT_EQ(loop.digest, fit.digest);
    for (size_t e = 0; e < kEpochs; ++e) {
      EXPECT_EQ(loop.epochs[e][0], fit.epochs[e][0]) << e;
      EXPECT_EQ(loop.epochs[e][1], fit.epochs[e][1]) << e;
      EXPECT_NEAR(loop.epochs[e][2], 1, 1e-12) << e;
    }
  }
}

// The number of epochs that a worker reports as completed; 0 without a report.
int EpochsIn(FILE* printed) {
  int epochs = 0;
  char line[256];
  std::rewind(printed);
  while (std::fgets(line, sizeof(line), printed) != nullptr) {
    const char* const done = std::strstr(line, "done: ");
    if (done != nullptr) epochs = std::atoi(done + 6);
  }
  return epochs;
}

// Runs worker `worker`. Its process ends and starts again `restarts` times.
void RunWorker(ElasticJob* job, int worker, unsigned seed, int restarts,
               int64_t local_steps, const Trained& undisturbed, int* losses) {
  std::mt19937 random(seed);
  for (;;) {
    const unsigned calls = local_steps == 0 ? 400 : 120;  // the most of a run
    const int last_call =
        restarts-- > 0 ? 1 + static_cast<int>(random() % calls) : kNever;
    job->Arrive(worker);
    ElasticCollective collective(job, worker, last_call);
    const std::unique_ptr<FILE, int (*)(FILE*)> printed(std::tmpfile(), fclose);
    FitOptions options = Options();
    options.verbose = Verbose::kLine;
    options.out = printed.get();
    const Trained run = Looped(Replicas(&collective, local_steps), options);
    if (collective.ended()) {
      ++*losses;
      continue;
    }
    ASSERT_OK(run.status);
    EXPECT_EQ(run.digest, undisturbed.digest) << "worker " << worker;
    EXPECT_LE(EpochsIn(printed.get()), kEpochs);
    for (size_t e = 0; e < kEpochs; ++e) {
      if (run.epochs[e][2] == 0) continue;
      EXPECT_EQ(run.epochs[e][0], undisturbed.epochs[e][0]) << e;
      EXPECT_EQ(run.epochs[e][1], undisturbed.epochs[e][1]) << e;
      EXPECT_NEAR(run.epochs[e][2], 1, 1e-12) << e;
      EXPECT_EQ(run.epochs[e][3], undisturbed.epochs[e][3]) << e;
    }
    return;
  }
}

unsigned SeedCount() {
  const char* const more = std::getenv("RINGLET_ELASTIC_SEEDS");
  return more != nullptr ? static_cast<unsigned>(std::atoi(more)) : 60;
}

void ExpectSameBitsAfterLosses(int64_t local_steps) {
  const Trained undisturbed = Looped(Replicas(nullptr, local_steps));
  ASSERT_OK(undisturbed.status);
  testing::internal::CaptureStderr();
  int losses = 0;
  for (unsigned seed = 1; seed <= SeedCount() && !testing::Test::HasFailure();
       ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int workers = 2 + static_cast<int>(random() % 3);
    const int survivor = static_cast<int>(random() % 4) % workers;
    ElasticJob job;
    std::vector<int> losses_of(static_cast<size_t>(workers));
    std::vector<std::thread> threads;
    for (int w = 0; w < workers; ++w) job.Arrive(w);  // no worker begins alone
    for (int w = 0; w < workers; ++w) {
      const unsigned own = random();
      // Worker `survivor` never ends: a joining worker takes the state from it.
      const int restarts = w == survivor ? 0 : static_cast<int>(random() % 4);
      threads.emplace_back([&, w, own, restarts] {
        RunWorker(&job, w, own, restarts, local_steps, undisturbed,
                  &losses_of[static_cast<size_t>(w)]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const int n : losses_of) losses += n;
  }
  const std::string printed = testing::internal::GetCapturedStderr();
  if (testing::Test::HasFailure()) ADD_FAILURE() << printed;
  EXPECT_GT(losses, 15);
}

TEST(TrainingLoopTest, Workers_LostAndJoinAgain_EndWithTheSameBits) {
  ExpectSameBitsAfterLosses(0);
}
TEST(TrainingLoopTest, Workers_LostInRounds_EndWithTheSameBits) {
  ExpectSameBitsAfterLosses(2);
}

// The process ends in the middle of an epoch, and another process continues.
TEST(TrainingLoopTest, Loop_ResumedFromABackup_EndsWithTheSameBits) {
  const Trained whole = Looped(Replicas(nullptr));
  for (const int at : {4, 6, 9, 12}) {  // an epoch has six steps
    SCOPED_TRACE(at);
    TempFolder folder;
    FitOptions options = Options();
    options.callbacks = {BackupAndRestore(folder / "backup", SaveEvery(3))};
    {
      const auto model =
          TinyModel(Adam(0.01f), /*dropout=*/0.2f, Replicas(nullptr));
      TrainingLoop loop(model.get(), Data(), options);
      ASSERT_OK(loop.Begin());
      while (model->iterations() < at) {
        while (loop.HasStep() && model->iterations() < at) {
          ASSERT_OK(loop.Step());
        }
        if (loop.HasStep()) break;
        ASSERT_OK(loop.EndEpoch());
      }
    }
    options.callbacks = {BackupAndRestore(folder / "backup", SaveEvery(3))};
    const Trained rest = Looped(Replicas(nullptr), options);
    ASSERT_OK(rest.status);
    // From the save behind its last step an epoch's end is made again.
    EXPECT_EQ(rest.epochs[0][2], at <= 6 ? 1 : 0);
    EXPECT_EQ(rest.digest, whole.digest);
    EXPECT_EQ(rest.epochs[2], whole.epochs[2]);
  }
}

// A callback's wish to stop ends the loop as it ends Fit.
TEST(TrainingLoopTest, StopTraining_SetInACallback_EndsTheLoop) {
  class TrainingStopper final : public Callback {
   public:
    const char* name() const override { return "stops"; }
    Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
      if (fit.epoch == 1 && fit.step == 2) fit.stop_training = 1;
      return Status();
    }
  };
  const auto model = TinyModel();
  FitOptions options = Quiet(5);
  options.callbacks = {std::make_shared<TrainingStopper>()};
  TrainingLoop loop(model.get(), Data(), options);
  ASSERT_OK(loop.Begin());
  int64_t steps = 0;
  while (loop.HasEpoch()) {
    while (loop.HasStep()) ASSERT_OK(loop.Step());
    steps += loop.step();
    ASSERT_OK(loop.EndEpoch());
  }
  EXPECT_EQ(loop.epoch(), 2);
  EXPECT_EQ(steps, 6 + 3);
  EXPECT_EQ(model->iterations(), steps);
  EXPECT_OK(loop.End());
}

}  // namespace
}  // namespace ringlet
