// ReplicaBalancer: in an elastic job, assigns more replicas to fast workers
// than to slow ones.
//
// Every rank has the measured times of all ranks, and computes the same
// assignment, in integers. No number depends on which worker computes a
// replica. docs/design.md, "Replicas follow speeds", has measurements.

#ifndef RINGLET_CORE_FIT_REPLICA_BALANCER_H_
#define RINGLET_CORE_FIT_REPLICA_BALANCER_H_

#include <cstdint>

#include "../exchange/replica_assignment.h"
#include "../model/model_parts.h"
#include "fit_messages.h"
#include "ringlet/fit.h"
#include "ringlet/status.h"

namespace ringlet {

class ReplicaBalancer {
 public:
  // All arguments outlive the ReplicaBalancer.
  ReplicaBalancer(const ModelParts& parts, const FitMessages* messages)
      : parts_(parts), messages_(*messages) {}

  // Call it when the members of a new view have one state.
  void EnterView(const FitState& fit);
  // Every rank calls it between two steps. *moved: replicas have moved to
  // another worker, so the batch loader must be opened again.
  Status Rebalance(const FitState& fit, bool* moved);

 private:
  bool BalanceBySteps(ReplicaAssignment* next);
  Status BalanceByRounds(const FitState& fit, ReplicaAssignment* next,
                         bool* moved);
  void Report(const FitState& fit);
  void RecordReplicas(bool enters);

  const ModelParts parts_;
  const FitMessages& messages_;
  int64_t view_began_ = 0;      // iterations at EnterView
  int64_t next_event_ = 0;      // a time
  int64_t reported_at_ = 0;     // iterations at the last line of Report
  ReplicaAssignment reported_;  // the assignment in that line, or at EnterView
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_REPLICA_BALANCER_H_
