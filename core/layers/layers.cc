#include "ringlet/layers.h"

#include <algorithm>
#include <array>

namespace ringlet {
namespace {

Layer Make(Layer::Kind kind) {
  Layer layer;
  layer.kind = kind;
  return layer;
}

Layer Conv(Layer::Kind kind, int64_t filters, int64_t height, int64_t width,
           Activation activation) {
  Layer layer = Make(kind);
  layer.units = filters;
  layer.window[0] = height;
  layer.window[1] = width;
  layer.activation = activation;
  return layer;
}

Layer Pooling(Layer::Kind kind, int64_t height, int64_t width) {
  Layer layer = Make(kind);
  layer.window[0] = layer.strides[0] = height;
  layer.window[1] = layer.strides[1] = width;
  return layer;
}

Layer Borders(Layer::Kind kind, const std::array<int64_t, 4>& borders) {
  Layer layer = Make(kind);
  std::copy(borders.begin(), borders.end(), layer.borders);
  return layer;
}

}  // namespace

// For ASCII, whatever the locale. Adds an underscore before a capital that
// begins a word, as "Layer" in "MyLayer", or follows small letters.
std::string SnakeCase(const std::string& class_name) {
  const auto upper = [&](size_t i) {
    return i < class_name.size() && class_name[i] >= 'A' &&
           class_name[i] <= 'Z';
  };
  const auto lower = [&](size_t i) {
    return i < class_name.size() && class_name[i] >= 'a' &&
           class_name[i] <= 'z';
  };
  std::string text;
  for (size_t i = 0; i < class_name.size(); ++i) {
    if (upper(i) && i > 0 && (lower(i - 1) || lower(i + 1))) text += '_';
    text += static_cast<char>(class_name[i] + (upper(i) ? 'a' - 'A' : 0));
  }
  return text;
}

Layer Input(const Shape& shape) {
  Layer layer = Make(Layer::Kind::kInput);
  layer.shape = shape;
  return layer;
}
Layer Reshape(const Shape& target_shape) {
  Layer layer = Make(Layer::Kind::kReshape);
  layer.shape = target_shape;
  return layer;
}
Layer Flatten() { return Make(Layer::Kind::kFlatten); }
Layer Dense(int64_t units, Activation activation) {
  Layer layer = Make(Layer::Kind::kDense);
  layer.units = units;
  layer.activation = activation;
  return layer;
}
Layer Conv2D(int64_t filters, int64_t kernel_height, int64_t kernel_width,
             Activation activation) {
  return Conv(Layer::Kind::kConv2D, filters, kernel_height, kernel_width,
              activation);
}
Layer Conv2D(int64_t filters, int64_t kernel_size, Activation activation) {
  return Conv2D(filters, kernel_size, kernel_size, activation);
}
Layer DepthwiseConv2D(int64_t kernel_height, int64_t kernel_width,
                      Activation activation) {
  return Conv(Layer::Kind::kDepthwiseConv2D, 0, kernel_height, kernel_width,
              activation);
}
Layer DepthwiseConv2D(int64_t kernel_size, Activation activation) {
  return DepthwiseConv2D(kernel_size, kernel_size, activation);
}
Layer Conv1D(int64_t filters, int64_t kernel_size, Activation activation) {
  return Conv(Layer::Kind::kConv1D, filters, 1, kernel_size, activation);
}
Layer DepthwiseConv1D(int64_t kernel_size, Activation activation) {
  return Conv(Layer::Kind::kDepthwiseConv1D, 0, 1, kernel_size, activation);
}
Layer SeparableConv2D(int64_t filters, int64_t kernel_height,
                      int64_t kernel_width, Activation activation) {
  return Conv(Layer::Kind::kSeparableConv2D, filters, kernel_height,
              kernel_width, activation);
}
Layer SeparableConv2D(int64_t filters, int64_t kernel_size,
                      Activation activation) {
  return SeparableConv2D(filters, kernel_size, kernel_size, activation);
}
Layer SeparableConv1D(int64_t filters, int64_t kernel_size,
                      Activation activation) {
  return Conv(Layer::Kind::kSeparableConv1D, filters, 1, kernel_size,
              activation);
}
Layer ActivationLayer(Activation activation) {
  Layer layer = Make(Layer::Kind::kActivation);
  layer.activation = activation;
  return layer;
}
Layer ReLU(float max_value, float negative_slope, float threshold) {
  Layer layer = Make(Layer::Kind::kReLU);
  layer.max_value = max_value;
  layer.negative_slope = negative_slope;
  layer.threshold = threshold;
  return layer;
}
Layer LeakyReLU(float negative_slope) {
  Layer layer = Make(Layer::Kind::kLeakyReLU);
  layer.negative_slope = negative_slope;
  return layer;
}
Layer ELU(float alpha) {
  Layer layer = Make(Layer::Kind::kELU);
  layer.alpha = alpha;
  return layer;
}
Layer Sigmoid() { return ActivationLayer(kSigmoid); }
Layer Tanh() { return ActivationLayer(kTanh); }
Layer Softmax() { return ActivationLayer(kSoftmax); }
Layer MaxPooling2D(int64_t pool_size) {
  return MaxPooling2D(pool_size, pool_size);
}
Layer MaxPooling2D(int64_t pool_height, int64_t pool_width) {
  return Pooling(Layer::Kind::kMaxPooling2D, pool_height, pool_width);
}
Layer AveragePooling2D(int64_t pool_size) {
  return AveragePooling2D(pool_size, pool_size);
}
Layer AveragePooling2D(int64_t pool_height, int64_t pool_width) {
  return Pooling(Layer::Kind::kAveragePooling2D, pool_height, pool_width);
}
Layer MaxPooling1D(int64_t pool_size) {
  return Pooling(Layer::Kind::kMaxPooling1D, 1, pool_size);
}
Layer AveragePooling1D(int64_t pool_size) {
  return Pooling(Layer::Kind::kAveragePooling1D, 1, pool_size);
}
Layer GlobalAveragePooling2D() {
  return Make(Layer::Kind::kGlobalAveragePooling2D);
}
Layer GlobalAveragePooling1D() {
  return Make(Layer::Kind::kGlobalAveragePooling1D);
}
Layer GlobalMaxPooling2D() { return Make(Layer::Kind::kGlobalMaxPooling2D); }
Layer GlobalMaxPooling1D() { return Make(Layer::Kind::kGlobalMaxPooling1D); }
Layer ZeroPadding2D(int64_t top, int64_t bottom, int64_t left, int64_t right) {
  return Borders(Layer::Kind::kZeroPadding2D, {top, bottom, left, right});
}
Layer ZeroPadding2D(int64_t padding) {
  return ZeroPadding2D(padding, padding, padding, padding);
}
Layer ZeroPadding1D(int64_t before, int64_t after) {
  return Borders(Layer::Kind::kZeroPadding1D, {0, 0, before, after});
}
Layer ZeroPadding1D(int64_t padding) { return ZeroPadding1D(padding, padding); }
Layer Cropping2D(int64_t top, int64_t bottom, int64_t left, int64_t right) {
  return Borders(Layer::Kind::kCropping2D, {top, bottom, left, right});
}
Layer Cropping1D(int64_t before, int64_t after) {
  return Borders(Layer::Kind::kCropping1D, {0, 0, before, after});
}
Layer UpSampling2D(int64_t height, int64_t width) {
  Layer layer = Make(Layer::Kind::kUpSampling2D);
  layer.window[0] = height;
  layer.window[1] = width;
  return layer;
}
Layer UpSampling2D(int64_t size) { return UpSampling2D(size, size); }
Layer UpSampling1D(int64_t size) {
  Layer layer = Make(Layer::Kind::kUpSampling1D);
  layer.window[1] = size;
  return layer;
}
Layer Permute(const Shape& dims) {
  Layer layer = Make(Layer::Kind::kPermute);
  layer.shape = dims;
  return layer;
}
Layer Add() { return Make(Layer::Kind::kAdd); }
Layer Subtract() { return Make(Layer::Kind::kSubtract); }
Layer Multiply() { return Make(Layer::Kind::kMultiply); }
Layer Average() { return Make(Layer::Kind::kAverage); }
Layer Maximum() { return Make(Layer::Kind::kMaximum); }
Layer Minimum() { return Make(Layer::Kind::kMinimum); }
Layer Concatenate() { return Make(Layer::Kind::kConcatenate); }

}  // namespace ringlet
