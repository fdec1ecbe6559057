// Background noise in a run: one model for all threads, workers and kills.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "../support/contains.h"
#include "../support/eventually.h"
#include "../support/program.h"
#include "../support/sound_files.h"
#include "../support/temp_folder.h"

namespace ringlet {
namespace {

constexpr char kNoiseRun[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 800]}},
    {"class_name": "MFCC", "config": {"sampling_rate": 8000,
      "sequence_length": 200, "sequence_stride": 100, "num_mel_bins": 20}},
    {"class_name": "Flatten"},
    {"class_name": "Dense", "config": {"units": 2}}]}},
  "compile": {"optimizer": {"class_name": "Adam",
                            "config": {"learning_rate": 0.01}},
    "loss": {"class_name": "SparseCategoricalCrossentropy",
             "config": {"from_logits": true}}},
  "data": {"train": {"audio_directory": "words", "in_memory": false,
    "background_noise": "words/_background_noise_",
    "background_volume": 0.5, "time_shift_ms": 10}},
  "fit": {"batch_size": 32, "epochs": 3, "threads": 2},
  "strategy": {"replicas": 3, "reduction": "exact"},
  "callbacks": []
})";

class ProgramNoiseTest : public ProgramTest {
 protected:
  ProgramNoiseTest() {
    WriteSounds("words/high", 35, 2000);
    WriteSounds("words/low", 35, 500);
    WriteSounds("words/_background_noise_", 2, 30);
    WriteNoiseRun();
  }
  void WriteSounds(const std::string& folder, int count, int hertz) {
    std::filesystem::create_directories(folder_ / folder);
    for (int i = 0; i < count; ++i) {
      std::vector<int> samples;
      for (int t = 0; t < 900 + i; ++t) {
        const double angle = 2 * 3.14159265 * (hertz + 10 * i) * t / 8000;
        samples.push_back(static_cast<int>(9000 * std::sin(angle)) +
                          t * 7919 % 101);
      }
      WriteWhole(folder_ / (folder + "/" + std::to_string(100 + i) + ".wav"),
                 Wav16(samples, 8000));
    }
  }
  void WriteNoiseRun(const std::string& from = "", const std::string& to = "") {
    const std::string text = kNoiseRun;
    WriteWhole(folder_ / "run.json",
               from.empty() ? text : Replaced(text, from, to));
  }
  Strings Train(const std::string& to, const std::string& epochs = "3") {
    return {"train", "run.json", "--save", to, "--epochs", epochs};
  }
  static Strings Job(const std::string& workers, const Strings& command) {
    Strings all = {"launch", "-n", workers, "--",
                   Program("tools/ringlet/ringlet")};
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
  std::string Model(const std::string& name) {
    return ReadWhole(folder_ / name);
  }
};

TEST_F(ProgramNoiseTest, Train_OtherThreadsWorkersOrMemory_GivesSameModel) {
  for (const std::string batch : {"1", "32", "100"}) {
    const std::string epochs = batch == "1" ? "1" : "3";
    WriteNoiseRun("\"batch_size\": 32", "\"batch_size\": " + batch);
    if (batch == "1") {
      WriteWhole(folder_ / "run.json",
                 Replaced(Model("run.json"), "\"replicas\": 3, ", ""));
    }
    ASSERT_EQ(Run(Train("m", epochs)), 0) << err_;
    const std::string model = Model("m");
    Strings one = Train("m", epochs);
    one.insert(one.end(), {"--threads", "1"});
    ASSERT_EQ(Run(one), 0) << err_;
    EXPECT_TRUE(Model("m") == model) << batch;
    WriteWhole(folder_ / "run.json",
               Replaced(Model("run.json"), "\"in_memory\": false,", ""));
    ASSERT_EQ(Run(Train("m", epochs)), 0) << err_;
    EXPECT_TRUE(Model("m") == model) << batch;
    if (batch == "1") continue;
    for (const char* workers : {"2", "3"}) {
      ASSERT_EQ(Run(Job(workers, Train("m", epochs))), 0) << err_;
      EXPECT_TRUE(Model("m") == model) << batch << " " << workers;
    }
  }
}

TEST_F(ProgramNoiseTest, Train_KilledAndResumed_GivesSameModel) {
  WriteNoiseRun("\"callbacks\": []", R"("callbacks": [{
    "class_name": "BackupAndRestore",
    "config": {"backup_dir": "backup", "save_freq": 2}}])");
  Strings endless = Job("3", Train("cut", "1000000"));
  endless.insert(endless.end(), {"--log-steps", "cut.csv"});
  Start(endless);
  ASSERT_TRUE(Eventually(
      [&] { return Lines(ReadWhole(folder_ / "cut.csv")).size() > 8; }));
  for (const pid_t worker : FindWorkers(child_)) kill(worker, SIGKILL);
  EXPECT_NE(Wait(), 0);
  const Strings rows = Lines(ReadWhole(folder_ / "cut.csv"));
  const std::string epochs = std::to_string(std::atoi(rows.back().c_str()) + 3);
  Strings on = Train("cut", epochs);
  on.insert(on.end(), {"--log-steps", "cut.csv"});
  ASSERT_EQ(Run(on), 0) << err_;
  EXPECT_FALSE(Contains(out_, "Epoch 1/")) << out_;  // the run was resumed
  std::filesystem::remove_all(std::string(folder_ / "backup"));
  ASSERT_EQ(Run(Train("whole", epochs)), 0) << err_;
  EXPECT_EQ(Run({"diff", "whole", "cut"}), 0) << out_;
}

TEST_F(ProgramNoiseTest, Train_OtherOrNoNoise_GivesAnotherModel) {
  ASSERT_EQ(Run(Train("m")), 0) << err_;
  const std::string model = Model("m");
  for (const char* field :
       {R"("background_volume": 0.4)", R"("background_frequency": 0)"}) {
    WriteNoiseRun("\"background_volume\": 0.5", field);
    ASSERT_EQ(Run(Train("n")), 0) << err_;
    EXPECT_FALSE(Model("n") == model);
    std::filesystem::remove(folder_ / "n");
  }
}

TEST_F(ProgramNoiseTest, Train_WorkersWithOtherNoise_AreRefused) {
  WriteNoiseRun("words/_background_noise_", "noise");
  std::filesystem::rename(folder_ / "words/_background_noise_",
                          folder_ / "noise");
  // Each worker draws in its own folder, and the second's noise differs.
  std::filesystem::create_directories(folder_ / "other");
  std::filesystem::copy(folder_ / "words", folder_ / "other/words",
                        std::filesystem::copy_options::recursive);
  WriteWhole(folder_ / "other/run.json", Model("run.json"));
  std::filesystem::create_directories(folder_ / "other/noise");
  std::filesystem::copy(folder_ / "noise/100.wav",
                        folder_ / "other/noise/100.wav");
  WriteWhole(folder_ / "start.sh", R"(#!/bin/sh
case "$TF_CONFIG" in *'"index":1'*|*'"index": 1'*) cd other;; esac
exec "$@"
)");
  std::filesystem::permissions(folder_ / "start.sh",
                               std::filesystem::perms::owner_all);
  EXPECT_NE(Run({"launch", "-n", "2", "--", folder_ / "start.sh",
                 Program("tools/ringlet/ringlet"), "train", "run.json"}),
            0);
  EXPECT_TRUE(Contains(err_, "data")) << err_;
}

TEST_F(ProgramNoiseTest, EvaluateAndPlan_WithoutTheNoise_Work) {
  WriteNoiseRun("\"in_memory\": false", "\"validation_split\": 0.25");
  ASSERT_EQ(Run(Train("m", "1")), 0) << err_;
  ASSERT_EQ(Run({"evaluate", "m", "--data", "run.json", "--json"}), 0) << err_;
  const std::string before = out_;
  std::filesystem::remove_all(
      std::string(folder_ / "words/_background_noise_"));
  ASSERT_EQ(Run({"evaluate", "m", "--data", "run.json", "--json"}), 0) << err_;
  EXPECT_EQ(out_, before);
  ASSERT_EQ(Run({"plan", "run.json"}), 0) << err_;
}

// The noise is no example, and the names of the classes order the files before
// the seed divides them. A line of a prediction begins with its file.
TEST_F(ProgramNoiseTest, Predict_PartOfAFolder_TakesTheExamplesOfEvaluate) {
  for (const char* classes : {R"(["high", "low"])", R"(["low", "high"])"}) {
    SCOPED_TRACE(classes);
    WriteNoiseRun(
        "\"in_memory\": false",
        std::string("\"validation_split\": 0.3, \"class_names\": ") + classes);
    ASSERT_EQ(Run(Train("m", "2")), 0) << err_;
    for (const char* part : {"train", "validation"}) {
      SCOPED_TRACE(part);
      const Strings arguments = {"m", "--data", "run.json", "--part", part};
      Strings command = {"evaluate", "--json"};
      command.insert(command.end(), arguments.begin(), arguments.end());
      ASSERT_EQ(Run(command), 0) << err_;
      const double expected =
          std::strtod(out_.c_str() + out_.find("\"loss\":") + 7, nullptr);
      command = {"predict", "--out", "y.csv"};
      command.insert(command.end(), arguments.begin(), arguments.end());
      ASSERT_EQ(Run(command), 0) << err_;
      double loss = 0;
      int count = -1;  // the names of the columns
      for (const std::string& line : Lines(ReadWhole(folder_ / "y.csv"))) {
        if (++count == 0) continue;
        const size_t last = line.rfind(','), first = line.rfind(',', last - 1);
        const double y[] = {std::atof(line.c_str() + first + 1),
                            std::atof(line.c_str() + last + 1)};
        const bool is_first =
            Contains(classes, "[\"low") == Contains(line, "words/low");
        loss += std::log1p(std::exp(y[is_first ? 1 : 0] - y[is_first ? 0 : 1]));
      }
      EXPECT_EQ(count, std::string(part) == "train" ? 49 : 21);
      EXPECT_NEAR(loss / count, expected, 1e-5);
    }
  }
}

TEST_F(ProgramNoiseTest, Train_WrongFields_AreRefused) {
  const struct {
    const char *from, *to, *error;
  } cases[] = {
      {R"("background_volume": 0.5)", R"("background_volume": 1.5)",
       "background_volume: is 1.5; must be a number in [0, 1]"},
      {R"("background_noise": "words/_background_noise_",)", "",
       "needs \"background_noise\""},
      {R"("background_noise": "words/_background_noise_")",
       R"("background_noise": "none")", "none"},
      {R"("time_shift_ms": 10}})",
       R"("time_shift_ms": 10}, "validation": {"audio_directory": "words",
           "time_shift_ms": 10}})",
       "belong to data.train"},
      {R"("audio_directory": "words")", R"("directory": "words")",
       "is of sound; leave it out"}};
  for (const auto& c : cases) {
    WriteNoiseRun(c.from, c.to);
    EXPECT_EQ(Run(Train("m")), 2) << c.to;
    EXPECT_TRUE(Contains(err_, c.error)) << c.to;
  }
}

}  // namespace
}  // namespace ringlet
