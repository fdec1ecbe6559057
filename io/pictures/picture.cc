#include "picture.h"

#include <memory>
#include <utility>

#include "../files/atomic_file.h"
#include "../files/file_system.h"
#include "../files/input_file.h"
#include "decoders.h"
#include "picture_format.h"

namespace ringlet {
namespace {

// Bytes that are read for a size.
constexpr size_t kHeadBytes = size_t{64} << 10;

Status Decode(std::string_view bytes, bool size_only, int channels,
              Picture* picture) {
  switch (PictureFormatOf(bytes)) {
    case PictureFormat::kPng:
      return DecodePng(bytes, size_only, picture);
    case PictureFormat::kJpeg:
      return DecodeJpeg(bytes, size_only, channels == 1, picture);
    case PictureFormat::kBmp:
      return DecodeBmp(bytes, size_only, picture);
    case PictureFormat::kPnm:
      return DecodePnm(bytes, size_only, picture);
    case PictureFormat::kGif:
    case PictureFormat::kWebp:
      return InvalidArgument(
          "is a %s, which is not read; convert it to PNG or JPEG",
          PictureFormatOf(bytes) == PictureFormat::kGif ? "GIF" : "WebP");
    case PictureFormat::kNone:
      break;
  }
  return bytes.empty() ? Corruption("is empty")
                       : Corruption("is not a PNG, JPEG, BMP or PNM file");
}

unsigned char LumaOf(const unsigned char* rgb) {
  const uint32_t sum =
      19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u;
  return static_cast<unsigned char>(sum >> 16);
}

// Converts the picture to this number of channels.
void ConvertChannels(int channels, Picture* picture) {
  const int from = picture->channels;
  if (from == channels) return;
  const auto count = static_cast<size_t>(picture->count());
  std::vector<unsigned char> pixels(count * static_cast<size_t>(channels));
  const unsigned char* in = picture->pixels.data();
  unsigned char* out = pixels.data();
  const bool has_alpha = from == 2 || from == 4;
  for (size_t i = 0; i < count; ++i, in += from, out += channels) {
    if (channels == 1) {
      *out = from < 3 ? in[0] : LumaOf(in);
      continue;
    }
    for (int c = 0; c < 3; ++c) out[c] = in[from < 3 ? 0 : c];
    if (channels == 4) out[3] = has_alpha ? in[from - 1] : 255;
  }
  picture->pixels = std::move(pixels);
  picture->channels = channels;
}

}  // namespace

Status DecodePicture(std::string_view bytes, int channels, Picture* picture) {
  RINGLET_RETURN_IF_ERROR(
      Decode(bytes, /*size_only=*/false, channels, picture));
  if (picture->channels != channels) {
    RINGLET_RETURN_IF_ERROR(
        CheckMemoryFor("pixels", static_cast<uint64_t>(picture->count()) *
                                     static_cast<uint64_t>(channels)));
  }
  ConvertChannels(channels, picture);
  return Status();
}

Status DecodePictureSize(std::string_view bytes, Picture* picture) {
  return Decode(bytes, /*size_only=*/true, 0, picture);
}

Status ReadPicture(const std::string& path, int channels, Picture* picture) {
  std::string bytes;
  RINGLET_RETURN_IF_ERROR(
      ReadWholeFile(PosixFiles(), path, kMaxPictureBytes, &bytes));
  return DecodePicture(bytes, channels, picture).Annotate("%s", path.c_str());
}

Status ReadPictureSize(const std::string& path, Picture* picture) {
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(PosixFiles()->Open(path, &file));
  std::string bytes;
  RINGLET_RETURN_IF_ERROR(ReadUpTo(file.get(), 0, kHeadBytes, &bytes));
  Status status = DecodePictureSize(bytes, picture);
  if (!status.ok() && bytes.size() == kHeadBytes) {  // metadata may be larger
    RINGLET_RETURN_IF_ERROR(
        ReadWholeFile(PosixFiles(), path, kMaxPictureBytes, &bytes));
    status = DecodePictureSize(bytes, picture);
  }
  return status.Annotate("%s", path.c_str());
}

}  // namespace ringlet
