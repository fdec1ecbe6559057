// The pairs of ranks of a ring that are linked by a connection.
//
// Pure. Up to kMaxFullyConnected workers every pair is linked, and up to 64 in
// an elastic ring (kMaxElasticWorkers), because its ranks change. In larger
// rings rank r is linked with r + 2^k and r - 2^k (mod size) for every 2^k <
// size. With 1,000 workers a rank has 20 links. Between any two ranks there are
// at most log2(size) links. A transfer between ranks without a link is a broken
// invariant.

#ifndef RINGLET_NET_COLLECTIVE_TOPOLOGY_H_
#define RINGLET_NET_COLLECTIVE_TOPOLOGY_H_

#include <vector>

namespace ringlet {

constexpr int kMaxFullyConnected = 16;

inline bool IsFullyConnected(int size) { return size <= kMaxFullyConnected; }
bool AreLinked(int size, int a, int b);
// In ascending order, without `rank` itself. With `all` they are the links of
// an elastic ring.
std::vector<int> LinksOf(int rank, int size, bool all = false);

}  // namespace ringlet

#endif  // RINGLET_NET_COLLECTIVE_TOPOLOGY_H_
