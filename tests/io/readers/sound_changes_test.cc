// Noise and shifts in time, which training mixes into sound.

#include "io/readers/files/sound_changes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/sound_files.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

constexpr int64_t kNoisyLength = 50;

class SoundChangesTest : public testing::Test {
 protected:
  SoundChangesTest() {
    options_.sampling_rate = 16000;
    options_.output_sequence_length = kNoisyLength;
    options_.background_noise = folder_ / "noise";
    std::filesystem::create_directories(options_.background_noise);
    WriteNoise("a", 1000, 8192);  // a ramp
    WriteNoise("b", 50, -8192);
  }
  // Sample i is first + i.
  void WriteNoise(const std::string& name, int length, int first,
                  int rate = 16000) {
    std::vector<int> samples;
    for (int i = 0; i < length; ++i) samples.push_back(first + i);
    WriteWhole(folder_ / ("noise/" + name + ".wav"), Wav16(samples, rate));
  }
  Status Open() { return SoundChanges::Open(options_, &changes_); }
  // A changed example of zeros, or of `x`.
  std::vector<float> Changed(const DataPosition& at, int64_t index,
                             float x = 0) {
    std::vector<float> samples(kNoisyLength, x);
    EXPECT_OK(changes_->Change(at, index, samples.data()));
    return samples;
  }

  TempFolder folder_;
  AudioOptions options_;
  std::unique_ptr<SoundChanges> changes_;
};

TEST_F(SoundChangesTest, Change_ManyExamples_DrawsAsTheTutorialDoes) {
  ASSERT_OK(Open());
  int with = 0, from_b = 0;
  std::set<int> places;
  double sum = 0;
  constexpr int kExamples = 2000;
  for (int64_t i = 0; i < kExamples; ++i) {
    const std::vector<float> x = Changed({3, 7}, i);
    if (x == std::vector<float>(kNoisyLength, 0)) continue;
    ++with;
    // (first + i) / 32768 * volume: two samples give both.
    const double volume = (double{x[49]} - double{x[0]}) / 49 * 32768;
    EXPECT_GT(volume, 0);
    EXPECT_LE(volume, 0.1001);
    sum += volume;
    const auto first =
        static_cast<int>(std::lround(double{x[0]} / volume * 32768));
    if (first < 0) {
      EXPECT_NEAR(first, -8192, 3);
      ++from_b;
    } else if (volume > 0.01) {
      EXPECT_GE(first, 8192 - 3);
      EXPECT_LE(first, 8192 + 950 + 3);
      places.insert(first / 100);
    }
  }
  EXPECT_NEAR(with, 0.8 * kExamples, 60);
  EXPECT_NEAR(from_b, with / 2, 80);
  EXPECT_NEAR(sum / with, 0.05, 0.003);
  EXPECT_GE(places.size(), 10u);
}

TEST_F(SoundChangesTest, Change_SameKey_IsTheSameAndOthersDiffer) {
  options_.background_frequency = 1;
  ASSERT_OK(Open());
  const std::vector<float> x = Changed({1, 2}, 3);
  EXPECT_EQ(Changed({1, 2}, 3), x);
  EXPECT_NE(Changed({2, 2}, 3), x);
  EXPECT_NE(Changed({1, 3}, 3), x);
  EXPECT_NE(Changed({1, 2}, 4), x);
  options_.seed = 5;
  ASSERT_OK(Open());
  EXPECT_NE(Changed({1, 2}, 3), x);
}

TEST_F(SoundChangesTest, Change_LoudExample_IsClipped) {
  options_.background_frequency = options_.background_volume = 1;
  std::filesystem::remove(folder_ / "noise/b.wav");
  ASSERT_OK(Open());
  for (int64_t i = 0; i < 20; ++i) {
    for (const float x : Changed({}, i, 0.999f)) EXPECT_LE(x, 1);
  }
}

TEST_F(SoundChangesTest, Shift_EitherWay_FillsWithZeros) {
  options_.background_noise = "";
  options_.time_shift_ms = 0.5;  // 8 samples
  ASSERT_OK(Open());
  std::set<int> shifts;
  for (int64_t i = 0; i < 500; ++i) {
    std::vector<float> x(kNoisyLength);
    for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k + 1);
    ASSERT_OK(changes_->Change({}, i, x.data()));
    const int shift =
        x[0] == 0 ? 25 - static_cast<int>(x[24]) : 1 - static_cast<int>(x[0]);
    shifts.insert(shift);
    for (int k = 0; k < kNoisyLength; ++k) {
      const int from = k - shift;
      const bool outside = from < 0 || from >= kNoisyLength;
      EXPECT_EQ(x[static_cast<size_t>(k)],
                outside ? 0 : static_cast<float>(from + 1));
    }
  }
  EXPECT_EQ(shifts.size(), 17u);
  EXPECT_EQ(*shifts.begin(), -8);
  options_.time_shift_ms = 0;
  ASSERT_OK(Open());
  EXPECT_EQ(changes_, nullptr);
}

TEST_F(SoundChangesTest, Open_WrongFilesOrNumbers_IsAnError) {
  WriteNoise("c", 49, 0);
  EXPECT_TRUE(Contains(Open(), "c.wav: has 49 samples, fewer than the 50"));
  WriteNoise("c", 60, 0, 8000);
  EXPECT_TRUE(Contains(Open(), "has 8000 samples a second, not 16000"));
  WriteWhole(folder_ / "noise/c.wav", "RIFF");
  EXPECT_TRUE(Contains(Open(), "c.wav: is not a WAV file"));
  std::string nan = LittleBytes(0x7FC00000, 4);
  for (int i = 0; i < 6; ++i) nan += nan;
  WriteWhole(folder_ / "noise/c.wav", Wav(3, 1, 16000, 32, nan));
  EXPECT_TRUE(Contains(Open(), "not a finite number"));
  std::filesystem::remove(folder_ / "noise/c.wav");
  options_.background_volume = 2;
  EXPECT_TRUE(Contains(Open(), "background_volume: is 2"));
  options_.background_volume = NAN;
  EXPECT_TRUE(Contains(Open(), "background_volume"));
  options_.background_volume = 0.1f;
  options_.background_noise = folder_ / "none";
  EXPECT_EQ(Open().code(), Code::kNotFound) << Open().message();
}

TEST_F(SoundChangesTest, Digest_OtherNoiseOrOption_Differs) {
  ASSERT_OK(Open());
  std::set<uint64_t> digests = {changes_->digest()};
  const auto add = [&] {
    ASSERT_OK(Open());
    EXPECT_TRUE(digests.insert(changes_->digest()).second);
  };
  options_.background_volume = 0.1000001f;
  add();
  options_.seed = 1;
  add();
  options_.time_shift_ms = 1;
  add();
  WriteNoise("b", 50, -8191);
  add();
}

TEST_F(SoundChangesTest, FileChangedAfterOpen_EndsTheRead) {
  options_.background_frequency = 1;
  std::filesystem::remove(folder_ / "noise/b.wav");
  ASSERT_OK(Open());
  WriteNoise("a", 10, 0);
  std::vector<float> x(kNoisyLength);
  EXPECT_TRUE(Contains(changes_->Change({}, 1, x.data()), "ends early"));
}

// Only a loader for training changes examples, and a folder of noise among the
// classes is no class.
TEST_F(SoundChangesTest, Dataset_OpenedForTraining_IsChanged) {
  WriteWords(folder_.path(), {"yes", "no"}, 2);
  options_.background_frequency = 1;
  options_.in_memory = false;
  const Dataset dataset =
      AudioDatasetFromDirectory(folder_.path(), options_).Batch(4);
  ASSERT_OK(dataset.status());
  EXPECT_EQ(dataset.source()->Description().classes,
            std::vector<std::string>({"no", "yes"}));
  EXPECT_NE(dataset.source()->AugmentDigest(), 0u);
  Sequential model({Input({kNoisyLength}), Dense(2)});
  model.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits));
  ASSERT_OK(model.status());
  const auto read = [&](bool training, bool background) {
    LoaderOptions options;
    options.training = training;
    options.background = background;
    std::unique_ptr<BatchLoader> loader;
    EXPECT_OK(model.OpenLoader(dataset, options, &loader));
    Batch batch;
    EXPECT_OK(loader->Next(&batch));
    return std::vector<float>(batch.x, batch.x + 4 * kNoisyLength);
  };
  const std::vector<float> plain =
                               read(/*training=*/false, /*background=*/true),
                           changed =
                               read(/*training=*/true, /*background=*/true);
  EXPECT_EQ(plain[3], 3.0f / 32768);
  EXPECT_NE(changed, plain);
  EXPECT_EQ(read(/*training=*/true, /*background=*/false), changed);
}

TEST_F(SoundChangesTest, OtherDatasets_OfChangedSound_AreRefused) {
  WriteWords(folder_.path(), {"yes", "no"}, 2);
  const Dataset dataset = AudioDatasetFromDirectory(folder_.path(), options_);
  ASSERT_OK(dataset.Batch(1).status());
  EXPECT_TRUE(Contains(Zip({dataset}, {}).Batch(1).status(), "Zip leaves out"));
  EXPECT_TRUE(Contains(Concatenate({dataset.source()}).Batch(1).status(),
                       "has background noise"));
  TimeseriesOptions windows;
  windows.sequence_length = 1;
  EXPECT_TRUE(
      Contains(TimeseriesDatasetFromArray(dataset, windows).Batch(1).status(),
               "windows leave out"));
}

}  // namespace
}  // namespace ringlet
