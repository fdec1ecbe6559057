// SpectrogramPlan: the tables of a MelSpectrogram or an MFCC.

#ifndef RINGLET_CORE_LAYERS_PREPROCESSING_SPECTROGRAM_PLAN_H_
#define RINGLET_CORE_LAYERS_PREPROCESSING_SPECTROGRAM_PLAN_H_

#include <cstdint>
#include <vector>

#include "frame_plan.h"
#include "ringlet/layers.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// Sums the squared magnitudes of a frame's Fourier transform in each mel bin.
struct SpectrogramPlan : FramePlan {
  // A triangle over consecutive frequencies.
  struct MelBin {
    int64_t first = 0;  // frequency
    std::vector<double> weights;
  };

  std::vector<MelBin> mel_bins;
  double mag_exp = 2;
  // y = log(max(mel, least) + log_offset) * log_factor - log_of_reference, then
  // at least the example's largest y less `range`.
  bool has_log = true;
  float least = 0, log_offset = 0, log_factor = 1, log_of_reference = 0;
  bool has_range = false;
  float range = 0;
  // The rows of the cosine transform: a row for each coefficient. Empty without
  // the transform.
  std::vector<double> dct;
  int64_t num_mfcc = 0;
  bool frames_last = false;  // y is (mel bins, frames)

  int64_t mels() const { return static_cast<int64_t>(mel_bins.size()); }
  Shape output() const {
    const int64_t width = num_mfcc > 0 ? num_mfcc : mels();
    return frames_last ? Shape{width, frames} : Shape{frames, width};
  }
  // The multiply-adds for an example's frames.
  int64_t multiply_adds() const;
  // The bytes of the vectors.
  uint64_t table_bytes() const;
};

// Makes the plan of such a layer for an input of this shape, or returns an
// error.
Status MakeSpectrogramPlan(const Layer& layer, const Shape& input,
                           SpectrogramPlan* plan);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_PREPROCESSING_SPECTROGRAM_PLAN_H_
