#include "picture_uri.h"

#include <algorithm>
#include <cstdint>

#include "io/files/input_file.h"

namespace ringlet {
namespace {

std::string BigEndian32(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(number >> shift & 255);
  }
  return bytes;
}

std::string Chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  return BigEndian32(static_cast<uint32_t>(data.size())) + body +
         BigEndian32(Crc32(body.data(), body.size()));
}

// A zlib stream of stored blocks.
std::string Stored(const std::string& bytes) {
  constexpr size_t kBlock = 65535;
  std::string out = "\x78\x01";
  for (size_t at = 0; at < bytes.size(); at += kBlock) {
    const size_t count = std::min(kBlock, bytes.size() - at);
    out += at + count == bytes.size() ? '\x01' : '\x00';
    for (const size_t number : {count, ~count}) {
      out += static_cast<char>(number & 255);
      out += static_cast<char>(number >> 8 & 255);
    }
    out.append(bytes, at, count);
  }
  uint32_t a = 1, b = 0;  // Adler-32
  for (const char c : bytes) {
    a = (a + static_cast<unsigned char>(c)) % 65521;
    b = (b + a) % 65521;
  }
  return out + BigEndian32(b << 16 | a);
}

std::string Base64(const std::string& bytes) {
  constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t three = 0;
    for (size_t i = 0; i < 3; ++i) {
      three = three << 8 |
              (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i])
                                     : 0U);
    }
    for (size_t i = 0; i < 4; ++i) {
      out += at + i <= bytes.size() ? kDigits[three >> (18 - 6 * i) & 63] : '=';
    }
  }
  return out;
}

// The mean of each square of `factor` pixels; a rest at the right and at the
// bottom is cut off.
Picture Reduced(const Picture& picture, int64_t factor) {
  Picture out;
  out.channels = picture.channels;
  out.height = std::max<int64_t>(1, picture.height / factor);
  out.width = std::max<int64_t>(1, picture.width / factor);
  const int64_t channels = picture.channels;
  for (int64_t i = 0; i < out.count() * channels; ++i) {
    const int64_t c = i % channels, x = i / channels % out.width,
                  y = i / channels / out.width;
    int64_t sum = 0, pixels = 0;
    for (int64_t k = 0; k < factor * factor; ++k) {
      const int64_t from_y = y * factor + k / factor,
                    from_x = x * factor + k % factor;
      if (from_y >= picture.height || from_x >= picture.width) continue;
      sum += picture.pixels[static_cast<size_t>(
          (from_y * picture.width + from_x) * channels + c)];
      ++pixels;
    }
    out.pixels.push_back(static_cast<unsigned char>(sum / pixels));
  }
  return out;
}

}  // namespace

std::string PictureUri(const Picture& picture) {
  const int64_t side = std::max(picture.height, picture.width);
  const int64_t factor = (side + kMostUriPixels - 1) / kMostUriPixels;
  const Picture small = Reduced(picture, std::max<int64_t>(1, factor));
  // The type for a number of channels.
  constexpr char kTypes[] = {0, 0, 4, 2, 6};
  std::string header = BigEndian32(static_cast<uint32_t>(small.width)) +
                       BigEndian32(static_cast<uint32_t>(small.height));
  header += '\x08';
  header += kTypes[small.channels];
  header.append(3, '\0');
  std::string rows;
  const auto row = static_cast<size_t>(small.width * small.channels);
  for (size_t at = 0; at < small.pixels.size(); at += row) {
    rows += '\0';  // no filter
    rows.append(small.pixels.begin() + static_cast<std::ptrdiff_t>(at),
                small.pixels.begin() + static_cast<std::ptrdiff_t>(at + row));
  }
  return "data:image/png;base64," +
         Base64("\x89PNG\r\n\x1a\n" + Chunk("IHDR", header) +
                Chunk("IDAT", Stored(rows)) + Chunk("IEND", ""));
}

}  // namespace ringlet
