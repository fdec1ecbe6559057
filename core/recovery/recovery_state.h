// RecoveryState: the state machine of recovery, without the state's bytes.
//
// Each worker has one. It follows whether the worker's state is valid, the
// state's StateProgress, and the StateProgress of the verified point. Its
// owner, Recovery, moves the bytes as EnterView and PassCheck return.
// recovery_model_test drives it through every order of events.

#ifndef RINGLET_CORE_RECOVERY_RECOVERY_STATE_H_
#define RINGLET_CORE_RECOVERY_RECOVERY_STATE_H_

#include <cstdint>

#include "state_progress.h"

namespace ringlet {

// The part of the run's state that a worker has.
enum class StateValidity : uint8_t {
  kNone,     // no state: the worker has just started, or has dropped it
  kInvalid,  // from a weight update, or a transfer's first byte, to its end
  kValid,    // the state at a step boundary, with its StateProgress
};

// The owner's action on the state's bytes when a view forms.
enum class OnViewAction : uint8_t {
  kKeep,      // the state stays
  kRollBack,  // the verified point's bytes become the state
  kDrop,      // the worker holds no state any more
};

class RecoveryState {
 public:
  // If `verifies`, the members compare their replicas: contributors are
  // counted, and verified points kept. Otherwise a loss keeps the state of the
  // last boundary.
  explicit RecoveryState(bool verifies = false) : verifies_(verifies) {}

  // Call it when the worker starts with a state of `step` steps that counts as
  // verified: the first state of the run, or the state of a backup.
  void Start(int64_t step);
  // Call it when the weights and slots stop belonging to a boundary: a step has
  // changed them, or a transfer will.
  void BeginChange() { validity_ = StateValidity::kInvalid; }
  // Call it at a step boundary. If the state was changing, all members of the
  // view have contributed.
  void ReachBoundary(int64_t step);
  // Call it when a transfer into this worker is complete. The worker then has
  // the donor's state.
  void EndTransfer(const StateProgress& donors);

  // Call it when a view has formed of the workers in the mask `members`, after
  // any number of losses and joins. `staying` has the members that were in this
  // worker's last view as the same process. A restarted worker is not in it. A
  // state with a contributor that is not staying is rolled back, and so is a
  // changing one.
  OnViewAction EnterView(uint64_t members, uint64_t staying);

  // Call it at a boundary where all members have passed a replica check. True:
  // the owner keeps the state's bytes as the verified point. A worker alone has
  // compared nothing, so its point stays unless the state has no unverified
  // steps.
  bool PassCheck();

  StateValidity validity() const { return validity_; }
  bool valid() const { return validity_ == StateValidity::kValid; }
  const StateProgress& progress() const { return progress_; }
  bool has_point() const { return has_point_; }
  const StateProgress& point() const { return point_; }
  bool verifies() const { return verifies_; }

 private:
  bool verifies_;
  StateValidity validity_ = StateValidity::kNone;
  StateProgress progress_;
  bool has_point_ = false;
  StateProgress point_;
  uint64_t members_ = 0;  // a bit for each worker of the present view
};

}  // namespace ringlet

#endif  // RINGLET_CORE_RECOVERY_RECOVERY_STATE_H_
