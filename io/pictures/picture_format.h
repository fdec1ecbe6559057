// The formats of pictures, by the names and the first bytes of files.

#ifndef RINGLET_IO_PICTURES_PICTURE_FORMAT_H_
#define RINGLET_IO_PICTURES_PICTURE_FORMAT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace ringlet {

enum class PictureFormat : uint8_t {
  kNone,
  kPng,
  kJpeg,
  kBmp,
  kPnm,
  kGif,
  kWebp
};

// Decides by the first 16 bytes of a file.
PictureFormat PictureFormatOf(std::string_view bytes);

// True if Keras reads files of this name as pictures, or ringlet does: .bmp,
// .gif, .jpeg, .jpg, .pbm, .pgm, .png, .pnm, .ppm, in any case.
bool HasPictureName(const std::string& path);

// True if the file begins as a picture of a PictureFormat, also of one that
// ringlet cannot decode.
bool LooksLikePicture(std::string_view bytes);

}  // namespace ringlet

#endif  // RINGLET_IO_PICTURES_PICTURE_FORMAT_H_
