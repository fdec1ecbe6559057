// Keras's names of the settings of layers.

#ifndef RINGLET_CORE_LAYERS_SETTING_NAMES_H_
#define RINGLET_CORE_LAYERS_SETTING_NAMES_H_

#include "../base/named.h"
#include "ringlet/layers.h"

namespace ringlet {

constexpr Named<PaddingMode> kPaddings[] = {{"valid", kValid}, {"same", kSame}};
constexpr Named<PaddingMode> kCausalPaddings[] = {
    {"valid", kValid}, {"same", kSame}, {"causal", kCausal}};

// Null is kMergeNone.
constexpr Named<MergeMode> kMergeModes[] = {{"concat", kMergeConcat},
                                            {"sum", kMergeSum},
                                            {"mul", kMergeMul},
                                            {"ave", kMergeAve}};

// Names in image_dataset_from_directory.
constexpr Named<Interpolation> kImageInterpolations[] = {
    {"bilinear", Interpolation::kBilinear},
    {"nearest", Interpolation::kNearest},
    {"area", Interpolation::kArea}};
// The names in the JSON of a layer.
constexpr Named<Interpolation> kInterpolations[] = {
    {"bilinear", Interpolation::kBilinear},
    {"nearest", Interpolation::kNearest}};

constexpr Named<FillMode> kFillModes[] = {{"reflect", FillMode::kReflect},
                                          {"wrap", FillMode::kWrap},
                                          {"constant", FillMode::kConstant},
                                          {"nearest", FillMode::kNearest}};

constexpr Named<FlipMode> kFlipModes[] = {
    {"horizontal_and_vertical", FlipMode::kHorizontalAndVertical},
    {"horizontal", FlipMode::kHorizontal},
    {"vertical", FlipMode::kVertical}};

constexpr Named<SpectrogramMode> kSpectrogramModes[] = {
    {"log", SpectrogramMode::kLog},
    {"magnitude", SpectrogramMode::kMagnitude},
    {"psd", SpectrogramMode::kPsd},
    {"real", SpectrogramMode::kReal},
    {"imag", SpectrogramMode::kImag},
    {"angle", SpectrogramMode::kAngle},
    {"stft", SpectrogramMode::kStft}};
// Null is a window of ones, and no scaling.
constexpr Named<WindowFunction> kWindowFunctions[] = {
    {"hann", WindowFunction::kHann}, {"hamming", WindowFunction::kHamming}};
constexpr Named<WindowScaling> kWindowScalings[] = {
    {"density", WindowScaling::kDensity},
    {"spectrum", WindowScaling::kSpectrum}};

inline const char* NameOf(PaddingMode v) { return NameIn(kCausalPaddings, v); }
inline const char* NameOf(FlipMode v) { return NameIn(kFlipModes, v); }
inline const char* NameOf(FillMode v) { return NameIn(kFillModes, v); }
inline const char* NameOf(Interpolation v) {
  return NameIn(kImageInterpolations, v);
}
inline const char* NameOf(SpectrogramMode v) {
  return NameIn(kSpectrogramModes, v);
}
// "" for the value without a name.
inline const char* NameOf(WindowFunction v) {
  return NameIn(kWindowFunctions, v, "");
}
inline const char* NameOf(WindowScaling v) {
  return NameIn(kWindowScalings, v, "");
}

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_SETTING_NAMES_H_
