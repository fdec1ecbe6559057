#include "picture_format.h"

#include <cstring>

#include "../../core/base/text.h"

namespace ringlet {

PictureFormat PictureFormatOf(std::string_view bytes) {
  if (StartsWith(bytes, "\x89PNG\r\n\x1a\n")) return PictureFormat::kPng;
  if (StartsWith(bytes, "\xff\xd8\xff")) return PictureFormat::kJpeg;
  if (StartsWith(bytes, "BM")) return PictureFormat::kBmp;
  if (StartsWith(bytes, "GIF8")) return PictureFormat::kGif;
  if (StartsWith(bytes, "RIFF") && bytes.substr(8, 4) == "WEBP") {
    return PictureFormat::kWebp;
  }
  const bool pnm = bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' &&
                   bytes[1] <= '6' && std::strchr(" \t\r\n#", bytes[2]);
  return pnm ? PictureFormat::kPnm : PictureFormat::kNone;
}

bool HasPictureName(const std::string& path) {
  std::string name = path;
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
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
