// Layer: the configuration of one layer, as the factories of layers.h make it.
//
// Public. Each setter sets the field of its name in Keras and returns the
// layer; which of them a layer has, the model says where it is added.

#ifndef RINGLET_CORE_LAYERS_LAYER_H_
#define RINGLET_CORE_LAYERS_LAYER_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../base/shape.h"
#include "initializers.h"

namespace ringlet {

enum Activation : uint8_t {
  kLinear,
  kRelu,
  kSigmoid,
  kTanh,
  kSoftmax,            // over the last axis
  kRelu6,              // min(max(x, 0), 6)
  kElu,                // x, or exp(x) - 1 below 0
  kSelu,               // 1.0507 x, or 1.7581 (exp(x) - 1) below 0
  kLeakyRelu,          // x, or 0.2 x below 0
  kExponential,        // exp(x)
  kHardSigmoid,        // relu6(x + 3) / 6
  kSoftsign,           // x / (1 + |x|)
  kSoftplus,           // log(1 + exp(x))
  kLogSoftmax,         // log(softmax(x))
  kGelu,               // x (1 + erf(x / sqrt 2)) / 2
  kSilu,               // x sigmoid(x)
  kHardSilu,           // x relu6(x + 3) / 6
  kMish,               // x tanh(softplus(x))
  kHardSigmoidKeras2,  // 0.2 x + 0.5, from 0 to 1: what Keras 2 has
};
// "linear", "relu", …
const char* ActivationName(Activation activation);

// kValid: no padding. kSame: output = ceil(input / stride); of an odd number
// of padding pixels the last goes to the bottom and right, as in TensorFlow.
// kCausal, of Conv1D: all padding before, so that no output sees what follows.
enum PaddingMode : uint8_t { kValid, kSame, kCausal };

class CustomLayer;
struct NestedModel;

struct Layer {
  enum class Kind : uint8_t {
    kInput,
    kReshape,
    kFlatten,
    kDense,
    kConv2D,
    kConv1D,
    kDepthwiseConv2D,
    kDepthwiseConv1D,
    kSeparableConv2D,
    kSeparableConv1D,
    kActivation,
    kReLU,
    kLeakyReLU,
    kELU,
    kPReLU,
    kSoftmax,
    kMaxPooling2D,
    kMaxPooling1D,
    kAveragePooling2D,
    kAveragePooling1D,
    kGlobalAveragePooling2D,
    kGlobalAveragePooling1D,
    kGlobalMaxPooling2D,
    kGlobalMaxPooling1D,
    kZeroPadding2D,
    kZeroPadding1D,
    kCropping2D,
    kCropping1D,
    kUpSampling2D,
    kUpSampling1D,
    kPermute,
    kDropout,
    kSpatialDropout2D,
    kSpatialDropout1D,
    kGaussianNoise,
    kGaussianDropout,
    kAlphaDropout,
    kAdd,
    kSubtract,
    kMultiply,
    kAverage,
    kMaximum,
    kMinimum,
    kConcatenate,
    kBatchNormalization,
    kLayerNormalization,
    kRescaling,
    kNormalization,
    kCustom,
    kModel,
  };
  // Which setters were called, so that one the layer lacks is an error.
  enum Setting : uint64_t {
    kSetStrides = 1,
    kSetPadding = 2,
    kSetUseBias = 4,
    kSetKernelInitializer = 8,
    kSetBiasInitializer = 16,
    kSetKernelRegularizer = 32,
    kSetBiasRegularizer = 64,
    kSetSeed = 128,
    kSetKeepDims = 256,
    kSetDilationRate = uint64_t{1} << 12,
    kSetDepthMultiplier = uint64_t{1} << 13,
    kSetDepthwiseInitializer = uint64_t{1} << 14,
    kSetDepthwiseRegularizer = uint64_t{1} << 15,
    kSetGroups = uint64_t{1} << 16,
    kSetPointwiseInitializer = uint64_t{1} << 17,
    kSetPointwiseRegularizer = uint64_t{1} << 18,
    kSetCenter = uint64_t{1} << 32,
    kSetScale = uint64_t{1} << 33,
    kSetGammaInitializer = uint64_t{1} << 34,
    kSetBetaInitializer = uint64_t{1} << 35,
    kSetGammaRegularizer = uint64_t{1} << 36,
    kSetBetaRegularizer = uint64_t{1} << 37,
    kSetMovingMeanInitializer = uint64_t{1} << 38,
    kSetMovingVarianceInitializer = uint64_t{1} << 39,
    kSetSynchronized = uint64_t{1} << 40,
    kSetAxes = uint64_t{1} << 41,
    kSetInvert = uint64_t{1} << 42,
    kSetAlphaInitializer = uint64_t{1} << 43,
    kSetAlphaRegularizer = uint64_t{1} << 44,
  };

  Kind kind = Kind::kInput;
  std::string name;  // "" is replaced by "dense", "dense_1", …
  bool trainable = true;
  Shape shape;        // Input, Reshape (one dimension may be -1), Permute
  int64_t units = 0;  // Dense units, Conv2D filters
  // kernel_size, pool_size, UpSampling2D's size (height, width). Of layers with
  // one axis the second of such pairs counts.
  int64_t window[2] = {1, 1};
  int64_t strides[2] = {1, 1};
  int64_t dilation[2] = {1, 1};
  int64_t groups = 1;            // of channels, each with filters of its own
  int64_t depth_multiplier = 1;  // filters of each channel
  // ZeroPadding2D, Cropping2D: rows at the top and bottom, columns at the left
  // and right.
  int64_t borders[4] = {0, 0, 0, 0};
  PaddingMode padding = kValid;
  Activation activation = kLinear;
  bool use_bias = true;
  Initializer kernel_initializer = GlorotUniform();
  Initializer bias_initializer = Zeros();
  Initializer depthwise_initializer = GlorotUniform();
  Initializer pointwise_initializer = GlorotUniform();
  Regularizer kernel_regularizer;
  Regularizer bias_regularizer;
  Regularizer depthwise_regularizer;
  Regularizer pointwise_regularizer;
  bool keepdims = false;  // GlobalAveragePooling2D, …
  float rate = 0;         // Dropout, …: the share set to 0; a deviation
  uint64_t seed = 0;      // Dropout, …: added to the model's seed
  float max_value = std::numeric_limits<float>::infinity();  // ReLU
  float negative_slope = 0, threshold = 0;  // ReLU; the slope LeakyReLU
  float alpha = 1;                          // ELU
  Initializer alpha_initializer = Zeros();  // PReLU
  Regularizer alpha_regularizer;
  std::vector<int64_t> shared_axes;  // PReLU: counted from 1, behind the batch
  // Normalizations.
  float momentum = 0.99f, epsilon = 1e-3f;
  bool center = true, scale = true;  // with beta, with gamma
  bool synchronized = false;
  Initializer gamma_initializer = Ones(), beta_initializer = Zeros();
  Initializer moving_mean_initializer = Zeros();
  Initializer moving_variance_initializer = Ones();
  Regularizer gamma_regularizer, beta_regularizer;
  std::vector<int64_t> axes = {-1};           // LayerNormalization, Softmax
  std::vector<float> scales, offsets;         // Rescaling
  std::vector<float> means, variances;        // Normalization
  bool invert = false;                        // Normalization
  std::shared_ptr<const CustomLayer> custom;  // see custom_layer.h
  std::shared_ptr<const NestedModel> model;   // see Model::AsLayer
  uint64_t settings = 0;

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
  // From one tap of the window to the next.
  Layer& DilationRate(int64_t height, int64_t width) {
    dilation[0] = height;
    dilation[1] = width;
    settings |= kSetDilationRate;
    return *this;
  }
  Layer& DilationRate(int64_t both) { return DilationRate(both, both); }
  // Each so many of the channels and filters; both divide by it.
  Layer& Groups(int64_t number) {
    groups = number;
    settings |= kSetGroups;
    return *this;
  }
  Layer& DepthMultiplier(int64_t filters_per_channel) {
    depth_multiplier = filters_per_channel;
    settings |= kSetDepthMultiplier;
    return *this;
  }
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
  Layer& DepthwiseInitializer(const Initializer& initializer) {
    depthwise_initializer = initializer;
    settings |= kSetDepthwiseInitializer;
    return *this;
  }
  Layer& DepthwiseRegularizer(const Regularizer& regularizer) {
    depthwise_regularizer = regularizer;
    settings |= kSetDepthwiseRegularizer;
    return *this;
  }
  Layer& PointwiseInitializer(const Initializer& initializer) {
    pointwise_initializer = initializer;
    settings |= kSetPointwiseInitializer;
    return *this;
  }
  Layer& PointwiseRegularizer(const Regularizer& regularizer) {
    pointwise_regularizer = regularizer;
    settings |= kSetPointwiseRegularizer;
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
  Layer& Center(bool with_beta) {
    center = with_beta;
    settings |= kSetCenter;
    return *this;
  }
  Layer& Scale(bool with_gamma) {
    scale = with_gamma;
    settings |= kSetScale;
    return *this;
  }
  Layer& GammaInitializer(const Initializer& initializer) {
    gamma_initializer = initializer;
    settings |= kSetGammaInitializer;
    return *this;
  }
  Layer& BetaInitializer(const Initializer& initializer) {
    beta_initializer = initializer;
    settings |= kSetBetaInitializer;
    return *this;
  }
  Layer& GammaRegularizer(const Regularizer& regularizer) {
    gamma_regularizer = regularizer;
    settings |= kSetGammaRegularizer;
    return *this;
  }
  Layer& BetaRegularizer(const Regularizer& regularizer) {
    beta_regularizer = regularizer;
    settings |= kSetBetaRegularizer;
    return *this;
  }
  Layer& MovingMeanInitializer(const Initializer& initializer) {
    moving_mean_initializer = initializer;
    settings |= kSetMovingMeanInitializer;
    return *this;
  }
  Layer& MovingVarianceInitializer(const Initializer& initializer) {
    moving_variance_initializer = initializer;
    settings |= kSetMovingVarianceInitializer;
    return *this;
  }
  // The axes of which one mean, or sum, is taken, as Keras counts them: the
  // batch is 0, the last -1. Those of a mean must be the last ones.
  Layer& Axes(const std::vector<int64_t>& normalized) {
    axes = normalized;
    settings |= kSetAxes;
    return *this;
  }
  Layer& AlphaInitializer(const Initializer& initializer) {
    alpha_initializer = initializer;
    settings |= kSetAlphaInitializer;
    return *this;
  }
  Layer& AlphaRegularizer(const Regularizer& regularizer) {
    alpha_regularizer = regularizer;
    settings |= kSetAlphaRegularizer;
    return *this;
  }
  // From normalized values to those of before.
  Layer& Invert(bool inverts) {
    invert = inverts;
    settings |= kSetInvert;
    return *this;
  }
  // While training statistics are over the batches of all workers, which wait
  // for each other in every such layer.
  Layer& Synchronized(bool over_workers) {
    synchronized = over_workers;
    settings |= kSetSynchronized;
    return *this;
  }
};

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_LAYER_H_
