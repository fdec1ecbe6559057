#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <random>

#include "../../support/contains.h"
#include "../../support/eventually.h"
#include "../../support/expect_ok.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "backup_runs.h"
#include "io/checkpoint/checkpoint_directory.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;

const std::string& Runner() {
  static const std::string path =
      EnvironmentOr("RINGLET_BUILD", "build") + "/tests/backup_runner";
  return path;
}

// `moment` is "kill=N" or "hold=N" (backup_runner.cc).
pid_t Start(const std::string& folder, const std::string& optimizer,
            const std::string& freq, const std::string& moment = "") {
  const pid_t pid = fork();
  if (pid == 0) {
    execl(Runner().c_str(), "backup_runner", folder.c_str(), optimizer.c_str(),
          freq.c_str(), moment.empty() ? nullptr : moment.c_str(), nullptr);
    _exit(127);
  }
  return pid;
}

int WaitFor(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

// The same final files, nothing of the backup left, and no temporary file.
void ExpectSame(const TempFolder& killed, const TempFolder& undisturbed,
                const std::string& what) {
  for (const char* file : {"final.safetensors", "log.csv"}) {
    EXPECT_EQ(ReadWhole(killed / file), ReadWhole(undisturbed / file))
        << what << " " << file;
  }
  for (const auto& entry : fs::directory_iterator(killed / "backup")) {
    EXPECT_EQ(entry.path().filename(), ".lock");
  }
}

// The run is killed in random calls that use files, after half of the call's
// bytes were written, and is started again until it completes. Its files are
// then the undisturbed run's, byte for byte.
TEST(BackupTest, Resume_KilledInRandomCalls_EndsAsTheUndisturbedRun) {
  std::mt19937 random(20261121);
  int kills = 0;
  for (const char* optimizer : {"sgd", "rmsprop", "adam"}) {
    for (const char* freq : {"0", "1", "7", "30"}) {
      TempFolder undisturbed(TempFolder::InMemory());
      ASSERT_EQ(WaitFor(Start(undisturbed.path(), optimizer, freq)), 0);
      const int calls = std::atoi(ReadWhole(undisturbed / "calls").c_str());
      ASSERT_GT(calls, 0);
      for (int mine = 0; mine < 5;) {
        TempFolder killed(TempFolder::InMemory());
        for (bool completed = false; !completed;) {
          // After enough kills the run is not killed again: if it saves too
          // seldom, it would never complete.
          const unsigned call = 1 + random() % static_cast<unsigned>(calls);
          const int status =
              WaitFor(Start(killed.path(), optimizer, freq,
                            mine < 5 ? "kill=" + std::to_string(call) : ""));
          completed = WIFEXITED(status);
          ASSERT_TRUE(!completed || status == 0) << optimizer << " " << freq;
          mine += completed ? 0 : 1;
        }
        ExpectSame(killed, undisturbed, std::string(optimizer) + " " + freq);
      }
      kills += 5;
    }
  }
  std::printf("%d kills\n", kills);
  EXPECT_GE(kills, 50);
}

TEST(BackupTest, Fit_SignalInAStep_SavesAndExitsResumable) {
  TempFolder undisturbed(TempFolder::InMemory());
  TempFolder stopped(TempFolder::InMemory());
  ASSERT_EQ(WaitFor(Start(undisturbed.path(), "adam", "30")), 0);
  for (const int step : {1, 10, 29, 32, 75, 100}) {
    const pid_t pid =
        Start(stopped.path(), "adam", "30", "hold=" + std::to_string(step));
    EXPECT_TRUE(Eventually([&] { return fs::exists(stopped / "held"); }));
    kill(pid, step % 2 == 0 ? SIGTERM : SIGINT);
    fs::remove(stopped / "held");  // the process continues
    const int status = WaitFor(pid);
    ASSERT_TRUE(WIFEXITED(status)) << status;
    ASSERT_EQ(WEXITSTATUS(status), 75) << "step " << step;
    ASSERT_TRUE(fs::exists(stopped / "backup/checkpoint"));
  }
  ASSERT_EQ(WaitFor(Start(stopped.path(), "adam", "30")), 0);
  EXPECT_EQ(ReadWhole(stopped / "final.safetensors"),
            ReadWhole(undisturbed / "final.safetensors"));
  EXPECT_EQ(ReadWhole(stopped / "log.csv"), ReadWhole(undisturbed / "log.csv"));
}

TEST(BackupTest, Resume_AnySaveFrequency_BeginsAtTheStepOfTheBackup) {
  for (const auto& [freq, done] :
       {std::pair<int64_t, int64_t>{0, 10}, {7, 14}, {1, 15}}) {
    TempFolder folder;
    auto first = TinyModel();
    ASSERT_FALSE(first->Fit(Data(), WithBackup(folder.path(), freq, 15)).ok());
    auto second = TinyModel();
    int64_t steps = 0;
    FitOptions options = WithBackup(folder.path(), freq, 0);
    LambdaCallbackOptions count;
    count.on_train_batch_end = [&](int64_t, const Logs&) { ++steps; };
    options.callbacks.push_back(LambdaCallback(count));
    ASSERT_OK(second->Fit(Data(), options));
    EXPECT_EQ(steps, 30 - done) << freq;
    EXPECT_EQ(second->iterations(), 30);
  }
}

// Returns the text on stderr of a resume with `data`.
std::string ResumeWith(const Dataset& data, const std::string& from,
                       Status* status) {
  TempFolder folder;
  fs::copy(from, folder.path(), fs::copy_options::recursive);
  testing::internal::CaptureStderr();
  auto model = TinyModel();
  *status = model->Fit(data, WithBackup(folder.path(), 1, 0)).status();
  return testing::internal::GetCapturedStderr();
}

TEST(BackupTest, Resume_OtherData_WarnsOrIsRefusedIfThePositionIsOutside) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_FALSE(model->Fit(Data(), WithBackup(folder.path(), 1, 15)).ok());
  Status status;
  EXPECT_EQ(ResumeWith(Data(), folder.path(), &status), "");
  EXPECT_OK(status);
  const std::string saved =
      "was saved with other data or batches: 40 examples, shuffled with seed "
      "1, batches of 4, 10 steps per epoch; this run: ";
  for (const auto& [data, here] : {
           std::pair<Dataset, const char*>{
               Points(60).Shuffle(1).Batch(4),
               "60 examples, shuffled with seed 1, batches of 4, 15 steps"},
           {Points(40).Shuffle(1).Batch(8), "batches of 8, 5 steps"},
           {Points(40).Shuffle(2).Batch(4), "shuffled with seed 2"},
           {Points(40).Batch(4), "not shuffled"},
       }) {
    const std::string printed = ResumeWith(data, folder.path(), &status);
    EXPECT_OK(status);
    EXPECT_TRUE(Contains(printed, saved));
    EXPECT_NE(printed.find(here, printed.find("this run: ")), std::string::npos)
        << printed;
  }
  // 5 steps of 4 examples into its second pass.
  ResumeWith(Points(20).Shuffle(1).Batch(4), folder.path(), &status);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status, "cannot be resumed"));
}

TEST(BackupTest, Resume_BackupBehindTheLastEpoch_IsRefusedAndStays) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_FALSE(model->Fit(Data(), WithBackup(folder.path(), 1, 15)).ok());
  FitOptions options = WithBackup(folder.path(), 1, 0);
  options.epochs = 1;
  const Status refused = TinyModel()->Fit(Data(), options).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_TRUE(
      Contains(refused, "of epoch 2, step 6, but the fit ends with epoch 1"));
  EXPECT_TRUE(fs::exists(folder / "checkpoint"));
}

TEST(BackupTest, Backup_TrainingCompleted_IsRemovedUnlessKept) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_FALSE(model->Fit(Data(), WithBackup(folder.path(), 0, 12)).ok());
  EXPECT_TRUE(fs::exists(folder / "backup-1.safetensors"));
  auto again = TinyModel();
  ASSERT_OK(again->Fit(Data(), WithBackup(folder.path(), 0, 0)));
  EXPECT_FALSE(fs::exists(folder / "checkpoint"));
  FitOptions kept = Quiet(2);
  BackupAndRestoreOptions keep;
  keep.delete_checkpoint = false;
  kept.callbacks = {BackupAndRestore(folder.path(), keep)};
  auto third = TinyModel();
  ASSERT_OK(third->Fit(Data(), kept));
  EXPECT_TRUE(fs::exists(folder / "checkpoint"));
  // The run has ended, so the fit does nothing.
  auto fourth = TinyModel();
  ASSERT_OK(fourth->Fit(Data(), kept));
  EXPECT_EQ(WeightsOf(fourth.get()), WeightsOf(third.get()));
}

TEST(BackupTest, Resume_AllBackupsDamaged_IsAnErrorAndNoNewStart) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_FALSE(model->Fit(Data(), WithBackup(folder.path(), 0, 12)).ok());
  std::string bytes = ReadWhole(folder / "backup-1.safetensors");
  bytes[bytes.size() / 2] ^= 1;
  WriteWhole(folder / "backup-1.safetensors", bytes);
  auto again = TinyModel();
  const auto history = again->Fit(Data(), WithBackup(folder.path(), 0, 0));
  EXPECT_EQ(history.status().code(), Code::kCorruption);
  EXPECT_EQ(again->iterations(), 0);
}

// A disk that is full, or fails, costs backups and not the training; once it
// has room again there are backups again.
TEST(BackupTest, Save_DiskIsFull_WarnsAndContinuesOnceThereIsSpace) {
  SimulatedFileSystem files;
  files.set_capacity(100);
  FitOptions options = Quiet(3);
  BackupAndRestoreOptions backup;
  backup.save_freq = 1;
  backup.files = &files;
  backup.background = false;
  LambdaCallbackOptions lambda;
  lambda.on_epoch_begin = [&](int64_t epoch) {
    if (epoch == 1) files.set_capacity(-1);
  };
  options.callbacks = {BackupAndRestore("backup", backup),
                       LambdaCallback(lambda),
                       std::make_shared<SavePointFailure>(15)};
  auto model = TinyModel();
  testing::internal::CaptureStderr();
  ASSERT_FALSE(model->Fit(Data(), options).ok());
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(printed, "training continues"));
  EXPECT_EQ(model->iterations(), 15);

  files.Kill();
  int64_t steps = 0;
  lambda = {};
  lambda.on_train_batch_end = [&](int64_t, const Logs&) { ++steps; };
  options.callbacks = {BackupAndRestore("backup", backup),
                       LambdaCallback(lambda)};
  auto again = TinyModel();
  ASSERT_OK(again->Fit(Data(), options).status());
  EXPECT_EQ(steps, 15);
}

// No message claims that the state was saved if it was not.
TEST(BackupTest, Interrupt_DiskIsFull_NamesTheUsableBackup) {
  for (const bool background : {false, true}) {
    for (const int64_t full_from : {0, 9}) {
      // The simulated disk is one thread's at a time.
      if (background && full_from > 0) continue;
      SimulatedFileSystem files;
      FitOptions options = Quiet(3);
      BackupAndRestoreOptions backup;
      backup.save_freq = 7;
      backup.files = &files;
      backup.background = background;
      LambdaCallbackOptions lambda;
      lambda.on_train_batch_begin = [&](int64_t step) {
        if (step == full_from) files.set_capacity(0);
        if (step == 9) raise(SIGTERM);
      };
      options.callbacks = {BackupAndRestore("backup", backup),
                           LambdaCallback(lambda)};
      auto model = TinyModel();
      testing::internal::CaptureStderr();
      const Status status = model->Fit(Data(), options).status();
      testing::internal::GetCapturedStderr();
      const std::string message = status.message();
      EXPECT_EQ(model->iterations(), 10);
      EXPECT_TRUE(Contains(message, "interrupted, and no backup was written"));
      EXPECT_FALSE(Contains(message, "the state was saved"));
      if (full_from == 0) {
        EXPECT_EQ(status.code(), Code::kResourceExhausted) << message;
      } else {
        EXPECT_EQ(status.code(), Code::kCancelled) << message;
        EXPECT_TRUE(
            Contains(message, "continue from backup/backup-1.safetensors"));
      }
    }
  }
}

TEST(BackupTest, Save_AnyOperationFails_CostsAtMostThatBackup) {
  auto undisturbed = TinyModel();
  ASSERT_OK(undisturbed->Fit(Data(), Quiet(3)));
  for (const int error : {EIO, ENOSPC, EINTR}) {
    for (int64_t operation = 1; operation <= 40; ++operation) {
      SimulatedFileSystem files;
      BackupAndRestoreOptions backup;
      backup.save_freq = 7;
      backup.files = &files;
      backup.background = false;
      FitOptions options = Quiet(3);
      LambdaCallbackOptions lambda;
      lambda.on_epoch_begin = [&](int64_t epoch) {
        if (epoch == 1) files.FailAfter(operation, error);
      };
      options.callbacks = {BackupAndRestore("backup", backup),
                           LambdaCallback(lambda),
                           std::make_shared<SavePointFailure>(29)};
      auto model = TinyModel();
      testing::internal::CaptureStderr();
      ASSERT_FALSE(model->Fit(Data(), options).ok());
      EXPECT_EQ(model->iterations(), 29) << operation;
      files.Kill();
      options.callbacks = {BackupAndRestore("backup", backup)};
      auto again = TinyModel();
      const auto history = again->Fit(Data(), options);
      testing::internal::GetCapturedStderr();
      ASSERT_OK(history.status());
      EXPECT_EQ(WeightsOf(again.get()), WeightsOf(undisturbed.get()))
          << operation << " " << error;
    }
  }
}

TEST(BackupTest, Fit_DirectoryInUse_IsRefusedByItsName) {
  TempFolder folder;
  std::unique_ptr<CheckpointDirectory> held;
  ASSERT_OK(CheckpointDirectory::Open(folder.path(), {}, &held));
  auto model = TinyModel();
  const auto history = model->Fit(Data(), WithBackup(folder.path(), 0, 0));
  EXPECT_FALSE(history.ok());
  EXPECT_TRUE(Contains(history.status(), folder.path()));
}

TEST(BackupTest, Fit_WrongBackupOptions_IsRefused) {
  auto model = TinyModel();
  auto empty = model->Fit(Data(), WithBackup("", 0, 0));
  EXPECT_EQ(empty.status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(empty.status(), "Empty `backup_dir` argument passed"));
  EXPECT_EQ(model->Fit(Data(), WithBackup("x", -1, 0)).status().code(),
            Code::kInvalidArgument);
  const auto unwritable = model->Fit(Data(), WithBackup("/proc/backup", 0, 0));
  EXPECT_FALSE(unwritable.ok());
  EXPECT_TRUE(Contains(unwritable.status(), "/proc/backup"));
}

enum class Moment : uint8_t {
  kEpochBegin,
  kBatchBegin,
  kBatchEnd,
  kEpochEnd,
  kCount
};

// Requests an interruption of the fit once, in the second epoch, at a moment of
// a step.
class InterruptsAt final : public Callback {
 public:
  InterruptsAt(Moment moment, int64_t step, bool* asked)
      : moment_(moment), step_(step), asked_(*asked) {}
  const char* name() const override { return "interrupts_at"; }
  Status OnEpochBegin(FitState& fit) override {
    return At(Moment::kEpochBegin, &fit);
  }
  Status OnTrainBatchBegin(FitState& fit) override {
    return At(Moment::kBatchBegin, &fit);
  }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    return At(Moment::kBatchEnd, &fit);
  }
  Status OnEpochEnd(FitState& fit, Logs*) override {
    return At(Moment::kEpochEnd, &fit);
  }

 private:
  Status At(Moment moment, FitState* fit) {
    const bool in_step =
        moment == Moment::kBatchBegin || moment == Moment::kBatchEnd;
    if (asked_ || moment != moment_ || fit->epoch != 1 ||
        (in_step && fit->step != step_)) {
      return Status();
    }
    asked_ = true;
    fit->interrupted = true;
    fit->signal = SIGTERM;
    return Status();
  }

  const Moment moment_;
  const int64_t step_;
  bool& asked_;
};

// OnEpochBegin changes the rate once, at whatever moment the signal arrives.
TEST(BackupTest, Interruption_AnyMomentOfAnEpoch_SchedulesTheRateOnce) {
  const auto train = [](int ranks, Moment moment, int64_t step) {
    SimulatedFileSystem files;
    std::vector<float> weights;
    std::vector<char> asked(static_cast<size_t>(ranks), 0);
    int runs = 0;
    for (bool ended = false; !ended && runs < 4; ++runs) {
      RunRanks(ranks, [&](Collective* collective) {
        const bool last = collective->rank() + 1 == ranks;
        bool before = !last || asked[0] != 0;
        BackupAndRestoreOptions backup;
        backup.files = &files;
        backup.background = false;
        FitOptions options = Quiet(4);
        options.callbacks = {
            LearningRateScheduler([](int64_t, float rate) { return rate / 2; }),
            std::make_shared<InterruptsAt>(moment, step, &before),
            BackupAndRestore("backup", backup)};
        auto model = TinyModel(SGD(0.5f), 0, CompileOptions(collective));
        const Status status =
            model->Fit(Points(48).Batch(16), options).status();
        if (!last) return;
        asked[0] = before ? 1 : 0;
        EXPECT_TRUE(status.ok() || status.code() == Code::kCancelled)
            << status.message();
        ended = status.ok();
        weights = WeightsOf(model.get());
      });
    }
    EXPECT_EQ(runs, moment == Moment::kCount ? 1 : 2);
    return weights;
  };
  for (const int ranks : {1, 2}) {
    const std::vector<float> undisturbed = train(ranks, Moment::kCount, 0);
    for (int m = 0; m < static_cast<int>(Moment::kCount); ++m) {
      for (const int64_t step : {0, 1, 2}) {
        SCOPED_TRACE(testing::Message()
                     << ranks << " ranks, moment " << m << ", step " << step);
        EXPECT_EQ(train(ranks, static_cast<Moment>(m), step), undisturbed);
      }
    }
  }
}

// After a fit with any number of backups a signal has the effect that it had
// before.
TEST(BackupTest, SignalHandler_FitHasReturned_IsTheOneFromBefore) {
  TempFolder folder;
  static volatile sig_atomic_t heard;
  heard = 0;
  struct sigaction own = {}, before = {}, after = {};
  own.sa_handler = [](int) { heard = heard + 1; };
  ASSERT_EQ(sigaction(SIGTERM, &own, &before), 0);
  for (int backups = 1; backups <= 3; ++backups) {
    FitOptions options = Quiet(1);
    for (int i = 0; i < backups; ++i) {
      options.callbacks.push_back(BackupAndRestore(folder / std::to_string(i)));
    }
    auto model = TinyModel();
    ASSERT_OK(model->Fit(Data(), options));
    raise(SIGTERM);
    raise(SIGTERM);
    EXPECT_EQ(heard, 2 * backups);
  }
  ASSERT_EQ(sigaction(SIGTERM, &before, &after), 0);
  EXPECT_EQ(after.sa_handler, own.sa_handler);
}

}  // namespace
}  // namespace ringlet
