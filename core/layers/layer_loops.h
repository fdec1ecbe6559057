// The loops of layers besides the matrix products.
//
// Each loop works on rows [rows.begin, rows.end) of row-major spans, so that
// threads can divide the rows. tests/support/naive_layers.h has reference
// implementations of the loops with more than one line of mathematics.

#ifndef RINGLET_CORE_LAYERS_LAYER_LOOPS_H_
#define RINGLET_CORE_LAYERS_LAYER_LOOPS_H_

#include <cstdint>

#include "ringlet/compute.h"
#include "ringlet/layers.h"

namespace ringlet {

// True if the activation depends on the whole last axis, as softmax does.
bool IsOverRow(Activation activation);
// True if its gradient needs the input. Only the layer Activation computes such
// an activation. Op::Make appends it to other layers, so no other op gets it.
bool GradientReadsInput(Activation activation);

// n, rounded up to a multiple of 4: each row of random numbers begins with a
// new block of 4.
constexpr int64_t RoundUpToFour(int64_t n) { return (n + 3) / 4 * 4; }

// y = activation(y + bias), in place, rows of `width`. `bias` may be null.
void BiasActivation(Activation activation, const float* bias, int64_t rows,
                    int64_t width, float* y);

// dy = dy * activation'(.), in place, from the activation's output `y`; if it
// GradientReadsInput, `y` is the input.
void ActivationGradient(Activation activation, const float* y, int64_t rows,
                        int64_t width, float* dy);

// sums[j] += the sum over rows of m(., j).
void AddColumnSums(const float* m, int64_t rows, int64_t width, float* sums);

// sums[j] += the sum over images of the sum over the image's `positions` rows
// of m(., j). Two levels of sums round less than one sum over all rows.
void AddImageSums(const float* m, int64_t images, int64_t positions,
                  int64_t width, float* sums);

// to[i] += from[i].
void AddTo(const float* from, int64_t n, float* to);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_LAYER_LOOPS_H_
