// Data sets of sound: folders, lists and tables of WAV files.

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "../../support/captured_output.h"
#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/sound_files.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

using LabelMode = AudioOptions::LabelMode;
using Subset = AudioOptions::Subset;

class SoundsTest : public testing::Test {
 protected:
  SoundsTest() { options_.output_sequence_length = 5; }

  // The first sample of each example, times 32768.
  static std::vector<int> Firsts(const Dataset& dataset) {
    const Dataset batched = dataset.Batch(1);
    EXPECT_OK(batched.status());
    std::vector<int> firsts;
    if (!batched.status().ok()) return firsts;
    Source* const source = dataset.source().get();
    std::vector<float> x(static_cast<size_t>(source->x().shape.elements()));
    for (int64_t i = 0; i < source->size(); ++i) {
      EXPECT_OK(source->Read(&i, 1, x.data(), nullptr));
      firsts.push_back(static_cast<int>(x[0] * 32768));
    }
    return firsts;
  }
  static Status ErrorOf(const Dataset& dataset) {
    return dataset.Batch(1).status();
  }
  Dataset FromFolder() const {
    return AudioDatasetFromDirectory(folder_.path(), options_);
  }

  TempFolder folder_;
  AudioOptions options_;
};

TEST_F(SoundsTest, Open_Directory_HasClassesLabelsAndRate) {
  WriteWords(folder_.path(), {"yes", "no"}, 2);
  WriteWhole(folder_ / "no/readme.txt", "not a sound");
  const Dataset dataset = FromFolder();
  EXPECT_EQ(Firsts(dataset), std::vector<int>({80, 81, 0, 1}));
  const Source& source = *dataset.source();
  EXPECT_EQ(source.Description().classes,
            std::vector<std::string>({"no", "yes"}));
  EXPECT_EQ(source.x().shape, Shape({5, 1}));
  EXPECT_EQ(source.x().dtype, DType::kFloat32);
  EXPECT_EQ(source.Description().sampling_rate, 16000);
  EXPECT_EQ(source.ExamplePath(0), folder_ / "no/100.wav");
  std::vector<float> x(10);
  std::vector<int32_t> y(2);
  const int64_t two[] = {3, 0};
  EXPECT_OK(dataset.source()->Read(two, 2, x.data(), y.data()));
  EXPECT_EQ(y, std::vector<int32_t>({1, 0}));
  EXPECT_EQ(x[3], 3.0f / 32768);
  EXPECT_EQ(x[4], 0);
}

TEST_F(SoundsTest, Read_NotInMemory_NamesAFileThatChanges) {
  WriteWords(folder_.path(), {"a"}, 2);
  options_.in_memory = false;
  const Dataset dataset = FromFolder();
  EXPECT_EQ(Firsts(dataset), std::vector<int>({0, 1}));
  EXPECT_EQ(Firsts(dataset), std::vector<int>({0, 1}));
  WriteWhole(folder_ / "a/101.wav", Wav16({9}));
  const int64_t index = 1;
  std::vector<float> x(5);
  EXPECT_TRUE(Contains(dataset.source()->Read(&index, 1, x.data(), nullptr),
                       "a/101.wav: was changed while it is in use"));
}

TEST_F(SoundsTest, Recording_Frames_AreRowsOfTheFile) {
  std::vector<int> samples(6000);
  std::iota(samples.begin(), samples.end(), 0);
  WriteWhole(folder_ / "long.wav", Wav16(samples, 8000, 2));
  const Dataset rows = WavDataset(folder_ / "long.wav");
  ASSERT_OK(rows.Batch(1).status());
  Source* const source = rows.source().get();
  EXPECT_EQ(rows.size(), 3000);
  EXPECT_EQ(source->x().shape, Shape({2}));
  EXPECT_EQ(source->y().shape.elements(), 0);
  EXPECT_EQ(source->Description().sampling_rate, 8000);
  double least = 0, largest = 0;
  EXPECT_TRUE(source->XRange(&least, &largest));
  const int64_t index[] = {2, 3, 4, 2999, 0};
  std::vector<float> x(10);
  EXPECT_OK(source->Read(index, 5, x.data(), nullptr));
  const int expected[] = {4, 5, 6, 7, 8, 9, 5998, 5999, 0, 1};
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(x[static_cast<size_t>(i)],
              static_cast<float>(expected[i]) / 32768);
  }
  TimeseriesOptions windows;
  windows.sequence_length = 100;
  windows.sequence_stride = 50;
  windows.target_length = 100;
  windows.target_columns = {0, 1};
  const Dataset cut = TimeseriesDatasetFromArray(rows, windows);
  ASSERT_OK(cut.Batch(1).status());
  EXPECT_EQ(cut.size(), 59);
  // The file is cut, or has other samples.
  samples[10] = 77;
  WriteWhole(folder_ / "long.wav", Wav16(samples, 8000, 2) + "x");
  EXPECT_TRUE(Contains(source->Read(index, 5, x.data(), nullptr),
                       "long.wav: was changed while it is in use"));
  const std::string whole = Wav16(samples, 8000, 2);
  WriteWhole(folder_ / "cut.wav", whole.substr(0, whole.size() - 9));
  EXPECT_TRUE(Contains(ErrorOf(WavDataset(folder_ / "cut.wav")),
                       "cut.wav: ends early: after 11991 of 12000 bytes"));
}

TEST_F(SoundsTest, Recording_DamagedSample_IsNamedByItsOffset) {
  std::string samples(400, '\0');
  samples.replace(200, 4, "\xFF\xFF\xFF\x7F");  // not a number
  WriteWhole(folder_ / "long.wav", Wav(3, 1, 8000, 32, samples));
  const Dataset rows = WavDataset(folder_ / "long.wav");
  const int64_t index[] = {7, 49, 50};
  std::vector<float> x(3);
  EXPECT_OK(rows.source()->Read(index, 2, x.data(), nullptr));
  EXPECT_TRUE(Contains(rows.source()->Read(index, 3, x.data(), nullptr),
                       "long.wav: is damaged: a sample at offset 244 is not "
                       "a finite number"));
}

TEST_F(SoundsTest, Subset_EachPart_HasFilesOfKeras) {
  WriteWords(folder_.path(), {"a"}, 10);
  options_.validation_split = 0.25;  // int(2.5)
  options_.seed = 123;
  options_.subset = Subset::kTraining;
  EXPECT_EQ(Firsts(FromFolder()), std::vector<int>({4, 0, 7, 5, 8, 3, 1, 6}));
  options_.subset = Subset::kValidation;
  EXPECT_EQ(Firsts(FromFolder()), std::vector<int>({9, 2}));
}

TEST_F(SoundsTest, Open_OtherRate_IsRefusedAlsoIfDamagedFilesAreSkipped) {
  WriteWords(folder_.path(), {"a"}, 2);
  WriteWhole(folder_ / "a/200.wav", Wav16({1}, 8000));
  options_.skip_damaged = true;
  EXPECT_TRUE(Contains(ErrorOf(FromFolder()), "8000 samples a second"));
  options_.sampling_rate = 8000;
  EXPECT_TRUE(Contains(ErrorOf(FromFolder()), "16000 samples a second"));
}

TEST_F(SoundsTest, Open_DamagedFile_IsAnErrorOrLeftOut) {
  WriteWords(folder_.path(), {"a"}, 3);
  WriteWhole(folder_ / "a/100.wav", "RIFF");
  EXPECT_TRUE(Contains(ErrorOf(FromFolder()), "100.wav: is not a WAV file"));
  options_.skip_damaged = true;
  const CapturedOutput output;
  EXPECT_EQ(Firsts(FromFolder()), std::vector<int>({1, 2}));
}

TEST_F(SoundsTest, Open_List_HasItsOrderAndNoLabels) {
  WriteWords(folder_.path(), {"a"}, 3);
  const Dataset dataset =
      AudioDataset({folder_ / "a/102.wav", folder_ / "a/100.wav"}, options_);
  EXPECT_EQ(Firsts(dataset), std::vector<int>({2, 0}));
  EXPECT_EQ(dataset.source()->y().shape.elements(), 0);
  EXPECT_TRUE(Contains(ErrorOf(AudioDataset({}, options_)),
                       "no sound files are given"));
}

TEST_F(SoundsTest, Open_Table_HasPathsAndLabels) {
  WriteWords(folder_.path(), {"a"}, 3);
  WriteWhole(folder_ / "files.csv", "file,label\na/101.wav,0.5\na/100.wav,2\n");
  const Dataset dataset =
      AudioDatasetFromCsv(folder_ / "files.csv", "file", options_);
  EXPECT_EQ(Firsts(dataset), std::vector<int>({1, 0}));
  std::vector<float> y(2);
  const int64_t both[] = {0, 1};
  EXPECT_OK(dataset.source()->Read(both, 2, nullptr, y.data()));
  EXPECT_EQ(y, std::vector<float>({0.5f, 2}));
}

TEST_F(SoundsTest, Open_WrongOptions_AreRefusedBeforeAllocation) {
  WriteWords(folder_.path(), {"a"}, 1);
  options_.output_sequence_length = int64_t{1} << 40;
  EXPECT_TRUE(Contains(ErrorOf(FromFolder()), "output_sequence_length"));
  options_.output_sequence_length = 5;
  options_.channels = 300;
  EXPECT_TRUE(Contains(ErrorOf(FromFolder()), "channels: is 300"));
  options_.channels = 2;
  EXPECT_TRUE(Contains(ErrorOf(FromFolder()), "has 1 channels, not 2"));
}

}  // namespace
}  // namespace ringlet
