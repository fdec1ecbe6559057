// Loops that several ops share. One thread runs each call and adds in the order
// of the loops, so results do not depend on the number of threads. The inner
// loops are contiguous and without calls, so that compilers vectorize them.
// Forward loops keep NaN, so that a diverged model is visible.

#include "layer_loops.h"

#include "../compute/row_loops.h"

namespace ringlet {

void AddColumnSums(const float* m, int64_t rows, int64_t width, float* sums) {
  BestRowLoops().column_sums({rows, width, width}, m, sums);
}

void AddTo(const float* from, int64_t n, float* to) {
  BestRowLoops().add(from, n, to);
}

}  // namespace ringlet
