// Window2D: the positions of a window over an image, for all layers with
// windows.
//
// A layer with one axis (LayerClass::axes) treats (steps, channels) as an image
// of height 1, so one Op serves both.

#ifndef RINGLET_CORE_LAYERS_CONVOLUTION_WINDOW_H_
#define RINGLET_CORE_LAYERS_CONVOLUTION_WINDOW_H_

#include <cstdint>

#include "ringlet/compute.h"
#include "ringlet/layers.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// The positions of a window on one axis of an image.
struct WindowAxis {
  int64_t input, output, window, stride, pad_before;
  int64_t dilation = 1;  // the distance from one tap to the next
  // Computes `output` and `pad_before` from the other members. False if no
  // window fits.
  bool Resolve(PaddingMode padding);
  // Computes `input` and `pad_before` from the other members, for a transposed
  // convolution from `output` to `input`, which adds `output_padding` pixels
  // (-1 means as Keras chooses). False if no window fits.
  bool ResolveTransposed(PaddingMode padding, int64_t output_padding);
  // Pixels from the window's first to its last, inclusive.
  int64_t extent() const { return (window - 1) * dilation + 1; }
  // No window reaches beyond the border.
  bool inside() const {
    return pad_before == 0 && (output - 1) * stride + extent() <= input;
  }
  // The first pixel under the window at `position`, which may be negative.
  int64_t first(int64_t position) const {
    return position * stride - pad_before;
  }
};

struct Window2D {
  WindowAxis height, width;
  int64_t channels;
  int64_t positions() const { return height.output * width.output; }
  int64_t patch() const { return height.window * width.window * channels; }
  int64_t row_floats() const { return width.input * channels; }
  int64_t image_floats() const { return height.input * row_floats(); }
};

// Finds the image (height, width, channels) that the layer reads x as, or
// returns an error that names what it needs.
Status FindImage(const Layer& layer, const Shape& x, Shape* image);
// The shape that such an image has as an input or output of the layer.
Shape ShapeOf(const Layer& layer, const Shape& image);

// Sets *window to the layer's window, strides, dilation and padding on images
// of shape x, or returns an error that names what does not fit. `subject` names
// the window in the error, such as "kernel".
Status PlaceWindow(const Layer& layer, const Shape& x, const char* subject,
                   Window2D* window);

// As PlaceWindow, for the kernel of a convolution. As in Keras it may have
// strides or dilation, not both.
Status PlaceConv(const Layer& layer, const Shape& x, Window2D* window);
// As PlaceConv, for a transposed convolution: x has the shape of the window's
// output, and the window's channels are the layer's filters.
Status PlaceTransposed(const Layer& layer, const Shape& x, Window2D* window);
// (height, width, in, out), or (steps, in, out) for a layer with one axis.
Shape KernelShape(const Layer& layer, const Window2D& window, int64_t in,
                  int64_t out);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_CONVOLUTION_WINDOW_H_
