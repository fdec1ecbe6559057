// What becomes of a trained model: evaluate, predict, inspect, export.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../support/data_files.h"
#include "../support/program.h"
#include "../support/python.h"
#include "../support/temp_folder.h"
#include "core/model/model.h"
#include "io/data/readers.h"

namespace ringlet {
namespace {

double NumberIn(const std::string& json, const std::string& key) {
  const size_t at = json.find("\"" + key + "\":");
  EXPECT_NE(at, std::string::npos) << key << " in " << json;
  return at == std::string::npos ? NAN
                                 : std::stod(json.substr(at + key.size() + 3));
}

TEST_F(ProgramTest, ASavedModelIsEvaluatedAndPredicts) {
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
  EXPECT_NE(out_.find("63/63 - "), std::string::npos) << out_;

  // The predictions' best classes are right as often as evaluate says.
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json"}), 0) << err_;
  const std::string on_stdout = out_;
  ASSERT_EQ(Run({"predict", "m", "--images", data + "t10k-images-idx3-ubyte.gz",
                 "--scale", "0.00392156862745098", "--out", "p.csv"}),
            0)
      << err_;
  EXPECT_EQ(ReadWhole(folder_ / "p.csv"), on_stdout);
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json", "-o", "p.npy"}), 0);
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

TEST_F(ProgramTest, ACsvWithOrWithoutLabelsIsPredicted) {
  WriteWhole(folder_ / "d.csv", "a,kind,b\n1,0,0\n0,1,1\n2,0,1\n1,1,2\n");
  WriteWhole(folder_ / "x.csv", "a,b\n1,0\n0,1\n2,1\n1,2\n");
  WriteWhole(folder_ / "csv.json", R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
      {"class_name": "Dense", "config": {"units": 2}}]}},
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
              {"x.csv", "2 columns", "--label"});
  ExpectError({"predict", "m", "--csv", "d.csv", "--label", "knid"}, 2,
              {"d.csv", "'knid'"});
  WriteWhole(folder_ / "wide.csv", "1,2,3,4\n1,2,3,4\n");
  ExpectError({"predict", "m", "--csv", "wide.csv"}, 2,
              {"wide.csv", "4 columns", "takes 2"});
}

TEST_F(ProgramTest, AModelIsUsedAloneWhateverTfConfigSays) {
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
    EXPECT_NE(err_.find("TF_CONFIG is set"), std::string::npos) << err_;
    ASSERT_EQ(Run({"predict", "m", "--data", "run.json"}), 0);
    EXPECT_EQ(out_, outputs);
    EXPECT_EQ(Lines(err_).size(), 1u) << err_;
  }
  environment_ = {{"TF_CONFIG", ""}};
  ASSERT_EQ(Run({"evaluate", "m", "--data", "run.json", "--json"}), 0);
  EXPECT_EQ(err_, "");
}

TEST_F(ProgramTest, AByteOrderMarkIsSkipped) {
  WriteRun();
  const std::string mark = "\xEF\xBB\xBF";
  WriteWhole(folder_ / "run.json", mark + ReadWhole(folder_ / "run.json"));
  ASSERT_EQ(Run({"plan", "run.json"}), 0) << err_;
  WriteWhole(folder_ / "run.json", mark + "{\"fit\" 1}");
  ExpectError({"plan", "run.json"}, 2, {"run.json: line 1, near column 8"});
}

TEST_F(ProgramTest, ASavedModelGoesOnWithTheBitsOfOneRun) {
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

// Every command reads what was sealed, with the key; none does without it.
TEST_F(ProgramTest, ASealedModelIsUsedWithItsKeyAlone) {
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
  EXPECT_NE(out_.find("bytes, sealed, "), std::string::npos) << out_;
  ASSERT_EQ(Run({"inspect", "m", "--json"}), 0);
  EXPECT_NE(out_.find("\"sealed\":true"), std::string::npos) << out_;
  ASSERT_EQ(Run({"inspect", "plain"}), 0);
  EXPECT_EQ(out_.find("sealed"), std::string::npos) << out_;
  environment_.clear();
  for (const Strings& use : uses) {
    SCOPED_TRACE(use[0]);
    EXPECT_EQ(Run(use), 2);
    EXPECT_NE(err_.find("is sealed"), std::string::npos) << err_;
    EXPECT_NE(err_.find("RINGLET_KEY_FILE"), std::string::npos) << err_;
  }
}

// A run goes on from its sealed backup, and without the key, or with another
// one, neither from zero nor by setting the backup aside.
TEST_F(ProgramTest, ARunGoesOnFromItsSealedBackup) {
#ifndef RINGLET_SECURE
  GTEST_SKIP() << "a build without libsodium";
#endif
  ASSERT_EQ(Run({"keygen", "--out", "job.key"}), 0) << err_;
  ASSERT_EQ(Run({"keygen", "--out", "other.key"}), 0) << err_;
  WriteRun("\"callbacks\": []", R"("strategy": {"key_file": "job.key"},
    "callbacks": [{"class_name": "BackupAndRestore", "config": {"sealed": true,
      "backup_dir": "backup", "delete_checkpoint": false}}])");
  ASSERT_EQ(Run({"train", "run.json", "--save", "two"}), 0) << err_;
  EXPECT_NE(out_.find("to use it: RINGLET_KEY_FILE=job.key ringlet evaluate "),
            std::string::npos)
      << out_;
  const std::string backup = "backup/backup-2.safetensors";
  EXPECT_EQ(ReadWhole(folder_ / backup).substr(0, 8), "RINGSEAL");
  EXPECT_EQ(ReadWhole(folder_ / "two").substr(0, 8), "RINGSEAL");
  const Strings on = {"train", "run.json", "--epochs", "3", "--save", "three"};
  const std::string run = ReadWhole(folder_ / "run.json");
  WriteWhole(folder_ / "run.json", Replaced(run, "job.key", "other.key"));
  EXPECT_EQ(Run(on), 2);
  EXPECT_NE(err_.find("another key"), std::string::npos) << err_;
  WriteWhole(folder_ / "run.json",
             Replaced(Replaced(run, "\"key_file\": \"job.key\"", ""),
                      "\"sealed\": true,", ""));
  EXPECT_EQ(Run(on), 2);
  EXPECT_NE(err_.find("is sealed"), std::string::npos) << err_;
  EXPECT_TRUE(std::filesystem::exists(folder_ / backup));
  WriteWhole(folder_ / "run.json", run);
  ASSERT_EQ(Run(on), 0) << err_;
  EXPECT_NE(out_.find("Epoch 3/3"), std::string::npos) << out_;
  EXPECT_EQ(out_.find("Epoch 2/3"), std::string::npos) << out_;
}

TEST_F(ProgramTest, FilesAreInspectedComparedAndExported) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "a"}), 0) << err_;
  ASSERT_EQ(Run({"train", "run.json", "--save", "b", "--seed", "2"}), 0);
  ASSERT_EQ(Run({"inspect", "a"}), 0) << err_;
  EXPECT_NE(out_.find("model/dense/kernel"), std::string::npos) << out_;
  EXPECT_NE(out_.find("verified"), std::string::npos) << out_;
  EXPECT_EQ(Run({"inspect", "a", "--json"}), 0);
  EXPECT_NE(out_.find("optimizer/iterations"), std::string::npos) << out_;
  EXPECT_EQ(Run({"diff", "a", "a"}), 0);
  EXPECT_EQ(Run({"diff", "a", "b"}), 1);
  EXPECT_EQ(err_, "");
  EXPECT_NE(out_.find("model/dense/kernel"), std::string::npos) << out_;

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
              {"--init-layout torch: there is no --init"});
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

TEST_F(ProgramTest, WrongUsesOfAModelAreNamed) {
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

TEST_F(ProgramTest, WeightsOfPyTorchBeginATraining) {
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

TEST_F(ProgramTest, AModelIsSummarizedWithoutItsData) {
  WriteRun("@DATA@/train-images", "nothing/train-images");
  ASSERT_EQ(Run({"summary", "run.json"}), 0) << err_;
  const std::string table = out_;
  EXPECT_EQ(table.find("Model: \"sequential\"\n"), 0u) << table;
  EXPECT_NE(table.find("│ dense (Dense)                   │ (None, 8)       "
                       "       │         6,280 │"),
            std::string::npos)
      << table;
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
  EXPECT_NE(out_.find("the schedule CosineDecay\n"), std::string::npos) << out_;
  EXPECT_NE(out_.find("│ dense (Dense) "), std::string::npos) << out_;
  ASSERT_EQ(Run({"inspect", "m"}), 0) << err_;
  EXPECT_NE(out_.find("optimizer/learning_rate            F32  ()        as "
                      "compiled, 0.001\n"),
            std::string::npos)
      << out_;
  ASSERT_EQ(Run({"export", "m", "-o", "w.npz"}), 0);
  EXPECT_EQ(Run({"summary", "w.npz"}), 2);
}

}  // namespace
}  // namespace ringlet
