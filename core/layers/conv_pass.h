// ConvPass: a convolution as direct sums over windows of an image with a border
// of zeros: the one that goes forward, or one of those that make the gradient
// of its input.
//
// Internal to core/. The gradient of the input is a convolution too, of dY with
// the kernel turned round. Where windows are `stride` pixels apart, a pixel
// meets every stride-th tap only, and which of them depends on its place: there
// is a pass for each remainder of the division of places by stride.

#ifndef RINGLET_CORE_LAYERS_CONV_PASS_H_
#define RINGLET_CORE_LAYERS_CONV_PASS_H_

#include <cstdint>
#include <vector>

#include "../compute/direct_conv.h"
#include "window.h"

namespace ringlet {

// Of one axis of an image, the places [-before, size - before): those beyond
// the image are zeros.
struct ConvBorder {
  int64_t before = 0, size = 0, input = 0;
  bool inside() const { return before == 0 && size <= input; }
};

// The image, or a copy of it with its border, of so many floats a pixel.
struct ConvSource {
  ConvBorder height, width;
  int64_t channels;
  bool copied;
  // Of a copy, whether each of its rows is one of every channel; and there of
  // every `stride`-th pixel from the first one on, then from the second.
  bool planes = false;
  int64_t stride = 1;

  // Floats of a row of a channel's plane.
  int64_t plane_floats() const {
    return (width.size + stride - 1) / stride * stride;
  }
  int64_t row_floats() const {
    const int64_t pixels = planes   ? plane_floats()
                           : copied ? width.size
                                    : width.input;
    return pixels * channels;
  }
  // Where pixel x of a row stands, of the first channel.
  int64_t At(int64_t x) const {
    return planes ? x % stride * (plane_floats() / stride) + x / stride
                  : x * channels;
  }
  // From a channel to the next.
  int64_t channel_floats() const { return planes ? plane_floats() : 1; }
  int64_t copy_floats() const {
    return copied ? height.size * row_floats() : 0;
  }
  // The image, or where it is copied `copy`, which becomes that: each of its
  // channels `repeat` times, and then zeros.
  const float* Of(const float* image, int64_t image_channels, int64_t repeat,
                  float* copy) const;
  const float* Of(const float* image, float* copy) const {
    return planes ? Planes(image, copy) : Of(image, channels, 1, copy);
  }

 private:
  const float* Planes(const float* image, float* copy) const;
};

// Of one axis: output number i, at place to + i * to_step, is the sum over
// taps t of the source's place first + i * step + t * spacing of the copy times
// the kernel's tap `tap` + t * tap_step.
struct ConvAxis {
  int64_t first, step, count, taps, spacing;
  int64_t to, to_step;
  int64_t tap, tap_step;

  int64_t Tap(int64_t t) const { return tap + t * tap_step; }
};

// Rows of outputs that meet the same rows of the image: so many of them, whose
// sums leave out all taps but these, which are of the border.
struct ConvRows {
  int64_t begin, count;
  int64_t first_tap, taps;
};

struct ConvPass {
  ConvAxis height, width;
  std::vector<int64_t> offsets;  // of the taps, channels innermost
  std::vector<ConvRows> rows;    // all of them, in their order
  int64_t taps() const { return static_cast<int64_t>(offsets.size()); }

  // The windows over a copy of the source, or over the image itself.
  ConvWindows In(const ConvSource& source, const float* x) const;
};

struct ConvPlan {
  ConvSource source;
  std::vector<ConvPass> passes;
  // Some outputs belong to no pass, and are 0.
  bool leaves_gaps = false;
};

// kInvalidArgument where a plan whose sources have so many floats a pixel, and
// take so many, has too many taps for a table, or its copies for any memory.
Status CheckConv(const Window2D& window, int64_t channels, int64_t taken);

// Forward, and the gradient of the input. A source has `channels` floats a
// pixel, of which an output's sum takes so many that follow each other; it is
// `copied` where it has a border, or must be: as in planes.
ConvPlan PlanForward(const Window2D& window, int64_t channels, int64_t taken,
                     bool copied = false, bool planes = false);
ConvPlan PlanInputGradient(const Window2D& window, int64_t channels,
                           int64_t taken, bool copied = false,
                           bool planes = false);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_CONV_PASS_H_
