// Gemm: every matrix product of ringlet, over strided views.
//
// Internal to core/. A view names its elements by a row and a column stride, so
// that a transpose is a change of strides.
//
// A product has one value, to the bit. Each element of C is summed in blocks of
// kInnerBlock terms: a block is one chain of fused multiply-adds that begins at
// zero, in the order of the terms, and is then added to C (the first one is
// stored where C is not read). So neither the kernels, nor the threads, nor the
// storage orders of A, B and C show in it. Where the CPU cannot fuse, a term is
// multiplied and then added (GemmFuses()): equal among such CPUs.

#ifndef RINGLET_CORE_COMPUTE_GEMM_H_
#define RINGLET_CORE_COMPUTE_GEMM_H_

#include <cstdint>
#include <string>

#include "../base/status.h"
#include "../base/thread_pool.h"

namespace ringlet {

// Element (i, j) is data[i * row_stride + j * col_stride].
template <typename T>
struct MatrixView {
  T* data;
  int64_t rows, cols;
  int64_t row_stride, col_stride;

  MatrixView Transposed() const {
    return {data, cols, rows, col_stride, row_stride};
  }
  MatrixView Rows(int64_t begin, int64_t end) const {
    return {data + begin * row_stride, end - begin, cols, row_stride,
            col_stride};
  }
  MatrixView Cols(int64_t begin, int64_t end) const {
    return Transposed().Rows(begin, end).Transposed();
  }
};

using Matrix = MatrixView<float>;
using ConstMatrix = MatrixView<const float>;

// Rows one after another, without holes.
inline Matrix RowMajor(float* data, int64_t rows, int64_t cols) {
  return {data, rows, cols, cols, 1};
}
inline ConstMatrix RowMajor(const float* data, int64_t rows, int64_t cols) {
  return {data, rows, cols, cols, 1};
}

constexpr int64_t kInnerBlock = 128;

// C(m,n) = A(m,k) * B(k,n), or += where `add`; then + bias(n), then ReLU (which
// keeps NaN). C is not read without `add`, and shares no memory with A or B.
struct Product {
  ConstMatrix a, b;
  Matrix c;
  bool add = false;
  const float* bias = nullptr;
  bool relu = false;
};

// kInvalidArgument where shapes do not chain, strides are not positive or two
// elements of one view share an address.
Status CheckGemm(ConstMatrix a, ConstMatrix b, Matrix c);

// Views that CheckGemm refuses are a broken invariant. With a pool, its threads
// share the work.
void Multiply(const Product& product, ThreadPool* pool = nullptr);

// C = A * B, or C += A * B where `add`.
inline void Gemm(ConstMatrix a, ConstMatrix b, bool add, Matrix c,
                 ThreadPool* pool = nullptr) {
  Product product{a, b, c};
  product.add = add;
  Multiply(product, pool);
}

// The twin: three loops.
void NaiveGemm(ConstMatrix a, ConstMatrix b, bool add, Matrix c);

// Terms of a product are added by fused multiply-adds.
bool GemmFuses();
// "fused multiply-adds" or "no fused multiply-adds": the class of arithmetic,
// within which all machines compute the same bits.
const char* GemmArithmetic();

// What RINGLET_KERNELS chose, or else the CPU's features: of products,
// convolutions (direct_conv.h), rows (row_loops.h), maxima (pool_loops.h) and
// exact sums (exact_loops.h).
const char* GemmKernels();
// The sets that this CPU can run, as "skx, haswell, generic".
std::string GemmKernelsOfCpu();
// The set of that name. kInvalidArgument, with the names, where there is none,
// or none that this CPU can run. Not while a product is under way.
Status ChooseGemmKernels(const char* name);
// That error, of RINGLET_KERNELS.
Status CheckGemmKernels();

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_GEMM_H_
