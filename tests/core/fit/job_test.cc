// Jobs of real processes that lose a worker.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "../../support/temp_folder.h"
#include "core/base/random.h"

namespace ringlet {
namespace {

std::string Built(const std::string& name) {
  return EnvironmentOr("RINGLET_BUILD", "build") + "/" + name;
}

void Sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A job of workers started one by one, each with its own standard error.
class Job {
 public:
  Job(const TempFolder& folder, int size, bool backup,
      const std::string& option = "")
      : folder_(folder), backup_(backup), option_(option) {
    // An address of this process's own: nobody else has these ports while a
    // worker is down.
    const unsigned id = static_cast<unsigned>(getpid());
    const std::string host = "127." + std::to_string(1 + (id >> 16) % 254) +
                             "." + std::to_string(id >> 8 & 255) + "." +
                             std::to_string(id & 255);
    static int port = 20000;
    for (int i = 0; i < size; ++i) {
      addresses_ +=
          (i == 0 ? "\"" : ", \"") + host + ":" + std::to_string(port++) + "\"";
    }
    for (int i = 0; i < size; ++i) Start(i);
  }
  ~Job() {
    for (auto& worker : pids_) {
      if (worker.second > 0) {
        kill(worker.second, SIGKILL);
        waitpid(worker.second, nullptr, 0);
      }
    }
  }

  void Start(int index) {
    const std::string config =
        "{\"cluster\": {\"worker\": [" + addresses_ +
        "]}, \"task\": {\"type\": \"worker\", \"index\": " +
        std::to_string(index) + "}}";
    const std::string runner = Built("tests/job_runner");
    const std::string errors = Errors(index);
    const pid_t pid = fork();
    if (pid == 0) {
      setenv("TF_CONFIG", config.c_str(), 1);
      if (freopen("/dev/null", "w", stdout) == nullptr ||
          freopen(errors.c_str(), "a", stderr) == nullptr) {
        _exit(126);
      }
      execl(runner.c_str(), "job_runner", folder_.path().c_str(),
            backup_ ? "backup" : "", option_.c_str(), nullptr);
      _exit(127);
    }
    pids_[index] = pid;
  }

  void WaitForStep(int index, int step) {
    for (const double until = Now() + 100; Now() < until; Sleep(0.002)) {
      const std::string at =
          ReadWhole(folder_ / ("step." + std::to_string(index)));
      if (!at.empty() && std::atoi(at.c_str()) >= step) return;
    }
    ADD_FAILURE() << "worker " << index << " never came to step " << step
                  << "\n"
                  << Said(index);
  }
  void Signal(int index, int number) { kill(pids_[index], number); }
  // Its exit code, or 128 + signal.
  int End(int index) {
    int status = 0;
    EXPECT_EQ(waitpid(pids_[index], &status, 0), pids_[index]);
    pids_[index] = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // Until all have ended, as a supervisor does it: exit code 75 says "run
  // again", and is so at once, for the others wait. A program that loses a
  // worker before its fit has begun ends so.
  void ExpectAllEnd(int size) {
    std::map<int, int> again;
    for (int running = size; running > 0; Sleep(0.005)) {
      running = 0;
      for (int i = 0; i < size; ++i) {
        int status = 0;
        if (pids_[i] == 0) continue;
        ++running;
        if (waitpid(pids_[i], &status, WNOHANG) != pids_[i]) continue;
        pids_[i] = 0;
        const int code =
            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (code == 75 && again[i]++ < 5) {
          Start(i);
        } else {
          EXPECT_EQ(code, 0) << Said(i);
        }
      }
    }
  }
  std::string Said(int index) const { return ReadWhole(Errors(index)); }

 private:
  std::string Errors(int index) const {
    return folder_ / ("errors." + std::to_string(index));
  }

  const TempFolder& folder_;
  const bool backup_;
  const std::string option_;
  std::string addresses_;
  std::map<int, pid_t> pids_;
};

TEST(JobTest, WithoutABackupSurvivorsNameTheLostWorkerAndExitResumable) {
  for (const int number : {SIGKILL, SIGSTOP}) {
    TempFolder folder;
    Job job(folder, 4, /*backup=*/false);
    job.WaitForStep(3, 10);
    job.Signal(2, number);
    for (const int survivor : {0, 1, 3}) {
      EXPECT_EQ(job.End(survivor), 75) << job.Said(survivor);
      EXPECT_NE(job.Said(survivor).find("rank 2"), std::string::npos)
          << job.Said(survivor);
    }
  }
}

void ExpectEndsLike(const TempFolder& undisturbed, const TempFolder& disturbed,
                    int size) {
  const std::string expected = ReadWhole(undisturbed / "final.0.safetensors");
  ASSERT_FALSE(expected.empty());
  for (int i = 0; i < size; ++i) {
    const std::string name = "final." + std::to_string(i) + ".safetensors";
    EXPECT_TRUE(ReadWhole(disturbed / name) == expected) << name;
  }
  EXPECT_EQ(ReadWhole(disturbed / "log.csv"),
            ReadWhole(undisturbed / "log.csv"));
  EXPECT_EQ(ReadWhole(disturbed / "steps.csv"),
            ReadWhole(undisturbed / "steps.csv"));
}

// As in TensorFlow, but the survivors' processes live on.
TEST(JobTest, SurvivorsWaitForTheLostWorkerAndGoOnFromTheBackup) {
  constexpr int kSize = 3;
  TempFolder undisturbed;
  {
    Job job(undisturbed, kSize, /*backup=*/true);
    for (int i = 0; i < kSize; ++i) ASSERT_EQ(job.End(i), 0) << job.Said(i);
  }
  for (const int victim : {1, 0}) {
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/true);
    for (const int step : {20, 90}) {
      job.WaitForStep(victim, step);
      job.Signal(victim, SIGKILL);
      EXPECT_EQ(job.End(victim), 128 + SIGKILL);
      Sleep(0.3);
      job.Start(victim);
    }
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.Said(i);
    ExpectEndsLike(undisturbed, folder, kSize);
    EXPECT_NE(job.Said(2).find("waiting for it to come back"),
              std::string::npos)
        << job.Said(2);
  }
}

// A suspended machine: when it wakes up the others have lost it, and it them.
TEST(JobTest, AStoppedWorkerWakesUpAndGoesOnFromTheBackupWithTheOthers) {
  constexpr int kSize = 3;
  TempFolder undisturbed;
  {
    Job job(undisturbed, kSize, /*backup=*/true);
    for (int i = 0; i < kSize; ++i) ASSERT_EQ(job.End(i), 0) << job.Said(i);
  }
  for (const int victim : {1, 0}) {
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/true);
    job.WaitForStep(victim, 30);
    job.Signal(victim, SIGSTOP);
    for (const double until = Now() + 100; Now() < until; Sleep(0.01)) {
      if (job.Said(2).find("waiting for it to come back") !=
          std::string::npos) {
        break;
      }
    }
    Sleep(0.5);
    job.Signal(victim, SIGCONT);
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.Said(i);
    ExpectEndsLike(undisturbed, folder, kSize);
    EXPECT_NE(job.Said(2).find("rank " + std::to_string(victim)),
              std::string::npos)
        << job.Said(2);
  }
}

// How often the tests below lose a worker; `make long RUN=losses` asks for
// more.
int Losses() { return std::atoi(EnvironmentOr("RINGLET_LOSSES", "3").c_str()); }

// A step at which to disturb a job of 160, different every time.
int RandomStep(int number, int most) {
  const Philox random(/*seed=*/11, /*stream=*/0);
  return 1 + static_cast<int>(random.At(static_cast<uint64_t>(number))[0] %
                              static_cast<uint32_t>(most));
}

void Undisturbed(const TempFolder& folder, int size,
                 const std::string& option = "") {
  Job job(folder, size, /*backup=*/true, option);
  for (int i = 0; i < size; ++i) ASSERT_EQ(job.End(i), 0) << job.Said(i);
}

// Jobs that lose a worker, which is started again, and end like the undisturbed
// one. `disturb` is called just before each loss.
void ExpectLossesCostNothing(
    const std::string& option, int losses_each,
    const std::function<void(const TempFolder&)>& disturb) {
  constexpr int kSize = 3;
  TempFolder undisturbed;
  Undisturbed(undisturbed, kSize);
  for (int n = 0; n < Losses(); ++n) {
    const int victim = n % kSize;
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/true, option);
    for (int loss = 0; loss < losses_each; ++loss) {
      job.WaitForStep(victim, 70 * loss + RandomStep(n, 60));
      disturb(folder);
      job.Signal(victim, SIGKILL);
      EXPECT_EQ(job.End(victim), 128 + SIGKILL);
      job.Start(victim);
    }
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.Said(i);
    ExpectEndsLike(undisturbed, folder, kSize);
  }
}

// No backup ever reaches the disk: what the survivors have goes on.
TEST(JobTest, WithoutAWrittenBackupTheSurvivorsStateGoesOn) {
  ExpectLossesCostNothing("full=1", 2, [](const TempFolder&) {});
}

TEST(JobTest, WhereTheBackupWasRemovedTheSurvivorsStateGoesOn) {
  ExpectLossesCostNothing("", 1, [](const TempFolder& folder) {
    for (std::error_code busy;;) {  // the chief may be writing just now
      std::filesystem::remove_all(folder / "backup", busy);
      if (!busy) break;
    }
  });
}

// A lost worker has what no other has: all go back to the backup, which has it.
TEST(JobTest, SparseRoundsAndThoseThatOverlapGoOnFromTheBackup) {
  constexpr int kSize = 3;
  for (const char* const option : {"sparse=3", "overlap=2"}) {
    TempFolder undisturbed;
    Undisturbed(undisturbed, kSize, option);
    for (int n = 0; n < Losses(); ++n) {
      const int victim = n % kSize;
      TempFolder folder;
      Job job(folder, kSize, /*backup=*/true, option);
      for (const int step : {0, 70}) {
        job.WaitForStep(victim, step + RandomStep(n, 60));
        job.Signal(victim, SIGKILL);
        EXPECT_EQ(job.End(victim), 128 + SIGKILL);
        job.Start(victim);
      }
      for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.Said(i);
      ExpectEndsLike(undisturbed, folder, kSize);
    }
  }
}

// Also while the ring forms again: the victims come back one after the other.
TEST(JobTest, ASecondLossWhileTheRingFormsAgainIsWaitedForToo) {
  constexpr int kSize = 3;
  TempFolder undisturbed;
  Undisturbed(undisturbed, kSize);
  for (int n = 0; n < Losses(); ++n) {
    const int first = n % kSize, second = (n + 1) % kSize;
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/true);
    job.WaitForStep(first, RandomStep(n, 100));
    job.Signal(first, SIGKILL);
    EXPECT_EQ(job.End(first), 128 + SIGKILL);
    job.Start(first);
    Sleep(0.001 * RandomStep(n, 400));
    job.Signal(second, SIGKILL);
    EXPECT_EQ(job.End(second), 128 + SIGKILL);
    job.Start(second);
    job.ExpectAllEnd(kSize);
    ExpectEndsLike(undisturbed, folder, kSize);
  }
}

// --- elastic jobs: no backup, and nobody is waited for

void UndisturbedElastic(const TempFolder& folder, int size) {
  Job job(folder, size, /*backup=*/false, "elastic=1");
  for (int i = 0; i < size; ++i) ASSERT_EQ(job.End(i), 0) << job.Said(i);
}

TEST(ElasticJobTest, SurvivorsGoOnAndWhoComesBackTakesPart) {
  constexpr int kSize = 3;
  TempFolder undisturbed;
  UndisturbedElastic(undisturbed, kSize);
  for (const int victim : {1, 0}) {
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/false, "elastic=1");
    job.WaitForStep(victim, 20);
    job.Signal(victim, SIGKILL);
    EXPECT_EQ(job.End(victim), 128 + SIGKILL);
    job.WaitForStep(2, 60);  // without it
    job.Start(victim);
    job.WaitForStep(victim, 61);
    // Else it was too late, and has waited for the others in vain.
    EXPECT_LT(std::atoi(ReadWhole(folder / "step.2").c_str()), 160);
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.Said(i);
    ExpectEndsLike(undisturbed, folder, kSize);
  }
}

// The same in a training loop of one's own, whose bits are those of Fit.
TEST(ElasticJobTest, ALoopOfOnesOwnOutlivesItsWorkers) {
  constexpr int kSize = 3;
  TempFolder undisturbed, fitted;
  UndisturbedElastic(fitted, kSize);
  {
    Job job(undisturbed, kSize, /*backup=*/false, "loop=1");
    for (int i = 0; i < kSize; ++i) ASSERT_EQ(job.End(i), 0) << job.Said(i);
  }
  ExpectEndsLike(fitted, undisturbed, kSize);
  for (const int victim : {1, 0}) {
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/false, "loop=1");
    for (const int lost : {victim, 1 - victim}) {
      const int step = lost == victim ? 20 : 60;
      job.WaitForStep(2, step);
      job.Signal(lost, SIGKILL);
      EXPECT_EQ(job.End(lost), 128 + SIGKILL);
      job.Start(lost);
      job.WaitForStep(lost, step + 10);
    }
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.Said(i);
    ExpectEndsLike(undisturbed, folder, kSize);
    for (int epoch = 0; epoch < 4; ++epoch) {
      const std::string name = "epoch." + std::to_string(epoch);
      EXPECT_EQ(ReadWhole(folder / name), ReadWhole(undisturbed / name));
    }
  }
}

// The others have made the step, and are at its end: they go on from there, and
// the new chief saves what that one has not.
TEST(ElasticJobTest, AChiefLostAsItSavesAtAStepCostsNoState) {
  constexpr int kSize = 3;
  TempFolder undisturbed, folder;
  {
    Job job(undisturbed, kSize, /*backup=*/false, "dies=0@1000");
    for (int i = 0; i < kSize; ++i) ASSERT_EQ(job.End(i), 0) << job.Said(i);
  }
  Job job(folder, kSize, /*backup=*/false, "dies=0@63");
  EXPECT_EQ(job.End(0), 128 + SIGKILL) << job.Said(0);
  for (const int i : {1, 2}) EXPECT_EQ(job.End(i), 0) << job.Said(i);
  int saved = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(undisturbed.path())) {
    const std::string name = entry.path().filename().string();
    const bool is_model = name.find(".safetensors") != std::string::npos;
    if (name == "final.0.safetensors" || (!is_model && name != "steps.csv")) {
      continue;
    }
    EXPECT_TRUE(ReadWhole(folder / name) == ReadWhole(undisturbed / name))
        << name;
    ++saved;
  }
  EXPECT_EQ(saved, 160 / 7 + kSize);
}

TEST(ElasticJobTest, TheLastOfAllFinishesTheJob) {
  constexpr int kSize = 3;
  TempFolder undisturbed, folder;
  UndisturbedElastic(undisturbed, kSize);
  Job job(folder, kSize, /*backup=*/false, "elastic=1");
  job.WaitForStep(0, 20);
  for (const int victim : {0, 2}) {
    job.Signal(victim, SIGKILL);
    EXPECT_EQ(job.End(victim), 128 + SIGKILL);
  }
  EXPECT_EQ(job.End(1), 0) << job.Said(1);
  EXPECT_TRUE(ReadWhole(folder / "final.1.safetensors") ==
              ReadWhole(undisturbed / "final.1.safetensors"));
  EXPECT_EQ(ReadWhole(folder / "steps.csv"),
            ReadWhole(undisturbed / "steps.csv"));
}

// Of eight replicas a worker that takes four times as long comes to have one,
// and no bit differs from where all are as fast.
TEST(ElasticJobTest, ASlowWorkerComputesFewerReplicas) {
  constexpr int kSize = 3;
  const auto train = [&](const TempFolder& folder, const char* option) {
    Job job(folder, kSize, /*backup=*/false, option);
    for (int i = 0; i < kSize; ++i) ASSERT_EQ(job.End(i), 0) << job.Said(i);
  };
  TempFolder even, dragged;
  train(even, "drags=9");
  train(dragged, "drags=1");
  ExpectEndsLike(even, dragged, kSize);
  const auto trained = [](const TempFolder& folder, int worker) {
    const std::string name = "trained." + std::to_string(worker);
    return std::atoi(ReadWhole(folder / name).c_str());
  };
  EXPECT_LT(trained(dragged, 1), 0.75 * trained(even, 1));
  EXPECT_GT(trained(dragged, 0) + trained(dragged, 2),
            trained(even, 0) + trained(even, 2));
}

// No rank has this number.
constexpr char kAllRight[] = "wrong=9@0";

void AllRight(const TempFolder& folder, int size) {
  Job job(folder, size, /*backup=*/false, kAllRight);
  for (int i = 0; i < size; ++i) ASSERT_EQ(job.End(i), 0) << job.Said(i);
}

void ExpectNames(const std::string& said, const std::string& names) {
  EXPECT_NE(said.find(names), std::string::npos) << said;
  EXPECT_NE(said.find("gradients of the same examples"), std::string::npos)
      << said;
}

// With backups it is found where one is made, at the latest after 100 steps.
TEST(ElasticJobTest, AWorkerThatComputesWrongIsNamedAndCostsNoBit) {
  TempFolder right;
  AllRight(right, 3);
  for (const int size : {3, 4}) {
    for (const int wrong : {0, size - 1}) {
      SCOPED_TRACE(std::to_string(wrong) + " of " + std::to_string(size));
      const bool backup = (size + wrong) % 2 == 0;
      TempFolder folder;
      Job job(folder, size, backup, "wrong=" + std::to_string(wrong) + "@33");
      for (int i = 0; i < size; ++i) {
        EXPECT_EQ(job.End(i), i == wrong ? 3 : 0) << job.Said(i);
        ExpectNames(job.Said(i), (backup ? "after 35 steps: rank "
                                         : "after 100 steps: rank ") +
                                     std::to_string(wrong) + " (127.");
        if (i == wrong) continue;
        const std::string name = "final." + std::to_string(i) + ".safetensors";
        EXPECT_TRUE(ReadWhole(folder / name) ==
                    ReadWhole(right / "final.0.safetensors"));
      }
      for (const char* const log : {"log.csv", "steps.csv"}) {
        EXPECT_EQ(ReadWhole(folder / log), ReadWhole(right / log));
      }
    }
  }
}

// Of two nobody knows which, so both stop; their backup is of before.
TEST(ElasticJobTest, TwoWorkersThatDifferStopAndTheirBackupIsRight) {
  constexpr int kSize = 2;
  TempFolder right, folder;
  AllRight(right, kSize);
  {
    Job job(folder, kSize, /*backup=*/true, "wrong=1@60");
    for (int i = 0; i < kSize; ++i) {
      EXPECT_EQ(job.End(i), 3) << job.Said(i);
      ExpectNames(job.Said(i), "after 63 steps: rank 0 (127.");
      ExpectNames(job.Said(i), " and rank 1 (127.");
    }
  }
  EXPECT_NE(ReadWhole(folder / "backup/checkpoint").find("backup"),
            std::string::npos);
  Job job(folder, kSize, /*backup=*/true, kAllRight);
  for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.Said(i);
  ExpectEndsLike(right, folder, kSize);
}

TEST(ElasticJobTest, FewerThanMinWorkersEnd) {
  TempFolder folder;
  Job job(folder, 2, /*backup=*/false, "elastic=2");
  job.WaitForStep(0, 20);
  job.Signal(1, SIGKILL);
  EXPECT_EQ(job.End(1), 128 + SIGKILL);
  EXPECT_EQ(job.End(0), 75) << job.Said(0);
  EXPECT_NE(job.Said(0).find("missing"), std::string::npos) << job.Said(0);
}

TEST(ElasticJobTest, LossesAtRandomCostNoBit) {
  constexpr int kSize = 3;
  TempFolder undisturbed;
  UndisturbedElastic(undisturbed, kSize);
  for (int n = 0; n < Losses(); ++n) {
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/false, "elastic=1");
    for (int loss = 0; loss < 2; ++loss) {  // worker 1 lives on
      const int victim = (n + loss) % 2 * 2;
      job.WaitForStep(1, RandomStep(2 * n + loss, 70) + 70 * loss);
      job.Signal(victim, SIGKILL);
      EXPECT_EQ(job.End(victim), 128 + SIGKILL);
      Sleep(0.001 * RandomStep(n, 300));
      job.Start(victim);
    }
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.Said(i);
    ExpectEndsLike(undisturbed, folder, kSize);
    for (int i = 0; HasFailure() && i < kSize; ++i) {
      ADD_FAILURE() << "worker " << i << ":\n" << job.Said(i);
    }
    if (HasFailure()) break;
  }
}

// One rank fails while its process lives on to the end of main: the others end
// too, within two timeouts, and say who it was and why.
TEST(JobTest, OneRanksFailureEndsAllWithItsRankAndCause) {
  constexpr int kSize = 3;
  const struct {
    const char* option;
    const char* cause;
  } kinds[] = {{"error", "the sensor is gone"},
               {"record", "is damaged"},
               {"save", "No space left on device"}};
  for (int n = 0; n < Losses(); ++n) {
    for (const auto& kind : kinds) {
      const int culprit = n % kSize;
      TempFolder folder;
      Job job(folder, kSize, /*backup=*/n % 2 == 0,
              std::string(kind.option) + "=" + std::to_string(culprit) + "@" +
                  std::to_string(RandomStep(n, 100)));
      EXPECT_NE(job.End(culprit), 0);
      const double failed = Now();
      for (int i = 0; i < kSize; ++i) {
        if (i != culprit) {
          const int code = job.End(i);
          EXPECT_TRUE(code == 1 || code == 2) << code << job.Said(i);
          EXPECT_NE(job.Said(i).find("rank " + std::to_string(culprit)),
                    std::string::npos)
              << job.Said(i);
        }
        EXPECT_NE(job.Said(i).find(kind.cause), std::string::npos)
            << kind.option << " " << i << ": " << job.Said(i);
      }
      EXPECT_LT(Now() - failed, 20);  // never for ever
    }
  }
}

TEST(JobTest, AnotherLearningRateOnOneRankIsNamedBeforeAnythingIsSaved) {
  for (const bool backup : {false, true}) {
    TempFolder folder;
    Job job(folder, 2, backup, "rate=1");
    for (int i = 0; i < 2; ++i) {
      EXPECT_NE(job.End(i), 0);
      EXPECT_NE(job.Said(i).find("the learning rate is 0.02"),
                std::string::npos)
          << job.Said(i);
      EXPECT_EQ(
          ReadWhole(folder / ("final." + std::to_string(i) + ".safetensors")),
          "");
    }
    EXPECT_EQ(ReadWhole(folder / "backup/checkpoint"), "");
  }
}

// What the chief had not done at an epoch's end is done again.
TEST(JobTest, AChiefLostAtAnEpochsEndLosesNoRowOfTheLog) {
  constexpr int kSize = 2;
  TempFolder undisturbed, folder;
  Undisturbed(undisturbed, kSize);
  Job job(folder, kSize, /*backup=*/true, "slow=0");
  job.WaitForStep(0, 80);
  Sleep(0.1);
  job.Signal(0, SIGKILL);
  EXPECT_EQ(job.End(0), 128 + SIGKILL);
  job.Start(0);
  for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.Said(i);
  ExpectEndsLike(undisturbed, folder, kSize);
}

// The signal comes in a step that a loss cuts off.
TEST(JobTest, ASignalWhileAWorkerIsLostEndsTheOneThatHasIt) {
  TempFolder folder;
  Job job(folder, 3, /*backup=*/true, "timeout=20");
  job.WaitForStep(1, 25);
  job.Signal(2, SIGSTOP);
  Sleep(0.3);  // now the others wait for it
  job.Signal(1, SIGTERM);
  Sleep(0.1);
  job.Signal(2, SIGKILL);
  EXPECT_EQ(job.End(1), 75) << job.Said(1);
  EXPECT_EQ(job.Said(1).find("waiting for it to come back"), std::string::npos)
      << job.Said(1);
}

// The state that two survivors hold is not lost with the one that sends it.
TEST(JobTest, ALossOfTheSenderLeavesTheStateOfTheOthers) {
  constexpr int kSize = 3;
  TempFolder undisturbed;
  {
    Job job(undisturbed, kSize, /*backup=*/true, "large=1");
    for (int i = 0; i < kSize; ++i) ASSERT_EQ(job.End(i), 0) << job.Said(i);
  }
  for (int n = 0; n < Losses(); ++n) {
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/true, "large=1");
    job.WaitForStep(2, RandomStep(n, 8));
    job.Signal(2, SIGKILL);
    EXPECT_EQ(job.End(2), 128 + SIGKILL);
    job.Start(2);
    Sleep(0.05 + 0.001 * RandomStep(n + 50, 250));
    job.Signal(0, SIGKILL);
    EXPECT_EQ(job.End(0), 128 + SIGKILL);
    job.Start(0);
    job.ExpectAllEnd(kSize);
    ExpectEndsLike(undisturbed, folder, kSize);
  }
}

TEST(JobTest, ASignalToOneWorkerSavesAndEndsTheWholeJobResumable) {
  constexpr int kSize = 2;
  TempFolder undisturbed, stopped;
  {
    Job job(undisturbed, kSize, /*backup=*/true);
    for (int i = 0; i < kSize; ++i) ASSERT_EQ(job.End(i), 0) << job.Said(i);
  }
  {
    Job job(stopped, kSize, /*backup=*/true);
    job.WaitForStep(1, 25);
    job.Signal(1, SIGTERM);
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 75) << job.Said(i);
  }
  Job job(stopped, kSize, /*backup=*/true);
  for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.Said(i);
  ExpectEndsLike(undisturbed, stopped, kSize);
}

}  // namespace
}  // namespace ringlet
