// `ringlet export --train`, and the way back of what C has trained.

#include <gtest/gtest.h>

#include <algorithm>

#include "../support/c_training.h"
#include "../support/program.h"

namespace ringlet {
namespace {

TEST_F(ProgramTest, ExportTrain_ListedLayers_AreNamedInTheFile) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m", "--train", "dense_1", "-o", "m.c"}), 0) << err_;
  std::string text = ReadWhole(folder_ / "m.c");
  EXPECT_TRUE(Contains(text, "Trains by Adam with learning rate 0.001"));
  EXPECT_TRUE(Contains(text, "dense_1/kernel (8, 10)"));
  EXPECT_FALSE(Contains(text, "dense/kernel"));
  ASSERT_EQ(Run({"export", "m", "--train", "all", "--optimizer", "sgd",
                 "--learning-rate", "0.25", "--batch", "7", "-o", "m.c"}),
            0)
      << err_;
  text = ReadWhole(folder_ / "m.c");
  EXPECT_TRUE(Contains(text, "Trains by SGD with learning rate 0.25"));
  EXPECT_TRUE(Contains(text, "at most 7 examples"));
  EXPECT_TRUE(Contains(text, "dense/kernel (784, 8)"));
  EXPECT_TRUE(Contains(ReadWhole(folder_ / "m.h"), "#define MODEL_BATCH 7"));
}

TEST_F(ProgramTest, ExportTrain_WeightsAndBiases_AreTrainedAlone) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  const auto expect = [&](const char* list,
                          const std::vector<std::string>& trained) {
    ASSERT_EQ(Run({"export", "m", "--train", list, "-o", "m.c"}), 0) << err_;
    const std::string text = ReadWhole(folder_ / "m.c");
    for (const char* const weight :
         {"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"}) {
      EXPECT_EQ(Contains(text, std::string("     ") + weight + " ("),
                std::count(trained.begin(), trained.end(), weight) > 0)
          << list << ": " << weight;
    }
  };
  expect("biases", {"dense/bias", "dense_1/bias"});
  expect("dense_1,biases", {"dense/bias", "dense_1/kernel", "dense_1/bias"});
  expect("dense_1/kernel", {"dense_1/kernel"});
}

TEST_F(ProgramTest, ExportTrain_NameThatBeginsAnother_IsThatLayerAlone) {
  WriteRun(R"({"units": 8, "activation": "relu"}},
    {"class_name": "Dense", "config": {"units": 10)",
           R"({"name": "a", "units": 8, "activation": "relu"}},
    {"class_name": "Dense", "config": {"name": "a/b", "units": 10)");
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m", "--train", "a", "-o", "m.c"}), 0) << err_;
  const std::string text = ReadWhole(folder_ / "m.c");
  EXPECT_TRUE(Contains(text, "a/kernel (784, 8)"));
  EXPECT_TRUE(Contains(text, "a/bias (8"));
  EXPECT_FALSE(Contains(text, "a/b/"));
}

TEST_F(ProgramTest, ExportTrain_MaskedLstm_IsTheFrozenFront) {
  WriteRun(R"({"class_name": "Flatten"},
    {"class_name": "Dense", "config": {"units": 8, "activation": "relu"}})",
           R"({"class_name": "Masking"},
    {"class_name": "LSTM", "config": {"units": 8}})");
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m", "--train", "dense", "-o", "model.c"}), 0)
      << err_;
  EXPECT_TRUE(
      Contains(ReadWhole(folder_ / "model.c"), "     dense/kernel (8, 10)"));
  if (CcCommand().empty()) return;
  const CLibrary c(folder_, kChecked);  // compiles the file
}

// What C has trained, whichever weights, goes back by --init and by gather.
TEST_F(ProgramTest, ExportTrain_AnyState_GoesBackIntoTheModel) {
  if (CcCommand().empty()) GTEST_SKIP() << "needs a compiler of this machine";
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  WriteRun(R"("data":)",
           R"("lora": {"rank": 2, "alpha": 6, "layers": ["dense"]}, "data":)");
  ASSERT_EQ(Run({"export", "run.json", "--init", "m", "--format", "model", "-o",
                 "lora"}),
            0)
      << err_;
  const char* const cases[][2] = {
      {"m", "dense_1"},        {"m", "biases"},
      {"m", "dense_1/kernel"}, {"m", "all"},
      {"lora", "dense"},       {"lora", "biases"},
      {"lora", "all"},         {"lora", "dense/lora_kernel_b,dense_1/bias"}};
  for (const auto& [model, list] : cases) {
    SCOPED_TRACE(std::string(model) + ", " + list);
    ASSERT_EQ(Run({"export", model, "--train", list, "-o", "model.c"}), 0)
        << err_;
    const CLibrary c(folder_, "");
    const std::vector<float> x(28 * 28, 0.5f);
    for (const int32_t y : {3, 7, 1}) {
      ASSERT_EQ(c.Train(x.data(), &y, nullptr), 0);
    }
    WriteWhole(folder_ / "state",
               c.Save(static_cast<size_t>(Defined(folder_, "STATE"))));
    ASSERT_EQ(Run({"export", model, "--init", "state", "--format", "model",
                   "-o", "new"}),
              0)
        << err_;
    ASSERT_EQ(Run({"gather", model, "state", "--out", "mean"}), 0) << err_;
    for (const std::string name : {model, "new", "mean"}) {
      ASSERT_EQ(Run({"export", name, "-o", name + ".npz"}), 0) << err_;
    }
    const std::string back = ReadWhole(folder_ / "new.npz");
    EXPECT_EQ(back, ReadWhole(folder_ / "mean.npz"));
    EXPECT_NE(back, ReadWhole(folder_ / (std::string(model) + ".npz")));
  }
}

// Only what a C file saves may have a part of a layer.
TEST_F(ProgramTest, ExportInit_ModelWithoutABias_IsRefused) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0)
      << err_;
  WriteRun(R"("units": 10)", R"("units": 10, "use_bias": false)");
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "other"}), 0)
      << err_;
  ExpectError(
      {"export", "m", "--init", "other", "--format", "model", "-o", "n"}, 2,
      {"--init", "dense_1/bias"});
}

TEST_F(ProgramTest, ExportTrain_Lora_TrainsTheMatricesOfAFrozenKernel) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  WriteRun(R"("data":)",
           R"("lora": {"rank": 2, "layers": ["dense"]}, "data":)");
  ASSERT_EQ(Run({"export", "run.json", "--init", "m", "--train", "dense", "-o",
                 "m.c"}),
            0)
      << err_;
  const std::string text = ReadWhole(folder_ / "m.c");
  EXPECT_TRUE(Contains(text, "dense/lora_kernel_a (784, 2)"));
  EXPECT_TRUE(Contains(text, "dense/lora_kernel_b (2, 8)"));
  EXPECT_FALSE(Contains(text, "dense/kernel"));
  EXPECT_TRUE(Contains(text, "have the bits of `ringlet train`"));
  EXPECT_EQ(Run({"export", "run.json", "--init", "m", "--train",
                 "dense/kernel,dense_1", "-o", "n.c"}),
            2);
  EXPECT_TRUE(Contains(err_, "'dense/kernel' that can be trained (with LoRA"));
}

TEST_F(ProgramTest, ExportTrain_Int8_HasABodyInInt8) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"export", "m", "--train", "dense_1", "--quantize", "int8",
                 "--data", "run.json", "--batch", "8", "-o", "m.c"}),
            0)
      << err_;
  const std::string text = ReadWhole(folder_ / "m.c");
  EXPECT_TRUE(Contains(text, "In int8 up to layer 'dense'"));
  EXPECT_TRUE(Contains(text, "dense_1/kernel (8, 10)"));
}

TEST_F(ProgramTest, ExportTrain_WrongCommand_WritesNoFile) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  const struct {
    Strings arguments;
    const char* part;  // a part of the message
  } cases[] = {
      {{"--train", "dense", "-o", "m.onnx"}, "--train needs --format c"},
      {{"--batch", "2", "-o", "m.c"}, "--batch needs --train"},
      {{"--optimizer", "sgd", "-o", "m.c"}, "--optimizer needs --train"},
      {{"--learning-rate", "1", "-o", "m.c"}, "--learning-rate needs --train"},
      {{"--train", "all", "--quantize", "int8", "-o", "m.c"},
       "give --data RUN.json"},
      {{"--train", "all", "--quantize", "int8", "--data", "run.json", "-o",
        "m.c"},
       "no whole layer computes before the first trained one, 'dense'"},
      {{"--train", "dense,nose", "-o", "m.c"}, "has no layer or weight 'nose'"},
      {{"--train", "dense/kernels", "-o", "m.c"}, "weight 'dense/kernels'"},
      {{"--train", "flatten,dense", "-o", "m.c"}, "'flatten' that can be"},
      {{"--train", "all", "--softmax", "-o", "m.c"}, "without softmax"},
      {{"--train", "all", "--optimizer", "sdg", "-o", "m.c"}, "--optimizer: "},
      {{"--train", "all", "--optimizer", "lion", "-o", "m.c"}, "not SGD"},
  };
  for (const auto& c : cases) {
    Strings line = {"export", "m"};
    line.insert(line.end(), c.arguments.begin(), c.arguments.end());
    EXPECT_EQ(Run(line), 2) << c.part;
    EXPECT_TRUE(Contains(err_, c.part));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "m.c"));
  }
}

TEST_F(ProgramTest, ExportModel_WithWeights_ReplacesThem) {
  WriteRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"train", "run.json", "--seed", "5", "--save", "other"}), 0)
      << err_;
  ASSERT_EQ(Run({"export", "other", "-o", "w.npz"}), 0) << err_;
  ASSERT_EQ(
      Run({"export", "m", "--init", "w.npz", "--format", "model", "-o", "new"}),
      0)
      << err_;
  EXPECT_TRUE(Contains(out_ + err_, "wrote new: the model, "));
  ASSERT_EQ(Run({"export", "new", "-o", "again.npz"}), 0) << err_;
  EXPECT_EQ(ReadWhole(folder_ / "again.npz"), ReadWhole(folder_ / "w.npz"));
  EXPECT_EQ(Run({"evaluate", "new", "--data", "run.json"}), 0) << err_;
}

}  // namespace
}  // namespace ringlet
