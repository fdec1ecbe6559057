// Pictures in folders: training, evaluation, prediction and inspection by the
// program.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "../support/contains.h"
#include "../support/picture_folder.h"
#include "../support/program.h"
#include "../support/temp_folder.h"

namespace ringlet {
namespace {

constexpr char kPictureRun[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 4, 6, 1]}},
    {"class_name": "Flatten"},
    {"class_name": "Dense", "config": {"units": 8, "activation": "tanh"}},
    {"class_name": "Dense", "config": {"units": 3, "activation": "softmax"}}]}},
  "compile": {"optimizer": {"class_name": "Adam",
                            "config": {"learning_rate": 0.05}},
    "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]},
  "data": {
    "train": {"directory": "train", "scale": 0.004},
    "validation": {"directory": "other", "scale": 0.004}},
  "fit": {"batch_size": 32, "epochs": 100, "threads": 2}
})";

class ProgramPicturesTest : public ProgramTest {
 protected:
  // 45 pictures of three classes, and 4 of two of them.
  ProgramPicturesTest() {
    WriteClasses(folder_ / "train", {"black", "gray", "white"}, 15);
    WriteClasses(folder_ / "other", {"black", "gray"}, 2);
    std::filesystem::rename(folder_ / "other/gray", folder_ / "other/white");
    for (const char* name : {"100.pgm", "101.pgm"}) {
      WriteWhole(folder_ / ("other/white/" + std::string(name)),
                 GrayPgm(3, 3, 170));
    }
  }

  void WritePictureRun(const std::string& from = "",
                       const std::string& to = "") {
    std::string text = kPictureRun;
    WriteWhole(folder_ / "run.json",
               from.empty() ? text : Replaced(text, from, to));
  }
};

TEST_F(ProgramPicturesTest, Folders_TrainedModel_EvaluatesAndPredictsByName) {
  WritePictureRun();
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "val_accuracy"));
  // The folder of the validation data lacks one of the classes.
  ASSERT_EQ(Run({"evaluate", "m", "--images", "other", "--json"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "\"accuracy\":1"));
  const std::string by_folder = out_;
  ASSERT_EQ(Run({"evaluate", "m", "--data", "run.json", "--json"}), 0) << err_;
  EXPECT_EQ(out_, by_folder);
  ASSERT_EQ(Run({"predict", "m", "--images", "other"}), 0) << err_;
  Strings rows = Lines(out_);
  ASSERT_EQ(rows.size(), 5u) << out_;
  EXPECT_EQ(rows[0], "file,class,probability,black,gray,white");
  EXPECT_TRUE(Contains(rows[1], "other/black/100.pgm,black,"));
  EXPECT_TRUE(Contains(rows[4], "other/white/101.pgm,white,"));
  // Single files, in the order given.
  ASSERT_EQ(Run({"predict", "m", "--images", "other/white/100.pgm",
                 "train/gray/103.pgm", "--out", "p.csv"}),
            0)
      << err_;
  rows = Lines(ReadWhole(folder_ / "p.csv"));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(Contains(rows[1], "other/white/100.pgm,white,"));
  EXPECT_TRUE(Contains(rows[2], "train/gray/103.pgm,gray,"));
}

TEST_F(ProgramPicturesTest, Folders_OtherThreadsWorkersOrMemory_GiveSameModel) {
  WritePictureRun(R"("batch_size": 32, "epochs": 100, "threads": 2})",
                  R"("batch_size": 8, "epochs": 2, "threads": 2},
                     "strategy": {"replicas": 3, "reduction": "exact"})");
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  const std::string model = ReadWhole(folder_ / "m");
  ASSERT_EQ(Run({"train", "run.json", "--save", "m", "--threads", "1"}), 0);
  EXPECT_TRUE(ReadWhole(folder_ / "m") == model);
  ASSERT_EQ(Run({"launch", "-n", "3", "--", Program("tools/ringlet/ringlet"),
                 "train", "run.json", "--save", "m"}),
            0)
      << err_;
  EXPECT_TRUE(ReadWhole(folder_ / "m") == model);
  std::string text = ReadWhole(folder_ / "run.json");
  text = Replaced(text, "\"train\", \"scale\"",
                  "\"train\", \"in_memory\": false, \"scale\"");
  WriteWhole(folder_ / "run.json", text);
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  EXPECT_TRUE(ReadWhole(folder_ / "m") == model);
}

TEST_F(ProgramPicturesTest, ValidationSplit_OneFolder_GivesBothParts) {
  WritePictureRun(R"("scale": 0.004},
    "validation": {"directory": "other", "scale": 0.004}})",
                  R"("scale": 0.004, "validation_split": 0.2, "seed": 7}})");
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0)
      << err_;
  EXPECT_TRUE(Contains(out_, "2/2 "));  // 36 pictures
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json"}), 0) << err_;
  EXPECT_EQ(Lines(out_).size(), 1u + 9u);
  ASSERT_EQ(Run({"plan", "run.json", "--limit", "64M"}), 0) << err_;
  // 45 pictures of 24 bytes, with labels of 4; a batch of each part (32 and 9),
  // and for each part a picture that is decoded, with its file of 35 bytes.
  EXPECT_TRUE(Contains(out_, " 2526\n"));
}

// A model that is trained with another resizing than the default. Halves of
// pictures to predict differ, so that each resizing gives other values.
class PictureResizingTest : public ProgramPicturesTest {
 protected:
  PictureResizingTest() {
    for (const char* name : {"100.pgm", "101.pgm"}) {
      WriteWhole(folder_ / ("other/white/" + std::string(name)),
                 "P5 9 2 255\n123456789abcdefghi");
    }
    WritePictureRun("\"train\", \"scale\"",
                    "\"train\", \"image_size\": [4, 6], "
                    "\"interpolation\": \"nearest\", "
                    "\"crop_to_aspect_ratio\": true, \"scale\"");
    EXPECT_EQ(Run({"train", "run.json", "--epochs", "1", "--save", "m"}), 0)
        << err_;
  }

  // Predicts with `field` in data.validation, which must be refused.
  void ExpectRefused(const std::string& field, const std::string& message) {
    WritePictureRun("\"other\", \"scale\"",
                    "\"other\", " + field + ", \"scale\"");
    EXPECT_EQ(Run({"predict", "m", "--data", "run.json"}), 2);
    EXPECT_TRUE(Contains(err_, message));
  }
};

TEST_F(PictureResizingTest, Predict_NoFieldsGiven_ResizesAsTrained) {
  ASSERT_EQ(Run({"predict", "m", "--images", "other"}), 0) << err_;
  const std::string by_folder = out_;
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json"}), 0) << err_;
  EXPECT_EQ(out_, by_folder);
}

TEST_F(PictureResizingTest, Predict_OtherInterpolation_IsRefused) {
  ExpectRefused(R"("interpolation": "area")",
                "interpolation: is \"area\", but the model was trained with "
                "\"nearest\"");
}

TEST_F(PictureResizingTest, Predict_OtherCrop_IsRefused) {
  ExpectRefused(R"("crop_to_aspect_ratio": false)",
                "crop_to_aspect_ratio: is false, but the model was trained "
                "with true");
}

TEST_F(ProgramPicturesTest, Train_DamagedPicture_EndsOrIsSkipped) {
  WriteWhole(folder_ / "train/gray/104.pgm", "P5 6 4 255\nshort");
  WritePictureRun();
  EXPECT_EQ(Run({"train", "run.json", "--epochs", "1", "--no-save"}), 1);
  EXPECT_TRUE(Contains(err_, "train/gray/104.pgm: ends early"));
  WritePictureRun("\"train\", \"scale\"",
                  "\"train\", \"damaged\": \"skip\", \"scale\"");
  ASSERT_EQ(Run({"train", "run.json", "--epochs", "1", "--no-save"}), 0)
      << err_;
  EXPECT_TRUE(Contains(err_, "train: 1 of 45 pictures are damaged"));
}

TEST_F(ProgramPicturesTest, Csv_PathsAndLabels_TrainAndPredict) {
  WriteWhole(folder_ / "list.csv",
             "file,shade\ntrain/black/100.pgm,dark\n"
             "train/white/100.pgm,bright\ntrain/gray/100.pgm,mid\n");
  WritePictureRun(R"("train": {"directory": "train", "scale": 0.004},
    "validation": {"directory": "other", "scale": 0.004})",
                  R"("train": {"csv": "list.csv", "image": "file",
                               "label": "shade", "scale": 0.004})");
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json", "--part", "train"}), 0)
      << err_;
  const Strings rows = Lines(out_);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0], "file,class,probability,bright,dark,mid");
}

TEST_F(ProgramPicturesTest, Inspect_FolderOrPicture_ShowsClassesAndSizes) {
  ASSERT_EQ(Run({"inspect", "other"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "other: 4 pictures in 2 folders"));
  EXPECT_TRUE(Contains(out_, "white"));
  EXPECT_TRUE(Contains(out_, "4 x 6"));
  EXPECT_TRUE(Contains(out_, "3 x 3"));
  ASSERT_EQ(Run({"inspect", "other/black/100.pgm"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "4 x 6 pixels"));
}

TEST_F(ProgramPicturesTest, Train_WrongField_IsRefused) {
  const struct {
    const char *field, *message;
  } cases[] = {
      {R"("interpolation": "bicubic")", "bilinear"},
      {R"("image_size": [4])", "image_size"},
      {R"("image_size": [5, 5])", "(5, 5, 1)"},
      {R"("sequence_length": 3)", "windows are of rows"},
      {R"("x": "x.npy")", "must have one of"},
      {R"("subset": "training")", "validation_split"},
      {R"("validation_split": 0.2)", "leave one out"},
      {R"("class_names": ["black", "gray"])", "'white'"},
  };
  for (const auto& [field, message] : cases) {
    WritePictureRun(R"("train", "scale")",
                    R"("train", )" + std::string(field) + R"(, "scale")");
    EXPECT_EQ(Run({"train", "run.json", "--no-save"}), 2) << field;
    EXPECT_TRUE(Contains(err_, message)) << field;
  }
}

// Also with their defaults, which would be without an effect.
TEST_F(ProgramPicturesTest, Train_CsvWithoutImage_RefusesFieldsOfPictures) {
  WriteWhole(folder_ / "list.csv", "a,b\n1,0\n2,1\n");
  for (const char* field :
       {R"("image_size": [4, 6])", R"("color_mode": "rgb")",
        R"("label_mode": "int")", R"("label_mode": null)",
        R"("class_names": ["a"])", R"("interpolation": "bilinear")",
        R"("crop_to_aspect_ratio": false)", R"("subset": "both")",
        R"("validation_split": 0)", R"("seed": 0)", R"("damaged": "error")"}) {
    WritePictureRun(R"("directory": "train")",
                    R"("csv": "list.csv", )" + std::string(field));
    EXPECT_EQ(Run({"train", "run.json", "--no-save"}), 2) << field;
    EXPECT_TRUE(
        Contains(err_, "needs \"image\" or \"audio\", the column of paths"))
        << field;
  }
}

TEST_F(ProgramPicturesTest, Train_BothKindsOfSplit_IsRefused) {
  WritePictureRun(
      "\"validation\": {\"directory\": \"other\", \"scale\": 0.004}},\n"
      "  \"fit\": {",
      "\"validation\": null}, \"fit\": {\"validation_split\": 0.1, ");
  EXPECT_EQ(Run({"train", "run.json", "--no-save"}), 2);
  EXPECT_TRUE(Contains(err_, "give data.train.validation_split"));
}

TEST_F(ProgramPicturesTest, Train_ModelOfTwoChannels_IsRefused) {
  WritePictureRun("[null, 4, 6, 1]", "[null, 4, 6, 2]");
  EXPECT_EQ(Run({"train", "run.json", "--no-save"}), 2);
  EXPECT_TRUE(Contains(err_, "of 2 channels"));
}

}  // namespace
}  // namespace ringlet
