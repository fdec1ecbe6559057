// ringlet predict --anomaly and its thresholds.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../support/contains.h"
#include "../support/data_files.h"
#include "../support/expect_ok.h"
#include "../support/program.h"
#include "../support/temp_folder.h"
#include "ringlet/model.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

// An autoencoder of four values, trained as m on x * 0.5 + 0.25.
class AnomalyTest : public ProgramTest {
 protected:
  static constexpr int kWidth = 4;

  void SetUp() override {
    ProgramTest::SetUp();
    WriteWhole(folder_ / "run.json", R"({
      "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 4]}},
        {"class_name": "Dense", "config": {"units": 2}},
        {"class_name": "Dense", "config": {"units": 4}}]}},
      "compile": {"optimizer": "sgd", "loss": "mae"},
      "data": {"train": {"x": "normal.npy", "y": "normal.npy", "scale": 0.5,
                         "offset": 0.25}}})");
    normal_ = Write("normal.npy", 101);
    other_ = Write("other.npy", 33);
    ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  }

  std::vector<float> Write(const std::string& name, int64_t rows) {
    std::vector<float> x;
    for (int64_t i = 0; i < rows * kWidth; ++i) {
      x.push_back(static_cast<float>(i * i % 97) / 7);
    }
    EXPECT_OK(
        WriteNpy(folder_ / name, DType::kFloat32, {rows, kWidth}, x.data()));
    return x;
  }

  // The scores as the test computes them from the program's outputs.
  std::vector<float> Scores(const std::string& file,
                            const std::vector<float>& x, bool squared) {
    EXPECT_EQ(Run({"predict", "m", "--x", file, "-o", "y.npy"}), 0) << err_;
    NpyArray y;
    EXPECT_OK(ReadNpy(folder_ / "y.npy", &y));
    const std::vector<float> outputs = Values<float>(y.data);
    std::vector<float> scores;
    for (size_t i = 0; i < outputs.size(); i += kWidth) {
      double sum = 0;
      for (size_t k = i; k < i + kWidth; ++k) {
        const double d = double{outputs[k]} - double{x[k] * 0.5f + 0.25f};
        sum += squared ? d * d : std::fabs(d);
      }
      scores.push_back(static_cast<float>(sum / kWidth));
    }
    return scores;
  }

  std::vector<float> normal_, other_;
};

TEST_F(AnomalyTest, Predict_Anomaly_WritesTheErrorOfEachExample) {
  for (const bool squared : {true, false}) {
    const std::vector<float> scores = Scores("other.npy", other_, squared);
    for (const char* batch : {"1", "32", "100"}) {
      Strings line = {"predict",      "m",  "--x", "other.npy", "--anomaly",
                      "--batch-size", batch};
      if (!squared) line.insert(line.end(), {"--score", "mae"});
      ASSERT_EQ(Run(line), 0) << err_;
      EXPECT_EQ(err_.find("note: the scores compare the outputs with x * 0.5"),
                0u)
          << err_;
      const Strings rows = Lines(out_);
      ASSERT_EQ(rows.size(), 34u);
      EXPECT_EQ(rows[0], "score");
      for (size_t i = 0; i < scores.size(); ++i) {
        EXPECT_EQ(std::stof(rows[i + 1]), scores[i]) << i;
      }
      const std::string csv = out_;
      line.insert(line.end(), {"--out", "s.npy"});
      ASSERT_EQ(Run(line), 0) << err_;
      NpyArray npy;
      ASSERT_OK(ReadNpy(folder_ / "s.npy", &npy));
      EXPECT_EQ(npy.shape, Shape({33}));
      EXPECT_EQ(Values<float>(npy.data), scores);
      line.back() = "s.csv";
      ASSERT_EQ(Run(line), 0) << err_;
      EXPECT_EQ(ReadWhole(folder_ / "s.csv"), csv);
      EXPECT_EQ(out_, "wrote s.csv: the scores of 33 examples, " +
                          std::to_string(csv.size()) + " bytes\n");
    }
  }
}

TEST_F(AnomalyTest, Threshold_QuantileOfNormalData_MarksScoresAbove) {
  std::vector<float> normal = Scores("normal.npy", normal_, /*squared=*/true);
  const std::vector<float> scores =
      Scores("other.npy", other_, /*squared=*/true);
  std::sort(normal.begin(), normal.end());
  // Of 101 scores the 0.9 quantile is the one with the index 90.
  const double threshold = double{normal[90]};
  ASSERT_EQ(
      Run({"predict", "m", "--x", "other.npy", "--anomaly",
           "--threshold-quantile", "0.9", "--threshold-data", "normal.npy"}),
      0)
      << err_;
  const std::string expected = "the 0.9 quantile of the scores of 101 examples";
  EXPECT_TRUE(Contains(err_, expected));
  const std::string marked = out_;
  const Strings rows = Lines(out_);
  ASSERT_EQ(rows.size(), 34u);
  EXPECT_EQ(rows[0], "score,anomaly");
  int anomalies = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const bool above = double{scores[i]} > threshold;
    anomalies += above;
    EXPECT_EQ(rows[i + 1].back(), above ? '1' : '0') << i;
  }
  EXPECT_GT(anomalies, 0);
  EXPECT_LT(anomalies, 33);
  // The printed threshold, by number.
  const std::string printed = err_.substr(10, err_.find(':') - 10);
  EXPECT_EQ(std::stod(printed), threshold);
  ASSERT_EQ(Run({"predict", "m", "--x", "other.npy", "--anomaly", "--threshold",
                 printed}),
            0)
      << err_;
  EXPECT_EQ(out_, marked);
  EXPECT_FALSE(Contains(err_, "threshold"));
  // The normal examples of RUN.json.
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json", "--part", "train",
                 "--anomaly", "--threshold-quantile", "0.9", "-o", "a.npz"}),
            0)
      << err_;
  EXPECT_TRUE(Contains(err_, printed + ": " + expected));
  const Strings shown = Lines((Run({"inspect", "a.npz"}), out_));
  EXPECT_TRUE(Contains(out_, "anomaly"));
}

// The labels belong to data.train, and not to the file of --threshold-data.
TEST_F(AnomalyTest, Threshold_ImagesOnDisk_EqualsTheArrays) {
  const auto write = [&](const char* name, int count, int width) {
    std::string idx("\0\0\x08\x02\0\0\0", 7);
    idx += static_cast<char>(count);
    idx += std::string("\0\0\0", 3) + static_cast<char>(width);
    std::vector<unsigned char> values;
    for (int i = 0; i < count * width; ++i) {
      values.push_back(static_cast<unsigned char>(i * i % 97));
      idx += static_cast<char>(i * i % 97);
    }
    WriteWhole(folder_ / name, idx);
    ASSERT_OK(WriteNpy(folder_ / (std::string(name) + ".npy"), DType::kUint8,
                       {count, width}, values.data()));
  };
  write("images", 33, kWidth);
  write("labels", 33, 1);
  write("normal", 101, kWidth);
  WriteWhole(folder_ / "idx.json",
             Replaced(ReadWhole(folder_ / "run.json"),
                      R"("x": "normal.npy", "y": "normal.npy")",
                      R"("images": "images", "labels": "labels",
                         "in_memory": false)"));
  const Strings more = {"--anomaly", "--threshold-quantile", "0.9",
                        "--threshold-data"};
  Strings idx = {"predict", "m", "--data", "idx.json", "--part", "train"},
          npy = {"predict", "m", "--x", "images.npy"};
  for (Strings* line : {&idx, &npy}) {
    line->insert(line->end(), more.begin(), more.end());
    line->push_back(line == &idx ? "normal" : "normal.npy");
  }
  ASSERT_EQ(Run(npy), 0) << err_;
  const std::string wanted = out_;
  ASSERT_EQ(Run(idx), 0) << err_;
  EXPECT_EQ(out_, wanted);
}

// The validation split cuts the data of RUN.json, and not the file of
// --threshold-data.
TEST_F(AnomalyTest, ThresholdData_BesideAValidationSplit_IsUsedWhole) {
  WriteWhole(
      folder_ / "split.json",
      Replaced(ReadWhole(folder_ / "run.json"), "\"offset\": 0.25}}",
               "\"offset\": 0.25}}, \"fit\": {\"validation_split\": 0.2}"));
  for (const char* part : {"train", "validation"}) {
    for (const char* file : {"normal.npy", "other.npy"}) {
      SCOPED_TRACE(std::string(part) + " " + file);
      ASSERT_EQ(Run({"predict", "m", "--data", "split.json", "--part", part,
                     "--anomaly", "--threshold-quantile", "0.9",
                     "--threshold-data", file}),
                0)
          << err_;
      EXPECT_EQ(Lines(out_).size(), part[0] == 't' ? 81u : 22u);
      EXPECT_TRUE(Contains(
          err_, file[0] == 'n' ? "of 101 examples" : "of 33 examples"));
    }
  }
}

TEST_F(AnomalyTest, Threshold_BetweenTwoScores_IsInterpolated) {
  std::vector<float> scores = Scores("other.npy", other_, /*squared=*/true);
  std::sort(scores.begin(), scores.end());
  for (const double q : {0.0, 0.01, 0.333, 0.5, 0.77, 0.99, 1.0}) {
    ASSERT_EQ(Run({"predict", "m", "--x", "other.npy", "--anomaly",
                   "--threshold-quantile", std::to_string(q),
                   "--threshold-data", "other.npy"}),
              0)
        << err_;
    const double at = q * 32;
    const auto low = static_cast<size_t>(at);
    const double a = double{scores[low]};
    const double b = double{scores[std::min<size_t>(low + 1, 32)]};
    EXPECT_DOUBLE_EQ(std::stod(err_.substr(10)),
                     a + (b - a) * (at - static_cast<double>(low)))
        << q;
  }
}

TEST_F(AnomalyTest, Anomaly_WrongUse_IsRefused) {
  const Strings base = {"predict", "m", "--x", "other.npy"};
  const auto refuse = [&](const Strings& more, const Strings& message_parts) {
    Strings line = base;
    line.insert(line.end(), more.begin(), more.end());
    ExpectError(line, 2, message_parts);
  };
  refuse({"--threshold", "1"}, {"--threshold needs --anomaly"});
  refuse({"--score", "mae"}, {"--score needs --anomaly"});
  refuse({"--anomaly", "--score", "rmse"}, {"--score rmse"});
  refuse({"--anomaly", "--threshold", "1", "--threshold-quantile", "0.9"},
         {"--threshold or --threshold-quantile"});
  refuse({"--anomaly", "--threshold-data", "normal.npy"},
         {"needs --threshold-quantile"});
  refuse({"--anomaly", "--threshold-quantile", "1.5"}, {"from 0 to 1"});
  refuse({"--anomaly", "--threshold-quantile", "0.9"},
         {"give --threshold-data FILE"});
  refuse({"--anomaly", "--threshold", "1", "-o", "a.npy"},
         {"a.npy", "FILE.npz"});
  refuse({"--anomaly", "--threshold-quantile", "0.9", "--threshold-data", "no"},
         {"no, from the"});
  refuse({"--anomaly", "--threshold-quantile", "0.9", "--threshold-data",
          "normal.npy", "-o", "normal.npy"},
         {"--out", "normal.npy"});
  // The scores are for data.validation, and the threshold is from data.train.
  WriteWhole(folder_ / "two.json",
             Replaced(ReadWhole(folder_ / "run.json"), "\"data\": {",
                      "\"data\": {\"validation\": {\"x\": \"other.npy\", "
                      "\"y\": \"other.npy\", \"scale\": 0.5, "
                      "\"offset\": 0.25}, "));
  const std::string normal = ReadWhole(folder_ / "normal.npy");
  WriteWhole(folder_ / "n.csv", normal);
  WriteWhole(folder_ / "two.json",
             Replaced(ReadWhole(folder_ / "two.json"), "\"x\": \"normal.npy\"",
                      "\"x\": \"n.csv\""));
  ExpectError({"predict", "m", "--data", "two.json", "--anomaly",
               "--threshold-quantile", "0.9", "-o", "n.csv"},
              2, {"--out n.csv: holds the data"});
  EXPECT_EQ(ReadWhole(folder_ / "n.csv"), normal);
  WriteWhole(folder_ / "run.json", Replaced(ReadWhole(folder_ / "run.json"),
                                            "\"units\": 4", "\"units\": 3"));
  WriteWhole(folder_ / "w.json",
             Replaced(Replaced(ReadWhole(folder_ / "run.json"),
                               "\"y\": \"normal.npy\"", "\"y\": \"three.npy\""),
                      "mae", "mse"));
  const std::vector<float> three(303, 1);
  ASSERT_OK(
      WriteNpy(folder_ / "three.npy", DType::kFloat32, {101, 3}, three.data()));
  ASSERT_EQ(Run({"train", "w.json", "--save", "w"}), 0) << err_;
  ExpectError(
      {"predict", "w", "--x", "other.npy", "--anomaly"}, 2,
      {"w: an anomaly score is the error of an autoencoder", "(4,)", "(3,)"});
}

}  // namespace
}  // namespace ringlet
