// Participation: which replicas take part in a round of local updates.
//
// In each round the replicas have an order that depends only on the seed and
// the number of steps before the round. The first present ones take part. So a
// round is a function of the run's file and of the present replicas.

#ifndef RINGLET_CORE_EXCHANGE_PARTICIPATION_H_
#define RINGLET_CORE_EXCHANGE_PARTICIPATION_H_

#include <cstdint>
#include <vector>

#include "compile_config.h"
#include "ringlet/local_updates.h"
#include "ringlet/status.h"

namespace ringlet {

// The most replicas that a round can have.
int MaxSampled(const LocalUpdates& options, int replicas);
// Returns an error if there are fewer replicas than a round needs.
Status CheckSampled(const LocalUpdates& options, int replicas);

class Participation {
 public:
  // `config` outlives the Participation.
  explicit Participation(const CompileConfig* config) : config_(*config) {}

  // Samples the replicas of the round that begins after `step` steps. If there
  // are fewer than the quorum, it is an error on all ranks.
  Status Sample(int64_t step);
  bool sampled(int replica) const { return roles_[replica] != kNotSampled; }
  // True if the replica is sampled, and late by CompileConfig::availability.
  bool late(int replica) const { return roles_[replica] == kLate; }
  int count() const { return count_; }  // sampled

 private:
  enum Role : uint8_t { kNotSampled, kSampled, kLate };
  // By replica: 1 if a member of this view computes it.
  std::vector<uint8_t> AssignedReplicas() const;

  const CompileConfig& config_;
  std::vector<Role> roles_;  // the role of each replica
  int count_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_PARTICIPATION_H_
