// Direct convolution: a row of outputs straight from the image, without the
// columns that a matrix product needs.
//
// Internal to core/. Pays where a filter has few taps (the first layer of an
// image model): there the columns cost more than the products.

#ifndef RINGLET_CORE_COMPUTE_DIRECT_CONV_H_
#define RINGLET_CORE_COMPUTE_DIRECT_CONV_H_

#include <cstdint>

namespace ringlet {

// One row of a convolution that lies on the image wholly. Output p reads
// x[p * stride + offset[k]] at tap k; floats are counted everywhere.
struct ConvRow {
  const float* x;
  int64_t stride;     // from one output's first tap to the next one's
  int64_t positions;  // outputs in the row
  const int64_t* offset;
  int64_t taps;
  int64_t filters;  // a multiple of DirectConv::filters
};

// One build of the kernels, for one width of vectors.
struct DirectConv {
  int64_t filters;

  // y(p, f) = sum over k of x(p, k) w(k, f), + bias(f), and then relu, which
  // keeps NaN. `bias` may be null.
  void (*forward)(const ConvRow& row, const float* w, const float* bias,
                  bool relu, float* y);
  // dw(k, f) += sum over p of x(p, k) dy(p, f), d_bias(f) += sum of dy(., f).
  // `d_bias` may be null.
  void (*gradient)(const ConvRow& row, const float* dy, float* dw,
                   float* d_bias);
};

extern const DirectConv kDirectConv;  // for any CPU of the architecture
#if defined(__x86_64__)
extern const DirectConv kDirectConvAvx2;  // with AVX2 and FMA
#endif

// The best that this CPU can run.
const DirectConv& BestDirectConv();

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_DIRECT_CONV_H_
