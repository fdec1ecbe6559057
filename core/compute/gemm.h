// Gemm: all matrix products of ringlet, over strided views.
//
// A view has a row stride and a column stride, so that a transpose is a change
// of strides.
//
// The bits of a product are fixed. Each element of C is summed in blocks of
// kInnerBlock terms. A block is one chain of fused multiply-adds from zero, in
// the order of the terms. It is then added to C; without `add` the first block
// is stored. So the bits do not depend on the kernels, the threads, or the
// storage orders of A, B and C. If the CPU cannot fuse, a term is multiplied
// and then added (UsesFusedMultiplyAdd()), with equal bits on such CPUs.

#ifndef RINGLET_CORE_COMPUTE_GEMM_H_
#define RINGLET_CORE_COMPUTE_GEMM_H_

#include <cstdint>
#include <string>

#include "ringlet/compute.h"
#include "ringlet/status.h"

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

// Contiguous rows.
inline Matrix RowMajor(float* data, int64_t rows, int64_t cols) {
  return {data, rows, cols, cols, 1};
}
inline ConstMatrix RowMajor(const float* data, int64_t rows, int64_t cols) {
  return {data, rows, cols, cols, 1};
}

constexpr int64_t kInnerBlock = 128;

// C(m,n) = A(m,k) * B(k,n), or += with `add`; then + bias(n), then ReLU (which
// keeps NaN). Without `add` C is not read. C shares no memory with A or B.
struct Product {
  ConstMatrix a, b;
  Matrix c;
  bool add = false;
  const float* bias = nullptr;
  bool relu = false;
};

// kInvalidArgument if shapes do not fit, strides are not positive or two
// elements of one view share an address.
Status CheckGemm(ConstMatrix a, ConstMatrix b, Matrix c);

// Aborts for views that CheckGemm refuses. With a pool, its threads divide the
// work.
void Multiply(const Product& product, ThreadPool* pool = nullptr);

// C = A * B, or C += A * B with `add`.
inline void Gemm(ConstMatrix a, ConstMatrix b, bool add, Matrix c,
                 ThreadPool* pool = nullptr) {
  Product product{a, b, c};
  product.add = add;
  Multiply(product, pool);
}

// True if products use fused multiply-adds.
bool UsesFusedMultiplyAdd();
// "fused multiply-adds" or "no fused multiply-adds": the class of arithmetic.
// All machines of one class compute the same bits.
const char* ArithmeticClassName();

// Returns the name of the chosen set of kernels. RINGLET_KERNELS chooses it;
// without this variable the CPU's features do. A set has products, convolutions
// (direct_conv.h), rows (row_loops.h), maxima (pool_loops.h), exact sums
// (exact_loops.h) and functions (function_loops.h). "unfused" is the best set
// with the numbers of machines that cannot fuse.
const char* ChosenKernelSetName();
// The sets that this CPU can run, as "skx, haswell, generic".
std::string KernelSetNamesOfCpu();
// Chooses the set of that name. kInvalidArgument, with the names, if there is
// none, or this CPU cannot run it. Not while a product is computed.
Status ChooseKernelSet(const char* name);
// Returns the error of ChooseKernelSet for the name in RINGLET_KERNELS.
Status CheckKernelsVariable();

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_GEMM_H_
