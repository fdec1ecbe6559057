// ReplicaAssignment: how many replicas each worker computes.
//
// Each rank has a contiguous range of at least one replica, in the order of the
// ranks. The ranges begin even, and may follow the workers' speeds: a board
// that is four times slower computes fewer. With exact sums no number depends
// on which rank computes a replica. The choice uses integers only, so all
// workers compute the same assignment from the same times.

#ifndef RINGLET_CORE_EXCHANGE_REPLICA_ASSIGNMENT_H_
#define RINGLET_CORE_EXCHANGE_REPLICA_ASSIGNMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "replica_range.h"

namespace ringlet {

class ReplicaAssignment {
 public:
  ReplicaAssignment() : ReplicaAssignment(1, 1) {}
  // 1 <= workers <= replicas.
  ReplicaAssignment(int workers, int replicas);
  // Each rank has one replica, which no other rank computes.
  static ReplicaAssignment FixedPerRank(std::vector<int> replicas);
  bool is_fixed() const { return !fixed_.empty(); }
  bool operator==(const ReplicaAssignment& other) const {
    return counts_ == other.counts_ && fixed_ == other.fixed_;
  }

  int workers() const { return static_cast<int>(counts_.size()); }
  ReplicaRange range(int rank) const;
  int max_per_rank() const;  // replicas of one worker

  // Assigns the replicas by `nanos`, the time of a replica on each rank. 0
  // means unknown, and then nothing changes. A step takes as long as its
  // slowest worker. If another assignment shortens it by more than 5 %, this
  // becomes that assignment, and Assign returns true. Among equally fast
  // assignments it takes the assignment with more replicas on lower ranks. No
  // rank gets more than four times an even part, since each rank's report has
  // as many rows as the largest range.
  bool Assign(const std::vector<int64_t>& nanos);

  std::string ToString() const;  // "3, 4, 1"

 private:
  std::vector<int> counts_;  // the number of each rank's replicas
  std::vector<int> fixed_;   // each rank's replica; or empty
};

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_REPLICA_ASSIGNMENT_H_
