// The rows of the table of layer_table.h. layer_fields.h has each layer's
// fields.

#include "layer_table.h"

#include "../base/check.h"
#include "layer_fields.h"
#include "nested_model.h"
#include "ringlet/custom_layer.h"

namespace ringlet {

// Each is defined beside its mathematics.
OpMaker MakeActivation, MakeAttention, MakeBatchNormalization, MakeColorChange,
    MakeConcatenate, MakeConv, MakeDot, MakeConvTranspose, MakeCustom,
    MakeDense, MakeDepthwiseConv, MakeELU, MakeEmbedding, MakeFrame,
    MakeGlobalPooling, MakeGroupNormalization, MakeLayerNormalization, MakeMask,
    MakeMasking, MakeMerge, MakeMultiHeadAttention, MakeNoise,
    MakeNormalization, MakePReLU, MakePermute, MakePooling, MakeSpectrogram,
    MakeStft, MakePositionEmbedding, MakeReLU, MakeRecurrent,
    MakeRecurrentOutput, MakeRepeatVector, MakeRescaling, MakeReshape,
    MakeResizing, MakeSeparableConv, MakeSoftmax, MakeTimeDistributed,
    MakeUnitNormalization, MakeUpSampling, MakeWarp;

namespace {

using Kind = Layer::Kind;
constexpr LayerInputs kNone = LayerInputs::kNone, kOne = LayerInputs::kOne,
                      kList = LayerInputs::kList, kAny = LayerInputs::kAny,
                      kStates = LayerInputs::kStates;
constexpr MaskRule kLoses = MaskRule::kLoses, kPasses = MaskRule::kPasses,
                   kTakes = MaskRule::kTakes, kAttends = MaskRule::kAttends,
                   kRefuses = MaskRule::kRefuses;
constexpr bool kKeepsLayout = true, kOwnLayout = false;
constexpr LayerFields kNoFields;

constexpr LayerClass kLayers[] = {
    {"InputLayer", "", Kind::kInput, [] { return Input({}); }, kNone, kLoses,
     nullptr},
    {"Reshape", "", Kind::kReshape, [] { return Reshape({}); }, kOne, kLoses,
     MakeReshape, kReshapeFields},
    {"Flatten", "", Kind::kFlatten, Flatten, kOne, kLoses, MakeReshape,
     kFlattenFields},
    {"Dense", "", Kind::kDense, [] { return Dense(1); }, kOne, kPasses,
     MakeDense, kDenseFields},
    {"Conv2D", "Convolution2D", Kind::kConv2D, [] { return Conv2D(1, 1); },
     kOne, kLoses, MakeConv, kConv2DFields, kOwnLayout, 2},
    {"Conv1D", "Convolution1D", Kind::kConv1D, [] { return Conv1D(1, 1); },
     kOne, kLoses, MakeConv, kConv1DFields, kOwnLayout, 1},
    {"DepthwiseConv2D", "DepthwiseConvolution2D", Kind::kDepthwiseConv2D,
     [] { return DepthwiseConv2D(1); }, kOne, kLoses, MakeDepthwiseConv,
     kDepthwiseFields, kOwnLayout, 2},
    {"DepthwiseConv1D", "DepthwiseConvolution1D", Kind::kDepthwiseConv1D,
     [] { return DepthwiseConv1D(1); }, kOne, kLoses, MakeDepthwiseConv,
     kDepthwiseFields, kOwnLayout, 1},
    {"SeparableConv2D", "SeparableConvolution2D", Kind::kSeparableConv2D,
     [] { return SeparableConv2D(1, 1); }, kOne, kLoses, MakeSeparableConv,
     kSeparableFields, kOwnLayout, 2},
    {"SeparableConv1D", "SeparableConvolution1D", Kind::kSeparableConv1D,
     [] { return SeparableConv1D(1, 1); }, kOne, kLoses, MakeSeparableConv,
     kSeparableFields, kOwnLayout, 1},
    {"Conv2DTranspose", "Convolution2DTranspose", Kind::kConv2DTranspose,
     [] { return Conv2DTranspose(1, 1); }, kOne, kLoses, MakeConvTranspose,
     kConvTransposeFields, kOwnLayout, 2},
    {"Conv1DTranspose", "Convolution1DTranspose", Kind::kConv1DTranspose,
     [] { return Conv1DTranspose(1, 1); }, kOne, kLoses, MakeConvTranspose,
     kConvTransposeFields, kOwnLayout, 1},
    {"Activation", "", Kind::kActivation,
     [] { return ActivationLayer(kLinear); }, kOne, kPasses, MakeActivation,
     kActivationFields, kKeepsLayout},
    {"ReLU", "", Kind::kReLU, [] { return ReLU(); }, kOne, kPasses, MakeReLU,
     kReLUFields, kKeepsLayout},
    {"LeakyReLU", "", Kind::kLeakyReLU, [] { return LeakyReLU(); }, kOne,
     kPasses, MakeReLU, kLeakyReLUFields, kKeepsLayout},
    {"ELU", "", Kind::kELU, [] { return ELU(); }, kOne, kPasses, MakeELU,
     kELUFields, kKeepsLayout},
    {"PReLU", "", Kind::kPReLU, [] { return PReLU(); }, kOne, kPasses,
     MakePReLU, kPReLUFields, kKeepsLayout},
    {"Softmax", "", Kind::kSoftmax, [] { return Softmax({1}).Axes({-1}); },
     kOne, kRefuses, MakeSoftmax, kAxesFields, kKeepsLayout},
    {"MaxPooling2D", "MaxPool2D", Kind::kMaxPooling2D,
     [] { return MaxPooling2D(); }, kOne, kLoses, MakePooling, kPoolingFields,
     kOwnLayout, 2},
    {"MaxPooling1D", "MaxPool1D", Kind::kMaxPooling1D,
     [] { return MaxPooling1D(); }, kOne, kLoses, MakePooling, kPoolingFields,
     kOwnLayout, 1},
    {"AveragePooling2D", "AvgPool2D", Kind::kAveragePooling2D,
     [] { return AveragePooling2D(); }, kOne, kLoses, MakePooling,
     kPoolingFields, kOwnLayout, 2},
    {"AveragePooling1D", "AvgPool1D", Kind::kAveragePooling1D,
     [] { return AveragePooling1D(); }, kOne, kLoses, MakePooling,
     kPoolingFields, kOwnLayout, 1},
    {"GlobalAveragePooling2D", "GlobalAvgPool2D", Kind::kGlobalAveragePooling2D,
     GlobalAveragePooling2D, kOne, kLoses, MakeGlobalPooling,
     kGlobalPoolingFields, kOwnLayout, 2},
    {"GlobalAveragePooling1D", "GlobalAvgPool1D", Kind::kGlobalAveragePooling1D,
     GlobalAveragePooling1D, kOne, kTakes, MakeGlobalPooling,
     kGlobalPoolingFields, kOwnLayout, 1},
    {"GlobalMaxPooling2D", "GlobalMaxPool2D", Kind::kGlobalMaxPooling2D,
     GlobalMaxPooling2D, kOne, kLoses, MakeGlobalPooling, kGlobalPoolingFields,
     kOwnLayout, 2},
    {"GlobalMaxPooling1D", "GlobalMaxPool1D", Kind::kGlobalMaxPooling1D,
     GlobalMaxPooling1D, kOne, kLoses, MakeGlobalPooling, kGlobalPoolingFields,
     kOwnLayout, 1},
    {"ZeroPadding2D", "", Kind::kZeroPadding2D, [] { return ZeroPadding2D(); },
     kOne, kLoses, MakeFrame, kZeroPadding2DFields, kOwnLayout, 2},
    {"ZeroPadding1D", "", Kind::kZeroPadding1D, [] { return ZeroPadding1D(); },
     kOne, kLoses, MakeFrame, kZeroPadding1DFields, kOwnLayout, 1},
    {"Cropping2D", "", Kind::kCropping2D, [] { return Cropping2D(0, 0, 0, 0); },
     kOne, kLoses, MakeFrame, kCropping2DFields, kOwnLayout, 2},
    {"Cropping1D", "", Kind::kCropping1D, [] { return Cropping1D(); }, kOne,
     kLoses, MakeFrame, kCropping1DFields, kOwnLayout, 1},
    {"UpSampling2D", "", Kind::kUpSampling2D, [] { return UpSampling2D(); },
     kOne, kLoses, MakeUpSampling, kUpSampling2DFields, kOwnLayout, 2},
    {"UpSampling1D", "", Kind::kUpSampling1D, [] { return UpSampling1D(); },
     kOne, kLoses, MakeUpSampling, kUpSampling1DFields, kOwnLayout, 1},
    {"Permute", "", Kind::kPermute, [] { return Permute({}); }, kOne, kLoses,
     MakePermute, kPermuteFields},
    {"Dropout", "", Kind::kDropout, [] { return Dropout(0); }, kOne, kPasses,
     MakeNoise, kDropoutFields, kKeepsLayout},
    {"SpatialDropout2D", "", Kind::kSpatialDropout2D,
     [] { return SpatialDropout2D(0); }, kOne, kPasses, MakeNoise,
     kSpatialDropout2DFields, kKeepsLayout, 2},
    {"SpatialDropout1D", "", Kind::kSpatialDropout1D,
     [] { return SpatialDropout1D(0); }, kOne, kPasses, MakeNoise,
     kSpatialDropout1DFields, kKeepsLayout, 1},
    {"GaussianNoise", "", Kind::kGaussianNoise, [] { return GaussianNoise(0); },
     kOne, kPasses, MakeNoise, kGaussianNoiseFields, kKeepsLayout},
    {"GaussianDropout", "", Kind::kGaussianDropout,
     [] { return GaussianDropout(0); }, kOne, kPasses, MakeNoise,
     kGaussianDropoutFields, kKeepsLayout},
    {"AlphaDropout", "", Kind::kAlphaDropout, [] { return AlphaDropout(0); },
     kOne, kPasses, MakeNoise, kDropoutFields, kKeepsLayout},
    {"RandomFlip", "", Kind::kRandomFlip, [] { return RandomFlip(); }, kOne,
     kLoses, MakeWarp, kRandomFlipFields, kOwnLayout, 2},
    {"RandomTranslation", "", Kind::kRandomTranslation,
     [] { return RandomTranslation(0, 0); }, kOne, kLoses, MakeWarp,
     kRandomTranslationFields, kOwnLayout, 2},
    {"RandomRotation", "", Kind::kRandomRotation,
     [] { return RandomRotation(0); }, kOne, kLoses, MakeWarp,
     kRandomRotationFields, kOwnLayout, 2},
    {"RandomZoom", "", Kind::kRandomZoom, [] { return RandomZoom(0); }, kOne,
     kLoses, MakeWarp, kRandomZoomFields, kOwnLayout, 2},
    {"RandomCrop", "", Kind::kRandomCrop, [] { return RandomCrop(1, 1); }, kOne,
     kLoses, MakeResizing, kRandomCropFields, kOwnLayout, 2},
    {"RandomContrast", "", Kind::kRandomContrast,
     [] { return RandomContrast(0); }, kOne, kLoses, MakeColorChange,
     kRandomContrastFields, kOwnLayout, 2},
    {"RandomBrightness", "", Kind::kRandomBrightness,
     [] { return RandomBrightness(0); }, kOne, kLoses, MakeColorChange,
     kRandomBrightnessFields, kOwnLayout, 2},
    {"CenterCrop", "", Kind::kCenterCrop, [] { return CenterCrop(1, 1); }, kOne,
     kLoses, MakeResizing, kCenterCropFields, kOwnLayout, 2},
    {"Resizing", "", Kind::kResizing, [] { return Resizing(1, 1); }, kOne,
     kLoses, MakeResizing, kResizingFields, kOwnLayout, 2},
    {"Add", "", Kind::kAdd, Add, kList, kPasses, MakeMerge, kNoFields,
     kKeepsLayout},
    {"Subtract", "", Kind::kSubtract, Subtract, kList, kPasses, MakeMerge,
     kNoFields, kKeepsLayout},
    {"Multiply", "", Kind::kMultiply, Multiply, kList, kPasses, MakeMerge,
     kNoFields, kKeepsLayout},
    {"Average", "", Kind::kAverage, Average, kList, kPasses, MakeMerge,
     kNoFields, kKeepsLayout},
    {"Maximum", "", Kind::kMaximum, Maximum, kList, kPasses, MakeMerge,
     kNoFields, kKeepsLayout},
    {"Minimum", "", Kind::kMinimum, Minimum, kList, kPasses, MakeMerge,
     kNoFields, kKeepsLayout},
    {"Concatenate", "", Kind::kConcatenate, Concatenate, kList, kPasses,
     MakeConcatenate, kConcatenateFields},
    {"Dot", "", Kind::kDot, [] { return Dot({1}); }, kList, kLoses, MakeDot,
     kDotFields},
    {"SimpleRNN", "", Kind::kSimpleRNN, [] { return SimpleRNN(1); }, kStates,
     kTakes, MakeRecurrent, kSimpleRNNFields},
    {"LSTM", "", Kind::kLSTM, [] { return LSTM(1); }, kStates, kTakes,
     MakeRecurrent, kLSTMFields},
    {"GRU", "", Kind::kGRU, [] { return GRU(1); }, kStates, kTakes,
     MakeRecurrent, kGRUFields},
    {"Bidirectional", "", Kind::kBidirectional,
     [] { return Bidirectional(SimpleRNN(1)); }, kOne, kLoses, nullptr,
     kBidirectionalFields},
    {"TimeDistributed", "", Kind::kTimeDistributed,
     [] { return TimeDistributed(Dense(1)); }, kAny, kPasses,
     MakeTimeDistributed, kTimeDistributedFields},
    {"RepeatVector", "", Kind::kRepeatVector, [] { return RepeatVector(1); },
     kOne, kLoses, MakeRepeatVector, kRepeatVectorFields},
    {"Embedding", "", Kind::kEmbedding, [] { return Embedding(1, 1); }, kOne,
     kLoses, MakeEmbedding, kEmbeddingFields},
    {"Masking", "", Kind::kMasking, [] { return Masking(); }, kOne, kLoses,
     MakeMasking, kMaskingFields},
    {"PositionEmbedding", "", Kind::kPositionEmbedding,
     [] { return PositionEmbedding(1); }, kOne, kPasses, MakePositionEmbedding,
     kPositionEmbeddingFields},
    {"Attention", "", Kind::kAttention, Attention, kList, kAttends,
     MakeAttention, kAttentionFields},
    {"AdditiveAttention", "", Kind::kAdditiveAttention, AdditiveAttention,
     kList, kAttends, MakeAttention, kAdditiveAttentionFields},
    {"MultiHeadAttention", "", Kind::kMultiHeadAttention,
     [] { return MultiHeadAttention(1, 1); }, LayerInputs::kQuery, kAttends,
     MakeMultiHeadAttention, kMultiHeadAttentionFields},
    {"BatchNormalization", "BatchNormalizationV1 BatchNormalizationV2",
     Kind::kBatchNormalization, [] { return BatchNormalization(); }, kOne,
     kTakes, MakeBatchNormalization, kBatchNormalizationFields, kKeepsLayout},
    {"LayerNormalization", "", Kind::kLayerNormalization,
     [] { return LayerNormalization(); }, kOne, kPasses, MakeLayerNormalization,
     kLayerNormalizationFields, kKeepsLayout},
    {"GroupNormalization", "", Kind::kGroupNormalization,
     [] { return GroupNormalization(); }, kOne, kPasses, MakeGroupNormalization,
     kGroupNormalizationFields, kKeepsLayout},
    {"UnitNormalization", "", Kind::kUnitNormalization, UnitNormalization, kOne,
     kPasses, MakeUnitNormalization, kAxesFields, kKeepsLayout},
    {"Rescaling", "", Kind::kRescaling, [] { return Rescaling(1); }, kOne,
     kPasses, MakeRescaling, kRescalingFields, kKeepsLayout},
    {"Normalization", "", Kind::kNormalization, [] { return Normalization(); },
     kOne, kPasses, MakeNormalization, kNormalizationFields, kKeepsLayout},
    {"MelSpectrogram", "", Kind::kMelSpectrogram, MelSpectrogram, kOne, kLoses,
     MakeSpectrogram, kMelSpectrogramFields},
    {"MFCC", "", Kind::kMFCC, MFCC, kOne, kLoses, MakeSpectrogram, kMFCCFields},
    {"STFTSpectrogram", "", Kind::kSTFTSpectrogram, STFTSpectrogram, kOne,
     kLoses, MakeStft, kSTFTSpectrogramFields},
    {"RecurrentOutput", "", Kind::kRecurrentOutput, nullptr, kOne, kPasses,
     MakeRecurrentOutput, kRecurrentOutputFields},
    // Which steps count; the graph adds it.
    {"Mask", "", Kind::kMask, nullptr, kOne, kLoses, MakeMask, kMaskingFields},
    {"CustomLayer", "", Kind::kCustom, nullptr, kAny, kLoses, MakeCustom},
    // The graph has the layers of the nested model instead.
    {"Functional", "", Kind::kModel, nullptr, kOne, kLoses, nullptr},
};

}  // namespace

LayerTable AllLayers() {
  return {kLayers, sizeof(kLayers) / sizeof(kLayers[0])};
}

const LayerClass& ClassOf(const Layer& layer) {
  for (const LayerClass& row : kLayers) {
    if (row.kind == layer.kind) return row;
  }
  RINGLET_CHECK(false);  // every Kind has a row
  return kLayers[0];
}

const char* ActivationName(Activation activation) {
  for (const NamedActivation& row : kActivations) {
    if (row.value == activation) return row.name;
  }
  return "unknown";
}

const char* ClassName(const Layer& layer) {
  if (layer.model != nullptr) return layer.model->class_name.c_str();
  return layer.custom != nullptr ? layer.custom->class_name()
                                 : ClassOf(layer).name;
}

}  // namespace ringlet
