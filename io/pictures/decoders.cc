#include "decoders.h"

#include <cinttypes>

#include "../files/input_file.h"

namespace ringlet {

Status CheckSize(uint64_t width, uint64_t height) {
  if (width == 0 || height == 0) {
    return Corruption("is %" PRIu64 " x %" PRIu64 " pixels", width, height);
  }
  if (width > kMaxPictureSide || height > kMaxPictureSide) {
    return InvalidArgument("is %" PRIu64 " x %" PRIu64
                           " pixels, a side of more than %d; cut it into parts",
                           width, height, kMaxPictureSide);
  }
  const auto max_pixels = static_cast<uint64_t>(kMaxPixels);
  if (width <= max_pixels && height <= max_pixels / width) return Status();
  return InvalidArgument("is %" PRIu64 " x %" PRIu64
                         " pixels, more than the %" PRIu64
                         " that are read; make it smaller",
                         width, height, max_pixels);
}

Status AllocatePixels(uint64_t extra_bytes, Picture* picture) {
  const uint64_t bytes = static_cast<uint64_t>(picture->count()) *
                         static_cast<uint64_t>(picture->channels);
  RINGLET_RETURN_IF_ERROR(CheckMemoryFor("pixels", bytes + extra_bytes));
  picture->pixels.resize(static_cast<size_t>(bytes));
  return Status();
}

Status EndsEarly() {
  return Corruption("ends early; copy it again, or remove it");
}

}  // namespace ringlet
