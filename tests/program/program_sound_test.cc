// Sound in folders: training, evaluation, prediction and inspection by the
// program.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "../support/contains.h"
#include "../support/program.h"
#include "../support/sound_files.h"
#include "../support/temp_folder.h"

namespace ringlet {
namespace {

constexpr char kSoundRun[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 800]}},
    {"class_name": "MFCC", "config": {"name": "mfcc", "sampling_rate": 8000,
      "sequence_length": 200, "sequence_stride": 100, "num_mel_bins": 20}},
    {"class_name": "BatchNormalization"},
    {"class_name": "Flatten"},
    {"class_name": "Dense", "config": {"units": 2, "activation": "softmax"}}]}},
  "compile": {"optimizer": {"class_name": "Adam",
                            "config": {"learning_rate": 0.05}},
    "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]},
  "data": {
    "train": {"audio_directory": "train"},
    "validation": {"audio_directory": "other"}},
  "fit": {"batch_size": 32, "epochs": 20, "threads": 2}
})";

class ProgramSoundTest : public ProgramTest {
 protected:
  // 35 low and 35 high tones, and 2 of each.
  ProgramSoundTest() {
    WriteTones("train", 35);
    WriteTones("other", 2);
    WriteSoundRun();
  }

  static std::string Tone(int hertz, int i, int rate = 8000) {
    std::vector<int> samples;
    for (int t = 0; t < 700 + i; ++t) {
      const double angle = 2 * 3.14159265 * (hertz + 10 * i) * t / rate;
      samples.push_back(static_cast<int>(9000 * std::sin(angle)) +
                        t * 7919 % 101);
    }
    return Wav16(samples, rate);
  }
  void WriteTones(const std::string& folder, int count) {
    for (const auto& [name, hertz] : {std::pair("high", 2000), {"low", 500}}) {
      const std::string path = folder_ / (folder + "/" + name);
      std::filesystem::create_directories(path);
      for (int i = 0; i < count; ++i) {
        WriteWhole(path + "/" + std::to_string(100 + i) + ".wav",
                   Tone(hertz, i));
      }
    }
  }
  void WriteSoundRun(const std::string& from = "", const std::string& to = "") {
    const std::string text = kSoundRun;
    WriteWhole(folder_ / "run.json",
               from.empty() ? text : Replaced(text, from, to));
  }
};

TEST_F(ProgramSoundTest, Folders_TrainedModel_EvaluatesAndPredictsByName) {
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"evaluate", "m", "--audio", "other", "--json"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "\"accuracy\":1"));
  const std::string by_folder = out_;
  ASSERT_EQ(Run({"evaluate", "m", "--data", "run.json", "--json"}), 0) << err_;
  EXPECT_EQ(out_, by_folder);
  ASSERT_EQ(Run({"predict", "m", "--audio", "other"}), 0) << err_;
  Strings rows = Lines(out_);
  ASSERT_EQ(rows.size(), 5u) << out_;
  EXPECT_EQ(rows[0], "file,class,probability,high,low");
  EXPECT_TRUE(Contains(rows[1], "other/high/100.wav,high,"));
  ASSERT_EQ(Run({"predict", "m", "--audio", "other/low/101.wav",
                 "train/high/103.wav"}),
            0)
      << err_;
  rows = Lines(out_);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(Contains(rows[1], "other/low/101.wav,low,"));
  ASSERT_EQ(Run({"export", "m", "-o", "m.c"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m", "-o", "m.onnx"}), 0) << err_;
}

TEST_F(ProgramSoundTest, Folders_OtherThreadsWorkersOrMemory_GiveSameModel) {
  for (const std::string batch : {"1", "32", "100"}) {
    WriteSoundRun(R"("batch_size": 32, "epochs": 20, "threads": 2})",
                  R"("batch_size": )" + batch + R"(, "epochs": 2,
                     "threads": 2}, "strategy": {"replicas": )" +
                      (batch == "1" ? "1" : "3") +
                      R"(, "reduction": "exact"})");
    ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
    const std::string model = ReadWhole(folder_ / "m");
    ASSERT_EQ(Run({"train", "run.json", "--save", "m", "--threads", "1"}), 0);
    EXPECT_TRUE(ReadWhole(folder_ / "m") == model) << batch;
    std::string text = ReadWhole(folder_ / "run.json");
    text = Replaced(text, "\"train\"}", "\"train\", \"in_memory\": false}");
    WriteWhole(folder_ / "run.json", text);
    ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
    EXPECT_TRUE(ReadWhole(folder_ / "m") == model) << batch;
    if (batch == "1") continue;
    ASSERT_EQ(Run({"launch", "-n", "3", "--", Program("tools/ringlet/ringlet"),
                   "train", "run.json", "--save", "m"}),
              0)
        << err_;
    EXPECT_TRUE(ReadWhole(folder_ / "m") == model) << batch;
  }
}

TEST_F(ProgramSoundTest, Evaluate_OtherRate_IsRefusedByTheModel) {
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0)
      << err_;
  WriteWhole(folder_ / "a.wav", Tone(500, 0, 16000));
  EXPECT_EQ(Run({"predict", "m", "--audio", "a.wav"}), 2);
  EXPECT_TRUE(Contains(err_, "a.wav: has 16000 samples a second, not 8000"));
  WriteSoundRun("\"train\"}", "\"train\", \"sampling_rate\": 16000}");
  EXPECT_EQ(Run({"train", "run.json"}), 2);
  EXPECT_TRUE(Contains(err_, "layer 'mfcc' takes 8000"));
}

TEST_F(ProgramSoundTest, Train_Table_HasPathsLengthAndSplit) {
  WriteWhole(folder_ / "files.csv",
             "file,label\ntrain/low/100.wav,low\ntrain/high/100.wav,high\n"
             "train/low/101.wav,low\ntrain/high/101.wav,high\n");
  WriteSoundRun(R"({"audio_directory": "train"},
    "validation": {"audio_directory": "other"})",
                R"({"csv": "files.csv", "audio": "file", "label": "label",
    "output_sequence_length": 800, "sampling_rate": 8000,
    "validation_split": 0.25})");
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0)
      << err_;
  EXPECT_TRUE(Contains(out_, "1/1 "));  // of 3 files
  ASSERT_EQ(Run({"plan", "run.json"}), 0) << err_;
}

TEST_F(ProgramSoundTest, Train_FieldsOfPictures_AreRefused) {
  WriteSoundRun("\"train\"}", "\"train\", \"image_size\": [4, 4]}");
  EXPECT_EQ(Run({"train", "run.json"}), 2);
  EXPECT_TRUE(Contains(err_, "image_size: is [4, 4]; is of pictures"));
  WriteSoundRun("\"train\"}", "\"train\", \"directory\": \"train\"}");
  EXPECT_EQ(Run({"train", "run.json"}), 2);
  EXPECT_TRUE(Contains(err_, "must have one of"));
  WriteSoundRun("\"train\"}", "\"train\", \"sequence_length\": 2}");
  EXPECT_EQ(Run({"train", "run.json"}), 2);
  EXPECT_TRUE(Contains(err_, "windows are of rows, not of files"));
}

TEST_F(ProgramSoundTest, Inspect_FolderAndFile_ShowsClassesRatesAndLengths) {
  WriteWhole(folder_ / "other/low/bad.wav", "RIFF");
  ASSERT_EQ(Run({"inspect", "other"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "other: 5 sound files in 2 folders"));
  EXPECT_TRUE(Contains(out_, "sampling rate, in Hz:\n  8000"));
  EXPECT_TRUE(Contains(out_, "not readable: 1; the first: other/low/bad.wav"));
  ASSERT_EQ(Run({"inspect", "other/low/101.wav"}), 0) << err_;
  EXPECT_EQ(out_,
            "other/low/101.wav: sound of 701 samples at 8000 Hz, 1 channels, "
            "16 bits\n");
}

}  // namespace
}  // namespace ringlet
