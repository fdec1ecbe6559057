// Maxima of windows over an image, and their gradients, for each vector width.
//
// Every width gives the same bits. y(p, c) is y[p * channels + c].

#ifndef RINGLET_CORE_COMPUTE_POOL_LOOPS_H_
#define RINGLET_CORE_COMPUTE_POOL_LOOPS_H_

#include <cstdint>

namespace ringlet {

// Windows in the same rows of an image. The window at position p begins p *
// step floats after the first. It has `height` by `width` pixels of `channels`,
// and its rows are `row_floats` apart.
struct PoolWindows {
  int64_t positions, step;
  int64_t height, width, row_floats, channels;
};

constexpr int kNoIndex = 255;

struct PoolLoops {
  // y(p, c) = the maximum of window p; NaN wins.
  void (*maxima)(const PoolWindows& w, const float* x, float* y);
  // Gives the gradient dy(p, c) to the first pixel of the window that has y(p,
  // c), and 0 to the other pixels. For windows that do not overlap.
  void (*gradient)(const PoolWindows& w, const float* x, const float* y,
                   const float* dy, float* dx);
  // Maxima, and the index of the first pixel of each window that has the
  // maximum. The index is kNoIndex if the maximum is NaN, or with `above_zero`
  // if it is not above 0.
  void (*indexed_maxima)(const PoolWindows& w, const float* x, bool above_zero,
                         float* y, uint8_t* indices);
  // Gives the gradient to the pixels with these indices.
  void (*indexed_gradient)(const PoolWindows& w, const uint8_t* indices,
                           const float* dy, float* dx);
};

extern const PoolLoops kPoolLoops;  // runs on any CPU of the architecture
#if defined(__x86_64__)
extern const PoolLoops kPoolLoopsAvx2;
extern const PoolLoops kPoolLoopsAvx512;
#endif

// The loops of the chosen kernels for this number of channels.
const PoolLoops& BestPoolLoops(int64_t channels);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_POOL_LOOPS_H_
