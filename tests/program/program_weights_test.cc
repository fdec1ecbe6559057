// ringlet train --init: from checkpoints, folders and files of other programs.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "../support/contains.h"
#include "../support/data_files.h"
#include "../support/program.h"
#include "../support/python.h"
#include "../support/temp_folder.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

// A folder of checkpoints, or the filepath of a ModelCheckpoint.
TEST_F(ProgramTest, Init_FolderOfCheckpoints_TakesTheNewest) {
  WriteRun("\"callbacks\": []", R"("callbacks": [{"class_name":
      "ModelCheckpoint", "config": {"filepath": "ckpt/{epoch}-a.keras"}}])");
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "3", "--no-save"}), 0)
      << err_;
  const auto logs = [&](const std::string& init) {
    EXPECT_EQ(Run({"evaluate", "run.json", "--init", init, "--json"}), 0)
        << err_;
    return out_;
  };
  const std::string first = logs("ckpt/1-a.keras");
  const std::string last = logs("ckpt/3-a.keras");
  EXPECT_EQ(err_.find("note: --init"), std::string::npos) << err_;
  EXPECT_NE(first, last);
  WriteWhole(folder_ / "ckpt/log.csv", "epoch,loss\n");
  ASSERT_EQ(mkdir((folder_ / "ckpt/z").c_str(), 0777), 0);
  EXPECT_EQ(logs("ckpt"), last);
  EXPECT_EQ(
      err_.find("note: --init ckpt: takes ckpt/3-a.keras, the newest of 3\n"),
      0u)
      << err_;
  // By the time of writing, and the greater number among equal times.
  const auto touch = [&](const char* name, int seconds) {
    const struct timespec times[2] = {{seconds, 0}, {seconds, 0}};
    EXPECT_EQ(utimensat(AT_FDCWD, (folder_ / name).c_str(), times, 0), 0);
  };
  touch("ckpt/1-a.keras", 2000);
  touch("ckpt/2-a.keras", 1000);
  touch("ckpt/3-a.keras", 1000);
  EXPECT_EQ(logs("ckpt/"), first);
  touch("ckpt/1-a.keras", 1000);
  EXPECT_EQ(logs("ckpt"), last);
  WriteWhole(folder_ / "ckpt/10-b.keras",
             ReadWhole(folder_ / "ckpt/1-a.keras"));
  EXPECT_EQ(logs("ckpt"), first);
  EXPECT_EQ(logs("ckpt/{epoch}-a.keras"), last);
  ExpectError({"train", "run.json", "--init", "ckpt/z"}, 2,
              {"--init ckpt/z: there is no model"});
  ExpectError({"predict", "run.json", "--init", "ckpt/{epoch}.h5"}, 2,
              {"--init ckpt/{epoch}.h5: there is no model"});
  ExpectError({"predict", "run.json", "--init", "{epoch}/m"}, 2,
              {"its folder has fields"});
}

// A folder as Hugging Face's programs write it: each file has a part.
TEST_F(ProgramTest, Init_FolderWithIndex_TakesAllItsFiles) {
  WriteRun();
  ASSERT_EQ(mkdir((folder_ / "hf").c_str(), 0777), 0);
  const std::string shards[] = {"hf/model-00001-of-00002.safetensors",
                                "hf/model-00002-of-00002.safetensors"};
  const auto logs = [&](const std::string& init) {
    EXPECT_EQ(Run({"evaluate", "run.json", "--init", init, "--json"}), 0)
        << err_;
    return out_;
  };
  // Each file has all weights, so a wrong choice is no error, but a result.
  for (const std::string& shard : shards) {
    ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m",
                   "--seed", shard.substr(13, 1)}),
              0)
        << err_;
    ASSERT_EQ(Run({"export", "m", "--out", shard}), 0) << err_;
  }
  WriteWhole(folder_ / "hf/model.safetensors.index.json",
             R"({"weight_map": {
    "dense/kernel": "model-00001-of-00002.safetensors",
    "dense/bias": "model-00001-of-00002.safetensors",
    "dense_1/kernel": "model-00002-of-00002.safetensors",
    "dense_1/bias": "model-00002-of-00002.safetensors"}})");
  const std::string whole = logs("hf");
  EXPECT_EQ(err_.find("note: --init hf: takes the files that "
                      "hf/model.safetensors.index.json names\n"),
            0u)
      << err_;
  EXPECT_EQ(logs("hf/"), whole);
  EXPECT_EQ(logs("hf/model.safetensors.index.json"), whole);
  EXPECT_NE(logs(shards[0]), whole);
  EXPECT_NE(logs(shards[1]), whole);
}

TEST_F(ProgramTest, Init_OtherWeights_NamesFlagsThatExist) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0);
  WriteRun("{\"units\": 10}", "{\"units\": 10, \"name\": \"head\"}");
  const std::string refused =
      "error: run.json: --init: m: the weights are not this model's: missing "
      "in the file 'head/kernel', 'head/bias'; in the file only "
      "'dense_1/kernel', 'dense_1/bias'. by_name (--by-name) takes the layers "
      "that both have, skip_mismatch (--skip-mismatch) skips those that "
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
    EXPECT_TRUE(Contains(err_, "warning: m: skipped: "));
    EXPECT_EQ(Run({"predict", "run.json", "--init", "m", flag}), 0) << err_;
    ExpectError({"train", "run.json", flag}, 2,
                {flag + std::string(": needs --init")});
  }
}

TEST_F(ProgramTest, Train_FrozenBody_GetsANewHead) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0);
  WriteRun(
      R"({"class_name": "Flatten"},
    {"class_name": "Dense", "config": {"units": 8, "activation": "relu"}},
    {"class_name": "Dense", "config": {"units": 10}}])",
      R"({"class_name": "Sequential", "config": {"name": "body",
     "trainable": false, "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 28, 28]}},
      {"class_name": "Flatten"},
      {"class_name": "Dense", "config": {"units": 8, "activation": "relu"}}]}},
    {"class_name": "Dense", "config": {"units": 10, "name": "head"}}])");
  ASSERT_EQ(Run({"summary", "run.json"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "body (Sequential)"));
  EXPECT_TRUE(Contains(out_, "Trainable params: 90 "));
  EXPECT_TRUE(Contains(out_, "Non-trainable params: 6,280 "));
  ASSERT_EQ(
      Run({"train", "run.json", "--init", "m", "--by-name", "--save", "n"}), 0)
      << err_;
  for (const char* line :
       {"m: skipped: head/kernel: missing in the file",
        "m: skipped: dense_1/bias: in the file only",
        "m: 2 of 4 weights are taken, 2 missing in the file, 2 in the file "
        "only"}) {
    EXPECT_TRUE(Contains(err_, std::string("warning: ") + line + "\n"));
  }
  // The body is as it was, and is taken out again by the model it came from.
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--init", "n", "--by-name", "--epochs",
                 "0", "--save", "o"}),
            0)
      << err_;
  ASSERT_EQ(Run({"diff", "m", "o"}), 1) << out_ << err_;
  EXPECT_FALSE(Contains(out_, "'model/dense/"));
  EXPECT_TRUE(Contains(out_, "'model/dense_1/"));
}

TEST_F(ProgramTest, Files_OfOtherPrograms_AreNamedForWhatTheyAre) {
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
       "in Python: m = keras.models.load_model(\"m.h5\"), or for weights alone "
       "m.load_weights(\"m.h5\") of the model; numpy.savez(\"w.npz\", "
       "*m.get_weights()). Then --init w.npz"},
      {"m.pt", "a file of PyTorch (.pt, .pth)",
       "in Python: s = torch.load(\"m.pt\", map_location=\"cpu\"), for a whole "
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
    EXPECT_TRUE(Contains(out_, "\"what\":"));
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

TEST_F(ProgramTest, Weights_NamedAsByKeras_AreTaken) {
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
            "\"dense/kernel\"; by_name (--by-name) takes as many as there "
            "are, from the first\n");
  // inspect and diff read npz files as they read safetensors files.
  ASSERT_EQ(Run({"inspect", "list.npz"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, " bytes, npz, 4 tensors, verified\n"));
  EXPECT_TRUE(Contains(out_, "arr_0  F32  (784, 8)"));
  EXPECT_EQ(Run({"diff", "w.npz", "w.npz"}), 0);
  EXPECT_EQ(Run({"diff", "w.npz", "wide.npz"}), 1);
  EXPECT_TRUE(Contains(out_, "tensor 'dense/bias': dtype F32 in A, F64 in B"));
  // Ringlet's own beside them: the weights are the same.
  ASSERT_EQ(Run({"diff", "m", "w.npz"}), 1) << err_;
  EXPECT_EQ(out_.find("dense/"), out_.find("optimizer/momentum/dense/") + 19)
      << out_;
}

// Another alpha is refused, and weights without LoRA are the whole model.
TEST_F(ProgramTest, Init_OfAModelWithLora_EqualsItsFunctionOrIsRefused) {
  const auto lora = [this](const std::string& model, const std::string& with) {
    WriteRun();
    const std::string text = ReadWhole(folder_ / "run.json");
    const size_t begin = text.find("{\"class_name\": \"Seq"),
                 end = text.find(",\n  \"compile\"");
    WriteWhole(folder_ / "run.json", text.substr(0, begin) + '"' + model +
                                         "\", \"lora\": {" + with + "}" +
                                         text.substr(end));
  };
  const auto logs = [this](const std::string& init) {
    EXPECT_EQ(Run({"evaluate", "run.json", "--json", "--init", init}), 0)
        << err_;
    return out_;
  };
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "base"}), 0) << err_;
  const std::string base = logs("base");
  lora("base", "\"rank\": 4");
  ASSERT_EQ(Run({"train", "run.json", "--save", "tuned"}), 0) << err_;
  ASSERT_EQ(Run({"export", "tuned", "--out", "plain.safetensors"}), 0) << err_;
  ASSERT_EQ(Run({"evaluate", "tuned", "--data", "run.json", "--json"}), 0);
  const std::string tuned = out_;
  EXPECT_NE(tuned, base);
  lora("tuned", "\"rank\": 4");
  EXPECT_EQ(logs("tuned"), tuned);
  EXPECT_EQ(logs("plain.safetensors"), tuned);
  EXPECT_EQ(logs("base"), base);
  EXPECT_TRUE(Contains(err_, "warning: base: has no weights of LoRA"));
  EXPECT_TRUE(Contains(err_,
                       "note: --init base: has no weights of LoRA; of 2 layers "
                       "A keeps its values, and B is zeros\n"));
  lora("tuned", "\"rank\": 4, \"alpha\": 16");
  ExpectError({"evaluate", "run.json", "--init", "tuned"}, 2,
              {"lora: layer 'dense' has LoRA with alpha 4 already"});
  lora("base", "\"rank\": 4, \"alpha\": 16");
  for (const char* const init : {"tuned", "plain.safetensors"}) {
    ExpectError({"evaluate", "run.json", "--init", init}, 2,
                {"dense/lora_kernel_a: lora_alpha 4 in the file, 16 here"});
  }
}

// The trained model differs from the one that gets LoRA.
TEST_F(ProgramTest, Save_NamesTheModelThatGetsLora_IsRefused) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "base"}), 0) << err_;
  const std::string base = ReadWhole(folder_ / "base");
  const std::string text = ReadWhole(folder_ / "run.json");
  const size_t begin = text.find("{\"class_name\": \"Seq"),
               end = text.find(",\n  \"compile\"");
  const std::string lora = text.substr(0, begin) +
                           R"("base", "lora": {"rank": 1})" + text.substr(end);
  const Strings refused = {"base: is read here, and would be overwritten"};
  WriteWhole(folder_ / "lora.json", lora);
  ExpectError({"train", "lora.json", "--save", "base"}, 2, refused);
  WriteWhole(folder_ / "lora.json",
             Replaced(lora, "\"callbacks\": []", R"("callbacks": [{"class_name":
      "ModelCheckpoint", "config": {"filepath": "base",
      "save_trainable_only": true}}])"));
  ExpectError({"train", "lora.json", "--no-save"}, 2, refused);
  EXPECT_TRUE(ReadWhole(folder_ / "base") == base);
}

}  // namespace
}  // namespace ringlet
