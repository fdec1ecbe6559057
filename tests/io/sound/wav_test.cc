// WAV files of each format, and damaged ones.

#include "io/sound/wav.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/sound_files.h"

namespace ringlet {
namespace {

using Floats = std::vector<float>;

class WavTest : public testing::Test {
 protected:
  // The samples of a file of 16 kHz with these bytes.
  Floats Read(const std::string& bytes, int64_t frames, int64_t channels = 1) {
    Floats samples(static_cast<size_t>(frames * channels), NAN);
    EXPECT_OK(TryRead(bytes, frames, channels, samples.data()));
    return samples;
  }
  Status ErrorOf(const std::string& bytes) {
    Floats samples(4);
    return TryRead(bytes, 4, 1, samples.data());
  }
  Status TryRead(const std::string& bytes, int64_t frames, int64_t channels,
                 float* samples) {
    WriteWhole(path_, bytes);
    return ReadSound(path_, 16000, channels, frames, samples);
  }

  TempFolder folder_;
  const std::string path_ = folder_ / "a.wav";
};

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  std::string bytes;
  for (const T value : values) {
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof(value));
    bytes += LittleBytes(word, sizeof(value));
  }
  return bytes;
}

TEST_F(WavTest, Integers_EachWidth_AreInMinusOneToOne) {
  EXPECT_EQ(Read(Wav(1, 1, 16000, 8, std::string("\x00\x80\xff", 3)), 3),
            Floats({-1, 0, 127.0f / 128}));
  EXPECT_EQ(Read(Wav16({-32768, -1, 0, 32767}), 4),
            Floats({-1, -1.0f / 32768, 0, 32767.0f / 32768}));
  const std::string wide =
      LittleBytes(0x800000, 3) + LittleBytes(1, 3) + LittleBytes(0xFFFFFF, 3);
  EXPECT_EQ(Read(Wav(1, 1, 16000, 24, wide), 3),
            Floats({-1, 0x1p-23f, -0x1p-23f}));
  EXPECT_EQ(
      Read(Wav(1, 1, 16000, 32, BytesOf<int32_t>({INT32_MIN, 1 << 30})), 2),
      Floats({-1, 0.5f}));
}

TEST_F(WavTest, Floats_BothWidths_AreKept) {
  EXPECT_EQ(Read(Wav(3, 1, 16000, 32, BytesOf<float>({0.25f, -2})), 2),
            Floats({0.25f, -2}));
  EXPECT_EQ(Read(Wav(3, 1, 16000, 64, BytesOf<double>({0.1, 1e-300})), 2),
            Floats({0.1f, 0}));
  EXPECT_TRUE(Contains(ErrorOf(Wav(3, 1, 16000, 32, BytesOf<float>({0, NAN}))),
                       "a sample at offset 48 is not a finite number"));
  EXPECT_TRUE(Contains(ErrorOf(Wav(3, 1, 16000, 64, BytesOf<double>({1e300}))),
                       "not a finite number"));
}

TEST_F(WavTest, Read_Extensible_HasFormatInItsGuid) {
  std::string format =
      WavFormatChunk(0xFFFE, 1, 16000, 16).substr(8) + LittleBytes(22, 2) +
      LittleBytes(16, 2) + LittleBytes(4, 4) + LittleBytes(1, 2) +
      std::string("\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71",
                  14);
  const std::string data = Chunk("data", LittleBytes(16384, 2));
  EXPECT_EQ(Read(Riff(Chunk("fmt ", format) + data), 1), Floats({0.5f}));
  format.replace(24, 2, LittleBytes(2, 2));  // ADPCM
  EXPECT_TRUE(Contains(ErrorOf(Riff(Chunk("fmt ", format) + data)),
                       "format 2 with 16 bits"));
}

TEST_F(WavTest, Read_Channels_BecomeTheirMeanOrAreKept) {
  const std::string stereo = Wav16({16384, 0, -16384, -32768}, 16000, 2);
  EXPECT_EQ(Read(stereo, 2), Floats({0.25f, -0.75f}));
  EXPECT_EQ(Read(stereo, 3, 2), Floats({0.5f, 0, -0.5f, -1, 0, 0}));
  Floats four(16);
  EXPECT_TRUE(Contains(TryRead(stereo, 4, 4, four.data()),
                       "a.wav: has 2 channels, not 4"));
}

TEST_F(WavTest, Read_OtherLength_IsCutOrPaddedAtTheEnd) {
  const std::string three = Wav16({16384, 8192, 4096});
  EXPECT_EQ(Read(three, 2), Floats({0.5f, 0.25f}));
  EXPECT_EQ(Read(three, 5), Floats({0.5f, 0.25f, 0.125f, 0, 0}));
}

TEST_F(WavTest, Chunks_OfAnyOrderAndOddLength_AreSkipped) {
  const std::string format = WavFormatChunk(1, 1, 16000, 8),
                    data = Chunk("data", "\xC0"), other = Chunk("LIST", "odd");
  EXPECT_EQ(Read(Riff(other + format + other + data), 1), Floats({0.5f}));
  EXPECT_EQ(Read(Riff(data + other + format), 1), Floats({0.5f}));
}

TEST_F(WavTest, Length_OfARecorder_EndsWithTheFile) {
  const std::string samples = LittleBytes(16384, 2) + LittleBytes(8192, 2);
  for (const uint32_t length : {0u, 0x7FFFF000u, 0xFFFFFFFFu}) {
    const std::string bytes = "RIFF" + LittleBytes(length, 4) + "WAVE" +
                              WavFormatChunk(1, 1, 16000, 16) + "data" +
                              LittleBytes(length, 4) + samples;
    EXPECT_EQ(Read(bytes, 3), Floats({0.5f, 0.25f, 0})) << length;
  }
  EXPECT_TRUE(Contains(ErrorOf(Wav16({})), "has no samples"));
}

TEST_F(WavTest, Read_DamagedFile_NamesTheDamage) {
  const std::string whole = Wav16({1, 2, 3, 4});
  for (size_t size = 0; size < whole.size(); ++size) {
    const Status error = ErrorOf(whole.substr(0, size));
    EXPECT_EQ(error.code(), Code::kCorruption) << size;
    EXPECT_TRUE(Contains(error, path_)) << size;
  }
  EXPECT_TRUE(Contains(ErrorOf(whole.substr(0, whole.size() - 1)),
                       "ends early: after 7 of 8 bytes"));
  EXPECT_TRUE(Contains(ErrorOf("OggS and more than twelve bytes"),
                       "is not a WAV file"));
  EXPECT_TRUE(
      Contains(ErrorOf("RF64 and more than twelve bytes"), "is an RF64 file"));
  EXPECT_TRUE(Contains(ErrorOf(Riff(Chunk("fmt ", "short"))), "no samples"));
  EXPECT_TRUE(
      Contains(ErrorOf(Riff(Chunk("fmt ", "short") + Chunk("data", "1234"))),
               "its WAV format has 5 bytes"));
  EXPECT_TRUE(Contains(ErrorOf(Wav(1, 0, 16000, 16, "1234")), "0 channels"));
  EXPECT_TRUE(Contains(ErrorOf(Wav(1, 1, 16000, 12, "1234")), "sox FILE"));
  // 2^30 chunks of no bytes.
  EXPECT_EQ(ErrorOf(Riff(std::string(1 << 20, '\0'))).code(),
            Code::kCorruption);
}

TEST_F(WavTest, Read_OtherRate_IsRefusedWithAdvice) {
  EXPECT_TRUE(Contains(ErrorOf(Wav16({1, 2}, 44100)),
                       "has 44100 samples a second, not 16000; convert it, "
                       "such as by \"sox FILE -r 16000 NEW\""));
}

TEST(SoundNameTest, HasSoundName_AnyCase_IsFound) {
  EXPECT_TRUE(HasSoundName("a/b.wav") && HasSoundName("A.WAV"));
  EXPECT_FALSE(HasSoundName("wav") || HasSoundName("a.wav.png"));
}

}  // namespace
}  // namespace ringlet
