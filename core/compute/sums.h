// LaneSum: a sum of consecutive terms, in one order on every machine.
//
// Term k of each whole block of 16 terms is added to lane k. The lanes are
// added as a tree, halves onto halves, in double. The terms after the last
// whole block are added one by one, and their sum to that. So vectors of any
// width give the same bits, and a long sum is rounded like a short one. Sums
// down the columns of rows need no lanes (AddColumnSums, SumTile): each column
// is a sum of its own, in the order of the rows. Threads may share the columns,
// or blocks of rows that the shape alone cuts, never the terms.

#ifndef RINGLET_CORE_COMPUTE_SUMS_H_
#define RINGLET_CORE_COMPUTE_SUMS_H_

#include <cstdint>

namespace ringlet {

// The sum of term(i) for i in [0, n), in lanes of T.
template <typename T, typename Term>
inline double LaneSum(int64_t n, const Term& term) {
  constexpr int64_t kLanes = 16;
  const int64_t whole_blocks = n / kLanes * kLanes;
  double rest = 0;
  for (int64_t i = whole_blocks; i < n; ++i) rest += double{term(i)};
  if (whole_blocks == 0) return rest;
  T lanes[kLanes] = {};
  for (int64_t i = 0; i < whole_blocks; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] += term(i + k);
  }
  double sums[kLanes];
  for (int64_t k = 0; k < kLanes; ++k) sums[k] = double{lanes[k]};
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  }
  return sums[0] + rest;
}

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_SUMS_H_
