// ReplicaRange: the replicas that a worker computes.
//
// A run has R replicas. They divide each step, and all settings that decide a
// number use the replica's index. W <= R workers compute them, each a range of
// consecutive ones, one after another.

#ifndef RINGLET_CORE_EXCHANGE_REPLICA_RANGE_H_
#define RINGLET_CORE_EXCHANGE_REPLICA_RANGE_H_

#include <cstdint>

namespace ringlet {

// Eight times the most workers of a ring.
constexpr int kMaxReplicas = 8192;

struct ReplicaRange {
  int first = 0;
  int count = 1;
};

// An even assignment: every worker computes at least one replica, and no worker
// has two more than another. See ReplicaAssignment.
inline ReplicaRange ReplicasOf(int rank, int workers, int replicas) {
  const auto cut = [&](int64_t r) {
    return static_cast<int>(r * replicas / workers);
  };
  return {cut(rank), cut(rank + 1) - cut(rank)};
}

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_REPLICA_RANGE_H_
