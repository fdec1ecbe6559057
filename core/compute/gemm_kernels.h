// The inner loops of a product, and the sets of all loops (convolutions, rows,
// pools and exact sums too) that a CPU can run.
//
// A tile has tile_rows rows and tile_cols columns of C; its columns are
// neighbours. A panel of A has tile_rows rows, a panel of B tile_cols columns,
// term by term, with zeros beyond the edge.

#ifndef RINGLET_CORE_COMPUTE_GEMM_KERNELS_H_
#define RINGLET_CORE_COMPUTE_GEMM_KERNELS_H_

#include <cstdint>

namespace ringlet {

// The portable loops for one vector width.
struct GemmLoops {
  // C(m,n) = the chains of k terms, or += with `add`. A has any strides, and
  // the rows of B and C have any distance.
  void (*rows)(int64_t m, int64_t n, int64_t k, const float* a,
               int64_t a_row_stride, int64_t a_col_stride, const float* b,
               int64_t b_row_stride, bool add, float* c, int64_t c_row_stride);
  // to[k * width + i] = from[i * stride + k] for k < depth and i < count <=
  // width. The next call's numbers are `ahead` floats further on.
  void (*transpose)(const float* from, int64_t stride, int64_t depth,
                    int64_t count, int64_t width, int64_t ahead, float* to);
  // to[k * width + i] = from[k * stride + i].
  void (*copy)(const float* from, int64_t stride, int64_t depth, int64_t count,
               int64_t width, int64_t ahead, float* to);
  // c(i, j) += bias(j), then ReLU. `bias` may be null.
  void (*finish)(int64_t m, int64_t n, const float* bias, bool relu, float* c,
                 int64_t row_stride);
};

extern const GemmLoops kGemmLoops;  // runs on any CPU of the architecture
#ifdef __FP_FAST_FMAF
extern const GemmLoops kGemmLoopsUnfused;  // uses no fused multiply-adds
#endif
#if defined(__x86_64__)
extern const GemmLoops kGemmLoopsAvx2;    // uses AVX2 and FMA
extern const GemmLoops kGemmLoopsAvx512;  // uses AVX-512 F
#endif

struct DirectConv;     // direct_conv.h
struct ConvForward;    // direct_conv.h
struct ConvGradient;   // direct_conv.h
struct RowLoops;       // row_loops.h
struct PoolLoops;      // pool_loops.h
struct ExactLoops;     // exact_loops.h
struct FunctionLoops;  // function_loops.h

struct KernelSet {
  const char* name;
  bool (*runs)();  // true if this CPU can run it
  bool fuses;
  int64_t tile_rows, tile_cols;
  int64_t row_block,
      col_block;  // blocks of C: multiples of tile_rows and tile_cols
  // A whole tile of k terms, from two panels. `next` is the next panel of B.
  // If null, use loops->rows.
  void (*tile)(int64_t k, const float* a, const float* b, bool add, float* c,
               int64_t row_stride, const float* next);
  const GemmLoops* loops;
  const GemmLoops* narrow_loops;  // used for at most 8 columns
  const DirectConv* conv;
  const DirectConv* narrow_conv;  // used for filters that fit its vectors
  // planes_conv.h, paired_conv.h; null if vectors are too short
  void (*planes)(const ConvForward& product);
  void (*pairs)(const ConvGradient& product);
  const RowLoops* rows;
  const PoolLoops* pools;
  const PoolLoops* narrow_pools;  // used for at most 8 channels
  const ExactLoops* exact;
  const FunctionLoops* functions;
};

// The chosen set (gemm.h).
const KernelSet& ChosenKernels();

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_GEMM_KERNELS_H_
