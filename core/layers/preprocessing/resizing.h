// ImageBox: the part of an image that a Resizing, CenterCrop or RandomCrop
// resizes to its output.

#ifndef RINGLET_CORE_LAYERS_PREPROCESSING_RESIZING_H_
#define RINGLET_CORE_LAYERS_PREPROCESSING_RESIZING_H_

#include <cstdint>

#include "pixel_taps.h"
#include "ringlet/layers.h"
#include "ringlet/shape.h"

namespace ringlet {

// If the box is larger than the image, `top` or `left` is negative. The rest of
// the box is a border.
struct ImageBox {
  int64_t top, left, height, width;
};

// The box of the layer for images of this shape, without training. If it has
// the output's size, the output is the box itself.
ImageBox BoxOf(const Layer& layer, const Shape& image);

// The pixel that output pixel `at` of `outputs` shows of `count` pixels of an
// image, from `begin` on. The image has `size` pixels.
Tap MakeTap(int64_t at, int64_t outputs, int64_t begin, int64_t count,
            int64_t size, Interpolation interpolation);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_PREPROCESSING_RESIZING_H_
