// Backups of elastic jobs: workers join, and are lost, beside a backup.

#include "ringlet/checkpoint.h"
#include "ringlet/loggers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/sanitized.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "backup_runs.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;

// time    event                                         expected
// before  part 0 of a parted job saves step 3, 12, 17
// step 5  its chief joins the other part                all go on from step 5
// end     both have trained                             undisturbed, no backup
TEST(BackupTest, Join_ChiefWithALaterBackup_ContinuesFromMemory) {
  for (const int64_t saved : {3, 12, 17}) {
    SCOPED_TRACE(saved);
    constexpr int64_t kFormationReport = 5;
    TempFolder chiefs(TempFolder::InMemory()), others(TempFolder::InMemory());
    TrainAlone(chiefs.path(), saved);
    ElasticJob job;
    job.Arrive(1);
    std::atomic<bool> called{false};
    std::thread comes([&] {
      while (!called) std::this_thread::yield();
      job.Arrive(0);
      ElasticCollective collective(&job, 0);
      const ElasticFit run = FitElastic(&collective, chiefs.path(),
                                        std::make_shared<Watches>(-1, nullptr));
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, UndisturbedDigest());
    });
    {
      ElasticCollective collective(&job, 1);
      const auto watches =
          std::make_shared<Watches>(kFormationReport - 1, [&](FitState&) {
            called = true;
            while (!job.has_joiner()) std::this_thread::yield();
          });
      const ElasticFit run = FitElastic(&collective, others.path(), watches);
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, UndisturbedDigest());
      EXPECT_EQ(watches->steps(), kSteps);
    }
    comes.join();
    EXPECT_FALSE(HasBackup(chiefs.path()));
    EXPECT_FALSE(HasBackup(others.path()));
  }
}

// The backup has wrong numbers: it is of a worker that was alone.
TEST(BackupTest, Join_ChiefWithAWrongLaterBackup_ContinuesFromMemory) {
  TempFolder chiefs(TempFolder::InMemory()), others[3];
  {
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    const auto corrupt_weight = std::make_shared<Watches>(
        2, [](FitState& fit) { fit.model->weights()[5] += 1; });
    FitElastic(&collective, chiefs.path(), corrupt_weight,
               std::make_shared<Watches>(11, Interrupts()));
  }
  ElasticJob job;
  for (const int w : {1, 2, 3}) job.Arrive(w);
  std::vector<std::thread> threads;
  std::atomic<bool> called{false};
  threads.emplace_back([&] {
    while (!called) std::this_thread::yield();
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    const auto none = std::make_shared<Watches>(-1, nullptr);
    const ElasticFit run = FitElastic(&collective, chiefs.path(), none, none);
    EXPECT_OK(run.status);
    EXPECT_EQ(run.digest, UndisturbedDigest());
  });
  for (const int w : {1, 2, 3}) {
    threads.emplace_back([&, w] {
      ElasticCollective collective(&job, w);
      const auto wrong = std::make_shared<Watches>(3, [w](FitState& fit) {
        if (w == 3) fit.model->weights()[5] += 1;
      });
      const auto calls = std::make_shared<Watches>(8, [&, w](FitState&) {
        called = true;
        while (w == 1 && !job.has_joiner()) std::this_thread::yield();
      });
      const ElasticFit run =
          FitElastic(&collective, others[w - 1].path(), wrong, calls);
      if (w == 3) {
        EXPECT_EQ(run.status.code(), Code::kOutOfSync) << run.status.message();
        return;
      }
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, UndisturbedDigest());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Only the backup is left. The state in memory is dropped: it is that of a
// faulty worker, and a worker that has joined since has another history.
TEST(BackupTest, Resume_FromBackupAfterFaultyWorker_DropsStateInMemory) {
  TempFolder folders[4];
  TrainAlone(folders[0].path(), 2);
  ElasticJob job;
  job.Arrive(1);
  std::atomic<bool> called{false}, named{false}, again{false};
  const auto corrupt_weight = [](FitState& fit) {
    fit.model->weights()[5] += 1;
  };
  const auto train = [&](int w, const std::shared_ptr<Watches>& one,
                         const std::shared_ptr<Watches>& other) {
    ElasticCollective collective(&job, w);
    const ElasticFit run =
        FitElastic(&collective, folders[w].path(), one, other, 0.01f,
                   /*save_freq=*/1000, 16, /*check_every=*/2);
    if (run.status.code() == Code::kOutOfSync) job.Arrive(3);
    return run;
  };
  const auto none = std::make_shared<Watches>(-1, nullptr);
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    const auto calls = std::make_shared<Watches>(3, [&](FitState& fit) {
      corrupt_weight(fit);
      for (const int w : {0, 2}) job.Arrive(w);
      called = true;
      while (!job.has_joiner()) std::this_thread::yield();
    });
    const auto begins =
        std::make_shared<Watches>(Watches::kGoesOn, corrupt_weight);
    EXPECT_EQ(train(1, calls, begins).status.code(), Code::kOutOfSync);
    named = true;
    while (!again) std::this_thread::yield();
    EXPECT_TRUE(train(1, none, none).status.ok());
  });
  for (const int w : {0, 2, 3}) {
    threads.emplace_back([&, w] {
      while (!(w == 3 ? named : called)) std::this_thread::yield();
      const auto calls = std::make_shared<Watches>(7, [&, w](FitState&) {
        if (w != 0) return;
        job.Arrive(1);
        again = true;
        while (!job.has_joiner()) std::this_thread::yield();
      });
      const ElasticFit run = train(w, calls, none);
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, UndisturbedDigest());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A later backup of the chief that joins does not replace the members' state,
// nor does the state of a worker that has computed wrong alone.
TEST(BackupTest, Join_ChiefWithALaterBackup_HistoryStays) {
  TempFolder folders[4];
  TrainAlone(folders[0].path(), 12);
  ElasticJob job, other;
  for (const int w : {1, 2, 3}) job.Arrive(w);
  std::atomic<bool> called{false}, again{false};
  const auto at = [](int64_t step, const std::function<void(FitState&)>& what) {
    return std::make_shared<Watches>(step, what);
  };
  const auto train = [&](int w, const std::shared_ptr<Watches>& one,
                         const std::shared_ptr<Watches>& another,
                         ElasticCollective* collective) {
    return FitElastic(collective, folders[w].path(), one, another, 0.01f,
                      /*save_freq=*/1, 16, /*check_every=*/4);
  };
  std::vector<std::thread> threads;
  for (const int w : {0, 1, 2}) {
    threads.emplace_back([&, w] {
      while (w == 0 && !called) std::this_thread::yield();
      if (w == 0) job.Arrive(0);
      ElasticCollective collective(&job, w);
      const auto waits = [&, w](std::atomic<bool>* tells) {
        if (w != 1) return;
        *tells = true;
        while (!job.has_joiner()) std::this_thread::yield();
      };
      const ElasticFit run =
          train(w, at(5, [&](FitState&) { waits(&called); }),
                at(13, [&](FitState&) { waits(&again); }), &collective);
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, UndisturbedDigest());
    });
  }
  threads.emplace_back([&] {
    ElasticCollective collective(&job, 3);
    const auto leaves = at(3, [&](FitState& fit) {
      fit.model->weights()[5] += 1;
      collective.MoveTo(&other);
    });
    const auto returns = at(15, [&](FitState&) {
      while (!again) std::this_thread::yield();
      collective.MoveTo(&job);
    });
    const ElasticFit run = train(3, leaves, returns, &collective);
    EXPECT_OK(run.status);
    EXPECT_EQ(run.digest, UndisturbedDigest());
  });
  for (std::thread& thread : threads) thread.join();
}

// The joiner ends on the error of its own disk, though all would begin with the
// state on it.
TEST(BackupTest, Join_ChiefWithoutItsFolder_EndsAlone) {
  TempFolder folder, others;
  const std::string path = folder / "file";
  WriteWhole(path, "no directory");
  ElasticJob job;
  job.Arrive(1);
  std::atomic<bool> called{false};
  std::thread comes([&] {
    while (!called) std::this_thread::yield();
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    const ElasticFit run =
        FitElastic(&collective, path, std::make_shared<Watches>(-1, nullptr));
    EXPECT_TRUE(Contains(run.status, path));
  });
  {
    ElasticCollective collective(&job, 1);
    const auto watches = std::make_shared<Watches>(4, [&](FitState&) {
      called = true;
      while (!job.has_joiner()) std::this_thread::yield();
    });
    const ElasticFit run = FitElastic(&collective, others.path(), watches);
    EXPECT_OK(run.status);
    EXPECT_EQ(run.digest, UndisturbedDigest());
  }
  comes.join();
}

// The joining chief has a later backup, and is lost in one of its calls. The
// other worker continues from its memory.
TEST(BackupTest, Join_ChiefIsLostMeanwhile_OtherContinues) {
  constexpr int64_t kNever = 100;
  TempFolder saved(TempFolder::InMemory());
  TrainAlone(saved.path(), 12);
  for (int dies = 1; dies < 90 && !HasFailure(); ++dies) {
    SCOPED_TRACE(dies);
    TempFolder folder(TempFolder::InMemory()), other(TempFolder::InMemory());
    fs::copy(saved.path(), folder.path(), fs::copy_options::recursive);
    ElasticJob job;
    job.Arrive(1);
    std::atomic<bool> called{false};
    std::thread comes([&] {
      while (!called) std::this_thread::yield();
      job.Arrive(0);
      ElasticCollective collective(&job, 0, dies);
      FitElastic(&collective, folder.path(), nullptr,
                 std::make_shared<Watches>(-1, nullptr), 0.01f, kNever);
    });
    {
      ElasticCollective collective(&job, 1);
      const auto watches = std::make_shared<Watches>(4, [&](FitState&) {
        called = true;
        while (!job.has_joiner()) std::this_thread::yield();
      });
      const ElasticFit run = FitElastic(&collective, other.path(), watches,
                                        nullptr, 0.01f, kNever);
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, UndisturbedDigest());
    }
    comes.join();
  }
}

// A chief is lost during a replica check, and the other worker rolls back to
// its last save. The chief joins again, and its log is of later steps.
TEST(BackupTest, Rollback_ChiefJoinsWithALaterBackup_LogHasEachRowOnce) {
  constexpr size_t kOfACheck = 4 * sizeof(int64_t);
  TempFolder folder(TempFolder::InMemory());
  const auto train = [&](Collective* collective, const std::string& log,
                         const std::string& backups,
                         std::function<void(int64_t)> begins) {
    CompileOptions options = ExactSums(collective, 5);
    auto model = TinyModel(Adam(0.01f), /*dropout=*/0.2f, options);
    LambdaCallbackOptions lambda;
    lambda.on_train_batch_begin = [&](int64_t) { begins(model->iterations()); };
    FitOptions fit = Quiet(kEpochs);
    fit.callbacks = {BackupAndRestore(folder / backups, SaveEvery(1)),
                     StepLogger(folder / log), LambdaCallback(lambda)};
    const auto history = model->Fit(Points(203).Shuffle(3).Batch(40), fit);
    return history.ok() ? history->epoch : std::vector<int64_t>();
  };
  const auto epochs = train(nullptr, "right.csv", "right", [](int64_t) {});
  ElasticJob job;
  for (int w = 0; w < 2; ++w) job.Arrive(w);
  std::atomic<bool> dead{false}, begun{false};
  std::thread first([&] {
    {
      ElasticCollective collective(&job, 0);
      train(&collective, "log.csv", "0", [&](int64_t step) {
        if (step == 9) collective.EndInGather(kOfACheck);
      });
      EXPECT_TRUE(collective.ended());
      dead = true;  // before the other one goes on
    }
    while (!begun) std::this_thread::yield();
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    train(&collective, "log.csv", "0", [](int64_t) {});
  });
  {
    ElasticCollective collective(&job, 1);
    const auto mine = train(&collective, "log.csv", "1", [&](int64_t step) {
      if (!dead || begun) return;
      EXPECT_EQ(step, 9);
      begun = true;
      while (!job.has_joiner()) std::this_thread::yield();
    });
    EXPECT_EQ(mine, epochs);
  }
  first.join();
  EXPECT_EQ(ReadWhole(folder / "log.csv"), ReadWhole(folder / "right.csv"));
}

// Two workers are lost while the chief joins. The chief has a later backup than
// the others' state. The state travels in several messages.
TEST(BackupTest, Join_TwoAreLostInTheTransfer_OtherContinues) {
  constexpr int64_t kUnits = 600;
  constexpr int kMax = 40;  // broadcasts
#ifdef RINGLET_SANITIZED
  const int apart = 0;
#else
  // 200 jobs of threads that wait busily take more than an hour in an emulator.
  const int apart = std::getenv("RINGLET_EMULATED") != nullptr ? 0 : 4;
#endif
  const auto train = [](ElasticCollective* collective, const TempFolder& folder,
                        int64_t step, std::function<void(FitState&)> then) {
    return FitElastic(collective, folder.path(),
                      std::make_shared<Watches>(step, std::move(then)), nullptr,
                      0.01f, 1, kUnits);
  };
  TempFolder none;
  const uint64_t expected = train(nullptr, none, -1, nullptr).digest;
  int cut_off = 0;
  for (int first = 1; first <= kMax; ++first) {
    for (int second = first; second <= first + apart; ++second) {
      TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory()),
          f2(TempFolder::InMemory());
      {
        ElasticJob before;
        before.Arrive(0);
        ElasticCollective collective(&before, 0);
        train(&collective, f0, 11, Interrupts());
      }
      ElasticJob job;
      job.Arrive(1);
      job.Arrive(2);
      std::atomic<bool> called{false};
      std::atomic<int> dead{0};
      std::thread chief([&] {
        while (!called) std::this_thread::yield();
        job.Arrive(0);
        ElasticCollective collective(&job, 0);
        collective.EndInBroadcast(first);
        train(&collective, f0, -1, nullptr);
        dead += collective.ended();
      });
      std::thread other([&] {
        ElasticCollective collective(&job, 2);
        train(&collective, f2, 4, [&](FitState&) {
          called = true;
          collective.EndInBroadcast(second);
          while (!job.has_joiner()) std::this_thread::yield();
        });
        dead += collective.ended();
      });
      {
        ElasticCollective collective(&job, 1);
        const ElasticFit run = train(&collective, f1, 4, [&](FitState&) {
          while (!job.has_joiner()) std::this_thread::yield();
        });
        EXPECT_OK(run.status);
        EXPECT_EQ(run.digest, expected) << first << " " << second;
      }
      chief.join();
      other.join();
      cut_off += dead == 2;
    }
  }
  EXPECT_GT(cut_off, apart == 0 ? 5 : 20);
}

// The chief, which alone has the backup, is lost when all have its state, as
// another callback begins.
TEST(BackupTest, Load_ChiefIsLostAsACallbackBegins_OthersEndOrAreExact) {
  TempFolder folders[3];
  TrainAlone(folders[0].path(), 11);
  ElasticJob job;
  for (int w = 0; w < 3; ++w) job.Arrive(w);
  RunThreads(3, [&](int w) {
    ElasticCollective collective(&job, w);
    const auto meets =
        std::make_shared<Watches>(Watches::kMeets, [&](FitState& fit) {
          if (!fit.restored_from.empty()) collective.EndInNextCall();
        });
    const ElasticFit run = FitElastic(&collective, folders[w].path(), meets);
    if (w == 0) {
      EXPECT_TRUE(collective.ended());
    } else if (run.status.ok()) {
      EXPECT_EQ(run.digest, UndisturbedDigest()) << "worker " << w;
    } else {
      EXPECT_EQ(run.status.code(), Code::kCancelled) << run.status.message();
    }
  });
}

}  // namespace
}  // namespace ringlet
