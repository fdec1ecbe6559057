// Kernels: the loops beside the matrix products.
//
// Internal to core/. Each works on rows [rows.begin, rows.end) of row-major
// spans, so that threads share them by rows; naive.h has the plain twin of
// those that are more than one line of mathematics.

#ifndef RINGLET_CORE_LAYERS_KERNELS_H_
#define RINGLET_CORE_LAYERS_KERNELS_H_

#include <cstdint>

#include "../base/thread_pool.h"
#include "layers.h"

namespace ringlet {

// Of the whole last axis at once, as softmax.
bool OverRow(Activation activation);
// Its gradient needs the input. Only the layer Activation computes such a one:
// behind any other layer Op::Make puts it, so that no layer's op is given it.
bool ReadsInput(Activation activation);

// y = activation(y + bias), in place, rows of `width`. `bias` may be null.
void BiasActivation(Activation activation, const float* bias, int64_t rows,
                    int64_t width, float* y);

// dy = dy * activation'(.), in place, from the activation's output y; where it
// ReadsInput, `y` is the input.
void ActivationGradient(Activation activation, const float* y, int64_t rows,
                        int64_t width, float* dy);

// sums[j] += the sum over rows of m(., j).
void AddColumnSums(const float* m, int64_t rows, int64_t width, float* sums);

// to[i] += from[i].
void AddTo(const float* from, int64_t n, float* to);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_KERNELS_H_
