// Keras's names of the settings of an STFTSpectrogram.

#ifndef RINGLET_IO_KERAS_SOUND_NAMES_H_
#define RINGLET_IO_KERAS_SOUND_NAMES_H_

#include "name_table.h"
#include "ringlet/layers.h"

namespace ringlet {

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

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_SOUND_NAMES_H_
