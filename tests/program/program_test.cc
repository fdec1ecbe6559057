// Wrong inputs of the program, and typical errors of new users.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "../support/contains.h"
#include "../support/data_files.h"
#include "../support/program.h"
#include "../support/temp_folder.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

// --- wrong inputs ------------------------------------------------------------

TEST_F(ProgramTest, Flags_Wrong_AreRefusedWithTheNearestKnown) {
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
       {"--seed is given twice"}},
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
      {{"keygen", "x"}, {"'x' is one argument too many; it takes none"}},
  };
  for (const auto& [arguments, message_parts] : cases) {
    ExpectError(arguments, 2, message_parts);
  }
}

// A RUN.json in which a text is replaced by a wrong one, and parts of the
// error.
struct WrongRun {
  const char *text, *wrong_text;
  Strings message_parts;
  int exit_code = 2;
};

class WrongRunTest : public ProgramTest {
 protected:
  void ExpectErrors(const std::vector<WrongRun>& runs) {
    for (const WrongRun& run : runs) {
      ExpectRunError(run.text, run.wrong_text, run.exit_code,
                     run.message_parts);
    }
  }
};

TEST_F(WrongRunTest, Run_TextIsNotJson_IsRefusedByItsPlace) {
  ExpectErrors({
      {"\"callbacks\": []",
       "\"callbacks\": [",
       {"run.json: line 20, near column 1: "}},
      {"\"fit\"", "\"fit\": {}, \"fit\"", {"the key \"fit\" is in "}},
      {"{\n  \"model\"", "[{\"model\"", {"run.json: line "}},
      {"\"epochs\": 2", "\"epochs\": None", {"which has null for it"}},
  });
}

TEST_F(WrongRunTest, Run_NameIsUnknown_IsRefusedWithTheNearest) {
  ExpectErrors({
      {"\"compile\"", "\"complie\"", {"unknown field 'complie'", "'compile'"}},
      {"\"batch_size\"",
       "\"batchsize\"",
       {"run.json: fit: unknown field 'batchsize'", "'batch_size'"}},
      {"\"images\"",
       "\"image\"",
       {"data.train: unknown field 'image'", "'images'"}},
      {"\"units\": 8", "\"unit\": 8", {"unknown field 'unit'", "'units'"}},
      {"\"Flatten\"", "\"Flaten\"", {"layers[1]", "'Flaten'", "'Flatten'"}},
      {"\"adam\"", "\"adan\"", {"compile.optimizer", "'adan'"}},
      {"\"SparseCategoricalCrossentropy\"",
       "\"Crossentropy\"",
       {"compile.loss", "'Crossentropy'"}},
      {"[\"accuracy\"]",
       "[\"accuracy\", \"acuracy\"]",
       {"compile.metrics[1]", "'acuracy'"}},
      {"{\"class_name\": \"Flatten\"}",
       "{\"class_name\": \"ConvLSTM1D\", \"config\": {\"units\": 2}}",
       {"layers[1]", "Keras has the layer 'ConvLSTM1D', ringlet does not"}},
      {"\"optimizer\": \"adam\"",
       "\"optimizer\": {\"class_name\": \"Adam\", \"config\": {\"lrr\": 0.1}}",
       {"unknown field 'lrr'; the nearest known is 'lr'"}},
  });
}

TEST_F(WrongRunTest, Run_ValueIsOutOfRange_IsRefusedByItsPlace) {
  ExpectErrors({
      {"\"batch_size\": 16",
       "\"batch_size\": \"16\"",
       {"fit.batch_size: is \"16\"", "a whole number from 1"}},
      {"\"epochs\": 2", "\"epochs\": 2.5", {"fit.epochs: is 2.5"}},
      {"\"epochs\": 2",
       "\"epochs\": 2, \"shuffle\": 1",
       {"fit.shuffle: is 1; must be true or false"}},
      {"\"epochs\": 2",
       "\"epochs\": 2, \"validation_freq\": [0]",
       {"fit.validation_freq"}},
      {"\"scale\": 0.00392156862745098",
       "\"scale\": \"1/255\"",
       {"data.train.scale: is \"1/255\"; must be a number"}},
      {"[\"accuracy\"]",
       "\"accuracy\"",
       {"compile.metrics: is \"accuracy\"; must be a list"}},
      {"\"units\": 10", "\"units\": 0", {"units"}},
      {"\"batch_size\": 16",
       "\"batch_size\": 1e9",
       {"fit.batch_size", "from 1 to 16777216"}},
      {"\"from_logits\": true",
       "\"from_logits\": 1",
       {"compile.loss.config.from_logits: is 1"}},
      {"{\"class_name\": \"SparseCategoricalCrossentropy\",\n"
       "             \"config\": {\"from_logits\": true}}",
       "null",
       {"compile.loss: is null; must be a name or an object"}},
      {"\"epochs\": 2",
       "\"epochs\": 2, \"class_weight\": {\"zero\": 2}",
       {"fit.class_weight.zero: is 2; it takes a class's number and its "
        "weight"}},
      {"\"epochs\": 2",
       "\"epochs\": 2, \"class_weight\": {\"0\": \"1\"}",
       {"fit.class_weight.0: is \"1\""}},
      {"\"epochs\": 2",
       "\"epochs\": 2, \"class_weight\": {\"0\": 2, \"00\": 3}",
       {"fit.class_weight", "names class 0 twice"}},
  });
}

TEST_F(WrongRunTest, Run_PartsDoNotFit_IsRefusedByTheDatasPlace) {
  ExpectErrors({
      {"[null, 28, 28]", "[null, 28, 14]", {"(28, 28)", "(28, 14)"}},
      {"\"units\": 10",
       "\"units\": 5",
       {"data.train", "train-labels-idx1-ubyte.gz: example",
        "label 9 is not a class number from 0 to 4"},
       1},
      {"\"train\": {",
       "\"train\": {\"csv\": \"a.csv\", ",
       {"data.train: must have one of"}},
      {"\"data\": {\n    \"train\"",
       "\"data\": {\n    \"validation\"",
       {"the key \"validation\" is in "}},
      {"\"scale\"",
       "\"in_memory\": false, \"scale\"",
       {"train-images-idx3-ubyte.gz", "unpack it"}},
      {"@DATA@/train-labels",
       "@DATA@/t10k-labels",
       {"t10k-labels-idx1-ubyte.gz", "2000", "400"}},
      {"@DATA@/train-images-idx3",
       "@DATA@/train-labels-idx1",
       {"train-labels-idx1-ubyte.gz"}},
      {"@DATA@/train-images",
       "nothing/train-images",
       {"data.train", "/train-images-idx3-ubyte.gz"}},
      {"@DATA@/train-images-idx3-ubyte.gz",
       "run.json",
       {"run.json: is a RUN.json, not idx"}},
      {"@DATA@/train-images-idx3-ubyte.gz", ".", {"not a regular file"}},
      {"@DATA@/train-images-idx3-ubyte.gz",
       "run.json/x",
       {"data.train: run.json/x", "Not a directory"}},
      {"\"epochs\": 2",
       "\"epochs\": 2, \"sample_weight\": \"w.npy\"",
       {"fit.sample_weight", "data.train"}},
  });
}

TEST_F(WrongRunTest, Run_CallbackIsWrong_IsRefusedByItsPlace) {
  ExpectErrors({
      {"\"callbacks\": []",
       "\"callbacks\": [{\"class_name\": \"EarlyStop\"}]",
       {"callbacks[0]", "'EarlyStop'", "'EarlyStopping'"}},
      {"\"callbacks\": []",
       "\"callbacks\": [{\"class_name\": \"EarlyStopping\", \"config\": "
       "{\"patient\": 1}}]",
       {"callbacks[0].config: unknown field 'patient'", "'patience'"}},
      {"\"callbacks\": []",
       "\"callbacks\": [{\"class_name\": \"EarlyStopping\", \"config\": "
       "{\"mode\": \"up\"}}]",
       {"callbacks[0].config.mode: unknown mode 'up'"}},
      {"\"callbacks\": []",
       "\"callbacks\": [{\"class_name\": \"ModelCheckpoint\", \"config\": "
       "{\"filepath\": \"c/{val_los:.2f}.safetensors\"}}]",
       {"model_checkpoint", "'val_los'", "nearest known is 'val_loss'"}},
      {"\"callbacks\": []",
       "\"callbacks\": [\"LearningRateScheduler\"]",
       {"callbacks[0]: is \"LearningRateScheduler\"", "ExponentialDecay"}},
      {"\"callbacks\": []",
       "\"callbacks\": [\"BackupAndRestore\"]",
       {"callbacks[0].backup_dir: is missing"}},
  });
}

TEST_F(WrongRunTest, Run_StrategyIsWrong_IsRefusedByItsPlace) {
  ExpectErrors({
      {"\"callbacks\": []",
       "\"strategy\": {\"policy\": \"shirnk\"}",
       {"strategy.policy", "'shirnk'"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"local_steps\": 7}",
       {"strategy.local_steps: is 7; set \"mode\": \"local\" too"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"mode\": \"local\", \"local_steps\": 0}",
       {"strategy.local_steps: is 0; must be"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"mode\": \"local\", \"reduction\": \"exact\"}",
       {"strategy.reduction: is \"exact\"", "leave it out"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"overlap\": true}",
       {"strategy.overlap: is true; set \"mode\": \"local\" too"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"mode\": \"local\", \"replicas\": 4, "
       "\"participation\": 2, \"overlap\": true}",
       {"strategy", "overlap with participation", "leave one of the two out"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"mode\": \"local\", \"delta\": \"sparse\", "
       "\"local_steps\": \"auto\"}",
       {"strategy", "delta sparse with local_steps auto", "as a number"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"mode\": \"local\", \"delta\": \"sparse\", "
       "\"policy\": \"shrink\"}",
       {"strategy: delta sparse with policy shrink", "policy wait",
        "int8 or float32"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"mode\": \"local\", \"overlap\": true, "
       "\"policy\": \"shrink\"}",
       {"strategy: overlap with policy shrink", "BackupAndRestore",
        "without overlap"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"mode\": \"local\", \"attendance\": \"a.csv\"}",
       {"strategy: unknown field 'attendance'"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"mode\": \"local\", \"delta\": \"int4\"}",
       {"strategy.delta", "'int4'"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"mode\": \"local\", \"outer\": {\"momentum\": 1}}",
       {"momentum"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"mode\": \"local\", \"outer\": {\"rate\": 1}}",
       {"strategy.outer", "'rate'"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"timeout\": 0}",
       {"strategy.timeout: is 0"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"min_worker\": 2}",
       {"strategy: unknown field 'min_worker'", "'min_workers'"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"communication\": {\"wire_dtype\": \"float8\"}}",
       {"strategy.communication.wire_dtype", "'float8'", "bfloat16"}},
      {"\"callbacks\": []",
       "\"strategy\": {\"communication\": \"smoke\"}",
       {"strategy.communication", "'smoke'", "RING"}},
  });
}

TEST_F(ProgramTest, File_CannotBeReadOrWritten_ErrorNamesIt) {
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

TEST_F(ProgramTest, Model_FileBesideTheRun_IsRead) {
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
TEST_F(ProgramTest, Model_StringOfJson_IsTaken) {
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

TEST_F(ProgramTest, Model_ConfigurationWrittenByKeras_IsTaken) {
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

TEST_F(ProgramTest, TfConfig_Wrong_ErrorNamesIt) {
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
  for (const auto& [config, message_parts] : cases) {
    SCOPED_TRACE(config);
    environment_ = {{"TF_CONFIG", config}};
    Strings all = message_parts;
    all.push_back("TF_CONFIG");
    ExpectError({"train", "run.json", "--save", "m", "--log-steps", "s"}, 2,
                all);
  }
  environment_ = {{"TF_CONFIG", R"({"cluster": {"worker": ["localhost:1"],
      "evaluator": ["localhost:2"]},
      "task": {"type": "evaluator", "index": 0}})"}};
  ExpectError({"train", "run.json"}, 2, {"an evaluator", "ModelCheckpoint"});
  environment_.clear();
  WriteRun("\"callbacks\": []", "\"strategy\": {\"min_workers\": 2}");
  ExpectError({"train", "run.json"}, 2,
              {"run.json: strategy.min_workers: is 2", "TF_CONFIG"});
}

TEST_F(ProgramTest, Callbacks_CannotWrite_AreReportedBeforeTheFirstStep) {
  const auto expect = [this](const std::string& name, const std::string& config,
                             int code, const Strings& message_parts) {
    ExpectRunError("\"callbacks\": []",
                   "\"callbacks\": [{\"class_name\": \"" + name +
                       "\", \"config\": {" + config + "}}]",
                   code, message_parts);
  };
  expect("BackupAndRestore", "\"backup_dir\": \"run.json/b\"", 2,
         {"backup_and_restore: run.json", "not a directory"});
  expect("ModelCheckpoint", "\"filepath\": \"run.json/b.safetensors\"", 2,
         {"model_checkpoint: run.json", "not a directory"});
  expect("ModelCheckpoint", "\"filepath\": \"m.json\"", 2,
         {"model_checkpoint", "the name of a file of data"});
  expect("TensorBoard", "\"log_dir\": \"run.json\"", 2,
         {"tensorboard: run.json", "not a directory"});
  expect("CSVLogger", "\"filename\": \"no/log.csv\"", 2,
         {"csv_logger: no/log.csv", "No such file"});
  expect("EarlyStopping", "\"monitor\": \"acuracy\"", 2,
         {"early_stopping: monitor='acuracy'", "they have loss, accuracy"});
  std::filesystem::create_directory(folder_ / "d.safetensors");
  expect("ModelCheckpoint", "\"filepath\": \"d.safetensors\"", 2,
         {"model_checkpoint", "existing directory: d.safetensors"});
}

TEST_F(ProgramTest, ModelCheckpoint_KerasNames_AreKeptAndUsed) {
  WriteRun("\"callbacks\": []", R"("callbacks": [{"class_name":
      "ModelCheckpoint", "config": {"filepath": "{epoch}.keras",
                                    "max_to_keep": 2}}])");
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "4"}), 0) << err_;
  EXPECT_EQ(Lines(err_).size(), 1u) << err_;
  EXPECT_EQ(err_.find("note: ModelCheckpoint writes {epoch}.keras"), 0u);
  EXPECT_EQ(Files(),
            (std::set<std::string>{folder_ / "3.keras", folder_ / "4.keras",
                                   folder_ / "run.json"}));
  EXPECT_EQ(Run({"evaluate", "4.keras", "--data", "run.json"}), 0) << err_;
}

// Root may read every file, so the test needs another user.
TEST_F(ProgramTest, File_PermissionDenied_ErrorNamesIt) {
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

// --- what a first hour meets -------------------------------------------------

TEST_F(ProgramTest, File_IsNotThere_IsNamedWithItsFolder) {
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

TEST_F(ProgramTest, Name_FarFromAll_ListsAllThatAreKnown) {
  WriteRun();
  EXPECT_EQ(Run({"evaluat"}), 2);
  EXPECT_EQ(err_,
            "error: unknown command 'evaluat'; the nearest known is 'evaluate' "
            "(see 'ringlet --help')\n");
  EXPECT_EQ(Run({"test"}), 2);
  EXPECT_EQ(err_,
            "error: unknown command 'test'; known are 'train', 'evaluate', "
            "'predict', 'launch', 'keygen', 'top', 'relay', 'init', 'plan', "
            "'doctor', 'verify', 'audit', 'summary', 'inspect', 'report', "
            "'diff', 'export', 'gather' (see 'ringlet --help')\n");
  EXPECT_EQ(Run({"inspect", "--layers", "x"}), 2);
  EXPECT_EQ(err_,
            "error: unknown flag '--layers'; known are '--help', '--json', "
            "'--verbose' (see 'ringlet inspect --help')\n");
  EXPECT_EQ(Run({"inspect", "-json", "x"}), 2);
  EXPECT_EQ(err_,
            "error: unknown flag '-json'; the nearest known is '--json' (see "
            "'ringlet inspect --help')\n");
  // The known flags do not include "-" alone.
  EXPECT_EQ(Run({"launch", "-x"}), 2);
  EXPECT_TRUE(Contains(err_, "unknown flag '-x'; known are "));
  WriteRun("\"callbacks\"", "\"optimizer\"");
  EXPECT_EQ(Run({"plan", "run.json"}), 2);
  EXPECT_EQ(err_,
            "error: run.json: unknown field 'optimizer'; known are '$schema', "
            "'model', 'lora', 'compile', 'data', 'fit', 'callbacks', "
            "'strategy'\n");
}

// `ulimit -f` ends no training, and no file is left half written.
TEST_F(ProgramTest, FileSizeLimit_Reached_FailsTheWriteAndNotTheTraining) {
  WriteRun("\"steps_per_epoch\": 3", "\"steps_per_epoch\": 30, \"verbose\": 0");
  struct rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const struct rlimit none = limit;
  limit.rlim_cur = 1024;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const int code =
      Run({"train", "run.json", "--no-save", "--log-steps", "s.csv"});
  const int saved = Run({"train", "run.json", "--save", "m"});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(ReadWhole(folder_ / "s.csv").size(), 1024u);
  EXPECT_EQ(saved, 1);
  for (const std::string& name : Files()) {
    EXPECT_FALSE(Contains(name, ".tmp"));
  }
}

TEST_F(ProgramTest, Relay_MoreConnectionsThanFiles_IsRefused) {
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit few = before;
  few.rlim_cur = 128;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  ExpectError({"relay", "127.0.0.1:29877", "--connections", "1000"}, 1,
              {"1000 connections", "ulimit -n"});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

// The log must not replace a file of the run.
TEST_F(ProgramTest, Log_NamesTheRunOrItsData_IsRefused) {
  const std::string rows = "5.5,3.5,0\n4.5,3,1\n";
  const auto run = [](const std::string& log) {
    return R"({
      "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
        {"class_name": "Dense", "config": {"units": 2}}]}},
      "compile": {"optimizer": "sgd",
                  "loss": "sparse_categorical_crossentropy"},
      "data": {"train": {"csv": "d.csv"}},
      "callbacks": [{"class_name": "CSVLogger", "config": {"filename": ")" +
           log + R"("}}]})";
  };
  for (const std::string log : {"d.csv", "log.json", "log.csv"}) {
    WriteWhole(folder_ / "d.csv", rows);
    WriteWhole(folder_ / "log.json", run(log));
    if (log != "log.csv") {
      ExpectError({"train", "log.json", "--no-save"}, 2,
                  {"the log " + log + ": holds the "});
    } else {
      ASSERT_EQ(Run({"train", "log.json", "--no-save"}), 0) << err_;
      ExpectError({"train", "log.json", "--no-save", "--log-steps", "log.json"},
                  2, {"--log-steps log.json: holds the run itself"});
      // Also if neither file exists yet.
      ExpectError(
          {"train", "log.json", "--save", "model", "--log-steps", "./model"}, 2,
          {"--save and --log-steps are one file, ./model"});
    }
    EXPECT_EQ(ReadWhole(folder_ / "d.csv"), rows);
    EXPECT_EQ(ReadWhole(folder_ / "log.json"), run(log));
  }
}

// A command does not write over the weights that it reads.
TEST_F(ProgramTest, Out_NamesAFileThatIsRead_IsRefused) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m.safetensors"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m.safetensors", "--out", "w.npz"}), 0) << err_;
  const std::string weights = ReadWhole(folder_ / "w.npz");
  for (const Strings& line :
       {Strings{"predict", "run.json", "--init", "w.npz", "--out", "w.npz"},
        {"export", "run.json", "--init", "w.npz", "--format", "onnx", "--out",
         "w.npz"},
        {"train", "run.json", "--init", "w.npz", "--log-steps", "w.npz"},
        {"train", "run.json", "--init", "w.npz", "--log-examples", "w.npz"}}) {
    ExpectError(line, 2, {"w.npz: is read here, and would be overwritten"});
  }
  EXPECT_TRUE(ReadWhole(folder_ / "w.npz") == weights);
}

// --- help --------------------------------------------------------------------

TEST_F(ProgramTest, Help_EveryCommand_IsThere) {
  ASSERT_EQ(Run({"--help"}), 0);
  EXPECT_EQ(err_, "");
  Strings commands;
  for (const std::string& line : Lines(out_)) {
    if (line.compare(0, 2, "  ") == 0 && std::islower(line[2]) != 0) {
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
    EXPECT_TRUE(Contains(out_, "--help"));
    ASSERT_EQ(Run({command, "-h"}), 0);
  }
  ASSERT_EQ(Run({"--version"}), 0);
  EXPECT_EQ(out_.compare(0, 8, "ringlet "), 0);
  ASSERT_EQ(Run({"--version", "--verbose"}), 0);
  EXPECT_TRUE(Contains(out_, "RINGLET_KERNELS"));
}

TEST_F(ProgramTest, Kernels_KnownOrWrongName_AreForcedOrRefused) {
  WriteRun("\"callbacks\": []", "\"callbacks\": []");
  setenv("RINGLET_KERNELS", "generic", 1);
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_TRUE(Contains(out_, "matrix products: generic"));
  setenv("RINGLET_KERNELS", "i387", 1);
  EXPECT_EQ(Run({"--version"}), 2);
  EXPECT_EQ(Run({"train", "run.json"}), 2);
  EXPECT_TRUE(Contains(err_, "RINGLET_KERNELS is \"i387\""));
  EXPECT_TRUE(Contains(err_, "generic"));
  unsetenv("RINGLET_KERNELS");
}

// Models and backups are readable by their owner alone; other files follow the
// umask.
TEST_F(ProgramTest, ModelsAndBackups_Umask027_AreReadByTheirOwnerAlone) {
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
  int count = 0, owned = 0;
  for (const std::string& name : Files()) {
    struct stat info;
    ASSERT_EQ(stat(name.c_str(), &info), 0);
    if (!S_ISREG(info.st_mode) || name == folder_ / "run.json") continue;
    const std::string file = name.substr(name.rfind('/') + 1);
    // A user that can open a lock file could lock it.
    const bool learned = file == "m" || file == "c.safetensors" ||
                         file == ".lock" || file.find("backup-") == 0;
    EXPECT_EQ(info.st_mode & 0777, learned ? 0600u : 0640u) << name;
    ++count;
    owned += learned;
  }
  EXPECT_GE(count, 10);
  EXPECT_EQ(owned, 4);
}

}  // namespace
}  // namespace ringlet
