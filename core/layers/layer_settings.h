// LayerSetting: a number for each setter of a Layer.

#ifndef RINGLET_CORE_LAYERS_LAYER_SETTINGS_H_
#define RINGLET_CORE_LAYERS_LAYER_SETTINGS_H_

#include <cstdint>

#include "ringlet/layers.h"

namespace ringlet {

// The indices of Layer::settings: the setters that were called. A setter that
// the layer lacks is an error. No file has these numbers.
enum LayerSetting : uint8_t {
  kNoSetter,  // the field has no setter
  kSetStrides,
  kSetPadding,
  kSetUseBias,
  kSetKernelInitializer,
  kSetBiasInitializer,
  kSetKernelRegularizer,
  kSetBiasRegularizer,
  kSetSeed,
  kSetKeepDims,
  kSetLoraRank,
  kSetLoraAlpha,
  kSetMaskZero,
  kSetDilationRate,
  kSetDepthMultiplier,
  kSetDepthwiseInitializer,
  kSetDepthwiseRegularizer,
  kSetGroups,
  kSetPointwiseInitializer,
  kSetPointwiseRegularizer,
  kSetOutputPadding,
  kSetUseCausalMask,
  kSetValueDim,
  kSetUseScale,
  kSetKernelConstraint,
  kSetBiasConstraint,
  kSetDepthwiseConstraint,
  kSetPointwiseConstraint,
  kSetRecurrentConstraint,
  kSetEmbeddingsConstraint,
  kSetAlphaConstraint,
  kSetGammaConstraint,
  kSetBetaConstraint,
  kSetCenter,
  kSetScale,
  kSetGammaInitializer,
  kSetBetaInitializer,
  kSetGammaRegularizer,
  kSetBetaRegularizer,
  kSetMovingMeanInitializer,
  kSetMovingVarianceInitializer,
  kSetSynchronized,
  kSetAxes,
  kSetInvert,
  kSetAlphaInitializer,
  kSetAlphaRegularizer,
  kSetNoiseShape,
  kSetRecurrentInitializer,
  kSetRecurrentRegularizer,
  kSetReturnSequences,
  kSetGoBackwards,
  kSetDropout,
  kSetRecurrentDropout,
  kSetUnitForgetBias,
  kSetResetAfter,
  kSetEmbeddingsInitializer,
  kSetEmbeddingsRegularizer,
  kSetReturnState,
  kSetFillMode,
  kSetFillValue,
  kSetInterpolation,
  kSetValueRange,
  kSetCropToAspectRatio,
  kSetPadToAspectRatio,
  kSetZeroOutputForMask,
  kNumLayerSettings
};
static_assert(kNumLayerSettings <= decltype(Layer::settings)().size(),
              "Layer::settings needs more bits");

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_LAYER_SETTINGS_H_
