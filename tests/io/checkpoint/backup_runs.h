// Runs with a backup, for its tests.

#ifndef RINGLET_TESTS_IO_CHECKPOINT_BACKUP_RUNS_H_
#define RINGLET_TESTS_IO_CHECKPOINT_BACKUP_RUNS_H_

#include "core/fit/fit_details.h"
#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "../../support/await.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/tiny_model.h"
#include "ringlet/fit.h"

namespace ringlet {

namespace fs = std::filesystem;

class SavePointFailure final : public Callback {
 public:
  explicit SavePointFailure(int64_t at) : at_(at) {}
  const char* name() const override { return "save_point_failure"; }
  Status OnSavePoint(FitState& fit, bool) override {
    if (fit.model->iterations() < at_) return Status();
    return Error(Code::kInternal, "the power went");
  }

 private:
  const int64_t at_;
};

inline FitOptions WithBackup(const std::string& folder, int64_t freq,
                             int64_t die_at, FileSystem* files = PosixFiles()) {
  FitOptions options = Quiet(3);
  BackupAndRestoreOptions backup;
  backup.save_freq = freq;
  backup.files = files;
  options.callbacks = {BackupAndRestore(folder, backup)};
  if (die_at > 0)
    options.callbacks.push_back(std::make_shared<SavePointFailure>(die_at));
  return options;
}

inline const Dataset& Data() {
  static const Dataset data = Points(40).Shuffle(1).Batch(4);
  return data;
}

// --- elastic jobs: each worker has a folder of its own -----------------------

constexpr int kEpochs = 3;
constexpr int64_t kSteps = 18;  // the steps of all epochs

// Counts the steps, and calls a function before one of them.
class StepWatcher final : public Callback {
 public:
  StepWatcher(int64_t at, std::function<void(FitState&)> what)
      : at_(at), what_(std::move(what)) {}
  static constexpr int64_t kAfterLoss = -2;  // the fit continues after a loss
  // When the fit begins, before it meets the other workers.
  static constexpr int64_t kMeets = -3;
  const char* name() const override { return "watches"; }
  Status OnTrainBegin(FitState& fit) override {
    if (at_ == kAfterLoss && fit.details->after_loss) what_(fit);
    if (at_ != kMeets) return Status();
    what_(fit);
    return fit.model->collective()->Barrier();
  }
  Status OnTrainBatchBegin(FitState& fit) override {
    if (fit.model->iterations() == at_ && !done_ && what_ != nullptr) {
      done_ = true;
      what_(fit);
    }
    return Status();
  }
  Status OnTrainBatchEnd(FitState&, const Logs&) override {
    ++steps_;
    return Status();
  }
  int64_t steps() const { return steps_; }

 private:
  const int64_t at_;
  const std::function<void(FitState&)> what_;
  // Several workers may share an object.
  std::atomic<bool> done_{false};
  std::atomic<int64_t> steps_{0};
};

struct ElasticFit {
  Status status;
  uint64_t digest = 0;
};

// `folder` "": no backup.
inline ElasticFit FitElastic(Collective* collective, const std::string& folder,
                             const std::shared_ptr<StepWatcher>& watches,
                             const std::shared_ptr<StepWatcher>& more = nullptr,
                             float rate = 0.01f, int64_t save_freq = 1,
                             int64_t units = 16, int64_t check_every = 100) {
  CompileOptions options = ExactSums(collective, 5);
  auto model = TinyModel(Adam(rate), /*dropout=*/0.2f, options, units);
  FitOptions fit = Quiet(kEpochs);
  fit.check_replicas_every = check_every;
  if (more != nullptr) fit.callbacks.push_back(more);
  if (!folder.empty()) {
    BackupAndRestoreOptions backup;
    backup.save_freq = save_freq;
    fit.callbacks.push_back(BackupAndRestore(folder, backup));
  }
  if (watches != nullptr) fit.callbacks.push_back(watches);
  ElasticFit run;
  run.status = model->Fit(Points(203).Shuffle(3).Batch(40), fit).status();
  run.digest = model->DigestWeights();
  return run;
}

inline uint64_t UndisturbedDigest() {
  static const uint64_t digest = FitElastic(nullptr, "", nullptr).digest;
  return digest;
}

inline void ExpectUndisturbed(const ElasticFit& run) {
  EXPECT_OK(run.status);
  EXPECT_EQ(run.digest, UndisturbedDigest());
}

// Calls `what` once the run has made `steps` steps.
inline std::shared_ptr<StepWatcher> AfterSteps(
    int64_t steps, std::function<void(FitState&)> what) {
  return std::make_shared<StepWatcher>(steps, std::move(what));
}

// For workers beside one with a StepWatcher: all need the same callbacks.
inline std::shared_ptr<StepWatcher> DoesNothing() {
  return std::make_shared<StepWatcher>(-1, nullptr);
}

inline std::function<void(FitState&)> Interrupts() {
  return [](FitState& fit) { fit.interrupted = true; };
}

inline void CorruptWeight(FitState& fit) { fit.model->weights()[5] += 1; }

// A worker of a job alone, up to a step: its backup stays.
inline void TrainAlone(const std::string& folder, int64_t steps) {
  ElasticJob job;
  job.Arrive(0);
  ElasticCollective collective(&job, 0);
  const ElasticFit run =
      FitElastic(&collective, folder, AfterSteps(steps - 1, Interrupts()));
  EXPECT_EQ(run.status.code(), Code::kCancelled) << run.status.message();
}

struct JoinedFit {
  ElasticFit chief, other;
  int64_t chief_steps = 0, other_steps = 0;
};

// Worker 1 trains alone. After `steps` steps worker 0, the chief, joins. Its
// process ends in its call number `last_call`.
inline JoinedFit FitAndJoin(int64_t steps, const std::string& chiefs,
                            const std::string& others, int last_call = kNever,
                            int64_t save_freq = 1) {
  ElasticJob job;
  job.Arrive(1);
  JoinedFit joined;
  std::atomic<bool> may_join{false};
  std::thread chief([&] {
    Await(may_join);
    job.Arrive(0);
    ElasticCollective collective(&job, 0, last_call);
    const auto watcher = DoesNothing();
    joined.chief =
        FitElastic(&collective, chiefs, watcher, nullptr, 0.01f, save_freq);
    joined.chief_steps = watcher->steps();
  });
  {
    ElasticCollective collective(&job, 1);
    const auto let_join = AfterSteps(steps, [&](FitState&) {
      may_join = true;
      AwaitJoiner(&job);
    });
    joined.other =
        FitElastic(&collective, others, let_join, nullptr, 0.01f, save_freq);
    joined.other_steps = let_join->steps();
  }
  chief.join();
  return joined;
}

inline bool HasBackup(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() != ".lock") return true;
  }
  return false;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_IO_CHECKPOINT_BACKUP_RUNS_H_
