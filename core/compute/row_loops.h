// Loops over rows of numbers, other than products, for each vector width.
//
// Every width gives the same bits: elements are independent, and sums go down
// columns in one order.

#ifndef RINGLET_CORE_COMPUTE_ROW_LOOPS_H_
#define RINGLET_CORE_COMPUTE_ROW_LOOPS_H_

#include <cstdint>

namespace ringlet {

// Row r of m is m[r * stride … + n).
struct RowsOfFloats {
  int64_t rows, n, stride;
};

// The loops for one vector width.
struct RowLoops {
  // sums[c] += the sum of column c, row by row.
  void (*column_sums)(const RowsOfFloats& r, const float* m, float* sums);

  // Sums of columns. Four rows are added in pairs before they are added to the
  // sum; `to` is written. The terms are x - center, its square, or dy together
  // with dy (x - center).
  void (*sum)(const RowsOfFloats& r, const float* x, const float* center,
              float* to);
  void (*sum_of_squares)(const RowsOfFloats& r, const float* x,
                         const float* center, float* to);
  void (*sum_of_products)(const RowsOfFloats& r, const float* x,
                          const float* center, const float* dy,
                          float* sum_of_dy, float* sum_of_products);

  // y = (x - center) * scale + offset, for each column; y may be x.
  void (*affine)(const RowsOfFloats& r, const float* x, const float* center,
                 const float* scale, const float* offset, float* y);
  // dx = dy_factor dy + (x_factor (x - center) + offset), for each column; dx
  // may be x or dy.
  void (*affine_of_two)(const RowsOfFloats& r, const float* x, const float* dy,
                        const float* center, const float* dy_factor,
                        const float* x_factor, const float* offset, float* dx);

  // to[i] += from[i].
  void (*add)(const float* from, int64_t n, float* to);
  // y = max(x, 0); NaN and -0 are kept; y may be x.
  void (*relu)(const float* x, int64_t n, float* y);
  // to = y > 0 ? dy : 0. `to` may be y or dy.
  void (*relu_gradient)(const float* y, const float* dy, int64_t n, float* to);

  // Rounds to the nearest numbers of bfloat16, as float16.h. Writes them to
  // `packed` too, unless it is null.
  void (*round_to_bfloat16)(int64_t n, float* values, uint16_t* packed);
  void (*unpack_bfloat16)(const uint16_t* packed, int64_t n, float* to);

  // `n` numbers in [0, 1) of Philox(seed, stream), from `position` on, where a
  // block begins. Uses each word of a block (ringlet/compute.h).
  void (*uniform)(uint64_t seed, uint64_t stream, uint64_t position, int64_t n,
                  float* to);
  // `n` numbers in [0, 1) of Philox(seed, stream): the first word of each of
  // the blocks 0 … n - 1.
  void (*first_uniform)(uint64_t seed, uint64_t stream, int64_t n, float* to);
};

extern const RowLoops kRowLoops;  // runs on any CPU of the architecture
#if defined(__x86_64__)
extern const RowLoops kRowLoopsAvx2;
extern const RowLoops kRowLoopsAvx512;
#endif

// The loops of the chosen kernels.
const RowLoops& BestRowLoops();

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_ROW_LOOPS_H_
