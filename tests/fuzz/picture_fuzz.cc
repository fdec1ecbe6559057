// Fuzz entry: any bytes as a picture, with each number of channels, and in
// another size.

#include <string_view>
#include <vector>

#include "core/base/check.h"
#include "io/pictures/picture.h"
#include "io/pictures/resize.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringlet;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  Picture head;
  const bool has_size = DecodePictureSize(file, &head).ok();
  if (has_size && head.count() > (1 << 20))
    return 0;  // too slow to decode here; not an error
  for (const int channels : {1, 3, 4}) {
    Picture picture;
    if (!DecodePicture(file, channels, &picture).ok()) continue;
    RINGLET_CHECK(has_size && picture.count() == head.count());
    RINGLET_CHECK(picture.pixels.size() ==
                  static_cast<size_t>(picture.count() * channels));
    std::vector<unsigned char> pixels(size_t{5} * 7 * channels);
    for (const Interpolation interpolation :
         {Interpolation::kNearest, Interpolation::kBilinear,
          Interpolation::kArea}) {
      Resize(picture, interpolation, size % 2 == 0, 5, 7, pixels.data());
    }
  }
  return 0;
}
