// Direct convolution of at most eight filters, where vectors have sixteen
// lanes: of positions side by side, from an image whose channels lie apart.
//
// Internal to core/. Every element is what direct_conv.h makes of it, to the
// bit.

#ifndef RINGLET_CORE_COMPUTE_PLANES_CONV_H_
#define RINGLET_CORE_COMPUTE_PLANES_CONV_H_

#include <cstdint>

#include "direct_conv.h"

namespace ringlet {

constexpr int64_t kMostPlanesFilters = 8;

// As DirectConv::forward, of windows whose x_step is 1.
using PlanesForward = void (*)(const ConvForward& product);

#if defined(__x86_64__)
void PlanesForwardAvx512(const ConvForward& product);
#endif

// Null where the chosen kernels have no such vectors, or filters are too many.
PlanesForward BestPlanesForward(int64_t filters);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_PLANES_CONV_H_
