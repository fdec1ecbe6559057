// Rounds with a length chosen by the link's speed. A run that is given this
// number of steps has the same bits. Every worker that continues the run uses
// the number.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/slow_layer.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

// A single rank. On WorkClock each of its sums takes `times` as long as the
// work since the sum before.
class SlowLink final : public Collective {
 public:
  explicit SlowLink(int times) : times_(times) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Status StartAllReduce(float*, size_t, Ticket* ticket) override {
    *ticket = 1;
    return Status();
  }
  Status StartAllReduceInts(int32_t*, size_t, Ticket* ticket) override {
    ++sums;
    *ticket = 1;
    return Status();
  }
  Status Wait(Ticket ticket) override {
    if (ticket != 1) return Status();
    Clock* const clock = WorkClock::Get();
    WorkClock::Pass(times_ * (clock->MonotonicNanos() - last_));
    last_ = clock->MonotonicNanos();
    return Status();
  }
  Status Broadcast(void*, size_t, int) override { return Status(); }
  Status AllGather(const void* in, size_t bytes, void* out) override {
    std::memmove(out, in, bytes);
    return Status();
  }
  Status Barrier() override { return Status(); }
  int sums = 0;

 private:
  const int times_;
  int64_t last_ = WorkClock::Get()->MonotonicNanos();
};

class StepLengthRecorder final : public Callback {
 public:
  const char* name() const override { return "step_lengths"; }
  Status OnTrainBatchBegin(FitState& fit) override {
    if (begins) begins(fit);
    return Status();
  }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    steps = fit.local_steps;
    if (fit.step >= stop_at) fit.interrupted = true;
    return Status();
  }
  int64_t steps = 0, stop_at = INT64_MAX;
  std::function<void(FitState&)> begins;
};

struct Trained {
  Status status;
  std::vector<float> weights;
  int64_t steps = 0;  // the steps of a round
};

Trained Train(int64_t local_steps, Collective* collective,
              const std::string& backups = "", int64_t stop_at = INT64_MAX) {
  CompileOptions options(collective);
  options.replicas = 4;
  options.local.steps = local_steps;
  const auto model = SlowModel(std::make_shared<SlowLayer>(1), options);
  FitOptions fit = Quiet(2);
  const auto recorder = std::make_shared<StepLengthRecorder>();
  recorder->stop_at = stop_at;
  fit.callbacks = {recorder};
  if (!backups.empty()) {
    BackupAndRestoreOptions backup;
    backup.save_freq = 1;
    fit.callbacks.push_back(BackupAndRestore(backups, backup));
  }
  Trained trained;
  trained.status = model->Fit(Points(1600).Shuffle(5).Batch(16), fit).status();
  trained.weights = WeightsOf(model.get());
  trained.steps = recorder->steps;
  return trained;
}

constexpr int64_t kAuto = LocalUpdates::kAutoSteps;

TEST(AutoStepsTest, Steps_SlowerLink_MakesLongerRounds) {
  SlowLink fast(0), slow(3);
  const Trained few = Train(kAuto, &fast), many = Train(kAuto, &slow);
  ASSERT_OK(few.status);
  EXPECT_GE(few.steps, 8);
  EXPECT_LE(many.steps, 512);
  EXPECT_GT(many.steps, few.steps);
  // A step number read from a file gives the same training.
  EXPECT_EQ(Train(many.steps, nullptr).weights, many.weights);
  EXPECT_EQ(Train(few.steps, nullptr).weights, few.weights);
}

TEST(AutoStepsTest, Backup_StepsChosen_KeepsTheirNumber) {
  const TempFolder folder;
  SlowLink slow(3), fast(0);
  const Trained first = Train(kAuto, &slow, folder / "b", /*stop_at=*/0);
  EXPECT_EQ(first.status.code(), Code::kCancelled) << first.status.message();
  ASSERT_GT(first.steps, 8);
  const Trained other = Train(9, &fast, folder / "b");
  EXPECT_TRUE(Contains(other.status, "give \"auto\""));
  const int before = fast.sums;
  const Trained rest = Train(kAuto, &fast, folder / "b");
  ASSERT_OK(rest.status);
  EXPECT_EQ(rest.steps, first.steps);
  EXPECT_GT(fast.sums, before);
  EXPECT_EQ(rest.weights, Train(first.steps, nullptr).weights);
}

// One of three workers is lost and joins again.
TEST(AutoStepsTest, Joiner_StepsChosen_TakesTheirNumber) {
  ElasticJob elastic;
  std::vector<Trained> last(3);
  const auto run_worker = [&](int worker, int last_call) {
    ElasticCollective collective(&elastic, worker, last_call);
    last[static_cast<size_t>(worker)] = Train(kAuto, &collective);
  };
  RunWorkers(&elastic, 3, [&](int worker) {
    run_worker(worker, worker == 1 ? 90 : kNever);
    if (worker != 1) return;
    elastic.Arrive(1);
    run_worker(1, kNever);
  });
  for (const Trained& trained : last) {
    ASSERT_OK(trained.status);
    EXPECT_EQ(trained.steps, last[0].steps);
  }
  EXPECT_EQ(Train(last[0].steps, nullptr).weights, last[0].weights);
  EXPECT_EQ(last[1].weights, last[0].weights);
}

// A callback's work at an epoch's start is done once, also if a worker is lost
// in its first round.
TEST(AutoStepsTest, Scheduler_LossInTheFirstRound_SetsTheRateOnce) {
  std::vector<float> weights[3];
  int64_t steps = kAuto;
  const auto train = [&](int worker, Collective* collective, bool is_lost) {
    CompileOptions options(collective);
    options.replicas = 4;
    options.local.steps = collective == nullptr ? steps : kAuto;
    const auto model = TinyModel(Adam(0.01f), /*dropout=*/0.1f, options);
    const auto recorder = std::make_shared<StepLengthRecorder>();
    recorder->begins = [=](FitState& fit) {
      if (!is_lost || fit.step > 0) return;
      static_cast<ElasticCollective*>(collective)->EndInNextCall();
    };
    FitOptions fit = Quiet(1);
    fit.callbacks = {
        LearningRateScheduler([](int64_t, float rate) { return rate / 2; }),
        recorder};
    const auto history = model->Fit(Points(1600).Shuffle(5).Batch(16), fit);
    EXPECT_EQ(history.ok(), !is_lost) << history.status().message();
    weights[worker] = WeightsOf(model.get());
    if (worker == 1) steps = recorder->steps;
  };
  ElasticJob elastic;
  RunWorkers(&elastic, 3, [&](int worker) {
    ElasticCollective collective(&elastic, worker);
    train(worker, &collective, worker == 0);
  });
  train(0, nullptr, /*is_lost=*/false);
  EXPECT_EQ(weights[1], weights[0]);
  EXPECT_EQ(weights[2], weights[0]);
}

}  // namespace
}  // namespace ringlet
