// BMP and PNM, the channels of a picture, and the errors of every format.

#include "io/pictures/picture.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "../../support/png_file.h"
#include "io/pictures/picture_format.h"

namespace ringlet {
namespace {

using Pixels = std::vector<unsigned char>;

Pixels PixelsOf(const std::string& file, int channels) {
  Picture picture;
  EXPECT_OK(DecodePicture(file, channels, &picture));
  EXPECT_EQ(picture.channels, channels);
  return picture.pixels;
}

Status ErrorOf(const std::string& file) {
  Picture picture;
  return DecodePicture(file, 3, &picture);
}

std::string Little(uint32_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text += static_cast<char>(number >> (8 * i) & 255);
  }
  return text;
}

// Makes a BMP file. `masks` are the end of its header, which has 40 bytes
// without them.
std::string Bmp(int32_t width, int32_t height, int bits,
                const std::string& palette, const std::string& pixels,
                const std::string& masks = "") {
  const auto header = static_cast<uint32_t>(40 + masks.size());
  const auto begin = static_cast<uint32_t>(14 + header + palette.size());
  return "BM" + Little(0, 8) + Little(begin, 4) + Little(header, 4) +
         Little(static_cast<uint32_t>(width), 4) +
         Little(static_cast<uint32_t>(height), 4) + Little(1, 2) +
         Little(static_cast<uint32_t>(bits), 2) +
         Little(masks.empty() ? 0 : 3, 4) + Little(0, 12) +
         Little(static_cast<uint32_t>(palette.size() / 4), 4) + Little(0, 4) +
         masks + palette + pixels;
}

TEST(BmpTest, Decode_24Bits_ReadsFromBottomAndBlueFirst) {
  const std::string rows = "\1\2\3\4\5\6" + std::string(2, '\0') +
                           "\7\10\11\12\13\14" + std::string(2, '\0');
  const Pixels from_bottom = {9, 8, 7, 12, 11, 10, 3, 2, 1, 6, 5, 4};
  EXPECT_EQ(PixelsOf(Bmp(2, 2, 24, "", rows), 3), from_bottom);
  const Pixels from_top = {3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10};
  EXPECT_EQ(PixelsOf(Bmp(2, -2, 24, "", rows), 3), from_top);
}

TEST(BmpTest, Decode_PaletteOfEachDepth_HasItsColours) {
  const std::string palette("\1\2\3\0\4\5\6\0", 8);
  const Pixels expected = {6, 5, 4, 3, 2, 1, 6, 5, 4};
  EXPECT_EQ(PixelsOf(Bmp(3, 1, 1, palette, std::string("\xa0\0\0\0", 4)), 3),
            expected);
  EXPECT_EQ(PixelsOf(Bmp(3, 1, 4, palette, std::string("\x10\x10\0\0", 4)), 3),
            expected);
  EXPECT_EQ(PixelsOf(Bmp(3, 1, 8, palette, std::string("\1\0\1\0", 4)), 3),
            expected);
  // A colour behind the palette is black.
  EXPECT_EQ(PixelsOf(Bmp(1, 1, 8, palette, std::string("\7\0\0\0", 4)), 3),
            Pixels({0, 0, 0}));
}

TEST(BmpTest, Decode_32Bits_HasAlphaOnlyIfMasksNameIt) {
  const std::string pixel = "\1\2\3\4";
  EXPECT_EQ(PixelsOf(Bmp(1, 1, 32, "", pixel), 4), Pixels({3, 2, 1, 255}));
  const std::string masks = Little(0xFF, 4) + Little(0xFF00, 4) +
                            Little(0xFF0000, 4) + Little(0xFF000000, 4);
  EXPECT_EQ(PixelsOf(Bmp(1, 1, 32, "", pixel, masks), 4), Pixels({1, 2, 3, 4}));
}

TEST(BmpTest, Decode_Os2Header_ReadsColoursOfThreeBytes) {
  const std::string file = "BM" + Little(0, 8) + Little(32, 4) + Little(12, 4) +
                           Little(1, 2) + Little(1, 2) + Little(1, 2) +
                           Little(1, 2) + "\1\2\3\4\5\6" +
                           std::string("\x80\0\0\0", 4);
  EXPECT_EQ(PixelsOf(file, 3), Pixels({6, 5, 4}));
}

TEST(BmpTest, Decode_CompressedOr16Bits_IsRefused) {
  std::string file = Bmp(1, 1, 8, std::string(8, '\0'), std::string(4, '\0'));
  file[30] = 1;
  EXPECT_TRUE(Contains(ErrorOf(file), "compression 1"));
  EXPECT_TRUE(Contains(ErrorOf(Bmp(1, 1, 16, "", "abcd")), "16 bits"));
}

TEST(BmpTest, Decode_CutAnywhere_IsCorruption) {
  const std::string file = Bmp(2, 2, 24, "", std::string(16, '\1'));
  for (size_t bytes = 2; bytes < file.size(); ++bytes) {
    EXPECT_EQ(ErrorOf(std::string(file, 0, bytes)).code(), Code::kCorruption)
        << bytes;
  }
}

TEST(PnmTest, Decode_TextOrBinary_HasSamePixels) {
  const Pixels gray = {0, 128, 255, 64};
  EXPECT_EQ(PixelsOf("P2 2 2 255 0 128\n255 64", 1), gray);
  EXPECT_EQ(PixelsOf("P2\n# of a camera\n2 2 # more\n255\n0 128 255 64\n", 1),
            gray);
  EXPECT_EQ(PixelsOf(std::string("P5 2 2 255\n\0\x80\xff\x40", 15), 1), gray);
  const Pixels colours = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(PixelsOf("P3 1 2 255 1 2 3 4 5 6", 3), colours);
  EXPECT_EQ(PixelsOf("P6 1 2 255\n\1\2\3\4\5\6", 3), colours);
  const Pixels bits = {255, 0, 0};
  EXPECT_EQ(PixelsOf("P1 3 1 011", 1), bits);
  EXPECT_EQ(PixelsOf("P1 3 1\n0 1 1\n", 1), bits);
  EXPECT_EQ(PixelsOf("P4 3 1\n\x60", 1), bits);
}

TEST(PnmTest, Decode_OtherLargestValue_ScalesTo255) {
  EXPECT_EQ(PixelsOf("P2 3 1 15 0 7 15", 1), Pixels({0, 119, 255}));
  EXPECT_EQ(PixelsOf(std::string("P5 2 1 65535\n\x80\x00\xff\xff", 17), 1),
            Pixels({128, 255}));
}

TEST(PnmTest, Decode_WrongFile_IsCorruption) {
  for (const char* file :
       {"P5 2", "P5 2 2", "P5 2 2 0 ", "P5 2 2 70000 ", "P5 x 2 255 ",
        "P2 2 2 255 1 2 3", "P2 2 2 255 1 2 3 x", "P2 1 1 9 10", "P1 2 1 0",
        "P1 2 1 02", "P5 2 2 255\n123", "P6 1 1 255\n12", "P4 9 1\n1"}) {
    EXPECT_EQ(ErrorOf(file).code(), Code::kCorruption) << file;
  }
  EXPECT_TRUE(Contains(ErrorOf("P5 60000 60000 255\n"), "60000 x 60000"));
  EXPECT_TRUE(Contains(ErrorOf("P5 0 4 255\n"), "0 x 4"));
}

TEST(PictureTest, Decode_OtherChannels_AreConverted) {
  EXPECT_EQ(PixelsOf("P2 1 1 255 9", 3), Pixels({9, 9, 9}));
  EXPECT_EQ(PixelsOf("P2 1 1 255 9", 4), Pixels({9, 9, 9, 255}));
  EXPECT_EQ(PixelsOf("P3 1 1 255 9 9 9", 1), Pixels({9}));
  EXPECT_EQ(PixelsOf("P3 1 1 255 255 0 0", 1), Pixels({76}));
  EXPECT_EQ(PixelsOf("P3 1 1 255 1 2 3", 4), Pixels({1, 2, 3, 255}));
  PngImage gray_and_alpha;
  gray_and_alpha.width = gray_and_alpha.height = 1;
  gray_and_alpha.type = 4;
  gray_and_alpha.samples = {9, 5};
  const std::string file = PngFile(gray_and_alpha);
  EXPECT_EQ(PixelsOf(file, 4), Pixels({9, 9, 9, 5}));
  EXPECT_EQ(PixelsOf(file, 3), Pixels({9, 9, 9}));
}

TEST(PictureTest, Decode_OtherFormat_ErrorNamesIt) {
  EXPECT_TRUE(Contains(ErrorOf(""), "is empty"));
  EXPECT_TRUE(Contains(ErrorOf("hello"), "not a PNG, JPEG, BMP or PNM"));
  EXPECT_TRUE(Contains(ErrorOf("GIF89a"), "is a GIF"));
  EXPECT_TRUE(Contains(ErrorOf("RIFF1234WEBPVP8 "), "is a WebP"));
  const DataFiles files;
  Picture picture;
  EXPECT_TRUE(Contains(
      ReadPicture(files.Write("a.png", "\x89PNG\r\n\x1a\n"), 3, &picture),
      "a.png: ends early"));
  EXPECT_EQ(ReadPicture(files.Path("none.png"), 3, &picture).code(),
            Code::kNotFound);
}

TEST(PictureTest, ReadSize_HeaderAlone_IsEnough) {
  const DataFiles files;
  Picture picture;
  ASSERT_OK(
      ReadPictureSize(files.Write("a.ppm", "P6 500 300 255\n"), &picture));
  EXPECT_EQ(picture.width, 500);
  EXPECT_EQ(picture.height, 300);
  EXPECT_EQ(picture.channels, 3);
  EXPECT_TRUE(picture.pixels.empty());
  ASSERT_OK(ReadPictureSize(
      files.Write("a.bmp", Bmp(7, -9, 8, std::string(8, '\0'), "")), &picture));
  EXPECT_EQ(picture.height, 9);
}

TEST(PictureTest, HasPictureName_NamesOfKerasAndPnm_AreTrue) {
  for (const char* name : {"a.png", "b/C.JPG", "d.jpeg", "e.bmp", "f.gif",
                           "g.ppm", "h.pgm", "i.pbm", "j.pnm"}) {
    EXPECT_TRUE(HasPictureName(name)) << name;
  }
  for (const char* name : {"png", "a.txt", "a.png.txt", "Thumbs.db"}) {
    EXPECT_FALSE(HasPictureName(name)) << name;
  }
}

}  // namespace
}  // namespace ringlet
