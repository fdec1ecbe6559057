// strategy.attendance of a RUN.json: the same bits as the call in C++, and what
// is refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "../support/program.h"
#include "core/fit/fit.h"
#include "core/model/attendance.h"
#include "core/model/model.h"
#include "io/checkpoint/model_file.h"
#include "io/data/readers.h"

namespace ringlet {
namespace {

constexpr int kReplicas = 6;

// Spelt out here, and in Text().
class Spelt final : public Attendance {
 public:
  Presence Of(int64_t step, int replica) const override {
    if (step == 4) return Presence::kAway;  // nobody
    const int64_t at = (step + replica) % 5;
    return at == 0   ? Presence::kAway
           : at == 1 ? Presence::kLate
                     : Presence::kThere;
  }
};

std::string Text() {
  std::string text;
  const Spelt spelt;
  for (const int64_t step : {0, 2, 4, 5, 7, 9}) {
    text += std::to_string(step);
    for (int r = kReplicas; r-- > 0;) {
      const Presence presence = spelt.Of(step, r);
      if (presence == Presence::kAway) continue;
      text += "," + std::to_string(r) +
              (presence == Presence::kLate ? " late" : "");
    }
    text += "\n";
  }
  return text;
}

class AttendanceTest : public ProgramTest {
 protected:
  // Two epochs of 5 steps, in rounds of 2, 2 and 1.
  void Write(const std::string& more = ", \"attendance\": \"a/who.csv\"") {
    WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
             "\"steps_per_epoch\": 5},\n  \"strategy\": {\"mode\": \"local\", "
             "\"local_steps\": 2, \"replicas\": 6, \"participation\": 4" +
                 more + "}");
  }
  void SetUp() override {
    std::filesystem::create_directory(folder_ / "a");
    WriteWhole(folder_ / "a/who.csv", Text());
  }
  // Until `more` backups were made in the folder, or the program has ended.
  void AwaitBackups(const std::string& folder, int more) const {
    const int first = NewestBackup(folder);
    siginfo_t info = {};
    while (NewestBackup(folder) < first + more && info.si_pid == 0) {
      usleep(200);
      ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child_), &info,
                       WEXITED | WNOHANG | WNOWAIT),
                0);
    }
  }
  // Its step; 0 for none.
  static int NewestBackup(const std::string& folder) {
    int newest = 0;
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder, error)) {
      int step = 0;
      const std::string name = entry.path().filename().string();
      if (sscanf(name.c_str(), "backup-%d.safetensors", &step) == 1) {
        newest = std::max(newest, step);
      }
    }
    return newest;
  }
  std::vector<float> Saved(const std::string& name) {
    std::unique_ptr<Model> model;
    const Status status = LoadModel(folder_ / name, &model);
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) return {};
    return {model->weights(), model->weights() + model->num_weights()};
  }
};

std::vector<float> TrainedByCall(const Attendance* attendance) {
  Sequential model;
  model.Add(Input({28, 28}));
  model.Add(Flatten());
  model.Add(Dense(8, kRelu));
  model.Add(Dense(10));
  CompileOptions options;
  options.replicas = kReplicas;
  options.seed = 1;
  options.local.steps = 2;
  options.local.participation = 4;
  options.local.attendance = attendance;
  model.Compile(Adam(), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()}, options);
  const std::string stem =
      EnvironmentOr("RINGLET_SOURCE", ".") + "/data/fashion-mnist-mini/train-";
  FitOptions fit;
  fit.epochs = 2;
  fit.steps_per_epoch = 5;
  fit.verbose = Verbose::kSilent;
  const Result<History> history = model.Fit(
      IdxDataset(stem + "images-idx3-ubyte.gz", stem + "labels-idx1-ubyte.gz")
          .Map(Scale{0.00392156862745098f, 0})
          .Shuffle(1)
          .Repeat()
          .Batch(kReplicas * 16),
      fit);
  EXPECT_TRUE(history.ok()) << history.status().message();
  return {model.weights(), model.weights() + model.num_weights()};
}

TEST_F(AttendanceTest, IsTheCallInCpp) {
  Write();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m.safetensors"}), 0) << err_;
  const Spelt spelt;
  const std::vector<float> saved = Saved("m.safetensors");
  EXPECT_EQ(saved, TrainedByCall(&spelt));
  EXPECT_NE(saved, TrainedByCall(nullptr));
  // Two workers, with files of their own.
  ASSERT_EQ(Run({"launch", "-n", "2", "--", Program("tools/ringlet/ringlet"),
                 "train", "run.json", "--save", "two.safetensors"}),
            0)
      << err_;
  EXPECT_EQ(Saved("two.safetensors"), saved);
  EXPECT_NE(out_.find("6 replicas in rounds of their own steps, epochs 1 to 2"),
            std::string::npos)
      << out_;
}

// Killed at any moment, with a backup after each round, it goes on to the bits
// of the undisturbed run.
TEST_F(AttendanceTest, GoesOnFromABackupOfEveryRound) {
  std::string text;
  for (int step = 0; step < 200; ++step) {
    if (step % 40 % 3 != 0) continue;
    text += std::to_string(step) + "," + std::to_string(step % 6) + "," +
            std::to_string((step + 1) % 6) + " late," +
            std::to_string((step + 4) % 6) + "\n";
  }
  WriteWhole(folder_ / "a/who.csv", text);
  const auto write = [&](const std::string& callbacks) {
    WriteRun("\"epochs\": 2, \"steps_per_epoch\": 3},\n  \"callbacks\": []",
             "\"epochs\": 5, \"steps_per_epoch\": 40},\n  \"strategy\": "
             "{\"mode\": \"local\", \"local_steps\": 3, \"replicas\": 6, "
             "\"attendance\": \"a/who.csv\"},\n  \"callbacks\": [" +
                 callbacks + "]");
  };
  write("");
  ASSERT_EQ(Run({"train", "run.json", "--save", "m.safetensors"}), 0) << err_;
  write(R"({"class_name": "BackupAndRestore", "config": {
      "backup_dir": "b", "save_freq": 1}})");
  // A moment is after some backups, not after some time: machines differ.
  const std::string backups = folder_ / "b";
  int killed = 0;
  for (int whole = 0; killed < 2 && whole < 20; ++whole) {
    for (int moment = 1; moment < 100; ++moment) {
      Start({"train", "run.json", "--save", "n.safetensors"});
      AwaitBackups(backups, 1 + moment * 5 % 7);
      kill(child_, SIGKILL);
      const int code = Wait();
      if (code == 0) break;
      ASSERT_EQ(code, 1000 + SIGKILL) << err_;
      ++killed;
    }
    EXPECT_EQ(Saved("n.safetensors"), Saved("m.safetensors"));
  }
  EXPECT_GT(killed, 1);
}

// 0 would be a loss.
TEST_F(AttendanceTest, ARoundOfNobodyHasNoMetrics) {
  Write();
  ASSERT_EQ(Run({"train", "run.json", "--no-save", "--log-steps", "s.csv"}), 0)
      << err_;
  const Strings rows = Lines(ReadWhole(folder_ / "s.csv"));
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_EQ(rows[3], "0,4,nan,nan");
  EXPECT_EQ(rows[4].find("nan"), std::string::npos) << rows[4];
}

// What was saved of it is that run's, and no other's.
TEST_F(AttendanceTest, MakesARunAnother) {
  Write();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m.safetensors"}), 0) << err_;
  const std::string first = ReadWhole(folder_ / "m.safetensors");
  WriteWhole(folder_ / "a/who.csv", Replaced(Text(), " late", ""));
  ASSERT_EQ(Run({"train", "run.json", "--save", "n.safetensors"}), 0) << err_;
  EXPECT_NE(Saved("n.safetensors"), Saved("m.safetensors"));
  WriteWhole(folder_ / "a/who.csv", Text() + "\n\n");
  ASSERT_EQ(Run({"train", "run.json", "--save", "o.safetensors"}), 0) << err_;
  EXPECT_TRUE(ReadWhole(folder_ / "o.safetensors") == first);
}

TEST_F(AttendanceTest, IsRefusedBeforeTraining) {
  const auto refused = [&](const std::string& text, const Strings& says) {
    WriteWhole(folder_ / "a/who.csv", text);
    ExpectError({"train", "run.json", "--save", "m.safetensors"}, 2, says);
  };
  Write();
  refused("0,1\n2,x\n",
          {"strategy.attendance", "a/who.csv: line 2", "'x' is no replica"});
  refused("", {"strategy.attendance", "who.csv: no rounds"});
  std::filesystem::remove(folder_ / "a/who.csv");
  ExpectError({"train", "run.json"}, 2, {"strategy.attendance", "a/who.csv"});
  SetUp();
  WriteRun("\"callbacks\": []",
           "\"strategy\": {\"attendance\": \"a/who.csv\"}");
  ExpectError(
      {"train", "run.json"}, 2,
      {"strategy.attendance: is \"a/who.csv\"", "say \"mode\": \"local\" too"});
  WriteRun("\"callbacks\": []",
           "\"strategy\": {\"mode\": \"local\", \"attendance\": 3}");
  ExpectError({"train", "run.json"}, 2, {"strategy.attendance: is 3; must be"});
  WriteRun("\"callbacks\": []",
           "\"strategy\": {\"mode\": \"local\", \"local_steps\": \"auto\", "
           "\"attendance\": \"a/who.csv\"}");
  ExpectError({"train", "run.json"}, 2,
              {"strategy.attendance", "\"auto\"", "give a number"});
  WriteRun("\"callbacks\": []",
           "\"strategy\": {\"mode\": \"local\", \"overlap\": true, "
           "\"attendance\": \"a/who.csv\"}");
  ExpectError({"train", "run.json"}, 2, {"overlap with attendance"});
}

// Who is there matters to those that train alone: others need no such file.
TEST_F(AttendanceTest, IsReadByWhoeverTrainsAlone) {
  Write();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m.safetensors"}), 0) << err_;
  std::filesystem::remove(folder_ / "a/who.csv");
  const Strings others[] = {
      {"plan", "run.json"},
      {"summary", "run.json"},
      {"evaluate", "m.safetensors", "--data", "run.json", "--part", "train"},
      {"evaluate", "run.json", "--init", "m.safetensors", "--part", "train"},
      {"predict", "run.json", "--init", "m.safetensors", "--part", "train",
       "--out", "y.csv"},
      {"export", "run.json", "--init", "m.safetensors", "--out", "m.onnx"}};
  for (const Strings& other : others) {
    EXPECT_EQ(Run(other), 0) << other[0] << ": " << err_;
  }
  ExpectError({"verify", "run.json", "--steps", "2"}, 2,
              {"run.json: strategy.attendance: ", "a/who.csv"});
}

// Where the rounds are not the file's, the first that is not ends the run.
TEST_F(AttendanceTest, OfOtherRoundsEndsTheRun) {
  const auto ends = [&](const std::string& text, const std::string& says) {
    SCOPED_TRACE(text);
    WriteWhole(folder_ / "a/who.csv", text);
    EXPECT_EQ(Run({"train", "run.json", "--save", "m.safetensors"}), 2) << out_;
    EXPECT_NE(err_.find(says), std::string::npos) << err_;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "m.safetensors"));
  };
  Write();
  ends("0,1\n3,1\n", "no line of the round after 2 steps, up to 4 (line 2 is");
  ends("0,1\n1,2\n2,1\n", "line 2: the round after 1 steps, but the one");
  ends("0,1\n2,6\n", "line 2: replica 6, but there are 6");
  ends("0,1\n2,1\n4,1\n", "no line of the round after 5 steps, up to 7");
}

TEST_F(AttendanceTest, ExamplesOfSuchARunAreNotLogged) {
  Write();
  EXPECT_EQ(Run({"train", "run.json", "--log-examples", "e.csv"}), 2);
  EXPECT_NE(err_.find("attendance"), std::string::npos) << err_;
}

}  // namespace
}  // namespace ringlet
