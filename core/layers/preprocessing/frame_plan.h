// FramePlan: the frames of sound that a layer transforms, and their Fourier
// transform.

#ifndef RINGLET_CORE_LAYERS_PREPROCESSING_FRAME_PLAN_H_
#define RINGLET_CORE_LAYERS_PREPROCESSING_FRAME_PLAN_H_

#include <cstdint>
#include <vector>

#include "ringlet/layers.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// A frame has `fft_length` numbers: window.size() samples, multiplied by the
// window, and zeros before and after them.
struct FramePlan {
  int64_t samples = 0;  // the samples of an example
  int64_t frames = 0, stride = 0;
  int64_t fft_length = 0;
  int64_t padding = 0;   // samples before the first sample
  bool reflects = true;  // the padding has reflected samples, otherwise zeros
  int64_t window_begin = 0;
  std::vector<double> window;
  // cos and sin of 2 pi k / fft_length, for each k of a period.
  std::vector<double> cosines, sines;

  int64_t frequencies() const { return fft_length / 2 + 1; }
  // True if the transform has fft_length / 2 complex numbers, a power of 2.
  // Otherwise it is the sum by its definition.
  bool is_fast() const {
    return fft_length >= 4 && (fft_length & (fft_length - 1)) == 0;
  }
  // The sample at a place that may be in the padding; -1 if it is a zero.
  int64_t SampleAt(int64_t place) const {
    int64_t at = place - padding;
    if (!reflects) return at < samples ? at : -1;
    if (at < 0) at = -at;
    return at < samples ? at : 2 * (samples - 1) - at;
  }
  // The multiply-adds for the frames of one channel.
  int64_t frame_multiply_adds() const;
  uint64_t frame_table_bytes() const;
  void ComputeCircle();  // cosines and sines, from fft_length
};

// Returns an error if `value`, a length of a plan, is not from `minimum` to
// `maximum`.
Status CheckSoundField(const char* name, int64_t value, int64_t minimum,
                       int64_t maximum);
Status CheckFftLength(const FramePlan& plan, int64_t length);
// Refuses a field that belongs to another sound layer. These fields have no
// setters, so Op::Make does not find them.
Status CheckForeignFields(const Layer& layer);
int64_t NextPowerOf2(int64_t number);
constexpr int64_t kMaxFftLength = 65536;
constexpr int64_t kMaxSoundInt = int64_t{1} << 30;

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_PREPROCESSING_FRAME_PLAN_H_
