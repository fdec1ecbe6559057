// SpectrogramPlan: the tables of a MelSpectrogram or an MFCC.

#ifndef RINGLET_CORE_LAYERS_PREPROCESSING_SPECTROGRAM_PLAN_H_
#define RINGLET_CORE_LAYERS_PREPROCESSING_SPECTROGRAM_PLAN_H_

#include <cstdint>
#include <vector>

#include "ringlet/layers.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// A frame is window.size() samples times the window. Of `fft_length` numbers,
// zeros but for these, it takes the squared magnitudes of the Fourier
// transform, and of these the sums of each mel bin.
struct SpectrogramPlan {
  // A triangle over consecutive frequencies.
  struct MelBin {
    int64_t first = 0;  // frequency
    std::vector<double> weights;
  };

  int64_t samples = 0;  // of an example
  int64_t frames = 0, stride = 0;
  int64_t fft_length = 0;
  int64_t padding = 0;  // reflected samples before the first sample
  int64_t window_begin = 0;
  std::vector<double> window;
  // cos and sin of 2 pi k / fft_length, for each k of a period.
  std::vector<double> cosines, sines;
  std::vector<MelBin> mel_bins;
  double mag_exp = 2;
  // y = log(max(mel, least) + log_offset) * log_factor - log_of_reference, then
  // at least the example's largest y less `range`.
  bool has_log = true;
  float least = 0, log_offset = 0, log_factor = 1, log_of_reference = 0;
  bool has_range = false;
  float range = 0;
  // Rows of the cosine transform, one for each coefficient; empty: none.
  std::vector<double> dct;
  int64_t num_mfcc = 0;
  bool frames_last = false;  // y is (mel bins, frames)

  int64_t frequencies() const { return fft_length / 2 + 1; }
  int64_t mels() const { return static_cast<int64_t>(mel_bins.size()); }
  // True if the transform is that of fft_length / 2 complex numbers, a power of
  // 2. Otherwise it is the sum by its definition.
  bool is_fast() const {
    return fft_length >= 4 && (fft_length & (fft_length - 1)) == 0;
  }
  Shape output() const {
    const int64_t width = num_mfcc > 0 ? num_mfcc : mels();
    return frames_last ? Shape{width, frames} : Shape{frames, width};
  }
  // Of an example's frames.
  int64_t multiply_adds() const;
  // Of the vectors.
  uint64_t table_bytes() const;
  // The sample at a place that may be in the padding.
  int64_t SampleAt(int64_t place) const {
    int64_t at = place - padding;
    if (at < 0) at = -at;
    return at < samples ? at : 2 * (samples - 1) - at;
  }
};

// The plan of such a layer for an input of this shape, or an error.
Status MakeSpectrogramPlan(const Layer& layer, const Shape& input,
                           SpectrogramPlan* plan);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_PREPROCESSING_SPECTROGRAM_PLAN_H_
