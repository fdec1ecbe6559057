#include "recovery_state.h"

namespace ringlet {

void RecoveryState::Start(int64_t step) {
  progress_ = {verifies_ ? step : 0, step, 0};
  validity_ = StateValidity::kValid;
}

void RecoveryState::ReachBoundary(int64_t step) {
  if (validity_ == StateValidity::kInvalid && verifies_) {
    progress_.contributors |= members_;
  }
  progress_.step = step;
  validity_ = StateValidity::kValid;
}

void RecoveryState::EndTransfer(const StateProgress& donors) {
  progress_ = donors;
  validity_ = StateValidity::kValid;
}

OnViewAction RecoveryState::EnterView(uint64_t members, uint64_t staying) {
  members_ = members;
  const bool has_lost_workers = (progress_.contributors & ~staying) != 0;
  if (valid() && !has_lost_workers) return OnViewAction::kKeep;
  if (!has_point_) {
    validity_ = StateValidity::kNone;
    progress_ = {};
    return OnViewAction::kDrop;
  }
  progress_ = point_;
  validity_ = StateValidity::kValid;
  return OnViewAction::kRollBack;
}

bool RecoveryState::PassCheck() {
  if (!verifies_ || !valid()) return false;
  const bool alone = (members_ & (members_ - 1)) == 0;
  if (!alone) progress_ = {progress_.step, progress_.step, 0};
  if (progress_.contributors != 0) return false;
  point_ = progress_;
  has_point_ = true;
  return true;
}

}  // namespace ringlet
