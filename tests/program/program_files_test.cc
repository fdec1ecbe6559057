// Files of models and weights: sealed, inspected, compared and exported.

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "../support/contains.h"
#include "../support/data_files.h"
#include "../support/expect_ok.h"
#include "../support/full_disk.h"
#include "../support/program.h"
#include "../support/python.h"
#include "../support/temp_folder.h"
#include "ringlet/model.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

// Every command reads sealed files with the key, and none does without it.
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

// A run continues from its sealed backup. Without the key, or with another key,
// it does not start from the beginning, and does not rename the backup.
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

  // The exported weights, loaded again, give the same numbers to the bit.
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

// If a result cannot be written completely, the earlier result stays.
TEST_F(ProgramTest, Predict_DiskIsFull_EarlierResultIsKept) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0);
  for (const char* const out : {"p.csv", "p.npy", "p.npz"}) {
    SCOPED_TRACE(out);
    const Strings line = {"predict", "m", "--data", "run.json", "--out", out};
    WriteWhole(folder_ / out, "earlier");
    int code = 0;
    {
      FullDisk full(8);
      code = Run(line);
    }
    EXPECT_EQ(code, 1);
    EXPECT_EQ(ReadWhole(folder_ / out), "earlier");
    EXPECT_EQ(Run(line), 0) << err_;
    EXPECT_GT(ReadWhole(folder_ / out).size(), 8u);
  }
}

TEST_F(ProgramTest, SavedModel_WrongUse_ErrorNamesIt) {
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
  // An export does not overwrite the model that it reads.
  const std::string model = ReadWhole(folder_ / "m");
  ExpectError({"export", "m", "--format", "npz", "-o", "./m"}, 2,
              {"--out ./m: is the file itself"});
  EXPECT_EQ(ReadWhole(folder_ / "m"), model);
  // A result is not written over the data either.
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
  ASSERT_OK(ReadNpy(folder_ / "y.npy", &y));
  ASSERT_OK(ReadNpy(folder_ / "p.npy", &p));
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

}  // namespace
}  // namespace ringlet
