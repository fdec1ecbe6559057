// A digest of many floats, by their bits and places.
//
// Internal to core/. A sum modulo 2^64, then mixed: of each two neighbours'
// bits, each xor a key of their place, the product. As a sum it may be taken in
// any order, by vectors and by threads. Other values go unnoticed about once in
// 2^32: it tells accidents, and withstands no attack. tests/digests.txt holds
// digests, so what it is made of stays.
//
// What is no number counts as one and the same NaN: in its bits machines
// differ, and ranks that add two of them in another order.

#ifndef RINGLET_CORE_COMPUTE_DIGEST_H_
#define RINGLET_CORE_COMPUTE_DIGEST_H_

#include <cstdint>

#include "../base/thread_pool.h"

namespace ringlet {

uint64_t DigestOf(const float* values, int64_t count, ThreadPool* pool);

// to[i] = from[i], but for the bits of a NaN.
void CopyWithOneNan(const float* from, int64_t count, float* to);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_DIGEST_H_
