#include "gemm.h"

#include "../base/poison.h"

#ifdef RINGLET_BLIS
#include <blis.h>

#include "blis_trim.h"
#endif

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

void GemmPart(float alpha, ConstMatrix a, ConstMatrix b, float beta, Matrix c) {
#ifdef RINGLET_BLIS
  bli_sgemm(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, c.rows, c.cols, a.cols,
            &alpha, const_cast<float*>(a.data), a.row_stride, a.col_stride,
            const_cast<float*>(b.data), b.row_stride, b.col_stride, &beta,
            c.data, c.row_stride, c.col_stride);
#else
  NaiveGemm(alpha, a, b, beta, c);
#endif
}

// BLIS is not compiled with AddressSanitizer, so its views are looked at here.
template <typename T>
bool IsTouchable(const MatrixView<T>& m) {
  if (!kPoisons || m.rows == 0 || m.cols == 0) return true;
  const int64_t last =
      (m.rows - 1) * m.row_stride + (m.cols - 1) * m.col_stride;
  return !IsPoisoned(m.data, static_cast<size_t>(last + 1) * sizeof(T));
}

// Multiples of the micro-tiles of BLIS's kernels, so that no tile is cut.
constexpr int64_t kGrain = 48;
constexpr double kSmallestParallelProduct = 1 << 17;  // multiply-adds

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

void Gemm(float alpha, ConstMatrix a, ConstMatrix b, float beta, Matrix c,
          ThreadPool* pool) {
  RINGLET_CHECK(CheckGemm(a, b, c).ok());
  RINGLET_CHECK(IsTouchable(a) && IsTouchable(b) && IsTouchable(c));
  if (c.rows == 0 || c.cols == 0) return;
  const double products = 1.0 * c.rows * c.cols * a.cols;
  if (pool == nullptr || pool->threads() == 1 ||
      products < kSmallestParallelProduct) {
    return GemmPart(alpha, a, b, beta, c);
  }
  // BLIS (serial) may be called by several threads at once.
  pool->Run([&](int t) {
    const bool by_rows = c.rows >= c.cols;
    const int64_t extent = by_rows ? c.rows : c.cols;
    const int64_t grain = extent >= 2 * kGrain * pool->threads() ? kGrain : 16;
    const Range part = Split(extent, pool->threads(), t, grain);
    if (part.empty()) return;
    if (by_rows) {
      GemmPart(alpha, a.Rows(part.begin, part.end), b, beta,
               c.Rows(part.begin, part.end));
    } else {
      GemmPart(alpha, a, b.Cols(part.begin, part.end), beta,
               c.Cols(part.begin, part.end));
    }
  });
}

void NaiveGemm(float alpha, ConstMatrix a, ConstMatrix b, float beta,
               Matrix c) {
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.cols; ++j) {
      float* out = c.data + i * c.row_stride + j * c.col_stride;
      *out = beta == 0 ? 0.0f : beta * *out;
    }
    // Row by row of B, so that a row-major B and C are read in order.
    for (int64_t k = 0; k < a.cols; ++k) {
      const float scaled = alpha * a.data[i * a.row_stride + k * a.col_stride];
      const float* from = b.data + k * b.row_stride;
      float* to = c.data + i * c.row_stride;
      for (int64_t j = 0; j < c.cols; ++j) {
        to[j * c.col_stride] += scaled * from[j * b.col_stride];
      }
    }
  }
}

}  // namespace ringlet
