// BMP: uncompressed, with 1, 4, 8, 24 or 32 bits for each pixel.

#include <cstring>
#include <string>

#include "decoders.h"

namespace ringlet {
namespace {

constexpr size_t kFileHeaderBytes = 14;
constexpr uint32_t kBitFields = 3;

struct BmpHeader {
  uint32_t begin = 0;  // the first byte of the pixels
  uint32_t width = 0, height = 0;
  bool from_top = false;
  int bits = 0;
  uint32_t compression = 0;
  size_t color_bytes = 4;  // bytes of an entry of the palette
  uint32_t colors = 0;     // the colors in the palette, 0 for all
  // The byte of each channel in a pixel of 32 bits; -1 if there is none.
  int channel_byte[4] = {2, 1, 0, -1};
};

// The number of the byte that `mask` covers; -1 if it is not one byte.
int ByteIndexOfMask(uint32_t mask) {
  for (int i = 0; i < 4; ++i) {
    if (mask == 0xFFu << (8 * i)) return i;
  }
  return -1;
}

Status ReadMasks(uint32_t header_bytes, ByteReader* bytes, BmpHeader* header) {
  for (int c = 0; c < 3; ++c) {
    header->channel_byte[c] = ByteIndexOfMask(bytes->LittleEndian(4));
    if (header->channel_byte[c] < 0) {
      return InvalidArgument("is a BMP with unusual masks; convert it to PNG");
    }
  }
  if (header_bytes >= 56)
    header->channel_byte[3] = ByteIndexOfMask(bytes->LittleEndian(4));
  return Status();
}

Status ReadHeader(ByteReader* bytes, BmpHeader* header) {
  bytes->Skip(10);
  header->begin = bytes->LittleEndian(4);
  const uint32_t header_bytes = bytes->LittleEndian(4);
  const bool is_os2 = header_bytes == 12;  // a header of OS/2
  header->width = bytes->LittleEndian(is_os2 ? 2 : 4);
  header->height = bytes->LittleEndian(is_os2 ? 2 : 4);
  bytes->Skip(2);  // planes
  header->bits = static_cast<int>(bytes->LittleEndian(2));
  if (is_os2) {
    header->color_bytes = 3;
  } else {
    header->compression = bytes->LittleEndian(4);
    bytes->Skip(12);  // the pixels' bytes, and the resolution
    header->colors = bytes->LittleEndian(4);
    bytes->Skip(4);
    header->from_top = header->height >> 31 != 0;
    if (header->from_top) header->height = 0 - header->height;
  }
  if (!bytes->ok()) return EndsEarly();
  if (!is_os2 && header_bytes < 40) {
    return Corruption("is damaged: its BMP header is wrong");
  }
  RINGLET_RETURN_IF_ERROR(CheckSize(header->width, header->height));
  const int bits = header->bits;
  const bool masked = bits == 32 && header->compression == kBitFields;
  const bool known =
      bits == 1 || bits == 4 || bits == 8 || bits == 24 || bits == 32;
  if (!known || (header->compression != 0 && !masked)) {
    return InvalidArgument(
        "is a BMP of %d bits with compression %u; only those without "
        "compression, of 1, 4, 8, 24 and 32 bits, are read",
        bits, header->compression);
  }
  if (masked) {
    RINGLET_RETURN_IF_ERROR(ReadMasks(header_bytes, bytes, header));
  }
  // The palette follows the header.
  const size_t end = kFileHeaderBytes + header_bytes;
  if (bits <= 8) {
    if (end < bytes->at()) return EndsEarly();
    bytes->Skip(end - bytes->at());
  }
  return bytes->ok() ? Status() : EndsEarly();
}

void WriteRow(const BmpHeader& header, std::string_view row,
              std::string_view palette, int channels, unsigned char* out) {
  const auto* const in = reinterpret_cast<const unsigned char*>(row.data());
  const auto step = static_cast<size_t>(header.bits / 8);
  for (size_t i = 0; i < header.width; ++i, out += channels) {
    if (header.bits <= 8) {
      // A number beyond the palette is black.
      const size_t at = SampleAt(in, i, header.bits) * header.color_bytes;
      for (size_t c = 0; c < 3; ++c) {
        const size_t from = at + 2 - c;  // blue, green, red
        out[c] = from < palette.size()
                     ? static_cast<unsigned char>(palette[from])
                     : 0;
      }
      continue;
    }
    const auto byte = [&](int c) {
      return in[i * step + static_cast<size_t>(header.channel_byte[c])];
    };
    for (int c = 0; c < 3; ++c) out[c] = byte(c);
    if (channels == 4) out[3] = byte(3);
  }
}

}  // namespace

Status DecodeBmp(std::string_view file, bool size_only, Picture* picture) {
  ByteReader bytes(file);
  BmpHeader header;
  RINGLET_RETURN_IF_ERROR(ReadHeader(&bytes, &header));
  picture->width = header.width;
  picture->height = header.height;
  picture->channels = header.bits == 32 && header.channel_byte[3] >= 0 ? 4 : 3;
  if (size_only) return Status();
  std::string_view palette;
  if (header.bits <= 8) {
    const uint32_t max_colors = 1u << header.bits;
    const uint32_t colors = header.colors == 0 || header.colors > max_colors
                                ? max_colors
                                : header.colors;
    palette = file.substr(bytes.at(), colors * header.color_bytes);
  }
  const uint64_t row_bytes =
      (uint64_t{header.width} * static_cast<unsigned>(header.bits) + 31) / 32 *
      4;
  const uint64_t needed = row_bytes * header.height;
  if (header.begin > file.size() || file.size() - header.begin < needed) {
    return EndsEarly();
  }
  RINGLET_RETURN_IF_ERROR(AllocatePixels(0, picture));
  const auto out_bytes = static_cast<size_t>(picture->width) *
                         static_cast<size_t>(picture->channels);
  for (size_t y = 0; y < header.height; ++y) {
    const size_t from = header.from_top ? y : header.height - 1 - y;
    const std::string_view row =
        file.substr(header.begin + from * static_cast<size_t>(row_bytes),
                    static_cast<size_t>(row_bytes));
    WriteRow(header, row, palette, picture->channels,
             picture->pixels.data() + y * out_bytes);
  }
  return Status();
}

}  // namespace ringlet
