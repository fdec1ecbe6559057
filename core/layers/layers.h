// Layers: what a model is made of, as Keras names it.
//
// Public. A Layer (layer.h) is a plain value: the configuration of one layer,
// made by a factory and refined by setters that return the layer:
//
//   Conv2D(32, 3, kRelu).Padding(kSame).KernelRegularizer(L2(1e-5f))
//
// The model builds the running layer from it, and reports there what does not
// fit (a setter that the layer does not have, shapes that do not chain).
// Images are (height, width, channels); shapes leave out the batch.

#ifndef RINGLET_CORE_LAYERS_LAYERS_H_
#define RINGLET_CORE_LAYERS_LAYERS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../base/shape.h"
#include "layer.h"

namespace ringlet {

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
// Of (steps, channels); kernel (steps, channels, filters).
Layer Conv1D(int64_t filters, int64_t kernel_size,
             Activation activation = kLinear);
// Each channel under a window of its own. Kernel (height, width, channels,
// depth_multiplier), channel c giving outputs c * depth_multiplier and on.
Layer DepthwiseConv2D(int64_t kernel_size, Activation activation = kLinear);
Layer DepthwiseConv2D(int64_t kernel_height, int64_t kernel_width,
                      Activation activation = kLinear);
Layer DepthwiseConv1D(int64_t kernel_size, Activation activation = kLinear);
// A depthwise convolution, and filters over the channels that it gives.
Layer SeparableConv2D(int64_t filters, int64_t kernel_size,
                      Activation activation = kLinear);
Layer SeparableConv2D(int64_t filters, int64_t kernel_height,
                      int64_t kernel_width, Activation activation = kLinear);
Layer SeparableConv1D(int64_t filters, int64_t kernel_size,
                      Activation activation = kLinear);
Layer ActivationLayer(Activation activation);
// min(x, max_value) above the threshold, negative_slope (x - threshold) below.
Layer ReLU(float max_value = std::numeric_limits<float>::infinity(),
           float negative_slope = 0, float threshold = 0);
Layer LeakyReLU(float negative_slope = 0.3f);  // x, or slope x below 0
Layer ELU(float alpha = 1);                    // x, or alpha (exp(x) - 1)
Layer Sigmoid();
Layer Tanh();
Layer Softmax();  // over the last axis
// Over one axis or several neighbouring ones: 1 is the first behind the batch,
// -1 the last.
Layer Softmax(const std::vector<int64_t>& axes);
// x, or alpha x below 0, alpha being trained: of the input's shape, and 1 along
// the shared axes, counted from 1.
Layer PReLU(const std::vector<int64_t>& shared_axes = {});
// Strides default to the pool size.
Layer MaxPooling2D(int64_t pool_size = 2);
Layer MaxPooling2D(int64_t pool_height, int64_t pool_width);
Layer MaxPooling1D(int64_t pool_size = 2);
// Padding pixels do not count in the average.
Layer AveragePooling2D(int64_t pool_size = 2);
Layer AveragePooling2D(int64_t pool_height, int64_t pool_width);
Layer AveragePooling1D(int64_t pool_size = 2);
// The mean of each channel: (channels), or (1, 1, channels) with
// KeepDims(true).
Layer GlobalAveragePooling2D();
Layer GlobalAveragePooling1D();
Layer GlobalMaxPooling2D();
Layer GlobalMaxPooling1D();
// A border of zeros, or without one.
Layer ZeroPadding2D(int64_t padding = 1);
Layer ZeroPadding2D(int64_t top, int64_t bottom, int64_t left, int64_t right);
Layer ZeroPadding1D(int64_t padding = 1);
Layer ZeroPadding1D(int64_t before, int64_t after);
Layer Cropping2D(int64_t top, int64_t bottom, int64_t left, int64_t right);
Layer Cropping1D(int64_t before = 1, int64_t after = 1);
// Each pixel so many times (nearest).
Layer UpSampling2D(int64_t size = 2);
Layer UpSampling2D(int64_t height, int64_t width);
Layer UpSampling1D(int64_t size = 2);
// Axis i of the output is axis dims[i] of the input, counted from 1.
Layer Permute(const Shape& dims);
// While training sets a share `rate` of the values to 0 and divides the rest
// by 1 - rate; otherwise passes them on.
Layer Dropout(float rate);
// The same of whole channels of an example.
Layer SpatialDropout2D(float rate);
Layer SpatialDropout1D(float rate);
// While training adds normal numbers of this deviation, from 0 to 1.
Layer GaussianNoise(float stddev);
// While training multiplies by normal numbers around 1, of the deviation
// sqrt(rate / (1 - rate)).
Layer GaussianDropout(float rate);
// Dropout behind selu, which keeps mean and variance: a share `rate` becomes
// selu's least value, and then all are scaled and shifted.
Layer AlphaDropout(float rate);
// gamma (x - mean) / sqrt(variance + epsilon) + beta for each channel, the
// last axis. Training: with mean and variance of this worker's batch (of all
// workers' with Synchronized), from which moving_mean and moving_variance
// follow, averaged over the workers: moving = momentum moving + (1 - momentum)
// batch. Else, and where the layer is not trainable, with the moving ones.
Layer BatchNormalization(float momentum = 0.99f, float epsilon = 1e-3f);
// The same formula with mean and variance of each example, over the last axis
// or, with Axes, several.
Layer LayerNormalization(float epsilon = 1e-3f);
// x scale + offset: one number for all channels, or one for each.
Layer Rescaling(float scale, float offset = 0);
Layer Rescaling(const std::vector<float>& scale,
                const std::vector<float>& offset);
// (x - mean) / sqrt(variance), given for all channels or for each.
Layer Normalization(const std::vector<float>& mean,
                    const std::vector<float>& variance);
// Of two or more inputs of one shape, or of shapes that NumPy would broadcast:
// (1, 1, channels) or (channels) to (height, width, channels).
Layer Add();
Layer Subtract();  // the second from the first, of two
Layer Multiply();
Layer Average();
Layer Maximum();  // of equal ones the first gets the gradient
Layer Minimum();
Layer Concatenate();  // along the last axis

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_LAYERS_H_
