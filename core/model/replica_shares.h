// ReplicaShares: how many replicas each worker computes.
//
// Internal to core/. Contiguous ranges in the order of the ranks, at least one
// each. They begin even, and may follow the workers' speeds: a board that is
// four times slower computes fewer. Who computes a replica changes no number
// where sums are exact. Integers alone decide, so that all workers come to the
// same shares from the same times, whatever their processors.

#ifndef RINGLET_CORE_MODEL_REPLICA_SHARES_H_
#define RINGLET_CORE_MODEL_REPLICA_SHARES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "replica_range.h"

namespace ringlet {

class ReplicaShares {
 public:
  ReplicaShares() : ReplicaShares(1, 1) {}
  // 1 <= workers <= replicas.
  ReplicaShares(int workers, int replicas);
  // Each rank has one replica of its own, which nobody else computes.
  static ReplicaShares Own(std::vector<int> replicas);
  bool own() const { return !own_.empty(); }
  bool operator==(const ReplicaShares& other) const {
    return counts_ == other.counts_ && own_ == other.own_;
  }

  int workers() const { return static_cast<int>(counts_.size()); }
  ReplicaRange of(int rank) const;
  int most() const;  // that a worker computes

  // `nanos` a replica takes each worker; 0 where that is not known, and then
  // nothing moves. Deals anew where a step, which takes as long as its last
  // worker, gains more than `percent`; whether it does. Of equal deals the
  // lower ranks have more. Nobody gets more than four times an even share: what
  // the ranks gather has a row for each replica of the largest one.
  bool Deal(const std::vector<int64_t>& nanos, int percent = 5);

  std::string ToString() const;  // "3, 4, 1"

 private:
  std::vector<int> counts_;  // by rank
  std::vector<int> own_;     // by rank; empty: ranges in their order
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_REPLICA_SHARES_H_
