// Jobs of real processes that lose a worker.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "temp_folder.h"

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
  Job(const TempFolder& folder, int size, bool backup)
      : folder_(folder), backup_(backup) {
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
            backup_ ? "backup" : "", nullptr);
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
  std::string Said(int index) const { return ReadWhole(Errors(index)); }

 private:
  std::string Errors(int index) const {
    return folder_ / ("errors." + std::to_string(index));
  }

  const TempFolder& folder_;
  const bool backup_;
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
