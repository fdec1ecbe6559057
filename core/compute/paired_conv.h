// Gradients of kernels with at most eight filters, for vectors of sixteen
// lanes: two neighbouring taps in one vector.
//
// Every element has the same bits as the result of direct_conv.h.

#ifndef RINGLET_CORE_COMPUTE_PAIRED_CONV_H_
#define RINGLET_CORE_COMPUTE_PAIRED_CONV_H_

#include <cstdint>

#include "direct_conv.h"

namespace ringlet {

constexpr int64_t kMaxPairedFilters = 8;

// Adds the gradient of the kernel for the given images (DirectConv::gradient).
using PairedGradient = void (*)(const ConvGradient& product);

#if defined(__x86_64__)
void PairedGradientAvx512(const ConvGradient& product);
#endif

// Null if the chosen kernels have no such vectors, or there are too many
// filters.
PairedGradient BestPairedGradient(int64_t filters);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_PAIRED_CONV_H_
