// PNG (ISO/IEC 15948), as libpng reads it: samples of 16 bits lose their low
// byte, and gamma and colour profiles are ignored. ringlet does not link
// libpng, which takes 320 KB in a static program; zlib is linked anyway.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../files/input_file.h"
#include "decoders.h"

namespace ringlet {
namespace {

constexpr size_t kSignatureBytes = 8;
constexpr uint64_t kMostExpansion = 1032;  // the greatest expansion of deflate

enum ColorType { kGray = 0, kRgb = 2, kPalette = 3, kGrayAlpha = 4, kRgba = 6 };

struct PngHeader {
  uint32_t width = 0, height = 0;
  int depth = 0, type = 0;
  bool interlaced = false;

  int samples() const {
    return type == kRgb ? 3 : type == kGrayAlpha ? 2 : type == kRgba ? 4 : 1;
  }
  int bits() const { return depth * samples(); }  // the bits of a pixel
  size_t RowBytes(uint32_t pixels) const {
    return static_cast<size_t>((uint64_t{pixels} * bits() + 7) / 8);
  }
};

// The pixels of a pass over the picture: columns x, x + dx, ... of rows y, ...
struct Pass {
  uint32_t x, y, dx, dy;
  uint32_t Width(const PngHeader& header) const {
    return header.width > x ? (header.width - x + dx - 1) / dx : 0;
  }
  uint32_t Height(const PngHeader& header) const {
    return header.height > y ? (header.height - y + dy - 1) / dy : 0;
  }
  uint64_t Bytes(const PngHeader& header) const {
    const uint32_t width = Width(header);
    return width == 0 ? 0
                      : uint64_t{Height(header)} * (1 + header.RowBytes(width));
  }
};
constexpr Pass kWhole[] = {{0, 0, 1, 1}};
constexpr Pass kAdam7[] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8},
                           {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2},
                           {0, 1, 1, 2}};

class PngReader {
 public:
  PngReader(std::string_view file, Picture* picture)
      : bytes_(file), picture_(picture) {}

  Status Read(bool size_only) {
    bytes_.Skip(kSignatureBytes);
    RINGLET_RETURN_IF_ERROR(ReadHeader());
    picture_->file_copies = 2;  // the second has its chunks joined
    picture_->buffer_bytes = RawBytes();
    if (size_only) {
      SetSize(header_.type == kPalette ? 3 : header_.samples());
      return Status();
    }
    RINGLET_RETURN_IF_ERROR(ReadChunks());
    return ReadPixels();
  }

 private:
  static bool IsCritical(std::string_view type) {
    return (type[0] & 0x20) == 0;
  }

  // The checksum of a chunk that is not used is not checked.
  Status NextChunk(std::string_view* type, std::string_view* data) {
    const uint32_t length = bytes_.BigEndian(4);
    std::string_view body = bytes_.Take(uint64_t{length} + 4);
    const uint32_t crc = bytes_.BigEndian(4);
    if (!bytes_.ok() || length > INT32_MAX) return EndsEarly();
    *type = body.substr(0, 4);
    *data = body.substr(4);
    const bool is_used = IsCritical(*type) || *type == "tRNS";
    if (is_used && Crc32(body.data(), body.size()) != crc) {
      return Corruption("is damaged: the checksum of a PNG chunk is wrong");
    }
    return Status();
  }

  Status ReadHeader() {
    std::string_view type, data;
    RINGLET_RETURN_IF_ERROR(NextChunk(&type, &data));
    if (type != "IHDR" || data.size() != 13) return BadHeader();
    ByteReader fields(data);
    header_.width = fields.BigEndian(4);
    header_.height = fields.BigEndian(4);
    header_.depth = static_cast<int>(fields.Byte());
    header_.type = static_cast<int>(fields.Byte());
    const uint32_t compression = fields.Byte(), filter = fields.Byte();
    const uint32_t interlace = fields.Byte();
    header_.interlaced = interlace == 1;
    RINGLET_RETURN_IF_ERROR(CheckSize(header_.width, header_.height));
    const int depth = header_.depth;
    const bool has_whole_bytes = depth == 8 || depth == 16;
    const bool part = depth == 1 || depth == 2 || depth == 4;
    bool known = false;
    switch (header_.type) {
      case kGray:
        known = has_whole_bytes || part;
        break;
      case kPalette:
        known = depth == 8 || part;
        break;
      case kRgb:
      case kGrayAlpha:
      case kRgba:
        known = has_whole_bytes;
        break;
      default:
        break;
    }
    if (!known || compression != 0 || filter != 0 || interlace > 1) {
      return BadHeader();
    }
    return Status();
  }

  Status ReadChunks() {
    size_t colors = 0;
    for (std::string_view type, data;;) {
      RINGLET_RETURN_IF_ERROR(NextChunk(&type, &data));
      if (type == "IEND") break;
      if (type == "IDAT") {
        if (idat_.empty()) idat_.reserve(data.size() + bytes_.left());
        idat_.append(data);
      } else if (type == "PLTE") {
        colors = data.size() / 3;
        if (data.size() % 3 != 0 || data.size() > sizeof(palette_)) {
          return BadHeader();
        }
        std::memcpy(palette_, data.data(), data.size());
      } else if (type == "tRNS" && idat_.empty()) {
        transparency_ = data;
      } else if (IsCritical(type)) {
        return Corruption("is damaged: it has a PNG chunk of unknown type");
      }
    }
    if (header_.type == kPalette && colors == 0) return BadHeader();
    const size_t size = transparency_.size();
    const bool fits = header_.type == kGray      ? size == 2
                      : header_.type == kRgb     ? size == 6
                      : header_.type == kPalette ? size <= colors
                                                 : false;
    if (!fits) transparency_ = {};  // libpng does so too
    return Status();
  }

  void SetSize(int channels) {
    picture_->width = header_.width;
    picture_->height = header_.height;
    picture_->channels = channels;
  }

  const Pass* FirstPass() const { return header_.interlaced ? kAdam7 : kWhole; }
  const Pass* EndOfPasses() const {
    return FirstPass() + (header_.interlaced ? 7 : 1);
  }
  uint64_t RawBytes() const {
    uint64_t bytes = 0;
    for (const Pass* p = FirstPass(); p < EndOfPasses(); ++p) {
      bytes += p->Bytes(header_);
    }
    return bytes;
  }

  Status ReadPixels() {
    const uint64_t raw_bytes = picture_->buffer_bytes;
    if (raw_bytes > idat_.size() * kMostExpansion) return EndsEarly();
    SetSize(ChannelsOf());
    RINGLET_RETURN_IF_ERROR(AllocatePixels(raw_bytes, picture_));
    std::vector<unsigned char> raw(static_cast<size_t>(raw_bytes));
    RINGLET_RETURN_IF_ERROR(Inflate(&raw));
    unsigned char* at = raw.data();
    for (const Pass* p = FirstPass(); p < EndOfPasses(); ++p) {
      if (p->Bytes(header_) == 0) continue;
      RINGLET_RETURN_IF_ERROR(ReadPass(*p, at));
      at += p->Bytes(header_);
    }
    return Status();
  }

  int ChannelsOf() const {
    const int samples = header_.type == kPalette ? 3 : header_.samples();
    return samples + (transparency_.empty() ? 0 : 1);
  }

  Status Inflate(std::vector<unsigned char>* raw) const {
    const auto* const data =
        reinterpret_cast<const unsigned char*>(idat_.data());
    // zlib's header: deflate, without a dictionary.
    if (idat_.size() < 2 || (data[0] & 0x0F) != 8 || (data[1] & 0x20) != 0 ||
        (data[0] * 256 + data[1]) % 31 != 0) {
      return Corruption("is damaged: its pixels are not zlib data");
    }
    size_t inflated_bytes = 0;
    bool ended = false;
    if (!InflateRaw(data + 2, idat_.size() - 2, raw->data(), raw->size(),
                    &inflated_bytes, &ended)) {
      return Corruption("is damaged: its pixels cannot be inflated");
    }
    return inflated_bytes == raw->size() ? Status() : EndsEarly();
  }

  // Each of the `rows` has a byte for its filter, and then its samples.
  Status ReadPass(const Pass& pass, unsigned char* rows) {
    const uint32_t width = pass.Width(header_);
    const size_t bytes = header_.RowBytes(width);
    const auto step = static_cast<size_t>(std::max(1, header_.bits() / 8));
    const std::vector<unsigned char> zeros(bytes);
    const unsigned char* above = zeros.data();
    for (uint32_t r = 0; r < pass.Height(header_); ++r, rows += bytes + 1) {
      unsigned char* const row = rows + 1;
      if (!Unfilter(rows[0], above, bytes, step, row)) {
        return Corruption("is damaged: a row has an unknown PNG filter");
      }
      above = row;
      unsigned char* out =
          picture_->pixels.data() +
          (size_t{pass.y + r * pass.dy} * header_.width + pass.x) *
              static_cast<size_t>(picture_->channels);
      for (uint32_t i = 0; i < width; ++i) {
        WritePixel(row, i, out);
        out += size_t{pass.dx} * static_cast<size_t>(picture_->channels);
      }
    }
    return Status();
  }

  static unsigned char Paeth(int a, int b, int c) {
    const int p = a + b - c;
    const int to_a = std::abs(p - a), to_b = std::abs(p - b);
    const int to_c = std::abs(p - c);
    return static_cast<unsigned char>(to_a <= to_b && to_a <= to_c ? a
                                      : to_b <= to_c               ? b
                                                                   : c);
  }

  static bool Unfilter(int filter, const unsigned char* above, size_t bytes,
                       size_t step, unsigned char* row) {
    const auto add = [row](size_t i, int value) {
      row[i] = static_cast<unsigned char>(row[i] + value);
    };
    const size_t first = std::min(step, bytes);  // bytes without one before
    switch (filter) {
      case 0:
        return true;
      case 1:
        for (size_t i = step; i < bytes; ++i) add(i, row[i - step]);
        return true;
      case 2:
        for (size_t i = 0; i < bytes; ++i) add(i, above[i]);
        return true;
      case 3:
        for (size_t i = 0; i < first; ++i) add(i, above[i] / 2);
        for (size_t i = step; i < bytes; ++i) {
          add(i, (row[i - step] + above[i]) / 2);
        }
        return true;
      case 4:
        for (size_t i = 0; i < first; ++i) add(i, above[i]);
        for (size_t i = step; i < bytes; ++i) {
          add(i, Paeth(row[i - step], above[i], above[i - step]));
        }
        return true;
      default:
        return false;
    }
  }

  void WritePixel(const unsigned char* row, size_t i,
                  unsigned char* out) const {
    if (header_.type == kPalette) {
      const unsigned index = SampleAt(row, i, header_.depth);
      std::memcpy(out, palette_[index], 3);
      if (transparency_.empty()) return;
      out[3] = index < transparency_.size()
                   ? static_cast<unsigned char>(transparency_[index])
                   : 255;
      return;
    }
    const auto samples = static_cast<size_t>(header_.samples());
    const size_t bytes = header_.depth == 16 ? 2 : 1;
    bool is_transparent = true;
    for (size_t c = 0; c < samples; ++c) {
      unsigned value = 0;
      if (header_.depth < 8) {
        value = SampleAt(row, i, header_.depth);
      } else {
        for (size_t b = 0; b < bytes; ++b) {
          value = value << 8 | row[(i * samples + c) * bytes + b];
        }
      }
      is_transparent = is_transparent && value == TransparentSample(c);
      out[c] = static_cast<unsigned char>(
          header_.depth == 16  ? value >> 8
          : header_.depth == 8 ? value
                               : value * 255 / ((1u << header_.depth) - 1));
    }
    if (!transparency_.empty()) out[samples] = is_transparent ? 0 : 255;
  }

  // The value of a gray or RGB pixel that is transparent.
  unsigned TransparentSample(size_t channel) const {
    if (transparency_.empty()) return 0;
    const auto byte = [&](size_t at) {
      return static_cast<unsigned char>(transparency_[at]);
    };
    const unsigned value = byte(2 * channel) * 256u + byte(2 * channel + 1);
    return value & ((1u << header_.depth) - 1);
  }

  static Status BadHeader() {
    return Corruption("is damaged: its PNG header or palette is wrong");
  }

  ByteReader bytes_;
  Picture* const picture_;
  PngHeader header_;
  unsigned char palette_[256][3] = {};
  std::string_view transparency_;  // the chunk tRNS; empty without it
  std::string idat_;
};

}  // namespace

Status DecodePng(std::string_view file, bool size_only, Picture* picture) {
  return PngReader(file, picture).Read(size_only);
}

}  // namespace ringlet
