// mixed_bfloat16 of a RUN.json: plan, training, files and continued runs.

#include <gtest/gtest.h>

#include <string>

#include "../support/contains.h"
#include "../support/program.h"

namespace ringlet {
namespace {

// A small network. `fit` has more fields of "fit".
std::string RunOf(const std::string& fit) {
  const std::string stem =
      EnvironmentOr("RINGLET_SOURCE", ".") + "/data/fashion-mnist-mini/train-";
  return R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 28, 28]}},
      {"class_name": "Reshape", "config": {"target_shape": [28, 28, 1]}},
      {"class_name": "Conv2D", "config": {"filters": 8, "kernel_size": 3}},
      {"class_name": "BatchNormalization"}, {"class_name": "ReLU"},
      {"class_name": "Conv2D", "config": {"filters": 8, "kernel_size": 3}},
      {"class_name": "BatchNormalization"}, {"class_name": "ReLU"},
      {"class_name": "GlobalAveragePooling2D"},
      {"class_name": "Dense", "config": {"units": 10,
        "activation": "softmax"}}]}},
    "compile": {"optimizer": "adam", "loss": "sparse_categorical_crossentropy"},
    "data": {"train": {"images": ")" +
         stem + R"(images-idx3-ubyte.gz", "labels": ")" + stem +
         R"(labels-idx1-ubyte.gz", "scale": 0.00390625}},
    "callbacks": [{"class_name": "BackupAndRestore",
                   "config": {"backup_dir": "backup",
                              "delete_checkpoint": false}}],
    "fit": {"batch_size": 32, "epochs": 1, "steps_per_epoch": 5,
            "validation_split": 0.1, "verbose": 2)" +
         fit + "}}";
}

class ProgramDTypeTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    WriteWhole(folder_ / "run.json", RunOf(""));
    WriteWhole(folder_ / "mixed.json",
               RunOf(R"(, "dtype_policy": "mixed_bfloat16")"));
  }
  // The number of this key in the output of `plan --json`.
  int64_t Planned(const std::string& key) const {
    const std::string name = '"' + key + "\":";
    const size_t at = out_.find(name);
    EXPECT_NE(at, std::string::npos) << out_;
    return std::stoll(out_.substr(at + name.size()));
  }
};

TEST_F(ProgramDTypeTest, Plan_MixedBFloat16_TakesLessMemory) {
  ASSERT_EQ(Run({"plan", "run.json", "--json"}), 0) << err_;
  const int64_t float32 = Planned("total");
  EXPECT_EQ(Planned("bfloat16_outputs"), 0);
  ASSERT_EQ(Run({"plan", "mixed.json", "--json"}), 0) << err_;
  EXPECT_LT(Planned("total"), float32);
  EXPECT_GT(Planned("bfloat16_outputs"), 0);
  const std::string mixed = out_;
  ASSERT_EQ(Run({"plan", "run.json", "--json", "--mixed-bfloat16"}), 0) << err_;
  EXPECT_EQ(out_, mixed);
  ASSERT_EQ(Run({"plan", "mixed.json"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "outputs kept as bfloat16"));
}

// The model's file has the policy: evaluate rounds as the validation did.
TEST_F(ProgramDTypeTest, Evaluate_SavedModel_HasTheLossOfTheValidation) {
  ASSERT_EQ(Run({"train", "mixed.json", "--save", "m.safetensors"}), 0) << err_;
  const size_t at = out_.find("val_loss: ");
  ASSERT_NE(at, std::string::npos) << out_;
  const std::string loss = out_.substr(at + 4, 12);
  ASSERT_EQ(Run({"evaluate", "m.safetensors", "--data", "mixed.json"}), 0)
      << err_;
  EXPECT_TRUE(Contains(out_, loss)) << out_;
  ASSERT_EQ(Run({"summary", "m.safetensors"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "mixed_bfloat16: 9")) << out_;
}

// The policy of "fit" holds for the layers of a RUN.json, and of the model's
// file that it names.
TEST_F(ProgramDTypeTest, Summary_RunJson_HasThePolicyOfFit) {
  ASSERT_EQ(Run({"summary", "run.json"}), 0) << err_;
  EXPECT_FALSE(Contains(out_, "mixed_bfloat16")) << out_;
  ASSERT_EQ(Run({"summary", "mixed.json"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "mixed_bfloat16: 9")) << out_;
  const std::string of_run = out_;
  ASSERT_EQ(Run({"train", "mixed.json", "--save", "m.safetensors"}), 0) << err_;
  for (const char* policy : {"float32", "mixed_bfloat16"}) {
    const std::string fit = std::string(R"(, "dtype_policy": ")") + policy;
    std::string run = RunOf(fit + '"');
    const size_t model = run.find("\"model\": ") + 9;
    run.replace(model, run.find("\"compile\"") - model, "\"m.safetensors\", ");
    WriteWhole(folder_ / "again.json", run);
    ASSERT_EQ(Run({"summary", "again.json"}), 0) << err_;
    EXPECT_EQ(Contains(out_, "mixed_bfloat16"), out_ == of_run) << out_;
    EXPECT_EQ(out_ == of_run, policy[0] == 'm');
  }
}

TEST_F(ProgramDTypeTest, Train_BackupOfAnotherPolicy_IsRefused) {
  ASSERT_EQ(Run({"train", "mixed.json", "--no-save"}), 0) << err_;
  EXPECT_EQ(Run({"train", "mixed.json", "--no-save", "--epochs", "2"}), 0)
      << err_;
  EXPECT_NE(Run({"train", "run.json", "--no-save", "--epochs", "3"}), 0);
  EXPECT_TRUE(Contains(err_, "mixed_bfloat16")) << err_;
}

TEST_F(ProgramDTypeTest, RunJson_OtherPolicy_IsRefused) {
  WriteWhole(folder_ / "run.json",
             RunOf(R"(, "dtype_policy": "mixed_float16")"));
  ExpectError({"plan", "run.json"}, 2, {"fit.dtype_policy", "mixed_float16"});
}

}  // namespace
}  // namespace ringlet
