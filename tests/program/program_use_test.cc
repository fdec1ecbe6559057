// What becomes of a trained model: evaluate, predict, inspect, export.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../support/contains.h"
#include "../support/data_files.h"
#include "../support/program.h"
#include "../support/python.h"
#include "../support/temp_folder.h"
#include "ringlet/model.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

double NumberIn(const std::string& json, const std::string& key) {
  const size_t at = json.find("\"" + key + "\":");
  EXPECT_NE(at, std::string::npos) << key << " in " << json;
  return at == std::string::npos ? NAN
                                 : std::stod(json.substr(at + key.size() + 3));
}

TEST_F(ProgramTest, SavedModel_EvaluateAndPredict_Agree) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0)
      << err_;
  const std::string data =
      EnvironmentOr("RINGLET_SOURCE", ".") + "/data/fashion-mnist-mini/";
  // By the run's data, by files, and from the run with the model's weights.
  ASSERT_EQ(Run({"evaluate", "m", "--data", "run.json", "--json"}), 0) << err_;
  const std::string logs = out_;
  const double accuracy = NumberIn(logs, "accuracy");
  EXPECT_TRUE(NumberIn(logs, "loss") > 0 && accuracy > 0) << logs;
  ASSERT_EQ(
      Run({"evaluate", "m", "--images", data + "t10k-images-idx3-ubyte.gz",
           "--labels", data + "t10k-labels-idx1-ubyte.gz", "--scale",
           "0.00392156862745098", "--json"}),
      0)
      << err_;
  EXPECT_EQ(out_, logs);
  ASSERT_EQ(Run({"evaluate", "run.json", "--init", "m", "--json"}), 0) << err_;
  EXPECT_EQ(out_, logs);
  ASSERT_EQ(Run({"evaluate", "m", "--data", "run.json", "--part", "train"}), 0);
  EXPECT_TRUE(Contains(out_, "63/63 - "));

  // The predictions' best classes are right as often as evaluate says.
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json"}), 0) << err_;
  const std::string on_stdout = out_;
  ASSERT_EQ(Run({"predict", "m", "--images", data + "t10k-images-idx3-ubyte.gz",
                 "--scale", "0.00392156862745098", "--out", "p.csv"}),
            0)
      << err_;
  EXPECT_EQ(ReadWhole(folder_ / "p.csv"), on_stdout);
  EXPECT_EQ(out_, "wrote p.csv: the outputs of 400 examples, " +
                      std::to_string(on_stdout.size()) + " bytes\n");
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json", "-o", "p.npy"}), 0);
  EXPECT_EQ(out_, "wrote p.npy: the outputs of 400 examples, 16128 bytes\n");
  NpyArray npy;
  ASSERT_TRUE(ReadNpy(folder_ / "p.npy", &npy).ok());
  ASSERT_EQ(npy.shape, Shape({400, 10}));
  IdxArray labels;
  ASSERT_TRUE(ReadIdx(data + "t10k-labels-idx1-ubyte.gz", &labels).ok());
  const std::vector<float> outputs = Values<float>(npy.data);
  const Strings rows = Lines(on_stdout);
  ASSERT_EQ(rows.size(), 400u);
  int right = 0;
  for (int i = 0; i < 400; ++i) {
    const float* row = outputs.data() + 10 * i;
    right += std::max_element(row, row + 10) - row == labels.data[i];
    EXPECT_EQ(std::stof(rows[i]), row[0]);
  }
  EXPECT_NEAR(right / 400.0, accuracy, 1e-9);
}

// Keras's mnist.npz: images (N, 28, 28), for a model of (28, 28, 1).
TEST_F(ProgramTest, Npz_AsOfKeras_IsUsedAsTheIdxFiles) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  const std::string data =
      EnvironmentOr("RINGLET_SOURCE", ".") + "/data/fashion-mnist-mini/";
  WriteWhole(folder_ / "make.py", R"(
import gzip, sys, numpy
def idx(name):
  with gzip.open(sys.argv[1] + name + "-ubyte.gz") as f:
    b = f.read()
  shape = numpy.frombuffer(b, ">u4", b[3], 4)
  return numpy.frombuffer(b, "u1", -1, 4 + 4 * b[3]).reshape(shape)
numpy.savez_compressed(sys.argv[2] + "/mnist.npz",
    x_train=idx("train-images-idx3"), y_train=idx("train-labels-idx1"),
    x_test=idx("t10k-images-idx3"),
    y_test=idx("t10k-labels-idx1").reshape(-1, 1))
)");
  RunPython(folder_ / "make.py" + (" " + data) + " " + folder_.path());
  WriteRun("[null, 28, 28]", "[null, 28, 28, 1]");
  ASSERT_EQ(Run({"train", "run.json", "--save", "idx"}), 0) << err_;
  std::string run = ReadWhole(folder_ / "run.json");
  for (const auto& [part, name] :
       {std::pair("train", "train"), std::pair("t10k", "test")}) {
    run = Replaced(run,
                   "\"images\": \"" + data + part + "-images-idx3-ubyte.gz\"",
                   std::string("\"x\": \"mnist.npz:x_") + name + "\"");
    run = Replaced(run,
                   "\"labels\": \"" + data + part + "-labels-idx1-ubyte.gz\"",
                   std::string("\"y\": \"mnist.npz:y_") + name + "\"");
  }
  WriteWhole(folder_ / "npz.json", run);
  ASSERT_EQ(Run({"train", "npz.json", "--save", "npz"}), 0) << err_;
  ASSERT_EQ(Run({"diff", "idx", "npz"}), 0) << out_;
  ASSERT_EQ(Run({"evaluate", "idx", "--data", "run.json", "--json"}), 0);
  const std::string logs = out_;
  ASSERT_EQ(Run({"evaluate", "npz", "--data", "npz.json", "--json"}), 0);
  EXPECT_EQ(out_, logs);
  ASSERT_EQ(Run({"evaluate", "npz", "--x", "mnist.npz:x_test", "--y",
                 "mnist.npz:y_test", "--json"}),
            0)
      << err_;
  EXPECT_EQ(out_, logs);
  ASSERT_EQ(Run({"predict", "idx", "--data", "run.json"}), 0) << err_;
  const std::string outputs = out_;
  ASSERT_EQ(Run({"predict", "npz", "--x", "mnist.npz:x_test"}), 0) << err_;
  EXPECT_EQ(out_, outputs);
  ExpectError({"predict", "npz", "--x", "mnist.npz"}, 2,
              {"mnist.npz: has 4 arrays: 'x_train', 'y_train', 'x_test'"});
  ExpectError({"predict", "npz", "--images", "mnist.npz:x_test"}, 2,
              {"mnist.npz: is an npz archive", "--x mnist.npz:NAME"});
  ExpectError(
      {"predict", "npz", "--x", "mnist.npz:x_test", "--out", "mnist.npz"}, 2,
      {"--out mnist.npz: holds the data"});
}

// By default `evaluate` and `predict` take what training validated on.
TEST_F(ProgramTest, ValidationSplit_Evaluate_IsOnTheHeldOutExamples) {
  constexpr int64_t kTrain = 90, kHeldOut = 10, kAll = kTrain + kHeldOut;
  std::string rows = "a,b,kind\n", held_out = rows;
  for (int64_t i = 0; i < kAll; ++i) {
    const std::string row = std::to_string(i * 7 % 13) + "," +
                            std::to_string(i * 5 % 11) + "," +
                            std::to_string(i % 2) + "\n";
    rows += row;
    if (i >= kTrain) held_out += row;
  }
  WriteWhole(folder_ / "d.csv", rows);
  WriteWhole(folder_ / "held_out.csv", held_out);
  for (const char* batch : {"1", "32", "100"}) {
    SCOPED_TRACE(batch);
    WriteWhole(folder_ / "csv.json", std::string(R"({
      "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
        {"class_name": "Dense",
         "config": {"units": 2, "activation": "softmax"}}]}},
      "compile": {"optimizer": "sgd",
                  "loss": "sparse_categorical_crossentropy"},
      "data": {"train": {"csv": "d.csv", "scale": 0.1}},
      "callbacks": [{"class_name": "CSVLogger",
                     "config": {"filename": "log.csv"}}],
      "fit": {"validation_split": 0.1, "batch_size": )") +
                                         batch + "}}");
    ASSERT_EQ(Run({"train", "csv.json", "--save", "m"}), 0) << err_;
    EXPECT_TRUE(Contains(out_, "ringlet evaluate m --data csv.json\n"));
    const Strings log = Lines(ReadWhole(folder_ / "log.csv"));
    ASSERT_EQ(log.size(), 2u);
    ASSERT_EQ(log[0].substr(log[0].rfind(',')), ",val_loss\r");
    const double val_loss = std::stod(log[1].substr(log[1].rfind(',') + 1));
    ASSERT_EQ(Run({"evaluate", "m", "--data", "csv.json", "--json"}), 0)
        << err_;
    EXPECT_NEAR(NumberIn(out_, "loss"), val_loss, 1e-6);
    const double loss = NumberIn(out_, "loss");
    ASSERT_EQ(Run({"evaluate", "m", "--csv", "held_out.csv", "--json"}), 0);
    EXPECT_EQ(NumberIn(out_, "loss"), loss);
    ASSERT_EQ(Run({"predict", "m", "--data", "csv.json"}), 0) << err_;
    EXPECT_EQ(Lines(out_).size(), size_t{kHeldOut});
    const std::string outputs = out_;
    ASSERT_EQ(Run({"predict", "m", "--csv", "held_out.csv"}), 0) << err_;
    EXPECT_EQ(out_, outputs);
    ASSERT_EQ(Run({"predict", "m", "--data", "csv.json", "--part", "train"}),
              0);
    EXPECT_EQ(Lines(out_).size(), size_t{kTrain});
  }
  WriteWhole(folder_ / "csv.json",
             Replaced(ReadWhole(folder_ / "csv.json"), ": 0.1, \"batch",
                      ": 0.999, \"batch"));
  ExpectError(
      {"evaluate", "m", "--data", "csv.json"}, 2,
      {"fit.validation_split: 0.999 of 100 examples leaves none to train"});
}

// Training has dropped the rows with a gap before it split the others.
TEST_F(ProgramTest, ValidationSplit_RowsDropped_PredictsTheHeldOutExamples) {
  std::string rows = "a,b,kind\n", whole = "a,b\n";
  for (int i = 0; i < 40; ++i) {
    const std::string x =
        std::to_string(i * 7 % 13) + "," + std::to_string(i * 5 % 11);
    rows += i < 20 ? x + ",\n" : x + "," + std::to_string(i % 2) + "\n";
    if (i >= 35) whole += x + "\n";
  }
  WriteWhole(folder_ / "d.csv", rows);
  WriteWhole(folder_ / "held_out.csv", whole);
  WriteWhole(folder_ / "csv.json", R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
      {"class_name": "Dense", "config": {"units": 2, "activation": "softmax"}}]}},
    "compile": {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"},
    "data": {"train": {"csv": "d.csv", "label": "kind", "missing": "drop"}},
    "fit": {"validation_split": 0.25}})");
  ASSERT_EQ(Run({"train", "csv.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "m", "--csv", "held_out.csv"}), 0) << err_;
  const std::string outputs = out_;
  ASSERT_EQ(Run({"predict", "m", "--data", "csv.json"}), 0) << err_;
  EXPECT_EQ(out_, outputs);
}

TEST_F(ProgramTest, Predict_CsvWithOrWithoutLabels_GivesTheSameOutputs) {
  WriteWhole(folder_ / "d.csv", "a,kind,b\n1,0,0\n0,1,1\n2,0,1\n1,1,2\n");
  WriteWhole(folder_ / "x.csv", "a,b\n1,0\n0,1\n2,1\n1,2\n");
  WriteWhole(folder_ / "csv.json", R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
      {"class_name": "Dense", "config": {"units": 2, "activation": "softmax"}}]}},
    "compile": {"optimizer": "sgd", "loss": "mse"},
    "data": {"train": {"csv": "d.csv", "label": "kind"}}})");
  // mse wants two targets for two units.
  ExpectError({"train", "csv.json"}, 2, {"csv.json: data.train", "d.csv"});
  WriteWhole(folder_ / "csv.json",
             Replaced(ReadWhole(folder_ / "csv.json"), "\"mse\"",
                      "\"sparse_categorical_crossentropy\""));
  ASSERT_EQ(Run({"train", "csv.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "m", "--csv", "x.csv"}), 0) << err_;
  EXPECT_EQ(err_, "");
  const std::string outputs = out_;
  EXPECT_EQ(Lines(outputs).size(), 4u);
  ASSERT_EQ(Run({"predict", "m", "--csv", "d.csv", "--label", "kind"}), 0);
  EXPECT_EQ(out_, outputs);
  ASSERT_EQ(Run({"predict", "m", "--csv", "d.csv", "--label", "1"}), 0);
  EXPECT_EQ(out_, outputs);
  ASSERT_EQ(Run({"predict", "m", "--data", "csv.json", "--part", "train"}), 0);
  EXPECT_EQ(out_, outputs);
  WriteWhole(folder_ / "last.csv", "a,b,kind\n1,0,0\n0,1,1\n2,1,0\n1,2,1\n");
  ASSERT_EQ(Run({"predict", "m", "--csv", "last.csv"}), 0);
  EXPECT_EQ(out_, outputs);
  ExpectError({"predict", "m", "--csv", "x.csv", "--label", "b"}, 2,
              {"x.csv", "the column of the label is 'b', a value of the"});
  ExpectError({"predict", "m", "--csv", "d.csv", "--label", "knid"}, 2,
              {"d.csv", "'knid'"});
  WriteWhole(folder_ / "wide.csv", "1,2,3,4\n1,2,3,4\n");
  ExpectError({"predict", "m", "--csv", "wide.csv"}, 2,
              {"wide.csv", "4 columns", "had 3 (2 values"});
}

// A model of two inputs and outputs, trained on d.csv, as m.
const char kCsvRun[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
    {"class_name": "Dense", "config": {"units": 2}}]}},
  "compile": {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"},
  "data": {"train": {"csv": "d.csv"}}})";

TEST_F(ProgramTest, LinearOutput_LossOfProbabilities_OnlyTrainWarns) {
  WriteWhole(folder_ / "d.csv", "a,b,kind\n1,0,0\n0,1,1\n2,1,0\n1,2,1\n");
  WriteWhole(folder_ / "csv.json", kCsvRun);
  const std::string warning =
      "warning: `sparse_categorical_crossentropy` takes";
  ASSERT_EQ(Run({"train", "csv.json", "--save", "m"}), 0) << err_;
  EXPECT_TRUE(Contains(err_, warning));
  ASSERT_EQ(Run({"predict", "m", "--csv", "d.csv"}), 0) << err_;
  EXPECT_EQ(err_, "");
  ASSERT_EQ(Run({"evaluate", "m", "--csv", "d.csv"}), 0) << err_;
  EXPECT_EQ(err_, "");
}

TEST_F(ProgramTest, Predict_ScaleAndOffset_AreThoseOfTraining) {
  WriteWhole(folder_ / "d.csv", "a,b,kind\n1,0,0\n0,1,1\n2,1,0\n1,2,1\n");
  const std::string base = Replaced(
      kCsvRun, "\"units\": 2", "\"units\": 2, \"activation\": \"softmax\"");
  const std::string scaled =
      Replaced(base, "\"d.csv\"", "\"d.csv\", \"scale\": 2, \"offset\": 1.5");
  WriteWhole(folder_ / "csv.json", scaled);
  ASSERT_EQ(Run({"train", "csv.json", "--save", "m"}), 0) << err_;
  // The same weights, of data without a scale.
  WriteWhole(folder_ / "plain.json", Replaced(base, "\"sgd\"",
                                              R"({"class_name": "SGD",
                          "config": {"learning_rate": 0.0}})"));
  ASSERT_EQ(Run({"train", "plain.json", "--init", "m", "--save", "plain"}), 0)
      << err_;
  WriteWhole(folder_ / "x.csv", "a,b\n1,0\n0,1\n");
  WriteWhole(folder_ / "scaled.csv", "a,b\n3.5,1.5\n1.5,3.5\n");
  ASSERT_EQ(Run({"predict", "plain", "--csv", "scaled.csv"}), 0) << err_;
  const std::string outputs = out_;
  for (const Strings& more : {Strings{}, {"--scale", "2", "--offset", "1.5"}}) {
    Strings line = {"predict", "m", "--csv", "x.csv"};
    line.insert(line.end(), more.begin(), more.end());
    ASSERT_EQ(Run(line), 0) << err_;
    EXPECT_EQ(out_, outputs);
  }
  const std::string wanted =
      "the model was trained on x * 2 + 1.5; leave --scale and --offset out";
  for (const Strings& more :
       {Strings{"--scale", "2"}, {"--offset", "1.5"}, {"--scale", "0.1"}}) {
    Strings line = {"predict", "m", "--csv", "x.csv"};
    line.insert(line.end(), more.begin(), more.end());
    ExpectError(line, 2, {wanted});
    line[0] = "evaluate";
    line[3] = "d.csv";
    ExpectError(line, 2, {wanted});
  }
  ExpectError(
      {"predict", "m", "--data", "csv.json", "--part", "train", "--scale", "2"},
      2, {"RUN.json has its own"});
  const auto loss = [&](const Strings& line) {
    Strings all = {"evaluate", "m", "--part", "train", "--json", "--data"};
    all.insert(all.end(), line.begin(), line.end());
    EXPECT_EQ(Run(all), 0) << err_;
    return out_;
  };
  const std::string right = loss({"csv.json"});
  EXPECT_EQ(err_, "");
  // A RUN.json without a scale has the model's. One with another is warned of.
  EXPECT_EQ(loss({"plain.json"}), right);
  EXPECT_EQ(err_, "");
  WriteWhole(folder_ / "other.json",
             Replaced(base, "\"d.csv\"", "\"d.csv\", \"scale\": 3"));
  EXPECT_NE(loss({"other.json"}), right);
  EXPECT_TRUE(Contains(err_,
                       "warning: the data become x * 3 + 0, but the model was "
                       "trained on x * 2 + 1.5"));
  // The weights alone, in a model without a description.
  ASSERT_EQ(Run({"evaluate", "plain.json", "--init", "m", "--part", "train",
                 "--json"}),
            0)
      << err_;
  EXPECT_EQ(out_, right);
}

TEST_F(ProgramTest, ValidationScale_Forgotten_IsRefused) {
  WriteWhole(folder_ / "d.csv", "a,b,kind\n1,0,0\n0,1,1\n");
  const auto write = [&](const std::string& more) {
    WriteWhole(folder_ / "csv.json",
               Replaced(kCsvRun, "{\"csv\": \"d.csv\"}",
                        "{\"csv\": \"d.csv\", \"scale\": 0.5}, "
                        "\"validation\": {\"csv\": \"d.csv\"" +
                            more + "}"));
  };
  write("");
  ExpectError({"train", "csv.json"}, 2,
              {"data.validation: has no \"scale\", and data.train has one"});
  write(", \"scale\": 1");
  EXPECT_EQ(Run({"train", "csv.json"}), 0) << err_;
}

// --- anomalies ---

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
    EXPECT_TRUE(
        WriteNpy(folder_ / name, DType::kFloat32, {rows, kWidth}, x.data())
            .ok());
    return x;
  }

  // The scores as the test computes them from the program's outputs.
  std::vector<float> Scores(const std::string& file,
                            const std::vector<float>& x, bool squared) {
    EXPECT_EQ(Run({"predict", "m", "--x", file, "-o", "y.npy"}), 0) << err_;
    NpyArray y;
    EXPECT_TRUE(ReadNpy(folder_ / "y.npy", &y).ok());
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
      ASSERT_TRUE(ReadNpy(folder_ / "s.npy", &npy).ok());
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
  std::vector<float> normal = Scores("normal.npy", normal_, true);
  const std::vector<float> scores = Scores("other.npy", other_, true);
  std::sort(normal.begin(), normal.end());
  // Of 101 scores the 0.9 quantile is the one with the index 90.
  const double threshold = double{normal[90]};
  ASSERT_EQ(
      Run({"predict", "m", "--x", "other.npy", "--anomaly",
           "--threshold-quantile", "0.9", "--threshold-data", "normal.npy"}),
      0)
      << err_;
  const std::string said = "the 0.9 quantile of the scores of 101 examples";
  EXPECT_TRUE(Contains(err_, said));
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
  EXPECT_TRUE(Contains(err_, printed + ": " + said));
  const Strings shown = Lines((Run({"inspect", "a.npz"}), out_));
  EXPECT_TRUE(Contains(out_, "anomaly"));
}

// The labels are those of data.train alone.
TEST_F(AnomalyTest, Threshold_ImagesOnDisk_IsThatOfArrays) {
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
    ASSERT_TRUE(WriteNpy(folder_ / (std::string(name) + ".npy"), DType::kUint8,
                         {count, width}, values.data())
                    .ok());
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

// The split is of the data of RUN.json.
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
  std::vector<float> scores = Scores("other.npy", other_, true);
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
  const auto refuse = [&](const Strings& more, const Strings& says) {
    Strings line = base;
    line.insert(line.end(), more.begin(), more.end());
    ExpectError(line, 2, says);
  };
  refuse({"--threshold", "1"}, {"of --anomaly"});
  refuse({"--score", "mae"}, {"of --anomaly"});
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
  // The scores are of other data than the threshold, which is of data.train.
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
  ASSERT_TRUE(
      WriteNpy(folder_ / "three.npy", DType::kFloat32, {101, 3}, three.data())
          .ok());
  ASSERT_EQ(Run({"train", "w.json", "--save", "w"}), 0) << err_;
  ExpectError(
      {"predict", "w", "--x", "other.npy", "--anomaly"}, 2,
      {"w: an anomaly score is the error of an autoencoder", "(4,)", "(3,)"});
}

// Four birds of two values; the classes are told apart by b alone.
constexpr char kBirdRun[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
    {"class_name": "Dense", "config": {"units": 3, "activation": "softmax"}}]}},
  "compile": {"optimizer": {"class_name": "SGD",
                            "config": {"learning_rate": 0.5}},
              "loss": "sparse_categorical_crossentropy",
              "metrics": ["accuracy"]},
  "data": {"train": {"csv": "d.csv"}, "validation": {"csv": "v.csv"}},
  "fit": {"epochs": 60}})";

class BirdTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    WriteWhole(folder_ / "run.json", kBirdRun);
    WriteWhole(folder_ / "d.csv",
               "a,b,bird\n1,-2,emu\n2,0,auk\n1,2,owl\n2,2,owl\n");
    WriteWhole(folder_ / "v.csv", "b,bird,a\n2,owl,1\n-2,emu,1\n");
    ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  }

  // Trains the model "n" of n.json, with a Normalization that adapts.
  // *evaluated: what evaluate tells of it.
  void TrainAdapted(std::string* evaluated) {
    WriteWhole(folder_ / "n.json",
               Replaced(kBirdRun, "{\"class_name\": \"Dense\"",
                        "{\"class_name\": \"Normalization\", \"config\": "
                        "{\"name\": \"norm\"}}, {\"class_name\": \"Dense\""));
    ASSERT_EQ(Run({"train", "n.json", "--save", "n"}), 0) << err_;
    ASSERT_EQ(Run({"evaluate", "n", "--csv", "d.csv", "--json"}), 0) << err_;
    *evaluated = out_;
  }
};

TEST_F(BirdTest, ValidationData_OtherOrderAndFewerClasses_IsMatchedByName) {
  EXPECT_TRUE(Contains(out_, "val_accuracy: 1.0000"));
}

TEST_F(BirdTest, Evaluate_OtherOrderAndMoreColumns_IsTheSame) {
  ASSERT_EQ(Run({"evaluate", "m", "--csv", "d.csv", "--json"}), 0) << err_;
  const std::string same = out_;
  WriteWhole(folder_ / "e.csv",
             "bird,note,b,a\nemu,x,-2,1\nauk,,0,2\nowl,y,2,1\nowl,z,2,2\n");
  ASSERT_EQ(
      Run({"evaluate", "m", "--csv", "e.csv", "--label", "bird", "--json"}), 0)
      << err_;
  EXPECT_EQ(out_, same);
  EXPECT_TRUE(
      Contains(err_, "ignores columns that the model does not take: 'note'"));
}

TEST_F(BirdTest, Evaluate_UnknownClassOrColumn_IsRefused) {
  WriteWhole(folder_ / "e.csv", "a,b,bird\n1,-2,emu\n2,0,kiwi\n");
  ExpectError({"evaluate", "m", "--csv", "e.csv"}, 2,
              {"e.csv: line 3, column 3 ('bird'): the label 'kiwi' is not one "
               "of the model's 3 classes",
               "0 'auk', 1 'emu', 2 'owl'"});
  WriteWhole(folder_ / "e.csv", "a,c,bird\n1,-2,emu\n");
  ExpectError({"evaluate", "m", "--csv", "e.csv"}, 2,
              {"e.csv: line 1: no column is named 'b'"});
  ExpectError({"predict", "m", "--csv", "e.csv"}, 2,
              {"e.csv: line 1: no column is named 'b'"});
}

TEST_F(BirdTest, Predict_ClassesHaveNames_WritesClassAndProbability) {
  WriteWhole(folder_ / "x.csv", "b,a\n-2,1\n2,2\n");
  ASSERT_EQ(Run({"predict", "m", "--csv", "x.csv"}), 0) << err_;
  const Strings lines = Lines(out_);
  ASSERT_EQ(lines.size(), 3u) << out_;
  EXPECT_EQ(lines[0], "class,probability,auk,emu,owl");
  EXPECT_EQ(lines[1].substr(0, 4), "emu,");
  EXPECT_EQ(lines[2].substr(0, 4), "owl,");
  // The probability is the largest of the outputs.
  std::istringstream row(lines[1]);
  Strings fields;
  for (std::string field; std::getline(row, field, ',');) {
    fields.push_back(field);
  }
  ASSERT_EQ(fields.size(), 5u);
  EXPECT_EQ(fields[1], fields[3]);
  ASSERT_EQ(Run({"export", "m", "--format", "onnx", "--out", "m.onnx"}), 0);
  EXPECT_TRUE(
      Contains(ReadWhole(folder_ / "m.onnx"), R"(["auk","emu","owl"])"));
}

TEST_F(BirdTest, Predict_LogitsOrOtherLosses_HaveAProbabilityOrNoName) {
  const std::string run = ReadWhole(folder_ / "run.json");
  const std::string from_logits =
      R"({"class_name": "SparseCategoricalCrossentropy",
          "config": {"from_logits": true}})";
  const std::string loss = "\"sparse_categorical_crossentropy\"";
  const auto predicted = [&](const std::string& json) {
    WriteWhole(folder_ / "other.json", json);
    EXPECT_EQ(Run({"train", "other.json", "--save", "n"}), 0) << err_;
    EXPECT_EQ(Run({"predict", "n", "--csv", "d.csv"}), 0) << err_;
    return Lines(out_);
  };
  const Strings logits = predicted(Replaced(
      Replaced(run, ", \"activation\": \"softmax\"", ""), loss, from_logits));
  ASSERT_EQ(logits.size(), 5u);
  EXPECT_EQ(logits[1].substr(0, 6), "emu,0.") << logits[1];
  // The outputs are probabilities already.
  const Strings both = predicted(Replaced(run, loss, from_logits));
  std::istringstream row(both[1]);
  Strings fields;
  for (std::string field; std::getline(row, field, ',');) {
    fields.push_back(field);
  }
  ASSERT_EQ(fields.size(), 5u);
  EXPECT_EQ(fields[1], fields[3]);
  // Two classes with one output of another loss.
  WriteWhole(folder_ / "d.csv", "a,b,bird\n1,-2,emu\n2,0,auk\n");
  WriteWhole(folder_ / "v.csv", "a,b,bird\n1,-2,emu\n");
  const std::string one = Replaced(
      run, "\"units\": 3, \"activation\": \"softmax\"", "\"units\": 1");
  EXPECT_EQ(predicted(Replaced(one, loss, "\"hinge\"")).size(), 2u);
  const Strings sigmoid =
      predicted(Replaced(Replaced(one, "\"units\": 1",
                                  "\"units\": 1, \"activation\": \"sigmoid\""),
                         loss, "\"binary_crossentropy\""));
  EXPECT_EQ(sigmoid[0], "class,probability,emu");
}

TEST_F(BirdTest, Evaluate_FewerClassesThanUnits_IsPossible) {
  WriteWhole(folder_ / "run.json", Replaced(ReadWhole(folder_ / "run.json"),
                                            "\"units\": 3", "\"units\": 4"));
  ASSERT_EQ(Run({"train", "run.json", "--save", "n"}), 0) << err_;
  ASSERT_EQ(Run({"evaluate", "n", "--csv", "v.csv"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "n", "--csv", "v.csv"}), 0) << err_;
  EXPECT_EQ(Lines(out_)[0], "class,probability,auk,emu,owl,unit 3");
  // A row needs no label for it, and may have any.
  WriteWhole(folder_ / "u.csv", "1,-2,unknown\n2,0,unknown\n");
  ASSERT_EQ(Run({"predict", "n", "--csv", "u.csv", "--no-header"}), 0) << err_;
}

TEST_F(BirdTest, Train_FromTheSavedModelWithoutNames_KeepsTheKnownOnes) {
  WriteWhole(folder_ / "d.csv", "1,-2,1\n2,0,0\n1,2,2\n2,2,2\n");
  const std::string run = ReadWhole(folder_ / "run.json");
  WriteWhole(folder_ / "more.json",
             R"({"model": "m", "data": {"train": {"csv": "d.csv"}}})");
  ASSERT_EQ(Run({"train", "more.json", "--save", "n"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "n", "--csv", "v.csv"}), 0) << err_;
  EXPECT_EQ(Lines(out_)[0], "class,probability,auk,emu,owl");
  WriteWhole(folder_ / "e.csv", "b,a,bird\n0,2,kiwi\n");
  ExpectError({"evaluate", "n", "--csv", "e.csv"}, 2, {"the label 'kiwi'"});
}

// A list, a layer's name, or one file: the columns are matched by name.
TEST_F(BirdTest, Parts_OfOneInput_AreMatchedAndDescribed) {
  WriteWhole(folder_ / "named.json",
             Replaced(kBirdRun, "\"batch_shape\"",
                      "\"name\": \"in\", \"batch_shape\""));
  ASSERT_EQ(Run({"train", "named.json", "--save", "base"}), 0) << err_;
  WriteWhole(folder_ / "x.csv", "b,a\n-2,1\n0,2\n2,1\n");
  WriteWhole(folder_ / "y.csv", "kind\n1\n0\n2\n");
  for (const char* x : {"[\"x.csv\"]", "{\"in\": \"x.csv\"}", "\"x.csv\""}) {
    SCOPED_TRACE(x);
    const std::string part =
        "{\"x\": " + std::string(x) + ", \"y\": [\"y.csv\"]}";
    WriteWhole(folder_ / "parts.json",
               R"({"model": "base", "data": {"train": )" + part +
                   ", \"validation\": " + part + R"(}, "fit": {"epochs": 1}})");
    ASSERT_EQ(Run({"train", "parts.json", "--save", "n"}), 0) << err_;
    EXPECT_TRUE(Contains(out_, "val_accuracy: 1.0000"));
    for (const char* model : {"base", "n"}) {
      ASSERT_EQ(
          Run({"evaluate", model, "--data", "parts.json", "--part", "train"}),
          0)
          << err_;
      EXPECT_TRUE(Contains(out_, "accuracy: 1.0000"));
    }
    ASSERT_EQ(Run({"predict", "n", "--csv", "x.csv"}), 0) << err_;
    ASSERT_EQ(Lines(out_).size(), 4u);
    EXPECT_EQ(Lines(out_)[0], "class,probability,auk,emu,owl");
    EXPECT_EQ(Lines(out_)[1].substr(0, 4), "emu,");
  }
}

// A scale that is given nowhere, in a part, in the data, or in both, is that of
// training and of validation.
TEST_F(BirdTest, Scale_OfPartsAndFurtherTraining_IsTheSameForAllData) {
  WriteWhole(
      folder_ / "s.json",
      Replaced(Replaced(kBirdRun, "\"d.csv\"", "\"d.csv\", \"scale\": 0.1"),
               "\"v.csv\"", "\"v.csv\", \"scale\": 0.1"));
  WriteWhole(folder_ / "d.csv",
             "a,b,bird\n10,-20,emu\n20,0,auk\n10,20,owl\n20,20,owl\n");
  WriteWhole(folder_ / "v.csv", "a,b,bird\n10,-20,emu\n20,0,auk\n10,20,owl\n");
  WriteWhole(folder_ / "x.csv", "a,b\n10,-20\n20,0\n10,20\n");
  WriteWhole(folder_ / "y.csv", "kind\n1\n0\n2\n");
  ASSERT_EQ(Run({"train", "s.json", "--save", "base"}), 0) << err_;
  for (const std::string data :
       {R"({"csv": "v.csv"})", R"({"x": "x.csv", "y": ["y.csv"]})",
        R"({"x": [{"file": "x.csv", "scale": 0.1}], "y": ["y.csv"]})",
        R"({"x": [{"file": "x.csv", "scale": 0.5}], "y": ["y.csv"],
            "scale": 0.2})"}) {
    SCOPED_TRACE(data);
    WriteWhole(folder_ / "more.json",
               R"({"model": "base", "data": {"train": )" + data +
                   ", \"validation\": " + data + R"(}, "fit": {"epochs": 1}})");
    ASSERT_EQ(Run({"train", "more.json", "--save", "n"}), 0) << err_;
    EXPECT_FALSE(Contains(err_, "warning"));
    EXPECT_TRUE(Contains(out_, "val_accuracy: 1.0000"));
    ASSERT_EQ(Run({"evaluate", "n", "--csv", "v.csv"}), 0) << err_;
    EXPECT_TRUE(Contains(out_, "accuracy: 1.0000"));
  }
}

TEST_F(BirdTest, Init_OfOtherWeights_HasTheirDescription) {
  WriteWhole(folder_ / "s.json",
             Replaced(kBirdRun, "\"d.csv\"", "\"d.csv\", \"scale\": 0.001"));
  std::string scaled = ReadWhole(folder_ / "s.json");
  scaled = Replaced(scaled, ", \"validation\": {\"csv\": \"v.csv\"}", "");
  WriteWhole(folder_ / "s.json", scaled);
  ASSERT_EQ(Run({"train", "s.json", "--save", "other"}), 0) << err_;
  WriteWhole(folder_ / "mix.json",
             R"({"model": "other", "data": {"validation": {"csv": "v.csv"}}})");
  ASSERT_EQ(Run({"evaluate", "mix.json", "--init", "m"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "accuracy: 1.0000"));
}

TEST_F(BirdTest, Init_OfAnAdaptedModel_HasItsStatistics) {
  std::string right;
  ASSERT_NO_FATAL_FAILURE(TrainAdapted(&right));
  ASSERT_EQ(
      Run({"evaluate", "n.json", "--init", "n", "--part", "train", "--json"}),
      0)
      << err_;
  EXPECT_EQ(out_, right);
  // Other data do not change them.
  WriteWhole(folder_ / "d.csv", "a,b,bird\n9,9,emu\n8,8,auk\n7,7,owl\n");
  ASSERT_EQ(
      Run({"train", "n.json", "--init", "n", "--epochs", "0", "--save", "k"}),
      0)
      << err_;
  WriteWhole(folder_ / "d.csv",
             "a,b,bird\n1,-2,emu\n2,0,auk\n1,2,owl\n2,2,owl\n");
  ASSERT_EQ(Run({"evaluate", "k", "--csv", "d.csv", "--json"}), 0) << err_;
  EXPECT_EQ(out_, right);
}

TEST_F(BirdTest, Export_OfAnAdaptedModel_KeepsItsStatistics) {
  std::string right;
  ASSERT_NO_FATAL_FAILURE(TrainAdapted(&right));
  ASSERT_EQ(Run({"export", "n", "-o", "w.safetensors"}), 0) << err_;
  ASSERT_EQ(Run({"evaluate", "n.json", "--init", "w.safetensors", "--part",
                 "train", "--json"}),
            0)
      << err_;
  EXPECT_EQ(out_, right);
  ASSERT_EQ(Run({"export", "n", "-o", "w.npz"}), 0) << err_;
  EXPECT_TRUE(Contains(err_, "note: w.npz: is without mean and variance"));
}

// The columns of a file without names are told apart by their places.
TEST_F(BirdTest, FileWithoutNames_LabelFirst_IsAsInTraining) {
  WriteWhole(folder_ / "d.csv",
             "bird,a,b\nemu,1,-2\nauk,2,0\nowl,1,2\nowl,2,2\n");
  WriteWhole(folder_ / "first.json",
             Replaced(kBirdRun, "\"d.csv\"", "\"d.csv\", \"label\": \"bird\""));
  ASSERT_EQ(Run({"train", "first.json", "--save", "n"}), 0) << err_;
  ASSERT_EQ(Run({"evaluate", "n", "--csv", "d.csv", "--json"}), 0) << err_;
  const std::string right = out_;
  ASSERT_EQ(Run({"predict", "n", "--csv", "d.csv"}), 0) << err_;
  const std::string predicted = out_;
  WriteWhole(folder_ / "q.csv", "emu,1,-2\nauk,2,0\nowl,1,2\nowl,2,2\n");
  ASSERT_EQ(Run({"evaluate", "n", "--csv", "q.csv", "--json"}), 0) << err_;
  EXPECT_EQ(out_, right);
  ASSERT_EQ(Run({"predict", "n", "--csv", "q.csv"}), 0) << err_;
  EXPECT_EQ(out_, predicted);
  WriteWhole(folder_ / "q.csv", "emu,1,-2,3\nauk,2,0,3\n");
  ExpectError({"predict", "n", "--csv", "q.csv", "--no-header"}, 2,
              {"has 4 columns, the training data had 3 (2 values, the label is "
               "column 1)"});
}

// As pandas writes its index.
TEST_F(BirdTest, Column_WithoutAName_IsAValue) {
  WriteWhole(folder_ / "d.csv", ",b,bird\n1,-2,emu\n2,0,auk\n1,2,owl\n");
  WriteWhole(folder_ / "v.csv", ",b,bird\n1,-2,emu\n2,2,owl\n");
  ASSERT_EQ(Run({"train", "run.json", "--save", "n"}), 0) << err_;
  ASSERT_EQ(Run({"evaluate", "n", "--csv", "d.csv"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "n", "--csv", "v.csv"}), 0) << err_;
  EXPECT_EQ(Lines(out_).size(), 3u);
}

TEST_F(BirdTest, Columns_NamedByNumbers_DoNotTakeARowForAHeader) {
  WriteWhole(folder_ / "d.csv", "0,1,bird\n1,-2,emu\n2,0,auk\n1,2,owl\n");
  WriteWhole(folder_ / "v.csv", "1,0,bird\n-2,1,emu\n");
  ASSERT_EQ(Run({"train", "run.json", "--save", "n"}), 0) << err_;
  WriteWhole(folder_ / "q.csv", "1,0\n0,1\n3,0\n0,3\n");
  ExpectError({"predict", "n", "--csv", "q.csv"}, 2,
              {"q.csv: line 1 may have the names of the columns, or be a row"});
  ASSERT_EQ(Run({"predict", "n", "--csv", "q.csv", "--no-header"}), 0) << err_;
  EXPECT_EQ(Lines(out_).size(), 5u);
}

TEST_F(BirdTest, Train_FromTheSavedModel_KeepsItsClasses) {
  WriteWhole(folder_ / "d.csv", "bird,b,a\nowl,2,1\nemu,-2,1\n");
  const std::string whole = ReadWhole(folder_ / "run.json");
  const size_t end = whole.find("\"compile\"");
  WriteWhole(folder_ / "more.json",
             "{\"model\": \"m\", " + whole.substr(whole.find("\"data\"", end)));
  ASSERT_EQ(Run({"train", "more.json", "--save", "n"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "n", "--csv", "v.csv"}), 0) << err_;
  EXPECT_EQ(Lines(out_)[0], "class,probability,auk,emu,owl");
}

TEST_F(BirdTest, Names_NotUtf8_AreNotKeptAndTold) {
  WriteWhole(folder_ / "d.csv",
             "a,b,bird\n1,-2,emu\n2,0,\xe9pervier\n1,2,owl\n");
  WriteWhole(folder_ / "v.csv", "a,b,bird\n1,2,owl\n");
  ASSERT_EQ(Run({"train", "run.json", "--save", "n"}), 0) << err_;
  EXPECT_TRUE(Contains(err_,
                       "note: d.csv: the model does not keep the names of the "
                       "classes"));
  ASSERT_EQ(Run({"evaluate", "n", "--csv", "d.csv"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "n", "--csv", "v.csv"}), 0) << err_;
  EXPECT_EQ(Lines(out_).size(), 1u);
}

// What fits the buffers of stdio reaches the disk as the file is closed.
TEST_F(ProgramTest, Predict_DiskIsFull_EndsWithAnError) {
  WriteWhole(folder_ / "d.csv", "a,b,kind\n1,0,0\n0,1,1\n");
  WriteWhole(folder_ / "csv.json", kCsvRun);
  ASSERT_EQ(Run({"train", "csv.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(symlink("/dev/full", (folder_ / "full.csv").c_str()), 0);
  EXPECT_EQ(Run({"predict", "m", "--csv", "d.csv", "--out", "full.csv"}), 1);
  EXPECT_TRUE(Contains(err_, "full.csv: writing"));
}

TEST_F(ProgramTest, Audit_ExampleIsUsedTwice_EndsWithAnError) {
  const std::string begin =
      "epoch,step,replica,pass,used,size,examples\n0,0,all,0,0,4,0 1\n";
  WriteWhole(folder_ / "good.csv", begin + "0,1,all,0,2,4,2 3\n");
  WriteWhole(folder_ / "bad.csv", begin + "0,1,all,0,2,4,2 1\n");
  ASSERT_EQ(Run({"audit", "good.csv"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "1 whole passes of 4 examples"));
  ExpectError({"audit", "bad.csv"}, 1, {"example 1 is used twice in pass 0"});
  EXPECT_EQ(out_, "");
}

TEST_F(ProgramTest, SavedModel_AnyTfConfig_IsUsedAlone) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0);
  ASSERT_EQ(Run({"evaluate", "m", "--data", "run.json", "--json"}), 0);
  const std::string logs = out_;
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json"}), 0);
  const std::string outputs = out_;
  for (const char* config :
       {R"({"cluster": {"worker": ["localhost:1", "localhost:2"]},
            "task": {"type": "worker", "index": 1}})",
        R"({"cluster": {"worker": ["localhost:1"], "evaluator":
            ["localhost:3"]}, "task": {"type": "evaluator", "index": 0}})",
        "{"}) {
    environment_ = {{"TF_CONFIG", config}};
    ASSERT_EQ(Run({"evaluate", "m", "--data", "run.json", "--json"}), 0);
    EXPECT_EQ(out_, logs);
    EXPECT_EQ(Lines(err_).size(), 1u) << err_;
    EXPECT_TRUE(Contains(err_, "TF_CONFIG is set"));
    ASSERT_EQ(Run({"predict", "m", "--data", "run.json"}), 0);
    EXPECT_EQ(out_, outputs);
    EXPECT_EQ(Lines(err_).size(), 1u) << err_;
  }
  environment_ = {{"TF_CONFIG", ""}};
  ASSERT_EQ(Run({"evaluate", "m", "--data", "run.json", "--json"}), 0);
  EXPECT_EQ(err_, "");
}

TEST_F(ProgramTest, Run_ByteOrderMark_IsSkipped) {
  WriteRun();
  const std::string mark = "\xEF\xBB\xBF";
  WriteWhole(folder_ / "run.json", mark + ReadWhole(folder_ / "run.json"));
  ASSERT_EQ(Run({"plan", "run.json"}), 0) << err_;
  WriteWhole(folder_ / "run.json", mark + "{\"fit\" 1}");
  ExpectError({"plan", "run.json"}, 2, {"run.json: line 1, near column 8"});
}

TEST_F(ProgramTest, SavedModel_TrainedOn_HasTheBitsOfOneRun) {
  WriteRun(", \"steps_per_epoch\": 3", ", \"shuffle\": false");
  ASSERT_EQ(Run({"train", "run.json", "--save", "two"}), 0) << err_;
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "one"}), 0);
  // The same data, the saved model, without "compile".
  const std::string run = ReadWhole(folder_ / "run.json");
  WriteWhole(folder_ / "run.json",
             "{\"model\": \"one\"," + run.substr(run.find("  \"data\"")));
  ASSERT_EQ(Run({"plan", "run.json"}), 0) << err_;
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "more"}), 0)
      << err_;
  EXPECT_EQ(Run({"diff", "two", "more"}), 0) << out_;
}

// What of the file's optimizer does not go with the run is not asked for.
TEST_F(ProgramTest, Compile_OfASavedModel_ReplacesWhatTheFileHas) {
  for (const char* optimizer :
       {"{\"class_name\": \"SGD\", \"config\": {\"use_ema\": true}}",
        "{\"class_name\": \"SGD\", \"config\": "
        "{\"gradient_accumulation_steps\": 4}}"}) {
    SCOPED_TRACE(optimizer);
    WriteRun("\"adam\"", optimizer);
    ASSERT_EQ(Run({"train", "run.json", "--save", "one"}), 0) << err_;
    for (const char* strategy :
         {"", "\"strategy\": {\"mode\": \"local\", \"local_steps\": 3}, "}) {
      WriteRun("\"callbacks\": []",
               std::string(strategy) + "\"callbacks\": []");
      const std::string run = ReadWhole(folder_ / "run.json");
      WriteWhole(
          folder_ / "run.json",
          "{\"model\": \"one\"," + run.substr(run.find("  \"compile\"")));
      EXPECT_EQ(Run({"train", "run.json", "--no-save"}), 0) << err_;
    }
  }
}

// Every command reads what was sealed, with the key; none does without it.
TEST_F(ProgramTest, SealedModel_WithAndWithoutItsKey_IsUsedWithItAlone) {
  ASSERT_EQ(Run({"keygen", "--out", "job.key"}), 0) << err_;
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "plain"}), 0) << err_;
#ifndef RINGLET_SECURE
  GTEST_SKIP() << "a build without libsodium";
#endif
  ExpectError({"train", "run.json", "--sealed", "--save", "m"}, 2,
              {"ringlet keygen"});
  environment_ = {{"RINGLET_KEY_FILE", "job.key"}};
  ASSERT_EQ(Run({"train", "run.json", "--sealed", "--save", "m"}), 0) << err_;
  EXPECT_EQ(ReadWhole(folder_ / "m").substr(0, 8), "RINGSEAL");
  EXPECT_EQ(Run({"diff", "plain", "m"}), 0) << out_ << err_;
  WriteWhole(folder_ / "more.json", Replaced(ReadWhole(folder_ / "run.json"),
                                             "\"epochs\": 2", "\"epochs\": 3"));
  std::string saved = ReadWhole(folder_ / "run.json");
  const size_t model = saved.find("{\"class_name\": \"Sequential\"");
  saved.replace(model, saved.find(",\n  \"compile\"") - model, "\"m\"");
  WriteWhole(folder_ / "saved.json", saved);
  const std::vector<Strings> uses = {
      {"summary", "saved.json"},
      {"plan", "saved.json"},
      {"verify", "saved.json"},
      {"inspect", "m"},
      {"summary", "m"},
      {"evaluate", "m", "--data", "run.json"},
      {"predict", "m", "--data", "run.json", "--out", "y.npy"},
      {"export", "m", "--out", "m.onnx"},
      {"export", "m", "--out", "m.npz"},
      {"train", "more.json", "--init", "m", "--no-save"}};
  for (const Strings& use : uses) EXPECT_EQ(Run(use), 0) << use[0] << err_;
  ASSERT_EQ(Run({"inspect", "m"}), 0);
  EXPECT_TRUE(Contains(out_, "bytes, sealed, "));
  ASSERT_EQ(Run({"inspect", "m", "--json"}), 0);
  EXPECT_TRUE(Contains(out_, "\"sealed\":true"));
  ASSERT_EQ(Run({"inspect", "plain"}), 0);
  EXPECT_FALSE(Contains(out_, "sealed"));
  environment_.clear();
  for (const Strings& use : uses) {
    SCOPED_TRACE(use[0]);
    EXPECT_EQ(Run(use), 2);
    EXPECT_TRUE(Contains(err_, "is sealed"));
    EXPECT_TRUE(Contains(err_, "RINGLET_KEY_FILE"));
  }
}

// A run goes on from its sealed backup, and without the key, or with another
// one, neither from zero nor by setting the backup aside.
TEST_F(ProgramTest, SealedBackup_RunIsResumed_GoesOnWithItsKeyAlone) {
#ifndef RINGLET_SECURE
  GTEST_SKIP() << "a build without libsodium";
#endif
  ASSERT_EQ(Run({"keygen", "--out", "job.key"}), 0) << err_;
  ASSERT_EQ(Run({"keygen", "--out", "other.key"}), 0) << err_;
  WriteRun("\"callbacks\": []", R"("strategy": {"key_file": "job.key"},
    "callbacks": [{"class_name": "BackupAndRestore", "config": {"sealed": true,
      "backup_dir": "backup", "delete_checkpoint": false}}])");
  ASSERT_EQ(Run({"train", "run.json", "--save", "two"}), 0) << err_;
  EXPECT_TRUE(
      Contains(out_, "to use it: RINGLET_KEY_FILE=job.key ringlet evaluate "));
  const std::string backup = "backup/backup-2.safetensors";
  EXPECT_EQ(ReadWhole(folder_ / backup).substr(0, 8), "RINGSEAL");
  EXPECT_EQ(ReadWhole(folder_ / "two").substr(0, 8), "RINGSEAL");
  const Strings on = {"train", "run.json", "--epochs", "3", "--save", "three"};
  const std::string run = ReadWhole(folder_ / "run.json");
  WriteWhole(folder_ / "run.json", Replaced(run, "job.key", "other.key"));
  EXPECT_EQ(Run(on), 2);
  EXPECT_TRUE(Contains(err_, "another key"));
  WriteWhole(folder_ / "run.json",
             Replaced(Replaced(run, "\"key_file\": \"job.key\"", ""),
                      "\"sealed\": true,", ""));
  EXPECT_EQ(Run(on), 2);
  EXPECT_TRUE(Contains(err_, "is sealed"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / backup));
  WriteWhole(folder_ / "run.json", run);
  ASSERT_EQ(Run(on), 0) << err_;
  EXPECT_TRUE(Contains(out_, "Epoch 3/3"));
  EXPECT_FALSE(Contains(out_, "Epoch 2/3"));
}

TEST_F(ProgramTest, Files_InspectedComparedAndExported_KeepTheirWeights) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "a"}), 0) << err_;
  ASSERT_EQ(Run({"train", "run.json", "--save", "b", "--seed", "2"}), 0);
  ASSERT_EQ(Run({"inspect", "a"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "model/dense/kernel"));
  EXPECT_TRUE(Contains(out_, "verified"));
  EXPECT_EQ(Run({"inspect", "a", "--json"}), 0);
  EXPECT_TRUE(Contains(out_, "optimizer/iterations"));
  EXPECT_EQ(Run({"diff", "a", "a"}), 0);
  EXPECT_EQ(Run({"diff", "a", "b"}), 1);
  EXPECT_EQ(err_, "");
  EXPECT_TRUE(Contains(out_, "model/dense/kernel"));

  ASSERT_EQ(Run({"export", "a", "--out", "a.safetensors"}), 0) << err_;
  ASSERT_EQ(Run({"export", "a", "--out", "a.npz"}), 0) << err_;
  ASSERT_EQ(Run({"export", "a", "--all", "--format", "npz", "-o", "all"}), 0);
  ASSERT_EQ(Run({"train", "run.json", "--init", "a.safetensors"}), 0) << err_;
  if (HavePython()) {
    WriteWhole(folder_ / "look.py", R"(
import json, numpy, struct, sys
folder = sys.argv[1]
z = numpy.load(folder + "/a.npz")
raw = open(folder + "/a.safetensors", "rb").read()
n, = struct.unpack("<Q", raw[:8])
header = json.loads(raw[8:8 + n])
print(sorted(z.files))
for name in z.files:
    begin, end = header[name]["data_offsets"]
    assert raw[8 + n + begin:8 + n + end] == z[name].tobytes(), name
    assert list(z[name].shape) == header[name]["shape"], name
print(sorted(numpy.load(folder + "/all").files)[-1], z["dense/kernel"].shape)
)");
    EXPECT_EQ(RunPython(folder_ / "look.py" + " " + folder_.path()),
              (Strings{"['dense/bias', 'dense/kernel', 'dense_1/bias', "
                       "'dense_1/kernel']",
                       "optimizer/velocity/dense_1/kernel (784, 8)"}));
  }

  // Back again, with the weights and the bits that they had.
  ASSERT_EQ(Run({"evaluate", "a", "--data", "run.json", "--json"}), 0);
  const std::string logs = out_;
  ASSERT_EQ(Run({"evaluate", "run.json", "--init", "a.npz", "--json"}), 0)
      << err_;
  EXPECT_EQ(out_, logs);
  EXPECT_EQ(err_, "");
  ExpectError(
      {"train", "run.json", "--init", "a.npz", "--init-layout", "torch"}, 2,
      {"--init: a.npz", "missing in the file 'dense/kernel'"});
  ExpectError({"train", "run.json", "--init-layout", "torch"}, 2,
              {"--init-layout torch: needs --init"});
  ExpectError({"train", "run.json", "--init", "a.npz", "--init-layout", "pt"},
              2, {"--init-layout pt: is neither keras nor torch"});

  std::string damaged = ReadWhole(folder_ / "a");
  damaged[damaged.size() / 2] ^= 1;
  WriteWhole(folder_ / "damaged", damaged);
  EXPECT_EQ(Run({"inspect", "damaged"}), 1);
  EXPECT_EQ(Lines(err_).size(), 1u) << err_;
  std::string npz = ReadWhole(folder_ / "a.npz");
  npz[npz.size() / 2] ^= 1;
  WriteWhole(folder_ / "damaged.npz", npz);
  ExpectError({"train", "run.json", "--init", "damaged.npz"}, 1,
              {"--init: damaged.npz", "CRC-32"});
  ExpectError({"diff", "a", "damaged"}, 1, {"damaged"});
  ExpectError({"export", "damaged", "--all", "-o", "x.npz"}, 1, {"damaged"});
  ExpectError({"evaluate", "damaged", "--data", "run.json"}, 1, {"damaged"});
}

TEST_F(ProgramTest, SavedModel_WrongUse_IsNamed) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0);
  ExpectError({"evaluate", "m"}, 2, {"no data", "--data RUN.json"});
  ExpectError({"evaluate", "m", "--images", "x"}, 2, {"--images needs"});
  ExpectError({"evaluate", "m", "--x", "x", "--csv", "y"}, 2, {"one of"});
  ExpectError({"evaluate", "m", "--data", "run.json", "--part", "test"}, 2,
              {"--part test"});
  ExpectError({"evaluate", "run.json"}, 2, {"--init WEIGHTS"});
  ExpectError({"evaluate", "none", "--data", "run.json"}, 2, {"none"});
  ExpectError({"evaluate", "m", "--csv", "none.csv"}, 2, {"none.csv"});
  ExpectError({"predict", "m", "--data", "run.json", "--out", "p.txt"}, 2,
              {"p.txt", ".npy"});
  ExpectError({"predict", "m", "--data", "run.json", "--out", "no/p.npy"}, 2,
              {"no/p.npy"});
  ExpectError({"predict", "m", "--labels", "x"}, 2,
              {"unknown flag '--labels'"});
  ExpectError({"inspect", "none"}, 2, {"none, from the current folder "});
  ExpectError({"summary", "none"}, 2, {"none, from the current folder "});
  ExpectError({"diff", "m", "none"}, 2, {"none, from the current folder "});
  ExpectError({"export", "none", "-o", "x.npz"}, 2, {"none, from the current"});
  ExpectError({"plan", "none.json"}, 2, {"none.json, from the current folder"});
  ExpectError({"evaluate", "run.json", "--init", "none"}, 2,
              {"--init: none, from the current folder "});
  ExpectError({"inspect"}, 2, {"FILE is missing"});
  ExpectError({"diff", "m"}, 2, {"A B"});
  ExpectError({"export", "m"}, 2, {"--out is missing"});
  ExpectError({"export", "m", "-o", "m.h5"}, 2, {"'h5'", "npz"});
  // The model is not lost to its own weights.
  const std::string model = ReadWhole(folder_ / "m");
  ExpectError({"export", "m", "--format", "npz", "-o", "./m"}, 2,
              {"--out ./m: is the file itself"});
  EXPECT_EQ(ReadWhole(folder_ / "m"), model);
  // Nor the data to what was computed of them.
  WriteWhole(folder_ / "d.csv", "1,2,0\n3,4,1\n");
  ExpectError({"predict", "m", "--csv", "d.csv", "--out", "./d.csv"}, 2,
              {"--out ./d.csv: holds the data that are read"});
  EXPECT_EQ(ReadWhole(folder_ / "d.csv"), "1,2,0\n3,4,1\n");
  ExpectError({"export", "run.json", "-o", "x.npz"}, 2,
              {"run.json: is a RUN.json, not safetensors"});
  // Weights of another shape.
  WriteRun("\"units\": 8", "\"units\": 9");
  ExpectError({"train", "run.json", "--init", "m"}, 2, {"--init", "kernel"});
}

TEST_F(ProgramTest, Train_WeightsOfPyTorch_BeginsWithThem) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  WriteWhole(folder_ / "make.py", R"(
import sys, numpy
r = numpy.random.default_rng(1)
w = {"net.1.weight": r.normal(0, .1, (8, 784)), "net.1.bias": r.normal(0, 1, 8),
     "net.3.weight": r.normal(0, 1, (10, 8)), "net.3.bias": r.normal(0, 1, 10)}
w = {k: v.astype("f4") for k, v in w.items()}
numpy.savez(sys.argv[1] + "/torch.npz", **w)
x = r.random((5, 28, 28)).astype("f4")
numpy.save(sys.argv[1] + "/x.npy", x)
y = numpy.maximum(x.reshape(5, 784) @ w["net.1.weight"].T + w["net.1.bias"], 0)
numpy.save(sys.argv[1] + "/y.npy", y @ w["net.3.weight"].T + w["net.3.bias"])
)");
  ASSERT_EQ(RunPython(folder_ / "make.py" + " " + folder_.path()), Strings());
  WriteRun();
  ASSERT_EQ(Run({"predict", "run.json", "--init", "torch.npz", "--init-layout",
                 "torch", "--x", "x.npy", "-o", "p.npy"}),
            0)
      << err_;
  NpyArray y, p;
  ASSERT_TRUE(ReadNpy(folder_ / "y.npy", &y).ok());
  ASSERT_TRUE(ReadNpy(folder_ / "p.npy", &p).ok());
  ASSERT_EQ(p.shape, Shape({5, 10}));
  for (int i = 0; i < 50; ++i) {
    EXPECT_NEAR(Values<float>(p.data)[i], Values<float>(y.data)[i], 1e-4);
  }
  ASSERT_EQ(Run({"train", "run.json", "--init", "torch.npz", "--init-layout",
                 "torch", "--save", "m"}),
            0)
      << err_;
  ExpectError({"train", "run.json", "--init", "torch.npz"}, 2,
              {"--init-layout torch"});
}

TEST_F(ProgramTest, Summary_DataAreMissing_ShowsTheModel) {
  WriteRun("@DATA@/train-images", "nothing/train-images");
  ASSERT_EQ(Run({"summary", "run.json"}), 0) << err_;
  const std::string table = out_;
  EXPECT_EQ(table.find("Model: \"sequential\"\n"), 0u) << table;
  EXPECT_TRUE(Contains(table,
                       "│ dense (Dense)                   │ (None, 8)       "
                       "       │         6,280 │"));
  EXPECT_EQ(Lines(table).back(),
            " Compiled: Adam, learning rate 0.001; "
            "SparseCategoricalCrossentropy from logits; metrics accuracy");
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0);
  ASSERT_EQ(Run({"summary", "m"}), 0) << err_;
  EXPECT_EQ(out_, table);
  // A run of the saved model, a Keras configuration alone, a schedule.
  WriteWhole(folder_ / "more.json", "{\"model\": \"m\"}");
  ASSERT_EQ(Run({"summary", "more.json"}), 0) << err_;
  EXPECT_EQ(out_, table);
  WriteWhole(folder_ / "model.json",
             R"({"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 3]}},
    {"class_name": "Dense", "config": {"units": 2}}]}})");
  ASSERT_EQ(Run({"summary", "model.json"}), 0) << err_;
  EXPECT_EQ(Lines(out_).back(), " Non-trainable params: 0 (0.00 B)");
  WriteRun("\"adam\"", R"({"class_name": "SGD", "config": {"learning_rate":
    {"class_name": "CosineDecay", "config": {"initial_learning_rate": 0.1,
     "decay_steps": 9}}}})");
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "s"}), 0);
  ASSERT_EQ(Run({"summary", "s"}), 0) << err_;
  EXPECT_EQ(Lines(out_).back().find(" Compiled: SGD, learning rate "
                                    "CosineDecay; "),
            0u);
  ASSERT_EQ(Run({"inspect", "s"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "the schedule CosineDecay\n"));
  EXPECT_TRUE(Contains(out_, "│ dense (Dense) "));
  ASSERT_EQ(Run({"inspect", "m"}), 0) << err_;
  EXPECT_TRUE(Contains(out_,
                       "optimizer/learning_rate            F32  ()        as "
                       "compiled, 0.001\n"));
  ASSERT_EQ(Run({"export", "m", "-o", "w.npz"}), 0);
  EXPECT_EQ(Run({"summary", "w.npz"}), 2);
}

}  // namespace
}  // namespace ringlet
