// A digest of many floats, by their bits and positions.
//
// The bits of each number are xored with a key of its position, and each two
// neighbours are multiplied. The digest is the sum of the products modulo 2^64,
// then mixed. The sum may be taken in any order, by vectors and by threads.
// Different values have the same digest about once in 2^32: the digest finds
// errors, but does not withstand attacks. tests/digests.txt has digests, so the
// formula must not change.
//
// All NaNs count as the same NaN. Machines differ in the bits of a NaN, and so
// do ranks that add two NaNs in a different order.

#ifndef RINGLET_CORE_COMPUTE_DIGEST_H_
#define RINGLET_CORE_COMPUTE_DIGEST_H_

#include <cstdint>

#include "ringlet/compute.h"

namespace ringlet {

uint64_t ComputeDigest(const float* values, int64_t count, ThreadPool* pool);

// to[i] = from[i], with one NaN for all NaNs.
void CopyWithOneNan(const float* from, int64_t count, float* to);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_DIGEST_H_
