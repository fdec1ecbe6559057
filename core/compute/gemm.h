// Gemm: every matrix product of ringlet, over strided views.
//
// Internal to core/. A view names its elements by a row and a column stride, so
// that a transpose is a change of strides. The products are BLIS's (bli_sgemm),
// or NaiveGemm's in a build without BLIS. Threads: each takes a part of C, so
// the terms of one element of C are always summed by one thread.

#ifndef RINGLET_CORE_COMPUTE_GEMM_H_
#define RINGLET_CORE_COMPUTE_GEMM_H_

#include <cstdint>

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

// kInvalidArgument where shapes do not chain, strides are not positive or two
// elements of one view share an address: what BLIS would abort on.
Status CheckGemm(ConstMatrix a, ConstMatrix b, Matrix c);

// C(m,n) = alpha * A(m,k) * B(k,n) + beta * C. With beta 0 C is not read. C
// shares no memory with A or B. Views that CheckGemm refuses are a broken
// invariant. With a pool, its threads share the work.
void Gemm(float alpha, ConstMatrix a, ConstMatrix b, float beta, Matrix c,
          ThreadPool* pool = nullptr);

// The twin: three loops.
void NaiveGemm(float alpha, ConstMatrix a, ConstMatrix b, float beta, Matrix c);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_GEMM_H_
