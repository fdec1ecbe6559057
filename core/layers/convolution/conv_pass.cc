// The plans of a convolution and of the gradient of its input, from shapes
// alone. `offsets` is relative to a window's first pixel and in the order of
// the kernel's taps, so the loops of core/compute add the taps in one order
// for all plans. CheckConv bounds the sizes, so sums of offsets do not
// overflow.

#include "conv_pass.h"

#include <algorithm>

namespace ringlet {
namespace {

void SetOffsets(const ConvSource& source, int64_t channels, ConvPass* pass) {
  const ConvAxis &y = pass->height, &x = pass->width;
  for (int64_t ky = 0; ky < y.taps; ++ky) {
    for (int64_t kx = 0; kx < x.taps; ++kx) {
      const int64_t at =
          ky * y.spacing * source.row_floats() + source.At(kx * x.spacing);
      for (int64_t c = 0; c < channels; ++c) {
        pass->offsets.push_back(at + c * source.channel_floats());
      }
    }
  }
}

// The taps of row `i` that are on the image's rows.
ConvRows RowsFrom(const ConvBorder& border, const ConvPass& pass, int64_t i) {
  const ConvAxis& y = pass.height;
  const int64_t place = y.first + i * y.step - border.before;
  int64_t begin = 0, end = y.taps;
  while (begin < end && place + begin * y.spacing < 0) ++begin;
  while (begin < end && place + (end - 1) * y.spacing >= border.input) --end;
  const int64_t row = pass.taps() / y.taps;
  return {i, 1, begin * row, (end - begin) * row};
}

void SetRows(const ConvBorder& border, ConvPass* pass) {
  for (int64_t i = 0; i < pass->height.count; ++i) {
    const ConvRows rows = RowsFrom(border, *pass, i);
    if (i > 0 && rows.first_tap == pass->rows.back().first_tap &&
        rows.taps == pass->rows.back().taps) {
      ++pass->rows.back().count;
    } else {
      pass->rows.push_back(rows);
    }
  }
}

ConvAxis ForwardAxis(const WindowAxis& axis) {
  return {0, axis.stride, axis.output, axis.window, axis.dilation, 0, 1, 0, 1};
}

ConvBorder ForwardBorder(const WindowAxis& axis) {
  return {axis.pad_before, (axis.output - 1) * axis.stride + axis.extent(),
          axis.input};
}

// Returns the passes of one axis. Pixel i is under tap k at position p if i +
// pad_before = p * stride + k * dilation. Each axis has a `first` relative to
// dY's first position, until the border is known.
std::vector<ConvAxis> BackwardAxes(const WindowAxis& axis, ConvBorder* border,
                                   bool* leaves_gaps) {
  std::vector<ConvAxis> axes;
  const int64_t spacing = axis.stride == 1 ? axis.dilation : 1;
  int64_t lowest = 0, end = 0;
  // Strides may be far larger than the image, or than the window.
  for (int64_t to = 0; to < std::min(axis.stride, axis.input); ++to) {
    const int64_t rest = (to + axis.pad_before) % axis.stride;
    const int64_t taps = axis.stride == 1 ? axis.window
                         : rest < axis.window
                             ? (axis.window - rest - 1) / axis.stride + 1
                             : 0;
    if (taps == 0) {
      *leaves_gaps = true;
      to += axis.stride - 1 - rest;
      continue;
    }
    const int64_t count = (axis.input - to - 1) / axis.stride + 1;
    const int64_t first =
        (to + axis.pad_before - rest) / axis.stride - (taps - 1) * spacing;
    axes.push_back({first, 1, count, taps, spacing, to, axis.stride,
                    rest + axis.stride * (taps - 1), -axis.stride});
    lowest = std::min(lowest, first);
    end = std::max(end, first + count - 1 + (taps - 1) * spacing + 1);
  }
  for (ConvAxis& a : axes) a.first -= lowest;
  *border = {-lowest, end - lowest, axis.output};
  return axes;
}

}  // namespace

const float* ConvSource::ImageOrCopy(const float* image, int64_t image_channels,
                                     int64_t repeat, float* copy) const {
  if (!copied) return image;
  const int64_t row = row_floats();
  const int64_t pixels = std::min(width.input, width.size - width.before);
  for (int64_t y = 0; y < height.size; ++y) {
    float* const begin = copy + y * row;
    float* const end = begin + row;
    float* to = begin;
    const int64_t iy = y - height.before;
    if (iy >= 0 && iy < height.input) {
      const float* from = image + iy * width.input * image_channels;
      to = std::fill_n(to, width.before * channels, 0.0f);
      if (image_channels == channels) {
        to = std::copy_n(from, pixels * channels, to);
      } else {
        for (int64_t x = 0; x < pixels; ++x, from += image_channels) {
          for (int64_t c = 0; c < image_channels * repeat; ++c) {
            to[c] = from[c / repeat];
          }
          std::fill(to + image_channels * repeat, to + channels, 0.0f);
          to += channels;
        }
      }
    }
    std::fill(to, end, 0.0f);
  }
  return copy;
}

const float* ConvSource::Planes(const float* image, float* copy) const {
  const int64_t pixels = std::min(width.input, width.size - width.before);
  // Sums leave out the rows of the border.
  const int64_t rows = std::min(height.input, height.size - height.before);
  for (int64_t y = 0; y < rows; ++y, image += width.input * channels) {
    float* to = copy + (height.before + y) * row_floats();
    std::fill_n(to, row_floats(), 0.0f);
    for (int64_t c = 0; c < channels; ++c, to += plane_floats()) {
      for (int64_t first = 0; first < std::min(stride, pixels); ++first) {
        float* next = to + At(width.before + first);
        for (int64_t x = first; x < pixels; x += stride) {
          *next++ = image[x * channels + c];
        }
      }
    }
  }
  return copy;
}

ConvWindows ConvPass::Windows(const ConvSource& source, const float* x) const {
  const int64_t row = source.row_floats();
  return {x + height.first * row + source.At(width.first),
          height.step * row,
          source.planes ? 1 : width.step * source.channels,
          height.count,
          width.count,
          offsets.data(),
          taps(),
          0};
}

Status CheckConv(const Window2D& window, int64_t channels,
                 int64_t channels_per_group) {
  constexpr int64_t kMaxFloats = int64_t{1} << 40, kMaxTaps = 1 << 22;
  const int64_t taps = window.height.window * window.width.window;
  const int64_t height = window.height.input + window.height.extent();
  const int64_t width = window.width.input + window.width.extent();
  if (taps <= kMaxTaps / channels_per_group &&
      height <= kMaxFloats / channels / width) {
    return Status();
  }
  return InvalidArgument(
      "%lld taps at %lld positions are too many: the taps of all channels may "
      "be at most 2^22, and the elements of an input 2^40",
      static_cast<long long>(taps), static_cast<long long>(window.positions()));
}

ConvPlan PlanForward(const Window2D& window, int64_t channels,
                     int64_t channels_per_group, bool copied, bool planes) {
  ConvPlan plan;
  ConvSource& source = plan.source;
  source = {ForwardBorder(window.height),
            ForwardBorder(window.width),
            channels,
            copied || planes,
            planes,
            window.width.stride};
  source.copied |= !source.height.inside() || !source.width.inside();
  plan.passes.push_back(
      {ForwardAxis(window.height), ForwardAxis(window.width), {}, {}});
  SetOffsets(source, channels_per_group, &plan.passes[0]);
  SetRows(source.height, &plan.passes[0]);
  return plan;
}

ConvPlan PlanInputGradient(const Window2D& window, int64_t channels,
                           int64_t channels_per_group, bool copied,
                           bool planes) {
  ConvPlan plan;
  ConvSource& source = plan.source;
  source.channels = channels;
  source.planes = planes;
  copied |= planes;
  const std::vector<ConvAxis> heights =
      BackwardAxes(window.height, &source.height, &plan.leaves_gaps);
  const std::vector<ConvAxis> widths =
      BackwardAxes(window.width, &source.width, &plan.leaves_gaps);
  source.copied = copied || !source.height.inside() || !source.width.inside();
  for (const ConvAxis& y : heights) {
    for (const ConvAxis& x : widths) {
      plan.passes.push_back({y, x, {}, {}});
      SetOffsets(source, channels_per_group, &plan.passes.back());
      SetRows(source.height, &plan.passes.back());
    }
  }
  return plan;
}

}  // namespace ringlet
