// Direct convolution: products of windows of an image with a kernel, straight
// from the image, without the columns that a matrix product needs.
//
// Internal to core/. Every element is what Gemm makes of those columns, to the
// bit (gemm.h): one chain of multiply-adds in the order of the taps, or of the
// positions, in blocks of kConvBlock, which are added up in their order. So the
// bits depend on no width of vectors, but for the processor having fused
// multiply-adds or not.

#ifndef RINGLET_CORE_COMPUTE_DIRECT_CONV_H_
#define RINGLET_CORE_COMPUTE_DIRECT_CONV_H_

#include <cstdint>

namespace ringlet {

constexpr int64_t kConvBlock = 128;

// Whole vectors, whatever their width.
constexpr int64_t PaddedFilters(int64_t filters) {
  return (filters + 15) / 16 * 16;
}

// Windows over an image, at rows of positions: position p of row r reads
// x[r * x_row + p * x_step + offsets[k]] at tap k. Floats are counted
// everywhere.
struct ConvWindows {
  const float* x;
  int64_t x_row, x_step;
  int64_t rows, positions;  // at least one of each
  const int64_t* offsets;
  int64_t taps;
  // Of a longer chain, whose taps before the first one here, and behind the
  // last, are left out: all of them of zeros, so that they add nothing.
  int64_t first_tap = 0;

  // Taps up to the end of a block of the chain.
  int64_t first_block() const { return kConvBlock - first_tap % kConvBlock; }
};

// y(r, p, f) = the sum over k of x(r, p, k) w(k, f), + bias(f), and then relu,
// which keeps NaN. `bias` may be null.
struct ConvForward {
  ConvWindows in;
  // A row for each tap, and bias: readable to a multiple of DirectConv::lanes.
  const float* w;
  int64_t w_stride;
  int64_t filters;
  const float* bias;
  bool relu;
  float* y;
  int64_t y_row, y_step;
};

// dw(k, f) = the sum over r, p of x(r, p, k) dy(r, p, f), or that much more
// where it `adds`. To sums(f), unless they are null, is added the sum over r, p
// of dy(r, p, f), one after another.
struct ConvGradient {
  ConvWindows in;
  const float* dy;  // a row for each position
  int64_t dy_step;
  int64_t filters;
  float* dw;
  int64_t dw_stride;
  bool adds;
  float* sums;
};

// One build of the kernels, for one width of vectors.
struct DirectConv {
  int64_t lanes;
  void (*forward)(const ConvForward& product);
  void (*gradient)(const ConvGradient& product);
  // The same where each filter is of a channel of its own, which is `f` floats
  // behind the first one's: readable as w is. All taps are one chain, and
  // `sums` null.
  void (*depthwise)(const ConvForward& product);
  void (*depthwise_gradient)(const ConvGradient& product);
};

extern const DirectConv kDirectConv;  // for any CPU of the architecture
#if defined(__x86_64__)
extern const DirectConv kDirectConvAvx2;  // with AVX2 and FMA
extern const DirectConv kDirectConvAvx512;
#endif

// That of the chosen kernels (gemm.h) for so many filters: the narrowest
// vectors that hold them.
const DirectConv& BestDirectConv(int64_t filters);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_DIRECT_CONV_H_
