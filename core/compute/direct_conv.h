// Direct convolution: products of windows of an image with a kernel, computed
// from the image itself, without the columns that a matrix product needs.
//
// Every element has the bits that Gemm gives for those columns (gemm.h). It is
// one chain of multiply-adds in the order of the taps, or of the positions. The
// chain has blocks of kConvBlock, which are added in order. So the bits do not
// depend on the vector width, only on the processor having fused multiply-adds.

#ifndef RINGLET_CORE_COMPUTE_DIRECT_CONV_H_
#define RINGLET_CORE_COMPUTE_DIRECT_CONV_H_

#include <cstdint>

namespace ringlet {

constexpr int64_t kConvBlock = 128;

// The number of filters rounded up to whole vectors of any width.
constexpr int64_t PaddedFilters(int64_t filters) {
  return (filters + 15) / 16 * 16;
}

// Windows over an image, at rows of positions: position p of row r reads x[r *
// x_row + p * x_step + offsets[k]] at tap k. All sizes are in floats.
struct ConvWindows {
  const float* x;
  int64_t x_row, x_step;
  int64_t rows, positions;  // both are at least 1
  const int64_t* offsets;
  int64_t taps;
  // The index of the first tap in a longer chain. The taps before it and after
  // the last one are zeros, which add nothing, so they are omitted.
  int64_t first_tap = 0;

  // Returns the number of taps up to the end of the chain's first block.
  int64_t first_block() const { return kConvBlock - first_tap % kConvBlock; }
};

// y(r, p, f) = the sum over k of x(r, p, k) w(k, f), + bias(f), then relu,
// which keeps NaN. `bias` may be null.
struct ConvForward {
  ConvWindows in;
  // A row for each tap. Rows and bias are readable up to a multiple of
  // DirectConv::lanes.
  const float* w;
  int64_t w_stride;
  int64_t filters;
  const float* bias;
  bool relu;
  float* y;
  int64_t y_row, y_step;
};

// dw(k, f) = the sum over r, p of x(r, p, k) dy(r, p, f); with `adds` it is
// added to dw. If `sums` is not null, the sum over r, p of dy(r, p, f) is added
// to sums(f), in order.
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

// The kernels for one vector width.
struct DirectConv {
  int64_t lanes;
  void (*forward)(const ConvForward& product);
  void (*gradient)(const ConvGradient& product);
  // A depthwise convolution: one filter for each channel. Filter f reads x from
  // float `f` on; x must be readable as far as w is. All taps are one chain,
  // and `sums` is null.
  void (*depthwise)(const ConvForward& product);
  void (*depthwise_gradient)(const ConvGradient& product);
};

extern const DirectConv kDirectConv;  // runs on any CPU of the architecture
#ifdef __FP_FAST_FMAF
extern const DirectConv kDirectConvUnfused;  // uses no fused multiply-adds
#endif
#if defined(__x86_64__)
extern const DirectConv kDirectConvAvx2;  // uses AVX2 and FMA
extern const DirectConv kDirectConvAvx512;
#endif

// The convolution kernels of the chosen set (gemm.h) for this number of
// filters. These are the kernels with the narrowest vectors that hold the
// filters.
const DirectConv& BestDirectConv(int64_t filters);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_DIRECT_CONV_H_
