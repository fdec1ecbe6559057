// PNG: all types, depths and both orders of rows, against the samples that the
// files were made from, and against libpng.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/png_file.h"
#include "io/pictures/decoders.h"
#include "io/pictures/picture.h"

#ifdef RINGLET_LIBPNG
#include <png.h>
#endif

namespace ringlet {
namespace {

constexpr int kDepths[] = {1, 2, 4, 8, 16};
constexpr int kTypes[] = {0, 2, 3, 4, 6};
constexpr uint32_t kSizes[][2] = {{1, 1}, {3, 7}, {8, 8}, {17, 5}, {2, 33}};

bool IsLegal(int type, int depth) {
  return type == 0 || (type == 3 ? depth <= 8 : depth >= 8);
}

PngImage RandomImage(uint32_t width, uint32_t height, int type, int depth,
                     bool adam7, bool transparent, std::mt19937* random) {
  PngImage image;
  image.width = width;
  image.height = height;
  image.type = type;
  image.depth = depth;
  image.adam7 = adam7;
  const size_t count = size_t{width} * height * image.channels();
  for (size_t i = 0; i < count; ++i) {
    // Few values, so that some pixels are the transparent one.
    image.samples.push_back(
        (*random)() % 3 == 0 ? 1 : (*random)() & ((1u << depth) - 1));
  }
  if (type == 3) {
    for (int i = 0; i < 3 << depth; ++i) {
      image.palette += static_cast<char>((*random)());
    }
    // Not for all colours.
    if (transparent) image.transparency = "\x10\x80";
  } else if (transparent && type == 0) {
    image.transparency = std::string("\0\1", 2);
  } else if (transparent && type == 2) {
    image.transparency = std::string("\0\1\0\1\0\1", 6);
  }
  return image;
}

// The pixels by the samples.
std::vector<unsigned char> Expected(const PngImage& image) {
  std::vector<unsigned char> pixels;
  const auto channels = static_cast<size_t>(image.channels());
  const size_t count = image.samples.size() / channels;
  const auto byte = [](const std::string& bytes, size_t i) {
    return static_cast<unsigned char>(bytes[i]);
  };
  for (size_t i = 0; i < count; ++i) {
    const unsigned* const s = &image.samples[i * channels];
    if (image.type == 3) {
      for (size_t c = 0; c < 3; ++c) {
        pixels.push_back(byte(image.palette, s[0] * 3 + c));
      }
      if (image.transparency.empty()) continue;
      pixels.push_back(s[0] < image.transparency.size()
                           ? byte(image.transparency, s[0])
                           : 255);
      continue;
    }
    bool transparent = true;
    for (size_t c = 0; c < channels; ++c) {
      pixels.push_back(static_cast<unsigned char>(
          image.depth == 16 ? s[c] >> 8
                            : s[c] * 255 / ((1u << image.depth) - 1)));
      transparent = transparent && s[c] == 1;
    }
    if (!image.transparency.empty()) pixels.push_back(transparent ? 0 : 255);
  }
  return pixels;
}

#ifdef RINGLET_LIBPNG
std::vector<unsigned char> ReadByLibpng(const std::string& file) {
  struct Rest {
    const char* at;
    size_t left;
  } rest = {file.data(), file.size()};
  png_structp png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_read_fn(png, &rest, [](png_structp p, png_bytep to, size_t bytes) {
    Rest* const from = static_cast<Rest*>(png_get_io_ptr(p));
    if (bytes > from->left) png_error(p, "end");
    std::copy(from->at, from->at + bytes, reinterpret_cast<char*>(to));
    from->at += bytes;
    from->left -= bytes;
  });
  png_read_info(png, info);
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  const size_t row = png_get_rowbytes(png, info);
  std::vector<unsigned char> pixels(row * png_get_image_height(png, info));
  std::vector<png_bytep> rows;
  for (size_t y = 0; y < pixels.size() / row; ++y) {
    rows.push_back(pixels.data() + y * row);
  }
  png_read_image(png, rows.data());
  png_read_end(png, nullptr);
  png_destroy_read_struct(&png, &info, nullptr);
  return pixels;
}
#endif

std::string SmallPng() {
  PngImage image;
  image.width = image.height = 4;
  for (unsigned i = 0; i < 16; ++i) image.samples.push_back(i * 16);
  return PngFile(image);
}

Status PngError(const std::string& file) {
  Picture picture;
  return DecodePng(file, /*size_only=*/false, &picture);
}

TEST(PngTest, Decode_EveryTypeAndDepth_HasSamplesOfFile) {
  std::mt19937 random(1);
  int files = 0;
  for (const int type : kTypes) {
    for (const int depth : kDepths) {
      if (!IsLegal(type, depth)) continue;
      for (const auto& size : kSizes) {
        for (const int choice : {0, 1, 2, 3}) {
          const PngImage image = RandomImage(size[0], size[1], type, depth,
                                             choice & 1, choice & 2, &random);
          const std::string file = PngFile(image);
          Picture picture;
          ASSERT_OK(DecodePng(file, /*size_only=*/false, &picture));
          EXPECT_EQ(picture.pixels, Expected(image))
              << type << " " << depth << " " << size[0] << " " << choice;
#ifdef RINGLET_LIBPNG
          EXPECT_EQ(picture.pixels, ReadByLibpng(file));
#endif
          EXPECT_EQ(picture.width, size[0]);
          EXPECT_EQ(picture.height, size[1]);
          ++files;
        }
      }
    }
  }
  EXPECT_EQ(files, 15 * 5 * 4);
}

// The memory plan of a training counts the bytes that decoding needs.
TEST(PngTest, Size_RgbaOf16Bits_HasTheMemoryOfItsDecoding) {
  std::mt19937 random(1);
  const PngImage image =
      RandomImage(5, 3, 6, 16, /*adam7=*/false, /*transparent=*/false, &random);
  Picture picture;
  ASSERT_OK(DecodePictureSize(PngFile(image), &picture));
  EXPECT_EQ(picture.file_copies, 2);
  EXPECT_EQ(picture.buffer_bytes, 3u * (1 + 5 * 4 * 2));
}

TEST(PngTest, Decode_CutAnywhere_IsCorruption) {
  const std::string file = SmallPng();
  for (size_t bytes = 8; bytes < file.size(); ++bytes) {
    // On the heap, so that a sanitizer finds a read behind its end.
    const std::string cut(file, 0, bytes);
    EXPECT_EQ(PngError(cut).code(), Code::kCorruption) << bytes;
  }
}

TEST(PngTest, Decode_BitFlipped_IsErrorUnlessChunkIsIgnored) {
  const std::string file = SmallPng();
  const size_t text = file.find("tEXt") - 4, data = file.find("IDAT") - 4;
  for (size_t at = 8; at < file.size() - 12; ++at) {
    std::string flipped = file;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    const bool is_ignored = at >= text && at < data;
    EXPECT_TRUE(is_ignored || !PngError(flipped).ok()) << at;
  }
}

TEST(PngTest, Decode_HugeSize_IsRefusedBeforeAllocation) {
  std::string header = BigEndian32(60000) + BigEndian32(60000);
  header += std::string("\x10\x06\0\0\0", 5);
  const std::string file = "\x89PNG\r\n\x1a\n" + PngChunk("IHDR", header) +
                           PngChunk("IDAT", Deflated("")) +
                           PngChunk("IEND", "");
  const Status status = PngError(file);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status.message(), "60000 x 60000 pixels"));
  EXPECT_TRUE(Contains(status.message(), "67108864"));
}

TEST(PngTest, Decode_FewBytesForManyPixels_EndsEarlyBeforeAllocation) {
  const std::string file =
      "\x89PNG\r\n\x1a\n" +
      PngChunk("IHDR", BigEndian32(8000) + BigEndian32(8000) +
                           std::string("\x10\6\0\0\0", 5)) +
      PngChunk("IDAT", Deflated("little")) + PngChunk("IEND", "");
  EXPECT_TRUE(Contains(PngError(file).message(), "ends early"));
}

TEST(PngTest, Decode_WrongHeader_IsCorruption) {
  const std::string good = SmallPng();
  for (const auto& [at, value] : std::vector<std::pair<size_t, char>>{
           {8, 3}, {8, 0}, {9, 1}, {9, 7}, {10, 1}, {11, 1}, {12, 2}}) {
    std::string header = good.substr(16, 13);
    header[at] = value;
    const std::string file =
        good.substr(0, 8) + PngChunk("IHDR", header) + good.substr(33);
    EXPECT_TRUE(Contains(PngError(file).message(), "header")) << at;
  }
}

TEST(PngTest, Decode_NoPalette_IsCorruption) {
  PngImage image;
  image.width = image.height = 1;
  image.type = 3;
  image.samples = {0};
  EXPECT_TRUE(Contains(PngError(PngFile(image)).message(), "palette"));
}

}  // namespace
}  // namespace ringlet
