// Layer::Kind: the classes of layers. Each has a row in layer_table.cc.

#ifndef RINGLET_CORE_LAYERS_LAYER_KIND_H_
#define RINGLET_CORE_LAYERS_LAYER_KIND_H_

#include <cstdint>

#include "ringlet/layers.h"

namespace ringlet {

enum class Layer::Kind : uint8_t {
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
  kConv2DTranspose,
  kConv1DTranspose,
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
  kRandomFlip,
  kRandomTranslation,
  kRandomRotation,
  kRandomZoom,
  kRandomCrop,
  kRandomContrast,
  kRandomBrightness,
  kCenterCrop,
  kResizing,
  kAdd,
  kSubtract,
  kMultiply,
  kAverage,
  kMaximum,
  kMinimum,
  kConcatenate,
  kDot,
  kSimpleRNN,
  kLSTM,
  kGRU,
  kBidirectional,
  kTimeDistributed,
  kRecurrentOutput,
  kRepeatVector,
  kEmbedding,
  kMasking,
  kMask,
  kPositionEmbedding,
  kAttention,
  kAdditiveAttention,
  kMultiHeadAttention,
  kBatchNormalization,
  kLayerNormalization,
  kGroupNormalization,
  kUnitNormalization,
  kRescaling,
  kNormalization,
  kMelSpectrogram,
  kMFCC,
  kSTFTSpectrogram,
  kCustom,
  kModel,
};

// A layer of this kind, with values for pairs of members:
//
//   MakeLayer(Layer::Kind::kELU, &Layer::alpha, alpha)
inline Layer MakeLayer(Layer::Kind kind) {
  Layer layer;
  layer.kind = kind;
  return layer;
}
template <typename T, typename Value, typename... Others>
Layer MakeLayer(Layer::Kind kind, T Layer::*member, const Value& value,
                const Others&... others) {
  Layer layer = MakeLayer(kind, others...);
  layer.*member = value;
  return layer;
}

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_LAYER_KIND_H_
