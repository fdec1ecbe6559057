// Loops over rows of numbers beside the products, for each width of vectors.
//
// Internal to core/. Of every width the same bits: elements are worked on by
// themselves, and sums go down columns, each in one order.

#ifndef RINGLET_CORE_COMPUTE_ROW_LOOPS_H_
#define RINGLET_CORE_COMPUTE_ROW_LOOPS_H_

#include <cstdint>

namespace ringlet {

// Row r of m is m[r * stride … + n).
struct RowsOfFloats {
  int64_t rows, n, stride;
};

// One build of the loops, for one width of vectors.
struct RowLoops {
  // sums[c] += the sum down column c, one row after another.
  void (*column_sums)(const RowsOfFloats& r, const float* m, float* sums);

  // Sums down columns where four rows are added in pairs before they are added
  // to the sum; `to` is written. Of x - minus, of its square, and of dy and
  // of dy (x - minus) together.
  void (*sum)(const RowsOfFloats& r, const float* x, const float* minus,
              float* to);
  void (*sum_of_squares)(const RowsOfFloats& r, const float* x,
                         const float* minus, float* to);
  void (*sum_of_products)(const RowsOfFloats& r, const float* x,
                          const float* minus, const float* dy, float* of_dy,
                          float* of_product);

  // y = (x - minus) * times + plus, each by column; y may be x.
  void (*affine)(const RowsOfFloats& r, const float* x, const float* minus,
                 const float* times, const float* plus, float* y);
  // dx = of_dy dy + (of_x (x - minus) + plus), each by column; dx may be x or
  // dy.
  void (*affine_of_two)(const RowsOfFloats& r, const float* x, const float* dy,
                        const float* minus, const float* of_dy,
                        const float* of_x, const float* plus, float* dx);

  // to[i] += from[i].
  void (*add)(const float* from, int64_t n, float* to);
  // y = max(x, 0), NaN and -0 as they are; y may be x.
  void (*relu)(const float* x, int64_t n, float* y);
  // to = y > 0 ? dy : 0; `to` may be one of them.
  void (*relu_gradient)(const float* y, const float* dy, int64_t n, float* to);

  // Numbers in [0, 1) of Philox(seed, stream), `n` from `position` on, where a
  // block begins: of a block each word (random.h).
  void (*uniform)(uint64_t seed, uint64_t stream, uint64_t position, int64_t n,
                  float* to);
  // The same, of each block the first word: those of positions 0 … n - 1.
  void (*first_uniform)(uint64_t seed, uint64_t stream, int64_t n, float* to);
};

extern const RowLoops kRowLoops;  // for any CPU of the architecture
#if defined(__x86_64__)
extern const RowLoops kRowLoopsAvx2;
extern const RowLoops kRowLoopsAvx512;
#endif

// Of the chosen kernels.
const RowLoops& BestRowLoops();

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_ROW_LOOPS_H_
