// Direct convolution of at most eight filters, where vectors have sixteen
// lanes: of two positions, or of two taps, side by side.
//
// Internal to core/. Every element is what direct_conv.h makes of it, to the
// bit.

#ifndef RINGLET_CORE_COMPUTE_PAIRED_CONV_H_
#define RINGLET_CORE_COMPUTE_PAIRED_CONV_H_

#include <cstdint>

#include "direct_conv.h"

namespace ringlet {

constexpr int64_t kMostPairedFilters = 8;

struct PairedConv {
  // As DirectConv's. Of two positions or more; behind each float of x that a
  // window reads there is that of the next position.
  void (*forward)(const ConvForward& product);
  // As DirectConv's, of any x.
  void (*gradient)(const ConvGradient& product);
  // to[2 i] = from[i], to[2 i + 1] = from[i + distance] or 0 from n on; `from`
  // may be to + n.
  void (*pair)(const float* from, int64_t n, int64_t distance, float* to);
};

#if defined(__x86_64__)
extern const PairedConv kPairedConvAvx512;
#endif

// Null where the chosen kernels have no such vectors, or filters are too many.
const PairedConv* BestPairedConv(int64_t filters);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_PAIRED_CONV_H_
