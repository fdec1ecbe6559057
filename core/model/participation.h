// Participation: which replicas make a round of local updates.
//
// Internal to core/. The replicas have an order in each round, which depends on
// (seed, the steps before the round) alone; of those that are there the first
// make it. So a round is a function of the run's file and of who is there.

#ifndef RINGLET_CORE_MODEL_PARTICIPATION_H_
#define RINGLET_CORE_MODEL_PARTICIPATION_H_

#include <cstdint>
#include <vector>

#include "../base/status.h"
#include "compile_config.h"
#include "local_updates.h"

namespace ringlet {

// As many as a round may have.
int MostDrawn(const LocalUpdates& options, int replicas);
// Where there are not so many replicas as are to be drawn.
Status CheckDrawn(const LocalUpdates& options, int replicas);

class Participation {
 public:
  // `config` outlives it.
  explicit Participation(const CompileConfig* config) : config_(*config) {}

  // Of the round of `steps` steps that begins after `step`. Fewer than the
  // quorum are an error, on all ranks.
  Status Draw(int64_t step, int64_t steps);
  bool drawn(int replica) const { return of_[replica] != kNot; }
  // … and by the attendance that was given late.
  bool late(int replica) const { return of_[replica] == kLate; }
  int count() const { return count_; }  // drawn

 private:
  enum Part : uint8_t { kNot, kDrawn, kLate };
  // The worker of this replica, if it has one of its own, is in the job.
  std::vector<uint8_t> Owned() const;

  const CompileConfig& config_;
  std::vector<Part> of_;  // by replica
  int count_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_PARTICIPATION_H_
