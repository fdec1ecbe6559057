// Jobs of real processes that lose a worker.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/eventually.h"
#include "../../support/temp_folder.h"
#include "ringlet/compute.h"

namespace ringlet {
namespace {

std::string Built(const std::string& name) {
  return EnvironmentOr("RINGLET_BUILD", "build") + "/" + name;
}

void Sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// A job of workers started one by one, each with its own standard error. A
// worker computes a few steps beyond the step that the test waits for. It
// trains to the end only when the test waits for an end.
class Job {
 public:
  Job(const TempFolder& folder, int size, bool backup,
      const std::string& option = "")
      : folder_(folder), backup_(backup), option_(option) {
    // An address of this process alone: no other program takes these ports
    // while a worker is down.
    const unsigned id = static_cast<unsigned>(getpid());
    const std::string host = "127." + std::to_string(1 + (id >> 16) % 254) +
                             "." + std::to_string(id >> 8 & 255) + "." +
                             std::to_string(id & 255);
    static int port = 20000;
    for (int i = 0; i < size; ++i) {
      addresses_ +=
          (i == 0 ? "\"" : ", \"") + host + ":" + std::to_string(port++) + "\"";
    }
    Limit(10);
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
    std::filesystem::remove(Step(index));
    killed_[index] = false;
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

  // No worker makes more steps than this.
  void Limit(int step) {
    ReplaceWhole(folder_ / "limit", std::to_string(step));
  }
  void RemoveLimit() {
    std::filesystem::remove(std::string(folder_ / "limit"));
  }

  // True if the worker's present process has made this step.
  bool HasMade(int index, int step) const {
    const std::string at = ReadWhole(Step(index));
    return !at.empty() && std::atoi(at.c_str()) >= step;
  }
  void WaitForStep(int index, int step) {
    Limit(step + 10);
    if (Eventually([&] { return HasMade(index, step); })) return;
    ADD_FAILURE() << "worker " << index << " never came to step " << step
                  << "\n"
                  << StderrOf(index);
  }
  void Signal(int index, int number) {
    kill(pids_[index], number);
    if (number == SIGKILL) killed_[index] = true;
  }
  // Starts a lost worker of an elastic job again when the other workers have
  // continued without it, and waits until it has made a step. While it waits to
  // join, the others are let on step by step, up to `most`.
  void Rejoin(int index, int most) {
    int limit = 5;
    for (const auto& [other, pid] : pids_) {
      const std::string step = ReadWhole(Step(other));
      if (pid > 0) limit = std::max(limit, std::atoi(step.c_str()) + 5);
    }
    Limit(limit);
    EXPECT_TRUE(Eventually([&] { return OthersHaveMade(index, limit - 2); }));
    const char kWaits[] = " waits for ";
    const int before = CountOccurrences(StderrOf(index), kWaits);
    Start(index);
    EXPECT_TRUE(Eventually([&] {
      return HasMade(index, 1) ||
             CountOccurrences(StderrOf(index), kWaits) > before;
    })) << StderrOf(index);
    while (!HasMade(index, 1) && limit < most) {
      Limit(++limit);
      EXPECT_TRUE(Eventually(
          [&] { return HasMade(index, 1) || OthersHaveMade(index, limit); }));
      // The other workers dial it a few times a second, whatever a step takes.
      for (int i = 0; i < 100 && !HasMade(index, 1); ++i) Sleep(0.005);
    }
    EXPECT_TRUE(HasMade(index, 1)) << StderrOf(index);
    Limit(most);
  }
  // Waits until the worker has printed `text` so often.
  void AwaitStderr(int index, const std::string& text, int times = 1) {
    EXPECT_TRUE(Eventually([&] {
      return CountOccurrences(StderrOf(index), text) >= times;
    })) << StderrOf(index);
  }

  // Waits for the process. Returns its exit code, or 128 + signal. If it was
  // not killed, the job continues first.
  int End(int index) {
    if (!killed_[index]) RemoveLimit();
    int status = 0;
    EXPECT_EQ(waitpid(pids_[index], &status, 0), pids_[index]);
    pids_[index] = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // Waits until all have ended, in the way of a supervisor. A worker with exit
  // code 75 is started again immediately, since the other workers wait for it.
  // A worker ends so if another is lost before the fit has begun.
  void ExpectAllEnd(int size) {
    RemoveLimit();
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
          EXPECT_EQ(code, 0) << StderrOf(i);
        }
      }
    }
  }
  std::string StderrOf(int index) const { return ReadWhole(Errors(index)); }

 private:
  std::string Errors(int index) const {
    return folder_ / ("errors." + std::to_string(index));
  }
  bool OthersHaveMade(int index, int step) const {
    for (const auto& [other, pid] : pids_) {
      if (other != index && pid > 0 && !HasMade(other, step)) return false;
    }
    return true;
  }
  std::string Step(int index) const {
    return folder_ / ("step." + std::to_string(index));
  }

  const TempFolder& folder_;
  const bool backup_;
  const std::string option_;
  std::string addresses_;
  std::map<int, pid_t> pids_;
  std::map<int, bool> killed_;
};

TEST(JobTest, Loss_WithoutBackup_SurvivorsNameTheRankAndExitWith75) {
  for (const int number : {SIGKILL, SIGSTOP}) {
    TempFolder folder;
    Job job(folder, 4, /*backup=*/false);
    job.WaitForStep(3, 10);
    job.Signal(2, number);
    for (const int survivor : {0, 1, 3}) {
      EXPECT_EQ(job.End(survivor), 75) << job.StderrOf(survivor);
      EXPECT_TRUE(Contains(job.StderrOf(survivor), "rank 2"));
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

void Undisturbed(const TempFolder& folder, int size,
                 const std::string& option = "", bool backup = true) {
  Job job(folder, size, backup, option);
  for (int i = 0; i < size; ++i) ASSERT_EQ(job.End(i), 0) << job.StderrOf(i);
}

// The processes of the survivors continue, unlike in TensorFlow.
TEST(JobTest, Loss_WithBackup_SurvivorsWaitAndContinueFromIt) {
  constexpr int kSize = 3;
  TempFolder undisturbed;
  Undisturbed(undisturbed, kSize);
  for (const int killed : {1, 0}) {
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/true);
    int losses = 0;
    for (const int step : {20, 90}) {
      job.WaitForStep(killed, step);
      job.Signal(killed, SIGKILL);
      EXPECT_EQ(job.End(killed), 128 + SIGKILL);
      job.Limit(step + 20);
      job.AwaitStderr(2, "waiting until it joins again", ++losses);
      job.Start(killed);
    }
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.StderrOf(i);
    ExpectEndsLike(undisturbed, folder, kSize);
  }
}

// A suspended machine: when it wakes up, it and the other workers have lost
// each other.
TEST(JobTest, StoppedWorker_IsContinued_LoadsTheBackup) {
  constexpr int kSize = 3;
  TempFolder undisturbed;
  Undisturbed(undisturbed, kSize);
  for (const int stopped : {1, 0}) {
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/true);
    job.WaitForStep(stopped, 30);
    job.Signal(stopped, SIGSTOP);
    job.Limit(60);
    job.AwaitStderr(2, "waiting until it joins again");
    job.Signal(stopped, SIGCONT);
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.StderrOf(i);
    ExpectEndsLike(undisturbed, folder, kSize);
    EXPECT_TRUE(Contains(job.StderrOf(2), "rank " + std::to_string(stopped)));
  }
}

// The number of losses in each test below; `make long RUN=losses` raises it.
int Losses() { return std::atoi(EnvironmentOr("RINGLET_LOSSES", "3").c_str()); }

// A step at which to disturb a job of 160, different every time.
int RandomStep(int number, int most) {
  const Philox random(/*seed=*/11, /*stream=*/0);
  return 1 + static_cast<int>(random.At(static_cast<uint64_t>(number))[0] %
                              static_cast<uint32_t>(most));
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
    const int killed = n % kSize;
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/true, option);
    for (int loss = 0; loss < losses_each; ++loss) {
      job.WaitForStep(killed, 70 * loss + RandomStep(n, 60));
      disturb(folder);
      job.Signal(killed, SIGKILL);
      EXPECT_EQ(job.End(killed), 128 + SIGKILL);
      job.Start(killed);
    }
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.StderrOf(i);
    ExpectEndsLike(undisturbed, folder, kSize);
  }
}

// No backup is ever written, so the job continues from the survivors' state.
TEST(JobTest, Loss_NoBackupWritten_SurvivorsStateContinues) {
  ExpectLossesCostNothing("full=1", 2, [](const TempFolder&) {});
}

TEST(JobTest, Loss_BackupRemoved_SurvivorsStateContinues) {
  ExpectLossesCostNothing("", 1, [](const TempFolder& folder) {
    for (std::error_code busy;;) {  // the chief may be writing just now
      std::filesystem::remove_all(folder / "backup", busy);
      if (!busy) break;
    }
  });
}

// A lost worker had state that no other worker has, so all return to the
// backup, which has it.
TEST(JobTest, Loss_SparseOrOverlappingRounds_ContinuesFromTheBackup) {
  constexpr int kSize = 3;
  for (const char* const option : {"sparse=3", "overlap=2"}) {
    TempFolder undisturbed;
    Undisturbed(undisturbed, kSize, option);
    for (int n = 0; n < Losses(); ++n) {
      const int killed = n % kSize;
      TempFolder folder;
      Job job(folder, kSize, /*backup=*/true, option);
      for (const int step : {0, 70}) {
        job.WaitForStep(killed, step + RandomStep(n, 60));
        job.Signal(killed, SIGKILL);
        EXPECT_EQ(job.End(killed), 128 + SIGKILL);
        job.Start(killed);
      }
      for (int i = 0; i < kSize; ++i)
        EXPECT_EQ(job.End(i), 0) << job.StderrOf(i);
      ExpectEndsLike(undisturbed, folder, kSize);
    }
  }
}

// The second worker is lost while the ring forms again. The lost workers return
// one after the other.
TEST(JobTest, SecondLoss_WhileTheRingFormsAgain_IsWaitedForToo) {
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
    job.Limit(150);
    job.Start(first);
    // Immediately, while the ring forms again, or when it has.
    if (n % 3 == 1) job.AwaitStderr(3 - first - second, "until it joins again");
    if (n % 3 == 2) {
      EXPECT_TRUE(Eventually([&] { return job.HasMade(first, 1); }));
    }
    job.Signal(second, SIGKILL);
    EXPECT_EQ(job.End(second), 128 + SIGKILL);
    job.Start(second);
    job.ExpectAllEnd(kSize);
    ExpectEndsLike(undisturbed, folder, kSize);
  }
}

// --- elastic jobs: no backup, and no wait for a lost worker ------------------

void UndisturbedElastic(const TempFolder& folder, int size) {
  Undisturbed(folder, size, "elastic=1", /*backup=*/false);
}

TEST(ElasticJobTest, Loss_RestartedWorker_JoinsTheSurvivors) {
  constexpr int kSize = 3;
  TempFolder undisturbed;
  UndisturbedElastic(undisturbed, kSize);
  for (const int killed : {1, 0}) {
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/false, "elastic=1");
    job.WaitForStep(killed, 20);
    job.Signal(killed, SIGKILL);
    EXPECT_EQ(job.End(killed), 128 + SIGKILL);
    job.WaitForStep(2, 60);  // the other workers continue
    job.Rejoin(killed, /*most=*/150);
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.StderrOf(i);
    ExpectEndsLike(undisturbed, folder, kSize);
  }
}

// The same in a user-defined training loop, with the bits of Fit.
TEST(ElasticJobTest, UserLoop_WorkersAreLost_EndsWithTheSameBits) {
  constexpr int kSize = 3;
  TempFolder undisturbed, fitted;
  UndisturbedElastic(fitted, kSize);
  Undisturbed(undisturbed, kSize, "loop=1", /*backup=*/false);
  ExpectEndsLike(fitted, undisturbed, kSize);
  for (const int first : {1, 0}) {
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/false, "loop=1");
    for (const int lost : {first, 1 - first}) {
      const int step = lost == first ? 20 : 60;
      job.WaitForStep(2, step);
      job.Signal(lost, SIGKILL);
      EXPECT_EQ(job.End(lost), 128 + SIGKILL);
      job.Rejoin(lost, /*most=*/step + 30);
    }
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.StderrOf(i);
    ExpectEndsLike(undisturbed, folder, kSize);
    for (int epoch = 0; epoch < 4; ++epoch) {
      const std::string name = "epoch." + std::to_string(epoch);
      EXPECT_EQ(ReadWhole(folder / name), ReadWhole(undisturbed / name));
    }
  }
}

// The other workers have made the step and continue from its end. The new chief
// saves what the lost one has not saved.
TEST(ElasticJobTest, Chief_LostAsItSavesAtAStep_CostsNoState) {
  constexpr int kSize = 3;
  TempFolder undisturbed, folder;
  Undisturbed(undisturbed, kSize, "crashes=0@1000", /*backup=*/false);
  Job job(folder, kSize, /*backup=*/false, "crashes=0@63");
  EXPECT_EQ(job.End(0), 128 + SIGKILL) << job.StderrOf(0);
  for (const int i : {1, 2}) EXPECT_EQ(job.End(i), 0) << job.StderrOf(i);
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

TEST(ElasticJobTest, Worker_LastOfAll_FinishesTheJob) {
  constexpr int kSize = 3;
  TempFolder undisturbed, folder;
  UndisturbedElastic(undisturbed, kSize);
  Job job(folder, kSize, /*backup=*/false, "elastic=1");
  job.WaitForStep(0, 20);
  for (const int killed : {0, 2}) {
    job.Signal(killed, SIGKILL);
    EXPECT_EQ(job.End(killed), 128 + SIGKILL);
  }
  EXPECT_EQ(job.End(1), 0) << job.StderrOf(1);
  EXPECT_TRUE(ReadWhole(folder / "final.1.safetensors") ==
              ReadWhole(undisturbed / "final.1.safetensors"));
  EXPECT_EQ(ReadWhole(folder / "steps.csv"),
            ReadWhole(undisturbed / "steps.csv"));
}

// A worker that takes four times as long ends up with one of eight replicas.
// Every bit is as in a job of equally fast workers.
TEST(ElasticJobTest, Worker_Slow_ComputesFewerReplicas) {
  constexpr int kSize = 3;
  const auto train = [&](const TempFolder& folder, const char* option) {
    Job job(folder, kSize, /*backup=*/false, option);
    for (int i = 0; i < kSize; ++i) ASSERT_EQ(job.End(i), 0) << job.StderrOf(i);
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
  for (int i = 0; i < size; ++i) ASSERT_EQ(job.End(i), 0) << job.StderrOf(i);
}

void ExpectNames(const std::string& message, const std::string& names) {
  EXPECT_TRUE(Contains(message, names));
  EXPECT_TRUE(Contains(message, "gradients of the same examples"));
}

// The check before a save finds it, or an earlier one: checks follow time.
TEST(ElasticJobTest, FaultyWorker_OfThreeOrFour_IsNamedAndCostsNoBit) {
  TempFolder right;
  AllRight(right, 3);
  for (const int size : {3, 4}) {
    for (const int wrong : {0, size - 1}) {
      SCOPED_TRACE(std::to_string(wrong) + " of " + std::to_string(size));
      const bool backup = (size + wrong) % 2 == 0;
      TempFolder folder;
      Job job(folder, size, backup, "wrong=" + std::to_string(wrong) + "@33");
      for (int i = 0; i < size; ++i) {
        EXPECT_EQ(job.End(i), i == wrong ? 3 : 0) << job.StderrOf(i);
        ExpectNames(job.StderrOf(i),
                    " steps: rank " + std::to_string(wrong) + " (127.");
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

// With two workers there is no majority, so both stop; their backup is earlier.
TEST(ElasticJobTest, Workers_TwoThatDiffer_StopAndKeepTheBackupBeforeThat) {
  constexpr int kSize = 2;
  TempFolder right, folder;
  AllRight(right, kSize);
  {
    Job job(folder, kSize, /*backup=*/true, "wrong=1@60");
    for (int i = 0; i < kSize; ++i) {
      EXPECT_EQ(job.End(i), 3) << job.StderrOf(i);
      ExpectNames(job.StderrOf(i), " steps: rank 0 (127.");
      ExpectNames(job.StderrOf(i), " and rank 1 (127.");
    }
  }
  EXPECT_TRUE(Contains(ReadWhole(folder / "backup/checkpoint"), "backup"));
  Job job(folder, kSize, /*backup=*/true, kAllRight);
  for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.StderrOf(i);
  ExpectEndsLike(right, folder, kSize);
}

TEST(ElasticJobTest, Workers_FewerThanMinWorkers_EndTheJob) {
  TempFolder folder;
  Job job(folder, 2, /*backup=*/false, "elastic=2");
  job.WaitForStep(0, 20);
  job.Signal(1, SIGKILL);
  EXPECT_EQ(job.End(1), 128 + SIGKILL);
  EXPECT_EQ(job.End(0), 75) << job.StderrOf(0);
  EXPECT_TRUE(Contains(job.StderrOf(0), "missing"));
}

TEST(ElasticJobTest, Losses_AtRandomSteps_CostNoBit) {
  constexpr int kSize = 3;
  TempFolder undisturbed;
  UndisturbedElastic(undisturbed, kSize);
  for (int n = 0; n < Losses(); ++n) {
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/false, "elastic=1");
    for (int loss = 0; loss < 2; ++loss) {  // worker 1 never ends
      const int killed = (n + loss) % 2 * 2;
      job.WaitForStep(1, RandomStep(2 * n + loss, 60) + 70 * loss);
      job.Signal(killed, SIGKILL);
      EXPECT_EQ(job.End(killed), 128 + SIGKILL);
      job.Rejoin(killed, /*most=*/loss == 0 ? 100 : 158);
    }
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.StderrOf(i);
    ExpectEndsLike(undisturbed, folder, kSize);
    for (int i = 0; HasFailure() && i < kSize; ++i) {
      ADD_FAILURE() << "worker " << i << ":\n" << job.StderrOf(i);
    }
    if (HasFailure()) break;
  }
}

// One rank fails while its process runs to the end of main. The other ranks end
// too, with that rank and its reason in the message.
TEST(JobTest, Failure_OnOneRank_EndsAllWithItsRankAndCause) {
  constexpr int kSize = 3;
  const struct {
    const char* option;
    const char* cause;
  } kinds[] = {{"error", "the sensor is gone"},
               {"record", "is damaged"},
               {"save", "No space left on device"}};
  for (int n = 0; n < Losses(); ++n) {
    for (const auto& kind : kinds) {
      const int faulty_rank = n % kSize;
      TempFolder folder;
      Job job(folder, kSize, /*backup=*/n % 2 == 0,
              std::string(kind.option) + "=" + std::to_string(faulty_rank) +
                  "@" + std::to_string(RandomStep(n, 100)));
      EXPECT_NE(job.End(faulty_rank), 0);
      for (int i = 0; i < kSize; ++i) {
        if (i != faulty_rank) {
          const int code = job.End(i);
          EXPECT_TRUE(code == 1 || code == 2) << code << job.StderrOf(i);
          EXPECT_TRUE(
              Contains(job.StderrOf(i), "rank " + std::to_string(faulty_rank)));
        }
        EXPECT_TRUE(Contains(job.StderrOf(i), kind.cause))
            << kind.option << " " << i;
      }
    }
  }
}

TEST(JobTest, LearningRate_OtherOnOneRank_IsNamedBeforeAnySave) {
  for (const bool backup : {false, true}) {
    TempFolder folder;
    Job job(folder, 2, backup, "rate=1");
    for (int i = 0; i < 2; ++i) {
      EXPECT_NE(job.End(i), 0);
      EXPECT_TRUE(Contains(job.StderrOf(i), "the learning rate is 0.02"));
      EXPECT_EQ(
          ReadWhole(folder / ("final." + std::to_string(i) + ".safetensors")),
          "");
    }
    EXPECT_EQ(ReadWhole(folder / "backup/checkpoint"), "");
  }
}

// The chief is lost at an epoch's end, and does the rest of the epoch's end
// after its restart.
TEST(JobTest, Chief_LostAtAnEpochsEnd_LosesNoRowOfTheLog) {
  constexpr int kSize = 2;
  TempFolder undisturbed, folder;
  Undisturbed(undisturbed, kSize);
  Job job(folder, kSize, /*backup=*/true, "slow=0@80");
  job.Limit(90);
  EXPECT_TRUE(Eventually(
      [&] { return std::filesystem::exists(std::string(folder / "slow")); }));
  job.Signal(0, SIGKILL);
  EXPECT_EQ(job.End(0), 128 + SIGKILL);
  job.Start(0);
  for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.StderrOf(i);
  ExpectEndsLike(undisturbed, folder, kSize);
}

// The signal comes in a step that a loss interrupts.
TEST(JobTest, Signal_WhileAWorkerIsLost_EndsItsReceiver) {
  TempFolder folder;
  Job job(folder, 3, /*backup=*/true, "timeout=20");
  job.WaitForStep(1, 25);
  job.Signal(2, SIGSTOP);
  job.RemoveLimit();  // the other workers train until they wait for worker 2
  job.Signal(1, SIGTERM);
  job.Signal(2, SIGKILL);
  EXPECT_EQ(job.End(1), 75) << job.StderrOf(1);
  EXPECT_FALSE(Contains(job.StderrOf(1), "waiting until it joins again"));
}

// The state that two survivors hold is not lost with the one that sends it.
TEST(JobTest, Donor_LostInOrAfterTransfer_LeavesTheOthersState) {
  constexpr int kSize = 3;
  TempFolder undisturbed;
  Undisturbed(undisturbed, kSize, "large=1");
  for (int n = 0; n < Losses(); ++n) {
    TempFolder folder;
    Job job(folder, kSize, /*backup=*/true, "large=1");
    job.WaitForStep(2, RandomStep(n, 8));
    job.Signal(2, SIGKILL);
    EXPECT_EQ(job.End(2), 128 + SIGKILL);
    job.Limit(19);
    job.Start(2);
    // Immediately, or when the state has been sent.
    if (n % 2 == 1) {
      EXPECT_TRUE(Eventually([&] { return job.HasMade(2, 1); }));
    }
    job.Signal(0, SIGKILL);
    EXPECT_EQ(job.End(0), 128 + SIGKILL);
    job.Start(0);
    job.ExpectAllEnd(kSize);
    ExpectEndsLike(undisturbed, folder, kSize);
  }
}

TEST(JobTest, Signal_ToOneWorker_SavesAndEndsTheJobResumable) {
  constexpr int kSize = 2;
  TempFolder undisturbed, stopped;
  Undisturbed(undisturbed, kSize);
  {
    Job job(stopped, kSize, /*backup=*/true);
    job.WaitForStep(1, 25);
    job.Signal(1, SIGTERM);
    for (int i = 0; i < kSize; ++i)
      EXPECT_EQ(job.End(i), 75) << job.StderrOf(i);
  }
  Job job(stopped, kSize, /*backup=*/true);
  for (int i = 0; i < kSize; ++i) EXPECT_EQ(job.End(i), 0) << job.StderrOf(i);
  ExpectEndsLike(undisturbed, stopped, kSize);
}

}  // namespace
}  // namespace ringlet
