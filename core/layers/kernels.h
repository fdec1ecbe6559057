// Kernels: the loops beside the matrix products.
//
// Internal to core/. Each works on rows [rows.begin, rows.end) of row-major
// spans, so that threads share them by rows; naive.h has the plain twin of
// those that are more than one line of mathematics.

#ifndef RINGLET_CORE_LAYERS_KERNELS_H_
#define RINGLET_CORE_LAYERS_KERNELS_H_

#include <cstdint>

#include "../base/shape.h"
#include "../base/status.h"
#include "../base/thread_pool.h"
#include "layers.h"

namespace ringlet {

// y = activation(y + bias), in place, rows of `width`. `bias` may be null.
void BiasActivation(Activation activation, const float* bias, int64_t rows,
                    int64_t width, float* y);

// dy = dy * activation'(.), in place, from the activation's output y.
void ActivationGradient(Activation activation, const float* y, int64_t rows,
                        int64_t width, float* dy);

// x(i, j) = s(j, i) * activation'(.), from the activation's output x, which it
// replaces: x is `rows` rows of `width` floats, `stride` apart, and s its
// gradient, transposed and packed. Not for softmax.
void TransposedGradientOver(Activation activation, const float* s, int64_t rows,
                            int64_t width, int64_t stride, float* x);

// sums[j] += the sum over rows of m(., j).
void AddColumnSums(const float* m, int64_t rows, int64_t width, float* sums);

// to[i] += from[i].
void AddTo(const float* from, int64_t n, float* to);

// The place of a window over an image, one axis.
struct WindowAxis {
  int64_t input, output, window, stride, pad_before;
  // Fills output and pad_before from the rest. False where no window fits.
  bool Resolve(PaddingMode padding);
  // No window hangs over the border.
  bool inside() const {
    return pad_before == 0 && (output - 1) * stride + window <= input;
  }
};

struct Window2D {
  WindowAxis height, width;
  int64_t channels;
  int64_t positions() const { return height.output * width.output; }
  int64_t patch() const { return height.window * width.window * channels; }
};
// The layer's window, strides and padding on images of shape x (height, width,
// channels), or an error that says what does not fit. `what`: "kernel".
Status PlaceWindow(const Layer& layer, const Shape& x, const char* what,
                   Window2D* window);

// col(positions, patch): the pixels under the window at each position of one
// image (height, width, channels), 0 where it hangs over the border.
void ImageToColumns(const Window2D& window, const float* image, float* col);

// The transpose: image += each pixel's share of col. `image` is not zeroed.
void AddColumnsToImage(const Window2D& window, const float* col, float* image);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_KERNELS_H_
