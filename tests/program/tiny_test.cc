// The networks of MLPerf Tiny as RUN.json and as C++ samples, on a few made
// examples. torch_parity.py holds their numbers to PyTorch's.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "../support/contains.h"
#include "../support/program.h"
#include "../support/tiny_networks.h"

namespace ringlet {
namespace {

class TinyTest : public ProgramTest {
 protected:
  void Prepare(const TinyNetwork& network, const std::string& fields = "") {
    WriteTinyRun(network, 16, folder_.path(), fields);
  }

  // Until the running program's log of steps has more lines, and a backup is
  // there.
  void AwaitBackup(const std::string& log, size_t lines) {
    for (int i = 0; i < 120000; ++i) {
      if (Lines(ReadWhole(folder_ / log)).size() > lines && HasBackup()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << log << " did not grow";
  }
  bool HasBackup() {
    for (const std::string& path : Files()) {
      if (std::regex_search(path, std::regex("/backup-\\d+\\.safetensors$"))) {
        return true;
      }
    }
    return false;
  }
};

constexpr char kBackup[] = R"("callbacks": [{"class_name": "BackupAndRestore",
  "config": {"backup_dir": "backup", "save_freq": 3}}],
  "strategy": {"timeout": 20}, )";

TEST_F(TinyTest, Networks_Summary_HasTheParametersOfTheBenchmark) {
  for (const TinyNetwork& network : kTinyNetworks) {
    Prepare(network);
    ASSERT_EQ(Run({"summary", "run.json"}), 0) << err_;
    EXPECT_TRUE(Contains(
        out_, std::string(" Total params: ") + network.weights + " ("));
  }
}

// Returns the results in the line of an epoch, behind its times.
std::string Results(const std::string& out) {
  const size_t at = out.find("/step - ");
  EXPECT_NE(at, std::string::npos) << out;
  return at == std::string::npos ? "" : Lines(out.substr(at))[0];
}

TEST_F(TinyTest, Sample_SameData_TrainsAsTheRunDoes) {
  for (const TinyNetwork& network : kTinyNetworks) {
    SCOPED_TRACE(network.name);
    Prepare(network);
    ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--no-save"}), 0)
        << err_;
    const std::string results = Results(out_);
    Start({"data", "1"}, std::string("samples/tiny_") + network.name);
    ASSERT_EQ(Wait(), 0) << err_;
    EXPECT_EQ(Results(out_), results);
  }
}

TEST_F(TinyTest, Resume_AfterAKill_HasTheSameBits) {
  for (const TinyNetwork& network : kTinyNetworks) {
    SCOPED_TRACE(network.name);
    const std::string whole = std::string(network.name) + "-whole",
                      killed = std::string(network.name) + "-killed";
    const auto train = [](const std::string& epochs, const std::string& model) {
      return Strings{"train",        "run.json", "--epochs",    epochs,
                     "--save",       model,      "--log-steps", model + ".csv",
                     "--batch-size", "4"};
    };
    Prepare(network, kBackup);
    Start(train("1000000", killed));
    AwaitBackup(killed + ".csv", 5);
    kill(child_, SIGKILL);
    EXPECT_EQ(Wait(), 1000 + SIGKILL);
    const size_t steps = Lines(ReadWhole(folder_ / (killed + ".csv"))).size();
    const std::string epochs = std::to_string(steps / 4 + 2);
    ASSERT_EQ(Run(train(epochs, killed)), 0) << err_;
    EXPECT_TRUE(Contains(out_, "continues at epoch "));
    Prepare(network);
    ASSERT_EQ(Run(train(epochs, whole)), 0) << err_;
    ASSERT_EQ(Run({"inspect", whole}), 0);
    EXPECT_TRUE(Contains(out_, "/moving_variance"));
    EXPECT_EQ(Run({"diff", whole, killed}), 0) << out_;
    EXPECT_TRUE(ReadWhole(folder_ / (whole + ".csv")) ==
                ReadWhole(folder_ / (killed + ".csv")));
  }
}

TEST_F(TinyTest, Job_LosesAWorker_KeepsItsMovingStatistics) {
  Prepare(kTinyNetworks[1], kBackup);
  const auto job = [&](const std::string& name) {
    return Strings{"launch",
                   "-n",
                   "2",
                   "--restart",
                   "--backoff",
                   "0.01",
                   "--",
                   Program("tools/ringlet/ringlet"),
                   "train",
                   "run.json",
                   "--batch-size",
                   "4",
                   "--epochs",
                   "1",
                   "--steps-per-epoch",
                   "100",
                   "--save",
                   name,
                   "--log-steps",
                   name + ".csv"};
  };
  ASSERT_EQ(Run(job("whole")), 0) << err_;
  Start(job("lost"));
  AwaitBackup("lost.csv", 10);
  const std::vector<pid_t> workers = FindWorkers(child_);
  ASSERT_EQ(workers.size(), 2u);
  kill(workers[1], SIGKILL);
  EXPECT_EQ(Wait(), 0) << err_;
  EXPECT_TRUE(Contains(out_, "[0] continues at epoch 1, step "));
  EXPECT_EQ(Run({"diff", "whole", "lost"}), 0) << out_;
  EXPECT_TRUE(ReadWhole(folder_ / "whole.csv") ==
              ReadWhole(folder_ / "lost.csv"));
}

}  // namespace
}  // namespace ringlet
