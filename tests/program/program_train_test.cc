// ringlet train, alone and as several workers.

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "../support/contains.h"
#include "../support/data_files.h"
#include "../support/eventually.h"
#include "../support/expect_ok.h"
#include "../support/free_ports.h"
#include "../support/program.h"
#include "../support/temp_folder.h"
#include "io/readers/npz.h"
#include "ringlet/files.h"
#include "ringlet/model.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

// --- train ---

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

TEST_F(ProgramTest, ValidationSplit_OfTheTrainingData_IsItsEnd) {
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

TEST_F(ProgramTest, Train_CsvData_WorksAndDamageIsNamed) {
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
  // The bad label is in the last part of several replicas' last batch.
  WriteWhole(folder_ / "d.csv", "a,kind,b\n1,0,0\n1,0,0\n1,0,0\n1,7,0\n");
  WriteWhole(
      folder_ / "csv.json",
      Replaced(kSmall, "\"fit\"", "\"strategy\": {\"replicas\": 2}, \"fit\""));
  ExpectError({"train", "csv.json"}, 1, {"d.csv", "label 7"});
  WriteWhole(folder_ / "csv.json", kSmall);
  // The damage is far behind the first examples.
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

TEST_F(ProgramTest, DataOnDisk_ShortEpoch_ReadsOnlyWhatItTrainsOn) {
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

TEST_F(ProgramTest, DataOnDisk_AnyForm_TrainsToTheBitsInMemory) {
  constexpr int kExamples = 130;
  std::vector<double> x;
  std::vector<unsigned char> y;
  std::string images("\0\0\x08\x02\0\0\0\x82\0\0\0\x03", 12);
  std::string labels("\0\0\x08\x01\0\0\0\x82", 8);
  for (int i = 0; i < 3 * kExamples; ++i) {
    x.push_back(i * i % 101 / 7.);
    images += static_cast<char>(i * i % 101);
    if (i % 3 != 0) continue;
    y.push_back(static_cast<unsigned char>(i % 4));
    labels += static_cast<char>(i % 4);
  }
  std::string csv = "a,b,c,kind\n";
  for (size_t i = 0; i < y.size(); ++i) {
    csv += (i % 9 == 0 ? "" : std::to_string(x[3 * i])) + ",t" +
           std::to_string(i % 5) + "," + std::to_string(x[3 * i + 2]) + ",k" +
           std::to_string(y[i]) + "\n";
  }
  WriteWhole(folder_ / "d.csv", csv);
  WriteWhole(folder_ / "images", images);
  WriteWhole(folder_ / "labels", labels);
  ASSERT_TRUE(
      WriteNpy(folder_ / "x.npy", DType::kFloat64, {kExamples, 3}, x.data())
          .ok());
  ASSERT_TRUE(
      WriteNpy(folder_ / "y.npy", DType::kUint8, {kExamples}, y.data()).ok());
  for (const char* form : {R"("images": "images", "labels": "labels")",
                           R"("x": "x.npy", "y": "y.npy")",
                           R"("x": {"x": "x.npy"}, "y": ["labels"])",
                           R"("csv": "d.csv", "label": "kind",
                              "missing": {"a": "mean"},
                              "categorical": {"b": "index"})"}) {
    for (const char* batch : {"1", "32", "100"}) {
      SCOPED_TRACE(std::string(form) + " " + batch);
      Strings steps;
      for (const char* in_memory : {"true", "false"}) {
        WriteWhole(folder_ / "run.json", std::string(R"({
          "model": {"class_name": "Sequential", "config": {"layers": [
            {"class_name": "InputLayer",
             "config": {"name": "x", "batch_shape": [null, 3]}},
            {"class_name": "Dense", "config": {"units": 4}}]}},
          "compile": {"optimizer": "adam", "loss": {"class_name":
            "SparseCategoricalCrossentropy", "config": {"from_logits": true}}},
          "data": {"train": {"scale": 0.1, "in_memory": )") +
                                             in_memory + ", " + form + R"(}},
          "fit": {"epochs": 2, "seed": 3, "validation_split": 0.1}})");
        ASSERT_EQ(Run({"train", "run.json", "--batch-size", batch,
                       "--log-steps", "s.csv"}),
                  0)
            << err_;
        steps.push_back(ReadWhole(folder_ / "s.csv"));
      }
      EXPECT_EQ(steps[0], steps[1]);
    }
  }
}

// The same windows, cut by this test into files, train to the same bits.
TEST_F(ProgramTest, Windows_OfGroupsInAnyForm_TrainAsTheirCopies) {
  constexpr int kRows = 90, kLength = 4, kRate = 2, kAhead = 9;
  std::vector<float> x, group, y, cut_x, cut_y;
  std::string csv = "who,a,b,y\n";
  for (int i = 0; i < kRows; ++i) {
    x.push_back(static_cast<float>(i * i % 101));
    x.push_back(static_cast<float>(i % 7));
    y.push_back(static_cast<float>(i * 5 % 13));
    group.push_back(static_cast<float>(i / 30));
    csv += "p" + std::to_string(i / 30) + "," +
           std::to_string(static_cast<int>(x[2 * i])) + "," +
           std::to_string(i % 7) + "," + std::to_string(i * 5 % 13) + "\n";
  }
  // Group 1 is left out, for validation.
  int64_t windows = 0;
  for (const int begin : {0, 60}) {
    for (int first = begin; first + kAhead < begin + 30; first += 3) {
      for (int k = 0; k < kLength; ++k) {
        cut_x.push_back(x[2 * (first + k * kRate)]);
        cut_x.push_back(x[2 * (first + k * kRate) + 1]);
      }
      cut_y.push_back(y[first + kAhead]);
      ++windows;
    }
  }
  const DType f32 = DType::kFloat32;
  ASSERT_TRUE(WriteNpy(folder_ / "x.npy", f32, {kRows, 2}, x.data()).ok());
  ASSERT_TRUE(WriteNpy(folder_ / "y.npy", f32, {kRows}, y.data()).ok());
  ASSERT_TRUE(WriteNpy(folder_ / "who.npy", f32, {kRows}, group.data()).ok());
  ASSERT_TRUE(
      WriteNpy(folder_ / "cut_x.npy", f32, {windows, kLength, 2}, cut_x.data())
          .ok());
  ASSERT_TRUE(
      WriteNpy(folder_ / "cut_y.npy", f32, {windows}, cut_y.data()).ok());
  WriteWhole(folder_ / "d.csv", csv);
  const std::string fields =
      R"("sequence_length": 4, "sampling_rate": 2, "sequence_stride": 3,
         "target_offset": 9, )";
  Strings steps;
  for (const std::string& data : Strings{
           R"("x": "cut_x.npy", "y": "cut_y.npy")",
           fields + R"("x": "x.npy", "y": "y.npy", "group": "who.npy",
                       "validation_groups": [1])",
           fields + R"("csv": "d.csv", "group": "who", "label": "y",
                       "validation_groups": ["p1"])",
           fields + R"("csv": "d.csv", "group": 0, "validation_groups": ["p1"],
                       "in_memory": false)"}) {
    SCOPED_TRACE(data);
    WriteWhole(folder_ / "run.json", R"({
      "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 4, 2]}},
        {"class_name": "SimpleRNN", "config": {"units": 3}},
        {"class_name": "Dense", "config": {"units": 1}}]}},
      "compile": {"optimizer": "adam", "loss": "mse"},
      "data": {"train": {"scale": 0.1, )" +
                                         data + R"(}},
      "fit": {"epochs": 3, "batch_size": 4, "verbose": 2}})");
    ASSERT_EQ(Run({"train", "run.json", "--save", "m", "--log-steps", "s.csv",
                   "--log-digests"}),
              0)
        << err_;
    steps.push_back(ReadWhole(folder_ / "s.csv"));
    EXPECT_EQ(steps.back(), steps[0]);
    if (steps.size() == 1) continue;
    ASSERT_EQ(Run({"evaluate", "m", "--data", "run.json"}), 0) << err_;
    // The last rows have windows too, without a target.
    ASSERT_EQ(Run({"predict", "m", "--data", "run.json"}), 0) << err_;
    EXPECT_EQ(Lines(out_).size(), 8u) << out_;
  }
  // A row that is left out would join rows that are apart.
  WriteWhole(folder_ / "run.json",
             Replaced(ReadWhole(folder_ / "run.json"), "\"in_memory\": false",
                      "\"missing\": \"drop\""));
  ExpectError({"train", "run.json"}, 2, {"sequence_length", "\"mean\""});
}

// A RUN.json: its model takes 2 rows of `values` and has one output.
std::string WindowsRun(const std::string& data, int values,
                       const std::string& fit = "") {
  return R"({"model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2, )" +
         std::to_string(values) + R"(]}},
      {"class_name": "Flatten", "config": {}},
      {"class_name": "Dense", "config": {"units": 1}}]}},
    "compile": {"optimizer": "sgd", "loss": "mse"},
    "data": {)" +
         data + R"(}, "fit": {"epochs": 1)" + fit + "}}";
}

TEST_F(ProgramTest, Windows_GroupsOfArray_AreItsExactNumbers) {
  const std::vector<float> x(12, 1);
  ASSERT_OK(WriteNpy(folder_ / "x.npy", DType::kFloat32, {12, 1}, x.data()));
  const std::string data = R"("train": {"x": "x.npy", "target_columns": [0],
    "sequence_length": 2, "group": "g.npy")";
  std::vector<int64_t> g;
  for (int64_t i = 0; i < 12; ++i) g.push_back((int64_t{1} << 60) + i / 4);
  ASSERT_OK(WriteNpy(folder_ / "g.npy", DType::kInt64, {12}, g.data()));
  WriteWhole(folder_ / "run.json", WindowsRun(data + "}", 1));
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json", "--part", "train"}), 0)
      << err_;
  EXPECT_EQ(Lines(out_).size(), 9u) << out_;
  WriteWhole(
      folder_ / "run.json",
      WindowsRun(data + R"(, "validation_groups": ["1152921504606846977"]})",
                 1));
  ASSERT_EQ(Run({"train", "run.json", "--no-save"}), 0) << err_;
  WriteWhole(folder_ / "run.json", WindowsRun(data + R"(, "validation_groups": [
               "1152921504606846976", "1152921504606846977",
               "1152921504606846978"]})",
                                              1));
  ExpectError({"train", "run.json"}, 2, {"validation_groups: has all 3"});
  std::vector<double> f = {0.0, -0.0, 0.0, -0.0, 1.5, 1.5,
                           1.5, 1.5,  2,   2,    2,   2};
  ASSERT_OK(WriteNpy(folder_ / "g.npy", DType::kFloat64, {12}, f.data()));
  WriteWhole(folder_ / "run.json",
             WindowsRun(data + R"(, "validation_groups": [1.5]})", 1));
  ASSERT_EQ(Run({"train", "run.json", "--no-save"}), 0) << err_;
  EXPECT_FALSE(Contains(err_, "no window")) << err_;
  f[5] = std::nan("");
  ASSERT_OK(WriteNpy(folder_ / "g.npy", DType::kFloat64, {12}, f.data()));
  ExpectError({"train", "run.json"}, 2, {"g.npy: row 5", "nan"});
}

TEST_F(ProgramTest, Windows_SplitOfOneGroup_NamesTheGroups) {
  WriteWhole(folder_ / "d.csv",
             "g,a,y\np,1,2\np,3,4\np,5,6\np,7,8\np,9,1\nq,1,2\n");
  WriteWhole(folder_ / "run.json",
             WindowsRun(R"("train": {"csv": "d.csv", "group": "g",
                            "sequence_length": 2})",
                        1, ", \"validation_split\": 0.4"));
  EXPECT_EQ(Run({"train", "run.json"}), 2);
  for (const char* text :
       {"note: d.csv: 1 of 2 groups have no window",
        "0.4 of 1 group leaves none to train", "a split needs two"}) {
    EXPECT_TRUE(Contains(err_, text)) << err_;
  }
}

TEST_F(ProgramTest, Windows_ColumnsByNumber_AreThoseOfTheFile) {
  WriteWhole(folder_ / "d.csv",
             "g,a,b\np,1,10\np,2,20\np,,30\np,4,40\np,5,50\n");
  const std::string data = R"("train": {"csv": "d.csv", "group": 0,
    "sequence_length": 2, "missing": {"a": 0}, "target_columns": [)";
  // The loss of the first step is that of column b.
  Strings steps;
  for (const char* column : {"2", "-1", "\"b\""}) {
    WriteWhole(folder_ / "run.json", WindowsRun(data + column + "]}", 2));
    ASSERT_EQ(Run({"train", "run.json", "--no-save", "--log-steps", "s.csv"}),
              0)
        << err_;
    steps.push_back(ReadWhole(folder_ / "s.csv"));
    EXPECT_EQ(steps.back(), steps[0]);
  }
  const std::pair<const char*, const char*> wrong[] = {
      {"0", "no column of x"}, {"3", "3 columns"}, {"1", "fills gaps"}};
  for (const auto& [column, message] : wrong) {
    WriteWhole(folder_ / "run.json", WindowsRun(data + column + "]}", 2));
    ExpectError({"train", "run.json"}, 2, {"target_columns", message});
  }
  WriteWhole(folder_ / "d.csv", "1,a,b\n1,1,10\n1,2,20\n1,3,30\n");
  WriteWhole(folder_ / "run.json",
             WindowsRun(R"("train": {"csv": "d.csv", "header": true,
               "sequence_length": 2, "target_columns": [1]})",
                        3));
  ExpectError({"train", "run.json"}, 2,
              {"target_columns", "the name of one column"});
}

TEST_F(ProgramTest, Windows_GroupColumn_IsReadAsItsTable) {
  // The first line has no names, although its group is a text.
  WriteWhole(folder_ / "d.csv", "p,1,2\np,3,4\np,5,6\nq,7,8\nq,9,1\n");
  const std::string fields = R"("csv": "d.csv", "group": 0,
    "sequence_length": 2)";
  WriteWhole(folder_ / "run.json",
             WindowsRun("\"train\": {\"header\": false, " + fields + "}", 1));
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  WriteWhole(folder_ / "run.json",
             WindowsRun("\"train\": {" + fields + "}", 1));
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json", "--part", "train"}), 0)
      << err_;
  EXPECT_EQ(Lines(out_).size(), 3u) << out_;
  // Its names are kept in no model.
  std::string csv = "g,a,y\n";
  for (int i = 0; i < 140000; ++i) {
    csv += "person-" + std::to_string(i / 2) + ",1,2\n";
  }
  WriteWhole(folder_ / "d.csv", csv);
  ASSERT_EQ(Run({"train", "run.json", "--no-save", "--batch-size", "10000"}), 0)
      << err_;
  WriteWhole(folder_ / "d.csv", "g,a,y\np,1,2\n,3,4\np,5,6\n");
  ExpectError({"train", "run.json"}, 2, {"d.csv: line 3", "needs a group"});
}

TEST_F(ProgramTest, Windows_FieldsThatDisagree_AreRefused) {
  WriteWhole(folder_ / "d.csv", "g,a,y\np,1,2\np,3,4\nq,5,6\nq,7,8\n");
  const std::string same = R"("csv": "d.csv", "drop": ["g"],
    "sequence_length": 2)";
  const std::string in_groups = R"("train": {"csv": "d.csv", "group": "g",
    "sequence_length": 2, "validation_groups": ["q"], )";
  const std::pair<std::string, Strings> wrong[] = {
      {"\"train\": {\"target_offset\": 1, " + same + "}, \"validation\": {" +
           same + "}",
       {"data.validation.target_offset", "data.train"}},
      {in_groups + R"("missing": "mean"})", {"missing", "validation_groups"}},
      {in_groups + R"("auto_shard_policy": "off", "own_examples": [4]})",
       {"validation_groups", "own_examples"}}};
  for (const auto& [data, messages] : wrong) {
    WriteWhole(folder_ / "run.json", WindowsRun(data, 1));
    ExpectError({"train", "run.json"}, 2, messages);
  }
}

TEST_F(ProgramTest, Windows_OfAnotherFile_NeedNoLabel) {
  WriteWhole(folder_ / "d.csv", "g,a,y\np,1,2\np,3,4\np,5,6\np,7,8\n");
  WriteWhole(folder_ / "n.csv", "g,a\np,1\np,3\np,5\n");
  const auto run = [&](const std::string& csv) {
    WriteWhole(folder_ / "run.json",
               WindowsRun("\"train\": {\"csv\": \"" + csv +
                              R"(", "group": "g", "label": "y",
                                 "sequence_length": 2, "target_offset": 2})",
                          1));
  };
  run("d.csv");
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  run("n.csv");
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json", "--part", "train"}), 0)
      << err_;
  EXPECT_EQ(Lines(out_).size(), 2u) << out_;
  ExpectError({"evaluate", "m", "--csv", "d.csv"}, 2, {"--data RUN.json"});
  ExpectError({"predict", "m", "--csv", "d.csv"}, 2, {"--data RUN.json"});
}

// The vocabulary of the training data is that of the validation data too.
TEST_F(ProgramTest, Text_LearnedVocabulary_TrainsAsItsFileAndItsNumbers) {
  WriteWhole(folder_ / "d.csv",
             "mood,text\ngood,A b.\nbad,\"c, a a\"\ngood,b d\nbad,c\n");
  WriteWhole(folder_ / "v.csv", "mood,text\nbad,c e\ngood,b\n");
  WriteWhole(folder_ / "words.txt", "a\nc\nb\n");
  WriteWhole(folder_ / "n.csv",
             "mood,x,y,z\ngood,2,4,0\nbad,3,2,2\ngood,4,1,0\nbad,3,0,0\n");
  WriteWhole(folder_ / "nv.csv", "mood,x,y,z\nbad,3,1,0\ngood,4,0,0\n");
  const std::string with_text = R"("text": "text", "max_tokens": 5,
                                   "output_sequence_length": 3, )";
  Strings logs;
  for (const std::string& fields :
       Strings{"", with_text, with_text + R"("vocabulary": "words.txt", )"}) {
    SCOPED_TRACE(fields);
    const std::string train = fields.empty() ? "n" : "d";
    const std::string validation = fields.empty() ? "nv" : "v";
    WriteWhole(folder_ / "run.json", R"({
      "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 3]}},
        {"class_name": "Embedding", "config": {"input_dim": 5,
                                               "output_dim": 2}},
        {"class_name": "GlobalAveragePooling1D"},
        {"class_name": "Dense", "config": {"units": 2}}]}},
      "compile": {"optimizer": "adam", "loss": {"class_name":
        "SparseCategoricalCrossentropy", "config": {"from_logits": true}}},
      "data": {"train": {)" + fields + R"("label": "mood", "csv": ")" +
                                         train +
                                         R"(.csv"}, "validation": {
        "label": "mood", "csv": ")" + validation +
                                         R"(.csv"}},
      "fit": {"epochs": 3, "batch_size": 2, "verbose": 2}})");
    ASSERT_EQ(Run({"train", "run.json", "--save", "m", "--log-steps", "s.csv",
                   "--log-digests"}),
              0)
        << err_;
    const std::string steps = ReadWhole(folder_ / "s.csv");
    ASSERT_EQ(Run({"predict", "m", "--data", "run.json"}), 0) << err_;
    logs.push_back(steps + out_);
    EXPECT_EQ(logs.back(), logs[0]);
  }
  const std::string run = ReadWhole(folder_ / "run.json");
  const auto with = [&](const char* text, const std::string& by) {
    WriteWhole(folder_ / "run.json", Replaced(run, text, by));
  };
  const std::string validation = "\"validation\": {";
  // The text of validation may be another column.
  WriteWhole(folder_ / "v.csv", "mood,text,body\nbad,a,c e\ngood,a,b\n");
  const std::string body = R"("text": "body", "output_sequence_length": 3, )";
  with(validation.c_str(), validation + body);
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json"}), 0) << err_;
  EXPECT_NE(logs[0].find(out_), std::string::npos) << out_;
  with(validation.c_str(), validation + body + R"("standardize": "none", )");
  ExpectError({"train", "run.json"}, 2,
              {"data.validation.standardize", "is another"});
  for (const char* field :
       {"\"missing\": \"drop\", ", "\"na_values\": [\"?\"], "}) {
    for (const char* part : {"\"train\": {", "\"validation\": {"}) {
      with(part, part + std::string(field));
      ExpectError({"train", "run.json"}, 2, {"leave out columns", "missing"});
    }
  }
  with("\"output_sequence_length\": 3, ", "");
  ExpectError({"train", "run.json"}, 2, {"output_sequence_length"});
}

constexpr char kTextFields[] =
    R"("text": "text", "output_sequence_length": 3, )";
constexpr char kTextRun[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 3]}},
    {"class_name": "Embedding", "config": {"input_dim": 9, "output_dim": 2}},
    {"class_name": "Flatten"},
    {"class_name": "Dense", "config": {"units": 1, "activation": "sigmoid"}}]}},
  "compile": {"optimizer": "adam", "loss": "binary_crossentropy"},
  "data": {"train": {"text": "text", "output_sequence_length": 3, "csv":
    "d.csv", "label": "mood"}},
  "fit": {"epochs": 2, "verbose": 0}})";

// A file of other columns, of the text alone and of lines gives the same, also
// when the training data have changed.
TEST_F(ProgramTest, Text_OfASavedModel_NeedsNoRunJson) {
  const std::string csv = "mood,text\ngood,A b.\nbad,\"c, a a\"\nbad,c\n";
  WriteWhole(folder_ / "d.csv", csv);
  const std::string run = kTextRun, text = kTextFields;
  WriteWhole(folder_ / "run.json", run);
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  const Strings by_run = {"--data", "run.json", "--part", "train"};
  const auto with = [](Strings command, const Strings& flags) {
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  };
  ASSERT_EQ(Run(with({"predict", "m"}, by_run)), 0) << err_;
  const std::string predicted = out_;
  ASSERT_EQ(Run(with({"evaluate", "m"}, by_run)), 0) << err_;
  const std::string evaluated = out_.substr(out_.find("loss"));

  WriteWhole(folder_ / "d.csv", "mood,text\ngood,z z y\nbad,c\n");
  WriteWhole(folder_ / "e.csv", csv);
  ASSERT_EQ(Run({"evaluate", "m", "--csv", "e.csv"}), 0) << err_;
  EXPECT_EQ(out_.substr(out_.find("loss")), evaluated);
  const std::string alone = "A b.\n\"c, a a\"\nc\n";
  WriteWhole(folder_ / "p.csv", "text\n" + alone);
  WriteWhole(folder_ / "n.csv", alone);
  for (const Strings& flags : {Strings{"--csv", "e.csv"},
                               {"--csv", "p.csv"},
                               {"--csv", "n.csv", "--no-header"}}) {
    ASSERT_EQ(Run(with({"predict", "m"}, flags)), 0) << err_;
    EXPECT_EQ(out_, predicted);
  }
  stdin_ = folder_ / "p.csv";
  ASSERT_EQ(Run({"predict", "m", "--csv", "-"}), 0) << err_;
  EXPECT_EQ(out_, predicted);
  stdin_.clear();
  ASSERT_EQ(Run({"inspect", "m"}), 0) << err_;
  EXPECT_NE(out_.find("column 'text', 5 tokens"), std::string::npos) << out_;
  ExpectError({"predict", "m", "--csv", "n.csv"}, 2, {"n.csv", "'text'"});

  // Other fields, at --data and in a further training.
  const std::pair<const char*, Strings> others[] = {
      {R"("standardize": "lower", )", {"standardize", "lower"}},
      {R"("split": "character", )", {"split", "whitespace"}},
      {R"("max_tokens": 3, )", {"max_tokens", "5 tokens"}},
      {R"("vocabulary": "w.txt", )", {"w.txt", "token 2", "'b'"}}};
  WriteWhole(folder_ / "w.txt", "a\nb\nc\n");
  const size_t model = run.find("{\"class_name"), end = run.find("\"compile");
  const std::string further =
      Replaced(run, run.substr(model, end - model), R"("m", )");
  for (const auto& [fields, says] : others) {
    WriteWhole(folder_ / "run.json", Replaced(run, text, text + fields));
    ExpectError(with({"evaluate", "m"}, by_run), 2, says);
    WriteWhole(folder_ / "run.json", Replaced(further, text, text + fields));
    ExpectError({"train", "run.json"}, 2, says);
  }
  WriteWhole(folder_ / "run.json",
             Replaced(run, R"("text": "text")", R"("text": "mood")"));
  ExpectError(with({"evaluate", "m"}, by_run), 2, {"mood", "label"});
  // A further training takes the model's vocabulary.
  WriteWhole(folder_ / "run.json", further);
  ASSERT_EQ(Run({"train", "run.json", "--save", "m2"}), 0) << err_;
  ASSERT_EQ(Run({"inspect", "m2"}), 0) << err_;
  EXPECT_NE(out_.find("column 'text', 5 tokens"), std::string::npos) << out_;
}

TEST_F(ProgramTest, Text_VocabularyThatNoFileCanHave_IsKnownByItsDigest) {
  const std::string csv = "mood,text\n1,caf\xe9\n0,b\n";
  WriteWhole(folder_ / "d.csv", csv);
  WriteWhole(folder_ / "run.json", kTextRun);
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  EXPECT_NE(err_.find("a digest of it"), std::string::npos) << err_;
  ExpectError({"evaluate", "m", "--csv", "d.csv"}, 2, {"digest", "RUN.json"});
  const Strings by_run = {"evaluate", "m",      "--data",
                          "run.json", "--part", "train"};
  EXPECT_EQ(Run(by_run), 0) << err_;
  WriteWhole(folder_ / "d.csv", csv + "0,caf\xe9\n");
  EXPECT_EQ(Run(by_run), 0) << err_;
  WriteWhole(folder_ / "d.csv", csv + "0,c\n");
  ExpectError(by_run, 2, {"d.csv", "5 tokens", "digest"});
}

// A model of other data is not replaced, whatever example differs.
TEST_F(ProgramTest, DataOnDisk_OneExampleChanged_IsAnotherRun) {
  constexpr int64_t kExamples = 2000, kChanged = 5;  // not one of 64
  const auto write = [&](int64_t changed, bool label) {
    std::vector<float> x(2 * kExamples);
    std::vector<int64_t> y(kExamples);
    std::string rows = "a,b,y\n", values = "a,b\n";
    for (int64_t i = 0; i < kExamples; ++i) {
      const auto at = static_cast<size_t>(i);
      x[2 * at] = x[2 * at + 1] = static_cast<float>(i % 7);
      y[at] = i % 3;
      if (i == changed && label) y[at] = (y[at] + 1) % 3;
      if (i == changed && !label) x[2 * at] += 1;
      const std::string row =
          std::to_string(x[2 * at]) + "," + std::to_string(i % 7);
      values += row + "\n";
      rows += row + "," + std::to_string(y[at]) + "\n";
    }
    WriteWhole(folder_ / "d.csv", rows);
    WriteWhole(folder_ / "v.csv", values);
    ASSERT_OK(
        WriteNpy(folder_ / "x.npy", DType::kFloat32, {kExamples, 2}, x.data()));
    ASSERT_OK(
        WriteNpy(folder_ / "y.npy", DType::kInt64, {kExamples}, y.data()));
    NpzWriter npz;
    ASSERT_OK(npz.Open(FileSystem::Posix(), folder_ / "d.npz"));
    ASSERT_OK(npz.Add("x", DType::kFloat32, {kExamples, 2}, x.data()));
    ASSERT_OK(npz.Add("y", DType::kInt64, {kExamples}, y.data()));
    ASSERT_OK(npz.Finish());
  };
  int number = 0;
  for (const char* form :
       {R"("csv": "d.csv")", R"("x": "d.npz:x", "y": "d.npz:y")",
        R"("x": ["d.npz:x"], "y": ["d.npz:y"])",
        R"("x": ["v.csv"], "y": ["d.npz:y"])", R"("x": "x.npy", "y": "y.npy")",
        R"("x": ["x.npy"], "y": ["y.npy"])"}) {
    SCOPED_TRACE(form);
    const std::string name = "r" + std::to_string(++number);
    WriteWhole(folder_ / (name + ".json"), std::string(R"({
      "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
        {"class_name": "Dense", "config": {"units": 3,
                                           "activation": "softmax"}}]}},
      "compile": {"optimizer": "sgd",
                  "loss": "sparse_categorical_crossentropy"},
      "data": {"train": {"in_memory": false, )") +
                                               form +
                                               R"(}},
      "fit": {"steps_per_epoch": 1}})");
    const auto train = [&] {
      EXPECT_EQ(Run({"train", name + ".json"}), 0) << err_;
      int models = 0;
      for (const auto& file :
           std::filesystem::directory_iterator(folder_.path())) {
        models += file.path().extension() == ".safetensors" &&
                  file.path().filename().string().find(name) == 0;
      }
      return models;
    };
    write(-1, false);
    EXPECT_EQ(train(), 1);
    EXPECT_EQ(train(), 1);
    write(kChanged, /*label=*/true);
    EXPECT_EQ(train(), 2);
    write(-1, false);
    EXPECT_EQ(train(), 2);
    // No pass reads the examples of an NPY file.
    if (std::string(form).find("npy") != std::string::npos) continue;
    write(kChanged, /*label=*/false);
    EXPECT_EQ(train(), 3);
  }
}

// --- several workers ---

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

// A worker may exit before the chief has reported the saved job. The launcher
// then takes its restart back.
bool NoneStartsAgain(const std::string& text) {
  const size_t planned = text.find("it is started again");
  return planned == std::string::npos ||
         text.find("is not started again", planned) != std::string::npos;
}

// The disk of the checkpoints has room for two models. The job saves its model
// elsewhere, so no worker is started again; the next start has a larger disk.
TEST_F(ProgramTest, LaunchRestart_LastSaveFailed_NextStartWritesTheFile) {
  const std::string disk = folder_ / "c";
  std::filesystem::create_directory(disk);
  if (unshare(CLONE_NEWNS) != 0 ||
      mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("none", disk.c_str(), "tmpfs", 0, "size=192k") != 0) {
    GTEST_SKIP() << "may not mount";
  }
  const std::string checkpoint = R"("callbacks": [
    {"class_name": "ModelCheckpoint",
     "config": {"filepath": "c/{epoch}-{val_loss:.2f}.safetensors"}})";
  const auto launch = [&](const std::string& option) {
    return Run({"launch", "-n", "2", "--restart", "--",
                Program("tools/ringlet/ringlet"), "train", "run.json",
                "--epochs", "3", option});
  };
  WriteRun("\"callbacks\": []", checkpoint + "]");
  EXPECT_EQ(launch("--no-save"), 1);
  EXPECT_TRUE(NoneStartsAgain(err_)) << err_;
  WriteRun("\"callbacks\": []", checkpoint + R"(,
    {"class_name": "BackupAndRestore", "config": {"backup_dir": "backup"}}])");
  const auto models = [&] {
    const std::filesystem::directory_iterator files(disk);
    return std::distance(begin(files), end(files));
  };
  EXPECT_EQ(launch("--no-shuffle"), 1);
  EXPECT_TRUE(Contains(err_,
                       "the model is in run.safetensors instead: "
                       "ModelCheckpoint could not write its last file"));
  EXPECT_TRUE(NoneStartsAgain(err_)) << err_;
  EXPECT_EQ(models(), 2);
  EXPECT_EQ(mount("none", disk.c_str(), "tmpfs", MS_REMOUNT, "size=1m"), 0);
  EXPECT_EQ(Run({"train", "run.json", "--epochs", "3", "--no-shuffle"}), 0)
      << err_;
  EXPECT_FALSE(Contains(out_, "Epoch"));
  EXPECT_EQ(models(), 3);
  EXPECT_EQ(umount2(disk.c_str(), MNT_DETACH), 0);
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

// A worker is stalled, and the others finish without it. It would never be
// woken, or it wakes up and would wait for them.
TEST_F(ProgramTest, ElasticJob_WorkerIsStopped_EndsWithoutIt) {
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           R"("steps_per_epoch": 1000}, "callbacks": [],
  "strategy": {"policy": "shrink", "min_workers": 2, "timeout": 4})");
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
    ASSERT_TRUE(Eventually([&] {
      return Lines(ReadWhole(folder_ / (name + ".csv"))).size() > 100;
    }));
    const std::vector<pid_t> workers = WorkersOf(child_);
    ASSERT_EQ(workers.size(), 3u);
    kill(workers[1], SIGSTOP);
    if (wakes) {
      ASSERT_TRUE(Eventually([&] { return WorkersOf(child_).size() < 3; }));
      kill(workers[1], SIGCONT);
    }
    EXPECT_EQ(Wait(), 0) << err_;
    EXPECT_TRUE(
        Contains(err_, "worker 1 is stopped: the others have finished"));
    EXPECT_TRUE(
        Contains((out_ + err_), "present workers, once they are 2 or more"))
        << err_;
    EXPECT_EQ(Run({"diff", "whole", name}), 0) << out_;
  }
}

// time   event                                         expected
// row 100  worker 0, the chief, is stopped with its lock
// then     worker 1 trains alone to the end            its log is beside, and
//                                                      its model is saved
// end      worker 0 wakes up and trains alone; it is   all rows are in the two
//          killed after the grace of 1.5 s             logs; the model stays
TEST_F(ProgramTest, ElasticJob_StoppedChiefWakesAtTheEnd_NothingIsLost) {
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           R"("steps_per_epoch": 4000}, "strategy": {"timeout": 4},
  "callbacks": [{"class_name": "ModelCheckpoint",
                 "config": {"filepath": "best.safetensors"}}])");
  const std::string program = Program("tools/ringlet/ringlet");
  Start({"launch", "-n", "2", "--restart", "--grace", "1.5", "--", program,
         "train", "run.json", "--log-steps", "steps.csv", "--save",
         "end.safetensors"});
  ASSERT_TRUE(Eventually(
      [&] { return Lines(ReadWhole(folder_ / "steps.csv")).size() > 100; }));
  const std::vector<pid_t> workers = WorkersOf(child_);
  ASSERT_EQ(workers.size(), 2u);
  kill(workers[0], SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return WorkersOf(child_).size() < 2; }));
  const std::string model = ReadWhole(folder_ / "end.safetensors");
  EXPECT_FALSE(model.empty());
  kill(workers[0], SIGCONT);
  EXPECT_EQ(Wait(), 0) << err_;
  EXPECT_TRUE(ReadWhole(folder_ / "end.safetensors") == model);
  std::map<std::string, std::string> rows;  // by epoch and step
  for (const char* const log : {"steps.csv", "steps.worker-1.csv"}) {
    for (const std::string& row : Lines(ReadWhole(folder_ / log))) {
      const std::string step = row.substr(0, row.find(',', row.find(',') + 1));
      EXPECT_EQ(rows.insert({step, row}).first->second, row) << log;
    }
  }
  EXPECT_EQ(rows.size(), 8001u);
}

// A worker is lost more often than --max-restarts allows.
TEST_F(ProgramTest, ElasticJob_WorkerWithoutARestartLeft_ContinuesWithoutIt) {
  WriteRun("\"steps_per_epoch\": 3", "\"steps_per_epoch\": 300");
  const std::string program = Program("tools/ringlet/ringlet");
  const auto job = [&](const std::string& name) {
    return Strings{"launch",         "-n",       "3",      "--restart",
                   "--max-restarts", "0",        "--",     program,
                   "train",          "run.json", "--save", name};
  };
  ASSERT_EQ(Run(job("whole")), 0) << err_;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  stdout_fd_ = ends[1];
  Start(job("without"));
  close(ends[1]);
  std::string lines;
  char next;
  while (lines.find("Epoch 2/2\n") == std::string::npos) {
    ASSERT_EQ(read(ends[0], &next, 1), 1) << lines;
    lines += next;
  }
  const std::vector<pid_t> workers = WorkersOf(child_);
  ASSERT_EQ(workers.size(), 3u);
  kill(workers[1], SIGKILL);
  while (read(ends[0], &next, 1) == 1) {
  }
  close(ends[0]);
  stdout_fd_ = -1;
  EXPECT_EQ(Wait(), 0) << err_;
  EXPECT_TRUE(
      Contains(err_,
               "worker 1 was ended by signal 9; no restart of it is left "
               "(--max-restarts 0); the others continue without it"));
  EXPECT_EQ(Run({"diff", "whole", "without"}), 0) << out_;
}

class LostWorkerTest : public ProgramTest,
                       public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Strategies, LostWorkerTest,
                         testing::Values("", ", \"replicas\": 5",
                                         ", \"mode\": \"local\", "
                                         "\"local_steps\": 3"));

TEST_P(LostWorkerTest, Job_WorkerIsKilled_EndsWithTheBitsOfOneThatLostNone) {
  WriteRun(
      "\"steps_per_epoch\": 3},\n  \"callbacks\": []",
      std::string(
          R"("steps_per_epoch": 600}, "strategy": {"policy": "wait", "timeout": 20)") +
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
    ASSERT_TRUE(Eventually([&] {
      return Lines(ReadWhole(folder_ / (name + ".csv"))).size() > 35;
    }));
    const std::vector<pid_t> workers = WorkersOf(child_);
    if (workers.size() == 2) kill(workers[lost], SIGKILL);
    ASSERT_EQ(workers.size(), 2u);
    EXPECT_EQ(Wait(), 0) << err_;
    EXPECT_TRUE(Contains(err_, "was ended by signal 9"));
    EXPECT_TRUE(Contains(out_, "[0] continues at epoch "));
    EXPECT_TRUE(Contains(out_, " of 600, from the memory of the workers\n"));
    EXPECT_EQ(Run({"diff", "whole", name}), 0) << out_;
    EXPECT_TRUE(ReadWhole(folder_ / "whole.csv") ==
                ReadWhole(folder_ / (name + ".csv")));
  }
}

// The chief or the other worker is killed in its second epoch, in a job with
// steps or with rounds.
TEST_P(LostWorkerTest, Loss_WithoutBackup_TheModelSoFarIsSaved) {
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           std::string(R"("steps_per_epoch": 100000}, "callbacks": [],
  "strategy": {"timeout": 20)") +
               GetParam() + "}");
  for (const size_t lost : {0, 1}) {
    SCOPED_TRACE(lost);
    Start({"launch", "-n", "2", "--", Program("tools/ringlet/ringlet"), "train",
           "run.json", "--save", "m.safetensors", "--log-steps", "steps.csv"});
    ASSERT_TRUE(Eventually(
        [&] { return Lines(ReadWhole(folder_ / "steps.csv")).size() > 20; }));
    const std::vector<pid_t> workers = WorkersOf(child_);
    ASSERT_EQ(workers.size(), 2u);
    kill(workers[lost], SIGKILL);
    EXPECT_NE(Wait(), 0);
    const std::string model = "m-interrupted.safetensors";
    const std::string lines = out_ + err_;
    for (const std::string& said :
         {"worker " + std::to_string(lost) + " was lost after epoch 1, step ",
          "the model so far is in " + model,
          std::string("With the callback BackupAndRestore the other")}) {
      EXPECT_TRUE(Contains(lines, said));
    }
    EXPECT_EQ(Run({"evaluate", model, "--data", "run.json"}), 0) << err_;
    std::filesystem::remove(folder_ / model);
    std::filesystem::remove(folder_ / "steps.csv");
  }
}

// How the job begins with a saved file, what happens when a worker is lost, and
// which worker that is.
struct LoadedJob {
  const char* name;
  bool compiles, inits;  // "compile" in RUN.json; --init
  const char* policy;
  size_t lost;
};
std::ostream& operator<<(std::ostream& out, const LoadedJob& job) {
  return out << job.name << ", " << job.policy << ", worker " << job.lost;
}
std::vector<LoadedJob> LoadedJobs() {
  std::vector<LoadedJob> jobs;
  for (const char* policy : {"wait", "shrink"}) {
    for (const size_t lost : {0, 1}) {
      jobs.push_back({"model", false, false, policy, lost});
      jobs.push_back({"model and compile", true, false, policy, lost});
      jobs.push_back({"model and init", false, true, policy, lost});
    }
  }
  return jobs;
}

class LoadedJobTest : public ProgramTest,
                      public testing::WithParamInterface<LoadedJob> {};
INSTANTIATE_TEST_SUITE_P(FormsAndPolicies, LoadedJobTest,
                         testing::ValuesIn(LoadedJobs()));

TEST_P(LoadedJobTest, Worker_KilledAndRestarted_EndsWithTheSameBits) {
  const LoadedJob& how = GetParam();
  WriteRun("\"fit\": {", "\"fit\": {\"seed\": 7, ");
  ASSERT_EQ(Run({"train", "run.json", "--save", "weights"}), 0) << err_;
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           std::string(R"("steps_per_epoch": 400}, "strategy": {"policy": ")") +
               how.policy + R"(", "timeout": 20},
  "callbacks": [{"class_name": "BackupAndRestore",
                 "config": {"backup_dir": "backup", "save_freq": 30}}])");
  ASSERT_EQ(
      Run({"train", "run.json", "--steps-per-epoch", "3", "--save", "first"}),
      0)
      << err_;
  std::string run = ReadWhole(folder_ / "run.json");
  const size_t begin = run.find(how.compiles ? "  \"compile\"" : "  \"data\"");
  run = "{\"model\": \"first\",\n" + run.substr(begin);
  WriteWhole(folder_ / "run.json", run);
  const auto job = [&](const std::string& name) {
    Strings line = {
        "launch",      "-n",         "2",      "--restart",
        "--backoff",   "0.01",       "--",     Program("tools/ringlet/ringlet"),
        "train",       "run.json",   "--save", name,
        "--log-steps", name + ".csv"};
    if (how.inits) line.insert(line.end(), {"--init", "weights"});
    return line;
  };
  ASSERT_EQ(Run(job("whole")), 0) << err_;
  Start(job("lost"));
  ASSERT_TRUE(Eventually(
      [&] { return Lines(ReadWhole(folder_ / "lost.csv")).size() > 35; }));
  const std::vector<pid_t> workers = WorkersOf(child_);
  ASSERT_EQ(workers.size(), 2u);
  kill(workers[how.lost], SIGKILL);
  EXPECT_EQ(Wait(), 0) << err_;
  EXPECT_TRUE(Contains(err_, "was ended by signal 9"));
  EXPECT_EQ(Run({"diff", "whole", "lost"}), 0) << out_;
}

// The backup has three replicas, and two workers load it.
TEST_F(ProgramTest, LaunchRestart_WorkerIsKilled_OthersContinue) {
  const std::string more =
      R"("steps_per_epoch": 20}, "strategy": {"timeout": 4, "start_timeout": 100},
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
  // Back in time, or when the others have ended: none waits so long for it.
  for (const char* backoff : {"", "0.1", "10000"}) {
    SCOPED_TRACE(backoff);
    std::filesystem::remove_all(std::string(folder_ / "backup"));
    std::filesystem::copy(folder_ / "backup1", folder_ / "backup");
    std::filesystem::remove(std::string(folder_ / "steps.csv"));
    std::filesystem::remove(std::string(folder_ / "model"));
    const bool kills = *backoff != '\0';
    Start(job("2", "40", kills ? backoff : "1", "model"));
    if (kills) {
      ASSERT_TRUE(Eventually(
          [&] { return Lines(ReadWhole(folder_ / "steps.csv")).size() > 60; }));
      const std::vector<pid_t> workers = WorkersOf(child_);
      ASSERT_EQ(workers.size(), 2u);
      kill(workers[0], SIGKILL);
    }
    EXPECT_EQ(Wait(), 0) << err_;
    EXPECT_TRUE(Contains(out_, "of each of 3 replicas on 2 workers"));
    ASSERT_TRUE(std::filesystem::exists(std::string(folder_ / "model")));
    if (!kills) {
      undisturbed = ReadWhole(folder_ / "model");
      continue;
    }
    EXPECT_TRUE(Contains(err_, "was ended by signal 9"));
    EXPECT_TRUE(
        Contains(out_, " workers that may leave and join (exact sums), "));
    EXPECT_TRUE(Contains(out_ + err_, "continuing with the present workers"));
    EXPECT_TRUE(ReadWhole(folder_ / "model") == undisturbed);
  }
  // An explicit choice is kept.
  for (const char* said : {R"("policy": "fail")", R"("reduction": "ring")"}) {
    SCOPED_TRACE(said);
    WriteRun("\"callbacks\": []",
             std::string("\"strategy\": {\"timeout\": 20, ") + said + "}");
    EXPECT_EQ(Run({"launch", "-n", "2", "--restart", "--", program, "train",
                   "run.json", "--no-save", "--epochs", "1"}),
              0)
        << err_;
    EXPECT_FALSE(Contains(out_, "may leave and join"));
  }
}

// A worker of three is killed or stopped. The trails report it afterwards.
class TrailOfLostTest : public ProgramTest,
                        public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(KilledOrStopped, TrailOfLostTest,
                         testing::Values(SIGKILL, SIGSTOP));

TEST_P(TrailOfLostTest, Report_LostWorker_NamesTheWaits) {
  WriteRun("\"steps_per_epoch\": 3}",
           R"("steps_per_epoch": 1000000}, "strategy": {"timeout": 4})");
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
  ASSERT_TRUE(Eventually(
      [&] { return inspect("").find("in step") != std::string::npos; }));
  std::vector<pid_t> workers = WorkersOf(child_);
  ASSERT_EQ(workers.size(), 3u);
  kill(workers[1], GetParam());
  EXPECT_TRUE(Eventually([&] {
    const std::string told = inspect("");
    return told.find("ended with exit code", told.find("worker 2 (127")) !=
           std::string::npos;
  }));
  if (GetParam() == SIGSTOP) kill(workers[1], SIGKILL);
  const int code = Wait();  // of the first worker to end
  EXPECT_TRUE(code == 75 || (code == 137 && GetParam() == SIGKILL)) << err_;
  const std::string told = inspect("");
  std::vector<std::string> parts = {
      "worker 1 was lost: ", "ended with exit code 75 in step ",
      "its trail ends here, "};
  // A worker with a closed connection is lost immediately, awaited or not.
  if (GetParam() == SIGSTOP) parts.push_back("waited for worker 1");
  for (const std::string& part : parts) {
    EXPECT_TRUE(Contains(told, part));
  }
  const size_t lost = told.find("worker 1 (127");
  EXPECT_EQ(told.find("its trail ends here, "),
            told.find("its trail ends here, ", lost))
      << told;
  const std::string events = inspect("--verbose");
  EXPECT_TRUE(Contains(events, "ring formed"));
  EXPECT_TRUE(Contains(events, "  lost  worker 1"));
  // A file that is empty, cut off or no trail hides none of the others.
  WriteWhole(folder_ / "empty.trail", "");
  WriteWhole(folder_ / "torn.trail",
             ReadWhole(folder_ / "trail/worker-1.trail").substr(0, 100));
  EXPECT_EQ(Run({"inspect", "empty.trail", "torn.trail", "run.json",
                 "trail/worker-0.trail"}),
            1);
  for (const char* file : {"empty.trail: ", "torn.trail: ", "run.json: "}) {
    EXPECT_TRUE(Contains(err_, file));
  }
  EXPECT_TRUE(Contains(err_, "is not a trail of a worker; skipped\n"));
  EXPECT_TRUE(Contains(out_, "\nworker 0 (127"));
  EXPECT_EQ(Run({"inspect", "--json", "trail/worker-0.trail"}), 2);
}

// With the key that the same RUN.json names: without it the others would not
// accept it, and all could read it.
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
  ExpectError({"train", "run.json", "--save", "m"}, 2, {"ringlet keygen"});
  const auto expect_missing = [this] {
    EXPECT_TRUE(Contains(err_, "missing are worker 1 (192.0.2.7:29876)"));
  };
  EXPECT_EQ(Run({"train", "run.json", "--save", "m", "--insecure"}), 1);
  expect_missing();
  WriteRun("\"callbacks\": []", strategy + ", \"insecure\": true}");
  EXPECT_EQ(Run({"train", "run.json", "--save", "m"}), 1);
  expect_missing();
}

TEST_F(ProgramTest, Address_MissingOrTaken_IsNamed) {
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
  ExpectError({"train", "run.json", "--save", "m"}, 1, {taken});
  close(fd);
}

}  // namespace
}  // namespace ringlet
