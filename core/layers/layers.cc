#include "ringlet/layers.h"

#include <algorithm>
#include <array>

#include "../base/text.h"
#include "layer_kind.h"
#include "layer_settings.h"

namespace ringlet {
namespace {

Layer Make(Layer::Kind kind) {
  Layer layer;
  layer.kind = kind;
  return layer;
}

Layer Recurrent(Layer::Kind kind, int64_t units, Activation activation,
                Activation recurrent_activation) {
  Layer layer = Make(kind);
  layer.units = units;
  layer.activation = activation;
  layer.recurrent_activation = recurrent_activation;
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

Layer::Layer() = default;
Layer::Layer(const Layer&) = default;
Layer::Layer(Layer&&) noexcept = default;
Layer& Layer::operator=(const Layer&) = default;
Layer& Layer::operator=(Layer&&) noexcept = default;
Layer::~Layer() = default;

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
  Layer both = Make(Layer::Kind::kBidirectional);
  both.layer = std::make_shared<Layer>(forward);
  both.backward_layer = std::make_shared<Layer>(backward);
  both.merge_mode = merge_mode;
  return both;
}
Layer TimeDistributed(const Layer& layer) {
  Layer wrapper = Make(Layer::Kind::kTimeDistributed);
  Layer inner = layer;
  if (inner.name.empty()) inner.name = SnakeCase(ClassName(inner));
  wrapper.layer = std::make_shared<Layer>(std::move(inner));
  return wrapper;
}
Layer RecurrentOutput(int64_t tensor) {
  Layer layer = Make(Layer::Kind::kRecurrentOutput);
  layer.tensor = tensor;
  return layer;
}
Layer RepeatVector(int64_t n) {
  Layer layer = Make(Layer::Kind::kRepeatVector);
  layer.repeats = n;
  return layer;
}
Layer MelSpectrogram() { return Make(Layer::Kind::kMelSpectrogram); }
Layer MFCC() {
  Layer layer = Make(Layer::Kind::kMFCC);
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
Layer Embedding(int64_t input_dim, int64_t output_dim) {
  Layer layer = Make(Layer::Kind::kEmbedding);
  layer.input_dim = input_dim;
  layer.units = output_dim;
  return layer;
}
Layer PositionEmbedding(int64_t sequence_length) {
  Layer layer = Make(Layer::Kind::kPositionEmbedding);
  layer.input_dim = sequence_length;
  layer.embeddings_initializer = GlorotUniform();
  return layer;
}
Layer Attention() { return Make(Layer::Kind::kAttention); }
Layer MultiHeadAttention(int64_t num_heads, int64_t key_dim) {
  Layer layer = Make(Layer::Kind::kMultiHeadAttention);
  layer.num_heads = num_heads;
  layer.key_dim = key_dim;
  return layer;
}

namespace {

// Sets a member of a layer, and records that its setter was called.
template <typename T>
Layer& SetMember(T Layer::*member, const T& value, uint64_t setting,
                 Layer* layer) {
  layer->*member = value;
  layer->settings |= setting;
  return *layer;
}

}  // namespace

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

Layer& Layer::OutputPadding(int64_t height, int64_t width) {
  output_padding[0] = height;
  output_padding[1] = width;
  settings |= kSetOutputPadding;
  return *this;
}

Layer& Layer::Groups(int64_t number) {
  return SetMember(&Layer::groups, number, kSetGroups, this);
}
Layer& Layer::DepthMultiplier(int64_t filters_per_channel) {
  return SetMember(&Layer::depth_multiplier, filters_per_channel,
                   kSetDepthMultiplier, this);
}
Layer& Layer::Padding(PaddingMode mode) {
  return SetMember(&Layer::padding, mode, kSetPadding, this);
}
Layer& Layer::UseBias(bool use) {
  return SetMember(&Layer::use_bias, use, kSetUseBias, this);
}
Layer& Layer::KernelInitializer(const Initializer& initializer) {
  return SetMember(&Layer::kernel_initializer, initializer,
                   kSetKernelInitializer, this);
}
Layer& Layer::BiasInitializer(const Initializer& initializer) {
  return SetMember(&Layer::bias_initializer, initializer, kSetBiasInitializer,
                   this);
}
Layer& Layer::KernelRegularizer(const Regularizer& regularizer) {
  return SetMember(&Layer::kernel_regularizer, regularizer,
                   kSetKernelRegularizer, this);
}
Layer& Layer::KernelConstraint(const Constraint& constraint) {
  return SetMember(&Layer::kernel_constraint, constraint, kSetKernelConstraint,
                   this);
}
Layer& Layer::BiasRegularizer(const Regularizer& regularizer) {
  return SetMember(&Layer::bias_regularizer, regularizer, kSetBiasRegularizer,
                   this);
}
Layer& Layer::BiasConstraint(const Constraint& constraint) {
  return SetMember(&Layer::bias_constraint, constraint, kSetBiasConstraint,
                   this);
}
Layer& Layer::DepthwiseInitializer(const Initializer& initializer) {
  return SetMember(&Layer::depthwise_initializer, initializer,
                   kSetDepthwiseInitializer, this);
}
Layer& Layer::DepthwiseRegularizer(const Regularizer& regularizer) {
  return SetMember(&Layer::depthwise_regularizer, regularizer,
                   kSetDepthwiseRegularizer, this);
}
Layer& Layer::DepthwiseConstraint(const Constraint& constraint) {
  return SetMember(&Layer::depthwise_constraint, constraint,
                   kSetDepthwiseConstraint, this);
}
Layer& Layer::PointwiseInitializer(const Initializer& initializer) {
  return SetMember(&Layer::pointwise_initializer, initializer,
                   kSetPointwiseInitializer, this);
}
Layer& Layer::PointwiseRegularizer(const Regularizer& regularizer) {
  return SetMember(&Layer::pointwise_regularizer, regularizer,
                   kSetPointwiseRegularizer, this);
}
Layer& Layer::PointwiseConstraint(const Constraint& constraint) {
  return SetMember(&Layer::pointwise_constraint, constraint,
                   kSetPointwiseConstraint, this);
}
Layer& Layer::KeepDims(bool keep) {
  return SetMember(&Layer::keepdims, keep, kSetKeepDims, this);
}
Layer& Layer::Seed(uint64_t s) {
  return SetMember(&Layer::seed, s, kSetSeed, this);
}
Layer& Layer::NoiseShape(const Shape& sizes) {
  return SetMember(&Layer::noise_shape, sizes, kSetNoiseShape, this);
}
Layer& Layer::FillMode(ringlet::FillMode mode_outside) {
  return SetMember(&Layer::fill_mode, mode_outside, kSetFillMode, this);
}
Layer& Layer::FillValue(float value) {
  return SetMember(&Layer::fill_value, value, kSetFillValue, this);
}
Layer& Layer::Interpolation(ringlet::Interpolation between_pixels) {
  return SetMember(&Layer::interpolation, between_pixels, kSetInterpolation,
                   this);
}
Layer& Layer::ValueRange(float low, float high) {
  return SetMember(&Layer::value_range, FloatRange(low, high), kSetValueRange,
                   this);
}
Layer& Layer::CropToAspectRatio(bool crop) {
  return SetMember(&Layer::crop_to_aspect_ratio, crop, kSetCropToAspectRatio,
                   this);
}
Layer& Layer::PadToAspectRatio(bool pad) {
  return SetMember(&Layer::pad_to_aspect_ratio, pad, kSetPadToAspectRatio,
                   this);
}
Layer& Layer::Center(bool with_beta) {
  return SetMember(&Layer::center, with_beta, kSetCenter, this);
}
Layer& Layer::Scale(bool with_gamma) {
  return SetMember(&Layer::scale, with_gamma, kSetScale, this);
}
Layer& Layer::GammaInitializer(const Initializer& initializer) {
  return SetMember(&Layer::gamma_initializer, initializer, kSetGammaInitializer,
                   this);
}
Layer& Layer::BetaInitializer(const Initializer& initializer) {
  return SetMember(&Layer::beta_initializer, initializer, kSetBetaInitializer,
                   this);
}
Layer& Layer::GammaRegularizer(const Regularizer& regularizer) {
  return SetMember(&Layer::gamma_regularizer, regularizer, kSetGammaRegularizer,
                   this);
}
Layer& Layer::GammaConstraint(const Constraint& constraint) {
  return SetMember(&Layer::gamma_constraint, constraint, kSetGammaConstraint,
                   this);
}
Layer& Layer::BetaRegularizer(const Regularizer& regularizer) {
  return SetMember(&Layer::beta_regularizer, regularizer, kSetBetaRegularizer,
                   this);
}
Layer& Layer::BetaConstraint(const Constraint& constraint) {
  return SetMember(&Layer::beta_constraint, constraint, kSetBetaConstraint,
                   this);
}
Layer& Layer::MovingMeanInitializer(const Initializer& initializer) {
  return SetMember(&Layer::moving_mean_initializer, initializer,
                   kSetMovingMeanInitializer, this);
}
Layer& Layer::MovingVarianceInitializer(const Initializer& initializer) {
  return SetMember(&Layer::moving_variance_initializer, initializer,
                   kSetMovingVarianceInitializer, this);
}
Layer& Layer::Axes(const std::vector<int64_t>& normalized) {
  return SetMember(&Layer::axes, normalized, kSetAxes, this);
}
Layer& Layer::AlphaInitializer(const Initializer& initializer) {
  return SetMember(&Layer::alpha_initializer, initializer, kSetAlphaInitializer,
                   this);
}
Layer& Layer::AlphaRegularizer(const Regularizer& regularizer) {
  return SetMember(&Layer::alpha_regularizer, regularizer, kSetAlphaRegularizer,
                   this);
}
Layer& Layer::AlphaConstraint(const Constraint& constraint) {
  return SetMember(&Layer::alpha_constraint, constraint, kSetAlphaConstraint,
                   this);
}
Layer& Layer::RecurrentInitializer(const Initializer& initializer) {
  return SetMember(&Layer::recurrent_initializer, initializer,
                   kSetRecurrentInitializer, this);
}
Layer& Layer::RecurrentRegularizer(const Regularizer& regularizer) {
  return SetMember(&Layer::recurrent_regularizer, regularizer,
                   kSetRecurrentRegularizer, this);
}
Layer& Layer::RecurrentConstraint(const Constraint& constraint) {
  return SetMember(&Layer::recurrent_constraint, constraint,
                   kSetRecurrentConstraint, this);
}
Layer& Layer::ReturnSequences(bool all_steps) {
  return SetMember(&Layer::return_sequences, all_steps, kSetReturnSequences,
                   this);
}
Layer& Layer::ReturnState(bool states) {
  return SetMember(&Layer::return_state, states, kSetReturnState, this);
}
Layer& Layer::GoBackwards(bool from_end) {
  return SetMember(&Layer::go_backwards, from_end, kSetGoBackwards, this);
}
Layer& Layer::Dropout(float fraction) {
  return SetMember(&Layer::dropout, fraction, kSetDropout, this);
}
Layer& Layer::RecurrentDropout(float fraction) {
  return SetMember(&Layer::recurrent_dropout, fraction, kSetRecurrentDropout,
                   this);
}
Layer& Layer::UseCausalMask(bool hides_later) {
  return SetMember(&Layer::use_causal_mask, hides_later, kSetUseCausalMask,
                   this);
}
Layer& Layer::ValueDim(int64_t size) {
  return SetMember(&Layer::value_dim, size, kSetValueDim, this);
}
Layer& Layer::LoraRank(int64_t rank) {
  return SetMember(&Layer::lora_rank, rank, kSetLoraRank, this);
}
Layer& Layer::LoraAlpha(int64_t alpha) {
  return SetMember(&Layer::lora_alpha, alpha, kSetLoraAlpha, this);
}
Layer& Layer::UseScale(bool trained) {
  return SetMember(&Layer::use_scale, trained, kSetUseScale, this);
}
Layer& Layer::UnitForgetBias(bool ones) {
  return SetMember(&Layer::unit_forget_bias, ones, kSetUnitForgetBias, this);
}
Layer& Layer::ResetAfter(bool after) {
  return SetMember(&Layer::reset_after, after, kSetResetAfter, this);
}
Layer& Layer::EmbeddingsInitializer(const Initializer& initializer) {
  return SetMember(&Layer::embeddings_initializer, initializer,
                   kSetEmbeddingsInitializer, this);
}
Layer& Layer::EmbeddingsRegularizer(const Regularizer& regularizer) {
  return SetMember(&Layer::embeddings_regularizer, regularizer,
                   kSetEmbeddingsRegularizer, this);
}
Layer& Layer::EmbeddingsConstraint(const Constraint& constraint) {
  return SetMember(&Layer::embeddings_constraint, constraint,
                   kSetEmbeddingsConstraint, this);
}
Layer& Layer::Invert(bool inverts) {
  return SetMember(&Layer::invert, inverts, kSetInvert, this);
}
Layer& Layer::Synchronized(bool over_workers) {
  return SetMember(&Layer::synchronized, over_workers, kSetSynchronized, this);
}

}  // namespace ringlet
