// MaxPool: maxima of windows over an image that share no pixel.
//
// Internal to core/. A convolution whose output nobody else takes computes them
// image by image, while its output is in cache (Op::TakePool): then neither
// that nor its gradient is kept for the batch, only which pixel of each window
// is the first that holds the maximum.

#ifndef RINGLET_CORE_LAYERS_MAX_POOL_H_
#define RINGLET_CORE_LAYERS_MAX_POOL_H_

#include <cstdint>
#include <vector>

#include "../compute/pool_loops.h"
#include "window.h"

namespace ringlet {

class MaxPool {
 public:
  explicit MaxPool(const Window2D& window);

  // A pixel's number in its window is a byte.
  bool has_places() const {
    return window_.height.window * window_.width.window < kNoPlace;
  }
  int64_t output_floats() const {
    return window_.positions() * window_.channels;
  }

  // Of one image. With `places` also where each maximum stands, or that it is
  // none: NaN, or where `above_zero` it is not.
  void Forward(const float* x, bool above_zero, float* y,
               uint8_t* places) const;
  // The gradient of x, from what Forward has left.
  void Gradient(const float* x, const float* y, const float* dy,
                float* dx) const;
  void Gradient(const uint8_t* places, const float* dy, float* dx) const;

 private:
  // Windows of one size that follow each other in a row, where they begin in
  // the image and in the output.
  struct Run {
    PoolWindows windows;
    int64_t x, y;
  };

  void AddRow(int64_t row);
  void ZeroRest(float* dx) const;

  const Window2D window_;
  std::vector<Run> runs_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_MAX_POOL_H_
