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
#include "core/fit/fit_details.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;

// The chief has a backup of 3, 12 or 17 steps, and joins when the other workers
// have made 4.
TEST(BackupTest, Join_ChiefWithALaterBackup_ContinuesFromMemory) {
  for (const int64_t saved : {3, 12, 17}) {
    SCOPED_TRACE(saved);
    TempFolder chiefs(TempFolder::InMemory()), others(TempFolder::InMemory());
    TrainAlone(chiefs.path(), saved);
    const JoinedFit joined = FitAndJoin(4, chiefs.path(), others.path());
    ExpectUndisturbed(joined.chief);
    ExpectUndisturbed(joined.other);
    EXPECT_EQ(joined.other_steps, kSteps);
    EXPECT_FALSE(HasBackup(chiefs.path()));
    EXPECT_FALSE(HasBackup(others.path()));
  }
}

// steps   event                                           expected
// before  worker 0, alone, computes wrong after 2 steps,
//         and saves 11
// 3       of workers 1, 2 and 3, worker 3 computes wrong  it ends
// 8       worker 0 joins                                  all are undisturbed
TEST(BackupTest, Join_ChiefWithAWrongLaterBackup_ContinuesFromMemory) {
  TempFolder folders[4];
  {
    ElasticJob alone;
    alone.Arrive(0);
    ElasticCollective collective(&alone, 0);
    FitElastic(&collective, folders[0].path(), AfterSteps(2, CorruptWeight),
               AfterSteps(11, Interrupts()));
  }
  ElasticJob job;
  for (const int w : {1, 2, 3}) job.Arrive(w);
  std::atomic<bool> chief_may_join{false};
  RunThreads(4, [&](int w) {
    if (w == 0) {
      Await(chief_may_join);
      job.Arrive(0);
    }
    ElasticCollective collective(&job, w);
    const auto corrupt_weight = AfterSteps(3, [w](FitState& fit) {
      if (w == 3) CorruptWeight(fit);
    });
    const auto let_join = AfterSteps(8, [&, w](FitState&) {
      chief_may_join = true;
      if (w == 1) AwaitJoiner(&job);
    });
    const ElasticFit run =
        FitElastic(&collective, folders[w].path(), corrupt_weight, let_join);
    if (w == 3) {
      EXPECT_EQ(run.status.code(), Code::kOutOfSync) << run.status.message();
    } else {
      ExpectUndisturbed(run);
    }
  });
}

// Only a backup is left. The state in memory is from a faulty worker, and a
// worker that has joined since has another history.
//
// steps   event                                           expected
// before  worker 0, alone, saves 2 steps
// 3       worker 1, alone, computes wrong; 0 and 2 join
// then    worker 1 computes wrong as it goes on           it ends
// then    worker 3 joins                                  all have 2 steps
// 7       worker 1 joins again                            all are undisturbed
TEST(BackupTest, Resume_FromBackupAfterFaultyWorker_DropsStateInMemory) {
  TempFolder folders[4];
  TrainAlone(folders[0].path(), 2);
  ElasticJob job;
  job.Arrive(1);
  std::atomic<bool> computed_wrong{false}, has_ended{false}, may_return{false};
  const auto train = [&](int w, const std::shared_ptr<StepWatcher>& one,
                         const std::shared_ptr<StepWatcher>& other) {
    ElasticCollective collective(&job, w);
    const ElasticFit run =
        FitElastic(&collective, folders[w].path(), one, other, 0.01f,
                   /*save_freq=*/1000, 16, /*check_every=*/2);
    if (run.status.code() == Code::kOutOfSync) job.Arrive(3);
    return run;
  };
  const auto train_faulty = [&] {
    const auto lets_join = AfterSteps(3, [&](FitState& fit) {
      CorruptWeight(fit);
      for (const int w : {0, 2}) job.Arrive(w);
      computed_wrong = true;
      AwaitJoiner(&job);
    });
    const auto after_loss = AfterSteps(StepWatcher::kAfterLoss, CorruptWeight);
    EXPECT_EQ(train(1, lets_join, after_loss).status.code(), Code::kOutOfSync);
    has_ended = true;
    Await(may_return);
    EXPECT_OK(train(1, DoesNothing(), DoesNothing()).status);
  };
  RunThreads(4, [&](int w) {
    if (w == 1) return train_faulty();
    Await(w == 3 ? has_ended : computed_wrong);
    const auto lets_return = AfterSteps(7, [&, w](FitState&) {
      if (w != 0) return;
      job.Arrive(1);
      may_return = true;
      AwaitJoiner(&job);
    });
    ExpectUndisturbed(train(w, lets_return, DoesNothing()));
  });
}

// steps   event                                     expected
// before  worker 0, alone, saves 12 steps
// 3       of workers 1, 2 and 3, worker 3 computes
//         wrong, and continues alone
// 5       worker 0 joins                            not with its backup
// 13      worker 3 returns with 15 steps            not with its state
// end                                               all are undisturbed
TEST(BackupTest, Join_ChiefWithALaterBackup_HistoryStays) {
  TempFolder folders[4];
  TrainAlone(folders[0].path(), 12);
  ElasticJob job, other;
  for (const int w : {1, 2, 3}) job.Arrive(w);
  std::atomic<bool> chief_may_join{false}, last_may_return{false};
  const auto train = [&](ElasticCollective* collective,
                         const std::shared_ptr<StepWatcher>& one,
                         const std::shared_ptr<StepWatcher>& another) {
    const std::string folder = folders[collective->worker()].path();
    return FitElastic(collective, folder, one, another, 0.01f,
                      /*save_freq=*/1, 16, /*check_every=*/4);
  };
  const auto train_and_let_join = [&](ElasticCollective* collective) {
    const auto let_join = [&,
                           w = collective->worker()](std::atomic<bool>* may) {
      if (w != 1) return;
      *may = true;
      AwaitJoiner(&job);
    };
    return train(
        collective,
        AfterSteps(5, [&](FitState&) { let_join(&chief_may_join); }),
        AfterSteps(13, [&](FitState&) { let_join(&last_may_return); }));
  };
  const auto train_apart = [&](ElasticCollective* collective) {
    const auto leave_job = AfterSteps(3, [&](FitState& fit) {
      CorruptWeight(fit);
      collective->MoveTo(&other);
    });
    const auto return_to_job = AfterSteps(15, [&](FitState&) {
      Await(last_may_return);
      collective->MoveTo(&job);
    });
    return train(collective, leave_job, return_to_job);
  };
  RunThreads(4, [&](int w) {
    if (w == 0) {
      Await(chief_may_join);
      job.Arrive(0);
    }
    ElasticCollective collective(&job, w);
    ExpectUndisturbed(w == 3 ? train_apart(&collective)
                             : train_and_let_join(&collective));
  });
}

// The joiner ends on the error of its own disk, though all would begin with the
// state on it.
TEST(BackupTest, Join_ChiefWithoutItsFolder_EndsAlone) {
  TempFolder folder, others;
  const std::string path = folder / "file";
  WriteWhole(path, "no directory");
  const JoinedFit joined = FitAndJoin(4, path, others.path());
  EXPECT_TRUE(Contains(joined.chief.status, path));
  ExpectUndisturbed(joined.other);
}

// The joining chief has a later backup, and is lost in one of its calls. The
// other worker continues from its memory.
TEST(BackupTest, Join_ChiefIsLostMeanwhile_OtherContinues) {
  constexpr int64_t kNoSaves = 100;
  TempFolder saved(TempFolder::InMemory());
  TrainAlone(saved.path(), 12);
  for (int last_call = 1; last_call < 90 && !HasFailure(); ++last_call) {
    SCOPED_TRACE(last_call);
    TempFolder chiefs(TempFolder::InMemory()), others(TempFolder::InMemory());
    fs::copy(saved.path(), chiefs.path(), fs::copy_options::recursive);
    const JoinedFit joined =
        FitAndJoin(4, chiefs.path(), others.path(), last_call, kNoSaves);
    ExpectUndisturbed(joined.other);
  }
}

// A fit with backups and a log of steps in `folder`. Calls `begins` before each
// step. Returns the epochs of its history.
std::vector<int64_t> FitWithLog(
    Collective* collective, const TempFolder& folder, const std::string& log,
    const std::string& backups,
    const std::function<void(int64_t)>& begins = [](int64_t) {}) {
  auto model =
      TinyModel(Adam(0.01f), /*dropout=*/0.2f, ExactSums(collective, 5));
  LambdaCallbackOptions lambda;
  lambda.on_train_batch_begin = [&](int64_t) { begins(model->iterations()); };
  FitOptions fit = Quiet(kEpochs);
  fit.callbacks = {BackupAndRestore(folder / backups, SaveEvery(1)),
                   StepLogger(folder / log), LambdaCallback(lambda)};
  const auto history = model->Fit(Points(203).Shuffle(3).Batch(40), fit);
  return history.ok() ? history->epoch : std::vector<int64_t>();
}

// steps  event                                  expected
// 9      the chief is lost in a check           the other worker rolls back
// then   the chief joins, with a log of         the log has the rows of an
//        later steps                            undisturbed run
TEST(BackupTest, Rollback_ChiefJoinsWithALaterBackup_LogHasEachRowOnce) {
  constexpr size_t kBytesOfACheck = 4 * sizeof(int64_t);
  TempFolder folder(TempFolder::InMemory());
  const std::vector<int64_t> epochs =
      FitWithLog(nullptr, folder, "right.csv", "right");
  ElasticJob job;
  for (int w = 0; w < 2; ++w) job.Arrive(w);
  std::atomic<bool> is_lost{false}, rolled_back{false};
  std::thread chief([&] {
    {
      ElasticCollective collective(&job, 0);
      FitWithLog(&collective, folder, "log.csv", "0", [&](int64_t step) {
        if (step == 9) collective.EndInGather(kBytesOfACheck);
      });
      EXPECT_TRUE(collective.ended());
      is_lost = true;  // the other worker waits for this
    }
    Await(rolled_back);
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    FitWithLog(&collective, folder, "log.csv", "0");
  });
  {
    ElasticCollective collective(&job, 1);
    const std::vector<int64_t> other =
        FitWithLog(&collective, folder, "log.csv", "1", [&](int64_t step) {
          if (!is_lost || rolled_back) return;
          EXPECT_EQ(step, 9);
          rolled_back = true;
          AwaitJoiner(&job);
        });
    EXPECT_EQ(other, epochs);
  }
  chief.join();
  EXPECT_EQ(ReadWhole(folder / "log.csv"), ReadWhole(folder / "right.csv"));
}

// A model with a state that travels in several messages.
ElasticFit FitManyUnits(ElasticCollective* collective, const TempFolder& folder,
                        const std::shared_ptr<StepWatcher>& watches) {
  return FitElastic(collective, folder.path(), watches, nullptr, 0.01f, 1,
                    /*units=*/600);
}

// The chief joins workers 1 and 2 with a later backup, and ends in its
// broadcast number `first`. Worker 2 ends in that with the number `second`.
// Returns true if both were lost so.
bool LoseTwoInTheTransfer(int first, int second, uint64_t expected) {
  TempFolder folders[] = {TempFolder(TempFolder::InMemory()),
                          TempFolder(TempFolder::InMemory()),
                          TempFolder(TempFolder::InMemory())};
  {
    ElasticJob before;
    before.Arrive(0);
    ElasticCollective collective(&before, 0);
    FitManyUnits(&collective, folders[0], AfterSteps(11, Interrupts()));
  }
  ElasticJob job;
  for (const int w : {1, 2}) job.Arrive(w);
  std::atomic<bool> chief_may_join{false};
  std::atomic<int> lost{0};
  RunThreads(3, [&](int w) {
    if (w == 0) {
      Await(chief_may_join);
      job.Arrive(0);
    }
    ElasticCollective collective(&job, w);
    if (w == 0) collective.EndInBroadcast(first);
    const auto await_joiner = AfterSteps(4, [&, w](FitState&) {
      if (w == 0) return;
      if (w == 2) {
        chief_may_join = true;
        collective.EndInBroadcast(second);
      }
      AwaitJoiner(&job);
    });
    const ElasticFit run = FitManyUnits(&collective, folders[w], await_joiner);
    lost += w != 1 && collective.ended();
    if (w != 1) return;
    EXPECT_OK(run.status);
    EXPECT_EQ(run.digest, expected);
  });
  return lost == 2;
}

TEST(BackupTest, Join_TwoAreLostInTheTransfer_OtherContinues) {
#ifdef RINGLET_SANITIZED
  const int apart = 0;
#else
  // 200 jobs of threads that wait busily take more than an hour in an emulator.
  const int apart = std::getenv("RINGLET_EMULATED") != nullptr ? 0 : 4;
#endif
  const TempFolder none;
  const uint64_t expected = FitManyUnits(nullptr, none, DoesNothing()).digest;
  int both_lost = 0;
  for (int first = 1; first <= 40; ++first) {
    for (int second = first; second <= first + apart; ++second) {
      SCOPED_TRACE(std::to_string(first) + " " + std::to_string(second));
      both_lost += LoseTwoInTheTransfer(first, second, expected);
    }
  }
  EXPECT_GT(both_lost, apart == 0 ? 5 : 20);
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
    const auto end_if_restored =
        std::make_shared<StepWatcher>(StepWatcher::kMeets, [&](FitState& fit) {
          if (!fit.details->restored_from.empty()) collective.EndInNextCall();
        });
    const ElasticFit run =
        FitElastic(&collective, folders[w].path(), end_if_restored);
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
