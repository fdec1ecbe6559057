// Permute: the order of a shuffled pass. Pure.

#ifndef RINGLET_CORE_DATA_PERMUTATION_H_
#define RINGLET_CORE_DATA_PERMUTATION_H_

#include <cstdint>

namespace ringlet {

// Applies the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
uint64_t Mix(uint64_t v);

// Element i of a permutation of [0, n) that depends on (seed, pass).
int64_t Permute(uint64_t seed, int64_t pass, int64_t n, int64_t i);

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_PERMUTATION_H_
