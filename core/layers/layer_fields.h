// The fields of each class of layer, for the rows of layer_table.cc.
//
// Internal to core/layers/; only layer_table.cc includes it. JSON is written in
// the order of the fields. The labels of Compared and Saved are parts of texts
// that ranks and files compare: a changed label of Saved refuses earlier
// backups. Everything is constexpr, so a field of a wrong kind does not
// compile.

#ifndef RINGLET_CORE_LAYERS_LAYER_FIELDS_H_
#define RINGLET_CORE_LAYERS_LAYER_FIELDS_H_

#include <array>
#include <utility>

#include "layer_settings.h"
#include "layer_table.h"

namespace ringlet {

template <size_t n, size_t m, size_t... i, size_t... j>
constexpr auto JoinAt(const std::array<LayerField, n>& a,
                      const std::array<LayerField, m>& b,
                      std::index_sequence<i...>, std::index_sequence<j...>) {
  return std::array{a[i]..., b[j]...};
}
template <size_t n, size_t m>
constexpr auto Join(const std::array<LayerField, n>& a,
                    const std::array<LayerField, m>& b) {
  return JoinAt(a, b, std::make_index_sequence<n>(),
                std::make_index_sequence<m>());
}

// --- fields that several layers have ----------------------------------------

constexpr LayerField kKernelSize = LayerField("kernel_size", &Layer::window)
                                       .Required()
                                       .Compared("window")
                                       .Saved("");
constexpr LayerField kStrides = LayerField("strides", &Layer::strides)
                                    .SetBy(kSetStrides)
                                    .Compared("strides")
                                    .Saved("by");
constexpr LayerField kPadding = LayerField("padding", &Layer::padding)
                                    .SetBy(kSetPadding)
                                    .Compared("padding")
                                    .Saved("");
constexpr LayerField kActivation = LayerField("activation", &Layer::activation)
                                       .Compared("activation")
                                       .Saved("");
constexpr LayerField kUseBias = LayerField("use_bias", &Layer::use_bias)
                                    .SetBy(kSetUseBias)
                                    .Compared("without bias");
constexpr LayerField kKernelInitializer =
    LayerField("kernel_initializer", &Layer::kernel_initializer)
        .SetBy(kSetKernelInitializer);
constexpr LayerField kBiasInitializer =
    LayerField("bias_initializer", &Layer::bias_initializer)
        .SetBy(kSetBiasInitializer);
constexpr LayerField kKernelRegularizer =
    LayerField("kernel_regularizer", &Layer::kernel_regularizer)
        .SetBy(kSetKernelRegularizer)
        .Compared("kernel_regularizer");
constexpr LayerField kBiasRegularizer =
    LayerField("bias_regularizer", &Layer::bias_regularizer)
        .SetBy(kSetBiasRegularizer)
        .Compared("bias_regularizer");
constexpr LayerField ConstraintField(const char* name,
                                     Constraint Layer::*member,
                                     LayerSetting set) {
  return LayerField(name, member).SetBy(set).Compared(name).Saved(name);
}
constexpr LayerField kKernelConstraint = ConstraintField(
    "kernel_constraint", &Layer::kernel_constraint, kSetKernelConstraint);
constexpr LayerField kBiasConstraint = ConstraintField(
    "bias_constraint", &Layer::bias_constraint, kSetBiasConstraint);
// All layers accept it; some write it.
constexpr LayerField kActivityRegularizer("activity_regularizer", OnlyNull());
constexpr LayerField kLoraRank = LayerField("lora_rank", &Layer::lora_rank)
                                     .OrZero()
                                     .WrittenIfSet()
                                     .SetBy(kSetLoraRank)
                                     .Compared("lora_rank")
                                     .Saved("lora");
constexpr LayerField kLoraAlpha = LayerField("lora_alpha", &Layer::lora_alpha)
                                      .OrZero()
                                      .WrittenIfSet()
                                      .SetBy(kSetLoraAlpha)
                                      .Compared("lora_alpha")
                                      .Saved("alpha");
constexpr LayerField kNoLoraRank =
    LayerField("lora_rank", OnlyNull()).Unwritten();
constexpr LayerField kNoLoraAlpha =
    LayerField("lora_alpha", OnlyNull()).Unwritten();
constexpr LayerField kQuantizationMode =
    LayerField("quantization_mode", OnlyNull()).Unwritten();
constexpr LayerField kQuantizationConfig =
    LayerField("quantization_config", OnlyNull()).Unwritten();
constexpr LayerField kChannelsLast("data_format", OnlyText{"channels_last"});
constexpr LayerField kLastAxis("axis", LastAxis());

// --- fields of each layer ---------------------------------------------------

constexpr LayerField kReshapeFields[] = {
    LayerField("target_shape", &Layer::shape)
        .Required()
        .AllowsOneUnknownSize()
        .Saved(""),
};
constexpr LayerField kPermuteFields[] = {
    LayerField("dims", &Layer::shape).Required().Compared("dims").Saved("dims"),
};
constexpr LayerField kFlattenFields[] = {kChannelsLast};
// The fields of a layer with a product of inputs and a kernel.
constexpr std::array kWeightedFields = {
    kActivation,         kUseBias,           kKernelInitializer,
    kBiasInitializer,    kKernelRegularizer, kBiasRegularizer,
    kKernelConstraint,   kBiasConstraint,    kQuantizationMode,
    kQuantizationConfig,
};
constexpr std::array kNoLora = {kNoLoraRank, kNoLoraAlpha};
constexpr auto kDenseFields =
    Join(Join(std::array{LayerField("units", &Layer::units).Required()},
              kWeightedFields),
         std::array{kLoraRank, kLoraAlpha});
constexpr LayerField kFilters = LayerField("filters", &Layer::units).Required();
constexpr LayerField kDilationRate =
    LayerField("dilation_rate", &Layer::dilation)
        .SetBy(kSetDilationRate)
        .UnlessOne()
        .Compared("dilation_rate")
        .Saved("dilated");
constexpr LayerField kGroups = LayerField("groups", &Layer::groups)
                                   .SetBy(kSetGroups)
                                   .UnlessOne()
                                   .Compared("groups")
                                   .Saved("groups");
template <size_t n>
constexpr auto ConvFields(const std::array<LayerField, n>& window) {
  return Join(
      Join(window, std::array{kChannelsLast, kDilationRate, kGroups}),
      Join(Join(kWeightedFields, kNoLora), std::array{kActivityRegularizer}));
}
constexpr auto kConv2DFields =
    ConvFields(std::array{kFilters, kKernelSize, kStrides, kPadding});
constexpr auto kConv1DFields = ConvFields(
    std::array{kFilters, kKernelSize, kStrides, kPadding.OrCausal()});

constexpr LayerField kOutputPadding =
    LayerField("output_padding", &Layer::output_padding)
        .OrNull()
        .SetBy(kSetOutputPadding)
        .Compared("output_padding")
        .Saved("and");
// Keras 2 writes these for every convolution, whether it uses them or not.
constexpr LayerField kOneGroup =
    LayerField("groups", OnlyNumber{1}).Unwritten();
constexpr auto kConvTransposeFields = Join(
    Join(std::array{kFilters, kKernelSize, kStrides, kPadding, kOutputPadding,
                    kChannelsLast, kDilationRate, kOneGroup},
         Join(kWeightedFields, kNoLora)),
    std::array{kActivityRegularizer});

constexpr LayerField kDepthMultiplier =
    LayerField("depth_multiplier", &Layer::depth_multiplier)
        .SetBy(kSetDepthMultiplier)
        .UnlessOne()
        .Compared("depth_multiplier")
        .Saved("multiplied");
constexpr LayerField kDepthwiseInitializer =
    LayerField("depthwise_initializer", &Layer::depthwise_initializer)
        .SetBy(kSetDepthwiseInitializer);
constexpr LayerField kPointwiseInitializer =
    LayerField("pointwise_initializer", &Layer::pointwise_initializer)
        .SetBy(kSetPointwiseInitializer);
constexpr LayerField kDepthwiseRegularizer =
    LayerField("depthwise_regularizer", &Layer::depthwise_regularizer)
        .SetBy(kSetDepthwiseRegularizer)
        .Compared("depthwise_regularizer");
constexpr LayerField kPointwiseRegularizer =
    LayerField("pointwise_regularizer", &Layer::pointwise_regularizer)
        .SetBy(kSetPointwiseRegularizer)
        .Compared("pointwise_regularizer");
constexpr LayerField kDepthwiseConstraint =
    ConstraintField("depthwise_constraint", &Layer::depthwise_constraint,
                    kSetDepthwiseConstraint);
constexpr LayerField kPointwiseConstraint =
    ConstraintField("pointwise_constraint", &Layer::pointwise_constraint,
                    kSetPointwiseConstraint);
constexpr LayerField kUnusedInitializer =
    LayerField("kernel_initializer", &Layer::kernel_initializer).Unwritten();
constexpr LayerField kUnusedRegularizer =
    LayerField("kernel_regularizer", OnlyNull()).Unwritten();
constexpr LayerField kUnusedConstraint =
    LayerField("kernel_constraint", OnlyNull()).Unwritten();
constexpr std::array kDepthwiseFields = {
    kDepthMultiplier,
    kKernelSize,
    kStrides,
    kPadding,
    kChannelsLast,
    kDilationRate,
    kOneGroup,
    kActivation,
    kUseBias,
    kDepthwiseInitializer,
    kBiasInitializer,
    kDepthwiseRegularizer,
    kBiasRegularizer,
    kActivityRegularizer,
    kDepthwiseConstraint,
    kBiasConstraint,
};
constexpr std::array kSeparableFields = {
    kDepthMultiplier,
    kFilters,
    kKernelSize,
    kStrides,
    kPadding,
    kChannelsLast,
    kDilationRate,
    kOneGroup,
    kActivation,
    kUseBias,
    kDepthwiseInitializer,
    kPointwiseInitializer,
    kBiasInitializer,
    kDepthwiseRegularizer,
    kPointwiseRegularizer,
    kBiasRegularizer,
    kActivityRegularizer,
    kDepthwiseConstraint,
    kPointwiseConstraint,
    kBiasConstraint,
    kUnusedInitializer,
    kUnusedRegularizer,
    kUnusedConstraint,
};

constexpr LayerField kActivationFields[] = {kActivation.Required()};
constexpr LayerField kReLUFields[] = {
    LayerField("max_value", &Layer::max_value)
        .InRange(kNotNegative)
        .OrNull()
        .Compared("max_value")
        .Saved("up to"),
    LayerField("negative_slope", &Layer::negative_slope)
        .InRange(kNotNegative)
        .UnlessZero()
        .Compared("negative_slope")
        .Saved("slope"),
    LayerField("threshold", &Layer::threshold)
        .InRange(kNotNegative)
        .UnlessZero()
        .Compared("threshold")
        .Saved("from"),
};
constexpr LayerField kLeakyReLUFields[] = {
    LayerField("negative_slope", &Layer::negative_slope)
        .InRange(kNotNegative)
        .Keras2Name("alpha")
        .Compared("negative_slope")
        .Saved("slope"),
};
constexpr LayerField kELUFields[] = {
    LayerField("alpha", &Layer::alpha)
        .InRange(kNotNegative)
        .Compared("alpha")
        .Saved("alpha"),
};
constexpr LayerField kPReLUFields[] = {
    LayerField("alpha_initializer", &Layer::alpha_initializer)
        .SetBy(kSetAlphaInitializer),
    LayerField("alpha_regularizer", &Layer::alpha_regularizer)
        .SetBy(kSetAlphaRegularizer)
        .Compared("alpha_regularizer"),
    ConstraintField("alpha_constraint", &Layer::alpha_constraint,
                    kSetAlphaConstraint),
    LayerField("shared_axes", &Layer::shared_axes)
        .OrNull()
        .Compared("shared_axes"),
};
constexpr LayerField kAxes =
    LayerField("axis", &Layer::axes).SetBy(kSetAxes).Compared("axis");
constexpr LayerField kAxesFields[] = {kAxes.Saved("axis")};
constexpr LayerField kPoolingFields[] = {
    LayerField("pool_size", &Layer::window).Compared("window").Saved(""),
    kStrides.OrWindow(),
    kPadding,
    kChannelsLast,
};
constexpr LayerField kGlobalPoolingFields[] = {
    kChannelsLast,
    LayerField("keepdims", &Layer::keepdims).SetBy(kSetKeepDims),
};
constexpr LayerField kChannelsLastUnwritten = kChannelsLast.Unwritten();
constexpr LayerField kPaddingBorders =
    LayerField("padding", &Layer::borders).Compared("padding").Saved("");
constexpr LayerField kCroppingBorders =
    LayerField("cropping", &Layer::borders).Compared("cropping").Saved("");
constexpr LayerField kSize =
    LayerField("size", &Layer::window).AsNumber().Compared("size").Saved("");
constexpr LayerField kZeroPadding2DFields[] = {kPaddingBorders, kChannelsLast};
constexpr LayerField kZeroPadding1DFields[] = {kPaddingBorders,
                                               kChannelsLastUnwritten};
constexpr LayerField kCropping2DFields[] = {kCroppingBorders, kChannelsLast};
constexpr LayerField kCropping1DFields[] = {kCroppingBorders};
constexpr LayerField kUpSampling2DFields[] = {
    kSize, kChannelsLast, LayerField("interpolation", OnlyText{"nearest"})};
constexpr LayerField kUpSampling1DFields[] = {kSize};
constexpr LayerField kRate = LayerField("rate", &Layer::rate)
                                 .Required()
                                 .InRange(kFractionBelow1)
                                 .Compared("rate");
constexpr LayerField kSeed =
    LayerField("seed", &Layer::seed).SetBy(kSetSeed).Compared("seed");
constexpr LayerField kNoiseShape =
    LayerField("noise_shape", &Layer::noise_shape)
        .SetBy(kSetNoiseShape)
        .WithBatch()
        .OrNull()
        .Compared("noise_shape");
constexpr LayerField kNoNoiseShape =
    LayerField("noise_shape", OnlyNull()).Unwritten();
constexpr LayerField kDropoutFields[] = {kRate, kSeed, kNoiseShape};
constexpr LayerField kSpatialDropout2DFields[] = {kRate, kSeed, kChannelsLast,
                                                  kNoNoiseShape};
constexpr LayerField kSpatialDropout1DFields[] = {kRate, kSeed, kNoNoiseShape};
constexpr LayerField kGaussianNoiseFields[] = {
    LayerField("stddev", &Layer::rate)
        .Required()
        .InRange(kFraction)
        .Compared("stddev"),
    kSeed,
};
constexpr LayerField kGaussianDropoutFields[] = {kRate, kSeed};
constexpr LayerField kConcatenateFields[] = {kLastAxis};
constexpr LayerField kDotFields[] = {
    LayerField("axes", &Layer::axes).Required().Compared("axes").Saved("axes"),
    LayerField("normalize", &Layer::normalize)
        .WrittenIfSet()
        .Compared("normalized")
        .Saved("normalized"),
};

constexpr Interval kFromMinus1To1 = {-1, 1};
constexpr LayerField kBoundingBoxFormat =
    LayerField("bounding_box_format", OnlyNull()).Unwritten();
constexpr LayerField kFactor = LayerField("factor", &Layer::factor)
                                   .Required()
                                   .InRange(kFromMinus1To1)
                                   .Compared("factor");
constexpr LayerField kHeightFactor =
    LayerField("height_factor", &Layer::height_factor)
        .Required()
        .InRange(kFromMinus1To1)
        .Compared("height_factor");
constexpr LayerField kWidthFactor =
    LayerField("width_factor", &Layer::width_factor)
        .InRange(kFromMinus1To1)
        .Compared("width_factor");
constexpr LayerField kFillMode = LayerField("fill_mode", &Layer::fill_mode)
                                     .SetBy(kSetFillMode)
                                     .Compared("fill_mode");
constexpr LayerField kFillValue = LayerField("fill_value", &Layer::fill_value)
                                      .SetBy(kSetFillValue)
                                      .UnlessZero()
                                      .Compared("fill_value");
constexpr LayerField kInterpolation =
    LayerField("interpolation", &Layer::interpolation)
        .SetBy(kSetInterpolation)
        .Compared("interpolation");
constexpr LayerField kValueRange =
    LayerField("value_range", &Layer::value_range)
        .Form(RangeForm::kPair)
        .SetBy(kSetValueRange)
        .Compared("value_range");
constexpr std::array kWarpFields = {kFillMode,     kInterpolation,
                                    kSeed,         kFillValue,
                                    kChannelsLast, kBoundingBoxFormat};
constexpr std::array kRandomFlipFields = {
    LayerField("mode", &Layer::mode).Compared("mode"), kSeed, kChannelsLast,
    kBoundingBoxFormat};
constexpr auto kRandomTranslationFields =
    Join(std::array{kHeightFactor, kWidthFactor.Required()}, kWarpFields);
constexpr auto kRandomRotationFields = Join(std::array{kFactor}, kWarpFields);
constexpr auto kRandomZoomFields =
    Join(std::array{kHeightFactor, kWidthFactor.OrNull()}, kWarpFields);
constexpr std::array kRandomContrastFields = {
    kFactor.InRange(kFraction).Form(RangeForm::kMargins), kValueRange, kSeed,
    kChannelsLast.Unwritten(), kBoundingBoxFormat};
constexpr std::array kRandomBrightnessFields = {
    kFactor, kValueRange, kSeed, kChannelsLast.Unwritten(), kBoundingBoxFormat};
constexpr LayerField kHeight = LayerField("height", &Layer::height)
                                   .Required()
                                   .Compared("height")
                                   .Saved("height");
constexpr LayerField kWidth = LayerField("width", &Layer::width)
                                  .Required()
                                  .Compared("width")
                                  .Saved("width");
constexpr std::array kRandomCropFields = {kHeight, kWidth, kSeed, kChannelsLast,
                                          kBoundingBoxFormat};
constexpr std::array kCenterCropFields = {kHeight, kWidth, kChannelsLast,
                                          kBoundingBoxFormat};
constexpr std::array kResizingFields = {
    kHeight,
    kWidth,
    kInterpolation.Saved("interpolation"),
    LayerField("crop_to_aspect_ratio", &Layer::crop_to_aspect_ratio)
        .SetBy(kSetCropToAspectRatio)
        .Compared("not cropped")
        .Saved("crop_to_aspect_ratio"),
    LayerField("pad_to_aspect_ratio", &Layer::pad_to_aspect_ratio)
        .SetBy(kSetPadToAspectRatio)
        .Compared("not padded")
        .Saved("pad_to_aspect_ratio"),
    LayerField("fill_mode", OnlyText{"constant"}),
    kFillValue.Saved("fill_value"),
    kChannelsLast,
    kBoundingBoxFormat,
};

constexpr std::array kCenterAndScale = {
    LayerField("center", &Layer::center)
        .SetBy(kSetCenter)
        .Compared("without center"),
    LayerField("scale", &Layer::scale)
        .SetBy(kSetScale)
        .Compared("without scale"),
};
constexpr LayerField kEpsilon = LayerField("epsilon", &Layer::epsilon)
                                    .InRange(kNotNegative)
                                    .Compared("epsilon");
constexpr std::array kBetaAndGammaInitializers = {
    LayerField("beta_initializer", &Layer::beta_initializer)
        .SetBy(kSetBetaInitializer),
    LayerField("gamma_initializer", &Layer::gamma_initializer)
        .SetBy(kSetGammaInitializer),
};
constexpr std::array kBetaAndGamma = {
    LayerField("beta_regularizer", &Layer::beta_regularizer)
        .SetBy(kSetBetaRegularizer)
        .Compared("beta_regularizer"),
    LayerField("gamma_regularizer", &Layer::gamma_regularizer)
        .SetBy(kSetGammaRegularizer)
        .Compared("gamma_regularizer"),
    ConstraintField("beta_constraint", &Layer::beta_constraint,
                    kSetBetaConstraint),
    ConstraintField("gamma_constraint", &Layer::gamma_constraint,
                    kSetGammaConstraint),
};
constexpr std::array kMovingStatistics = {
    LayerField("moving_mean_initializer", &Layer::moving_mean_initializer)
        .SetBy(kSetMovingMeanInitializer),
    LayerField("moving_variance_initializer",
               &Layer::moving_variance_initializer)
        .SetBy(kSetMovingVarianceInitializer),
};
constexpr std::array kSynchronizedAndRenorm = {
    LayerField("synchronized", &Layer::synchronized)
        .SetBy(kSetSynchronized)
        .Compared("not synchronized"),
    LayerField("renorm", OnlyFalse()).Unwritten(),
    LayerField("renorm_clipping", OnlyNull()).Unwritten(),
    LayerField("renorm_momentum", AnyValue()).Unwritten(),
};
constexpr auto kBatchNormalizationFields =
    Join(Join(Join(std::array{kLastAxis,
                              LayerField("momentum", &Layer::momentum)
                                  .InRange(kFraction)
                                  .Compared("momentum"),
                              kEpsilon},
                   kCenterAndScale),
              Join(kBetaAndGammaInitializers, kMovingStatistics)),
         Join(kBetaAndGamma, kSynchronizedAndRenorm));
constexpr auto kLayerNormalizationFields =
    Join(Join(Join(std::array{kAxes, kEpsilon}, kCenterAndScale),
              std::array{LayerField("rms_scaling", OnlyFalse())}),
         Join(kBetaAndGammaInitializers, kBetaAndGamma));
constexpr auto kGroupNormalizationFields =
    Join(Join(std::array{LayerField("groups", &Layer::groups)
                             .AllowsOneUnknownSize()
                             .Compared("groups")
                             .Saved("groups"),
                         kLastAxis, kEpsilon},
              kCenterAndScale),
         Join(kBetaAndGammaInitializers, kBetaAndGamma));
constexpr LayerField kReturnState =
    LayerField("return_state", &Layer::return_state).SetBy(kSetReturnState);
constexpr LayerField kRecurrentOutputFields[] = {
    LayerField("tensor", &Layer::tensor).Compared("tensor").Saved("tensor")};
constexpr LayerField kStateful = LayerField("stateful", OnlyFalse());
constexpr std::array kSequenceFields = {
    LayerField("return_sequences", &Layer::return_sequences)
        .SetBy(kSetReturnSequences)
        .Compared("last state only")
        .Saved("sequences"),
    kReturnState,
    LayerField("go_backwards", &Layer::go_backwards)
        .SetBy(kSetGoBackwards)
        .Compared("forwards")
        .Saved("backwards"),
    kStateful,
    LayerField("unroll", AnyValue()).Unwritten(),
    LayerField("zero_output_for_mask", &Layer::zero_output_for_mask)
        .WrittenIfSet()
        .SetBy(kSetZeroOutputForMask)
        .Compared("zeros for masked steps"),
    LayerField("time_major", OnlyFalse()).Unwritten(),
    LayerField("implementation", AnyValue()).Unwritten(),
};
constexpr LayerField kUnits = LayerField("units", &Layer::units).Required();
constexpr LayerField kRecurrentActivation =
    LayerField("recurrent_activation", &Layer::recurrent_activation)
        .Compared("recurrent_activation")
        .Saved("gates");
constexpr LayerField kRecurrentInitializer =
    LayerField("recurrent_initializer", &Layer::recurrent_initializer)
        .SetBy(kSetRecurrentInitializer);
constexpr LayerField kRecurrentRegularizer =
    LayerField("recurrent_regularizer", &Layer::recurrent_regularizer)
        .SetBy(kSetRecurrentRegularizer)
        .Compared("recurrent_regularizer");
constexpr std::array kRecurrentWeightFields = {
    kKernelInitializer,
    kRecurrentInitializer,
    kBiasInitializer,
    kKernelRegularizer,
    kRecurrentRegularizer,
    kBiasRegularizer,
    kActivityRegularizer,
    kKernelConstraint,
    ConstraintField("recurrent_constraint", &Layer::recurrent_constraint,
                    kSetRecurrentConstraint),
    kBiasConstraint,
};
constexpr std::array kRecurrentDropoutFields = {
    LayerField("dropout", &Layer::dropout)
        .SetBy(kSetDropout)
        .InRange(kFractionBelow1)
        .UnlessZero()
        .Compared("dropout"),
    LayerField("recurrent_dropout", &Layer::recurrent_dropout)
        .SetBy(kSetRecurrentDropout)
        .InRange(kFractionBelow1)
        .UnlessZero()
        .Compared("recurrent_dropout"),
    kSeed,
};
template <size_t n, size_t m>
constexpr auto RecurrentFields(const std::array<LayerField, n>& before,
                               const std::array<LayerField, m>& after) {
  return Join(
      Join(kSequenceFields, before),
      Join(kRecurrentWeightFields, Join(after, kRecurrentDropoutFields)));
}
constexpr auto kSimpleRNNFields = RecurrentFields(
    std::array{kUnits, kActivation, kUseBias}, std::array<LayerField, 0>());
constexpr auto kLSTMFields = RecurrentFields(
    std::array{kUnits, kActivation, kRecurrentActivation, kUseBias,
               LayerField("unit_forget_bias", &Layer::unit_forget_bias)
                   .OrNull()
                   .SetBy(kSetUnitForgetBias)},
    std::array<LayerField, 0>());
constexpr auto kGRUFields = RecurrentFields(
    std::array{kUnits, kActivation, kRecurrentActivation, kUseBias},
    std::array{LayerField("reset_after", &Layer::reset_after)
                   .SetBy(kSetResetAfter)
                   .Compared("reset before")
                   .Saved("reset_after")});
constexpr LayerField kTimeDistributedFields[] = {
    LayerField("layer", &Layer::layer).Required().Saved(""),
};
// The graph has the layers of a Bidirectional instead of it.
constexpr LayerField kBidirectionalFields[] = {
    LayerField("layer", &Layer::layer).Required(),
    LayerField("backward_layer", &Layer::backward_layer),
    LayerField("merge_mode", &Layer::merge_mode),
};
constexpr LayerField kRepeatVectorFields[] = {
    LayerField("n", &Layer::repeats).Required().Compared("n").Saved("n"),
};
constexpr LayerField kEmbeddingFields[] = {
    LayerField("input_dim", &Layer::input_dim)
        .Required()
        .Compared("input_dim")
        .Saved("of"),
    LayerField("output_dim", &Layer::units).Required(),
    LayerField("embeddings_initializer", &Layer::embeddings_initializer)
        .SetBy(kSetEmbeddingsInitializer),
    LayerField("embeddings_regularizer", &Layer::embeddings_regularizer)
        .SetBy(kSetEmbeddingsRegularizer)
        .Compared("embeddings_regularizer"),
    kActivityRegularizer,
    ConstraintField("embeddings_constraint", &Layer::embeddings_constraint,
                    kSetEmbeddingsConstraint),
    LayerField("mask_zero", &Layer::mask_zero).OrNull().SetBy(kSetMaskZero),
    LayerField("input_length", AnyValue()).Unwritten(),
    kLoraRank,
    kLoraAlpha,
    kQuantizationMode,
    kQuantizationConfig,
};
constexpr LayerField kMaskValue =
    LayerField("mask_value", &Layer::mask_value).Compared("mask_value");
constexpr LayerField kMaskingFields[] = {kMaskValue};
// KerasHub has no other rule for sequences of at most sequence_length.
constexpr LayerField kPositionEmbeddingFields[] = {
    LayerField("sequence_length", &Layer::input_dim)
        .Required()
        .Compared("sequence_length")
        .Saved("of"),
    LayerField("initializer", &Layer::embeddings_initializer)
        .SetBy(kSetEmbeddingsInitializer),
    LayerField("hierarchical_alpha", AnyValue()).Unwritten(),
};
constexpr LayerField kUseCausalMask =
    LayerField("use_causal_mask", &Layer::use_causal_mask)
        .InCall()
        .SetBy(kSetUseCausalMask)
        .Compared("without causal mask")
        .Saved("causal");
constexpr LayerField kAttentionFields[] = {
    LayerField("use_scale", &Layer::use_scale).SetBy(kSetUseScale),
    LayerField("score_mode", OnlyText{"dot"}),
    kRecurrentDropoutFields[0],
    kSeed,
    kUseCausalMask,
    // A field of Keras 2.
    LayerField("causal", &Layer::use_causal_mask).Unwritten(),
};
// As Attention, without score_mode; Keras 2 has causal.
constexpr LayerField kAdditiveAttentionFields[] = {
    kAttentionFields[0], kRecurrentDropoutFields[0], kSeed,
    kUseCausalMask,      kAttentionFields[5],
};
constexpr LayerField kMultiHeadAttentionFields[] = {
    LayerField("num_heads", &Layer::num_heads).Required(),
    LayerField("key_dim", &Layer::key_dim).Required(),
    LayerField("value_dim", &Layer::value_dim).OrZero().SetBy(kSetValueDim),
    kRecurrentDropoutFields[0],
    kUseBias,
    LayerField("output_shape", OnlyNull()),
    LayerField("attention_axes", OnlyNumber{1}),
    kKernelInitializer,
    kBiasInitializer,
    kKernelRegularizer,
    kBiasRegularizer,
    kActivityRegularizer,
    kKernelConstraint,
    kBiasConstraint,
    kSeed,
    kUseCausalMask,
    LayerField("flash_attention", AnyValue()).Unwritten(),
    LayerField("use_gate", OnlyFalse()).Unwritten(),
    // Fields of Keras 2.
    LayerField("query_shape", AnyValue()).Unwritten(),
    LayerField("value_shape", AnyValue()).Unwritten(),
    LayerField("key_shape", AnyValue()).Unwritten(),
};
constexpr LayerField kRescalingFields[] = {
    LayerField("scale", &Layer::scales).Required().Compared("scale"),
    LayerField("offset", &Layer::offsets).Compared("offset"),
};
constexpr LayerField kNormalizationFields[] = {
    kLastAxis,
    LayerField("invert", &Layer::invert)
        .SetBy(kSetInvert)
        .Compared("not inverted"),
    LayerField("mean", &Layer::means).OrNull().Compared("mean"),
    LayerField("variance", &Layer::variances)
        .OrNull()
        .InRange(kNotNegative)
        .Compared("variance"),
    LayerField("adapt", &Layer::adapt).Unwritten(),
};

template <typename T>
constexpr LayerField SoundField(const char* name, T Layer::*member) {
  return LayerField(name, member).Compared(name).Saved(name);
}
constexpr std::array kFrameFields = {
    SoundField("sampling_rate", &Layer::sampling_rate),
    SoundField("sequence_stride", &Layer::sequence_stride),
    LayerField("window", OnlyText{"hann", /*or_null=*/false}),
    SoundField("num_mel_bins", &Layer::num_mel_bins),
    SoundField("min_freq", &Layer::min_freq).InRange(kNotNegative),
    SoundField("max_freq", &Layer::max_freq).InRange(kNotNegative).OrNull(),
    SoundField("power_to_db", &Layer::power_to_db),
    SoundField("mag_exp", &Layer::mag_exp).InRange(kPositive),
};
constexpr auto kMelSpectrogramFields =
    Join(kFrameFields,
         std::array{
             SoundField("fft_length", &Layer::fft_length),
             SoundField("sequence_length", &Layer::sequence_length).OrZero(),
             SoundField("top_db", &Layer::top_db).InRange(kNotNegative),
             SoundField("min_power", &Layer::min_power).InRange(kPositive),
             SoundField("ref_power", &Layer::ref_power),
         });
constexpr auto kMFCCFields =
    Join(kFrameFields,
         std::array{
             SoundField("fft_length", &Layer::fft_length).OrZero(),
             SoundField("sequence_length", &Layer::sequence_length),
             SoundField("num_mfcc", &Layer::num_mfcc).OrZero(),
             SoundField("log_offset", &Layer::log_offset).InRange(kNotNegative),
             SoundField("htk", &Layer::htk),
             SoundField("center", &Layer::centered),
         });
constexpr LayerField kSTFTSpectrogramFields[] = {
    SoundField("mode", &Layer::spectrogram_mode),
    SoundField("frame_length", &Layer::sequence_length),
    SoundField("frame_step", &Layer::sequence_stride).OrZero(),
    SoundField("fft_length", &Layer::fft_length).OrZero(),
    SoundField("window", &Layer::window_function),
    SoundField("periodic", &Layer::periodic),
    SoundField("scaling", &Layer::window_scaling),
    kPadding,
    kChannelsLast,
    SoundField("expand_dims", &Layer::expand_dims),
};

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_LAYER_FIELDS_H_
