// Layers with weights.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "onnx_converter.h"

namespace ringlet {
namespace {

constexpr AxisOrder kFirst = AxisOrder::kChannelsFirst,
                    kLast = AxisOrder::kChannelsLast;

}  // namespace

// --- weights -----------------------------------------------------------------

const Variable* OnnxConverter::Find(const char* weight) const {
  const std::string path = name_ + "/" + weight;
  for (const Variable& v : model_.variables()) {
    if (v.path == path) return &v;
  }
  return nullptr;
}

// A shared layer's weight is there once, unless it is wanted in another order.
int OnnxConverter::Weight(const char* weight, const OnnxInts& dims,
                          const OnnxGraph::Order& order) {
  const Variable* const v = Find(weight);
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

int OnnxConverter::Weight(const char* weight, const OnnxInts& dims) {
  int64_t all = 1;
  for (const int64_t n : dims) all *= n;
  return Weight(weight, dims, {{1, 1, all}, {0, 0, 1}});
}

int OnnxConverter::WeightOr(const char* weight, int64_t channels,
                            float otherwise) {
  if (Find(weight) != nullptr) return Weight(weight, {channels});
  const OnnxGraph::Order order = {{1, 1, channels}, {0, 0, 1}};
  for (const AddedWeight& added : weights_) {
    if (added.variable == nullptr && added.number == otherwise &&
        added.order.count[2] == channels) {
      return added.tensor;
    }
  }
  const std::vector<float> values(static_cast<size_t>(channels), otherwise);
  const int tensor =
      graph_->AddFloats("numbers", {channels}, values.data(), channels);
  weights_.push_back({nullptr, otherwise, 1, order, tensor});
  return tensor;
}

// (spatial, in, out) in Keras, (out, in, spatial) in ONNX.
int OnnxConverter::Kernel(const char* weight, const OnnxInts& spatial,
                          int64_t in, int64_t out) {
  OnnxInts dims = {out, in};
  int64_t taps = 1;
  for (const int64_t n : spatial) {
    dims.Add(n);
    taps *= n;
  }
  return Weight(weight, dims, {{out, in, taps}, {1, out, in * out}});
}

// (spatial, channels, multiplier) in Keras.
int OnnxConverter::DepthwiseKernel(const char* weight) {
  const OnnxInts window = Each(layer_->window);
  const int64_t channels = x().shape.back(),
                multiplier = layer_->depth_multiplier;
  OnnxInts dims = {channels * multiplier, 1};
  int64_t taps = 1;
  for (const int64_t n : window) {
    dims.Add(n);
    taps *= n;
  }
  return Weight(
      weight, dims,
      {{channels, multiplier, taps}, {multiplier, 1, channels * multiplier}});
}

// --- products ----------------------------------------------------------------

OnnxConverter::Window OnnxConverter::Place() const {
  Window w = {
      Each(layer_->window), Each(layer_->strides), Each(layer_->dilation), {}};
  OnnxInts after;
  for (int i = 0; i < w.window.count; ++i) {
    const int64_t input = values_[static_cast<size_t>(x_[0])].shape[i],
                  extent = (w.window.values[i] - 1) * w.dilation.values[i] + 1;
    int64_t pad = 0;
    if (layer_->padding == kCausal) pad = extent - 1;
    if (layer_->padding == kSame) {
      pad = std::max<int64_t>(
          (output_[i] - 1) * w.strides.values[i] + extent - input, 0);
    }
    w.pads.Add(layer_->padding == kCausal ? pad : pad / 2);
    after.Add(pad - w.pads.values[i]);
  }
  for (const int64_t n : after) w.pads.Add(n);
  return w;
}

int OnnxConverter::Convolve(int x, int kernel, int bias, const Window& w,
                            int64_t groups) {
  return make_.Node("Conv", {x, kernel, bias},
                    {{"kernel_shape", w.window},
                     {"strides", w.strides},
                     {"dilations", w.dilation},
                     {"pads", w.pads},
                     {"group", groups}});
}

// With a kernel of one pixel.
int OnnxConverter::ConvolvePixels(int x, const char* weight, int axes,
                                  int64_t in) {
  OnnxInts point;
  for (int i = 0; i < axes; ++i) point.Add(1);
  const int kernel = Kernel(weight, point, in, layer_->units);
  return make_.Node("Conv", {x, kernel, Bias()}, {{"kernel_shape", point}});
}

OnnxValue OnnxConverter::Conv(const char*) {
  const int64_t groups = layer_->groups;
  const int image = make_.First(&x());
  const int kernel = Kernel("kernel", Each(layer_->window),
                            x().shape.back() / groups, layer_->units);
  return Activated(kFirst, Convolve(image, kernel, Bias(), Place(), groups));
}

OnnxValue OnnxConverter::DepthwiseConv(const char*) {
  const int image = make_.First(&x()), kernel = DepthwiseKernel("kernel");
  return Activated(kFirst,
                   Convolve(image, kernel, Bias(), Place(), x().shape.back()));
}

OnnxValue OnnxConverter::SeparableConv(const char*) {
  const int64_t channels = x().shape.back();
  const int image = make_.First(&x()),
            kernel = DepthwiseKernel("depthwise_kernel");
  const int middle = Convolve(image, kernel, -1, Place(), channels);
  return Activated(kFirst, ConvolvePixels(middle, "pointwise_kernel", axes(),
                                          channels * layer_->depth_multiplier));
}

OnnxValue OnnxConverter::Dense(const char*) {
  OnnxValue& x = this->x();
  const int64_t in = x.shape.back(), units = layer_->units;
  const int rank = x.shape.rank();
  if (rank == 3 || (rank == 2 && x.first >= 0)) {
    return Activated(kFirst,
                     ConvolvePixels(make_.First(&x), "kernel", rank - 1, in));
  }
  int kernel, flat;
  if (rank == 1 && x.last < 0) {  // as an image was flattened, channels first
    const int64_t channels = x.flattened;
    flat = x.first;
    kernel = Weight(
        "kernel", {in, units},
        {{channels, in / channels, units}, {units, channels * units, 1}});
  } else {
    flat = make_.Last(&x);
    kernel = Weight("kernel", {in, units});
  }
  const int bias = Bias();
  int y = make_.Node("MatMul", {flat, kernel});
  if (bias >= 0) y = make_.Node("Add", {y, bias});
  return Activated(kLast, y);
}

// Slopes of channels alone meet images as they are.
OnnxValue OnnxConverter::PReLU(const char*) {
  const int rank = output_.rank();
  const Shape& slopes = Find("alpha")->shape;
  const bool of_channels =
      rank > 1 && x().first >= 0 && slopes.elements() == slopes.back();
  const AxisOrder order = of_channels ? kFirst : kLast;
  OnnxInts dims;
  if (of_channels) dims.Add(slopes.back());
  for (int i = 0; i < rank; ++i) {
    if (!of_channels || i > 0) dims.Add(of_channels ? 1 : slopes[i]);
  }
  const int image = make_.Get(&x(), order);
  const OnnxGraph::Order turned = {{slopes.back(), 1, 1}, {1, 0, 0}};
  const int slope =
      of_channels ? Weight("alpha", dims, turned) : Weight("alpha", dims);
  return OnnxValues::Of(output_, order, make_.Node("PRelu", {image, slope}));
}

// --- normalizations ----------------------------------------------------------

// The operator has channels second. Rows that are not turned stay so.
OnnxValue OnnxConverter::BatchNormalization(const char*) {
  const int rank = output_.rank();
  const int64_t channels = output_.back();
  if (rank != 1 && rank != 3 && x().first < 0) return NormalizedRows();
  const AxisOrder order = rank > 1 ? kFirst : kLast;
  const int image = make_.Get(&x(), order),
            gamma = WeightOr("gamma", channels, 1),
            beta = WeightOr("beta", channels, 0),
            mean = Weight("moving_mean", {channels}),
            variance = Weight("moving_variance", {channels});
  return OnnxValues::Of(
      output_, order,
      make_.Node("BatchNormalization", {image, gamma, beta, mean, variance},
                 {{"epsilon", layer_->epsilon}}));
}

// (x - mean) * times + beta, as the layer computes it.
OnnxValue OnnxConverter::NormalizedRows() {
  const int64_t channels = output_.back();
  const float* const variance = floats_ + Find("moving_variance")->offset;
  const Variable* const gamma = Find("gamma");
  std::vector<float> times;
  for (int64_t c = 0; c < channels; ++c) {
    const double deviation =
        std::sqrt(double{variance[c]} + double{layer_->epsilon});
    times.push_back(static_cast<float>(1 / deviation) *
                    (gamma == nullptr ? 1 : floats_[gamma->offset + c]));
  }
  const int mean = Weight("moving_mean", {channels});
  const int scale = make_.OfChannels(times, x(), kLast);
  int y = make_.Node("Sub", {make_.Last(&x()), mean});
  y = make_.Node("Mul", {y, scale});
  if (Find("beta") != nullptr) {
    y = make_.Node("Add", {y, Weight("beta", {channels})});
  }
  return OnnxValues::Of(output_, kLast, y);
}

int OnnxConverter::Mean(int tensor, const OnnxInts& axes) {
  return make_.Node("ReduceMean", {tensor}, {{"axes", axes}, {"keepdims", 1}});
}

// Opset 17 has an operator.
OnnxValue OnnxConverter::LayerNormalization(const char*) {
  OnnxInts axes, dims;
  for (int i = static_cast<int>(layer_->axes.size()); i > 0; --i) {
    axes.Add(-i);
    dims.Add(output_[output_.rank() - i]);
  }
  const int x = make_.Last(&this->x());
  const int centered = make_.Node("Sub", {x, Mean(x, axes)});
  const int squares = make_.Node("Mul", {centered, centered});
  const int epsilon = make_.Scalar(layer_->epsilon);
  const int variance = make_.Node("Add", {Mean(squares, axes), epsilon});
  int y = make_.Node("Div", {centered, make_.Node("Sqrt", {variance})});
  if (Find("gamma") != nullptr) {
    y = make_.Node("Mul", {y, Weight("gamma", dims)});
  }
  if (Find("beta") != nullptr) {
    y = make_.Node("Add", {y, Weight("beta", dims)});
  }
  return OnnxValues::Of(output_, kLast, y);
}

}  // namespace ringlet
