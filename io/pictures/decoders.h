// The decoder of each format, and what they share. Internal to io/pictures.

#ifndef RINGLET_IO_PICTURES_DECODERS_H_
#define RINGLET_IO_PICTURES_DECODERS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "picture.h"
#include "ringlet/status.h"

namespace ringlet {

// Each decodes a whole file, with the channels that it has. With `size_only`
// the pixels are left out, and the file may end after its header.
Status DecodePng(std::string_view file, bool size_only, Picture* picture);
Status DecodeBmp(std::string_view file, bool size_only, Picture* picture);
Status DecodePnm(std::string_view file, bool size_only, Picture* picture);
// The pixels are gray if `gray` is true, otherwise RGB.
Status DecodeJpeg(std::string_view file, bool size_only, bool gray,
                  Picture* picture);

// Checks a header before any memory is allocated: both sizes are > 0, and the
// pixels are at most kMaxPixels.
Status CheckSize(uint64_t width, uint64_t height);
// Allocates the pixels. `extra_bytes` is the size of the decoder's own buffers,
// which must fit into the memory together with the pixels.
Status AllocatePixels(uint64_t extra_bytes, Picture* picture);
// Returns the error for a file that is shorter than its header requires.
Status EndsEarly();

// The bytes of a file in order. A number beyond the end is 0, and `ok` false.
class ByteReader {
 public:
  explicit ByteReader(std::string_view file) : file_(file) {}

  bool ok() const { return ok_; }
  size_t at() const { return at_; }
  size_t left() const { return file_.size() - at_; }
  void Skip(uint64_t bytes) {
    ok_ = ok_ && bytes <= left();
    at_ = ok_ ? at_ + static_cast<size_t>(bytes) : file_.size();
  }
  std::string_view Take(uint64_t bytes) {
    const size_t from = at_;
    Skip(bytes);
    return ok_ ? file_.substr(from, static_cast<size_t>(bytes))
               : std::string_view();
  }
  uint32_t Byte() { return LittleEndian(1); }
  uint32_t LittleEndian(int bytes) {
    uint32_t number = 0;
    const std::string_view text = Take(static_cast<uint64_t>(bytes));
    for (size_t i = text.size(); i > 0; --i) {
      number = number << 8 | static_cast<unsigned char>(text[i - 1]);
    }
    return number;
  }
  uint32_t BigEndian(int bytes) {
    uint32_t number = 0;
    for (const char c : Take(static_cast<uint64_t>(bytes))) {
      number = number << 8 | static_cast<unsigned char>(c);
    }
    return number;
  }

 private:
  const std::string_view file_;
  size_t at_ = 0;
  bool ok_ = true;
};

// The sample at `index` of a row with 1, 2, 4 or 8 bits each; the first is in
// the highest bits of a byte.
inline unsigned SampleAt(const unsigned char* row, size_t index, int bits) {
  const size_t bit = index * static_cast<size_t>(bits);
  const int shift = 8 - bits - static_cast<int>(bit % 8);
  return (unsigned{row[bit / 8]} >> shift) & ((1u << bits) - 1);
}

}  // namespace ringlet

#endif  // RINGLET_IO_PICTURES_DECODERS_H_
