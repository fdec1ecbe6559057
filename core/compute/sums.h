// LaneSum: a sum along memory, in one order on every machine.
//
// Internal to core/. Of whole blocks of 16 terms, term k of each is added to
// lane k, and the lanes as a tree, halves onto halves, in double; what is left
// is added one by one, and that to it. So vectors of any width give the same
// bits, and a long sum is rounded like a short one. Sums down the columns of
// rows need no lanes (AddColumnSums, SumTile): each column is a sum of its own,
// in the order of the rows. Threads may share the columns, or blocks of rows
// that the shape alone cuts, never the terms.

#ifndef RINGLET_CORE_COMPUTE_SUMS_H_
#define RINGLET_CORE_COMPUTE_SUMS_H_

#include <cstdint>

namespace ringlet {

// The sum of term(i) for i in [0, n), in lanes of T.
template <typename T, typename Term>
inline double LaneSum(int64_t n, const Term& term) {
  constexpr int64_t kLanes = 16;
  const int64_t whole = n / kLanes * kLanes;
  double rest = 0;
  for (int64_t i = whole; i < n; ++i) rest += double{term(i)};
  if (whole == 0) return rest;
  T lanes[kLanes] = {};
  for (int64_t i = 0; i < whole; i += kLanes) {
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
