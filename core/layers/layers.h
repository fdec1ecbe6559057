// Layers: what a model is made of, as Keras names it.
//
// Public. A Layer is a plain value: the configuration of one layer, made by a
// factory and refined by setters that return the layer:
//
//   Conv2D(32, 3, kRelu).Padding(kSame).KernelRegularizer(L2(1e-5f))
//
// The model builds the running layer from it, and reports there what does not
// fit (a setter that the layer does not have, shapes that do not chain).
// Images are (height, width, channels); shapes leave out the batch.

#ifndef RINGLET_CORE_LAYERS_LAYERS_H_
#define RINGLET_CORE_LAYERS_LAYERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "../base/shape.h"
#include "initializers.h"
#include "regularizers.h"

namespace ringlet {

enum Activation : uint8_t { kLinear, kRelu, kSigmoid, kTanh, kSoftmax };
// "linear", "relu", …
const char* ActivationName(Activation activation);

// kValid: no padding. kSame: output = ceil(input / stride); of an odd number
// of padding pixels the last goes to the bottom and right, as in TensorFlow.
enum PaddingMode : uint8_t { kValid, kSame };

class CustomLayer;

struct Layer {
  enum class Kind : uint8_t {
    kInput,
    kReshape,
    kFlatten,
    kDense,
    kConv2D,
    kActivation,
    kMaxPooling2D,
    kAveragePooling2D,
    kGlobalAveragePooling2D,
    kDropout,
    kAdd,
    kConcatenate,
    kCustom,
  };
  // Which setters were called, so that one the layer lacks is an error.
  enum Setting : uint32_t {
    kSetStrides = 1,
    kSetPadding = 2,
    kSetUseBias = 4,
    kSetKernelInitializer = 8,
    kSetBiasInitializer = 16,
    kSetKernelRegularizer = 32,
    kSetBiasRegularizer = 64,
    kSetSeed = 128,
    kSetKeepDims = 256,
  };

  Kind kind = Kind::kInput;
  std::string name;  // "" is replaced by "dense", "dense_1", …
  bool trainable = true;
  Shape shape;                 // Input, Reshape (one dimension may be -1)
  int64_t units = 0;           // Dense units, Conv2D filters
  int64_t window[2] = {1, 1};  // kernel_size or pool_size (height, width)
  int64_t strides[2] = {1, 1};
  PaddingMode padding = kValid;
  Activation activation = kLinear;
  bool use_bias = true;
  Initializer kernel_initializer = GlorotUniform();
  Initializer bias_initializer = Zeros();
  Regularizer kernel_regularizer;
  Regularizer bias_regularizer;
  bool keepdims = false;  // GlobalAveragePooling2D
  float rate = 0;         // Dropout: the share set to 0
  uint64_t seed = 0;      // Dropout: added to the model's seed
  std::shared_ptr<const CustomLayer> custom;  // see custom_layer.h
  uint32_t settings = 0;

  Layer& Name(std::string n) {
    name = std::move(n);
    return *this;
  }
  // False freezes the layer: its weights stay as they are, without gradient,
  // slots and regularization. See also Model::SetTrainable.
  Layer& Trainable(bool train) {
    trainable = train;
    return *this;
  }
  Layer& Strides(int64_t height, int64_t width) {
    strides[0] = height;
    strides[1] = width;
    settings |= kSetStrides;
    return *this;
  }
  Layer& Strides(int64_t both) { return Strides(both, both); }
  Layer& Padding(PaddingMode mode) {
    padding = mode;
    settings |= kSetPadding;
    return *this;
  }
  Layer& UseBias(bool use) {
    use_bias = use;
    settings |= kSetUseBias;
    return *this;
  }
  Layer& KernelInitializer(const Initializer& initializer) {
    kernel_initializer = initializer;
    settings |= kSetKernelInitializer;
    return *this;
  }
  Layer& BiasInitializer(const Initializer& initializer) {
    bias_initializer = initializer;
    settings |= kSetBiasInitializer;
    return *this;
  }
  Layer& KernelRegularizer(const Regularizer& regularizer) {
    kernel_regularizer = regularizer;
    settings |= kSetKernelRegularizer;
    return *this;
  }
  Layer& BiasRegularizer(const Regularizer& regularizer) {
    bias_regularizer = regularizer;
    settings |= kSetBiasRegularizer;
    return *this;
  }
  Layer& KeepDims(bool keep) {
    keepdims = keep;
    settings |= kSetKeepDims;
    return *this;
  }
  Layer& Seed(uint64_t s) {
    seed = s;
    settings |= kSetSeed;
    return *this;
  }
};

// Keras's class name: "Dense", "Conv2D", "InputLayer", … of a custom layer its
// own.
const char* ClassName(const Layer& layer);
// What Keras names an object of a class: "Conv2D" -> "conv2d", "MyLayer" ->
// "my_layer".
std::string SnakeCase(const std::string& class_name);

Layer Input(const Shape& shape);
Layer Reshape(const Shape& target_shape);
Layer Flatten();
// y = activation(x W + b) over the last axis; W is (inputs, units).
Layer Dense(int64_t units, Activation activation = kLinear);
// Kernel (height, width, channels, filters).
Layer Conv2D(int64_t filters, int64_t kernel_size,
             Activation activation = kLinear);
Layer Conv2D(int64_t filters, int64_t kernel_height, int64_t kernel_width,
             Activation activation = kLinear);
Layer ActivationLayer(Activation activation);
Layer ReLU();
Layer Sigmoid();
Layer Tanh();
Layer Softmax();  // over the last axis
// Strides default to the pool size.
Layer MaxPooling2D(int64_t pool_size = 2);
Layer MaxPooling2D(int64_t pool_height, int64_t pool_width);
// Padding pixels do not count in the average.
Layer AveragePooling2D(int64_t pool_size = 2);
Layer AveragePooling2D(int64_t pool_height, int64_t pool_width);
// The mean of each channel: (channels), or (1, 1, channels) with
// KeepDims(true).
Layer GlobalAveragePooling2D();
// While training sets a share `rate` of the values to 0 and divides the rest
// by 1 - rate; otherwise passes them on.
Layer Dropout(float rate);
Layer Add();          // of two or more inputs of one shape
Layer Concatenate();  // along the last axis

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_LAYERS_H_
