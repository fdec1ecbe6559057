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
    MakeConcatenate, MakeConv, MakeConvTranspose, MakeCustom, MakeDense,
    MakeDepthwiseConv, MakeELU, MakeEmbedding, MakeFrame, MakeGlobalPooling,
    MakeGroupNormalization, MakeLayerNormalization, MakeMask, MakeMasking,
    MakeMerge, MakeMultiHeadAttention, MakeNoise, MakeNormalization, MakePReLU,
    MakePermute, MakePooling, MakeSpectrogram, MakeStft, MakePositionEmbedding,
    MakeReLU, MakeRecurrent, MakeRecurrentOutput, MakeRepeatVector,
    MakeRescaling, MakeReshape, MakeResizing, MakeSeparableConv, MakeSoftmax,
    MakeTimeDistributed, MakeUnitNormalization, MakeUpSampling, MakeWarp;

namespace {

using Kind = Layer::Kind;
constexpr LayerInputs kNone = LayerInputs::kNone, kOne = LayerInputs::kOne,
                      kList = LayerInputs::kList, kAny = LayerInputs::kAny,
                      kStates = LayerInputs::kStates;
constexpr bool kElementwise = true, kNotElementwise = false;

constexpr LayerClass kLayers[] = {
    {"InputLayer", "", Kind::kInput, [] { return Input({}); }, kNone, nullptr},
    {"Reshape", "", Kind::kReshape, [] { return Reshape({}); }, kOne,
     MakeReshape, kReshapeFields},
    {"Flatten", "", Kind::kFlatten, Flatten, kOne, MakeReshape, kFlattenFields},
    {"Dense", "", Kind::kDense, [] { return Dense(1); }, kOne, MakeDense,
     kDenseFields},
    {"Conv2D", "Convolution2D", Kind::kConv2D, [] { return Conv2D(1, 1); },
     kOne, MakeConv, kConv2DFields, kNotElementwise, 2},
    {"Conv1D", "Convolution1D", Kind::kConv1D, [] { return Conv1D(1, 1); },
     kOne, MakeConv, kConv1DFields, kNotElementwise, 1},
    {"DepthwiseConv2D", "DepthwiseConvolution2D", Kind::kDepthwiseConv2D,
     [] { return DepthwiseConv2D(1); }, kOne, MakeDepthwiseConv,
     kDepthwiseFields, kNotElementwise, 2},
    {"DepthwiseConv1D", "DepthwiseConvolution1D", Kind::kDepthwiseConv1D,
     [] { return DepthwiseConv1D(1); }, kOne, MakeDepthwiseConv,
     kDepthwiseFields, kNotElementwise, 1},
    {"SeparableConv2D", "SeparableConvolution2D", Kind::kSeparableConv2D,
     [] { return SeparableConv2D(1, 1); }, kOne, MakeSeparableConv,
     kSeparableFields, kNotElementwise, 2},
    {"SeparableConv1D", "SeparableConvolution1D", Kind::kSeparableConv1D,
     [] { return SeparableConv1D(1, 1); }, kOne, MakeSeparableConv,
     kSeparableFields, kNotElementwise, 1},
    {"Conv2DTranspose", "Convolution2DTranspose", Kind::kConv2DTranspose,
     [] { return Conv2DTranspose(1, 1); }, kOne, MakeConvTranspose,
     kConvTransposeFields, kNotElementwise, 2},
    {"Conv1DTranspose", "Convolution1DTranspose", Kind::kConv1DTranspose,
     [] { return Conv1DTranspose(1, 1); }, kOne, MakeConvTranspose,
     kConvTransposeFields, kNotElementwise, 1},
    {"Activation", "", Kind::kActivation,
     [] { return ActivationLayer(kLinear); }, kOne, MakeActivation,
     kActivationFields, kElementwise},
    {"ReLU", "", Kind::kReLU, [] { return ReLU(); }, kOne, MakeReLU,
     kReLUFields, kElementwise},
    {"LeakyReLU", "", Kind::kLeakyReLU, [] { return LeakyReLU(); }, kOne,
     MakeReLU, kLeakyReLUFields, kElementwise},
    {"ELU", "", Kind::kELU, [] { return ELU(); }, kOne, MakeELU, kELUFields,
     kElementwise},
    {"PReLU", "", Kind::kPReLU, [] { return PReLU(); }, kOne, MakePReLU,
     kPReLUFields, kElementwise},
    {"Softmax", "", Kind::kSoftmax, [] { return Softmax({1}).Axes({-1}); },
     kOne, MakeSoftmax, kAxesFields, kElementwise},
    {"MaxPooling2D", "MaxPool2D", Kind::kMaxPooling2D,
     [] { return MaxPooling2D(); }, kOne, MakePooling, kPoolingFields,
     kNotElementwise, 2},
    {"MaxPooling1D", "MaxPool1D", Kind::kMaxPooling1D,
     [] { return MaxPooling1D(); }, kOne, MakePooling, kPoolingFields,
     kNotElementwise, 1},
    {"AveragePooling2D", "AvgPool2D", Kind::kAveragePooling2D,
     [] { return AveragePooling2D(); }, kOne, MakePooling, kPoolingFields,
     kNotElementwise, 2},
    {"AveragePooling1D", "AvgPool1D", Kind::kAveragePooling1D,
     [] { return AveragePooling1D(); }, kOne, MakePooling, kPoolingFields,
     kNotElementwise, 1},
    {"GlobalAveragePooling2D", "GlobalAvgPool2D", Kind::kGlobalAveragePooling2D,
     GlobalAveragePooling2D, kOne, MakeGlobalPooling, kGlobalPoolingFields,
     kNotElementwise, 2},
    {"GlobalAveragePooling1D", "GlobalAvgPool1D", Kind::kGlobalAveragePooling1D,
     GlobalAveragePooling1D, kOne, MakeGlobalPooling, kGlobalPoolingFields,
     kNotElementwise, 1},
    {"GlobalMaxPooling2D", "GlobalMaxPool2D", Kind::kGlobalMaxPooling2D,
     GlobalMaxPooling2D, kOne, MakeGlobalPooling, kGlobalPoolingFields,
     kNotElementwise, 2},
    {"GlobalMaxPooling1D", "GlobalMaxPool1D", Kind::kGlobalMaxPooling1D,
     GlobalMaxPooling1D, kOne, MakeGlobalPooling, kGlobalPoolingFields,
     kNotElementwise, 1},
    {"ZeroPadding2D", "", Kind::kZeroPadding2D, [] { return ZeroPadding2D(); },
     kOne, MakeFrame, kZeroPadding2DFields, kNotElementwise, 2},
    {"ZeroPadding1D", "", Kind::kZeroPadding1D, [] { return ZeroPadding1D(); },
     kOne, MakeFrame, kZeroPadding1DFields, kNotElementwise, 1},
    {"Cropping2D", "", Kind::kCropping2D, [] { return Cropping2D(0, 0, 0, 0); },
     kOne, MakeFrame, kCropping2DFields, kNotElementwise, 2},
    {"Cropping1D", "", Kind::kCropping1D, [] { return Cropping1D(); }, kOne,
     MakeFrame, kCropping1DFields, kNotElementwise, 1},
    {"UpSampling2D", "", Kind::kUpSampling2D, [] { return UpSampling2D(); },
     kOne, MakeUpSampling, kUpSampling2DFields, kNotElementwise, 2},
    {"UpSampling1D", "", Kind::kUpSampling1D, [] { return UpSampling1D(); },
     kOne, MakeUpSampling, kUpSampling1DFields, kNotElementwise, 1},
    {"Permute", "", Kind::kPermute, [] { return Permute({}); }, kOne,
     MakePermute, kPermuteFields},
    {"Dropout", "", Kind::kDropout, [] { return Dropout(0); }, kOne, MakeNoise,
     kDropoutFields, kElementwise},
    {"SpatialDropout2D", "", Kind::kSpatialDropout2D,
     [] { return SpatialDropout2D(0); }, kOne, MakeNoise,
     kSpatialDropout2DFields, kElementwise, 2},
    {"SpatialDropout1D", "", Kind::kSpatialDropout1D,
     [] { return SpatialDropout1D(0); }, kOne, MakeNoise,
     kSpatialDropout1DFields, kElementwise, 1},
    {"GaussianNoise", "", Kind::kGaussianNoise, [] { return GaussianNoise(0); },
     kOne, MakeNoise, kGaussianNoiseFields, kElementwise},
    {"GaussianDropout", "", Kind::kGaussianDropout,
     [] { return GaussianDropout(0); }, kOne, MakeNoise, kGaussianDropoutFields,
     kElementwise},
    {"AlphaDropout", "", Kind::kAlphaDropout, [] { return AlphaDropout(0); },
     kOne, MakeNoise, kDropoutFields, kElementwise},
    {"RandomFlip", "", Kind::kRandomFlip, [] { return RandomFlip(); }, kOne,
     MakeWarp, kRandomFlipFields, kNotElementwise, 2},
    {"RandomTranslation", "", Kind::kRandomTranslation,
     [] { return RandomTranslation(0, 0); }, kOne, MakeWarp,
     kRandomTranslationFields, kNotElementwise, 2},
    {"RandomRotation", "", Kind::kRandomRotation,
     [] { return RandomRotation(0); }, kOne, MakeWarp, kRandomRotationFields,
     kNotElementwise, 2},
    {"RandomZoom", "", Kind::kRandomZoom, [] { return RandomZoom(0); }, kOne,
     MakeWarp, kRandomZoomFields, kNotElementwise, 2},
    {"RandomCrop", "", Kind::kRandomCrop, [] { return RandomCrop(1, 1); }, kOne,
     MakeResizing, kRandomCropFields, kNotElementwise, 2},
    {"RandomContrast", "", Kind::kRandomContrast,
     [] { return RandomContrast(0); }, kOne, MakeColorChange,
     kRandomContrastFields, kNotElementwise, 2},
    {"RandomBrightness", "", Kind::kRandomBrightness,
     [] { return RandomBrightness(0); }, kOne, MakeColorChange,
     kRandomBrightnessFields, kNotElementwise, 2},
    {"CenterCrop", "", Kind::kCenterCrop, [] { return CenterCrop(1, 1); }, kOne,
     MakeResizing, kCenterCropFields, kNotElementwise, 2},
    {"Resizing", "", Kind::kResizing, [] { return Resizing(1, 1); }, kOne,
     MakeResizing, kResizingFields, kNotElementwise, 2},
    {"Add", "", Kind::kAdd, Add, kList, MakeMerge, {}, kElementwise},
    {"Subtract",
     "",
     Kind::kSubtract,
     Subtract,
     kList,
     MakeMerge,
     {},
     kElementwise},
    {"Multiply",
     "",
     Kind::kMultiply,
     Multiply,
     kList,
     MakeMerge,
     {},
     kElementwise},
    {"Average",
     "",
     Kind::kAverage,
     Average,
     kList,
     MakeMerge,
     {},
     kElementwise},
    {"Maximum",
     "",
     Kind::kMaximum,
     Maximum,
     kList,
     MakeMerge,
     {},
     kElementwise},
    {"Minimum",
     "",
     Kind::kMinimum,
     Minimum,
     kList,
     MakeMerge,
     {},
     kElementwise},
    {"Concatenate", "", Kind::kConcatenate, Concatenate, kList, MakeConcatenate,
     kConcatenateFields},
    {"SimpleRNN", "", Kind::kSimpleRNN, [] { return SimpleRNN(1); }, kStates,
     MakeRecurrent, kSimpleRNNFields},
    {"LSTM", "", Kind::kLSTM, [] { return LSTM(1); }, kStates, MakeRecurrent,
     kLSTMFields},
    {"GRU", "", Kind::kGRU, [] { return GRU(1); }, kStates, MakeRecurrent,
     kGRUFields},
    {"Bidirectional", "", Kind::kBidirectional,
     [] { return Bidirectional(SimpleRNN(1)); }, kOne, nullptr,
     kBidirectionalFields},
    {"TimeDistributed", "", Kind::kTimeDistributed,
     [] { return TimeDistributed(Dense(1)); }, kAny, MakeTimeDistributed,
     kTimeDistributedFields},
    {"RepeatVector", "", Kind::kRepeatVector, [] { return RepeatVector(1); },
     kOne, MakeRepeatVector, kRepeatVectorFields},
    {"Embedding", "", Kind::kEmbedding, [] { return Embedding(1, 1); }, kOne,
     MakeEmbedding, kEmbeddingFields},
    {"Masking", "", Kind::kMasking, [] { return Masking(); }, kOne, MakeMasking,
     kMaskingFields},
    {"PositionEmbedding", "", Kind::kPositionEmbedding,
     [] { return PositionEmbedding(1); }, kOne, MakePositionEmbedding,
     kPositionEmbeddingFields},
    {"Attention", "", Kind::kAttention, Attention, kList, MakeAttention,
     kAttentionFields},
    {"MultiHeadAttention", "", Kind::kMultiHeadAttention,
     [] { return MultiHeadAttention(1, 1); }, LayerInputs::kQuery,
     MakeMultiHeadAttention, kMultiHeadAttentionFields},
    {"BatchNormalization", "BatchNormalizationV1 BatchNormalizationV2",
     Kind::kBatchNormalization, [] { return BatchNormalization(); }, kOne,
     MakeBatchNormalization, kBatchNormalizationFields, kElementwise},
    {"LayerNormalization", "", Kind::kLayerNormalization,
     [] { return LayerNormalization(); }, kOne, MakeLayerNormalization,
     kLayerNormalizationFields, kElementwise},
    {"GroupNormalization", "", Kind::kGroupNormalization,
     [] { return GroupNormalization(); }, kOne, MakeGroupNormalization,
     kGroupNormalizationFields, kElementwise},
    {"UnitNormalization", "", Kind::kUnitNormalization, UnitNormalization, kOne,
     MakeUnitNormalization, kAxesFields, kElementwise},
    {"Rescaling", "", Kind::kRescaling, [] { return Rescaling(1); }, kOne,
     MakeRescaling, kRescalingFields, kElementwise},
    {"Normalization", "", Kind::kNormalization, [] { return Normalization(); },
     kOne, MakeNormalization, kNormalizationFields, kElementwise},
    {"MelSpectrogram", "", Kind::kMelSpectrogram, MelSpectrogram, kOne,
     MakeSpectrogram, kMelSpectrogramFields},
    {"MFCC", "", Kind::kMFCC, MFCC, kOne, MakeSpectrogram, kMFCCFields},
    {"STFTSpectrogram", "", Kind::kSTFTSpectrogram, STFTSpectrogram, kOne,
     MakeStft, kSTFTSpectrogramFields},
    {"RecurrentOutput", "", Kind::kRecurrentOutput, nullptr, kOne,
     MakeRecurrentOutput, kRecurrentOutputFields},
    // Which steps count; the graph adds it.
    {"Mask", "", Kind::kMask, nullptr, kOne, MakeMask, kMaskingFields},
    {"CustomLayer", "", Kind::kCustom, nullptr, kAny, MakeCustom},
    // The graph has the layers of the nested model instead.
    {"Functional", "", Kind::kModel, nullptr, kOne, nullptr},
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
