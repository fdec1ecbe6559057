// MaxPool: maxima of windows over an image that have no pixel in common.
//
// If no other layer reads a convolution's output, the convolution computes the
// maxima image by image, while that output is in the cache (Op::FusePool). Then
// only the index of the first maximum of each window is kept for the batch, and
// not the output or its gradient.

#ifndef RINGLET_CORE_LAYERS_CONVOLUTION_MAX_POOL_H_
#define RINGLET_CORE_LAYERS_CONVOLUTION_MAX_POOL_H_

#include <cstdint>
#include <vector>

#include "../../compute/pool_loops.h"
#include "window.h"

namespace ringlet {

class MaxPool {
 public:
  explicit MaxPool(const Window2D& window);

  // True if a pixel's index in its window fits a byte.
  bool has_indices() const {
    return window_.height.window * window_.width.window < kNoIndex;
  }
  int64_t output_floats() const {
    return window_.positions() * window_.channels;
  }

  // Computes the maxima of one image. `indices`, if not null, gets the index of
  // each maximum, or a mark for none: NaN, or, with `above_zero`, a maximum not
  // above 0.
  void Forward(const float* x, bool above_zero, float* y,
               uint8_t* indices) const;
  // Computes the gradient of x from the results of Forward.
  void Gradient(const float* x, const float* y, const float* dy,
                float* dx) const;
  void Gradient(const uint8_t* indices, const float* dy, float* dx) const;

 private:
  // Consecutive windows of one size in a row, and their offsets in image and
  // output.
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

#endif  // RINGLET_CORE_LAYERS_CONVOLUTION_MAX_POOL_H_
