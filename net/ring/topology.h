// Which ranks of a ring are linked by a connection.
//
// Internal to net/. Pure. To kMostEveryPair workers every pair is, and in an
// elastic ring, whose ranks change, to kMostElastic. Beyond, rank r is linked
// with r + 2^k and r - 2^k (mod size) for every 2^k < size: 20 links of 1,000
// workers, with at most log2(size) of them between any two ranks. Whatever
// moves between ranks that are not linked is a broken invariant.

#ifndef RINGLET_NET_RING_TOPOLOGY_H_
#define RINGLET_NET_RING_TOPOLOGY_H_

#include <vector>

namespace ringlet {

constexpr int kMostEveryPair = 16;

inline bool EveryPair(int size) { return size <= kMostEveryPair; }
bool Linked(int size, int a, int b);
// In ascending order, without `rank` itself. `all`: of an elastic ring.
std::vector<int> LinksOf(int rank, int size, bool all = false);

}  // namespace ringlet

#endif  // RINGLET_NET_RING_TOPOLOGY_H_
