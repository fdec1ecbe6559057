// The inner loops of a product, and the sets of them that a CPU can run.
//
// Internal to core/compute. A tile is `scalar` rows by `vector` columns of C,
// whose columns lie side by side. A panel of A holds `scalar` rows, one of B
// `vector` columns, term by term, and zeros beyond the edge.

#ifndef RINGLET_CORE_COMPUTE_GEMM_KERNELS_H_
#define RINGLET_CORE_COMPUTE_GEMM_KERNELS_H_

#include <cstdint>

namespace ringlet {

// One build of our own loops, for one width of vectors.
struct GemmLoops {
  // C(m,n) = the chains of k terms, or += where `add`. A has any strides, the
  // rows of B and C any distance.
  void (*rows)(int64_t m, int64_t n, int64_t k, const float* a,
               int64_t a_row_stride, int64_t a_col_stride, const float* b,
               int64_t b_row_stride, bool add, float* c, int64_t c_row_stride);
  // to[k * width + i] = from[i * stride + k], k < depth, i < count <= width.
  // What will be asked for next lies `ahead` floats further on.
  void (*transpose)(const float* from, int64_t stride, int64_t depth,
                    int64_t count, int64_t width, int64_t ahead, float* to);
  // to[k * width + i] = from[k * stride + i].
  void (*copy)(const float* from, int64_t stride, int64_t depth, int64_t count,
               int64_t width, int64_t ahead, float* to);
  // c(i, j) += bias(j), then ReLU. `bias` may be null.
  void (*finish)(int64_t m, int64_t n, const float* bias, bool relu, float* c,
                 int64_t row_stride);
};

extern const GemmLoops kGemmLoops;  // for any CPU of the architecture
#if defined(__x86_64__)
extern const GemmLoops kGemmLoopsAvx2;    // with AVX2 and FMA
extern const GemmLoops kGemmLoopsAvx512;  // with AVX-512 F
#endif

struct DirectConv;    // direct_conv.h
struct ConvForward;   // direct_conv.h
struct ConvGradient;  // direct_conv.h
struct RowLoops;      // row_loops.h
struct PoolLoops;     // pool_loops.h
struct ExactLoops;    // exact_loops.h

struct GemmKernelSet {
  const char* name;
  bool (*runs)();  // on this CPU
  bool fuses;
  int64_t scalar, vector;
  int64_t row_block, col_block;  // of C, multiples of scalar and vector
  // A whole tile: of k terms, from two panels; `next` is the panel of B that
  // comes then. Null: by loops->rows.
  void (*tile)(int64_t k, const float* a, const float* b, bool add, float* c,
               int64_t row_stride, const float* next);
  const GemmLoops* loops;
  const GemmLoops* few_loops;  // of at most 8 columns
  const DirectConv* conv;
  const DirectConv* few_conv;  // of so few filters that its vectors hold them
  // planes_conv.h, paired_conv.h; null where vectors are too short
  void (*planes)(const ConvForward& product);
  void (*pairs)(const ConvGradient& product);
  const RowLoops* rows;
  const PoolLoops* pools;
  const PoolLoops* few_pools;  // of at most 8 channels
  const ExactLoops* exact;
};

// The chosen one (gemm.h).
const GemmKernelSet& KernelSet();

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_GEMM_KERNELS_H_
