// StftPlan: the tables of an STFTSpectrogram.

#ifndef RINGLET_CORE_LAYERS_PREPROCESSING_STFT_H_
#define RINGLET_CORE_LAYERS_PREPROCESSING_STFT_H_

#include <cstdint>

#include "frame_plan.h"
#include "ringlet/layers.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// The window is scaled by its divisor (WindowScaling).
struct StftPlan : FramePlan {
  int64_t channels = 1;
  SpectrogramMode mode = SpectrogramMode::kLog;
  bool channels_last = false;  // y is (frames, numbers, channels)

  // The output's numbers for one frame of one channel.
  int64_t numbers() const {
    return (mode == SpectrogramMode::kStft ? 2 : 1) * frequencies();
  }
  Shape output() const {
    return channels_last ? Shape{frames, numbers(), channels}
                         : Shape{frames, channels * numbers()};
  }
};

// Makes the plan of an STFTSpectrogram for an input of this shape, or returns
// an error.
Status MakeStftPlan(const Layer& layer, const Shape& input, StftPlan* plan);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_PREPROCESSING_STFT_H_
