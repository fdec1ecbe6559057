#include "layers.h"

namespace ringlet {
namespace {

Layer Make(Layer::Kind kind) {
  Layer layer;
  layer.kind = kind;
  return layer;
}

Layer Pooling(Layer::Kind kind, int64_t height, int64_t width) {
  Layer layer = Make(kind);
  layer.window[0] = layer.strides[0] = height;
  layer.window[1] = layer.strides[1] = width;
  return layer;
}

}  // namespace

// Of ASCII, whatever the locale: an underscore before a capital that begins a
// word, as "Layer" in "MyLayer", or ends a run of small letters.
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
  Layer layer = Make(Layer::Kind::kConv2D);
  layer.units = filters;
  layer.window[0] = kernel_height;
  layer.window[1] = kernel_width;
  layer.activation = activation;
  return layer;
}
Layer Conv2D(int64_t filters, int64_t kernel_size, Activation activation) {
  return Conv2D(filters, kernel_size, kernel_size, activation);
}
Layer ActivationLayer(Activation activation) {
  Layer layer = Make(Layer::Kind::kActivation);
  layer.activation = activation;
  return layer;
}
Layer ReLU() { return ActivationLayer(kRelu); }
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
Layer Dropout(float rate) {
  Layer layer = Make(Layer::Kind::kDropout);
  layer.rate = rate;
  return layer;
}
Layer Add() { return Make(Layer::Kind::kAdd); }
Layer Concatenate() { return Make(Layer::Kind::kConcatenate); }

}  // namespace ringlet
