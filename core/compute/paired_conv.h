// Gradients of the kernel of at most eight filters, where vectors have sixteen
// lanes: of two taps side by side.
//
// Internal to core/. Every element is what direct_conv.h makes of it, to the
// bit.

#ifndef RINGLET_CORE_COMPUTE_PAIRED_CONV_H_
#define RINGLET_CORE_COMPUTE_PAIRED_CONV_H_

#include <cstdint>

#include "direct_conv.h"

namespace ringlet {

constexpr int64_t kMostPairedFilters = 8;

// As DirectConv::gradient.
using PairedGradient = void (*)(const ConvGradient& product);

#if defined(__x86_64__)
void PairedGradientAvx512(const ConvGradient& product);
#endif

// Null where the chosen kernels have no such vectors, or filters are too many.
PairedGradient BestPairedGradient(int64_t filters);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_PAIRED_CONV_H_
