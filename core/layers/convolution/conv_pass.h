// ConvPass: a convolution as direct sums over windows of a zero-padded image. A
// forward pass is one ConvPass; the gradient of the input has one or more.
//
// The gradient of the input is a convolution of dY with the flipped kernel. If
// windows are `stride` pixels apart, a pixel meets only each stride-th tap, and
// its position decides which. So there is a pass for each remainder of
// positions by stride.

#ifndef RINGLET_CORE_LAYERS_CONVOLUTION_CONV_PASS_H_
#define RINGLET_CORE_LAYERS_CONVOLUTION_CONV_PASS_H_

#include <cstdint>
#include <vector>

#include "../../compute/direct_conv.h"
#include "window.h"

namespace ringlet {

// The positions [-before, size - before) of one axis of an image. Positions
// outside the image are zeros.
struct ConvBorder {
  int64_t before = 0, size = 0, input = 0;
  bool inside() const { return before == 0 && size <= input; }
};

// An image with `channels` floats for each pixel, or a copy of it with its
// border.
struct ConvSource {
  ConvBorder height, width;
  int64_t channels;
  bool copied;
  // If true, a row of the copy has the rows of all channels, one after another.
  // A channel's row has every `stride`-th pixel from the first pixel on, then
  // every `stride`-th pixel from the second on, and so on.
  bool planes = false;
  int64_t stride = 1;

  // Floats in a row of a channel's plane.
  int64_t plane_floats() const {
    return (width.size + stride - 1) / stride * stride;
  }
  int64_t row_floats() const {
    const int64_t pixels = planes   ? plane_floats()
                           : copied ? width.size
                                    : width.input;
    return pixels * channels;
  }
  // The offset of pixel x in a row, for the first channel.
  int64_t At(int64_t x) const {
    return planes ? x % stride * (plane_floats() / stride) + x / stride
                  : x * channels;
  }
  // The distance from a channel to the next.
  int64_t channel_floats() const { return planes ? plane_floats() : 1; }
  int64_t copy_floats() const {
    return copied ? height.size * row_floats() : 0;
  }
  // Returns the image, or fills and returns `copy` if the source is copied. The
  // copy has each channel `repeat` times, and then zeros.
  const float* ImageOrCopy(const float* image, int64_t image_channels,
                           int64_t repeat, float* copy) const;
  const float* ImageOrCopy(const float* image, float* copy) const {
    return planes ? Planes(image, copy) : ImageOrCopy(image, channels, 1, copy);
  }

 private:
  const float* Planes(const float* image, float* copy) const;
};

// One axis. Output i is at position to + i * to_step. It is the sum over taps t
// of products of
//   the copy at position first + i * step + t * spacing
//   the kernel at position `tap` + t * tap_step
struct ConvAxis {
  int64_t first, step, count, taps, spacing;
  int64_t to, to_step;
  int64_t tap, tap_step;

  int64_t Tap(int64_t t) const { return tap + t * tap_step; }
};

// Consecutive rows of outputs. Their windows have the same taps inside the
// image; taps on the zero border are skipped.
struct ConvRows {
  int64_t begin, count;
  int64_t first_tap, taps;
};

struct ConvPass {
  ConvAxis height, width;
  std::vector<int64_t> offsets;  // the taps' offsets, channels innermost
  std::vector<ConvRows> rows;    // all rows, in order
  int64_t taps() const { return static_cast<int64_t>(offsets.size()); }

  // The windows over the image `x`, or over its copy.
  ConvWindows Windows(const ConvSource& source, const float* x) const;
};

struct ConvPlan {
  ConvSource source;
  std::vector<ConvPass> passes;
  // Some outputs belong to no pass, and are 0.
  bool leaves_gaps = false;
};

// kInvalidArgument if a plan has too many taps for a table, or its copies need
// more memory than can exist. Its sources have `channels` floats for each
// pixel, of which `channels_per_group` are used.
Status CheckConv(const Window2D& window, int64_t channels,
                 int64_t channels_per_group);

// The plans of the forward pass and of the input's gradient. A source has
// `channels` floats for each pixel. An output's sum uses `channels_per_group`
// consecutive ones. The source is copied if it has a border, or if `copied` or
// `planes` demand it.
ConvPlan PlanForward(const Window2D& window, int64_t channels,
                     int64_t channels_per_group, bool copied = false,
                     bool planes = false);
ConvPlan PlanInputGradient(const Window2D& window, int64_t channels,
                           int64_t channels_per_group, bool copied = false,
                           bool planes = false);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_CONVOLUTION_CONV_PASS_H_
