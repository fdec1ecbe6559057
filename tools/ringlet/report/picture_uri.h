// PictureUri: a picture as a data: URI of a PNG.

#ifndef RINGLET_TOOLS_RINGLET_REPORT_PICTURE_URI_H_
#define RINGLET_TOOLS_RINGLET_REPORT_PICTURE_URI_H_

#include <string>

#include "io/pictures/picture.h"

namespace ringlet {

// A longer side is reduced to this many pixels.
constexpr int64_t kMostUriPixels = 128;

// The picture, reduced by a whole factor, as "data:image/png;base64,...". The
// PNG is not compressed: that needs no code for it.
std::string PictureUri(const Picture& picture);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_REPORT_PICTURE_URI_H_
