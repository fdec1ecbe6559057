// Pictures of extreme sizes, texts that begin as pictures do, and a lack of
// memory.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/full_memory.h"
#include "../../support/png_file.h"
#include "../../support/sanitized.h"
#include "../../support/temp_folder.h"
#include "core/base/text.h"
#include "io/pictures/decoders.h"
#include "io/pictures/picture.h"
#include "io/pictures/resize.h"

namespace ringlet {
namespace {

Status LimitErrorOf(const std::string& file) {
  Picture picture;
  return DecodePicture(file, 3, &picture);
}

std::string FromCorpus(const std::string& name) {
  return ReadWhole(EnvironmentOr("RINGLET_SOURCE", ".") +
                   "/tests/fuzz/corpus/picture/" + name);
}

TEST(PictureLimitsTest, Decode_SideBeyond65535_IsRefusedBeforeMemoryIsTaken) {
  for (const char* file : {"P5 65536 1 255\n", "P5 1 65536 255\n"}) {
    const Status status = LimitErrorOf(file);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << file;
    EXPECT_TRUE(Contains(status, "a side of more than 65535"));
  }
  PngImage image;
  image.width = 1u << 26;
  image.height = 1;
  image.type = 6;
  std::string header = BigEndian32(image.width) + BigEndian32(image.height) +
                       std::string("\x08\x06\0\0\0", 5);
  const std::string png = "\x89PNG\r\n\x1a\n" + PngChunk("IHDR", header) +
                          PngChunk("IDAT", Deflated(std::string(1000, '\0'))) +
                          PngChunk("IEND", "");
  EXPECT_TRUE(Contains(LimitErrorOf(png), "67108864 x 1 pixels"));
  EXPECT_OK(LimitErrorOf("P5 65535 1 255\n" + std::string(65535, '\1')));
}

TEST(PictureLimitsTest, Resize_WidestPicture_HasTheNewSize) {
  Picture picture;
  picture.height = 2;
  picture.width = kMaxPictureSide;
  picture.channels = 4;
  picture.pixels.assign(static_cast<size_t>(picture.count()) * 4, 7);
  for (const Interpolation interpolation :
       {Interpolation::kNearest, Interpolation::kBilinear,
        Interpolation::kArea}) {
    std::vector<unsigned char> out(24 * 24 * 4);
    Resize(picture, interpolation, /*crop=*/false, 24, 24, out.data());
    EXPECT_EQ(out, std::vector<unsigned char>(out.size(), 7));
  }
}

TEST(PictureLimitsTest, LooksLikePicture_TextOrPicture_IsTrueForPictures) {
  for (const char* text :
       {"BM", "BMW,red,4,200\nAudi,blue,3,100\n", "BM\n\n\n", "P1 is a name",
        "P1", "P5 ", "P6\n\nx", "P20 1 1 1"}) {
    EXPECT_FALSE(LooksLikePicture(text)) << text;
    EXPECT_TRUE(
        Contains(LimitErrorOf(text), "is not a PNG, JPEG, BMP or PNM file"));
  }
  EXPECT_TRUE(LooksLikePicture("P1\n# a comment"));
  EXPECT_TRUE(LooksLikePicture("P1# a comment"));
  EXPECT_TRUE(LooksLikePicture("P6 \t12 3"));
  // The program reads the first 16 bytes.
  for (const char* name : {"8.bmp", "old.bmp", "32.bmp", "1.pbm", "6.ppm"}) {
    EXPECT_TRUE(LooksLikePicture(FromCorpus(name).substr(0, 16))) << name;
  }
}

TEST(PictureLimitsTest, Decode_PnmNumberWithTooManyDigits_IsCorruption) {
  // The number's first digits, 67108864, are a permitted size.
  for (const char* file : {"P5 6710886412 1 255\n", "P2 67108864011 255 1 "}) {
    const Status status = LimitErrorOf(file);
    EXPECT_EQ(status.code(), Code::kCorruption) << file << status.message();
  }
}

TEST(PictureLimitsTest, Decode_JpegWithoutMemory_IsNotCalledDamaged) {
  if (!ReadsJpeg()) GTEST_SKIP() << "without libjpeg";
#ifdef RINGLET_SANITIZED
  GTEST_SKIP() << "a sanitizer takes more memory than the limit";
#endif
  if (std::getenv("RINGLET_EMULATED") != nullptr) {
    GTEST_SKIP() << "the limit would be the emulator's";
  }
  std::string file = FromCorpus("420.jpg");
  const size_t frame = file.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  file.replace(frame + 5, 4, std::string("\0\x10\xff\xdc", 4));
  // The pixels take 3070 KiB, and the decoder as much.
  int lacks = 0;
  for (rlim_t kib = 3400; kib < 8000; kib += 200) {
    Picture picture;
    Status status;
    {
      const FullMemory full(kib << 10);
      status = DecodePicture(file, 3, &picture);
    }
    const bool enough = status.code() == Code::kCorruption;
    const std::string wanted =
        enough ? "Corrupt JPEG data" : "no memory to decode the JPEG";
    EXPECT_TRUE(Contains(status, wanted)) << kib;
    EXPECT_TRUE(enough || status.code() == Code::kResourceExhausted);
    lacks += enough ? 0 : 1;
  }
  EXPECT_GT(lacks, 0);
}

TEST(PictureLimitsTest, Decode_VariableOfLibjpegIsSet_ChangesNothing) {
  if (!ReadsJpeg()) GTEST_SKIP() << "without libjpeg";
  setenv("JPEGMEM", "1", 1);
  EXPECT_OK(LimitErrorOf(FromCorpus("422_progressive.jpg")));
  unsetenv("JPEGMEM");
}

}  // namespace
}  // namespace ringlet
