// Samples of sequences train to a stated end, and a model that was fine-tuned
// by LoRA is used as any other.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "../support/contains.h"
#include "../support/program.h"
#include "../support/python.h"

namespace ringlet {
namespace {

class SamplesTest : public ProgramTest {
 protected:
  // Writes a sample to the folder, so that its other files are there.
  void WriteSample(const std::string& name, const std::string& from = "",
                   const std::string& to = "") {
    const std::string source = EnvironmentOr("RINGLET_SOURCE", ".");
    std::string text = ReadWhole(source + "/samples/" + name);
    for (size_t at; (at = text.find("\"../")) != std::string::npos;) {
      text.replace(at, 4, "\"" + source + "/");
    }
    if (!from.empty()) text = Replaced(text, from, to);
    WriteWhole(folder_ / name, text);
  }

  // The last value that the program has printed with this name.
  double Last(const std::string& name) const {
    const size_t at = out_.rfind(name + ": ");
    EXPECT_NE(at, std::string::npos) << name << " in " << out_;
    return at == std::string::npos
               ? 0
               : std::atof(out_.c_str() + at + name.size() + 2);
  }

  // Trains on one thread, and on two with the same result.
  void Train(const std::string& run, const std::string& model) {
    ASSERT_EQ(Run({"train", run, "--save", "two", "--threads", "2"}), 0)
        << err_;
    ASSERT_EQ(Run({"train", run, "--save", model}), 0) << err_;
    EXPECT_EQ(ReadWhole(folder_ / "two"), ReadWhole(folder_ / model));
  }
};

TEST_F(SamplesTest, Keywords_Trained_AreRecognized) {
  WriteSample("keywords.json");
  Train("keywords.json", "keywords.safetensors");
  EXPECT_GE(Last("val_accuracy"), 0.95);
}

TEST_F(SamplesTest, Characters_Trained_AreFineTunedByLora) {
  WriteSample("characters.json");
  Train("characters.json", "characters.safetensors");
  EXPECT_LE(Last("val_loss"), 0.5);

  const std::string small = R"("fit": {)", with_callback = R"("callbacks": [{
      "class_name": "ModelCheckpoint", "config": {
        "filepath": "small.safetensors", "save_trainable_only": true}}],
    "fit": {)";
  WriteSample("characters_lora.json", small, with_callback);
  ASSERT_EQ(Run({"evaluate", "characters.safetensors", "--data",
                 "characters_lora.json"}),
            0)
      << err_;
  const double before = Last("loss");
  Train("characters_lora.json", "tuned.safetensors");
  const double after = Last("val_loss");
  EXPECT_LE(after, 0.7);
  EXPECT_GE(before, 2 * after);

  // The file with the matrices alone, on the first model.
  EXPECT_LT(ReadWhole(folder_ / "small.safetensors").size() * 8,
            ReadWhole(folder_ / "characters.safetensors").size());
  ASSERT_EQ(
      Run({"evaluate", "characters_lora.json", "--init", "small.safetensors"}),
      0)
      << err_;
  EXPECT_FALSE(Contains(err_, "other frozen weights"));
  const std::string whole = out_;
  ASSERT_EQ(
      Run({"evaluate", "tuned.safetensors", "--data", "characters_lora.json"}),
      0)
      << err_;
  EXPECT_EQ(Last("loss"), std::atof(whole.c_str() + whole.rfind("loss: ") + 6));
  ASSERT_EQ(Run({"export", "tuned.safetensors", "--out", "tuned.onnx"}), 0)
      << err_;
}

TEST_F(SamplesTest, Lora_ContinuedFromABackup_EndsWithTheSameBits) {
  WriteSample("characters.json");
  ASSERT_EQ(Run({"train", "characters.json", "--epochs", "1", "--save",
                 "characters.safetensors"}),
            0)
      << err_;
  WriteSample("characters_lora.json");
  ASSERT_EQ(Run({"train", "characters_lora.json", "--epochs", "3", "--save",
                 "whole"}),
            0)
      << err_;
  WriteSample("characters_lora.json", R"("fit": {)", R"("callbacks": [{
      "class_name": "BackupAndRestore", "config": {
        "backup_dir": "backup", "save_freq": 7, "delete_checkpoint": false}}],
    "fit": {)");
  for (const char* const epochs : {"1", "3"}) {
    ASSERT_EQ(Run({"train", "characters_lora.json", "--epochs", epochs,
                   "--threads", epochs, "--save", "continued"}),
              0)
        << err_;
  }
  EXPECT_EQ(ReadWhole(folder_ / "continued"), ReadWhole(folder_ / "whole"));
}

TEST_F(SamplesTest, Lora_DoesNotFit_IsAnErrorBeforeTraining) {
  WriteRun(R"("data":)", R"("lora": {"rank": 2, "layers": ["wide"]}, "data":)");
  ExpectError({"train", "run.json"}, 2,
              {"run.json: lora: there is no layer 'wide'"});
  WriteRun(R"("data":)", R"("lora": {"layers": ["wide"]}, "data":)");
  ExpectError({"train", "run.json"}, 2, {"lora", "rank"});
  WriteRun(R"("data":)", R"("lora": {"rank": 2, "layers": []}, "data":)");
  ExpectError({"train", "run.json"}, 2, {"lora.layers"});
  WriteRun(R"("data":)", R"("lora": {"rank": 0}, "data":)");
  ExpectError({"train", "run.json"}, 2, {"lora.rank"});
}

// The weights of the body stay, and the files for boards are without the layers
// of augmentation, which one line says.
TEST_F(SamplesTest, Photos_NewHeadOnAFrozenBody_IsTrained) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  const std::string source = EnvironmentOr("RINGLET_SOURCE", ".");
  WriteWhole(folder_ / "photos.json",
             ReadWhole(source + "/samples/photos/photos.json"));
  RunPython(source + "/samples/photos/make.py " + folder_.path());
  const Strings train = {"train",     "photos.json", "--init", "body.npz",
                         "--by-name", "--save",      "m",      "--threads"};
  const auto with = [&](const std::string& threads) {
    Strings all = train;
    all.push_back(threads);
    return all;
  };
  ASSERT_EQ(Run(with("2")), 0) << err_;
  EXPECT_TRUE(Contains(err_, "260 of 266 weights are taken"));
  EXPECT_GE(Last("val_accuracy"), 0.6);
  const std::string model = ReadWhole(folder_ / "m");
  ASSERT_EQ(Run(with("1")), 0) << err_;
  EXPECT_TRUE(ReadWhole(folder_ / "m") == model);

  ASSERT_EQ(Run({"summary", "m"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "Trainable params: 6,403"));
  ASSERT_EQ(Run({"export", "m", "-o", "w.npz"}), 0) << err_;
  EXPECT_EQ(RunPython("-c 'import numpy, sys; "
                      "a, b = map(numpy.load, sys.argv[1:]); "
                      "print(all((a[n] == b[[m for m in b.files "
                      "if m.endswith(n)][0]]).all() for n in a.files))' " +
                      (folder_ / "body.npz") + " " + (folder_ / "w.npz")),
            Strings{"True"});
  ASSERT_EQ(Run({"export", "m", "-o", "m.c"}), 0) << err_;
  EXPECT_TRUE(Contains(err_,
                       "note: m.c: is without the layers that only training "
                       "uses: RandomFlip, RandomRotation, RandomContrast\n"));
  ASSERT_EQ(Run({"export", "m", "-o", "m.c", "--quantize", "int8", "--data",
                 "photos.json"}),
            0)
      << err_;
  ASSERT_EQ(Run({"export", "m", "-o", "m.json"}), 0) << err_;
  EXPECT_FALSE(Contains(err_, "is without"));
}

}  // namespace
}  // namespace ringlet
