// The program ringlet as a user runs it: real processes on the shipped data.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../support/data_files.h"
#include "../support/free_ports.h"
#include "../support/python.h"
#include "../support/temp_folder.h"
#include "core/fit/fit.h"
#include "core/model/model.h"
#include "io/data/idx.h"
#include "io/data/npy.h"
#include "io/keras/compile_json.h"
#include "io/keras/model_json.h"

namespace ringlet {
namespace {

using Strings = std::vector<std::string>;

Strings Lines(const std::string& text) {
  Strings lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string Replaced(std::string text, const std::string& from,
                     const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

// A small model, quick to train; @DATA@ is the shipped data.
const char kRun[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 28, 28]}},
    {"class_name": "Flatten"},
    {"class_name": "Dense", "config": {"units": 8, "activation": "relu"}},
    {"class_name": "Dense", "config": {"units": 10}}]}},
  "compile": {"optimizer": "adam",
    "loss": {"class_name": "SparseCategoricalCrossentropy",
             "config": {"from_logits": true}},
    "metrics": ["accuracy"]},
  "data": {
    "train": {"images": "@DATA@/train-images-idx3-ubyte.gz",
              "labels": "@DATA@/train-labels-idx1-ubyte.gz",
              "scale": 0.00392156862745098},
    "validation": {"images": "@DATA@/t10k-images-idx3-ubyte.gz",
                   "labels": "@DATA@/t10k-labels-idx1-ubyte.gz",
                   "scale": 0.00392156862745098}},
  "fit": {"batch_size": 16, "epochs": 2, "steps_per_epoch": 3},
  "callbacks": []
})";

class ProgramTest : public testing::Test {
 protected:
  ~ProgramTest() override {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  void Start(const Strings& arguments) {
    Strings all = {EnvironmentOr("RINGLET_BUILD", "build") +
                   "/tools/ringlet/ringlet"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& text : all) argv.push_back(text.data());
    argv.push_back(nullptr);
    const std::string out = logs_ / "out", err = logs_ / "err";
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      const int flags = O_WRONLY | O_CREAT | O_TRUNC;
      dup2(open(out.c_str(), flags, 0600), 1);
      dup2(open(err.c_str(), flags, 0600), 2);
      if (chdir(folder_.path().c_str()) != 0) _exit(98);
      unsetenv("TF_CONFIG");
      for (const auto& [name, value] : environment_) {
        setenv(name.c_str(), value.c_str(), 1);
      }
      execv(argv[0], argv.data());
      _exit(99);
    }
  }

  // The exit code; 1000 + signal where it was killed.
  int Wait() {
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    child_ = 0;
    out_ = ReadWhole(logs_ / "out");
    err_ = ReadWhole(logs_ / "err");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  int Run(const Strings& arguments) {
    Start(arguments);
    return Wait();
  }

  // kRun with one change, as run.json of the folder.
  void WriteRun(const std::string& from = "", const std::string& to = "") {
    std::string text = kRun;
    if (!from.empty()) text = Replaced(text, from, to);
    const std::string data =
        EnvironmentOr("RINGLET_SOURCE", ".") + "/data/fashion-mnist-mini";
    for (size_t at; (at = text.find("@DATA@")) != std::string::npos;) {
      text.replace(at, 6, data);
    }
    WriteWhole(folder_ / "run.json", text);
  }

  std::set<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             folder_.path(),
             std::filesystem::directory_options::skip_permission_denied)) {
      names.insert(entry.path().string());
    }
    return names;
  }

  // The command fails with this code, with one line that says all of `says`,
  // and writes nothing; on stdout there is what is said before training, at
  // most.
  void ExpectError(const Strings& arguments, int code, const Strings& says) {
    std::string shown;
    for (const std::string& argument : arguments) shown += " " + argument;
    SCOPED_TRACE(shown);
    const std::set<std::string> before = Files();
    EXPECT_EQ(Run(arguments), code) << err_;
    EXPECT_EQ(Lines(err_).size(), 1u) << err_;
    EXPECT_EQ(err_.compare(0, 7, "error: "), 0) << err_;
    for (const std::string& text : says) {
      EXPECT_NE(err_.find(text), std::string::npos)
          << err_ << "lacks: " << text;
    }
    EXPECT_LE(Lines(out_).size(), 2u) << out_;
    EXPECT_EQ(out_.find("Epoch"), std::string::npos) << out_;
    EXPECT_EQ(Files(), before);
  }
  void ExpectRunError(const std::string& from, const std::string& to, int code,
                      const Strings& says) {
    SCOPED_TRACE(to);
    WriteRun(from, to);
    ExpectError({"train", "run.json", "--save", "model", "--log-steps", "s"},
                code, says);
  }

  TempFolder folder_, logs_;
  std::vector<std::pair<std::string, std::string>> environment_;
  std::string out_, err_;
  pid_t child_ = 0;
};

// --- wrong inputs ---

TEST_F(ProgramTest, WrongFlagsAreRefusedByNameWithTheNearestKnown) {
  WriteRun();
  const std::vector<std::pair<Strings, Strings>> cases = {
      {{}, {"COMMAND is missing", "ringlet --help"}},
      {{"trian", "run.json"}, {"unknown command 'trian'", "'train'"}},
      {{"--hlep"}, {"unknown flag '--hlep'", "'--help'"}},
      {{"train"}, {"RUN.json is missing", "ringlet train --help"}},
      {{"train", "run.json", "other.json"},
       {"'other.json' is one argument too many"}},
      {{"train", "run.json", "--epoch", "1"},
       {"unknown flag '--epoch'", "'--epochs'"}},
      {{"train", "run.json", "--epochs"}, {"--epochs is the last word"}},
      {{"train", "run.json", "--epochs", "two"},
       {"wrong number for --epochs: two", "a whole number from 0"}},
      {{"train", "run.json", "--epochs=-1"}, {"wrong number for --epochs: -1"}},
      {{"train", "run.json", "--epochs", "99999999999999999999"},
       {"wrong number for --epochs"}},
      {{"train", "run.json", "--seed", "1", "--seed", "2"},
       {"--seed stands twice"}},
      {{"train", "run.json", "--batch-size=0"},
       {"wrong number for --batch-size: 0"}},
      {{"train", "run.json", "--no-shuffle=1"},
       {"--no-shuffle takes no value"}},
      {{"train", "run.json", "--save="}, {"--save: its value is empty"}},
      {{"train", "run.json", "-x"}, {"unknown flag '-x'"}},
      {{"train", ""}, {"an argument is empty", "RUN.json"}},
      {{"train", "run.json", "--threads", "9999"},
       {"wrong number for --threads: 9999", "1 to 1024"}},
      {{"launch", "--", "ls"}, {"-n is missing"}},
      {{"launch", "-n", "2", "--"}, {"COMMAND is missing"}},
      {{"launch", "-n", "0", "--", "ls"}, {"wrong number for -n: 0"}},
  };
  for (const auto& [arguments, says] : cases) ExpectError(arguments, 2, says);
}

TEST_F(ProgramTest, AWrongRunIsRefusedByItsPlace) {
  const struct {
    const char *from, *to;
    int code;
    Strings says;
  } cases[] = {
      // JSON.
      {"\"callbacks\": []",
       "\"callbacks\": [",
       2,
       {"run.json: line 20, near column 1: "}},
      {"\"fit\"", "\"fit\": {}, \"fit\"", 2, {"the key \"fit\" stands twice"}},
      {"{\n  \"model\"", "[{\"model\"", 2, {"run.json: line "}},
      // Names.
      {"\"compile\"",
       "\"complie\"",
       2,
       {"unknown field 'complie'", "'compile'"}},
      {"\"batch_size\"",
       "\"batchsize\"",
       2,
       {"run.json: fit: unknown field 'batchsize'", "'batch_size'"}},
      {"\"images\"",
       "\"image\"",
       2,
       {"data.train: unknown field 'image'", "'images'"}},
      {"\"units\": 8", "\"unit\": 8", 2, {"unknown field 'unit'", "'units'"}},
      {"\"Flatten\"", "\"Flaten\"", 2, {"layers[1]", "'Flaten'", "'Flatten'"}},
      {"\"adam\"", "\"adan\"", 2, {"compile.optimizer", "'adan'"}},
      {"\"SparseCategoricalCrossentropy\"",
       "\"Crossentropy\"",
       2,
       {"compile.loss", "'Crossentropy'"}},
      {"[\"accuracy\"]",
       "[\"accuracy\", \"acuracy\"]",
       2,
       {"compile.metrics[1]", "'acuracy'"}},
      // Types and ranges.
      {"\"batch_size\": 16",
       "\"batch_size\": \"16\"",
       2,
       {"fit.batch_size: is \"16\"", "a whole number from 1"}},
      {"\"epochs\": 2", "\"epochs\": 2.5", 2, {"fit.epochs: is 2.5"}},
      {"\"epochs\": 2",
       "\"epochs\": 2, \"shuffle\": 1",
       2,
       {"fit.shuffle: is 1; must be true or false"}},
      {"\"epochs\": 2",
       "\"epochs\": 2, \"validation_freq\": [0]",
       2,
       {"fit.validation_freq"}},
      {"\"scale\": 0.00392156862745098",
       "\"scale\": \"1/255\"",
       2,
       {"data.train.scale: is \"1/255\"; must be a number"}},
      {"[\"accuracy\"]",
       "\"accuracy\"",
       2,
       {"compile.metrics: is \"accuracy\"; must be a list"}},
      // The parts together.
      {"\"units\": 10", "\"units\": 0", 2, {"units"}},
      {"[null, 28, 28]", "[null, 28, 14]", 2, {"(28, 28)", "(28, 14)"}},
      {"\"units\": 10",
       "\"units\": 5",
       1,
       {"data.train", "train-labels-idx1-ubyte.gz: example",
        "label 9 is not a class number from 0 to 4"}},
      {"\"train\": {",
       "\"train\": {\"csv\": \"a.csv\", ",
       2,
       {"data.train: must have one of"}},
      {"\"data\": {\n    \"train\"",
       "\"data\": {\n    \"validation\"",
       2,
       {"the key \"validation\" stands twice"}},
      {"\"scale\"",
       "\"in_memory\": false, \"scale\"",
       2,
       {"train-images-idx3-ubyte.gz", "unpack it"}},
      {"@DATA@/train-labels",
       "@DATA@/t10k-labels",
       2,
       {"t10k-labels-idx1-ubyte.gz", "2000", "400"}},
      {"@DATA@/train-images-idx3",
       "@DATA@/train-labels-idx1",
       2,
       {"train-labels-idx1-ubyte.gz"}},
      {"@DATA@/train-images",
       "nothing/train-images",
       2,
       {"data.train", "/train-images-idx3-ubyte.gz"}},
      {"@DATA@/train-images-idx3-ubyte.gz",
       "run.json",
       2,
       {"run.json: is a RUN.json, not idx"}},
      {"@DATA@/train-images-idx3-ubyte.gz", ".", 2, {"not a regular file"}},
      {"@DATA@/train-images-idx3-ubyte.gz",
       "run.json/x",
       2,
       {"data.train: run.json/x", "Not a directory"}},
      {"\"batch_size\": 16",
       "\"batch_size\": 1e9",
       2,
       {"fit.batch_size", "from 1 to 16777216"}},
      {"{\"class_name\": \"Flatten\"}",
       "{\"class_name\": \"LSTM\", \"config\": {\"units\": 2}}",
       2,
       {"layers[1]", "Keras has the layer 'LSTM', ringlet has not"}},
      {"\"from_logits\": true",
       "\"from_logits\": 1",
       2,
       {"compile.loss.config.from_logits: is 1"}},
      // Callbacks and strategy.
      {"\"callbacks\": []",
       "\"callbacks\": [{\"class_name\": \"EarlyStop\"}]",
       2,
       {"callbacks[0]", "'EarlyStop'", "'EarlyStopping'"}},
      {"\"callbacks\": []",
       "\"callbacks\": [{\"class_name\": \"EarlyStopping\", \"config\": "
       "{\"patient\": 1}}]",
       2,
       {"callbacks[0].config: unknown field 'patient'", "'patience'"}},
      {"\"callbacks\": []",
       "\"callbacks\": [{\"class_name\": \"EarlyStopping\", \"config\": "
       "{\"mode\": \"up\"}}]",
       2,
       {"callbacks[0].config.mode: unknown mode 'up'"}},
      {"\"callbacks\": []",
       "\"callbacks\": [{\"class_name\": \"ModelCheckpoint\", \"config\": "
       "{\"filepath\": \"c/{val_los:.2f}.safetensors\"}}]",
       2,
       {"model_checkpoint", "'val_los'", "nearest known is 'val_loss'"}},
      {"\"callbacks\": []",
       "\"callbacks\": [\"LearningRateScheduler\"]",
       2,
       {"callbacks[0]: is \"LearningRateScheduler\"", "ExponentialDecay"}},
      {"\"callbacks\": []",
       "\"callbacks\": [\"BackupAndRestore\"]",
       2,
       {"callbacks[0].backup_dir: is missing"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"policy\": \"shirnk\"}",
       2,
       {"strategy.policy", "'shirnk'"}},
      {"{\"class_name\": \"SparseCategoricalCrossentropy\",\n"
       "             \"config\": {\"from_logits\": true}}",
       "null",
       2,
       {"compile.loss: is null; must be a name or an object"}},
      {"\"epochs\": 2",
       "\"epochs\": 2, \"class_weight\": {\"0\": 2}",
       2,
       {"fit: Keras has the argument of fit 'class_weight'"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"timeout\": 0}",
       2,
       {"strategy.timeout: is 0"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"min_worker\": 2}",
       2,
       {"strategy: unknown field 'min_worker'", "'min_workers'"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"communication\": {\"wire_dtype\": \"float8\"}}",
       2,
       {"strategy.communication.wire_dtype", "'float8'", "bfloat16"}},
  };
  for (const auto& c : cases) ExpectRunError(c.from, c.to, c.code, c.says);
}

TEST_F(ProgramTest, WhatCannotBeReadOrWrittenIsNamed) {
  ExpectError({"train", "none.json"}, 2, {"none.json", "No such file"});
  ExpectError({"train", "."}, 2, {"error: .", "not a regular file"});
  WriteRun();
  ExpectError({"train", "run.json", "--save", "no/such/model"}, 2,
              {"--save no/such/model", "No such file"});
  ExpectError({"train", "run.json", "--save", "."}, 2, {"--save .", "folder"});
  ExpectError({"train", "run.json", "--log-steps", "no/steps.csv"}, 2,
              {"--log-steps no/steps.csv"});
  ExpectError({"train", "run.json", "--init", "none"}, 2,
              {"--init", "none", "No such file"});
  ExpectError({"train", "run.json", "--init", "run.json"}, 2,
              {"--init: run.json: is a RUN.json, not safetensors or npz"});
  // An earlier run's file is not touched by one that is refused.
  WriteWhole(folder_ / "steps.csv", "mine");
  ExpectRunError("[null, 28, 28]", "[null, 28, 14]", 2, {"(28, 14)"});
  EXPECT_EQ(ReadWhole(folder_ / "steps.csv"), "mine");
}

TEST_F(ProgramTest, AModelFileIsReadBesideTheRun) {
  const std::string run = kRun;
  const size_t begin = run.find("{\"class_name\": \"Sequential\""),
               end = run.find(",\n  \"compile\"");
  const std::string model = run.substr(begin, end - begin);
  std::filesystem::create_directory(folder_ / "models");
  WriteWhole(folder_ / "models/m.json", model);
  WriteRun(model, "\"models/m.json\"");
  EXPECT_EQ(Run({"train", "run.json", "--epochs", "1"}), 0) << err_;
  WriteWhole(folder_ / "models/m.json", Replaced(model, "Dense", "Dens"));
  ExpectError({"train", "run.json"}, 2, {"models/m.json", "'Dens'"});
  std::filesystem::remove(folder_ / "models/m.json");
  ExpectError({"train", "run.json"}, 2, {"model", "models/m.json"});
}

// json.dump() of to_json(), which is a string already.
TEST_F(ProgramTest, AModelMayBeAStringOfJson) {
  const std::string text = R"({"class_name": "Sequential", "config": {"layers":
      [{"class_name": "Dense", "config": {"units": 2,
        "batch_input_shape": [null, 3]}}]}})";
  std::string quoted = "\"";
  for (const char c : text) {
    if (c != '\n') quoted += c == '"' ? "\\\"" : std::string(1, c);
  }
  quoted += '"';
  const auto run = [this](const std::string& model) {
    WriteWhole(folder_ / "run.json",
               "{\"model\": " + model + ", \"compile\": {\"loss\": \"mse\"}}");
  };
  run(text);
  ASSERT_EQ(Run({"plan", "run.json"}), 0) << err_;
  const std::string plan = out_;
  run(quoted);
  EXPECT_EQ(Run({"plan", "run.json"}), 0) << err_;
  EXPECT_EQ(out_, plan);
  WriteWhole(folder_ / "m.json", quoted);
  run("\"m.json\"");
  EXPECT_EQ(Run({"plan", "run.json"}), 0) << err_;
  EXPECT_EQ(out_, plan);
  run(Replaced(quoted, "Dense", "Dens"));
  ExpectError({"plan", "run.json"}, 2, {"run.json: ", "model", "'Dens'"});
  run("\"{x\"");
  ExpectError({"plan", "run.json"}, 2,
              {"run.json: model: line 1, near column 3"});
}

TEST_F(ProgramTest, ConfigurationsWrittenByKerasAreTaken) {
  int taken = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           EnvironmentOr("RINGLET_SOURCE", ".") + "/tests/keras_json")) {
    SCOPED_TRACE(entry.path());
    WriteWhole(folder_ / "run.json", "{\"model\": \"" + entry.path().string() +
                                         "\", \"compile\": {\"loss\": "
                                         "\"mse\"}}");
    EXPECT_EQ(Run({"plan", "run.json"}), 0) << err_;
    ++taken;
  }
  EXPECT_GE(taken, 5);
}

TEST_F(ProgramTest, ATfConfigFaultIsNamed) {
  WriteRun();
  const char kTwo[] = R"({"cluster": {"worker": ["localhost:1",
      "localhost:2"]}, "task": {"type": "worker", "index": 0}})";
  const std::vector<std::pair<std::string, Strings>> cases = {
      {"{\"cluster\": ", {"line 1, near column 13"}},
      {"[]", {"is a list", "an object"}},
      {Replaced(kTwo, "0}", "2}"), {"index", "the last is 1"}},
      {Replaced(kTwo, "0}", "-1}"), {"index", "a whole number from 0"}},
      {Replaced(kTwo, "0}", "\"a\"}"), {"index is 'a'"}},
      {Replaced(kTwo, "localhost:2", "localhost"), {"has no port"}},
      {Replaced(kTwo, "localhost:2", "localhost:99999"), {"1 to 65535"}},
      {Replaced(kTwo, "localhost:2", "localhost:1"), {"is given twice"}},
      {Replaced(kTwo, "\"localhost:2\"", "3"), {"must be a string"}},
      {Replaced(kTwo, "\"type\": \"worker\"", "\"type\": \"wroker\""),
       {"'wroker'", "\"worker\""}},
      {Replaced(kTwo, "\"worker\":", "\"ps\":"), {"no parameter servers"}},
      {R"({"cluster": {"worker": ["localhost:1"]}})", {"add \"task\""}},
  };
  for (const auto& [config, says] : cases) {
    SCOPED_TRACE(config);
    environment_ = {{"TF_CONFIG", config}};
    Strings all = says;
    all.push_back("TF_CONFIG");
    ExpectError({"train", "run.json", "--save", "m", "--log-steps", "s"}, 2,
                all);
  }
  environment_ = {{"TF_CONFIG", R"({"cluster": {"worker": ["localhost:1"],
      "evaluator": ["localhost:2"]},
      "task": {"type": "evaluator", "index": 0}})"}};
  ExpectError({"train", "run.json"}, 2, {"an evaluator", "ringlet evaluate"});
  environment_.clear();
  WriteRun("\"callbacks\": []", "\"strategy\": {\"min_workers\": 2}");
  ExpectError({"train", "run.json"}, 2,
              {"run.json: strategy.min_workers: is 2", "TF_CONFIG"});
}

TEST_F(ProgramTest, CallbacksThatCannotWriteAreToldBeforeTheFirstStep) {
  const auto expect = [this](const std::string& name, const std::string& config,
                             int code, const Strings& says) {
    ExpectRunError("\"callbacks\": []",
                   "\"callbacks\": [{\"class_name\": \"" + name +
                       "\", \"config\": {" + config + "}}]",
                   code, says);
  };
  expect("BackupAndRestore", "\"backup_dir\": \"run.json/b\"", 2,
         {"backup_and_restore: run.json", "not a directory"});
  expect("ModelCheckpoint", "\"filepath\": \"run.json/b.safetensors\"", 2,
         {"model_checkpoint: run.json", "not a directory"});
  expect("ModelCheckpoint", "\"filepath\": \"m.keras\"", 2,
         {"model_checkpoint", "must end in `.safetensors`"});
  expect("TensorBoard", "\"log_dir\": \"run.json\"", 2,
         {"tensorboard: run.json", "not a directory"});
  expect("CSVLogger", "\"filename\": \"no/log.csv\"", 2,
         {"csv_logger: no/log.csv", "No such file"});
  expect("EarlyStopping", "\"monitor\": \"acuracy\"", 2,
         {"early_stopping: monitor='acuracy'", "mode"});
  std::filesystem::create_directory(folder_ / "d.safetensors");
  expect("ModelCheckpoint", "\"filepath\": \"d.safetensors\"", 2,
         {"model_checkpoint", "existing directory: d.safetensors"});
}

// What root may read is no test.
TEST_F(ProgramTest, WhatMayNotBeReadOrWrittenIsNamed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read and write all";
  std::filesystem::create_directory(folder_ / "closed");
  WriteRun("@DATA@/train-images-idx3-ubyte.gz", "closed/x");
  chmod((folder_ / "closed").c_str(), 0);
  ExpectError({"train", "closed/run.json"}, 1,
              {"closed/run.json", "Permission denied"});
  ExpectError({"train", "run.json"}, 1, {"closed/x", "Permission denied"});
  ExpectError({"train", "run.json", "--save", "closed/m"}, 1,
              {"--save closed/m", "Permission denied"});
  chmod((folder_ / "closed").c_str(), 0700);
}

// --- what a first hour meets ---

TEST_F(ProgramTest, AFileThatIsNotThereIsNamedWithItsFolder) {
  const std::string here = std::filesystem::canonical(folder_.path()).string();
  WriteRun();
  for (const Strings& line : {Strings{"inspect", "m.safetensors"},
                              {"summary", "m.safetensors"},
                              {"diff", "m.safetensors", "run.json"},
                              {"export", "m.safetensors", "--out", "w.npz"}}) {
    EXPECT_EQ(Run(line), 2);
    EXPECT_EQ(err_, "error: m.safetensors, from the current folder " + here +
                        ": No such file or directory\n");
  }
}

TEST_F(ProgramTest, AFarNameIsAnsweredByAllThatAreKnown) {
  WriteRun();
  EXPECT_EQ(Run({"evaluat"}), 2);
  EXPECT_EQ(err_,
            "error: unknown command 'evaluat'; the nearest known is 'evaluate' "
            "(see 'ringlet --help')\n");
  EXPECT_EQ(Run({"test"}), 2);
  EXPECT_EQ(err_,
            "error: unknown command 'test'; known are 'train', 'evaluate', "
            "'predict', 'launch', 'plan', 'summary', 'inspect', 'diff', "
            "'export' (see 'ringlet --help')\n");
  EXPECT_EQ(Run({"inspect", "--verbose", "x"}), 2);
  EXPECT_EQ(err_,
            "error: unknown flag '--verbose'; known are '--help', '--json' "
            "(see 'ringlet inspect --help')\n");
  EXPECT_EQ(Run({"inspect", "-json", "x"}), 2);
  EXPECT_EQ(err_,
            "error: unknown flag '-json'; the nearest known is '--json' (see "
            "'ringlet inspect --help')\n");
  // No word of which nothing is left.
  EXPECT_EQ(Run({"launch", "-x"}), 2);
  EXPECT_NE(err_.find("unknown flag '-x'; known are "), std::string::npos)
      << err_;
  WriteRun("\"callbacks\"", "\"optimizer\"");
  EXPECT_EQ(Run({"plan", "run.json"}), 2);
  EXPECT_EQ(err_,
            "error: run.json: unknown field 'optimizer'; known are '$schema', "
            "'model', 'compile', 'data', 'fit', 'callbacks', 'strategy'\n");
}

TEST_F(ProgramTest, WeightsThatDifferNameFlagsThatAreThere) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0);
  WriteRun("{\"units\": 10}", "{\"units\": 10, \"name\": \"head\"}");
  const std::string refused =
      "error: run.json: --init: m: the weights are not this model's: missing "
      "in the file 'head/kernel', 'head/bias'; in the file only "
      "'dense_1/kernel', 'dense_1/bias'. by_name (--by-name) takes the layers "
      "that both have, skip_mismatch (--skip-mismatch) passes over those that "
      "differ\n";
  EXPECT_EQ(Run({"train", "run.json", "--init", "m"}), 2);
  EXPECT_EQ(err_, refused);
  for (const char* command : {"evaluate", "predict"}) {
    EXPECT_EQ(Run({command, "run.json", "--init", "m"}), 2);
    EXPECT_EQ(err_, Replaced(refused, "run.json: ", ""));
  }
  for (const char* flag : {"--by-name", "--skip-mismatch"}) {
    EXPECT_EQ(Run({"train", "run.json", "--init", "m", flag}), 0) << err_;
    EXPECT_EQ(Run({"evaluate", "run.json", "--init", "m", flag}), 0) << err_;
    EXPECT_NE(err_.find("warning: m: passed over: "), std::string::npos);
    EXPECT_EQ(Run({"predict", "run.json", "--init", "m", flag}), 0) << err_;
    ExpectError({"train", "run.json", flag}, 2,
                {flag + std::string(": there is no --init")});
  }
}

TEST_F(ProgramTest, FilesOfOtherProgramsAreSaidToBeWhatTheyAre) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  WriteRun();
  WriteWhole(folder_ / "make.py", R"(
import os, sys, zipfile
os.chdir(sys.argv[1])
def archive(path, names):
    with zipfile.ZipFile(path, "w") as z:
        for name in names: z.writestr(name, "x")
archive("m.keras", ["metadata.json", "config.json", "model.weights.h5"])
archive("m.pt", ["m/data.pkl", "m/data/0"])
archive("m.zip", ["a.txt"])
open("m.h5", "wb").write(b"\x89HDF\r\n\x1a\n" + bytes(100))
)");
  RunPython(folder_ / "make.py" + " " + folder_.path());
  const struct {
    const char *name, *what, *advice;
  } cases[] = {
      {"m.keras", "a model of Keras 3 (.keras)",
       "in Python: m = keras.models.load_model(\"m.keras\"); "
       "numpy.savez(\"w.npz\", *m.get_weights()); open(\"model.json\", "
       "\"w\").write(m.to_json()). Then \"model\": \"model.json\" in RUN.json, "
       "and --init w.npz"},
      {"m.h5", "an HDF5 file, as Keras's .h5 and .weights.h5",
       "in Python: m = keras.models.load_model(\"m.h5\"), or of weights alone "
       "m.load_weights(\"m.h5\") of the model; numpy.savez(\"w.npz\", "
       "*m.get_weights()). Then --init w.npz"},
      {"m.pt", "a file of PyTorch (.pt, .pth)",
       "in Python: s = torch.load(\"m.pt\", map_location=\"cpu\"), of a whole "
       "model its state_dict(); numpy.savez(\"w.npz\", **{k: v.numpy() for k, "
       "v in s.items()}). Then --init w.npz --init-layout torch"},
      {"m.zip", "a zip archive", "unpack it: unzip m.zip"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string name = c.name,
                      size = std::to_string(
                          std::filesystem::file_size(folder_ / name));
    EXPECT_EQ(Run({"inspect", name}), 0) << err_;
    EXPECT_EQ(out_, name + ": " + size + " bytes, " + c.what + "\n" + c.advice +
                        "\n");
    EXPECT_EQ(Run({"inspect", name, "--json"}), 0) << err_;
    EXPECT_NE(out_.find("\"what\":"), std::string::npos) << out_;
    const std::string refused = name + ": is " + c.what + ", not safetensors";
    ExpectError({"diff", name, name}, 2, {refused + " or npz", c.advice});
    ExpectError({"train", "run.json", "--init", name}, 2,
                {"--init: " + refused + " or npz", c.advice});
    ExpectError({"evaluate", name, "--data", "run.json"}, 2,
                {refused, c.advice});
    ExpectError({"summary", name}, 2, {refused, c.advice});
    ExpectError({"predict", "run.json", "--init", name, "--x", name}, 2,
                {refused});
    ExpectError({"train", name}, 2, {name + ": is " + c.what, "not RUN.json"});
  }
}

TEST_F(ProgramTest, WeightsAsKerasNamesThemAreTaken) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0);
  ASSERT_EQ(Run({"export", "m", "--out", "w.npz"}), 0) << err_;
  WriteWhole(folder_ / "make.py", R"(
import os, sys, numpy
os.chdir(sys.argv[1])
w = dict(numpy.load("w.npz"))
weights = [w["dense/kernel"], w["dense/bias"], w["dense_1/kernel"], w["dense_1/bias"]]
numpy.savez("list.npz", *weights)
numpy.savez("numbered.npz", **{k + ":0": v for k, v in w.items()})
numpy.savez("groups.npz", **{"sequential/" + k: v for k, v in w.items()})
numpy.savez("wide.npz", **{k: v.astype("f8") for k, v in w.items()})
numpy.savez("turned.npz", *[numpy.asfortranarray(v) for v in weights])
numpy.savez("short.npz", *weights[:3])
)");
  RunPython(folder_ / "make.py" + " " + folder_.path());
  ASSERT_EQ(Run({"evaluate", "m", "--data", "run.json", "--json"}), 0);
  const std::string logs = out_;
  for (const char* name :
       {"list.npz", "numbered.npz", "groups.npz", "wide.npz", "turned.npz"}) {
    EXPECT_EQ(Run({"evaluate", "run.json", "--init", name, "--json"}), 0)
        << err_;
    EXPECT_EQ(out_, logs) << name;
    EXPECT_EQ(err_, "");
  }
  EXPECT_EQ(Run({"evaluate", "run.json", "--init", "short.npz"}), 2);
  EXPECT_EQ(err_,
            "error: --init: short.npz: holds 3 arrays without names (arr_0 and "
            "so on), but the model has 4 weights; write numpy.savez(file, "
            "*model.get_weights()), or arrays with names, as "
            "\"dense/kernel\"\n");
  // Looked at and compared as safetensors are.
  ASSERT_EQ(Run({"inspect", "list.npz"}), 0) << err_;
  EXPECT_NE(out_.find(" bytes, npz, 4 tensors, verified\n"), std::string::npos)
      << out_;
  EXPECT_NE(out_.find("arr_0  F32  (784, 8)"), std::string::npos) << out_;
  EXPECT_EQ(Run({"diff", "w.npz", "w.npz"}), 0);
  EXPECT_EQ(Run({"diff", "w.npz", "wide.npz"}), 1);
  EXPECT_NE(out_.find("tensor 'dense/bias': dtype F32 in A, F64 in B"),
            std::string::npos)
      << out_;
  // Ringlet's own beside them: the weights are the same.
  ASSERT_EQ(Run({"diff", "m", "w.npz"}), 1) << err_;
  EXPECT_EQ(out_.find("dense/"), out_.find("optimizer/momentum/dense/") + 19)
      << out_;
}

// A CSV of two values and a label, without names in its first line.
TEST_F(ProgramTest, ACsvWithoutAHeaderLosesNoRow) {
  const std::string rows = "5.5,3.5,0\n4.5,3,1\n6,2,0\n5,2.5,1\n";
  WriteWhole(folder_ / "d.csv", rows);
  const auto write = [&](const std::string& more) {
    WriteWhole(folder_ / "csv.json", R"({
      "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
        {"class_name": "Dense", "config": {"units": 2}}]}},
      "compile": {"optimizer": "sgd",
                  "loss": "sparse_categorical_crossentropy"},
      "data": {"train": {"csv": "d.csv")" +
                                         more + R"(}},
      "fit": {"batch_size": 1, "shuffle": false}})");
  };
  const std::string told =
      "note: d.csv: line 1 holds numbers and is read as data, not as names; "
      "where that is wrong say \"header\": true in RUN.json "
      "(evaluate, predict: --header)\n";
  write("");
  ASSERT_EQ(Run({"train", "csv.json", "--save", "m"}), 0) << err_;
  EXPECT_NE(err_.find(told), std::string::npos) << err_;
  EXPECT_NE(out_.find("4/4 - "), std::string::npos) << out_;
  for (const char* flag : {"--save", "--log-steps"}) {
    ASSERT_EQ(symlink("d.csv", (folder_ / "same").c_str()), 0);
    ExpectError({"train", "csv.json", flag, "same"}, 2,
                {std::string(flag) + " same: holds the data that are read"});
    ASSERT_EQ(unlink((folder_ / "same").c_str()), 0);
  }
  EXPECT_EQ(ReadWhole(folder_ / "d.csv"), rows);
  write(", \"header\": true");
  ASSERT_EQ(Run({"train", "csv.json"}), 0) << err_;
  EXPECT_EQ(err_.find("note: d.csv"), std::string::npos) << err_;
  EXPECT_NE(out_.find("3/3 - "), std::string::npos) << out_;
  for (const Strings& more : {Strings{}, {"--header"}, {"--no-header"}}) {
    Strings line = {"predict", "m", "--csv", "d.csv"};
    line.insert(line.end(), more.begin(), more.end());
    ASSERT_EQ(Run(line), 0) << err_;
    EXPECT_EQ(err_, more.empty() ? told : "");
    EXPECT_EQ(Lines(out_).size(),
              !more.empty() && more[0] == "--header" ? 3u : 4u);
  }
  ExpectError({"predict", "m", "--csv", "d.csv", "--header", "--no-header"}, 2,
              {"one at a time"});
  ExpectError({"evaluate", "m", "--data", "csv.json", "--header"}, 2,
              {"--header and --no-header are of a --csv"});

  // Labels that are names; a file with fewer of them cannot be told.
  WriteWhole(folder_ / "d.csv", "a,b,kind\n5.5,3.5,x\n4.5,3,y\n6,2,x\n");
  write("");
  ASSERT_EQ(Run({"train", "csv.json", "--save", "n"}), 0) << err_;
  EXPECT_NE(
      err_.find("note: d.csv: labels are names, classes in their order: 0 "
                "'x', 1 'y'\n"),
      std::string::npos)
      << err_;
  ASSERT_EQ(Run({"evaluate", "n", "--csv", "d.csv"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "n", "--csv", "d.csv"}), 0) << err_;
  EXPECT_EQ(Lines(out_).size(), 3u);
  WriteWhole(folder_ / "less.csv", "a,b,kind\n5.5,3.5,y\n");
  EXPECT_EQ(Run({"evaluate", "n", "--csv", "less.csv"}), 2);
  EXPECT_NE(err_.find("error: less.csv: its labels have 1 different names, but "
                      "the model tells 2 classes apart"),
            std::string::npos)
      << err_;
  write("}, \"validation\": {\"csv\": \"less.csv\"");
  EXPECT_EQ(Run({"train", "csv.json"}), 2);
  EXPECT_NE(err_.find("the labels of d.csv have 2 names, those of less.csv 1"),
            std::string::npos)
      << err_;
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

TEST_F(ProgramTest, ThePlanSaysWhatALinkTakes) {
  WriteRun();
  ASSERT_EQ(Run({"plan", "run.json"}), 0) << err_;
  EXPECT_EQ(out_.find("seconds"), std::string::npos) << out_;
  ASSERT_EQ(Run({"plan", "run.json", "--workers", "3"}), 0) << err_;
  // 6,370 floats: 2 * 2/3 of 25,480 bytes.
  EXPECT_NE(out_.find("  gradients, float32                           33972\n"
                      "seconds a step for these, at least:\n"
                      "  Ethernet of 100 Mbit/s                       0.003\n"
                      "  Wi-Fi of 20 Mbit/s                           0.014\n"),
            std::string::npos)
      << out_;
  WriteRun("\"callbacks\": []",
           "\"strategy\": {\"communication\": {\"wire_dtype\": "
           "\"bfloat16\"}}");
  ASSERT_EQ(Run({"plan", "run.json", "--workers", "3", "--link", "1M"}), 0);
  EXPECT_NE(out_.find("  gradients, bfloat16                          16986\n"
                      "seconds a step for these, at least:\n"
                      "  --link                                       0.136\n"),
            std::string::npos)
      << out_;
  ASSERT_EQ(Run({"plan", "run.json", "--workers=2", "--link=8K", "--json"}), 0);
  EXPECT_NE(out_.find("\"wire_dtype\":\"bfloat16\",\"wire_bytes\":12740,"
                      "\"wire_seconds\":[{\"bits_per_second\":8000,"
                      "\"seconds\":12.74}]"),
            std::string::npos)
      << out_;
  ExpectError({"plan", "run.json", "--link", "fast"}, 2,
              {"wrong number for --link: fast; it takes bits a second"});
}

TEST_F(ProgramTest, TheUmaskSaysWhoMayReadWhatIsWritten) {
  WriteRun("\"callbacks\": []", R"("callbacks": [
    {"class_name": "TensorBoard", "config": {"log_dir": "logs"}},
    {"class_name": "CSVLogger", "config": {"filename": "log.csv"}},
    {"class_name": "ModelCheckpoint", "config": {"filepath": "c.safetensors"}},
    {"class_name": "BackupAndRestore",
     "config": {"backup_dir": "backup", "delete_checkpoint": false}}])");
  const mode_t before = umask(0027);
  EXPECT_EQ(Run({"train", "run.json", "--save", "m", "--log-steps", "s"}), 0);
  EXPECT_EQ(Run({"export", "m", "-o", "w.npz"}), 0);
  EXPECT_EQ(Run({"export", "m", "-o", "w.safetensors"}), 0);
  EXPECT_EQ(Run({"predict", "m", "--data", "run.json", "-o", "p.npy"}), 0);
  EXPECT_EQ(Run({"predict", "m", "--data", "run.json", "-o", "p.csv"}), 0);
  umask(before);
  int count = 0;
  for (const std::string& name : Files()) {
    struct stat info;
    ASSERT_EQ(stat(name.c_str(), &info), 0);
    if (!S_ISREG(info.st_mode) || name == folder_ / "run.json") continue;
    EXPECT_EQ(info.st_mode & 0777, 0640u) << name;
    ++count;
  }
  EXPECT_GE(count, 10);
}

// --- train ---

TEST_F(ProgramTest, TrainsSavesAndGoesOnFromTheSavedWeights) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "w", "--log-steps", "a.csv"}),
            0)
      << err_;
  EXPECT_EQ(err_, "");
  EXPECT_NE(out_.find("Epoch 2/2"), std::string::npos) << out_;
  EXPECT_NE(out_.find("val_accuracy"), std::string::npos) << out_;
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
  EXPECT_NE(out_.find(printed), std::string::npos) << printed << "\n" << out_;

  ASSERT_EQ(Run({"train", "run.json", "--init", "w", "--log-steps", "b.csv"}),
            0)
      << err_;
  const Strings later = Lines(ReadWhole(folder_ / "b.csv"));
  ASSERT_EQ(later.size(), 7u);
  EXPECT_NE(later[1], rows[1]);
}

TEST_F(ProgramTest, TheSameRunGivesTheSameBytes) {
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

TEST_F(ProgramTest, FlagsGoBeforeFields) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--epochs=1", "--steps-per-epoch", "5",
                 "--batch-size", "7", "--log-steps", "s.csv", "--threads", "2",
                 "--no-shuffle"}),
            0)
      << err_;
  const Strings rows = Lines(ReadWhole(folder_ / "s.csv"));
  ASSERT_EQ(rows.size(), 6u);
  for (size_t i = 1; i < rows.size(); ++i) {
    // Of 7 examples the accuracy is a number of sevenths.
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

TEST_F(ProgramTest, WithoutStepsPerEpochAnEpochIsTheWholeData) {
  WriteRun(", \"steps_per_epoch\": 3", "");
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--batch-size", "300",
                 "--log-steps", "s.csv"}),
            0)
      << err_;
  EXPECT_EQ(Lines(ReadWhole(folder_ / "s.csv")).size(), 8u);  // 2000 / 300
}

TEST_F(ProgramTest, CallbacksWriteBesideTheRun) {
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

TEST_F(ProgramTest, BackupStaysWhereTheTrainedModelCannotBeSaved) {
  // The folder m.safetensors, made in the run, is in the model's way.
  WriteRun("\"callbacks\": []", R"("callbacks": [
    {"class_name": "BackupAndRestore", "config": {"backup_dir": "backup"}},
    {"class_name": "ModelCheckpoint",
      "config": {"filepath": "m.safetensors/{epoch}.safetensors"}}])");
  EXPECT_NE(Run({"train", "run.json", "--save", "m.safetensors"}), 0);
  EXPECT_NE(err_.find("m.safetensors: "), std::string::npos) << err_;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "backup/checkpoint"));
  // Trained already; saved now.
  ASSERT_EQ(Run({"train", "run.json", "--save", "n.safetensors"}), 0) << err_;
  EXPECT_EQ(out_.find("Epoch"), std::string::npos) << out_;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "n.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "backup/checkpoint"));
}

TEST_F(ProgramTest, ASplitValidatesOnTheEndOfTheData) {
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
  ASSERT_NE(out_.find("val_loss"), std::string::npos) << out_;
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

TEST_F(ProgramTest, AStoppedRunGoesOnWithTheSameRows) {
  WriteRun("\"callbacks\": []", R"("callbacks": [{"class_name":
    "BackupAndRestore", "config": {"backup_dir": "backup", "save_freq": 1}}])");
  ASSERT_EQ(Run({"train", "run.json", "--log-steps", "whole.csv"}), 0) << err_;
  Start(
      {"train", "run.json", "--epochs", "2000000", "--log-steps", "part.csv"});
  for (int i = 0; i < 3000; ++i) {
    if (Lines(ReadWhole(folder_ / "part.csv")).size() > 5) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
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

TEST_F(ProgramTest, NpyAndCsvDataTrain) {
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
  // Also where the damage is far behind what is trained on first.
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

TEST_F(ProgramTest, DataOnDiskAreReadOnlyToBeTrainedOn) {
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

// --- what becomes of a trained model ---

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

// --- several workers ---

TEST_F(ProgramTest, TwoWorkersTakeTheStepsOfOneWithTwiceTheBatch) {
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
  EXPECT_NE(out_.find("[0] Epoch 2/2"), std::string::npos) << out_;
  // Of the other worker a line at the start and one at the end.
  size_t others = 0;
  for (const std::string& line : Lines(out_)) {
    others += line.compare(0, 4, "[1] ") == 0 ? 1 : 0;
  }
  EXPECT_EQ(others, 2u) << out_;
  EXPECT_NE(out_.find("[1] worker 1 of 2 at 127.0.0.1:"), std::string::npos)
      << out_;
  EXPECT_NE(out_.find("2 replicas in step, epochs 1 to 2; the chief at"),
            std::string::npos)
      << out_;
  EXPECT_NE(out_.find(": done: 2 epochs, 6 steps in all\n"), std::string::npos)
      << out_;
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

// The workers among the launcher's children, in the order of their ranks.
std::vector<pid_t> WorkersOf(pid_t launcher) {
  const std::string id = std::to_string(launcher);
  std::istringstream children(
      ReadWhole("/proc/" + id + "/task/" + id + "/children"));
  std::vector<pid_t> workers;
  for (pid_t child; children >> child;) {
    const std::string line =
        ReadWhole("/proc/" + std::to_string(child) + "/cmdline");
    if (line.find("train") != std::string::npos &&
        line.find("launch") == std::string::npos) {
      workers.push_back(child);
    }
  }
  return workers;
}

TEST_F(ProgramTest, AJobThatLosesAWorkerEndsWithTheBitsOfOneThatDidNot) {
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           R"("steps_per_epoch": 400}, "strategy": {"timeout": 20},
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
    for (int i = 0; i < 3000; ++i) {
      if (Lines(ReadWhole(folder_ / (name + ".csv"))).size() > 100) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::vector<pid_t> workers = WorkersOf(child_);
    if (workers.size() == 2) kill(workers[lost], SIGKILL);
    ASSERT_EQ(workers.size(), 2u);
    EXPECT_EQ(Wait(), 0) << err_;
    EXPECT_NE(err_.find("was ended by signal 9"), std::string::npos) << err_;
    EXPECT_NE(out_.find("[0] goes on at epoch 1, step "), std::string::npos)
        << out_;
    EXPECT_NE(out_.find(" of 400, from the memory of the workers\n"),
              std::string::npos)
        << out_;
    EXPECT_EQ(Run({"diff", "whole", name}), 0) << out_;
    EXPECT_TRUE(ReadWhole(folder_ / "whole.csv") ==
                ReadWhole(folder_ / (name + ".csv")));
  }
}

TEST_F(ProgramTest, AnAddressOfAnotherIsAnErrorThatNamesIt) {
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
  // Somebody else listens on this worker's port.
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

// --- plan ---

std::string Layered(const std::string& shape, const std::string& layers) {
  return R"({"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, )" +
         shape + "]}}, " + layers + "]}}";
}

// The bytes that a step of training takes, by taking one.
size_t BytesOfAStep(const std::string& model_json, const std::string& optimizer,
                    const std::string& loss, int threads, int64_t batch) {
  std::unique_ptr<Model> model;
  const Status read = ModelFromJson(model_json, &model);
  EXPECT_TRUE(read.ok()) << read.message();
  Optimizer o;
  Loss l;
  EXPECT_TRUE(OptimizerFromJson(optimizer, &o).ok());
  EXPECT_TRUE(LossFromJson(loss, &l).ok());
  CompileOptions options;
  options.threads = threads;
  model->Compile(o, l, {}, options);
  EXPECT_TRUE(model->status().ok()) << model->status().message();
  const int64_t examples = batch + 3;
  const std::vector<float> x(examples * model->input_shape().elements(), 0.5f),
      y(examples * l.targets(model->output_shape()), 1);
  FitOptions fit;
  fit.verbose = Verbose::kSilent;
  const Shape targets =
      l.takes_classes() ? Shape() : Shape(model->output_shape());
  const auto trained = model->Fit(
      Dataset(MemorySource({DType::kFloat32, model->input_shape()}, x.data(),
                           {DType::kFloat32, targets}, y.data(), examples))
          .Batch(batch),
      fit);
  EXPECT_TRUE(trained.ok()) << trained.status().message();
  return model->BytesUsed();
}

int64_t NumberAfter(const std::string& text, const std::string& key) {
  const size_t at = text.find("\"" + key + "\":");
  EXPECT_NE(at, std::string::npos) << key << " in " << text;
  return at == std::string::npos ? -1
                                 : std::stoll(text.substr(at + key.size() + 3));
}

// The parts that can be told without the plan are so, and all add up.
void ExpectParts(const std::string& plan, const std::string& model_json,
                 const std::string& optimizer, const std::string& loss,
                 int64_t batch) {
  std::unique_ptr<Model> model;
  ASSERT_TRUE(ModelFromJson(model_json, &model).ok());
  Optimizer o;
  Loss l;
  ASSERT_TRUE(OptimizerFromJson(optimizer, &o).ok());
  ASSERT_TRUE(LossFromJson(loss, &l).ok());
  const auto lines = [](int64_t floats) { return (floats + 15) / 16 * 64; };
  const int64_t x = model->input_shape().elements(),
                y = l.targets(model->output_shape());
  int64_t activations = 0;
  for (int i = 1; i < model->num_nodes(); ++i) {
    const Layer::Kind kind = model->layer(i).kind;
    if (kind == Layer::Kind::kFlatten) continue;  // the bytes of its input
    activations += lines(batch * model->output_shape(i).elements());
  }
  EXPECT_EQ(NumberAfter(plan, "batches"),
            2 * (lines(batch * x) + lines(batch * y)));
  EXPECT_EQ(NumberAfter(plan, "activations"), activations);
  EXPECT_GE(NumberAfter(plan, "activation_gradients"), 0);
  EXPECT_GE(NumberAfter(plan, "scratch"), lines(batch));
  // Compiled it has taken what it keeps.
  model->Compile(o, l);
  const int64_t kept = static_cast<int64_t>(model->BytesUsed());
  EXPECT_EQ(NumberAfter(plan, "weights"), lines(model->num_weights()));
  EXPECT_EQ(NumberAfter(plan, "gradients"), lines(model->num_weights()));
  EXPECT_EQ(NumberAfter(plan, "weights") + NumberAfter(plan, "gradients") +
                NumberAfter(plan, "slots"),
            kept);
  EXPECT_EQ(kept + NumberAfter(plan, "batches") +
                NumberAfter(plan, "activations") +
                NumberAfter(plan, "activation_gradients") +
                NumberAfter(plan, "scratch") - NumberAfter(plan, "shared"),
            NumberAfter(plan, "total"));
}

TEST_F(ProgramTest, ThePlanIsWhatAStepTakesToTheByte) {
  const std::string dense =
      R"({"class_name": "Dense", "config": {"units": 7}})";
  const std::string conv =
      R"({"class_name": "Conv2D", "config": {"filters": 5, "kernel_size": 3,
          "padding": "same", "activation": "relu"}})";
  const std::string pool = R"({"class_name": "MaxPooling2D"})";
  const std::string flatten = R"({"class_name": "Flatten"})";
  const std::string dropout =
      R"({"class_name": "Dropout", "config": {"rate": 0.25}})";
  const std::string softmax =
      R"({"class_name": "Dense", "config": {"units": 4,
          "activation": "softmax"}})";
  const std::string classes = "\"sparse_categorical_crossentropy\"";
  const struct {
    std::string model, optimizer, loss;
    int threads;
    int64_t batch;
  } cases[] = {
      {Layered("3", dense), "\"sgd\"", "\"mse\"", 1, 1},
      {Layered("3", dense), "\"adam\"", "\"mse\"", 2, 5},
      {Layered("100", dense + "," + dropout + "," + softmax), "\"rmsprop\"",
       classes, 1, 33},
      {Layered("9, 9, 2", conv + "," + flatten + "," + softmax), "\"adam\"",
       classes, 1, 16},
      {Layered("9, 9, 2",
               conv + "," + pool + "," + conv + "," + flatten + "," + softmax),
       "\"adam\"", classes, 2, 16},
      {Layered("28, 28, 1", conv + "," + pool + "," + flatten + "," + dense +
                                "," + dropout + "," + softmax),
       R"({"class_name": "SGD", "config": {"momentum": 0.9}})", classes, 1, 64},
      {Layered("8, 8, 3", flatten + "," + dense),
       R"({"class_name": "Adam", "config": {"amsgrad": true}})", "\"mae\"", 1,
       2},
      {Layered("20", R"({"class_name": "Dense", "config": {"units": 50,
          "activation": "tanh"}}, )" +
                         softmax),
       R"({"class_name": "SGD", "config": {"clipnorm": 1.0}})",
       "\"categorical_crossentropy\"", 1, 10},
      {Layered("16", R"({"class_name": "Dense", "config": {"units": 1,
          "activation": "sigmoid"}})"),
       R"({"class_name": "RMSprop", "config": {"centered": true,
           "momentum": 0.5}})",
       "\"binary_crossentropy\"", 3, 17},
      {R"({"class_name": "Functional", "config": {"name": "m", "layers": [
          {"class_name": "InputLayer", "name": "in", "inbound_nodes": [],
           "config": {"name": "in", "batch_shape": [null, 12]}},
          {"class_name": "Dense", "name": "a", "inbound_nodes":
           [[["in", 0, 0, {}]]], "config": {"name": "a", "units": 6}},
          {"class_name": "Dense", "name": "b", "inbound_nodes":
           [[["in", 0, 0, {}]]], "config": {"name": "b", "units": 6,
           "activation": "relu"}},
          {"class_name": "Add", "name": "c", "inbound_nodes":
           [[["a", 0, 0, {}], ["b", 0, 0, {}]]], "config": {"name": "c"}}],
          "input_layers": [["in", 0, 0]], "output_layers": [["c", 0, 0]]}})",
       "\"adamw\"", "\"huber\"", 1, 40},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.model);
    WriteWhole(folder_ / "run.json",
               "{\"model\": " + c.model + ", \"compile\": {\"optimizer\": " +
                   c.optimizer + ", \"loss\": " + c.loss +
                   "}, \"fit\": {\"batch_size\": 3, \"threads\": " +
                   std::to_string(c.threads) + "}}");
    const std::string batch = std::to_string(c.batch);
    ASSERT_EQ(Run({"plan", "run.json", "--json", "--batch-size", batch}), 0)
        << err_;
    const int64_t bytes = static_cast<int64_t>(
        BytesOfAStep(c.model, c.optimizer, c.loss, c.threads, c.batch));
    EXPECT_EQ(NumberAfter(out_, "total"), bytes);
    ExpectParts(out_, c.model, c.optimizer, c.loss, c.batch);
    // The largest batch within these bytes takes them or less, and one more
    // example takes more.
    ASSERT_EQ(
        Run({"plan", "run.json", "--json", "--limit", std::to_string(bytes)}),
        0)
        << err_;
    const int64_t largest = NumberAfter(out_, "largest_batch");
    EXPECT_GE(largest, c.batch);
    ASSERT_EQ(Run({"plan", "run.json", "--json", "--batch-size",
                   std::to_string(largest)}),
              0);
    EXPECT_LE(NumberAfter(out_, "total"), bytes);
    ASSERT_EQ(Run({"plan", "run.json", "--json", "--batch-size",
                   std::to_string(largest + 1)}),
              0);
    EXPECT_GT(NumberAfter(out_, "total"), bytes);
  }
}

TEST_F(ProgramTest, ThePlanCountsOperationsAndBytesSent) {
  WriteRun();
  ASSERT_EQ(Run({"plan", "run.json", "--json", "--workers", "4"}), 0) << err_;
  EXPECT_EQ(NumberAfter(out_, "forward_flops"), 2 * 16 * (784 * 8 + 8 * 10));
  EXPECT_EQ(NumberAfter(out_, "wire_bytes"), 6 * (785 * 8 + 9 * 10));
  ASSERT_EQ(Run({"plan", "run.json"}), 0);
  EXPECT_NE(out_.find("batch of 16"), std::string::npos) << out_;
  ExpectError({"plan", "run.json", "--limit", "1K"}, 1, {"run.json", "1024"});
  ExpectError({"plan", "run.json", "--limit", "64MB"}, 2,
              {"wrong number for --limit: 64MB", "64M"});
}

// --- help ---

TEST_F(ProgramTest, HelpIsThereForAll) {
  ASSERT_EQ(Run({"--help"}), 0);
  EXPECT_EQ(err_, "");
  Strings commands;
  for (const std::string& line : Lines(out_)) {
    if (line.compare(0, 2, "  ") == 0 && line[2] != '-') {
      commands.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  EXPECT_GE(commands.size(), 2u);
  for (const std::string& command : commands) {
    SCOPED_TRACE(command);
    ASSERT_EQ(Run({command, "--help"}), 0);
    EXPECT_EQ(err_, "");
    EXPECT_EQ(out_.compare(0, 15 + command.size(), "usage: ringlet " + command),
              0)
        << out_;
    EXPECT_NE(out_.find("--help"), std::string::npos);
    ASSERT_EQ(Run({command, "-h"}), 0);
  }
  ASSERT_EQ(Run({"--version"}), 0);
  EXPECT_EQ(out_.compare(0, 8, "ringlet "), 0);
}

}  // namespace
}  // namespace ringlet
