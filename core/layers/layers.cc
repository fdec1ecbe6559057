// The factories of ringlet/layers.h, which set members and check nothing:
// Op::Make checks a layer, when its input is known. A 1D window has the size 1
// in its first axis. They do not call setters, so `settings` lists only what
// the caller has set.

#include "ringlet/layers.h"

#include <algorithm>
#include <array>

#include "../base/text.h"
#include "layer_kind.h"
#include "layer_settings.h"

namespace ringlet {
namespace {

Layer Recurrent(Layer::Kind kind, int64_t units, Activation activation,
                Activation recurrent_activation) {
  return MakeLayer(kind, &Layer::units, units, &Layer::activation, activation,
                   &Layer::recurrent_activation, recurrent_activation);
}

Layer Conv(Layer::Kind kind, int64_t filters, int64_t height, int64_t width,
           Activation activation) {
  Layer layer = MakeLayer(kind);
  layer.units = filters;
  layer.window[0] = height;
  layer.window[1] = width;
  layer.activation = activation;
  return layer;
}

Layer Pooling(Layer::Kind kind, int64_t height, int64_t width) {
  Layer layer = MakeLayer(kind);
  layer.window[0] = layer.strides[0] = height;
  layer.window[1] = layer.strides[1] = width;
  return layer;
}

Layer Borders(Layer::Kind kind, const std::array<int64_t, 4>& borders) {
  Layer layer = MakeLayer(kind);
  std::copy(borders.begin(), borders.end(), layer.borders);
  return layer;
}

}  // namespace

Layer::Layer() = default;
Layer::Layer(const Layer&) = default;
Layer::Layer(Layer&&) noexcept = default;
Layer& Layer::operator=(const Layer&) = default;
Layer& Layer::operator=(Layer&&) noexcept = default;
Layer::~Layer() = default;

Layer Input(const Shape& shape) {
  return MakeLayer(Layer::Kind::kInput, &Layer::shape, shape);
}
Layer Reshape(const Shape& target_shape) {
  return MakeLayer(Layer::Kind::kReshape, &Layer::shape, target_shape);
}
Layer Flatten() { return MakeLayer(Layer::Kind::kFlatten); }
Layer Dense(int64_t units, Activation activation) {
  return MakeLayer(Layer::Kind::kDense, &Layer::units, units,
                   &Layer::activation, activation);
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
Layer Conv2DTranspose(int64_t filters, int64_t kernel_height,
                      int64_t kernel_width, Activation activation) {
  return Conv(Layer::Kind::kConv2DTranspose, filters, kernel_height,
              kernel_width, activation);
}
Layer Conv2DTranspose(int64_t filters, int64_t kernel_size,
                      Activation activation) {
  return Conv2DTranspose(filters, kernel_size, kernel_size, activation);
}
Layer Conv1DTranspose(int64_t filters, int64_t kernel_size,
                      Activation activation) {
  return Conv(Layer::Kind::kConv1DTranspose, filters, 1, kernel_size,
              activation);
}
Layer ActivationLayer(Activation activation) {
  return MakeLayer(Layer::Kind::kActivation, &Layer::activation, activation);
}
Layer ReLU(float max_value, float negative_slope, float threshold) {
  return MakeLayer(Layer::Kind::kReLU, &Layer::max_value, max_value,
                   &Layer::negative_slope, negative_slope, &Layer::threshold,
                   threshold);
}
Layer LeakyReLU(float negative_slope) {
  return MakeLayer(Layer::Kind::kLeakyReLU, &Layer::negative_slope,
                   negative_slope);
}
Layer ELU(float alpha) {
  return MakeLayer(Layer::Kind::kELU, &Layer::alpha, alpha);
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
  return MakeLayer(Layer::Kind::kGlobalAveragePooling2D);
}
Layer GlobalAveragePooling1D() {
  return MakeLayer(Layer::Kind::kGlobalAveragePooling1D);
}
Layer GlobalMaxPooling2D() {
  return MakeLayer(Layer::Kind::kGlobalMaxPooling2D);
}
Layer GlobalMaxPooling1D() {
  return MakeLayer(Layer::Kind::kGlobalMaxPooling1D);
}
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
  Layer layer = MakeLayer(Layer::Kind::kUpSampling2D);
  layer.window[0] = height;
  layer.window[1] = width;
  return layer;
}
Layer UpSampling2D(int64_t size) { return UpSampling2D(size, size); }
Layer UpSampling1D(int64_t size) {
  Layer layer = MakeLayer(Layer::Kind::kUpSampling1D);
  layer.window[1] = size;
  return layer;
}
Layer Permute(const Shape& dims) {
  return MakeLayer(Layer::Kind::kPermute, &Layer::shape, dims);
}
Layer Add() { return MakeLayer(Layer::Kind::kAdd); }
Layer Subtract() { return MakeLayer(Layer::Kind::kSubtract); }
Layer Multiply() { return MakeLayer(Layer::Kind::kMultiply); }
Layer Average() { return MakeLayer(Layer::Kind::kAverage); }
Layer Maximum() { return MakeLayer(Layer::Kind::kMaximum); }
Layer Minimum() { return MakeLayer(Layer::Kind::kMinimum); }
Layer Concatenate() { return MakeLayer(Layer::Kind::kConcatenate); }
Layer SimpleRNN(int64_t units, Activation activation) {
  return Recurrent(Layer::Kind::kSimpleRNN, units, activation, kSigmoid);
}
Layer LSTM(int64_t units, Activation activation,
           Activation recurrent_activation) {
  return Recurrent(Layer::Kind::kLSTM, units, activation, recurrent_activation);
}
Layer GRU(int64_t units, Activation activation,
          Activation recurrent_activation) {
  return Recurrent(Layer::Kind::kGRU, units, activation, recurrent_activation);
}
Layer Bidirectional(const Layer& layer, MergeMode merge_mode) {
  Layer backward = layer;
  backward.go_backwards = !layer.go_backwards;
  return Bidirectional(layer, backward, merge_mode);
}
Layer Bidirectional(const Layer& forward, const Layer& backward,
                    MergeMode merge_mode) {
  return MakeLayer(Layer::Kind::kBidirectional, &Layer::layer,
                   std::make_shared<Layer>(forward), &Layer::backward_layer,
                   std::make_shared<Layer>(backward), &Layer::merge_mode,
                   merge_mode);
}
Layer TimeDistributed(const Layer& layer) {
  Layer wrapper = MakeLayer(Layer::Kind::kTimeDistributed);
  Layer inner = layer;
  if (inner.name.empty()) inner.name = SnakeCase(ClassName(inner));
  wrapper.layer = std::make_shared<Layer>(std::move(inner));
  return wrapper;
}
Layer RecurrentOutput(int64_t tensor) {
  return MakeLayer(Layer::Kind::kRecurrentOutput, &Layer::tensor, tensor);
}
Layer RepeatVector(int64_t n) {
  return MakeLayer(Layer::Kind::kRepeatVector, &Layer::repeats, n);
}
Layer MelSpectrogram() { return MakeLayer(Layer::Kind::kMelSpectrogram); }
Layer MFCC() {
  Layer layer = MakeLayer(Layer::Kind::kMFCC);
  layer.fft_length = 0;
  layer.sequence_length = 480;
  layer.sequence_stride = 320;
  layer.num_mel_bins = 40;
  layer.max_freq = 4000;
  layer.mag_exp = 1;
  layer.power_to_db = false;
  layer.centered = false;
  return layer;
}
Layer STFTSpectrogram() {
  Layer layer = MakeLayer(Layer::Kind::kSTFTSpectrogram);
  layer.trainable = false;
  layer.sequence_length = 256;
  layer.sequence_stride = layer.fft_length = 0;
  return layer;
}
Layer Embedding(int64_t input_dim, int64_t output_dim) {
  return MakeLayer(Layer::Kind::kEmbedding, &Layer::input_dim, input_dim,
                   &Layer::units, output_dim);
}
Layer GroupNormalization(int64_t groups, float epsilon) {
  return MakeLayer(Layer::Kind::kGroupNormalization, &Layer::groups, groups,
                   &Layer::epsilon, epsilon);
}
Layer Masking(float mask_value) {
  return MakeLayer(Layer::Kind::kMasking, &Layer::mask_value, mask_value);
}
Layer PositionEmbedding(int64_t sequence_length) {
  return MakeLayer(Layer::Kind::kPositionEmbedding, &Layer::input_dim,
                   sequence_length, &Layer::embeddings_initializer,
                   GlorotUniform());
}
Layer Attention() { return MakeLayer(Layer::Kind::kAttention); }
Layer AdditiveAttention() {
  return MakeLayer(Layer::Kind::kAdditiveAttention, &Layer::use_scale, true);
}
Layer MultiHeadAttention(int64_t num_heads, int64_t key_dim) {
  return MakeLayer(Layer::Kind::kMultiHeadAttention, &Layer::num_heads,
                   num_heads, &Layer::key_dim, key_dim);
}

namespace {

// Sets a member of a layer, and records that its setter was called.
template <typename T>
Layer& SetMember(T Layer::*member, const T& value, LayerSetting setting,
                 Layer* layer) {
  layer->*member = value;
  layer->settings.set(setting);
  return *layer;
}

}  // namespace

// A setter a line: its name, the type of its argument, and the member.
#define RINGLET_SETTER(Name, Type, member)                     \
  Layer& Layer::Name(Type value) {                             \
    return SetMember(&Layer::member, value, kSet##Name, this); \
  }
RINGLET_SETTER(Groups, int64_t, groups)
RINGLET_SETTER(DepthMultiplier, int64_t, depth_multiplier)
RINGLET_SETTER(Padding, PaddingMode, padding)
RINGLET_SETTER(UseBias, bool, use_bias)
RINGLET_SETTER(KernelInitializer, const Initializer&, kernel_initializer)
RINGLET_SETTER(BiasInitializer, const Initializer&, bias_initializer)
RINGLET_SETTER(KernelRegularizer, const Regularizer&, kernel_regularizer)
RINGLET_SETTER(KernelConstraint, const Constraint&, kernel_constraint)
RINGLET_SETTER(BiasRegularizer, const Regularizer&, bias_regularizer)
RINGLET_SETTER(BiasConstraint, const Constraint&, bias_constraint)
RINGLET_SETTER(DepthwiseInitializer, const Initializer&, depthwise_initializer)
RINGLET_SETTER(DepthwiseRegularizer, const Regularizer&, depthwise_regularizer)
RINGLET_SETTER(DepthwiseConstraint, const Constraint&, depthwise_constraint)
RINGLET_SETTER(PointwiseInitializer, const Initializer&, pointwise_initializer)
RINGLET_SETTER(PointwiseRegularizer, const Regularizer&, pointwise_regularizer)
RINGLET_SETTER(PointwiseConstraint, const Constraint&, pointwise_constraint)
RINGLET_SETTER(KeepDims, bool, keepdims)
RINGLET_SETTER(Seed, uint64_t, seed)
RINGLET_SETTER(NoiseShape, const Shape&, noise_shape)
RINGLET_SETTER(FillMode, ringlet::FillMode, fill_mode)
RINGLET_SETTER(FillValue, float, fill_value)
RINGLET_SETTER(Interpolation, ringlet::Interpolation, interpolation)
RINGLET_SETTER(CropToAspectRatio, bool, crop_to_aspect_ratio)
RINGLET_SETTER(PadToAspectRatio, bool, pad_to_aspect_ratio)
RINGLET_SETTER(Center, bool, center)
RINGLET_SETTER(Scale, bool, scale)
RINGLET_SETTER(GammaInitializer, const Initializer&, gamma_initializer)
RINGLET_SETTER(BetaInitializer, const Initializer&, beta_initializer)
RINGLET_SETTER(GammaRegularizer, const Regularizer&, gamma_regularizer)
RINGLET_SETTER(GammaConstraint, const Constraint&, gamma_constraint)
RINGLET_SETTER(BetaRegularizer, const Regularizer&, beta_regularizer)
RINGLET_SETTER(BetaConstraint, const Constraint&, beta_constraint)
RINGLET_SETTER(MovingMeanInitializer, const Initializer&,
               moving_mean_initializer)
RINGLET_SETTER(MovingVarianceInitializer, const Initializer&,
               moving_variance_initializer)
RINGLET_SETTER(Axes, const std::vector<int64_t>&, axes)
RINGLET_SETTER(AlphaInitializer, const Initializer&, alpha_initializer)
RINGLET_SETTER(AlphaRegularizer, const Regularizer&, alpha_regularizer)
RINGLET_SETTER(AlphaConstraint, const Constraint&, alpha_constraint)
RINGLET_SETTER(RecurrentInitializer, const Initializer&, recurrent_initializer)
RINGLET_SETTER(RecurrentRegularizer, const Regularizer&, recurrent_regularizer)
RINGLET_SETTER(RecurrentConstraint, const Constraint&, recurrent_constraint)
RINGLET_SETTER(ReturnSequences, bool, return_sequences)
RINGLET_SETTER(ReturnState, bool, return_state)
RINGLET_SETTER(GoBackwards, bool, go_backwards)
RINGLET_SETTER(ZeroOutputForMask, bool, zero_output_for_mask)
RINGLET_SETTER(Dropout, float, dropout)
RINGLET_SETTER(RecurrentDropout, float, recurrent_dropout)
RINGLET_SETTER(UseCausalMask, bool, use_causal_mask)
RINGLET_SETTER(ValueDim, int64_t, value_dim)
RINGLET_SETTER(LoraRank, int64_t, lora_rank)
RINGLET_SETTER(LoraAlpha, int64_t, lora_alpha)
RINGLET_SETTER(UseScale, bool, use_scale)
RINGLET_SETTER(UnitForgetBias, bool, unit_forget_bias)
RINGLET_SETTER(ResetAfter, bool, reset_after)
RINGLET_SETTER(EmbeddingsInitializer, const Initializer&,
               embeddings_initializer)
RINGLET_SETTER(EmbeddingsRegularizer, const Regularizer&,
               embeddings_regularizer)
RINGLET_SETTER(EmbeddingsConstraint, const Constraint&, embeddings_constraint)
RINGLET_SETTER(MaskZero, bool, mask_zero)
RINGLET_SETTER(Invert, bool, invert)
RINGLET_SETTER(Synchronized, bool, synchronized)
#undef RINGLET_SETTER

Layer& Layer::Name(std::string n) {
  name = std::move(n);
  return *this;
}

Layer& Layer::Trainable(bool train) {
  trainable = train;
  return *this;
}

Layer& Layer::DType(DTypePolicy policy) {
  dtype = policy;
  return *this;
}

Layer& Layer::Strides(int64_t height, int64_t width) {
  strides[0] = height;
  strides[1] = width;
  settings.set(kSetStrides);
  return *this;
}

Layer& Layer::DilationRate(int64_t height, int64_t width) {
  dilation[0] = height;
  dilation[1] = width;
  settings.set(kSetDilationRate);
  return *this;
}

Layer& Layer::OutputPadding(int64_t height, int64_t width) {
  output_padding[0] = height;
  output_padding[1] = width;
  settings.set(kSetOutputPadding);
  return *this;
}

Layer& Layer::ValueRange(float low, float high) {
  return SetMember(&Layer::value_range, FloatRange(low, high), kSetValueRange,
                   this);
}

}  // namespace ringlet
