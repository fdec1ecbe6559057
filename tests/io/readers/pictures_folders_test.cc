// The classes of a folder of pictures: which folders are read, the notes on
// them, and what a job and a resumed run compare.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/picture_folder.h"
#include "../../support/thread_collective.h"
#include "io/readers/files/picture_list.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;
using Subset = ImageOptions::Subset;

class PicturesFoldersTest : public testing::Test {
 protected:
  PicturesFoldersTest() {
    options_.height = 2;
    options_.width = 3;
    options_.color_mode = ImageOptions::ColorMode::kGrayscale;
    WriteClasses(root_, {"a", "b", "c"}, 3);
  }

  Dataset Open() const { return ImageDatasetFromDirectory(root_, options_); }
  Status Error() const { return Open().Batch(2).status(); }

  std::string Notes() const {
    testing::internal::CaptureStderr();
    EXPECT_OK(Error());
    return testing::internal::GetCapturedStderr();
  }

  TempFolder folder_;
  const std::string root_ = folder_ / "data";
  ImageOptions options_;
};

TEST_F(PicturesFoldersTest, Open_ClassGivenTwice_IsRefused) {
  options_.class_names = {"c", "a", "b", "a"};
  EXPECT_EQ(Error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(Error(), "class_names: has 'a' twice"));
  const Dataset list = ImageDataset({root_ + "/a/100.pgm"}, options_);
  EXPECT_TRUE(Contains(list.Batch(1).status(), "has 'a' twice"));
}

TEST_F(PicturesFoldersTest, Open_ClassThatIsAPath_HasNoPictures) {
  WriteClasses(folder_.path(), {"other"}, 2);
  WriteClasses(root_, {".hid"}, 2);
  WriteClasses(root_ + "/a", {"deep"}, 1);
  for (const char* name :
       {"..", ".", "../other", ".hid", "a/deep", "a/", "../data/b", "", "/"}) {
    options_.class_names = {"a", "b", "c", name};
    FileList list;
    ASSERT_OK(ListFiles(kPictureFiles, root_, /*labelled=*/true,
                        options_.class_names, &list));
    EXPECT_EQ(list.paths.size(), 10u) << name;
    EXPECT_EQ(list.classes.size(), 4u);
    for (const int32_t label : list.labels) EXPECT_LT(label, 3) << name;
  }
}

TEST_F(PicturesFoldersTest, Open_ClassesAreFolders_PrintsThem) {
  const std::string order = "classes in their order: 0 'a', 1 'b', 2 'c'";
  EXPECT_TRUE(Contains(Notes(), order));
  options_.validation_split = 0.5;
  options_.subset = Subset::kTraining;
  EXPECT_TRUE(Contains(Notes(), order));
  options_.subset = Subset::kValidation;
  EXPECT_EQ(Notes(), "");
}

TEST_F(PicturesFoldersTest, Open_ClassWithoutAPicture_PrintsANote) {
  options_.class_names = {"c", "d", "b", "a"};
  EXPECT_TRUE(Contains(Notes(), "has no example of 1 of the 4 classes: 'd'"));
  fs::create_directories(root_ + "/d");
  EXPECT_TRUE(Contains(Notes(), "1 of the 4 classes: 'd'"));
  WriteWhole(root_ + "/d/1.pgm", GrayPgm(2, 3, 9));
  EXPECT_EQ(Notes(), "");
}

TEST_F(PicturesFoldersTest, Open_SplitWithoutSubset_IsRefused) {
  options_.validation_split = 0.3;
  EXPECT_EQ(Error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(Error(), "validation_split: is 0.3 without a subset"));
  options_.subset = Subset::kValidation;
  EXPECT_OK(Error());
}

TEST_F(PicturesFoldersTest, Open_ImageSizeWithALongSide_IsRefused) {
  options_.height = 65536;
  EXPECT_TRUE(Contains(Error(), "both must be from 1 to 65535"));
}

std::unique_ptr<Sequential> PictureModel(
    const CompileOptions& compiling = CompileOptions()) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({2, 3, 1}));
  model->Add(Flatten());
  model->Add(Dense(3));
  model->Compile(SGD(0.01f), SparseCategoricalCrossentropy(kFromLogits), {},
                 compiling);
  return model;
}

TEST_F(PicturesFoldersTest, Fit_WorkersWithOtherResizing_AreRefused) {
  enum Difference { kNone, kInterpolation, kCrop };
  for (const Difference difference : {kNone, kInterpolation, kCrop}) {
    RunRanks(3, [&](Collective* collective) {
      ImageOptions options = options_;
      if (collective->rank() == 2 && difference == kInterpolation) {
        options.resizing.interpolation = Interpolation::kArea;
      }
      options.resizing.crop_to_aspect_ratio =
          collective->rank() == 2 && difference == kCrop;
      const Dataset data = ImageDatasetFromDirectory(root_, options)
                               .AutoShard(AutoShardPolicy::kOff)
                               .OwnExamples({9, 9, 9})
                               .Batch(3);
      FitOptions fit;
      fit.verbose = Verbose::kSilent;
      const auto model = PictureModel(CompileOptions(collective));
      const Status status = model->Fit(data, fit).status();
      EXPECT_EQ(status.ok(), difference == kNone) << status.message();
      if (difference == kNone) return;
      EXPECT_TRUE(Contains(status, difference == kCrop
                                       ? "crop_to_aspect_ratio"
                                       : "the pictures' interpolation"));
    });
  }
}

// Returns the text on stderr of a fit with a backup.
std::string FitWithBackup(const std::string& folder, const Dataset& data,
                          int64_t epochs) {
  FitOptions options;
  options.verbose = Verbose::kSilent;
  options.epochs = epochs;
  BackupAndRestoreOptions backup;
  backup.delete_checkpoint = false;
  options.callbacks = {BackupAndRestore(folder, backup)};
  testing::internal::CaptureStderr();
  EXPECT_OK(PictureModel()->Fit(data.Batch(4), options).status());
  return testing::internal::GetCapturedStderr();
}

TEST_F(PicturesFoldersTest, Resume_ARenamedClass_Warns) {
  const std::string backup = folder_ / "backup";
  FitWithBackup(backup, Open(), 1);
  EXPECT_EQ(FitWithBackup(backup, Open(), 2).find("other classes"),
            std::string::npos);
  fs::rename(root_ + "/b", root_ + "/z");
  const std::string printed = FitWithBackup(backup, Open(), 3);
  EXPECT_TRUE(Contains(printed, "was saved with other classes: a, b, c ("));
  EXPECT_TRUE(Contains(printed, "this run: a, c, z ("));
}

TEST_F(PicturesFoldersTest, Resume_UnusualNames_ComparesAllOfThem) {
  const std::string backup = folder_ / "backup";
  std::string last;
  for (int i = 0; i < 40; ++i) last += "\xc3\xa4";
  fs::rename(root_ + "/b", root_ + "/\xff\x01\xfe");
  fs::rename(root_ + "/c", root_ + "/" + last);
  options_.class_names = {last, "\xff\x01\xfe", "a"};
  FitWithBackup(backup, Open(), 1);
  EXPECT_EQ(FitWithBackup(backup, Open(), 2).find("other classes"),
            std::string::npos);
  std::swap(options_.class_names[1], options_.class_names[2]);
  const std::string printed = FitWithBackup(backup, Open(), 3);
  EXPECT_TRUE(Contains(printed, "was saved with other classes: \xc3\xa4"));
  EXPECT_EQ(printed.find("checksum"), printed.find(" ... (") + 6);
}

}  // namespace
}  // namespace ringlet
