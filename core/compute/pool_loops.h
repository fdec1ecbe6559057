// Maxima of windows over an image, and their gradients, for each width of
// vectors.
//
// Internal to core/. Of every width the same bits.

#ifndef RINGLET_CORE_COMPUTE_POOL_LOOPS_H_
#define RINGLET_CORE_COMPUTE_POOL_LOOPS_H_

#include <cstdint>

namespace ringlet {

// Windows of the same rows of an image: the one at position p begins p * step
// floats behind the first one, is `height` by `width` pixels of `channels`, and
// has its rows `row_floats` apart.
struct PoolWindows {
  int64_t positions, step;
  int64_t height, width, row_floats, channels;
};

constexpr int kNoPlace = 255;

struct PoolLoops {
  // y(p, c) = the largest of window p; NaN wins.
  void (*maxima)(const PoolWindows& w, const float* x, float* y);
  // The gradient dy(p, c) to the first pixel that holds y(p, c), 0 to the
  // others; of windows that share no pixel.
  void (*gradient)(const PoolWindows& w, const float* x, const float* y,
                   const float* dy, float* dx);
  // Maxima, and the number of the first pixel of each window that holds it; or
  // kNoPlace where it is NaN, or `above_zero` and it is not above 0.
  void (*placed_maxima)(const PoolWindows& w, const float* x, bool above_zero,
                        float* y, uint8_t* places);
  // The gradient to the pixels of these numbers.
  void (*placed_gradient)(const PoolWindows& w, const uint8_t* places,
                          const float* dy, float* dx);
};

extern const PoolLoops kPoolLoops;  // for any CPU of the architecture
#if defined(__x86_64__)
extern const PoolLoops kPoolLoopsAvx2;
extern const PoolLoops kPoolLoopsAvx512;
#endif

// Of the chosen kernels, for so many channels.
const PoolLoops& BestPoolLoops(int64_t channels);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_POOL_LOOPS_H_
