// ringlet train with several workers: one result, settings and keys.

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "../support/contains.h"
#include "../support/data_files.h"
#include "../support/eventually.h"
#include "../support/free_ports.h"
#include "../support/program.h"
#include "../support/temp_folder.h"

namespace ringlet {
namespace {

TEST_F(ProgramTest, Train_TwoWorkers_TakesTheStepsOfOneWithTwiceTheBatch) {
  WriteRun("\"callbacks\": []", R"("strategy": {"timeout": 20,
    "policy": "wait", "min_workers": 1, "communication": "ring"})");
  ASSERT_EQ(Run({"train", "run.json", "--batch-size", "16", "--log-steps",
                 "one.csv"}),
            0)
      << err_;
  const std::string program =
      EnvironmentOr("RINGLET_BUILD", "build") + "/tools/ringlet/ringlet";
  ASSERT_EQ(
      Run({"launch", "-n", "2", "--", program, "train", "run.json",
           "--batch-size", "8", "--log-steps", "two.csv", "--save", "model"}),
      0)
      << err_;
  EXPECT_TRUE(Contains(out_, "[0] Epoch 2/2"));
  // The other worker prints a line at the start and one at the end.
  size_t others = 0;
  for (const std::string& line : Lines(out_)) {
    others += line.compare(0, 4, "[1] ") == 0 ? 1 : 0;
  }
  EXPECT_EQ(others, 2u) << out_;
  EXPECT_TRUE(Contains(out_, "[1] worker 1 of 2 at 127.0.0.1:"));
  EXPECT_TRUE(
      Contains(out_, "2 replicas in step, epochs 1 to 2; the chief at"));
  EXPECT_TRUE(Contains(out_, ": done: 2 epochs, 6 steps in all\n"));
  const Strings one = Lines(ReadWhole(folder_ / "one.csv")),
                two = Lines(ReadWhole(folder_ / "two.csv"));
  ASSERT_EQ(two.size(), 7u);
  for (size_t i = 1; i < two.size(); ++i) {
    const size_t comma = one[i].find(',', 2);
    EXPECT_EQ(one[i].substr(0, comma), two[i].substr(0, comma));
    EXPECT_NEAR(std::stod(one[i].substr(comma + 1)),
                std::stod(two[i].substr(comma + 1)), 1e-4);
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "model"));

  // Each through all the data, in an order of its own: other steps.
  WriteRun("\"train\": {", "\"train\": {\"auto_shard_policy\": \"off\", ");
  ASSERT_EQ(Run({"launch", "-n", "2", "--", program, "train", "run.json",
                 "--batch-size", "8", "--log-steps", "off.csv"}),
            0)
      << err_;
  EXPECT_EQ(Lines(ReadWhole(folder_ / "off.csv")).size(), 7u);
  EXPECT_NE(ReadWhole(folder_ / "off.csv"), ReadWhole(folder_ / "two.csv"));
}

TEST_F(ProgramTest, Job_DataThatCannotBeDivided_AreRefused) {
  const std::string program =
      EnvironmentOr("RINGLET_BUILD", "build") + "/tools/ringlet/ringlet";
  const auto refused = [&](const std::string& what) {
    WriteRun("\"train\": {", "\"train\": {" + what);
    EXPECT_NE(Run({"launch", "-n", "2", "--", program, "train", "run.json"}),
              0);
    return out_ + err_;
  };
  EXPECT_TRUE(Contains(
      refused("\"auto_shard_policy\": \"file\", "),
      "one file cannot be divided among 2 replicas; give at least one file for "
      "each, or take the policy DATA"));
  WriteRun("@DATA@/train-images-idx3-ubyte.gz", "/dev/stdin");
  EXPECT_NE(Run({"launch", "-n", "2", "--", program, "train", "run.json"}), 0);
  EXPECT_TRUE(Contains(out_ + err_,
                       "data.train: /dev/stdin: each of the 2 workers would "
                       "read a part of it"));
}

// Worker 1 is the chief, since worker 0 never comes. It checks the files that a
// chief writes, and prints the model's path.
TEST_F(ProgramTest, ElasticJob_SecondWorkerIsTheChief_PrintsAsTheChief) {
  WriteRun("\"callbacks\": []", R"("strategy": {"policy": "shrink",
    "min_workers": 1, "timeout": 1, "start_timeout": 2})");
  const Strings workers = FreeAddresses(2);
  environment_ = {
      {"TF_CONFIG", R"({"cluster": {"worker": [")" + workers[0] + R"(", ")" +
                        workers[1] +
                        R"("]}, "task": {"type": "worker", "index": 1}})"}};
  EXPECT_EQ(Run({"train", "run.json", "--log-steps", "no/folder.csv"}), 2);
  EXPECT_TRUE(Contains(err_, "--log-steps"));
  EXPECT_EQ(Run({"train", "run.json", "--save", "model"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "the model is in model; to use it: "));
}

// Sums that no order changes: of every step, and of rounds, the last of which
// in an epoch is cut short.
class OneResultTest : public ProgramTest,
                      public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Strategies, OneResultTest,
                         testing::Values("\"reduction\": \"exact\"",
                                         "\"mode\": \"local\", "
                                         "\"local_steps\": 3",
                                         "\"mode\": \"local\", "
                                         "\"local_steps\": 2, "
                                         "\"participation\": 3",
                                         "\"mode\": \"local\", "
                                         "\"local_steps\": 2, "
                                         "\"delta\": \"sparse\", "
                                         "\"overlap\": true"));

// Four replicas give one file, on any workers that compute them or continue.
TEST_P(OneResultTest, Replicas_AnyNumberOfWorkers_GiveTheSameFile) {
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           std::string(R"("steps_per_epoch": 5},
  "strategy": {"timeout": 20, "replicas": 4, )") +
               GetParam() + "}");
  const std::string program =
      EnvironmentOr("RINGLET_BUILD", "build") + "/tools/ringlet/ringlet";
  for (int workers = 1; workers <= 4; ++workers) {
    const std::string name = "of" + std::to_string(workers);
    SCOPED_TRACE(name);
    ASSERT_EQ(
        Run({"launch", "-n", std::to_string(workers), "--", program, "train",
             "run.json", "--save", name, "--log-steps", name + ".csv"}),
        0)
        << err_;
    EXPECT_EQ(Run({"diff", "of1", name}), 0) << out_;
    EXPECT_TRUE(ReadWhole(folder_ / "of1.csv") ==
                ReadWhole(folder_ / (name + ".csv")));
  }
  EXPECT_EQ(Run({"launch", "-n", "5", "--", program, "train", "run.json"}), 2);
  EXPECT_TRUE(Contains(err_, "strategy.replicas: is 4"));
}

// The backup has the run's number of replicas: fewer workers continue with as
// many.
TEST_P(OneResultTest, Resume_FewerWorkers_GivesTheSameFile) {
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           std::string(R"("steps_per_epoch": 200},
  "strategy": {"timeout": 20, )") +
               GetParam() + R"(},
  "callbacks": [{"class_name": "BackupAndRestore",
                 "config": {"backup_dir": "backup", "save_freq": 30}}])");
  const std::string program =
      EnvironmentOr("RINGLET_BUILD", "build") + "/tools/ringlet/ringlet";
  const auto job = [&](int workers, const std::string& name, size_t epochs) {
    return Strings{"launch",
                   "-n",
                   std::to_string(workers),
                   "--",
                   program,
                   "train",
                   "run.json",
                   "--save",
                   name,
                   "--log-steps",
                   name + ".csv",
                   "--epochs",
                   std::to_string(epochs)};
  };
  // The run has no end: it is cut when it has begun as many epochs.
  Start(job(3, "cut", 1000000));
  ASSERT_TRUE(Eventually(
      [&] { return Lines(ReadWhole(folder_ / "cut.csv")).size() > 20; }));
  kill(child_, SIGTERM);
  EXPECT_EQ(Wait(), 75) << err_;
  const Strings rows = Lines(ReadWhole(folder_ / "cut.csv"));
  const size_t epochs = static_cast<size_t>(std::atoi(rows.back().c_str())) + 2;
  ASSERT_EQ(Run(job(1, "cut", epochs)), 0) << err_;
  EXPECT_FALSE(Contains(err_, "warning"));
  ASSERT_EQ(Run(job(3, "whole", epochs)), 0) << err_;
  EXPECT_EQ(Run({"diff", "whole", "cut"}), 0) << out_;
  EXPECT_TRUE(ReadWhole(folder_ / "whole.csv") ==
              ReadWhole(folder_ / "cut.csv"));
}

// With the key that the same RUN.json names: without it the other workers would
// not accept it, and all could read it.
TEST_F(ProgramTest, Run_WrongInAJobWithAKey_IsReportedToTheOthers) {
#ifndef RINGLET_SECURE
  GTEST_SKIP() << "a build without libsodium";
#endif
  ASSERT_EQ(Run({"keygen", "--out", "job.key"}), 0) << err_;
  WriteRun("\"callbacks\": []",
           R"("strategy": {"key_file": "job.key", "start_timeout": 30})");
  WriteWhole(folder_ / "wrong.json",
             Replaced(ReadWhole(folder_ / "run.json"), "\"epochs\": 2",
                      "\"epochs\": \"two\""));
  const std::string program = Program("tools/ringlet/ringlet");
  EXPECT_EQ(
      Run({"launch", "-n", "2", "--grace", "60", "--", "sh", "-c",
           "unset RINGLET_LAUNCHER_KEY; "
           "case $TF_CONFIG in *'\"index\": 1'*) run=wrong;; *) run=run;; "
           "esac; exec " +
               program + " train $run.json --no-save"}),
      2);
  EXPECT_TRUE(Contains(err_, "[0] error: worker 1 ("));
  EXPECT_TRUE(Contains(err_, ") cannot take part: wrong.json: fit.epochs"));
}

// A worker without its key cannot send a withdrawal. It prints the reason and
// ends.
TEST_F(ProgramTest, Worker_WithoutItsKeyFile_EndsAndIsMissing) {
#ifndef RINGLET_SECURE
  GTEST_SKIP() << "a build without libsodium";
#endif
  ASSERT_EQ(Run({"keygen", "--out", "job.key"}), 0) << err_;
  WriteRun("\"callbacks\": []", "\"strategy\": {\"start_timeout\": 6}");
  EXPECT_EQ(
      Run({"launch", "-n", "2", "--grace", "60", "--", "sh", "-c",
           "case $TF_CONFIG in *'\"index\": 1'*) key=none;; *) key=job;; "
           "esac; RINGLET_KEY_FILE=$key.key exec " +
               Program("tools/ringlet/ringlet") + " train run.json --no-save"}),
      2);
  const size_t ends = err_.find(
      "[1] error: RINGLET_KEY_FILE: key file none.key (copy the job's key "
      "there; ringlet keygen makes one): No such file or directory");
  const size_t missing = err_.find("; missing are worker 1 (");
  EXPECT_NE(ends, std::string::npos) << err_;
  EXPECT_NE(missing, std::string::npos) << err_;
  EXPECT_LT(ends, missing) << err_;
}

// The missing key is no error if the run's file or a flag allows it.
TEST_F(ProgramTest, Train_Insecure_WaitsForWorkersOfOtherHosts) {
  environment_ = {{"TF_CONFIG",
                   R"({"cluster": {"worker": ["127.0.0.1:29875",
                      "192.0.2.7:29876"]},
                      "task": {"type": "worker", "index": 0}})"}};
  const std::string strategy = "\"strategy\": {\"start_timeout\": 0.3";
  WriteRun("\"callbacks\": []", strategy + "}");
  ExpectError({"train", "run.json", "--save", "m", "--no-events"}, 2,
              {"ringlet keygen"});
  const auto expect_missing = [this] {
    EXPECT_TRUE(Contains(err_, "missing are worker 1 (192.0.2.7:29876)"));
  };
  EXPECT_EQ(Run({"train", "run.json", "--save", "m", "--insecure"}), 1);
  expect_missing();
  WriteRun("\"callbacks\": []", strategy + ", \"insecure\": true}");
  EXPECT_EQ(Run({"train", "run.json", "--save", "m"}), 1);
  expect_missing();
}

TEST_F(ProgramTest, Address_MissingOrTaken_ErrorNamesIt) {
  WriteRun("\"callbacks\": []",
           "\"strategy\": {\"start_timeout\": 0.3, \"patience\": 60}");
  const Strings addresses = FreeAddresses(2);
  const std::string cluster = "{\"cluster\": {\"worker\": [\"" + addresses[0] +
                              "\", \"" + addresses[1] +
                              "\"]}, \"task\": {\"type\": \"worker\", "
                              "\"index\": 0}}";
  environment_ = {{"TF_CONFIG", cluster}};
  ExpectError(
      {"train", "run.json", "--save", "m", "--log-steps", "s", "--no-events"},
      1, {addresses[1]});
  // Another program listens on this worker's port.
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  const std::string taken =
      "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  environment_ = {{"TF_CONFIG", Replaced(cluster, addresses[0], taken)}};
  ExpectError({"train", "run.json", "--save", "m", "--no-events"}, 1, {taken});
  close(fd);
}

}  // namespace
}  // namespace ringlet
