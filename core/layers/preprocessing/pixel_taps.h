// Values between the pixels of an image, for the layers that change its
// geometry.

#ifndef RINGLET_CORE_LAYERS_PREPROCESSING_PIXEL_TAPS_H_
#define RINGLET_CORE_LAYERS_PREPROCESSING_PIXEL_TAPS_H_

#include <cstdint>

#include "ringlet/shape.h"

namespace ringlet {

// A position along one axis: `weight` of the pixel `second`, and the rest of
// the pixel `first`. Either is -1 outside of the image.
struct Tap {
  int64_t first, second;
  float weight;
};

// Reads the pixels of images of one shape. A pixel outside of the image has the
// fill value.
class PixelReader {
 public:
  PixelReader(const Shape& image, float fill_value)
      : width_(image[1]), channels_(image[2]), fill_value_(fill_value) {}

  // Writes the pixel at this place of x to y.
  void Read(const float* x, const Tap& row, const Tap& column, float* y) const {
    const Pixel a = At(x, row.first, column.first);
    if (row.weight == 0 && column.weight == 0) {
      for (int64_t k = 0; k < channels_; ++k) y[k] = a[k];
      return;
    }
    const Pixel b = At(x, row.first, column.second);
    const Pixel c = At(x, row.second, column.first);
    const Pixel d = At(x, row.second, column.second);
    for (int64_t k = 0; k < channels_; ++k) {
      const float upper = a[k] + (b[k] - a[k]) * column.weight;
      const float lower = c[k] + (d[k] - c[k]) * column.weight;
      y[k] = upper + (lower - upper) * row.weight;
    }
  }
  // Adds the gradient of that pixel to dx.
  void AddGradient(const float* dy, const Tap& row, const Tap& column,
                   float* dx) const {
    const float down = row.weight, right = column.weight;
    AddTo(dy, (1 - down) * (1 - right), row.first, column.first, dx);
    AddTo(dy, (1 - down) * right, row.first, column.second, dx);
    AddTo(dy, down * (1 - right), row.second, column.first, dx);
    AddTo(dy, down * right, row.second, column.second, dx);
  }

 private:
  // The channels of a pixel. All channels have the same fill value.
  struct Pixel {
    const float* channels;
    int64_t step;
    float operator[](int64_t k) const { return channels[k * step]; }
  };
  Pixel At(const float* x, int64_t row, int64_t column) const {
    if (row < 0 || column < 0) return {&fill_value_, 0};
    return {x + (row * width_ + column) * channels_, 1};
  }
  void AddTo(const float* dy, float weight, int64_t row, int64_t column,
             float* dx) const {
    if (weight == 0 || row < 0 || column < 0) return;
    float* const to = dx + (row * width_ + column) * channels_;
    for (int64_t k = 0; k < channels_; ++k) to[k] += weight * dy[k];
  }

  const int64_t width_, channels_;
  const float fill_value_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_PREPROCESSING_PIXEL_TAPS_H_
