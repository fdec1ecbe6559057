// The converters of primitives with weights: products and normalizations.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "onnx_converter.h"

namespace ringlet {

// --- weights -----------------------------------------------------------------

// A shared layer's weight is added once, unless it is needed in a different
// order.
int OnnxConverter::Weight(const Variable* v, const OnnxInts& dims,
                          const OnnxGraph::StridedLayout& order) {
  for (const AddedWeight& added : weights_) {
    if (added.variable == v && added.dims == dims.count &&
        std::memcmp(&added.order, &order, sizeof(order)) == 0) {
      return added.tensor;
    }
  }
  const int tensor =
      graph_->AddWeight(v->path, dims, floats_ + v->offset, order);
  weights_.push_back({v, 0, dims.count, order, tensor});
  return tensor;
}

int OnnxConverter::Weight(const Variable* weight, const OnnxInts& dims) {
  int64_t all = 1;
  for (const int64_t n : dims) all *= n;
  return Weight(weight, dims, {{1, 1, all}, {0, 0, 1}});
}

int OnnxConverter::WeightOr(const Variable* weight, int64_t channels,
                            float default_value) {
  if (weight != nullptr) return Weight(weight, {channels});
  const OnnxGraph::StridedLayout order = {{1, 1, channels}, {0, 0, 1}};
  for (const AddedWeight& added : weights_) {
    if (added.variable == nullptr && added.number == default_value &&
        added.order.count[2] == channels) {
      return added.tensor;
    }
  }
  const std::vector<float> values(static_cast<size_t>(channels), default_value);
  const int tensor =
      graph_->AddFloats("numbers", {channels}, values.data(), channels);
  weights_.push_back({nullptr, default_value, 1, order, tensor});
  return tensor;
}

// Adds a kernel: (spatial, in, out) in Keras, (out, in, spatial) in ONNX.
int OnnxConverter::Kernel(const OnnxInts& spatial, int64_t in, int64_t out) {
  OnnxInts dims = {out, in};
  int64_t taps = 1;
  for (const int64_t n : spatial) {
    dims.Add(n);
    taps *= n;
  }
  return Weight(p_->kernel, dims, {{out, in, taps}, {1, out, in * out}});
}

// From (spatial, channels, multiplier) in Keras to (channels * multiplier, 1,
// spatial) in ONNX.
int OnnxConverter::DepthwiseKernel() {
  const OnnxInts window = AxisInts(p_->window.size);
  const int64_t channels = p_->groups,
                multiplier = p_->output.back() / channels;
  OnnxInts dims = {channels * multiplier, 1};
  int64_t taps = 1;
  for (const int64_t n : window) {
    dims.Add(n);
    taps *= n;
  }
  return Weight(
      p_->kernel, dims,
      {{channels, multiplier, taps}, {multiplier, 1, channels * multiplier}});
}

// --- products ----------------------------------------------------------------

OnnxInts OnnxConverter::Pads() const {
  OnnxInts pads = AxisInts(p_->window.before);
  for (const int64_t n : AxisInts(p_->window.after)) pads.Add(n);
  return pads;
}

// Adds a convolution with a kernel of one pixel.
int OnnxConverter::ConvolvePixels(int x, int axes, int64_t in) {
  OnnxInts point;
  for (int i = 0; i < axes; ++i) point.Add(1);
  const int kernel = Kernel(point, in, p_->output.back());
  return builder_.Node("Conv", {x, kernel, Bias()}, {{"kernel_shape", point}});
}

OnnxValue OnnxConverter::Conv() {
  const Primitive::Window& w = p_->window;
  const OnnxInts size = AxisInts(w.size);
  const int image = builder_.First(&x());
  const int kernel = p_->depthwise ? DepthwiseKernel()
                                   : Kernel(size, x().shape.back() / p_->groups,
                                            p_->output.back());
  const int bias = Bias();
  return Activated(AxisOrder::kChannelsFirst,
                   builder_.Node("Conv", {image, kernel, bias},
                                 {{"kernel_shape", size},
                                  {"strides", AxisInts(w.strides)},
                                  {"dilations", AxisInts(w.dilation)},
                                  {"pads", Pads()},
                                  {"group", p_->groups}}));
}

// The kernel has the input's channels last.
OnnxValue OnnxConverter::ConvTranspose() {
  const Primitive::Window& w = p_->window;
  const OnnxInts size = AxisInts(w.size);
  OnnxInts pads = AxisInts(w.before), more;
  for (const int64_t n : AxisInts(w.after)) {
    pads.Add(std::max<int64_t>(n, 0));
    more.Add(std::max<int64_t>(-n, 0));
  }
  const int image = builder_.First(&x());
  const int kernel = Kernel(size, p_->output.back(), x().shape.back());
  return Activated(AxisOrder::kChannelsFirst,
                   builder_.Node("ConvTranspose", {image, kernel, Bias()},
                                 {{"kernel_shape", size},
                                  {"strides", AxisInts(w.strides)},
                                  {"dilations", AxisInts(w.dilation)},
                                  {"pads", pads},
                                  {"output_padding", more}}));
}

OnnxValue OnnxConverter::MatMul() {
  OnnxValue& x = this->x();
  if (p_->kernel == nullptr) {
    const int a = builder_.Last(&x), b = builder_.Last(&this->x(1));
    return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsLast,
                                  builder_.Node("MatMul", {a, b}));
  }
  const int64_t in = x.shape.back(), units = p_->output.back();
  const int rank = x.shape.rank();
  if (rank == 3 || (rank == 2 && x.first >= 0)) {
    return Activated(AxisOrder::kChannelsFirst,
                     ConvolvePixels(builder_.First(&x), rank - 1, in));
  }
  int kernel, flat;
  if (rank == 1 && x.last < 0) {  // flattened from channels first
    const int64_t channels = x.flattened;
    flat = x.first;
    kernel = Weight(
        p_->kernel, {in, units},
        {{channels, in / channels, units}, {units, channels * units, 1}});
  } else {
    flat = builder_.Last(&x);
    kernel = Weight(p_->kernel, {in, units});
  }
  const int bias = Bias();
  int y = builder_.Node("MatMul", {flat, kernel});
  if (bias >= 0) y = builder_.Node("Add", {y, bias});
  return Activated(AxisOrder::kChannelsLast, y);
}

// With one slope for each channel the image may be in either order of axes;
// otherwise the channels come last.
OnnxValue OnnxConverter::PRelu() {
  const int rank = p_->output.rank();
  const Shape& slopes = p_->slopes->shape;
  const bool per_channel =
      rank > 1 && x().first >= 0 && slopes.elements() == slopes.back();
  const AxisOrder order =
      per_channel ? AxisOrder::kChannelsFirst : AxisOrder::kChannelsLast;
  OnnxInts dims;
  if (per_channel) dims.Add(slopes.back());
  for (int i = 0; i < rank; ++i) {
    if (!per_channel || i > 0) dims.Add(per_channel ? 1 : slopes[i]);
  }
  const int image = builder_.Get(&x(), order);
  const OnnxGraph::StridedLayout transposed = {{slopes.back(), 1, 1},
                                               {1, 0, 0}};
  const int slope = per_channel ? Weight(p_->slopes, dims, transposed)
                                : Weight(p_->slopes, dims);
  return OnnxBuilder::MakeValue(p_->output, order,
                                builder_.Node("PRelu", {image, slope}));
}

// --- normalizations ----------------------------------------------------------

// The operator needs channels second. Rows that are not transposed keep their
// order.
OnnxValue OnnxConverter::BatchNormalize() {
  const int rank = p_->output.rank();
  const int64_t channels = p_->output.back();
  if (rank != 1 && rank != 3 && x().first < 0) return NormalizedRows();
  const AxisOrder order =
      rank > 1 ? AxisOrder::kChannelsFirst : AxisOrder::kChannelsLast;
  const int image = builder_.Get(&x(), order),
            gamma = WeightOr(p_->gamma, channels, 1),
            beta = WeightOr(p_->beta, channels, 0),
            mean = Weight(p_->mean, {channels}),
            variance = Weight(p_->variance, {channels});
  return OnnxBuilder::MakeValue(
      p_->output, order,
      builder_.Node("BatchNormalization", {image, gamma, beta, mean, variance},
                    {{"epsilon", p_->epsilon}}));
}

// (x - mean) * scale + beta, as the layer computes it.
OnnxValue OnnxConverter::NormalizedRows() {
  const int64_t channels = p_->output.back();
  const std::vector<float> scale = MakeAffine(*p_, floats_).scale;
  const int mean = Weight(p_->mean, {channels});
  const int scales =
      builder_.ChannelConstant(scale, x(), AxisOrder::kChannelsLast);
  int y = builder_.Node("Sub", {builder_.Last(&x()), mean});
  y = builder_.Node("Mul", {y, scales});
  if (p_->beta != nullptr) {
    y = builder_.Node("Add", {y, Weight(p_->beta, {channels})});
  }
  return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsLast, y);
}

int OnnxConverter::Mean(int tensor, const OnnxInts& axes) {
  return builder_.Node("ReduceMean", {tensor},
                       {{"axes", axes}, {"keepdims", 1}});
}

// Opset 17 has an operator for this, and opset 18 one for groups.
int OnnxConverter::Standardized(int x, const OnnxInts& axes) {
  const int centered = builder_.Node("Sub", {x, Mean(x, axes)});
  const int squares = builder_.Node("Mul", {centered, centered});
  const int epsilon = builder_.Scalar(p_->epsilon);
  const int variance = builder_.Node("Add", {Mean(squares, axes), epsilon});
  return builder_.Node("Div", {centered, builder_.Node("Sqrt", {variance})});
}

// y gamma + beta, each in the shape `dims`.
int OnnxConverter::ScaledAndShifted(int y, const OnnxInts& dims) {
  if (p_->gamma != nullptr) {
    y = builder_.Node("Mul", {y, Weight(p_->gamma, dims)});
  }
  if (p_->beta != nullptr) {
    y = builder_.Node("Add", {y, Weight(p_->beta, dims)});
  }
  return y;
}

OnnxValue OnnxConverter::Normalize() {
  OnnxInts axes, dims;
  for (int i = p_->num_axes; i > 0; --i) {
    axes.Add(-i);
    dims.Add(p_->output[p_->output.rank() - i]);
  }
  const int y = Standardized(builder_.Last(&x()), axes);
  return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsLast,
                                ScaledAndShifted(y, dims));
}

// In either order of axes: the numbers of a group are one axis with channels
// first, and two with channels last.
OnnxValue OnnxConverter::GroupNormalize() {
  const Shape& shape = p_->output;
  const int rank = shape.rank();
  const int64_t channels = shape.back(), groups = p_->groups,
                rows = shape.elements() / channels;
  const AxisOrder order = rank > 1 ? x().order() : AxisOrder::kChannelsLast;
  const bool first = order == AxisOrder::kChannelsFirst;
  OnnxInts dims, image;
  if (first) image.Add(channels);
  dims.Add(channels);
  for (int i = 0; i + 1 < rank; ++i) {
    image.Add(shape[i]);
    if (first) dims.Add(1);
  }
  if (!first) image.Add(channels);
  const int x = builder_.Get(&this->x(), order);
  int y = first ? builder_.Reshape(x, {groups, channels / groups * rows})
                : builder_.Reshape(x, {rows, groups, channels / groups});
  y = Standardized(y, first ? OnnxInts{-1} : OnnxInts{-3, -1});
  y = ScaledAndShifted(builder_.Reshape(y, image), dims);
  return OnnxBuilder::MakeValue(shape, order, y);
}

OnnxValue OnnxConverter::UnitNormalize() {
  OnnxInts axes;
  for (int i = p_->num_axes; i > 0; --i) axes.Add(-i);
  const int x = builder_.Last(&this->x());
  const int norm =
      builder_.Node("ReduceL2", {x}, {{"axes", axes}, {"keepdims", 1}});
  const int divisor =
      builder_.Node("Max", {norm, builder_.Scalar(std::sqrt(p_->epsilon))});
  return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsLast,
                                builder_.Node("Div", {x, divisor}));
}

}  // namespace ringlet
