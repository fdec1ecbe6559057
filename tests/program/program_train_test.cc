// ringlet train, alone and as several workers.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../support/data_files.h"
#include "../support/free_ports.h"
#include "../support/program.h"
#include "../support/temp_folder.h"
#include "core/model/model.h"
#include "io/data/readers.h"

namespace ringlet {
namespace {

// --- train ---

TEST_F(ProgramTest, TrainsSavesAndGoesOnFromTheSavedWeights) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "w", "--log-steps", "a.csv"}),
            0)
      << err_;
  EXPECT_EQ(err_, "");
  EXPECT_NE(out_.find("Epoch 2/2"), std::string::npos) << out_;
  EXPECT_NE(out_.find("val_accuracy"), std::string::npos) << out_;
  const Strings rows = Lines(ReadWhole(folder_ / "a.csv"));
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_EQ(rows[0], "epoch,step,loss,accuracy");
  EXPECT_EQ(rows[1].compare(0, 4, "0,0,"), 0) << rows[1];
  EXPECT_EQ(rows[6].compare(0, 4, "1,2,"), 0) << rows[6];
  // Each row is of its step alone: their mean is the epoch's value.
  double loss = 0, accuracy = 0;
  for (size_t i = 1; i <= 3; ++i) {
    const size_t comma = rows[i].rfind(',');
    loss += std::stod(rows[i].substr(4, comma - 4)) / 3;
    accuracy += std::stod(rows[i].substr(comma + 1)) / 3;
  }
  char printed[80];
  std::snprintf(printed, sizeof(printed), "- accuracy: %.4f - loss: %.4f - val",
                accuracy, loss);
  EXPECT_NE(out_.find(printed), std::string::npos) << printed << "\n" << out_;

  ASSERT_EQ(Run({"train", "run.json", "--init", "w", "--log-steps", "b.csv"}),
            0)
      << err_;
  const Strings later = Lines(ReadWhole(folder_ / "b.csv"));
  ASSERT_EQ(later.size(), 7u);
  EXPECT_NE(later[1], rows[1]);
}

TEST_F(ProgramTest, TheSameRunGivesTheSameBytes) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "a", "--log-steps", "a.csv"}),
            0);
  ASSERT_EQ(Run({"train", "run.json", "--save", "b", "--log-steps", "b.csv"}),
            0);
  EXPECT_EQ(ReadWhole(folder_ / "a.csv"), ReadWhole(folder_ / "b.csv"));
  EXPECT_TRUE(ReadWhole(folder_ / "a") == ReadWhole(folder_ / "b"));
  ASSERT_EQ(Run({"train", "run.json", "--seed", "2", "--log-steps", "b.csv"}),
            0);
  EXPECT_NE(ReadWhole(folder_ / "a.csv"), ReadWhole(folder_ / "b.csv"));
}

TEST_F(ProgramTest, FlagsGoBeforeFields) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--epochs=1", "--steps-per-epoch", "5",
                 "--batch-size", "7", "--log-steps", "s.csv", "--threads", "2",
                 "--no-shuffle"}),
            0)
      << err_;
  const Strings rows = Lines(ReadWhole(folder_ / "s.csv"));
  ASSERT_EQ(rows.size(), 6u);
  for (size_t i = 1; i < rows.size(); ++i) {
    // Of 7 examples the accuracy is a number of sevenths.
    const double sevenths =
        7 * std::stod(rows[i].substr(rows[i].rfind(',') + 1));
    EXPECT_NEAR(sevenths, static_cast<int>(sevenths + 0.5), 1e-9) << rows[i];
  }
  const std::string in_order = ReadWhole(folder_ / "s.csv");
  ASSERT_EQ(Run({"train", "run.json", "--epochs=1", "--steps-per-epoch", "5",
                 "--batch-size", "7", "--log-steps", "s.csv"}),
            0);
  EXPECT_NE(ReadWhole(folder_ / "s.csv"), in_order);
}

TEST_F(ProgramTest, WithoutStepsPerEpochAnEpochIsTheWholeData) {
  WriteRun(", \"steps_per_epoch\": 3", "");
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--batch-size", "300",
                 "--log-steps", "s.csv"}),
            0)
      << err_;
  EXPECT_EQ(Lines(ReadWhole(folder_ / "s.csv")).size(), 8u);  // 2000 / 300
}

TEST_F(ProgramTest, CallbacksWriteBesideTheRun) {
  std::filesystem::create_directory(folder_ / "sub");
  WriteRun("\"callbacks\": []", R"("callbacks": [
    {"class_name": "CSVLogger", "config": {"filename": "log.csv"}},
    {"class_name": "TensorBoard", "config": {"log_dir": "tb"}},
    {"class_name": "ReduceLROnPlateau", "config": {"factor": 0.5}},
    {"class_name": "EarlyStopping", "config": {"monitor": "loss",
      "patience": 5, "baseline": null}},
    "TerminateOnNaN"])");
  std::filesystem::rename(folder_ / "run.json", folder_ / "sub/run.json");
  ASSERT_EQ(Run({"train", "sub/run.json"}), 0) << err_;
  EXPECT_EQ(Lines(ReadWhole(folder_ / "sub/log.csv")).size(), 3u);
  EXPECT_TRUE(std::filesystem::is_directory(folder_ / "sub/tb/train"));
}

TEST_F(ProgramTest, BackupStaysWhereTheTrainedModelCannotBeSaved) {
  // The folder m.safetensors, made in the run, is in the model's way.
  WriteRun("\"callbacks\": []", R"("callbacks": [
    {"class_name": "BackupAndRestore", "config": {"backup_dir": "backup"}},
    {"class_name": "ModelCheckpoint",
      "config": {"filepath": "m.safetensors/{epoch}.safetensors"}}])");
  EXPECT_NE(Run({"train", "run.json", "--save", "m.safetensors"}), 0);
  EXPECT_NE(err_.find("m.safetensors: "), std::string::npos) << err_;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "backup/checkpoint"));
  // Trained already; saved now.
  ASSERT_EQ(Run({"train", "run.json", "--save", "n.safetensors"}), 0) << err_;
  EXPECT_EQ(out_.find("Epoch"), std::string::npos) << out_;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "n.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "backup/checkpoint"));
}

TEST_F(ProgramTest, ASplitValidatesOnTheEndOfTheData) {
  // The last of four examples is one that no other is like.
  WriteWhole(folder_ / "d.csv", "x,y\n1,1\n1,1\n1,1\n0,5\n");
  WriteWhole(folder_ / "head.csv", "x,y\n1,1\n1,1\n1,1\n");
  WriteWhole(folder_ / "tail.csv", "x,y\n0,5\n");
  const std::string split = R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 1]}},
      {"class_name": "Dense", "config": {"units": 1}}]}},
    "compile": {"optimizer": "sgd", "loss": "mse"},
    "data": {"train": {"csv": "d.csv"}},
    "fit": {"epochs": 2, "verbose": 2, "validation_split": 0.25}})";
  WriteWhole(folder_ / "split.json", split);
  WriteWhole(folder_ / "two.json",
             Replaced(Replaced(split, "{\"csv\": \"d.csv\"}",
                               "{\"csv\": \"head.csv\"}, \"validation\": "
                               "{\"csv\": \"tail.csv\"}"),
                      "0.25", "0"));
  ASSERT_EQ(Run({"train", "two.json", "--save", "two"}), 0) << err_;
  ASSERT_NE(out_.find("val_loss"), std::string::npos) << out_;
  const auto last_epoch = [this] {
    const Strings lines = Lines(out_);
    return lines[lines.size() - 2].substr(lines[lines.size() - 2].find("loss"));
  };
  const std::string expected = last_epoch();
  ASSERT_EQ(Run({"train", "split.json", "--save", "split"}), 0) << err_;
  EXPECT_EQ(last_epoch(), expected);
  EXPECT_EQ(Run({"diff", "two", "split"}), 0) << out_;
  for (const char* share : {"0.99", "1e-20"}) {
    WriteWhole(folder_ / "run.json", Replaced(split, "0.25", share));
    ExpectError({"train", "run.json"}, 2,
                {"run.json: fit.validation_split", "4 examples leaves none"});
  }
  WriteWhole(folder_ / "run.json", Replaced(split, "0.25", "1"));
  ExpectError({"train", "run.json"}, 2, {"fit.validation_split", "in [0, 1)"});
}

TEST_F(ProgramTest, AStoppedRunGoesOnWithTheSameRows) {
  WriteRun("\"callbacks\": []", R"("callbacks": [{"class_name":
    "BackupAndRestore", "config": {"backup_dir": "backup", "save_freq": 1}}])");
  ASSERT_EQ(Run({"train", "run.json", "--log-steps", "whole.csv"}), 0) << err_;
  Start(
      {"train", "run.json", "--epochs", "2000000", "--log-steps", "part.csv"});
  for (int i = 0; i < 3000; ++i) {
    if (Lines(ReadWhole(folder_ / "part.csv")).size() > 5) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child_, SIGTERM);
  EXPECT_EQ(Wait(), 75) << err_;
  const size_t done = Lines(ReadWhole(folder_ / "part.csv")).size() - 1;
  ASSERT_GE(done, 5u);
  ASSERT_EQ(Run({"train", "run.json", "--epochs", std::to_string(done / 3 + 2),
                 "--log-steps", "part.csv"}),
            0)
      << err_;
  const Strings whole = Lines(ReadWhole(folder_ / "whole.csv")),
                part = Lines(ReadWhole(folder_ / "part.csv"));
  ASSERT_EQ(part.size(), 3 * (done / 3 + 2) + 1);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(part[i], whole[i]);
}

TEST_F(ProgramTest, NpyAndCsvDataTrain) {
  // Four examples of two numbers; the class is the greater one's place.
  WriteWhole(folder_ / "d.csv", "a,kind,b\n1,0,0\n0,1,1\n2,0,1\n1,1,2\n");
  const char kSmall[] = R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
      {"class_name": "Dense", "config": {"units": 2}}]}},
    "compile": {"optimizer": "sgd", "loss": {"class_name":
      "SparseCategoricalCrossentropy", "config": {"from_logits": true}}},
    "data": {"train": {"csv": "d.csv", "label": "kind"}},
    "fit": {"batch_size": 2, "epochs": 3}})";
  WriteWhole(folder_ / "csv.json", kSmall);
  ASSERT_EQ(Run({"train", "csv.json", "--log-steps", "s.csv"}), 0) << err_;
  EXPECT_EQ(Lines(ReadWhole(folder_ / "s.csv")).size(), 7u);
  WriteWhole(folder_ / "csv.json", Replaced(kSmall, "\"kind\"", "\"knid\""));
  ExpectError({"train", "csv.json"}, 2, {"d.csv", "knid"});
  WriteWhole(folder_ / "csv.json", Replaced(kSmall, "\"kind\"", "1"));
  ASSERT_EQ(Run({"train", "csv.json"}), 0) << err_;
  WriteWhole(folder_ / "d.csv", "a,kind,b\n1,0,0\n0,7,1\n");
  ExpectError({"train", "csv.json"}, 1, {"d.csv", "label 7"});
  WriteWhole(folder_ / "d.csv", "a,kind,b\n1,0,0\n0,1,x\n");
  ExpectError({"train", "csv.json"}, 1, {"d.csv", "line 3"});
  // Also where the damage is far behind what is trained on first.
  std::string rows = "a,kind,b\n";
  for (int i = 0; i < 100; ++i) rows += "1,0,0\n";
  WriteWhole(folder_ / "d.csv", rows + "nan,1,1\n");
  ExpectError({"train", "csv.json"}, 1, {"d.csv: example 100, value 0 is nan"});
  WriteWhole(folder_ / "d.csv", rows + "0,1,3e38\n");
  ASSERT_EQ(Run({"train", "csv.json", "--epochs", "0"}), 0) << err_;
  WriteWhole(folder_ / "csv.json",
             Replaced(kSmall, "\"kind\"", "\"kind\", \"scale\": 10"));
  ExpectError({"train", "csv.json"}, 1,
              {"d.csv: example 100, value 1 is 3e+38, which times 10"});
}

TEST_F(ProgramTest, DataOnDiskAreReadOnlyToBeTrainedOn) {
  constexpr int kExamples = 20000;
  std::string images("\0\0\x08\x03\0\0\x4e\x20\0\0\0\x1c\0\0\0\x1c", 16);
  std::string labels("\0\0\x08\x01\0\0\x4e\x20", 8);
  WriteWhole(folder_ / "x", images.append(kExamples * 28 * 28, '\1'));
  WriteWhole(folder_ / "y", labels.append(kExamples, '\2'));
  std::string run = Replaced(kRun, "@DATA@/train-images-idx3-ubyte.gz", "x");
  run = Replaced(run, "@DATA@/train-labels-idx1-ubyte.gz", "y");
  run = Replaced(run, "\"scale\"", "\"in_memory\": false, \"scale\"");
  const size_t begin = run.find(",\n    \"validation\""),
               end = run.find("},\n  \"fit\"");
  WriteWhole(folder_ / "run.json", run.erase(begin, end - begin));
  Start({"train", "run.json", "--epochs", "1"});
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child_), &ended, WEXITED | WNOWAIT),
            0);
  const std::string io = ReadWhole("/proc/" + std::to_string(child_) + "/io");
  EXPECT_EQ(Wait(), 0) << err_;
  const size_t at = io.find("rchar: ");
  if (at == std::string::npos) GTEST_SKIP() << "needs /proc/PID/io";
  EXPECT_LT(std::stol(io.substr(at + 7)), kExamples * 28 * 28 / 4);
}

// --- several workers ---

TEST_F(ProgramTest, TwoWorkersTakeTheStepsOfOneWithTwiceTheBatch) {
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
  EXPECT_NE(out_.find("[0] Epoch 2/2"), std::string::npos) << out_;
  // Of the other worker a line at the start and one at the end.
  size_t others = 0;
  for (const std::string& line : Lines(out_)) {
    others += line.compare(0, 4, "[1] ") == 0 ? 1 : 0;
  }
  EXPECT_EQ(others, 2u) << out_;
  EXPECT_NE(out_.find("[1] worker 1 of 2 at 127.0.0.1:"), std::string::npos)
      << out_;
  EXPECT_NE(out_.find("2 replicas in step, epochs 1 to 2; the chief at"),
            std::string::npos)
      << out_;
  EXPECT_NE(out_.find(": done: 2 epochs, 6 steps in all\n"), std::string::npos)
      << out_;
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

// Worker 1, with a worker 0 that does not come: it is the chief, so it checks
// what a chief writes, and says where the model is.
TEST_F(ProgramTest, AnElasticWorkerThatIsTheChiefSpeaksAsOne) {
  WriteRun("\"callbacks\": []", R"("strategy": {"policy": "shrink",
    "min_workers": 1, "timeout": 1, "start_timeout": 2})");
  const Strings workers = FreeAddresses(2);
  environment_ = {
      {"TF_CONFIG", R"({"cluster": {"worker": [")" + workers[0] + R"(", ")" +
                        workers[1] +
                        R"("]}, "task": {"type": "worker", "index": 1}})"}};
  EXPECT_EQ(Run({"train", "run.json", "--log-steps", "no/folder.csv"}), 2);
  EXPECT_NE(err_.find("--log-steps"), std::string::npos) << err_;
  EXPECT_EQ(Run({"train", "run.json", "--save", "model"}), 0) << err_;
  EXPECT_NE(out_.find("the model is in model; to use it: "), std::string::npos)
      << out_;
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
                                         "\"delta\": \"sparse\", "
                                         "\"overlap\": true"));

// Four replicas: one file, whoever computes them, and whoever goes on.
TEST_P(OneResultTest, ReplicasHaveItOnAnyNumberOfWorkers) {
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
  EXPECT_NE(err_.find("strategy.replicas: is 4"), std::string::npos) << err_;
}

// What the run began with is in its backup: fewer workers go on with as many
// replicas.
TEST_P(OneResultTest, FewerWorkersHaveItFromTheReplicasOfTheBackup) {
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           std::string(R"("steps_per_epoch": 200},
  "strategy": {"timeout": 20, )") +
               GetParam() + R"(},
  "callbacks": [{"class_name": "BackupAndRestore",
                 "config": {"backup_dir": "backup", "save_freq": 30}}])");
  const std::string program =
      EnvironmentOr("RINGLET_BUILD", "build") + "/tools/ringlet/ringlet";
  const auto job = [&](int workers, const std::string& name) {
    return Strings{"launch",      "-n",         std::to_string(workers),
                   "--",          program,      "train",
                   "run.json",    "--save",     name,
                   "--log-steps", name + ".csv"};
  };
  ASSERT_EQ(Run(job(3, "whole")), 0) << err_;
  Start(job(3, "cut"));
  for (int i = 0; i < 3000; ++i) {
    if (Lines(ReadWhole(folder_ / "cut.csv")).size() > 20) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill(child_, SIGTERM);
  EXPECT_EQ(Wait(), 75) << err_;
  ASSERT_EQ(Run(job(1, "cut")), 0) << err_;
  EXPECT_EQ(err_.find("warning"), std::string::npos) << err_;
  EXPECT_EQ(Run({"diff", "whole", "cut"}), 0) << out_;
  EXPECT_TRUE(ReadWhole(folder_ / "whole.csv") ==
              ReadWhole(folder_ / "cut.csv"));
}

// It stands still, the others finish without it, and nobody would ever wake it,
// or it wakes up and would wait for them.
TEST_F(ProgramTest, AWorkerThatStandsStillDoesNotHoldUpTheEnd) {
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           R"("steps_per_epoch": 400}, "callbacks": [],
  "strategy": {"policy": "shrink", "min_workers": 2, "timeout": 0.5})");
  const std::string program =
      EnvironmentOr("RINGLET_BUILD", "build") + "/tools/ringlet/ringlet";
  const auto job = [&](const std::string& name, const char* grace) {
    return Strings{"launch", "-n", "3",           "--restart",  "--grace",
                   grace,    "--", program,       "train",      "run.json",
                   "--save", name, "--log-steps", name + ".csv"};
  };
  ASSERT_EQ(Run(job("whole", "5")), 0) << err_;
  for (const bool wakes : {false, true}) {
    const std::string name = wakes ? "woken" : "stopped";
    SCOPED_TRACE(name);
    Start(job(name, wakes ? "5" : "1"));
    const auto wait_for = [&](const auto& what) {
      for (int i = 0; i < 60000 && !what(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    };
    wait_for([&] {
      return Lines(ReadWhole(folder_ / (name + ".csv"))).size() > 100;
    });
    const std::vector<pid_t> workers = WorkersOf(child_);
    ASSERT_EQ(workers.size(), 3u);
    kill(workers[1], SIGSTOP);
    if (wakes) {
      wait_for([&] { return WorkersOf(child_).size() < 3; });
      kill(workers[1], SIGCONT);
    }
    EXPECT_EQ(Wait(), 0) << err_;
    EXPECT_NE(err_.find("worker 1 is stopped: the others have finished"),
              std::string::npos)
        << err_;
    EXPECT_NE((out_ + err_).find("that are there, once they are 2 or more"),
              std::string::npos)
        << err_;
    EXPECT_EQ(Run({"diff", "whole", name}), 0) << out_;
  }
}

// With a grace in which it would begin to do the rest again, alone, and be cut
// off: the logs and the model of the callback are those of the others.
TEST_F(ProgramTest, WhoWakesUpWhenTheOthersHaveFinishedWritesOverNothing) {
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           R"("steps_per_epoch": 4000}, "strategy": {"timeout": 2},
  "callbacks": [{"class_name": "ModelCheckpoint",
                 "config": {"filepath": "best.safetensors"}}])");
  const std::string program = Program("tools/ringlet/ringlet");
  Start({"launch", "-n", "2", "--restart", "--grace", "1.5", "--", program,
         "train", "run.json", "--log-steps", "steps.csv"});
  const auto wait_for = [&](const auto& what) {
    for (int i = 0; i < 60000 && !what(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  wait_for(
      [&] { return Lines(ReadWhole(folder_ / "steps.csv")).size() > 100; });
  const std::vector<pid_t> workers = WorkersOf(child_);
  ASSERT_EQ(workers.size(), 2u);
  kill(workers[0], SIGSTOP);
  wait_for([&] { return WorkersOf(child_).size() < 2; });
  const std::string model = ReadWhole(folder_ / "best.safetensors");
  const std::string steps = ReadWhole(folder_ / "steps.csv");
  EXPECT_EQ(Lines(steps).size(), 8001u);
  kill(workers[0], SIGCONT);
  EXPECT_EQ(Wait(), 0) << err_;
  EXPECT_TRUE(ReadWhole(folder_ / "best.safetensors") == model);
  EXPECT_TRUE(ReadWhole(folder_ / "steps.csv") == steps);
}

class LostWorkerTest : public ProgramTest,
                       public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Strategies, LostWorkerTest,
                         testing::Values("", ", \"replicas\": 5",
                                         ", \"mode\": \"local\", "
                                         "\"local_steps\": 3"));

TEST_P(LostWorkerTest, AJobEndsWithTheBitsOfOneThatLostNone) {
  WriteRun(
      "\"steps_per_epoch\": 3},\n  \"callbacks\": []",
      std::string(
          R"("steps_per_epoch": 400}, "strategy": {"policy": "wait", "timeout": 20)") +
          GetParam() + R"(},
  "callbacks": [{"class_name": "BackupAndRestore",
                 "config": {"backup_dir": "backup", "save_freq": 30}}])");
  const std::string program =
      EnvironmentOr("RINGLET_BUILD", "build") + "/tools/ringlet/ringlet";
  const auto job = [&](const std::string& name) {
    return Strings{"launch", "-n", "2",           "--restart",  "--backoff",
                   "0.01",   "--", program,       "train",      "run.json",
                   "--save", name, "--log-steps", name + ".csv"};
  };
  ASSERT_EQ(Run(job("whole")), 0) << err_;
  for (const size_t lost : {0, 1}) {
    const std::string name = "lost" + std::to_string(lost);
    SCOPED_TRACE(name);
    Start(job(name));
    for (int i = 0; i < 3000; ++i) {
      if (Lines(ReadWhole(folder_ / (name + ".csv"))).size() > 35) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::vector<pid_t> workers = WorkersOf(child_);
    if (workers.size() == 2) kill(workers[lost], SIGKILL);
    ASSERT_EQ(workers.size(), 2u);
    EXPECT_EQ(Wait(), 0) << err_;
    EXPECT_NE(err_.find("was ended by signal 9"), std::string::npos) << err_;
    EXPECT_NE(out_.find("[0] goes on at epoch "), std::string::npos) << out_;
    EXPECT_NE(out_.find(" of 400, from the memory of the workers\n"),
              std::string::npos)
        << out_;
    EXPECT_EQ(Run({"diff", "whole", name}), 0) << out_;
    EXPECT_TRUE(ReadWhole(folder_ / "whole.csv") ==
                ReadWhole(folder_ / (name + ".csv")));
  }
}

// With a backup of three replicas, on two workers.
TEST_F(ProgramTest, WhereTheLauncherRestartsTheOthersGoOn) {
  const std::string more =
      R"("steps_per_epoch": 20}, "strategy": {"timeout": 2, "start_timeout": 60},
  "callbacks": [{"class_name": "BackupAndRestore",
                 "config": {"backup_dir": "backup", "save_freq": 5,
                            "delete_checkpoint": false}}])";
  const std::string before = "\"steps_per_epoch\": 3},\n  \"callbacks\": []";
  const std::string program = Program("tools/ringlet/ringlet");
  const auto job = [&](const char* workers, const std::string& epochs,
                       const std::string& backoff, const std::string& model) {
    return Strings{"launch",      "-n",        workers,    "--restart",
                   "--backoff",   backoff,     "--",       program,
                   "train",       "run.json",  "--save",   model,
                   "--log-steps", "steps.csv", "--epochs", epochs};
  };
  WriteRun(before, more);
  Strings waits = job("3", "1", "1", "first");
  waits.erase(waits.begin() + 3);  // --restart
  ASSERT_EQ(Run(waits), 0) << err_;
  std::filesystem::copy(folder_ / "backup", folder_ / "backup1");
  std::string undisturbed;
  // Back in time, or when the others have ended: nobody waits a minute for it.
  for (const char* backoff : {"", "0.1", "60"}) {
    SCOPED_TRACE(backoff);
    std::filesystem::remove_all(std::string(folder_ / "backup"));
    std::filesystem::copy(folder_ / "backup1", folder_ / "backup");
    std::filesystem::remove(std::string(folder_ / "steps.csv"));
    std::filesystem::remove(std::string(folder_ / "model"));
    const bool kills = *backoff != '\0';
    const auto begin = std::chrono::steady_clock::now();
    Start(job("2", "20", kills ? backoff : "1", "model"));
    for (int i = 0; i < 30000 && kills; ++i) {
      if (Lines(ReadWhole(folder_ / "steps.csv")).size() > 60) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (kills) {
      const std::vector<pid_t> workers = WorkersOf(child_);
      ASSERT_EQ(workers.size(), 2u);
      kill(workers[0], SIGKILL);
    }
    EXPECT_EQ(Wait(), 0) << err_;
    EXPECT_LT(std::chrono::steady_clock::now() - begin,
              std::chrono::seconds(50));
    EXPECT_NE(out_.find("of each of 3 replicas on 2 workers"),
              std::string::npos)
        << out_;
    ASSERT_TRUE(std::filesystem::exists(std::string(folder_ / "model")));
    if (!kills) {
      undisturbed = ReadWhole(folder_ / "model");
      continue;
    }
    EXPECT_NE(err_.find("was ended by signal 9"), std::string::npos) << err_;
    EXPECT_NE(out_.find(" workers that may come and go (exact sums), "),
              std::string::npos)
        << out_;
    EXPECT_NE((out_ + err_).find("going on with the workers that are"),
              std::string::npos)
        << out_ << err_;
    EXPECT_TRUE(ReadWhole(folder_ / "model") == undisturbed);
  }
  // Who says what is to happen is heard.
  for (const char* said : {R"("policy": "fail")", R"("reduction": "ring")"}) {
    SCOPED_TRACE(said);
    WriteRun("\"callbacks\": []",
             std::string("\"strategy\": {\"timeout\": 20, ") + said + "}");
    EXPECT_EQ(Run({"launch", "-n", "2", "--restart", "--", program, "train",
                   "run.json", "--no-save", "--epochs", "1"}),
              0)
        << err_;
    EXPECT_EQ(out_.find("may come and go"), std::string::npos) << out_;
  }
}

// One of three is killed, or stopped; what the trails tell afterwards.
class TrailOfLostTest : public ProgramTest,
                        public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(KilledOrStopped, TrailOfLostTest,
                         testing::Values(SIGKILL, SIGSTOP));

TEST_P(TrailOfLostTest, SaysWhoWaitedForWhom) {
  WriteRun("\"steps_per_epoch\": 3}",
           R"("steps_per_epoch": 100000}, "strategy": {"timeout": 2})");
  Start({"launch", "-n", "3", "--grace", "30", "--",
         Program("tools/ringlet/ringlet"), "train", "run.json", "--no-save",
         "--trail", "trail"});
  const auto inspect = [&](const std::string& more) {
    const std::string file = logs_ / "inspected";
    const std::string line = Program("tools/ringlet/ringlet") + " inspect " +
                             more + " " + (folder_ / "trail/*.trail") + " > " +
                             file + " 2>&1";
    return std::system(line.c_str()) == 0 ? ReadWhole(file) : "";
  };
  for (int i = 0; i < 3000; ++i) {
    if (inspect("").find("in step") != std::string::npos) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::vector<pid_t> workers = WorkersOf(child_);
  ASSERT_EQ(workers.size(), 3u);
  kill(workers[1], GetParam());
  for (int i = 0; i < 3000; ++i) {
    const std::string told = inspect("");
    if (told.find("ended with exit code", told.find("worker 2 (127")) !=
        std::string::npos) {
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (GetParam() == SIGSTOP) kill(workers[1], SIGKILL);
  const int code = Wait();  // of whoever ended first
  EXPECT_TRUE(code == 75 || (code == 137 && GetParam() == SIGKILL)) << err_;
  const std::string told = inspect("");
  std::vector<std::string> parts = {
      "worker 1 was lost: ", "ended with exit code 75 in step ",
      "its trail ends here, "};
  // Whose connection ends is lost at once, whoever waits for it or not.
  if (GetParam() == SIGSTOP) parts.push_back("waited for worker 1");
  for (const std::string& part : parts) {
    EXPECT_NE(told.find(part), std::string::npos) << told << "lacks: " << part;
  }
  const size_t lost = told.find("worker 1 (127");
  EXPECT_EQ(told.find("its trail ends here, "),
            told.find("its trail ends here, ", lost))
      << told;
  const std::string events = inspect("--verbose");
  EXPECT_NE(events.find("ring formed"), std::string::npos);
  EXPECT_NE(events.find("  lost  worker 1"), std::string::npos);
  // One that is no trail, is empty or is cut off hides none of the others.
  WriteWhole(folder_ / "empty.trail", "");
  WriteWhole(folder_ / "torn.trail",
             ReadWhole(folder_ / "trail/worker-1.trail").substr(0, 100));
  EXPECT_EQ(Run({"inspect", "empty.trail", "torn.trail", "run.json",
                 "trail/worker-0.trail"}),
            1);
  for (const char* file : {"empty.trail: ", "torn.trail: ", "run.json: "}) {
    EXPECT_NE(err_.find(file), std::string::npos) << err_;
  }
  EXPECT_NE(err_.find("is no trail of a worker; left out\n"), std::string::npos)
      << err_;
  EXPECT_NE(out_.find("\nworker 0 (127"), std::string::npos) << out_;
  EXPECT_EQ(Run({"inspect", "--json", "trail/worker-0.trail"}), 2);
}

// With the key that the same RUN.json names: without it nobody would listen,
// and on its way all could read it.
TEST_F(ProgramTest, AWrongRunIsToldToWorkersWithAKey) {
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
  EXPECT_NE(err_.find("[0] error: rank 1 ("), std::string::npos) << err_;
  EXPECT_NE(err_.find(") cannot take part: wrong.json: fit.epochs"),
            std::string::npos)
      << err_;
}

// Who has no key tells nobody: it says why and ends, and is missing.
TEST_F(ProgramTest, AWorkerWithoutItsKeyFileEndsAtOnceAndIsMissing) {
#ifndef RINGLET_SECURE
  GTEST_SKIP() << "a build without libsodium";
#endif
  ASSERT_EQ(Run({"keygen", "--out", "job.key"}), 0) << err_;
  WriteRun("\"callbacks\": []", "\"strategy\": {\"start_timeout\": 2}");
  EXPECT_EQ(
      Run({"launch", "-n", "2", "--grace", "60", "--", "sh", "-c",
           "case $TF_CONFIG in *'\"index\": 1'*) key=none;; *) key=job;; "
           "esac; RINGLET_KEY_FILE=$key.key exec " +
               Program("tools/ringlet/ringlet") + " train run.json --no-save"}),
      2);
  const size_t ends = err_.find(
      "[1] error: RINGLET_KEY_FILE: key file none.key (copy the job's key "
      "there; ringlet keygen makes one): No such file or directory");
  const size_t missing = err_.find("; missing are rank 1 (");
  EXPECT_NE(ends, std::string::npos) << err_;
  EXPECT_NE(missing, std::string::npos) << err_;
  EXPECT_LT(ends, missing) << err_;
}

TEST_F(ProgramTest, AnAddressOfAnotherIsAnErrorThatNamesIt) {
  WriteRun("\"callbacks\": []",
           "\"strategy\": {\"start_timeout\": 0.3, \"patience\": 60}");
  const Strings addresses = FreeAddresses(2);
  const std::string cluster = "{\"cluster\": {\"worker\": [\"" + addresses[0] +
                              "\", \"" + addresses[1] +
                              "\"]}, \"task\": {\"type\": \"worker\", "
                              "\"index\": 0}}";
  environment_ = {{"TF_CONFIG", cluster}};
  ExpectError({"train", "run.json", "--save", "m", "--log-steps", "s"}, 1,
              {addresses[1]});
  // Somebody else listens on this worker's port.
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
  ExpectError({"train", "run.json", "--save", "m"}, 1, {taken});
  close(fd);
}

}  // namespace
}  // namespace ringlet
