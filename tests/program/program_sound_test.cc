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
    {"class_name": "MFCC", "config": {"name": "mfcc",
      "sampling_rate": 8000,
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

// The features stay in float, and what follows is int8.
TEST_F(ProgramSoundTest, ExportInt8_SoundModel_IsAsGoodAsInFloat) {
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m", "-o", "m.c", "--quantize", "int8", "--data",
                 "run.json"}),
            0)
      << err_;
  EXPECT_TRUE(Contains(err_, "accuracy 1 -> 1")) << err_;
  const std::string c = ReadWhole(folder_ / "m.c");
  EXPECT_TRUE(Contains(c, "sound in float, or in int8 the MFCC of it: "));
  EXPECT_TRUE(Contains(c, "static void front_end0(const float* x)"));
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

// Also the layers within a TimeDistributed have a rate, and all have the same.
TEST_F(ProgramSoundTest,
       RatesOfLayers_OtherThanTheFilesOrEachOther_AreRefused) {
  const std::string mfcc = R"({"class_name": "MFCC", "config": {"name": "mfcc",
      "sampling_rate": 8000,
      "sequence_length": 200, "sequence_stride": 100, "num_mel_bins": 20}})";
  const std::string other = Replaced(mfcc, "8000", "16000");
  const std::string reshape =
      R"({"class_name": "Reshape", "config": {"target_shape": [2, 400]}},
         {"class_name": "TimeDistributed", "config": {"name": "td", "layer": )";
  WriteSoundRun(mfcc, reshape + other + "}}");
  EXPECT_EQ(Run({"train", "run.json"}), 2);
  EXPECT_TRUE(Contains(err_, "has 8000 samples a second, not 16000"));
  WriteSoundRun("\"train\"}", "\"train\", \"sampling_rate\": 8000}");
  std::string text = ReadWhole(folder_ / "run.json");
  WriteWhole(folder_ / "run.json",
             Replaced(text, mfcc, reshape + other + "}}"));
  EXPECT_EQ(Run({"train", "run.json"}), 2);
  EXPECT_TRUE(Contains(err_, "layer 'td' takes 16000"));
  const std::string wide = Replaced(mfcc, "20}", "40, \"num_mfcc\": null}");
  WriteSoundRun(mfcc, wide + R"(, {"class_name": "Flatten"}, )" +
                          Replaced(other, "\"mfcc\"", "\"m2\""));
  EXPECT_EQ(Run({"train", "run.json"}), 2);
  EXPECT_TRUE(Contains(err_,
                       "layer 'm2' takes 16000 samples a second, but "
                       "layer 'mfcc' takes 8000"));
}

// With damaged files left out a damaged first one sets no rate.
TEST_F(ProgramSoundTest, DamagedFirstFile_LeftOut_SetsNoRate) {
  std::string damaged = Tone(500, 0, 16000);
  damaged.resize(damaged.size() / 2);
  WriteWhole(folder_ / "train/high/000.wav", damaged);
  WriteWhole(folder_ / "run.json", R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 80]}},
    {"class_name": "Dense", "config": {"units": 2, "activation": "softmax"}}]}},
  "compile": {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"},
  "data": {"train": {"audio_directory": "train", "damaged": "skip"}},
  "fit": {"batch_size": 32}})");
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  EXPECT_TRUE(Contains(err_ + out_, "1 of 71 sound files are damaged"));
  ASSERT_EQ(Run({"plan", "run.json", "--limit", "64M", "--json"}), 0) << err_;
  EXPECT_FALSE(Contains(err_, "are not counted"));
}

// In Keras it is a window of ones.
TEST_F(ProgramSoundTest, Window_Null_IsRefused) {
  WriteSoundRun("\"sampling_rate\": 8000", "\"window\": null");
  EXPECT_EQ(Run({"train", "run.json"}), 2);
  EXPECT_TRUE(Contains(err_, "window: is null; ringlet supports only"));
}

TEST_F(ProgramSoundTest, Export_WithPreprocessing_IsRefused) {
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0)
      << err_;
  EXPECT_EQ(Run({"export", "m", "-o", "m.c", "--with-preprocessing"}), 2);
  EXPECT_TRUE(Contains(err_, "the model's data are files of sound"));
}

// null is a field's default, and "" is no column.
TEST_F(ProgramSoundTest, Table_WithoutColumnOfPaths_HasNoFieldsOfSound) {
  std::string rows = "a,b,y\n";
  for (int i = 0; i < 60; ++i) {
    rows += std::to_string(i) + "," + std::to_string(i * 7 % 5) + "," +
            std::to_string(i % 2) + "\n";
  }
  WriteWhole(folder_ / "rows.csv", rows);
  const auto run = [&](const std::string& fields, const std::string& input) {
    WriteWhole(folder_ / "run.json", R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null)" +
                                         input +
                                         R"(]}},
    {"class_name": "Flatten"},
    {"class_name": "Dense", "config": {"units": 2, "activation": "softmax"}}]}},
  "compile": {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"},
  "data": {"train": {"csv": "rows.csv", "label": "y")" +
                                         fields +
                                         R"(}}, "fit": {"batch_size": 32}})");
    return Run({"train", "run.json", "--save", "m"});
  };
  const std::string windows = R"(, "sequence_length": 4, "sampling_rate": 3)";
  ASSERT_EQ(run(windows, ", 4, 2"), 0) << err_;
  const std::string model = ReadWhole(folder_ / "m");
  for (const char* key : {"audio", "image"}) {
    const std::string null = std::string(", \"") + key + "\": null",
                      empty = std::string(", \"") + key + "\": \"\"";
    ASSERT_EQ(run(windows + null, ", 4, 2"), 0) << err_;
    EXPECT_TRUE(ReadWhole(folder_ / "m") == model) << key;
    EXPECT_EQ(run(null + ", \"sampling_rate\": 3", ", 2"), 2);
    EXPECT_TRUE(Contains(err_, "sampling_rate: is 3; needs"));
    EXPECT_EQ(run(null + ", \"output_sequence_length\": 3", ", 2"), 2);
    EXPECT_TRUE(Contains(err_, "output_sequence_length: is 3; needs"));
    EXPECT_EQ(run(windows + empty, ", 4, 2"), 2);
    EXPECT_TRUE(Contains(err_, std::string(key) + ": is \"\"; must be"));
  }
  EXPECT_EQ(run(R"(, "image": "a", "audio": "b")", ", 2"), 2);
  EXPECT_TRUE(Contains(err_, "\"image\" has the paths"));
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
  EXPECT_TRUE(Contains(out_, "1/1 "));  // 3 files
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

TEST_F(ProgramSoundTest, Inspect_PicturesAndSound_ShowsBoth) {
  WriteWhole(folder_ / "other/low/a.pgm", "P5 2 2 255\nabcd");
  ASSERT_EQ(Run({"inspect", "other"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "1 pictures in"));
  EXPECT_TRUE(Contains(out_, "4 sound files in 2 folders"));
}

}  // namespace
}  // namespace ringlet
