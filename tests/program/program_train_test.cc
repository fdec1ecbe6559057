// ringlet train by one worker: its output, its files, and resumed runs.

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>

#include "../support/contains.h"
#include "../support/data_files.h"
#include "../support/eventually.h"
#include "../support/program.h"
#include "../support/temp_folder.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

TEST_F(ProgramTest, Train_SavedWeightsAsInit_ContinuesFromThem) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "w", "--log-steps", "a.csv"}),
            0)
      << err_;
  EXPECT_EQ(err_, "");
  EXPECT_TRUE(Contains(out_, "Epoch 2/2"));
  EXPECT_TRUE(Contains(out_, "val_accuracy"));
  const Strings rows = Lines(ReadWhole(folder_ / "a.csv"));
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_EQ(rows[0], "epoch,step,loss,accuracy");
  EXPECT_EQ(rows[1].compare(0, 4, "0,0,"), 0) << rows[1];
  EXPECT_EQ(rows[6].compare(0, 4, "1,2,"), 0) << rows[6];
  // Each row has the value of one step. The mean of the rows is the epoch's
  // value.
  double loss = 0, accuracy = 0;
  for (size_t i = 1; i <= 3; ++i) {
    const size_t comma = rows[i].rfind(',');
    loss += std::stod(rows[i].substr(4, comma - 4)) / 3;
    accuracy += std::stod(rows[i].substr(comma + 1)) / 3;
  }
  char printed[80];
  std::snprintf(printed, sizeof(printed), "- accuracy: %.4f - loss: %.4f - val",
                accuracy, loss);
  EXPECT_TRUE(Contains(out_, printed));

  ASSERT_EQ(Run({"train", "run.json", "--init", "w", "--log-steps", "b.csv"}),
            0)
      << err_;
  const Strings later = Lines(ReadWhole(folder_ / "b.csv"));
  ASSERT_EQ(later.size(), 7u);
  EXPECT_NE(later[1], rows[1]);
}

TEST_F(ProgramTest, LastLine_TrainingDiverged_CallsTheModelOfNoUse) {
  WriteRun("\"optimizer\": \"adam\"",
           "\"optimizer\": {\"class_name\": \"SGD\", "
           "\"config\": {\"learning_rate\": 1e30}}");
  ASSERT_EQ(Run({"train", "run.json", "--save", "w"}), 0) << err_;
  const Strings lines = Lines(out_);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back().find("the model in w is of no use: "), 0u) << out_;
  EXPECT_FALSE(Contains(out_, "to use it"));
}

TEST_F(ProgramTest, Metrics_GivenAsStrings_KeepTheirNames) {
  WriteRun("\"metrics\": [\"accuracy\"]",
           "\"metrics\": [\"acc\", \"SparseTopKCategoricalAccuracy\"], "
           "\"weighted_metrics\": [\"acc\"]");
  ASSERT_EQ(Run({"train", "run.json", "--log-steps", "a.csv"}), 0) << err_;
  EXPECT_EQ(Lines(ReadWhole(folder_ / "a.csv"))[0],
            "epoch,step,loss,acc,SparseTopKCategoricalAccuracy,weighted_acc");
}

TEST_F(ProgramTest, Train_SameRunAgain_GivesTheSameBytes) {
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

TEST_F(ProgramTest, Flags_FieldsSayOtherwise_GoBeforeThem) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--epochs=1", "--steps-per-epoch", "5",
                 "--batch-size", "7", "--log-steps", "s.csv", "--threads", "2",
                 "--no-shuffle"}),
            0)
      << err_;
  const Strings rows = Lines(ReadWhole(folder_ / "s.csv"));
  ASSERT_EQ(rows.size(), 6u);
  for (size_t i = 1; i < rows.size(); ++i) {
    // The accuracy over 7 examples is a multiple of 1/7.
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

TEST_F(ProgramTest, Epoch_WithoutStepsPerEpoch_IsTheWholeData) {
  WriteRun(", \"steps_per_epoch\": 3", "");
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--batch-size", "300",
                 "--log-steps", "s.csv"}),
            0)
      << err_;
  EXPECT_EQ(Lines(ReadWhole(folder_ / "s.csv")).size(), 8u);  // 2000 / 300
}

TEST_F(ProgramTest, Callbacks_RunInAnotherFolder_WriteBesideTheRun) {
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

TEST_F(ProgramTest, Backup_ModelCannotBeSaved_Stays) {
  // The folder m.safetensors, made in the run, is in the model's way.
  WriteRun("\"callbacks\": []", R"("callbacks": [
    {"class_name": "BackupAndRestore", "config": {"backup_dir": "backup"}},
    {"class_name": "ModelCheckpoint",
      "config": {"filepath": "m.safetensors/{epoch}.safetensors"}}])");
  EXPECT_NE(Run({"train", "run.json", "--save", "m.safetensors"}), 0);
  EXPECT_TRUE(Contains(err_, "m.safetensors: "));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "backup/checkpoint"));
  // Trained already; saved now.
  ASSERT_EQ(Run({"train", "run.json", "--save", "n.safetensors"}), 0) << err_;
  EXPECT_FALSE(Contains(out_, "Epoch"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "n.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "backup/checkpoint"));
}

// The reader leaves at the first line, as `2>&1 | head -n 1` does.
TEST_F(ProgramTest, Train_ReaderOfOutputHasLeft_ModelIsSaved) {
  WriteRun();
  const std::string program = Program("tools/ringlet/ringlet");
  for (const bool launch : {false, true}) {
    SCOPED_TRACE(launch ? "launch" : "train");
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    stdout_fd_ = stderr_fd_ = ends[1];
    const std::string model = launch ? "of-two" : "alone";
    Strings command = {"train", "run.json", "--save", model};
    if (launch) {
      const Strings workers = {"launch", "-n", "2", "--", program};
      command.insert(command.begin(), workers.begin(), workers.end());
    }
    EXPECT_EQ(Run(command), 0);
    close(ends[1]);
    stdout_fd_ = stderr_fd_ = -1;
    EXPECT_EQ(Run({"inspect", model}), 0) << err_;
  }
}

// With `| tee log` Ctrl-C ends the reader too.
TEST_F(ProgramTest, Train_InterruptedTogetherWithItsReader_ModelIsKept) {
  WriteRun("\"steps_per_epoch\": 3", "\"steps_per_epoch\": 1000000");
  const std::string program = Program("tools/ringlet/ringlet");
  for (const char* const workers : {"", "1", "2"}) {
    SCOPED_TRACE(workers);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    stdout_fd_ = stderr_fd_ = ends[1];
    Strings command = {"train", "run.json"};
    if (*workers != '\0') {
      const Strings launch = {"launch", "-n", workers, "--", program};
      command.insert(command.begin(), launch.begin(), launch.end());
    }
    Start(command);
    close(ends[1]);
    stdout_fd_ = stderr_fd_ = -1;
    std::string lines;
    for (char next; lines.find("Epoch 1/2\n") == std::string::npos;) {
      ASSERT_EQ(read(ends[0], &next, 1), 1) << lines;
      lines += next;
    }
    close(ends[0]);
    kill(child_, SIGINT);
    EXPECT_EQ(Wait(), 128 + SIGINT);
    EXPECT_EQ(Run({"inspect", "run-interrupted.safetensors"}), 0) << err_;
    std::filesystem::remove(folder_ / "run-interrupted.safetensors");
  }
}

TEST_F(ProgramTest, Train_StdoutCannotBeWritten_IsAnErrorAndTheModelIsSaved) {
  WriteRun();
  const std::string program = Program("tools/ringlet/ringlet");
  for (const bool launch : {false, true}) {
    SCOPED_TRACE(launch ? "launch" : "train");
    stdout_fd_ = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ASSERT_GE(stdout_fd_, 0);
    const std::string model = launch ? "of-two" : "alone";
    Strings command = {"train", "run.json", "--save", model};
    if (launch) {
      const Strings workers = {"launch", "-n", "2", "--", program};
      command.insert(command.begin(), workers.begin(), workers.end());
    }
    EXPECT_EQ(Run(command), 1);
    EXPECT_TRUE(Contains(err_, "error: stdout cannot be written"));
    close(stdout_fd_);
    stdout_fd_ = -1;
    EXPECT_EQ(Run({"inspect", model}), 0) << err_;
  }
}

TEST_F(ProgramTest, ValidationSplit_OfTheTrainingData_TakesItsEnd) {
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
  ASSERT_TRUE(Contains(out_, "val_loss"));
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

TEST_F(ProgramTest, Resume_StoppedRun_ContinuesWithTheSameRows) {
  WriteRun("\"callbacks\": []", R"("callbacks": [{"class_name":
    "BackupAndRestore", "config": {"backup_dir": "backup", "save_freq": 1}}])");
  ASSERT_EQ(Run({"train", "run.json", "--log-steps", "whole.csv"}), 0) << err_;
  Start(
      {"train", "run.json", "--epochs", "2000000", "--log-steps", "part.csv"});
  ASSERT_TRUE(Eventually(
      [&] { return Lines(ReadWhole(folder_ / "part.csv")).size() > 5; }));
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

// A stopped run resumes with another log. It resumes with another optimizer or
// seed only if --continue-with allows it.
TEST_F(ProgramTest, Resume_ChangedRun_ContinuesOrIsRefused) {
  const std::string backup =
      R"("callbacks": [{"class_name": "BackupAndRestore", "config":
    {"backup_dir": "backup", "save_freq": 1, "delete_checkpoint": false}}])";
  WriteRun("\"callbacks\": []", backup);
  ASSERT_EQ(Run({"train", "run.json", "--no-save"}), 0) << err_;
  // Once with an added log, once with a removed one.
  for (const bool more : {true, false}) {
    Strings line = {"train", "run.json", "--no-save", "--epochs",
                    more ? "3" : "4"};
    if (more) line.insert(line.end(), {"--log-steps", "steps.csv"});
    EXPECT_EQ(Run(line), 0) << err_;
    EXPECT_TRUE(Contains(err_, "the callback step_logger "));
  }
  EXPECT_EQ(Lines(ReadWhole(folder_ / "steps.csv")).size(), 4u);
  EXPECT_EQ(
      Run({"train", "run.json", "--no-save", "--seed", "5", "--epochs", "5"}),
      2);
  EXPECT_TRUE(Contains(err_, "with seed 1, and this run has 5"));
  EXPECT_TRUE(Contains(err_, "--init "));
  EXPECT_EQ(Run({"train", "run.json", "--no-save", "--seed", "5", "--epochs",
                 "5", "--continue-with", "seed"}),
            0)
      << err_;
  WriteRun("\"adam\"", "\"sgd\"");
  std::string run = ReadWhole(folder_ / "run.json");
  WriteWhole(folder_ / "run.json", Replaced(run, "\"callbacks\": []", backup));
  EXPECT_EQ(Run({"train", "run.json", "--no-save", "--epochs", "6"}), 2);
  EXPECT_TRUE(Contains(err_, "the optimizer is Adam there and SGD here"));
  EXPECT_EQ(Run({"train", "run.json", "--continue-with", "model"}), 2);
  EXPECT_TRUE(Contains(err_, "--continue-with: is 'model'"));
  WriteRun();
  ExpectError({"train", "run.json", "--continue-with", "seed"}, 2,
              {"--continue-with", "run.json has no callback BackupAndRestore"});
}

// In /sys no file can be made, not even by root.
TEST_F(ProgramTest, Train_ModelCannotBeWritten_FailsBeforeItTrains) {
  const std::string run = folder_ / "run.json";
  const auto checkpoint = [&](const std::string& path) {
    WriteRun("\"callbacks\": []", R"("callbacks": [
      {"class_name": "ModelCheckpoint", "config": {"filepath": ")" +
                                      path + "\"}}]");
  };
  WriteRun();
  cwd_ = "/sys";
  ExpectError({"train", run}, 1, {"the trained model", "--save MODEL"});
  checkpoint(folder_ / "c.safetensors");
  ExpectError({"train", run}, 1, {"the trained model", "--save MODEL"});
  EXPECT_EQ(Run({"train", run, "--no-save"}), 0) << err_;
  cwd_.clear();
  const std::string model = ReadWhole(folder_ / "c.safetensors");
  EXPECT_FALSE(model.empty());
  WriteWhole(folder_ / "run.safetensors", "another's");
  checkpoint("/sys/{epoch}.safetensors");
  ExpectError({"train", "run.json"}, 1, {"/sys/{epoch}.safetensors"});
  EXPECT_EQ(ReadWhole(folder_ / "run.safetensors"), "another's");
}

}  // namespace
}  // namespace ringlet
