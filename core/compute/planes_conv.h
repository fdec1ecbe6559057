// Direct convolution with at most eight filters, for vectors of sixteen lanes:
// neighbouring positions in one vector, from an image with its channels in
// separate planes.
//
// Every element has the same bits as the result of direct_conv.h.

#ifndef RINGLET_CORE_COMPUTE_PLANES_CONV_H_
#define RINGLET_CORE_COMPUTE_PLANES_CONV_H_

#include <cstdint>

#include "direct_conv.h"

namespace ringlet {

constexpr int64_t kMaxPlanesFilters = 8;

// A convolution (DirectConv::forward) with x_step 1.
using PlanesForward = void (*)(const ConvForward& product);

#if defined(__x86_64__)
void PlanesForwardAvx512(const ConvForward& product);
#endif

// Null if the chosen kernels have no such vectors, or there are too many
// filters.
PlanesForward BestPlanesForward(int64_t filters);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_PLANES_CONV_H_
