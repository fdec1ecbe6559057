// Window2D: where a window lies over an image, for every layer that has one.
//
// Internal to core/. A layer of one axis (LayerClass::axes) works on (steps,
// channels) as on an image of height 1, so one Op serves both.

#ifndef RINGLET_CORE_LAYERS_WINDOW_H_
#define RINGLET_CORE_LAYERS_WINDOW_H_

#include <cstdint>

#include "../base/shape.h"
#include "../base/status.h"
#include "../base/thread_pool.h"
#include "layers.h"

namespace ringlet {

// The place of a window over an image, one axis.
struct WindowAxis {
  int64_t input, output, window, stride, pad_before;
  int64_t dilation = 1;  // from one tap to the next
  // Fills output and pad_before from the rest. False where no window fits.
  bool Resolve(PaddingMode padding);
  // From the window's first pixel to behind its last.
  int64_t extent() const { return (window - 1) * dilation + 1; }
  // No window hangs over the border.
  bool inside() const {
    return pad_before == 0 && (output - 1) * stride + extent() <= input;
  }
  // The first pixel under the window at `position`, which may be negative.
  int64_t first(int64_t position) const {
    return position * stride - pad_before;
  }
  // The positions at which this tap of the window lies on the image.
  Range PositionsOf(int64_t tap) const;
};

struct Window2D {
  WindowAxis height, width;
  int64_t channels;
  int64_t positions() const { return height.output * width.output; }
  int64_t patch() const { return height.window * width.window * channels; }
  int64_t row_floats() const { return width.input * channels; }
  int64_t image_floats() const { return height.input * row_floats(); }
};

// The image that the layer takes x for, (height, width, channels), or an error
// that says what it needs.
Status ImageOf(const Layer& layer, const Shape& x, Shape* image);
// The shape of such an image among the layer's inputs and outputs.
Shape ShapeOf(const Layer& layer, const Shape& image);

// The layer's window, strides, dilation and padding on images of shape x, or an
// error that says what does not fit. `what`: "kernel".
Status PlaceWindow(const Layer& layer, const Shape& x, const char* what,
                   Window2D* window);

// The same of a convolution, which Keras has stride or dilate, not both.
Status PlaceConv(const Layer& layer, const Shape& x, Window2D* window);
// (height, width, in, out), or (steps, in, out) of a layer of one axis.
Shape KernelShape(const Layer& layer, const Window2D& window, int64_t in,
                  int64_t out);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_WINDOW_H_
