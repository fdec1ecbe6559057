#include "permutation.h"

#include "../base/check.h"

namespace ringlet {

uint64_t Mix(uint64_t v) {
  v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9u;
  v = (v ^ (v >> 27)) * 0x94D049BB133111EBu;
  return v ^ (v >> 31);
}

int64_t Permute(uint64_t seed, int64_t pass, int64_t n, int64_t i) {
  RINGLET_CHECK(i >= 0 && i < n);
  // A Feistel network over the smallest even number of bits that holds n;
  // numbers >= n are walked on until they fall below it.
  int half = 1;
  while (half < 31 && (int64_t{1} << (2 * half)) < n) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  const uint64_t key =
      Mix(seed + Mix(static_cast<uint64_t>(pass) + 0x9E3779B97F4A7C15u));
  uint64_t v = static_cast<uint64_t>(i);
  do {
    uint64_t left = v >> half, right = v & mask;
    for (uint64_t round = 0; round < 8; ++round) {
      const uint64_t f = Mix(key ^ (right + (round << 40)));
      const uint64_t swapped = left ^ (f & mask);
      left = right;
      right = swapped;
    }
    v = left << half | right;
  } while (v >= static_cast<uint64_t>(n));
  return static_cast<int64_t>(v);
}

}  // namespace ringlet
