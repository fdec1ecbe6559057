// LayerSetting: a bit for each setter of a Layer.

#ifndef RINGLET_CORE_LAYERS_LAYER_SETTINGS_H_
#define RINGLET_CORE_LAYERS_LAYER_SETTINGS_H_

#include <cstdint>

namespace ringlet {

// The bits of Layer::settings: the setters that were called. A setter that the
// layer lacks is an error. A new setter takes any bit that is free. No file has
// these bits.
enum LayerSetting : uint64_t {
  kSetStrides = uint64_t{1} << 0,
  kSetPadding = uint64_t{1} << 1,
  kSetUseBias = uint64_t{1} << 2,
  kSetKernelInitializer = uint64_t{1} << 3,
  kSetBiasInitializer = uint64_t{1} << 4,
  kSetKernelRegularizer = uint64_t{1} << 5,
  kSetBiasRegularizer = uint64_t{1} << 6,
  kSetSeed = uint64_t{1} << 7,
  kSetKeepDims = uint64_t{1} << 8,
  kSetLoraRank = uint64_t{1} << 9,
  kSetLoraAlpha = uint64_t{1} << 10,
  kSetMaskZero = uint64_t{1} << 11,
  kSetDilationRate = uint64_t{1} << 12,
  kSetDepthMultiplier = uint64_t{1} << 13,
  kSetDepthwiseInitializer = uint64_t{1} << 14,
  kSetDepthwiseRegularizer = uint64_t{1} << 15,
  kSetGroups = uint64_t{1} << 16,
  kSetPointwiseInitializer = uint64_t{1} << 17,
  kSetPointwiseRegularizer = uint64_t{1} << 18,
  kSetOutputPadding = uint64_t{1} << 19,
  kSetUseCausalMask = uint64_t{1} << 20,
  kSetValueDim = uint64_t{1} << 21,
  kSetUseScale = uint64_t{1} << 22,
  kSetKernelConstraint = uint64_t{1} << 23,
  kSetBiasConstraint = uint64_t{1} << 24,
  kSetDepthwiseConstraint = uint64_t{1} << 25,
  kSetPointwiseConstraint = uint64_t{1} << 26,
  kSetRecurrentConstraint = uint64_t{1} << 27,
  kSetEmbeddingsConstraint = uint64_t{1} << 28,
  kSetAlphaConstraint = uint64_t{1} << 29,
  kSetGammaConstraint = uint64_t{1} << 30,
  kSetBetaConstraint = uint64_t{1} << 31,
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
  kSetNoiseShape = uint64_t{1} << 45,
  kSetRecurrentInitializer = uint64_t{1} << 46,
  kSetRecurrentRegularizer = uint64_t{1} << 47,
  kSetReturnSequences = uint64_t{1} << 48,
  kSetGoBackwards = uint64_t{1} << 49,
  kSetDropout = uint64_t{1} << 50,
  kSetRecurrentDropout = uint64_t{1} << 51,
  kSetUnitForgetBias = uint64_t{1} << 52,
  kSetResetAfter = uint64_t{1} << 53,
  kSetEmbeddingsInitializer = uint64_t{1} << 54,
  kSetEmbeddingsRegularizer = uint64_t{1} << 55,
  kSetReturnState = uint64_t{1} << 56,
  kSetFillMode = uint64_t{1} << 57,
  kSetFillValue = uint64_t{1} << 58,
  kSetInterpolation = uint64_t{1} << 59,
  kSetValueRange = uint64_t{1} << 60,
  kSetCropToAspectRatio = uint64_t{1} << 61,
  kSetPadToAspectRatio = uint64_t{1} << 62,
  kSetZeroOutputForMask = uint64_t{1} << 63,
};

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_LAYER_SETTINGS_H_
