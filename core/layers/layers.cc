#include "ringlet/layers.h"

#include <algorithm>
#include <array>

#include "layer_settings.h"

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

Layer& Layer::Name(std::string n) {
  name = std::move(n);
  return *this;
}

Layer& Layer::Trainable(bool train) {
  trainable = train;
  return *this;
}

Layer& Layer::Strides(int64_t height, int64_t width) {
  strides[0] = height;
  strides[1] = width;
  settings |= kSetStrides;
  return *this;
}

Layer& Layer::DilationRate(int64_t height, int64_t width) {
  dilation[0] = height;
  dilation[1] = width;
  settings |= kSetDilationRate;
  return *this;
}

Layer& Layer::Groups(int64_t number) {
  groups = number;
  settings |= kSetGroups;
  return *this;
}

Layer& Layer::DepthMultiplier(int64_t filters_per_channel) {
  depth_multiplier = filters_per_channel;
  settings |= kSetDepthMultiplier;
  return *this;
}

Layer& Layer::Padding(PaddingMode mode) {
  padding = mode;
  settings |= kSetPadding;
  return *this;
}

Layer& Layer::UseBias(bool use) {
  use_bias = use;
  settings |= kSetUseBias;
  return *this;
}

Layer& Layer::KernelInitializer(const Initializer& initializer) {
  kernel_initializer = initializer;
  settings |= kSetKernelInitializer;
  return *this;
}

Layer& Layer::BiasInitializer(const Initializer& initializer) {
  bias_initializer = initializer;
  settings |= kSetBiasInitializer;
  return *this;
}

Layer& Layer::KernelRegularizer(const Regularizer& regularizer) {
  kernel_regularizer = regularizer;
  settings |= kSetKernelRegularizer;
  return *this;
}

Layer& Layer::BiasRegularizer(const Regularizer& regularizer) {
  bias_regularizer = regularizer;
  settings |= kSetBiasRegularizer;
  return *this;
}

Layer& Layer::DepthwiseInitializer(const Initializer& initializer) {
  depthwise_initializer = initializer;
  settings |= kSetDepthwiseInitializer;
  return *this;
}

Layer& Layer::DepthwiseRegularizer(const Regularizer& regularizer) {
  depthwise_regularizer = regularizer;
  settings |= kSetDepthwiseRegularizer;
  return *this;
}

Layer& Layer::PointwiseInitializer(const Initializer& initializer) {
  pointwise_initializer = initializer;
  settings |= kSetPointwiseInitializer;
  return *this;
}

Layer& Layer::PointwiseRegularizer(const Regularizer& regularizer) {
  pointwise_regularizer = regularizer;
  settings |= kSetPointwiseRegularizer;
  return *this;
}

Layer& Layer::KeepDims(bool keep) {
  keepdims = keep;
  settings |= kSetKeepDims;
  return *this;
}

Layer& Layer::Seed(uint64_t s) {
  seed = s;
  settings |= kSetSeed;
  return *this;
}

Layer& Layer::NoiseShape(const Shape& sizes) {
  noise_shape = sizes;
  settings |= kSetNoiseShape;
  return *this;
}

Layer& Layer::Center(bool with_beta) {
  center = with_beta;
  settings |= kSetCenter;
  return *this;
}

Layer& Layer::Scale(bool with_gamma) {
  scale = with_gamma;
  settings |= kSetScale;
  return *this;
}

Layer& Layer::GammaInitializer(const Initializer& initializer) {
  gamma_initializer = initializer;
  settings |= kSetGammaInitializer;
  return *this;
}

Layer& Layer::BetaInitializer(const Initializer& initializer) {
  beta_initializer = initializer;
  settings |= kSetBetaInitializer;
  return *this;
}

Layer& Layer::GammaRegularizer(const Regularizer& regularizer) {
  gamma_regularizer = regularizer;
  settings |= kSetGammaRegularizer;
  return *this;
}

Layer& Layer::BetaRegularizer(const Regularizer& regularizer) {
  beta_regularizer = regularizer;
  settings |= kSetBetaRegularizer;
  return *this;
}

Layer& Layer::MovingMeanInitializer(const Initializer& initializer) {
  moving_mean_initializer = initializer;
  settings |= kSetMovingMeanInitializer;
  return *this;
}

Layer& Layer::MovingVarianceInitializer(const Initializer& initializer) {
  moving_variance_initializer = initializer;
  settings |= kSetMovingVarianceInitializer;
  return *this;
}

Layer& Layer::Axes(const std::vector<int64_t>& normalized) {
  axes = normalized;
  settings |= kSetAxes;
  return *this;
}

Layer& Layer::AlphaInitializer(const Initializer& initializer) {
  alpha_initializer = initializer;
  settings |= kSetAlphaInitializer;
  return *this;
}

Layer& Layer::AlphaRegularizer(const Regularizer& regularizer) {
  alpha_regularizer = regularizer;
  settings |= kSetAlphaRegularizer;
  return *this;
}

Layer& Layer::Invert(bool inverts) {
  invert = inverts;
  settings |= kSetInvert;
  return *this;
}

Layer& Layer::Synchronized(bool over_workers) {
  synchronized = over_workers;
  settings |= kSetSynchronized;
  return *this;
}

}  // namespace ringlet
