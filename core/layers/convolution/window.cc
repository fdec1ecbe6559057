// Sizes are checked against kMaxLayerSize before any multiplication, so that no
// extent overflows. The numbers that an Op computes from them fit too.

#include "window.h"

#include <algorithm>

#include "../layer_table.h"

namespace ringlet {
namespace {

bool IsSize(int64_t n) { return n >= 1 && n <= kMaxLayerSize; }

// "(3, 2)", or "3" for a layer with one axis.
std::string PairText(int axes, const int64_t pair[2]) {
  const std::string last = std::to_string(pair[1]);
  return axes == 1 ? last : "(" + std::to_string(pair[0]) + ", " + last + ")";
}

// In a layer with one axis the first number must be 1, or the same as the
// second.
Status CheckPair(const Layer& layer, const char* subject,
                 const int64_t pair[2]) {
  if (ClassOf(layer).axes != 1 || pair[0] == 1 || pair[0] == pair[1]) {
    return Status();
  }
  return InvalidArgument("%s has one axis, not %s of %s", ClassName(layer),
                         subject, PairText(2, pair).c_str());
}

Status DoesNotFit(const Layer& layer, const Shape& x, const char* subject) {
  const int axes = ClassOf(layer).axes;
  const std::string dilation =
      layer.dilation[0] == 1 && layer.dilation[1] == 1
          ? ""
          : ", dilated by " + PairText(axes, layer.dilation) + ",";
  return InvalidArgument(
      "a %s of %s%s with strides %s does not fit an input "
      "of %s",
      subject, PairText(axes, layer.window).c_str(), dilation.c_str(),
      PairText(axes, layer.strides).c_str(), x.ToString().c_str());
}

// Checks the window's numbers, and reads x as an image.
Status CheckWindow(const Layer& layer, const Shape& x, const char* subject,
                   Shape* image) {
  RINGLET_RETURN_IF_ERROR(FindImage(layer, x, image));
  RINGLET_RETURN_IF_ERROR(CheckPair(layer, subject, layer.window));
  RINGLET_RETURN_IF_ERROR(CheckPair(layer, "strides", layer.strides));
  RINGLET_RETURN_IF_ERROR(CheckPair(layer, "a dilation", layer.dilation));
  if (layer.padding == kCausal && layer.kind != Layer::Kind::kConv1D) {
    return InvalidArgument("%s has no padding of \"causal\", which Conv1D has",
                           ClassName(layer));
  }
  return Status();
}

// In Keras a convolution may have strides or a dilation, not both.
Status CheckSpacing(const Layer& layer) {
  const bool strides = layer.strides[0] > 1 || layer.strides[1] > 1;
  const bool dilates = layer.dilation[0] > 1 || layer.dilation[1] > 1;
  if (!strides || !dilates) return Status();
  return InvalidArgument(
      "strides and dilation_rate cannot both be larger than 1, as in Keras");
}

}  // namespace

bool WindowAxis::Resolve(PaddingMode padding) {
  if (!IsSize(input) || !IsSize(window) || !IsSize(stride) ||
      !IsSize(dilation)) {
    return false;
  }
  pad_before = 0;
  if (padding == kSame) {
    output = (input + stride - 1) / stride;
    const int64_t pad =
        std::max<int64_t>((output - 1) * stride + extent() - input, 0);
    pad_before = pad / 2;
    return true;
  }
  if (padding == kCausal) pad_before = extent() - 1;
  if (extent() > input + pad_before) return false;
  output = (input + pad_before - extent()) / stride + 1;
  return true;
}

bool WindowAxis::ResolveTransposed(PaddingMode padding,
                                   int64_t output_padding) {
  if (!IsSize(output) || !IsSize(window) || !IsSize(stride) ||
      !IsSize(dilation)) {
    return false;
  }
  const int64_t positions = output, apart = (positions - 1) * stride;
  if (padding == kSame) {
    input = output_padding < 0 ? apart + stride
                               : apart + extent() % 2 + output_padding;
  } else {
    input = apart + (output_padding < 0 ? std::max(extent(), stride)
                                        : extent() + output_padding);
  }
  return Resolve(padding) && output == positions;
}

Status FindImage(const Layer& layer, const Shape& x, Shape* image) {
  const int axes = ClassOf(layer).axes;
  if (x.rank() != axes + 1) {
    return InvalidArgument(
        "%s needs an input of %s, not %s", ClassName(layer),
        axes == 1 ? "(steps, channels)" : "(height, width, channels)",
        x.ToString().c_str());
  }
  *image = axes == 1 ? Shape{1, x[0], x[1]} : x;
  return Status();
}

Shape ShapeOf(const Layer& layer, const Shape& image) {
  return ClassOf(layer).axes == 1 ? Shape{image[1], image[2]} : image;
}

Status PlaceWindow(const Layer& layer, const Shape& x, const char* subject,
                   Window2D* window) {
  Shape image;
  RINGLET_RETURN_IF_ERROR(CheckWindow(layer, x, subject, &image));
  const bool is_1d = ClassOf(layer).axes == 1;
  *window = {
      {image[0], 0, layer.window[0], layer.strides[0], 0, layer.dilation[0]},
      {image[1], 0, layer.window[1], layer.strides[1], 0, layer.dilation[1]},
      image[2]};
  if (is_1d) window->height = {1, 1, 1, 1, 0};
  if ((is_1d || window->height.Resolve(layer.padding)) &&
      window->width.Resolve(layer.padding)) {
    return Status();
  }
  return DoesNotFit(layer, x, subject);
}

Status PlaceConv(const Layer& layer, const Shape& x, Window2D* window) {
  RINGLET_RETURN_IF_ERROR(PlaceWindow(layer, x, "kernel", window));
  return CheckSpacing(layer);
}

Status PlaceTransposed(const Layer& layer, const Shape& x, Window2D* window) {
  Shape image;
  RINGLET_RETURN_IF_ERROR(CheckWindow(layer, x, "kernel", &image));
  RINGLET_RETURN_IF_ERROR(CheckSpacing(layer));
  WindowAxis axes[2] = {{1, 1, 1, 1, 0}, {1, 1, 1, 1, 0}};
  const int first = ClassOf(layer).axes == 1 ? 1 : 0;
  if ((layer.output_padding[first] < 0) != (layer.output_padding[1] < 0)) {
    return InvalidArgument(
        "an output_padding of %s is given for one axis; give it for both",
        PairText(2, layer.output_padding).c_str());
  }
  for (int i = first; i < 2; ++i) {
    const int64_t output_padding = layer.output_padding[i];
    if (output_padding < -1 || output_padding >= layer.strides[i]) {
      return InvalidArgument(
          "an output_padding of %s is not less than strides of %s, as Keras "
          "demands",
          PairText(ClassOf(layer).axes, layer.output_padding).c_str(),
          PairText(ClassOf(layer).axes, layer.strides).c_str());
    }
    axes[i] = {0, image[i],         layer.window[i], layer.strides[i],
               0, layer.dilation[i]};
    if (layer.padding == kSame && output_padding == 0 &&
        axes[i].extent() % 2 == 0) {
      return InvalidArgument(
          "output_padding of 0 needs a kernel of odd size if padding is "
          "\"same\"; give at least 1, or null");
    }
    if (!axes[i].ResolveTransposed(layer.padding, output_padding)) {
      return DoesNotFit(layer, x, "kernel");
    }
  }
  *window = {axes[0], axes[1], layer.units};
  return Status();
}

Shape KernelShape(const Layer& layer, const Window2D& window, int64_t in,
                  int64_t out) {
  if (ClassOf(layer).axes == 1) return {window.width.window, in, out};
  return {window.height.window, window.width.window, in, out};
}

}  // namespace ringlet
