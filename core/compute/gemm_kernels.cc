// The portable loops of a product. They compute what BLIS's micro-kernels do
// not (edges of tiles, products too narrow to be packed), pack, and compute
// everything without BLIS.
//
// Built once for any CPU and, on x86-64, again for AVX2 and for AVX-512. If the
// compiler fuses for any CPU (arm64), it is built again without fusing. So it
// may not call functions that another file could inline and share.
//
// A block of R rows and N vectors has R * N <= 8 sums in registers. That many
// hide the latency of a fused multiply-add.

#include "gemm_kernels.h"

#include <cstring>

#include "lanes.h"

#if defined(RINGLET_AVX512) && !defined(__clang__)
// gcc 12's own header uses registers that gcc calls undefined.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace ringlet {
namespace {

#if defined(RINGLET_AVX512)
#define RINGLET_MM(operation) _mm512_##operation
#define RINGLET_GEMM_LOOPS kGemmLoopsAvx512
#elif defined(RINGLET_AVX2)
#define RINGLET_MM(operation) _mm256_##operation
#define RINGLET_GEMM_LOOPS kGemmLoopsAvx2
#elif defined(RINGLET_UNFUSED)
#define RINGLET_GEMM_LOOPS kGemmLoopsUnfused
#else
#define RINGLET_GEMM_LOOPS kGemmLoops
#endif

using Quad = float __attribute__((vector_size(16)));

inline Quad LoadQuad(const float* p) {
  Quad v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
inline void StoreQuad(Quad v, float* p) { std::memcpy(p, &v, sizeof(v)); }

// x * v + sum, rounded once if the CPU can.
inline Lanes Fma(float x, Lanes v, Lanes sum) {
#if defined(RINGLET_MM)
  return RINGLET_MM(fmadd_ps)(RINGLET_MM(set1_ps)(x), v, sum);
#elif defined(RINGLET_UNFUSED)
  return x * v + sum;
#elif defined(__aarch64__)
  return vfmaq_n_f32(sum, v, x);
#elif defined(__FP_FAST_FMAF)
  for (int i = 0; i < kLanes; ++i) sum[i] = __builtin_fmaf(x, v[i], sum[i]);
  return sum;
#else
  return x * v + sum;
#endif
}

// As PartialVector of lanes.h, with all lanes.
class FullVector {
 public:
  explicit FullVector(int64_t) {}
  Lanes Load(const float* p) const { return ringlet::Load(p); }
  void Store(Lanes v, float* p) const { ringlet::Store(v, p); }
};

// C = A * B, or += with `add`. An a_row, a_col, b_row or c_row is the distance
// of neighbours in a column, or for a_col in a row, in floats; the columns of B
// and C are neighbours.
struct Rows {
  int64_t k;  // columns of A, and rows of B
  const float* a;
  int64_t a_row, a_col;
  const float* b;
  int64_t b_row;
  bool add;
  float* c;
  int64_t c_row;
};

// R rows of C, N vectors of columns from `j` on; the last has `count` lanes.
template <int R, int N, typename Last>
inline void Block(const Rows& p, int64_t i, int64_t j, int64_t count) {
  const Last last(count);
  Lanes sums[R][N] = {};
  const float* a = p.a + i * p.a_row;
  const float* b = p.b + j;
  for (int64_t k = 0; k < p.k; ++k, a += p.a_col, b += p.b_row) {
    Lanes v[N];
    for (int n = 0; n < N - 1; ++n) v[n] = Load(b + n * kLanes);
    v[N - 1] = last.Load(b + (N - 1) * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) {
        sums[r][n] = Fma(a[r * p.a_row], v[n], sums[r][n]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    float* const c = p.c + (i + r) * p.c_row + j;
#pragma GCC unroll 8
    for (int n = 0; n < N - 1; ++n) {
      const Lanes sum = sums[r][n];
      Store(p.add ? Load(c + n * kLanes) + sum : sum, c + n * kLanes);
    }
    float* const end = c + (N - 1) * kLanes;
    const Lanes sum = sums[r][N - 1];
    last.Store(p.add ? last.Load(end) + sum : sum, end);
  }
}

// R rows from `i` on: N vectors at a time, then one.
template <int R, int N>
void ComputeRows(const Rows& p, int64_t i, int64_t n) {
  int64_t j = 0;
  for (; j + N * kLanes <= n; j += N * kLanes) {
    Block<R, N, FullVector>(p, i, j, kLanes);
  }
  for (; j < n; j += kLanes) {
    Block<R, 1, PartialVector>(p, i, j, n - j < kLanes ? n - j : kLanes);
  }
}

void MultiplyRows(int64_t m, int64_t n, int64_t k, const float* a,
                  int64_t a_row_stride, int64_t a_col_stride, const float* b,
                  int64_t b_row_stride, bool add, float* c,
                  int64_t c_row_stride) {
  const Rows p = {k,   a, a_row_stride, a_col_stride, b, b_row_stride,
                  add, c, c_row_stride};
  int64_t i = 0;
  if (n < 2 * kLanes) {
    for (; i + 8 <= m; i += 8) ComputeRows<8, 1>(p, i, n);
  }
  for (; i + 4 <= m; i += 4) ComputeRows<4, 2>(p, i, n);
  for (; i + 2 <= m; i += 2) ComputeRows<2, 4>(p, i, n);
  if (i < m) ComputeRows<1, 8>(p, i, n);
}

#if defined(RINGLET_MM)
// Rows 0, 4, 8 and 12 of kRows rows; row 0 again for a row that does not exist.
template <int kRows>
inline Lanes FourQuads(const float* from, int64_t stride) {
  const auto quad = [&](int row) {
    return LoadQuad(from + (row < kRows ? row : 0) * stride);
  };
#if defined(RINGLET_AVX512)
  Lanes v = _mm512_castps128_ps512(quad(0));
  v = _mm512_insertf32x4(v, quad(4), 1);
  v = _mm512_insertf32x4(v, quad(8), 2);
  return _mm512_insertf32x4(v, quad(12), 3);
#else
  return _mm256_insertf128_ps(_mm256_castps128_ps256(quad(0)), quad(4), 1);
#endif
}

// Transposes kRows rows and four terms. Rows 0, 4, 8, 12 are neighbours, so
// that steps within quads suffice. Writes kLanes floats for each term.
template <int kRows>
inline void TransposeLanes(const float* from, int64_t stride, int64_t width,
                           float* to) {
  const Lanes a = FourQuads<kRows>(from, stride);
  const Lanes b = FourQuads<kRows - 1>(from + stride, stride);
  const Lanes c = FourQuads<kRows - 2>(from + 2 * stride, stride);
  const Lanes d = FourQuads<kRows - 3>(from + 3 * stride, stride);
  const Lanes ab = RINGLET_MM(unpacklo_ps)(a, b);
  const Lanes cd = RINGLET_MM(unpacklo_ps)(c, d);
  const Lanes ab2 = RINGLET_MM(unpackhi_ps)(a, b);
  const Lanes cd2 = RINGLET_MM(unpackhi_ps)(c, d);
  Store(RINGLET_MM(shuffle_ps)(ab, cd, 0x44), to);
  Store(RINGLET_MM(shuffle_ps)(ab, cd, 0xee), to + width);
  Store(RINGLET_MM(shuffle_ps)(ab2, cd2, 0x44), to + 2 * width);
  Store(RINGLET_MM(shuffle_ps)(ab2, cd2, 0xee), to + 3 * width);
}
#endif

inline void TransposeQuads(const float* from, int64_t stride, int64_t width,
                           float* to) {
  const Quad a = LoadQuad(from), b = LoadQuad(from + stride);
  const Quad c = LoadQuad(from + 2 * stride), d = LoadQuad(from + 3 * stride);
  const Quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Quad ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  StoreQuad(__builtin_shufflevector(ab, cd, 0, 1, 4, 5), to);
  StoreQuad(__builtin_shufflevector(ab, cd, 2, 3, 6, 7), to + width);
  StoreQuad(__builtin_shufflevector(ab2, cd2, 0, 1, 4, 5), to + 2 * width);
  StoreQuad(__builtin_shufflevector(ab2, cd2, 2, 3, 6, 7), to + 3 * width);
}

// The width of panels of A that are shorter than a vector: for tiles of 12x32,
// or 6x16.
constexpr int64_t kShort = kLanes * 3 / 4;

void Transpose(const float* from, int64_t stride, int64_t depth, int64_t count,
               int64_t width, int64_t ahead, float* to) {
  int64_t k = 0;
  for (; count >= 4 && k + 4 <= depth; k += 4) {
    const float* const at = from + k;
    float* const out = to + k * width;
    // Prefetches one cache line of each row for 16 terms.
    for (int64_t row = k / 4 % 4; row < count; row += 4) {
      __builtin_prefetch(at + row * stride + ahead, 0, 2);
    }
    int64_t i = 0;
#if defined(RINGLET_MM)
    for (; i + kLanes <= count; i += kLanes) {
      TransposeLanes<kLanes>(at + i * stride, stride, width, out + i);
    }
    // Excess numbers are overwritten later, except for the last ones.
    if (count == kShort && width == kShort && k + 8 <= depth) {
      TransposeLanes<kShort>(at, stride, width, out);
      i = count;
    }
#endif
    for (; i + 4 <= count; i += 4) {
      TransposeQuads(at + i * stride, stride, width, out + i);
    }
    // If fewer than four are left, the last four are transposed once more.
    if (i < count) {
      TransposeQuads(at + (count - 4) * stride, stride, width, out + count - 4);
    }
  }
  for (; k < depth; ++k) {
    for (int64_t i = 0; i < count; ++i)
      to[k * width + i] = from[i * stride + k];
  }
}

void Copy(const float* from, int64_t stride, int64_t depth, int64_t count,
          int64_t width, int64_t ahead, float* to) {
  int64_t k = 0;
#if !defined(__SANITIZE_THREAD__)
  if (count == kShort && width == kShort && stride >= kLanes - kShort) {
    // Excess numbers are overwritten later, except for the last ones. Another
    // thread may write them at the same time; a sanitizer cannot detect that
    // they are not used.
    for (; k + 1 < depth; ++k, from += stride, to += width) {
      __builtin_prefetch(from + ahead, 0, 2);
      Store(Load(from), to);
    }
  }
#endif
  for (; k < depth; ++k, from += stride, to += width) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      __builtin_prefetch(from + i + ahead, 0, 2);
      Store(Load(from + i), to + i);
    }
    for (; i + 4 <= count; i += 4) StoreQuad(LoadQuad(from + i), to + i);
    if (i == count) continue;
    if (count >= 4) {
      StoreQuad(LoadQuad(from + count - 4), to + count - 4);
    } else {
      for (; i < count; ++i) to[i] = from[i];
    }
  }
}

// Negative numbers become 0 with `relu`; NaN stays.
inline Lanes ReluIf(bool relu, Lanes v) {
  const Lanes zero = {};
  if (!relu) return v;
  Mask bits, negative = v < zero;
  std::memcpy(&bits, &v, sizeof(v));
  bits &= ~negative;
  std::memcpy(&v, &bits, sizeof(v));
  return v;
}

void AddBiasAndRelu(int64_t m, int64_t n, const float* bias, bool relu,
                    float* c, int64_t row_stride) {
  for (int64_t j = 0; j < n; j += kLanes) {
    const PartialVector part(n - j < kLanes ? n - j : kLanes);
    const Lanes bias_lanes = bias != nullptr ? part.Load(bias + j) : Lanes{};
    for (int64_t i = 0; i < m; ++i) {
      float* const at = c + i * row_stride + j;
      Lanes v = part.Load(at);
      if (bias != nullptr) v += bias_lanes;
      part.Store(ReluIf(relu, v), at);
    }
  }
}

}  // namespace

extern const GemmLoops RINGLET_GEMM_LOOPS = {MultiplyRows, Transpose, Copy,
                                             AddBiasAndRelu};

}  // namespace ringlet
