// Backups of elastic jobs: one chief after another, each with a folder.

#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/eventually.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "backup_runs.h"
#include "io/checkpoint/checkpoint_directory.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;

// Trains as worker 0, the chief, which is lost after `steps` steps.
void TrainUntilLost(ElasticJob* job, const std::string& folder, int64_t steps,
                    const std::shared_ptr<StepWatcher>& more = nullptr) {
  ElasticCollective collective(job, 0);
  const auto end_worker =
      AfterSteps(steps, [&](FitState&) { collective.EndInNextCall(); });
  FitElastic(&collective, folder, end_worker, more);
  EXPECT_TRUE(collective.ended());
}

// A worker that was chief for a time leaves no backup for another run.
//
// steps  event                 expected
// 4      worker 0 is lost      worker 1 is the chief
// 9      worker 0 joins again
// end                          undisturbed, no backups
TEST(BackupTest, End_EarlierChiefs_RemoveTheirBackups) {
  for (const bool one_folder : {false, true}) {
    SCOPED_TRACE(one_folder);
    TempFolder folders[] = {TempFolder(TempFolder::InMemory()),
                            TempFolder(TempFolder::InMemory())};
    const std::string paths[] = {folders[0].path(),
                                 folders[one_folder ? 0 : 1].path()};
    ElasticJob job;
    for (const int w : {0, 1}) job.Arrive(w);
    std::atomic<bool> may_return{false};
    std::thread first([&] {
      TrainUntilLost(&job, paths[0], 4);
      Await(may_return);
      job.Arrive(0);
      ElasticCollective collective(&job, 0);
      EXPECT_OK(FitElastic(&collective, paths[0], DoesNothing()).status);
    });
    {
      ElasticCollective collective(&job, 1);
      const auto await_joiner = AfterSteps(9, [&](FitState& fit) {
        EXPECT_TRUE(fit.chief);
        may_return = true;
        AwaitJoiner(&job);
      });
      ExpectUndisturbed(FitElastic(&collective, paths[1], await_joiner));
    }
    first.join();
    EXPECT_FALSE(HasBackup(paths[0]));
    EXPECT_FALSE(HasBackup(paths[1]));
  }
}

// Another process holds the folder of worker 1, which is the chief after 4
// steps. After 9 the folder becomes free.
TEST(BackupTest, Save_FolderLockedByOldChief_JobSavesOnceItIsFree) {
  TempFolder own(TempFolder::InMemory()), locked(TempFolder::InMemory());
  const std::string path = locked.path();
  std::unique_ptr<CheckpointDirectory> lock;
  ASSERT_OK(CheckpointDirectory::Open(path, {}, &lock));
  ElasticJob job;
  for (const int w : {0, 1}) job.Arrive(w);
  std::thread first(
      [&] { TrainUntilLost(&job, own.path(), 4, DoesNothing()); });
  bool saved = false;
  {
    ElasticCollective collective(&job, 1);
    const auto free_folder = AfterSteps(9, [&](FitState& fit) {
      EXPECT_TRUE(fit.chief);
      EXPECT_FALSE(HasBackup(path));
      lock.reset();
    });
    // Backups are written in the background.
    const auto await_backup = AfterSteps(16, [&](FitState&) {
      saved = Eventually([&] { return HasBackup(path); });
    });
    ExpectUndisturbed(FitElastic(&collective, path, free_folder, await_backup));
  }
  first.join();
  EXPECT_TRUE(saved);
}

// As above, but the job is interrupted after 9 steps.
TEST(BackupTest, Interrupt_FolderLockedByOldChief_SaysThatThereIsNoBackup) {
  TempFolder own(TempFolder::InMemory()), locked(TempFolder::InMemory());
  const std::string path = locked.path();
  std::unique_ptr<CheckpointDirectory> lock;
  ASSERT_OK(CheckpointDirectory::Open(path, {}, &lock));
  ElasticJob job;
  for (const int w : {0, 1}) job.Arrive(w);
  std::thread first([&] { TrainUntilLost(&job, own.path(), 4); });
  {
    ElasticCollective collective(&job, 1);
    const auto interrupt_fit = AfterSteps(9, [&](FitState& fit) {
      EXPECT_TRUE(fit.chief);
      EXPECT_FALSE(HasBackup(path));
      fit.interrupted = true;
    });
    const ElasticFit run = FitElastic(&collective, path, interrupt_fit);
    EXPECT_TRUE(Contains(run.status, "no backup was written"));
  }
  first.join();
  EXPECT_FALSE(HasBackup(path));
}

// The holder of the lock is stalled to the end. Its backup stays, with a
// message.
TEST(BackupTest, NewChief_BackupLockedToTheEnd_WarnsThatItStays) {
  TempFolder own(TempFolder::InMemory()), locked(TempFolder::InMemory());
  const std::string path = locked.path();
  TrainAlone(path, 5);
  std::unique_ptr<CheckpointDirectory> lock;
  ASSERT_OK(CheckpointDirectory::Open(path, {}, &lock));
  ElasticJob job;
  for (const int w : {0, 1}) job.Arrive(w);
  std::thread first([&] { TrainUntilLost(&job, own.path(), 9); });
  testing::internal::CaptureStderr();
  {
    ElasticCollective collective(&job, 1);
    EXPECT_OK(FitElastic(&collective, path, DoesNothing()).status);
  }
  first.join();
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(
      printed, "a backup remains, from which another run would continue"));
  EXPECT_TRUE(Contains(printed, "in use by process"));
  EXPECT_TRUE(HasBackup(path));
}

// A worker that joins again becomes the chief, and its folder is locked.
TEST(BackupTest, NextChief_ItsFolderIsHeld_TakesPart) {
  TempFolder locked(TempFolder::InMemory()), others(TempFolder::InMemory());
  std::unique_ptr<CheckpointDirectory> lock;
  ASSERT_OK(CheckpointDirectory::Open(locked.path(), {}, &lock));
  const JoinedFit joined = FitAndJoin(3, locked.path(), others.path());
  ExpectUndisturbed(joined.chief);
  ExpectUndisturbed(joined.other);
  EXPECT_EQ(joined.chief_steps, kSteps - 4);
}

// The chief is lost while it sends the state of its backup to the other
// workers. They must never train with a mixed state.
TEST(BackupTest, Restore_ChiefLostInAnyCall_LeavesNoMixedState) {
  TempFolder saved(TempFolder::InMemory());
  TrainAlone(saved.path(), 8);
  int ended = 0;
  for (int call = 1; call < 60 && !HasFailure(); ++call) {
    SCOPED_TRACE(call);
    TempFolder folders[] = {TempFolder(TempFolder::InMemory()),
                            TempFolder(TempFolder::InMemory())};
    fs::copy(saved.path(), folders[0].path(), fs::copy_options::recursive);
    ElasticJob job;
    job.Arrive(0);
    job.Arrive(1);
    std::thread chief([&] {
      ElasticCollective collective(&job, 0, call);
      FitElastic(&collective, folders[0].path(), nullptr);
    });
    {
      ElasticCollective collective(&job, 1);
      const ElasticFit run =
          FitElastic(&collective, folders[1].path(), nullptr);
      if (run.status.ok()) {
        EXPECT_EQ(run.digest, UndisturbedDigest());
      } else {
        ++ended;
        EXPECT_TRUE(
            Contains(run.status, "no reachable worker has a valid state"));
      }
    }
    chief.join();
  }
  EXPECT_GT(ended, 0);
}

// Worker 0 is lost, and 1 becomes the chief. The run continues from its memory.
void ExpectMemoryIsTaken(const std::string& chiefs, const std::string& others) {
  ElasticJob job;
  for (const int w : {0, 1}) job.Arrive(w);
  std::thread first([&] { TrainUntilLost(&job, chiefs, 4); });
  {
    ElasticCollective collective(&job, 1);
    const auto watcher = DoesNothing();
    ExpectUndisturbed(FitElastic(&collective, others, watcher));
    EXPECT_EQ(watcher->steps(), kSteps);
  }
  first.join();
}

// The backup has another learning rate. The workers continue from their memory.
TEST(BackupTest, NewChief_BackupWithAnotherRate_IsNotRestored) {
  TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory());
  {
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    const ElasticFit run = FitElastic(
        &collective, f1.path(), std::make_shared<StepWatcher>(11, Interrupts()),
        nullptr, 0.05f);
    EXPECT_EQ(run.status.code(), Code::kCancelled);
  }
  ExpectMemoryIsTaken(f0.path(), f1.path());
}

TEST(BackupTest, NewChief_BackupOfAnotherOptimizer_IsNotRestored) {
  TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory());
  {
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    CompileOptions options = ExactSums(&collective, 5);
    auto model = TinyModel(SGD(0.1f), 0.2f, options);
    FitOptions fit = Quiet(kEpochs);
    BackupAndRestoreOptions backup;
    backup.save_freq = 1;
    fit.callbacks = {BackupAndRestore(f1.path(), backup),
                     std::make_shared<StepWatcher>(11, Interrupts())};
    EXPECT_FALSE(model->Fit(Points(203).Shuffle(3).Batch(40), fit).ok());
  }
  ExpectMemoryIsTaken(f0.path(), f1.path());
}

// The new chief's disk has no room, or its file cannot be read. The other
// workers have the state.
TEST(BackupTest, NewChief_UnusableFolder_TrainingContinuesWithoutBackups) {
  for (const bool damaged : {false, true}) {
    SCOPED_TRACE(damaged);
    TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory());
    WriteWhole(f1 / (damaged ? "backup-3.safetensors" : "file"), "no backup");
    testing::internal::CaptureStderr();
    ExpectMemoryIsTaken(f0.path(), damaged ? f1.path() : f1 / "file");
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(Contains(
        printed, "no backups are written until it can be used: " + f1.path()));
  }
}

TEST(BackupTest, Backup_OfAnotherRun_StaysWhenTrainingEnds) {
  TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory());
  {
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    CompileOptions options = ExactSums(&collective, 3);
    auto model = TinyModel(SGD(0.1f), 0.5f, options);
    FitOptions fit = Quiet(9);
    fit.callbacks = {BackupAndRestore(f1.path(), {}),
                     std::make_shared<StepWatcher>(30, Interrupts())};
    EXPECT_FALSE(model->Fit(Points(99).Batch(9), fit).ok());
  }
  EXPECT_TRUE(HasBackup(f1.path()));
  ElasticJob job;
  job.Arrive(0);
  job.Arrive(1);
  std::thread first([&] {
    ElasticCollective collective(&job, 0);
    FitElastic(&collective, f0.path(), nullptr);
  });
  {
    ElasticCollective collective(&job, 1);
    FitElastic(&collective, f1.path(), nullptr);
  }
  first.join();
  EXPECT_TRUE(HasBackup(f1.path()));
}

}  // namespace
}  // namespace ringlet
