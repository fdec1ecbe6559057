// Which replicas a worker computes.
//
// Internal to core/. A run has R replicas: what a step is divided among, and
// what everything that decides a number is keyed by. W <= R workers compute
// them, each a range of consecutive ones, one after another.

#ifndef RINGLET_CORE_MODEL_REPLICA_RANGE_H_
#define RINGLET_CORE_MODEL_REPLICA_RANGE_H_

#include <cstdint>

namespace ringlet {

// As many as the workers that a ring may have, eight times.
constexpr int kMostReplicas = 8192;

struct ReplicaRange {
  int first = 0;
  int count = 1;
};

// An even deal: every worker computes at least one, and none two more than
// another. See ReplicaShares.
inline ReplicaRange ReplicasOf(int rank, int workers, int replicas) {
  const auto cut = [&](int64_t r) {
    return static_cast<int>(r * replicas / workers);
  };
  return {cut(rank), cut(rank + 1) - cut(rank)};
}

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_REPLICA_RANGE_H_
