// JPEG, against the pixels of `djpeg -dct int`.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "core/base/text.h"
#include "io/files/input_file.h"
#include "io/pictures/decoders.h"
#include "io/pictures/picture.h"

namespace ringlet {
namespace {

std::string CorpusPath(const std::string& name) {
  return EnvironmentOr("RINGLET_SOURCE", ".") + "/tests/fuzz/corpus/picture/" +
         name;
}

// The checksums of the pixels: as RGB, and as gray.
const std::map<std::string, std::pair<uint32_t, uint32_t>> kPictures = {
    {"420.jpg", {0xf787de68u, 0xdb5592a3u}},
    {"422_progressive.jpg", {0x10498253u, 0xa35312e4u}},
    {"440.jpg", {0xaef82832u, 0x959c0edfu}},
    {"444_restart.jpg", {0x883611dcu, 0x5b5b0883u}},
    {"arithmetic.jpg", {0xdce3ba38u, 0xf8f94fabu}},
    {"cmyk.jpg", {0x334bbf88u, 0xeeb956d3u}},
    {"gray.jpg", {0x9c7038fdu, 0xb940e590u}},
    {"rgb.jpg", {0x1a67d249u, 0x1fe88adcu}},
    {"ycck.jpg", {0x2bdb8546u, 0x05b050ecu}},
};

uint32_t ChecksumOf(const Picture& picture) {
  return Crc32(picture.pixels.data(), picture.pixels.size());
}

// The bytes behind the header of a PPM or PGM.
std::string ByDjpeg(const std::string& path, const std::string& options) {
  FILE* const pipe = popen(
      ("djpeg -dct int -pnm " + options + " '" + path + "'").c_str(), "r");
  std::string all;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    all.append(buffer, n);
  }
  EXPECT_EQ(pclose(pipe), 0);
  size_t at = 0;
  for (int lines = 0; lines < 3; ++lines) at = all.find('\n', at) + 1;
  return all.substr(at);
}

TEST(JpegTest, Decode_EachKind_HasRecordedPixels) {
  if (!ReadsJpeg()) GTEST_SKIP() << "without libjpeg";
  for (const auto& [name, sums] : kPictures) {
    Picture rgb, gray;
    ASSERT_OK(ReadPicture(CorpusPath(name), 3, &rgb));
    ASSERT_OK(ReadPicture(CorpusPath(name), 1, &gray));
    EXPECT_EQ(ChecksumOf(rgb), sums.first) << name;
    EXPECT_EQ(ChecksumOf(gray), sums.second) << name;
    Picture size;
    ASSERT_OK(ReadPictureSize(CorpusPath(name), &size));
    EXPECT_EQ(size.width, rgb.width);
    EXPECT_EQ(size.height, rgb.height);
  }
}

TEST(JpegTest, Decode_EachKind_EqualsDjpeg) {
  if (!ReadsJpeg()) GTEST_SKIP() << "without libjpeg";
  if (std::system("command -v djpeg >/dev/null") != 0) {
    GTEST_SKIP() << "djpeg is missing (libjpeg-turbo-progs)";
  }
  for (const auto& [name, sums] : kPictures) {
    if (EndsWith(name, "k.jpg")) continue;  // CMYK: as TensorFlow
    for (const int channels : {1, 3}) {
      Picture picture;
      ASSERT_OK(ReadPicture(CorpusPath(name), channels, &picture));
      const std::string pixels(picture.pixels.begin(), picture.pixels.end());
      EXPECT_TRUE(pixels == ByDjpeg(CorpusPath(name),
                                    channels == 1 ? "-grayscale" : "-rgb"))
          << name << " " << channels;
    }
  }
}

TEST(JpegTest, Decode_CutAnywhere_IsCorruption) {
  if (!ReadsJpeg()) GTEST_SKIP() << "without libjpeg";
  for (const auto& [name, sums] : kPictures) {
    const std::string file = ReadWhole(CorpusPath(name));
    for (size_t bytes = 0; bytes < file.size(); bytes += 7) {
      const std::string cut(file, 0, bytes);
      Picture picture;
      const Status status = DecodePicture(cut, 3, &picture);
      EXPECT_EQ(status.code(), Code::kCorruption) << name << " " << bytes;
    }
  }
}

TEST(JpegTest, Decode_HugeSize_IsRefusedBeforeAllocation) {
  if (!ReadsJpeg()) GTEST_SKIP() << "without libjpeg";
  std::string file = ReadWhole(CorpusPath("420.jpg"));
  const size_t frame = file.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  file.replace(frame + 5, 4, "\xea\x60\xea\x60");
  Picture picture;
  const Status status = DecodePicture(file, 3, &picture);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status, "60000 x 60000 pixels"));
}

// The plan of a training counts the coefficients.
TEST(JpegTest, Size_Progressive_HasTheMemoryOfItsDecoding) {
  if (!ReadsJpeg()) GTEST_SKIP() << "without libjpeg";
  for (const bool progressive : {true, false}) {
    Picture picture;
    ASSERT_OK(DecodePictureSize(
        ReadWhole(CorpusPath(progressive ? "422_progressive.jpg" : "420.jpg")),
        &picture));
    EXPECT_EQ(
        picture.buffer_bytes >= static_cast<uint64_t>(picture.count()) * 3 * 2,
        progressive);
  }
}

TEST(JpegTest, Decode_600Scans_IsCorruption) {
  if (!ReadsJpeg()) GTEST_SKIP() << "without libjpeg";
  std::string file = ReadWhole(CorpusPath("422_progressive.jpg"));
  // The last scan again and again.
  const size_t scan = file.rfind("\xff\xda"), end = file.rfind("\xff\xd9");
  const std::string again = file.substr(scan, end - scan);
  std::string many = file.substr(0, end);
  for (int i = 0; i < 600; ++i) many += again;
  many += file.substr(end);
  Picture picture;
  EXPECT_EQ(DecodePicture(many, 3, &picture).code(), Code::kCorruption);
}

TEST(JpegTest, Read_BuildWithoutLibjpeg_NamesTheOption) {
  if (ReadsJpeg()) GTEST_SKIP() << "with libjpeg";
  Picture picture;
  const Status status = ReadPicture(CorpusPath("420.jpg"), 3, &picture);
  EXPECT_TRUE(Contains(status, "420.jpg: is a JPEG"));
  EXPECT_TRUE(Contains(status, "-Djpeg=enabled"));
}

}  // namespace
}  // namespace ringlet
