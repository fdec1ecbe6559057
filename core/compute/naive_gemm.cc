#include <algorithm>
#include <cmath>

#include "gemm.h"

namespace ringlet {
namespace {

template <typename T>
Status CheckView(const char* name, const MatrixView<T>& m) {
  if (m.rows < 0 || m.cols < 0) {
    return InvalidArgument("Gemm: %s has a negative size", name);
  }
  if (m.row_stride <= 0 || m.col_stride <= 0) {
    return InvalidArgument("Gemm: strides of %s must be positive", name);
  }
  const bool rows_apart = m.rows <= 1 || m.cols <= 1 ||
                          m.row_stride >= m.cols * m.col_stride ||
                          m.col_stride >= m.rows * m.row_stride;
  if (!rows_apart) {
    return InvalidArgument("Gemm: elements of %s overlap", name);
  }
  return Status();
}

}  // namespace

Status CheckGemm(ConstMatrix a, ConstMatrix b, Matrix c) {
  RINGLET_RETURN_IF_ERROR(CheckView("A", a));
  RINGLET_RETURN_IF_ERROR(CheckView("B", b));
  RINGLET_RETURN_IF_ERROR(CheckView("C", c));
  if (a.rows != c.rows || b.cols != c.cols || a.cols != b.rows) {
    return InvalidArgument(
        "Gemm: A(%lld,%lld) * B(%lld,%lld) does not give C(%lld,%lld)",
        static_cast<long long>(a.rows), static_cast<long long>(a.cols),
        static_cast<long long>(b.rows), static_cast<long long>(b.cols),
        static_cast<long long>(c.rows), static_cast<long long>(c.cols));
  }
  return Status();
}

void NaiveGemm(ConstMatrix a, ConstMatrix b, bool add, Matrix c) {
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
