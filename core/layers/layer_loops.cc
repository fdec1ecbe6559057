// Loops that several ops share. One thread runs each call and adds in the order
// of the loops, so results do not depend on the number of threads. The inner
// loops are contiguous and without calls, so that compilers vectorize them.
// Forward loops keep NaN, so that a diverged model is visible.

#include "layer_loops.h"

#include <algorithm>
#include <array>

#include "../compute/row_loops.h"

namespace ringlet {

void AddColumnSums(const float* m, int64_t rows, int64_t width, float* sums) {
  BestRowLoops().column_sums({rows, width, width}, m, sums);
}

void AddImageSums(const float* m, int64_t images, int64_t positions,
                  int64_t width, float* sums) {
  std::array<float, 64> image_sums;
  for (int64_t first = 0; first < width; first += image_sums.size()) {
    const int64_t n = std::min<int64_t>(image_sums.size(), width - first);
    for (int64_t image = 0; image < images; ++image) {
      image_sums.fill(0);
      BestRowLoops().column_sums({positions, n, width},
                                 m + image * positions * width + first,
                                 image_sums.data());
      AddTo(image_sums.data(), n, sums + first);
    }
  }
}

void AddTo(const float* from, int64_t n, float* to) {
  BestRowLoops().add(from, n, to);
}

}  // namespace ringlet
