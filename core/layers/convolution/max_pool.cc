#include "max_pool.h"

#include <algorithm>

namespace ringlet {
namespace {

// The part of a window that is on the image.
Range ClipToImage(const WindowAxis& axis, int64_t position) {
  const int64_t begin = axis.first(position);
  return {std::max<int64_t>(0, begin),
          std::min(axis.input, begin + axis.window)};
}

// True if each pixel is in a window.
bool CoversAllPixels(const WindowAxis& axis) {
  return axis.stride == axis.window && axis.output * axis.stride >= axis.input;
}

}  // namespace

MaxPool::MaxPool(const Window2D& window) : window_(window) {
  for (int64_t row = 0; row < window.height.output; ++row) AddRow(row);
}

void MaxPool::AddRow(int64_t row) {
  const int64_t pixel = window_.channels, width = window_.width.output;
  const Range rows = ClipToImage(window_.height, row);
  for (int64_t at = 0, next; at < width; at = next) {
    const Range cols = ClipToImage(window_.width, at);
    for (next = at + 1; next < width; ++next) {
      const Range other = ClipToImage(window_.width, next);
      const bool follows =
          other.begin - cols.begin == (next - at) * window_.width.stride;
      if (!follows || other.size() != cols.size()) break;
    }
    runs_.push_back({{next - at, window_.width.stride * pixel, rows.size(),
                      cols.size(), window_.row_floats(), pixel},
                     (rows.begin * window_.width.input + cols.begin) * pixel,
                     (row * width + at) * pixel});
  }
}

void MaxPool::Forward(const float* x, bool above_zero, float* y,
                      uint8_t* indices) const {
  const PoolLoops& loops = BestPoolLoops(window_.channels);
  for (const Run& run : runs_) {
    if (indices == nullptr) {
      loops.maxima(run.windows, x + run.x, y + run.y);
    } else {
      loops.indexed_maxima(run.windows, x + run.x, above_zero, y + run.y,
                           indices + run.y);
    }
  }
}

void MaxPool::ZeroRest(float* dx) const {
  if (CoversAllPixels(window_.height) && CoversAllPixels(window_.width)) return;
  std::fill_n(dx, window_.image_floats(), 0.0f);
}

void MaxPool::Gradient(const float* x, const float* y, const float* dy,
                       float* dx) const {
  ZeroRest(dx);
  const PoolLoops& loops = BestPoolLoops(window_.channels);
  for (const Run& run : runs_) {
    loops.gradient(run.windows, x + run.x, y + run.y, dy + run.y, dx + run.x);
  }
}

void MaxPool::Gradient(const uint8_t* indices, const float* dy,
                       float* dx) const {
  ZeroRest(dx);
  const PoolLoops& loops = BestPoolLoops(window_.channels);
  for (const Run& run : runs_) {
    loops.indexed_gradient(run.windows, indices + run.y, dy + run.y,
                           dx + run.x);
  }
}

}  // namespace ringlet
