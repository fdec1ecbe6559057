// JobReplicas: the replicas of a job, their assignment to the workers, and this
// worker's replicas.

#ifndef RINGLET_CORE_EXCHANGE_JOB_REPLICAS_H_
#define RINGLET_CORE_EXCHANGE_JOB_REPLICAS_H_

#include <cstdint>
#include <vector>

#include "joining_members.h"
#include "replica_assignment.h"
#include "replica_range.h"
#include "ringlet/collective.h"
#include "ringlet/status.h"
#include "worker_throughput.h"

namespace ringlet {

class JobReplicas {
 public:
  // Agrees on the number of replicas, and assigns them. Every rank calls it.
  //
  // - `owned`: each worker owns the replica with its number in the job's list.
  // - `requested`: the number of replicas that this rank requests. 0 accepts
  //   the number of the other ranks; if all ranks pass 0, there are as many
  //   replicas as workers.
  // - `nanos`: the time of a replica on this rank
  //   (WorkerThroughput::NanosPerReplica), 0 if unknown.
  //
  // An elastic job assigns replicas by these times. A rank without a time gets
  // its time from an earlier view, or without one the median of the known
  // times. If a rank has passed no time, needs_measurement() is true on every
  // rank. Without any known time the assignment is even.
  Status Agree(Collective* collective, const JoiningMembers& joining,
               bool owned, int requested, int64_t nanos);
  // Changes the assignment. Every rank makes the same change.
  void Assign(ReplicaAssignment assignment, int rank);

  int count() const { return count_; }  // the job's replicas
  const ReplicaAssignment& assignment() const { return assignment_; }
  const ReplicaRange& own() const { return own_; }
  // The assignment of evaluation. Every rank takes part, also in a job in which
  // each worker owns its replica.
  ReplicaAssignment TestAssignment() const {
    return assignment_.is_fixed()
               ? ReplicaAssignment(assignment_.workers(), count_)
               : assignment_;
  }

  WorkerThroughput& throughput() { return throughput_; }
  const WorkerThroughput& throughput() const { return throughput_; }
  // True if this view began with an assignment by speed.
  bool assigned_by_speed() const { return assigned_by_speed_; }
  // True if the time of a replica on this rank is to be measured soon.
  bool needs_measurement() const { return needs_measurement_; }
  void StopMeasuring() { needs_measurement_ = false; }

 private:
  // `workers` and `nanos` are by rank: the worker's number in the list, and its
  // measured time.
  Status AssignByTime(Collective* collective, std::vector<int64_t> workers,
                      std::vector<int64_t> nanos);
  Status AssignFixed(Collective* collective);

  int count_ = 1;
  ReplicaAssignment assignment_;
  ReplicaRange own_;
  WorkerThroughput throughput_;  // the speeds of the job's workers
  bool assigned_by_speed_ = false;
  bool needs_measurement_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_JOB_REPLICAS_H_
