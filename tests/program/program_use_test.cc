// The use of a trained model: evaluate, predict, inspect, export.

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
#include "../support/python.h"
#include "../support/temp_folder.h"
#include "io/readers/arrays/idx.h"
#include "ringlet/model.h"

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

  // The predictions' best classes are right as often as evaluate's accuracy.
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
  ASSERT_OK(ReadNpy(folder_ / "p.npy", &npy));
  ASSERT_EQ(npy.shape, Shape({400, 10}));
  NpyArray labels;
  ASSERT_OK(ReadIdx(data + "t10k-labels-idx1-ubyte.gz", &labels));
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
  // mse takes two targets for two units.
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

Strings Joined(Strings command, const Strings& more) {
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// Model m is trained on x * 2 + 1.5 by csv.json. Model `plain` has its weights,
// and is of plain.json, which has no scale.
class ScaleTest : public ProgramTest {
 protected:
  void SetUp() override {
    WriteWhole(folder_ / "d.csv", "a,b,kind\n1,0,0\n0,1,1\n2,1,0\n1,2,1\n");
    WriteWhole(folder_ / "csv.json",
               Replaced(run_, "\"d.csv\"",
                        "\"d.csv\", \"scale\": 2, \"offset\": 1.5"));
    ASSERT_EQ(Run({"train", "csv.json", "--save", "m"}), 0) << err_;
    WriteWhole(folder_ / "plain.json",
               Replaced(run_, "\"sgd\"", R"({"class_name": "SGD",
                            "config": {"learning_rate": 0.0}})"));
    ASSERT_EQ(Run({"train", "plain.json", "--init", "m", "--save", "plain"}), 0)
        << err_;
  }
  // The loss of m on the data of a RUN.json, as text.
  std::string LossOn(const std::string& run) {
    EXPECT_EQ(
        Run({"evaluate", "m", "--part", "train", "--json", "--data", run}), 0)
        << err_;
    return out_;
  }

  const std::string run_ = Replaced(
      kCsvRun, "\"units\": 2", "\"units\": 2, \"activation\": \"softmax\"");
};

TEST_F(ScaleTest, Predict_OfRawValues_ScalesThemAsInTraining) {
  WriteWhole(folder_ / "x.csv", "a,b\n1,0\n0,1\n");
  WriteWhole(folder_ / "scaled.csv", "a,b\n3.5,1.5\n1.5,3.5\n");
  ASSERT_EQ(Run({"predict", "plain", "--csv", "scaled.csv"}), 0) << err_;
  const std::string outputs = out_;
  ASSERT_EQ(Run({"predict", "m", "--csv", "x.csv"}), 0) << err_;
  EXPECT_EQ(out_, outputs);
  ASSERT_EQ(Run({"predict", "m", "--csv", "x.csv", "--scale", "2", "--offset",
                 "1.5"}),
            0)
      << err_;
  EXPECT_EQ(out_, outputs);
}

TEST_F(ScaleTest, Flags_OtherThanInTraining_AreRefused) {
  WriteWhole(folder_ / "x.csv", "a,b\n1,0\n0,1\n");
  const std::string wanted =
      "the model was trained on x * 2 + 1.5; leave --scale and --offset out";
  for (const Strings& flags :
       {Strings{"--scale", "2"}, {"--offset", "1.5"}, {"--scale", "0.1"}}) {
    ExpectError(Joined({"predict", "m", "--csv", "x.csv"}, flags), 2, {wanted});
    ExpectError(Joined({"evaluate", "m", "--csv", "d.csv"}, flags), 2,
                {wanted});
  }
  ExpectError(
      {"predict", "m", "--data", "csv.json", "--part", "train", "--scale", "2"},
      2, {"RUN.json has its own"});
}

TEST_F(ScaleTest, Evaluate_RunWithoutAScale_HasTheModels) {
  const std::string loss = LossOn("csv.json");
  EXPECT_EQ(err_, "");
  EXPECT_EQ(LossOn("plain.json"), loss);
  EXPECT_EQ(err_, "");
}

TEST_F(ScaleTest, Evaluate_RunWithAnotherScale_Warns) {
  const std::string loss = LossOn("csv.json");
  WriteWhole(folder_ / "other.json",
             Replaced(run_, "\"d.csv\"", "\"d.csv\", \"scale\": 3"));
  EXPECT_NE(LossOn("other.json"), loss);
  EXPECT_TRUE(Contains(err_,
                       "warning: the data become x * 3 + 0, but the model was "
                       "trained on x * 2 + 1.5"));
}

// The weights alone, in a model without a description.
TEST_F(ScaleTest, Evaluate_WeightsAsInit_HasTheirScale) {
  const std::string loss = LossOn("csv.json");
  ASSERT_EQ(Run({"evaluate", "plain.json", "--init", "m", "--part", "train",
                 "--json"}),
            0)
      << err_;
  EXPECT_EQ(out_, loss);
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

// Output that fits the buffers of stdio is written only when the file is
// closed.
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

// Settings of the file's optimizer that do not fit the run are not used.
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
