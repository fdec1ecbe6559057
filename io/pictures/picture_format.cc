#include "picture_format.h"

#include <algorithm>

#include "../../core/base/text.h"

namespace ringlet {

PictureFormat PictureFormatOf(std::string_view bytes) {
  if (StartsWith(bytes, "\x89PNG\r\n\x1a\n")) return PictureFormat::kPng;
  if (StartsWith(bytes, "\xff\xd8\xff")) return PictureFormat::kJpeg;
  // A text may begin with "BM" or "P1" too. At 14 a BMP has its header's size.
  if (StartsWith(bytes, "BM") && bytes.size() > 15 && bytes[14] >= 12 &&
      bytes[14] <= 124 && bytes[15] == 0) {
    return PictureFormat::kBmp;
  }
  if (StartsWith(bytes, "GIF8")) return PictureFormat::kGif;
  if (StartsWith(bytes, "RIFF") && bytes.substr(8, 4) == "WEBP") {
    return PictureFormat::kWebp;
  }
  const size_t after_blanks =
      std::min(bytes.find_first_not_of(" \t\r\n\v\f", 2), bytes.size());
  const bool pnm = after_blanks < bytes.size() && bytes[0] == 'P' &&
                   bytes[1] >= '1' && bytes[1] <= '6' &&
                   (bytes[after_blanks] == '#' ||
                    (after_blanks > 2 && bytes[after_blanks] >= '0' &&
                     bytes[after_blanks] <= '9'));
  return pnm ? PictureFormat::kPnm : PictureFormat::kNone;
}

bool HasPictureName(const std::string& path) {
  const std::string name = LowerAscii(path);
  for (const char* end : {".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm",
                          ".png", ".pnm", ".ppm"}) {
    if (EndsWith(name, end)) return true;
  }
  return false;
}

bool LooksLikePicture(std::string_view bytes) {
  return PictureFormatOf(bytes) != PictureFormat::kNone;
}

}  // namespace ringlet
