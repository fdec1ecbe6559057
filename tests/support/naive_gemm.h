// NaiveGemm: the reference implementation of a product, in three loops.

#ifndef RINGLET_TESTS_SUPPORT_NAIVE_GEMM_H_
#define RINGLET_TESTS_SUPPORT_NAIVE_GEMM_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/compute/gemm.h"

namespace ringlet {

// C = A * B, or C += A * B with `add`. Terms are added in the order of Gemm, so
// the bits are equal.
inline void NaiveGemm(ConstMatrix a, ConstMatrix b, bool add, Matrix c) {
  const bool fuses = UsesFusedMultiplyAdd();
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.cols; ++j) {
      float* const out = c.data + i * c.row_stride + j * c.col_stride;
      int64_t k = 0;
      do {
        float sum = 0;
        for (const int64_t end = std::min(k + kInnerBlock, a.cols); k < end;
             ++k) {
          const float x = a.data[i * a.row_stride + k * a.col_stride];
          const float y = b.data[k * b.row_stride + j * b.col_stride];
          sum = fuses ? std::fma(x, y, sum) : x * y + sum;
        }
        *out = add || k > kInnerBlock ? *out + sum : sum;
      } while (k < a.cols);
    }
  }
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_NAIVE_GEMM_H_
