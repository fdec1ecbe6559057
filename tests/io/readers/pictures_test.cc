// Data sets of pictures: folders, lists and tables of them.

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "../../support/captured_output.h"
#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/picture_folder.h"
#include "core/data/dataset_parts.h"
#include "io/readers/files/picture_list.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

using LabelMode = ImageOptions::LabelMode;
using Subset = ImageOptions::Subset;
namespace fs = std::filesystem;

class PicturesTest : public testing::Test {
 protected:
  PicturesTest() {
    options_.height = 2;
    options_.width = 3;
    options_.color_mode = ImageOptions::ColorMode::kGrayscale;
  }

  // The first value of x of each example, which identifies the picture.
  static std::vector<int> Grays(const Dataset& dataset) {
    const Dataset batched = dataset.Batch(1);
    EXPECT_OK(batched.status());
    std::vector<int> grays;
    if (!batched.status().ok()) return grays;
    Source* const source = dataset.source().get();
    std::vector<unsigned char> x(source->x().bytes());
    for (int64_t i = 0; i < source->size(); ++i) {
      EXPECT_OK(source->Read(&i, 1, x.data(), nullptr));
      grays.push_back(x[0]);
    }
    return grays;
  }

  template <typename T>
  static std::vector<T> Labels(const Dataset& dataset) {
    Source* const source = dataset.source().get();
    const auto size = static_cast<size_t>(source->size());
    std::vector<int64_t> all(size);
    std::iota(all.begin(), all.end(), int64_t{0});
    std::vector<T> labels(size * source->y().bytes() / sizeof(T));
    EXPECT_OK(source->Read(all.data(), static_cast<int>(size), nullptr,
                           labels.data()));
    return labels;
  }

  static Status ErrorOf(const Dataset& dataset) {
    return dataset.Batch(1).status();
  }

  Dataset FromFolder() const {
    return ImageDatasetFromDirectory(folder_.path(), options_);
  }

  TempFolder folder_;
  ImageOptions options_;
};

TEST_F(PicturesTest, Directory_NestedFolders_SortsClassesAndFiles) {
  WriteClasses(folder_.path(), {"b", "a"}, 2);
  fs::create_directories(folder_ / "a/deep");
  WriteWhole(folder_ / "a/deep/0.PGM", GrayPgm(9, 9, 200));
  WriteWhole(folder_ / "a/readme.txt", "not a picture");
  WriteWhole(folder_ / "outside.pgm", GrayPgm(1, 1, 1));
  fs::create_directories(folder_ / ".hidden");
  const Dataset dataset = FromFolder();
  EXPECT_EQ(Grays(dataset), std::vector<int>({80, 81, 200, 0, 1}));
  EXPECT_EQ(Labels<int32_t>(dataset), std::vector<int32_t>({0, 0, 0, 1, 1}));
  const Source& source = *dataset.source();
  EXPECT_EQ(source.Description().classes, std::vector<std::string>({"a", "b"}));
  EXPECT_EQ(source.x().shape, Shape({2, 3, 1}));
  EXPECT_EQ(source.x().dtype, DType::kUint8);
  EXPECT_EQ(source.ExamplePath(2), folder_ / "a/deep/0.PGM");
}

TEST_F(PicturesTest, LabelMode_Categorical_GivesOneAmongZeros) {
  WriteClasses(folder_.path(), {"a", "b"}, 1);
  options_.label_mode = LabelMode::kCategorical;
  const Dataset dataset = FromFolder();
  EXPECT_EQ(dataset.source()->y().shape, Shape({2}));
  EXPECT_EQ(Labels<float>(dataset), std::vector<float>({1, 0, 0, 1}));
}

TEST_F(PicturesTest, LabelMode_Binary_HasTwoClasses) {
  WriteClasses(folder_.path(), {"a", "b"}, 1);
  options_.label_mode = LabelMode::kBinary;
  EXPECT_EQ(Labels<float>(FromFolder()), std::vector<float>({0, 1}));
  WriteClasses(folder_.path(), {"a", "b", "c"}, 1);
  EXPECT_TRUE(
      Contains(ErrorOf(FromFolder()), "for two classes, but there are 3"));
}

TEST_F(PicturesTest, LabelMode_None_GivesNoLabelsAndNeedsNoFolders) {
  WriteClasses(folder_.path(), {"a", "b"}, 1);
  options_.label_mode = LabelMode::kNone;
  const Dataset dataset = FromFolder();
  EXPECT_EQ(dataset.source()->y().shape.elements(), 0);
  EXPECT_EQ(Grays(dataset), std::vector<int>({0, 80}));
  EXPECT_EQ(Grays(ImageDatasetFromDirectory(folder_ / "b", options_)),
            std::vector<int>({80}));
}

TEST_F(PicturesTest, ClassNames_OneAbsent_NumberTheFolders) {
  WriteClasses(folder_.path(), {"a", "c"}, 1);
  options_.class_names = {"c", "b", "a"};
  const Dataset dataset = FromFolder();
  EXPECT_EQ(Labels<int32_t>(dataset), std::vector<int32_t>({0, 2}));
  EXPECT_EQ(Grays(dataset), std::vector<int>({80, 0}));
  options_.class_names = {"a", "b"};
  EXPECT_TRUE(
      Contains(ErrorOf(FromFolder()), "'c' is not one of the 2 classes"));
}

TEST_F(PicturesTest, NumpyShuffled_KnownSeeds_HasOrderOfNumpy) {
  EXPECT_EQ(NumpyShuffled(123, 10),
            std::vector<size_t>({4, 0, 7, 5, 8, 3, 1, 6, 9, 2}));
  EXPECT_EQ(NumpyShuffled(0, 7), std::vector<size_t>({6, 2, 1, 3, 0, 5, 4}));
  EXPECT_EQ(NumpyShuffled(4294967295, 20),
            std::vector<size_t>({11, 17, 19, 15, 1, 5, 8, 16, 13, 18,
                                 14, 9,  10, 6,  0, 4, 7, 12, 2,  3}));
  EXPECT_TRUE(NumpyShuffled(1, 0).empty());
}

TEST_F(PicturesTest, Subset_EachPart_HasFilesOfKeras) {
  WriteClasses(folder_.path(), {"a"}, 10);
  options_.validation_split = 0.25;  // int(2.5)
  options_.seed = 123;
  options_.subset = Subset::kTraining;
  EXPECT_EQ(Grays(FromFolder()), std::vector<int>({4, 0, 7, 5, 8, 3, 1, 6}));
  options_.subset = Subset::kValidation;
  EXPECT_EQ(Grays(FromFolder()), std::vector<int>({9, 2}));
  options_.validation_split = 0.05;
  EXPECT_TRUE(Contains(ErrorOf(FromFolder()), "leaves none to validate"));
  options_.validation_split = 0;
  EXPECT_TRUE(Contains(ErrorOf(FromFolder()), "needs one between 0 and 1"));
}

TEST_F(PicturesTest, Directory_OnDisk_HasExamplesOfMemory) {
  WriteClasses(folder_.path(), {"a", "b"}, 3);
  options_.resizing.interpolation = Interpolation::kArea;
  const std::vector<int> in_memory = Grays(FromFolder());
  options_.in_memory = false;
  EXPECT_EQ(Grays(FromFolder()), in_memory);
}

TEST_F(PicturesTest, OnDisk_FileThatChanges_ErrorNamesIt) {
  WriteClasses(folder_.path(), {"a"}, 2);
  options_.in_memory = false;
  const Dataset dataset = FromFolder();
  EXPECT_EQ(Grays(dataset), Grays(dataset));
  WriteWhole(folder_ / "a/101.pgm",
             ReadWhole(folder_ / "a/101.pgm") + "\n# longer");
  const int64_t index = 1;
  std::vector<unsigned char> x(dataset.source()->x().bytes());
  const Status status = dataset.source()->Read(&index, 1, x.data(), nullptr);
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_TRUE(Contains(status, "a/101.pgm: was changed while it is in use"));
}

TEST_F(PicturesTest, Damaged_ByDefault_IsAnErrorWithPath) {
  WriteClasses(folder_.path(), {"a"}, 3);
  WriteWhole(folder_ / "a/101.pgm", "P5 4 6 255\n123");
  const Status status = ErrorOf(FromFolder());
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_TRUE(Contains(status, "a/101.pgm: ends early"));
  options_.in_memory = false;
  const Dataset on_disk = FromFolder();
  ASSERT_OK(ErrorOf(on_disk));
  const int64_t index = 1;
  unsigned char x[6];
  EXPECT_TRUE(Contains(on_disk.source()->Read(&index, 1, x, nullptr),
                       "a/101.pgm: ends early"));
}

TEST_F(PicturesTest, Damaged_Skipped_IsLeftOutAndCounted) {
  WriteClasses(folder_.path(), {"a", "b"}, 2);
  WriteWhole(folder_ / "a/101.pgm", "P5 4 6 255\n123");
  WriteWhole(folder_ / "b/101.pgm", "hello");
  options_.skip_damaged = true;
  for (const bool in_memory : {true, false}) {
    options_.in_memory = in_memory;
    const CapturedOutput captured;
    const Dataset dataset = FromFolder();
    const std::string notes = captured.text();
    EXPECT_EQ(Grays(dataset), std::vector<int>({0, 80}));
    EXPECT_EQ(Labels<int32_t>(dataset), std::vector<int32_t>({0, 1}));
    EXPECT_TRUE(Contains(notes, "2 of 4 pictures are damaged"));
    EXPECT_TRUE(Contains(notes, "a/101.pgm: ends early"));
  }
  for (const char* name : {"a/100.pgm", "b/100.pgm"}) {
    WriteWhole(folder_ / name, "");
  }
  EXPECT_TRUE(
      Contains(ErrorOf(FromFolder()), "none of the pictures can be read"));
}

TEST_F(PicturesTest, Damaged_Skipped_RefusesFormatsThatAreNotRead) {
  WriteClasses(folder_.path(), {"a"}, 2);
  WriteWhole(folder_ / "a/101.pgm", "GIF89a");
  options_.skip_damaged = true;
  EXPECT_TRUE(Contains(ErrorOf(FromFolder()), "a/101.pgm: is a GIF"));
  WriteWhole(folder_ / "a/101.pgm", "P5 60000 60000 255\n");
  EXPECT_TRUE(Contains(ErrorOf(FromFolder()), "60000 x 60000 pixels"));
}

TEST_F(PicturesTest, Directory_NoFolders_IsAnError) {
  EXPECT_TRUE(Contains(ErrorOf(FromFolder()), "has no folders"));
}

TEST_F(PicturesTest, Directory_EmptyFolder_IsAnError) {
  fs::create_directories(folder_ / "a");
  EXPECT_TRUE(Contains(ErrorOf(FromFolder()), "has no pictures"));
}

TEST_F(PicturesTest, Directory_Missing_IsNotFound) {
  EXPECT_EQ(
      ErrorOf(ImageDatasetFromDirectory(folder_ / "none", options_)).code(),
      Code::kNotFound);
}

TEST_F(PicturesTest, Size_TooLarge_IsAnError) {
  WriteClasses(folder_.path(), {"a"}, 1);
  options_.height = int64_t{1} << 40;
  EXPECT_TRUE(Contains(ErrorOf(FromFolder()), "image_size"));
}

TEST_F(PicturesTest, Csv_PathsAndNames_GiveExamplesAndLabels) {
  WriteClasses(folder_.path(), {"a", "b"}, 2);
  WriteWhole(folder_ / "list.csv", "file,kind,weight\na/101.pgm,x,1\n" +
                                       (folder_ / "b/100.pgm") +
                                       ",y,2\na/100.pgm,x,3\n");
  CsvOptions table;
  table.label_name = "kind";
  table.weight_name = "weight";
  const Dataset dataset =
      ImageDatasetFromCsv(folder_ / "list.csv", "file", options_, table);
  EXPECT_EQ(Grays(dataset), std::vector<int>({1, 80, 0}));
  EXPECT_EQ(Labels<int32_t>(dataset), std::vector<int32_t>({0, 1, 0}));
  EXPECT_EQ(dataset.source()->Description().classes,
            std::vector<std::string>({"x", "y"}));
  EXPECT_EQ(*dataset.parts().weights, std::vector<float>({1, 2, 3}));
  options_.label_mode = LabelMode::kCategorical;
  EXPECT_EQ(Labels<float>(ImageDatasetFromCsv(folder_ / "list.csv", "file",
                                              options_, table)),
            std::vector<float>({1, 0, 0, 1, 1, 0}));
  options_.label_mode = LabelMode::kInt;
  options_.subset = Subset::kTraining;
  options_.validation_split = 0.4;
  const Dataset part =
      ImageDatasetFromCsv(folder_ / "list.csv", "file", options_, table);
  EXPECT_EQ(part.size(), 2);
  EXPECT_EQ(part.parts().weights->size(), 2u);
}

TEST_F(PicturesTest, Csv_ClassesOfTable_NumberTheLabels) {
  WriteClasses(folder_.path(), {"a"}, 2);
  WriteWhole(folder_ / "list.csv", "file,kind\na/100.pgm,x\na/101.pgm,y\n");
  CsvOptions table;
  table.classes = {"y", "x"};
  const auto labels = [&] {
    return Labels<int32_t>(
        ImageDatasetFromCsv(folder_ / "list.csv", "file", options_, table));
  };
  EXPECT_EQ(labels(), std::vector<int32_t>({1, 0}));
  options_.class_names = {"z", "y", "x"};
  EXPECT_EQ(labels(), std::vector<int32_t>({2, 1}));
}

TEST_F(PicturesTest, Csv_NumbersAsLabels_AreTargets) {
  WriteClasses(folder_.path(), {"a"}, 2);
  WriteWhole(folder_ / "list.csv", "a/100.pgm,0.5\na/101.pgm,-2\n");
  const Dataset dataset =
      ImageDatasetFromCsv(folder_ / "list.csv", "0", options_);
  ASSERT_OK(ErrorOf(dataset));
  EXPECT_EQ(Labels<float>(dataset), std::vector<float>({0.5f, -2}));
  options_.label_mode = LabelMode::kBinary;
  EXPECT_TRUE(Contains(
      ErrorOf(ImageDatasetFromCsv(folder_ / "list.csv", "0", options_)),
      "the labels are numbers"));
}

TEST_F(PicturesTest, ImageDataset_List_KeepsItsOrder) {
  WriteClasses(folder_.path(), {"a", "b"}, 2);
  EXPECT_EQ(Grays(ImageDataset({folder_ / "b/101.pgm", folder_ / "a/100.pgm"},
                               options_)),
            std::vector<int>({81, 0}));
  EXPECT_TRUE(Contains(ErrorOf(ImageDataset({}, options_)), "no pictures"));
}

}  // namespace
}  // namespace ringlet
