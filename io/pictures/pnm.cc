// PNM: PBM, PGM and PPM, as text (P1 to P3) and binary (P4 to P6), with 1 to 16
// bits. If a file has several pictures, the first is read.

#include <cstring>

#include "decoders.h"

namespace ringlet {
namespace {

constexpr uint32_t kMaxNumber = 1u << 30;

class PnmReader {
 public:
  PnmReader(std::string_view file, Picture* picture)
      : file_(file), kind_(file[1] - '0'), at_(2), picture_(picture) {}

  Status Read(bool size_only) {
    uint32_t width = 0, height = 0;
    if (!Number(&width) || !Number(&height) ||
        (!is_bits() && !Number(&largest_))) {
      return BadHeader();
    }
    if (largest_ == 0 || largest_ > 65535) return BadHeader();
    RINGLET_RETURN_IF_ERROR(CheckSize(width, height));
    picture_->width = width;
    picture_->height = height;
    picture_->channels = kind_ % 3 == 0 ? 3 : 1;
    if (size_only) return Status();
    if (!is_text()) ++at_;  // one blank
    const uint64_t samples =
        uint64_t{width} * height * static_cast<unsigned>(picture_->channels);
    // In a text a byte follows each number but the last, except in a bitmap.
    const uint64_t min_bytes = !is_text()  ? RowBytes() * height
                               : is_bits() ? samples
                                           : 2 * samples - 1;
    if (at_ > file_.size() || file_.size() - at_ < min_bytes)
      return EndsEarly();
    RINGLET_RETURN_IF_ERROR(AllocatePixels(0, picture_));
    return is_text() ? ReadText() : ReadBinary();
  }

 private:
  bool is_text() const { return kind_ <= 3; }
  bool is_bits() const { return kind_ == 1 || kind_ == 4; }
  size_t SampleBytes() const { return largest_ > 255 ? 2 : 1; }
  uint64_t RowBytes() const {
    const auto width = static_cast<uint64_t>(picture_->width);
    return is_bits() ? (width + 7) / 8
                     : width * static_cast<unsigned>(picture_->channels) *
                           SampleBytes();
  }

  // Blanks and comments, which end with their line.
  void SkipBlanks() {
    while (at_ < file_.size()) {
      if (file_[at_] == '#') {
        while (at_ < file_.size() && file_[at_] != '\n') ++at_;
      } else if (!std::strchr(" \t\r\n\v\f", file_[at_]) || file_[at_] == 0) {
        return;
      } else {
        ++at_;
      }
    }
  }

  bool Number(uint32_t* number) {
    SkipBlanks();
    const size_t begin = at_;
    for (*number = 0; at_ < file_.size() && file_[at_] >= '0' &&
                      file_[at_] <= '9' && *number < kMaxNumber / 16;
         ++at_) {
      *number = *number * 10 + static_cast<uint32_t>(file_[at_] - '0');
    }
    const bool ends =
        at_ == file_.size() || file_[at_] < '0' || file_[at_] > '9';
    return at_ > begin && ends;
  }

  unsigned char Scaled(uint32_t value) const {
    if (largest_ == 255) return static_cast<unsigned char>(value);
    return static_cast<unsigned char>((value * 255 + largest_ / 2) / largest_);
  }

  Status ReadText() {
    for (unsigned char& pixel : picture_->pixels) {
      uint32_t value = 0;
      if (is_bits()) {  // digits need no blanks between them
        SkipBlanks();
        if (at_ == file_.size()) return EndsEarly();
        value = static_cast<unsigned char>(file_[at_++]) - unsigned{'0'};
        if (value > 1) return BadSample();
        pixel = value == 1 ? 0 : 255;
        continue;
      }
      if (!Number(&value)) {
        return at_ == file_.size() ? EndsEarly() : BadSample();
      }
      if (value > largest_) return BadSample();
      pixel = Scaled(value);
    }
    return Status();
  }

  Status ReadBinary() {
    const auto* in = reinterpret_cast<const unsigned char*>(file_.data()) + at_;
    unsigned char* out = picture_->pixels.data();
    const auto row_bytes = static_cast<size_t>(RowBytes());
    const auto samples = static_cast<size_t>(picture_->width) *
                         static_cast<size_t>(picture_->channels);
    for (int64_t y = 0; y < picture_->height; ++y, in += row_bytes) {
      for (size_t i = 0; i < samples; ++i, ++out) {
        if (is_bits()) {
          *out = SampleAt(in, i, 1) == 1 ? 0 : 255;
          continue;
        }
        const uint32_t value =
            SampleBytes() == 1 ? in[i] : in[2 * i] * 256u + in[2 * i + 1];
        if (value > largest_) return BadSample();
        *out = Scaled(value);
      }
    }
    return Status();
  }

  static Status BadHeader() {
    return Corruption("is damaged: its PNM header is wrong");
  }
  Status BadSample() const {
    return Corruption("is damaged: a PNM sample is not a number from 0 to %u",
                      largest_);
  }

  const std::string_view file_;
  const int kind_;
  size_t at_;
  uint32_t largest_ = 1;
  Picture* const picture_;
};

}  // namespace

Status DecodePnm(std::string_view file, bool size_only, Picture* picture) {
  return PnmReader(file, picture).Read(size_only);
}

}  // namespace ringlet
