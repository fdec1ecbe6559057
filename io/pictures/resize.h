// Other sizes of a picture, as tf.image.resize with antialias = False.

#ifndef RINGLET_IO_PICTURES_RESIZE_H_
#define RINGLET_IO_PICTURES_RESIZE_H_

#include <cstdint>

#include "picture.h"
#include "ringlet/dataset.h"

namespace ringlet {

// Writes the picture with `height` x `width` pixels, and its channels, to
// `out`. The centres of pixels are at halves. Each value is the exact one,
// rounded to the nearest whole number (halves up), so all machines compute the
// same.
//
// With `crop` first the largest middle part with the new picture's aspect ratio
// is cut out, as Keras's crop_to_aspect_ratio does.
void Resize(const Picture& picture, Interpolation interpolation, bool crop,
            int64_t height, int64_t width, unsigned char* out);

}  // namespace ringlet

#endif  // RINGLET_IO_PICTURES_RESIZE_H_
