// PNG files of any type, written from their samples.

#ifndef RINGLET_TESTS_SUPPORT_PNG_FILE_H_
#define RINGLET_TESTS_SUPPORT_PNG_FILE_H_

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace ringlet {

struct PngImage {
  uint32_t width = 0, height = 0;
  int depth = 8;
  int type = 0;  // 0: gray, 2: RGB, 3: palette, 4: gray, alpha, 6: RGBA
  bool adam7 = false;
  std::vector<unsigned> samples;  // row by row
  std::string palette;            // PLTE
  std::string transparency;       // tRNS

  int channels() const {
    return type == 2 ? 3 : type == 4 ? 2 : type == 6 ? 4 : 1;
  }
};

inline std::string BigEndian32(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(number >> shift & 255);
  }
  return bytes;
}

inline std::string PngChunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                          static_cast<uInt>(body.size()));
  return BigEndian32(static_cast<uint32_t>(data.size())) + body +
         BigEndian32(static_cast<uint32_t>(crc));
}

inline std::string Deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string packed(size, '\0');
  EXPECT_EQ(
      compress(reinterpret_cast<Bytef*>(&packed[0]), &size,
               reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()),
      Z_OK);
  packed.resize(size);
  return packed;
}

// The bytes of a row of samples, the first in the highest bits.
inline std::string PackedRow(const std::vector<unsigned>& samples, int depth) {
  std::string row;
  unsigned byte = 0;
  int bits = 0;
  for (const unsigned sample : samples) {
    if (depth == 16) {
      row += static_cast<char>(sample >> 8);
      row += static_cast<char>(sample & 255);
      continue;
    }
    byte = byte << depth | sample;
    bits += depth;
    if (bits == 8) row += static_cast<char>(byte);
    byte = bits == 8 ? 0 : byte;
    bits = bits == 8 ? 0 : bits;
  }
  if (bits > 0) row += static_cast<char>(byte << (8 - bits));
  return row;
}

// `row` less what `filter` predicts from it and the row above it.
inline std::string FilteredRow(int filter, const std::string& above,
                               const std::string& row, size_t step) {
  std::string out(1, static_cast<char>(filter));
  const auto at = [](const std::string& bytes, size_t i, size_t back) {
    return i < back ? 0 : static_cast<unsigned char>(bytes[i - back]);
  };
  for (size_t i = 0; i < row.size(); ++i) {
    const int a = at(row, i, step), b = at(above, i, 0), c = at(above, i, step);
    const int p = a + b - c;
    const int da = std::abs(p - a), db = std::abs(p - b), dc = std::abs(p - c);
    const int paeth = da <= db && da <= dc ? a : db <= dc ? b : c;
    const int predicted[] = {0, a, b, (a + b) / 2, paeth};
    out += static_cast<char>(at(row, i, 0) - predicted[filter]);
  }
  return out;
}

inline std::string PngFile(const PngImage& image) {
  const auto channels = static_cast<size_t>(image.channels());
  const size_t step = std::max<size_t>(1, channels * image.depth / 8);
  constexpr uint32_t kPasses[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8},
                                      {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2},
                                      {0, 1, 1, 2}};
  constexpr uint32_t kWhole[1][4] = {{0, 0, 1, 1}};
  std::string raw;
  int filter = 0;
  for (int p = 0; p < (image.adam7 ? 7 : 1); ++p) {
    const uint32_t* const pass = image.adam7 ? kPasses[p] : kWhole[p];
    std::string above;
    for (uint32_t y = pass[1]; y < image.height; y += pass[3]) {
      std::vector<unsigned> samples;
      for (uint32_t x = pass[0]; x < image.width; x += pass[2]) {
        for (size_t c = 0; c < channels; ++c) {
          samples.push_back(
              image.samples[(size_t{y} * image.width + x) * channels + c]);
        }
      }
      if (samples.empty()) break;
      const std::string row = PackedRow(samples, image.depth);
      if (above.empty()) above.assign(row.size(), '\0');
      raw += FilteredRow(filter, above, row, step);
      filter = (filter + 1) % 5;
      above = row;
    }
  }
  std::string header = BigEndian32(image.width) + BigEndian32(image.height);
  header += static_cast<char>(image.depth);
  header += static_cast<char>(image.type);
  header += std::string(2, '\0') + (image.adam7 ? '\1' : '\0');
  const std::string data = Deflated(raw);
  std::string file = "\x89PNG\r\n\x1a\n" + PngChunk("IHDR", header) +
                     PngChunk("tEXt", "Comment");
  if (!image.palette.empty()) file += PngChunk("PLTE", image.palette);
  if (!image.transparency.empty()) file += PngChunk("tRNS", image.transparency);
  file += PngChunk("IDAT", data.substr(0, data.size() / 2)) +
          PngChunk("IDAT", data.substr(data.size() / 2));
  return file + PngChunk("IEND", "");
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_PNG_FILE_H_
