// Backups of elastic jobs: one chief after another, each with a folder.

#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "backup_runs.h"
#include "io/checkpoint/checkpoint_directory.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;

// A worker that was chief for a time leaves no backup for another run.
TEST(BackupTest, End_EarlierChiefs_RemoveTheirBackups) {
  for (const bool one_folder : {false, true}) {
    TempFolder folders[] = {TempFolder(TempFolder::InMemory()),
                            TempFolder(TempFolder::InMemory())};
    const std::string paths[] = {folders[0].path(),
                                 folders[one_folder ? 0 : 1].path()};
    ElasticJob job;
    job.Arrive(0);
    job.Arrive(1);
    std::atomic<bool> alone{false};
    std::thread first([&] {
      {
        ElasticCollective collective(&job, 0);
        FitElastic(&collective, paths[0],
                   std::make_shared<Watches>(
                       4, [&](FitState&) { collective.EndInNextCall(); }));
        EXPECT_TRUE(collective.ended());
      }
      while (!alone) std::this_thread::yield();
      job.Arrive(0);
      ElasticCollective collective(&job, 0);
      EXPECT_TRUE(FitElastic(&collective, paths[0],
                             std::make_shared<Watches>(-1, nullptr))
                      .status.ok());
    });
    {
      ElasticCollective collective(&job, 1);
      const auto watches = std::make_shared<Watches>(9, [&](FitState& fit) {
        EXPECT_TRUE(fit.chief);
        alone = true;
        while (!job.has_joiner()) std::this_thread::yield();
      });
      const ElasticFit run = FitElastic(&collective, paths[1], watches);
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, UndisturbedDigest());
    }
    first.join();
    EXPECT_FALSE(HasBackup(paths[0]));
    EXPECT_FALSE(HasBackup(paths[1]));
  }
}

// The earlier chief is stalled and holds the folder. The job continues, and
// saves again when the folder is free.
TEST(BackupTest, Save_FolderLockedByOldChief_JobContinues) {
  for (const bool freed : {true, false}) {
    TempFolder folders[] = {TempFolder(TempFolder::InMemory()),
                            TempFolder(TempFolder::InMemory())};
    const std::string path = folders[1].path();
    std::unique_ptr<CheckpointDirectory> held;
    ASSERT_TRUE(CheckpointDirectory::Open(path, {}, &held).ok());
    ElasticJob job;
    job.Arrive(0);
    job.Arrive(1);
    std::thread first([&] {
      ElasticCollective collective(&job, 0);
      const auto dies = std::make_shared<Watches>(
          4, [&](FitState&) { collective.EndInNextCall(); });
      FitElastic(&collective, folders[0].path(), dies,
                 std::make_shared<Watches>(-1, nullptr));
    });
    bool saved = false;
    {
      ElasticCollective collective(&job, 1);
      const auto frees = std::make_shared<Watches>(9, [&](FitState& fit) {
        EXPECT_TRUE(fit.chief);
        EXPECT_FALSE(HasBackup(path));
        if (freed) held.reset();
        fit.interrupted = !freed;
      });
      const auto looks = std::make_shared<Watches>(16, [&](FitState&) {
        // Backups are written in the background.
        for (int i = 0; i < 6000 && !saved; ++i) {
          saved = HasBackup(path);
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
      });
      const ElasticFit run = FitElastic(&collective, path, frees, looks);
      const std::string said = run.status.message();
      if (freed) {
        EXPECT_TRUE(run.status.ok()) << said;
        EXPECT_EQ(run.digest, UndisturbedDigest());
      } else {
        EXPECT_TRUE(Contains(said, "no backup was written"));
      }
    }
    first.join();
    EXPECT_EQ(saved, freed);
  }
}

// The holder of the lock is stalled to the end. Its backup stays, with a
// message.
TEST(BackupTest, NewChief_BackupLockedToTheEnd_WarnsThatItStays) {
  TempFolder folder(TempFolder::InMemory());
  const std::string path = folder.path();
  TrainAlone(path, 5);
  std::unique_ptr<CheckpointDirectory> held;
  ASSERT_TRUE(CheckpointDirectory::Open(path, {}, &held).ok());
  ElasticJob job;
  job.Arrive(0);
  job.Arrive(1);
  std::thread first([&] {
    TempFolder own(TempFolder::InMemory());
    ElasticCollective collective(&job, 0);
    FitElastic(&collective, own.path(),
               std::make_shared<Watches>(
                   9, [&](FitState&) { collective.EndInNextCall(); }));
  });
  testing::internal::CaptureStderr();
  {
    ElasticCollective collective(&job, 1);
    const ElasticFit run =
        FitElastic(&collective, path, std::make_shared<Watches>(-1, nullptr));
    EXPECT_OK(run.status);
  }
  first.join();
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(
      told, "a backup remains, from which another run would continue"));
  EXPECT_TRUE(Contains(told, "in use by process"));
  EXPECT_TRUE(HasBackup(path));
}

// A worker that joins again becomes the chief, and its folder is locked.
TEST(BackupTest, NextChief_ItsFolderIsHeld_TakesPart) {
  TempFolder folder(TempFolder::InMemory()), others(TempFolder::InMemory());
  std::unique_ptr<CheckpointDirectory> held;
  ASSERT_TRUE(CheckpointDirectory::Open(folder.path(), {}, &held).ok());
  ElasticJob job;
  job.Arrive(1);
  std::atomic<bool> called{false};
  std::thread comes([&] {
    while (!called) std::this_thread::yield();
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    const auto watches = std::make_shared<Watches>(-1, nullptr);
    const ElasticFit run = FitElastic(&collective, folder.path(), watches);
    EXPECT_OK(run.status);
    EXPECT_EQ(run.digest, UndisturbedDigest());
    EXPECT_EQ(watches->steps(), kSteps - 4);
  });
  {
    ElasticCollective collective(&job, 1);
    const auto watches = std::make_shared<Watches>(3, [&](FitState&) {
      called = true;
      while (!job.has_joiner()) std::this_thread::yield();
    });
    const ElasticFit run = FitElastic(&collective, others.path(), watches);
    EXPECT_OK(run.status);
    EXPECT_EQ(run.digest, UndisturbedDigest());
  }
  comes.join();
}

// The chief is lost while it gives the others the state of its backup: they
// never train on with a mix.
TEST(BackupTest, Restore_ChiefLostInAnyCall_LeavesNoMixedState) {
  TempFolder saved(TempFolder::InMemory());
  TrainAlone(saved.path(), 8);
  int ended = 0;
  for (int dies = 1; dies < 60 && !HasFailure(); ++dies) {
    SCOPED_TRACE(dies);
    TempFolder folders[] = {TempFolder(TempFolder::InMemory()),
                            TempFolder(TempFolder::InMemory())};
    fs::copy(saved.path(), folders[0].path(), fs::copy_options::recursive);
    ElasticJob job;
    job.Arrive(0);
    job.Arrive(1);
    std::thread chief([&] {
      ElasticCollective collective(&job, 0, dies);
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
  job.Arrive(0);
  job.Arrive(1);
  std::thread first([&] {
    ElasticCollective collective(&job, 0);
    FitElastic(&collective, chiefs,
               std::make_shared<Watches>(
                   4, [&](FitState&) { collective.EndInNextCall(); }));
  });
  {
    ElasticCollective collective(&job, 1);
    const auto watches = std::make_shared<Watches>(-1, nullptr);
    const ElasticFit run = FitElastic(&collective, others, watches);
    EXPECT_OK(run.status);
    EXPECT_EQ(run.digest, UndisturbedDigest());
    EXPECT_EQ(watches->steps(), kSteps);
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
    const ElasticFit run =
        FitElastic(&collective, f1.path(),
                   std::make_shared<Watches>(11, Interrupts()), nullptr, 0.05f);
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
                     std::make_shared<Watches>(11, Interrupts())};
    EXPECT_FALSE(model->Fit(Points(203).Shuffle(3).Batch(40), fit).ok());
  }
  ExpectMemoryIsTaken(f0.path(), f1.path());
}

// The new chief's disk has no room, or its file cannot be read. The others have
// the state.
TEST(BackupTest, NewChief_UnusableFolder_TrainingContinuesWithoutBackups) {
  for (const bool damaged : {false, true}) {
    SCOPED_TRACE(damaged);
    TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory());
    WriteWhole(f1 / (damaged ? "backup-3.safetensors" : "file"), "no backup");
    testing::internal::CaptureStderr();
    ExpectMemoryIsTaken(f0.path(), damaged ? f1.path() : f1 / "file");
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(Contains(
        said, "no backups are written until it can be used: " + f1.path()));
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
                     std::make_shared<Watches>(30, Interrupts())};
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
