// Pictures: PNG, JPEG, BMP and PNM files as bytes of gray or colours.
//
// The bytes of a file are hostile. Sizes are checked before memory is
// allocated, and a file that ends early is an error.

#ifndef RINGLET_IO_PICTURES_PICTURE_H_
#define RINGLET_IO_PICTURES_PICTURE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

// A picture with more pixels is refused.
constexpr int64_t kMaxPixels = int64_t{1} << 26;
constexpr int64_t kMaxPictureBytes = int64_t{1} << 28;  // the largest file

// A side of more pixels is refused: the largest of a JPEG.
constexpr int kMaxPictureSide = 65535;

struct Picture {
  int64_t height = 0, width = 0;
  int channels = 0;  // 1: gray, 2: gray and alpha, 3: RGB, 4: RGB and alpha
  std::vector<unsigned char> pixels;  // row by row, from the top
  // The memory that decoding takes besides the pixels: copies of the file's
  // bytes, and a buffer. Both are known as soon as the size is known.
  int file_copies = 1;
  uint64_t buffer_bytes = 0;

  int64_t count() const { return height * width; }
};

// False if the build is without libjpeg, so that JPEG files are refused.
bool ReadsJpeg();

// Makes the picture of a file's bytes. `channels` (1, 3 or 4) are the channels
// of the picture: colours become gray by the luma of JPEG, and a missing alpha
// is 255. An alpha is dropped unless `channels` is 4.
//
// kCorruption for a damaged file, kInvalidArgument for a file of another format
// or with too many pixels, kUnimplemented for a format that is not built in.
Status DecodePicture(std::string_view bytes, int channels, Picture* picture);

// Reads only the size, from the file's beginning, and the channels in it.
Status DecodePictureSize(std::string_view bytes, Picture* picture);

// Makes the picture of a file. The error names its path.
Status ReadPicture(const std::string& path, int channels, Picture* picture);
Status ReadPictureSize(const std::string& path, Picture* picture);

}  // namespace ringlet

#endif  // RINGLET_IO_PICTURES_PICTURE_H_
