// StateProgress: how far a state of an elastic job has come, and how much of it
// is verified.
//
// It travels with the state from worker to worker. All correct workers have the
// same bits after the same step. So it is always safe to continue from the
// state with fewer steps.

#ifndef RINGLET_CORE_RECOVERY_STATE_PROGRESS_H_
#define RINGLET_CORE_RECOVERY_STATE_PROGRESS_H_

#include <cstdint>

namespace ringlet {

struct StateProgress {
  // The steps in the state at the last replica check that several members
  // passed. The state that a run starts with counts as verified.
  int64_t verified_step = 0;
  // The steps in the state.
  int64_t step = 0;
  // Bit w: worker w took part in a step after verified_step.
  uint64_t contributors = 0;

  bool operator==(const StateProgress& other) const {
    return verified_step == other.verified_step && step == other.step &&
           contributors == other.contributors;
  }
};

}  // namespace ringlet

#endif  // RINGLET_CORE_RECOVERY_STATE_PROGRESS_H_
