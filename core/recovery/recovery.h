// Recovery: chooses the state from which a fit continues after a loss or a
// join.
//
// docs/membership.md has the rules, and docs/design.md, "Recovery", the parts.
// In the modes kFromBoundary and kFromVerified each rank keeps in memory its
// state at the last step boundary. In kFromVerified it keeps the verified point
// too.
//
// The calls of a fit, in order: EnterView, Begin, then OnUpdate and OnBoundary
// for each step and PassCheck after a replica check. After a loss: OnLoss,
// Rejoin, and from EnterView again.

#ifndef RINGLET_CORE_RECOVERY_RECOVERY_H_
#define RINGLET_CORE_RECOVERY_RECOVERY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "../model/model_parts.h"
#include "donor.h"
#include "recovery_state.h"
#include "restore_source.h"
#include "ringlet/collective.h"
#include "ringlet/model.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"
#include "step_snapshot.h"
#include "verified_point.h"

namespace ringlet {

enum class RecoveryMode : uint8_t {
  kOff,           // a loss ends the job
  kFromBackup,    // only backups have all of the state; a loss returns to one
  kFromBoundary,  // every rank keeps the last step boundary
  kFromVerified,  // every rank keeps the verified point too (see RecoveryState)
};

// The parts of a fit's state. All outlive the Recovery.
struct FitParts {
  Saveable* all;            // the model, the position, metrics and callbacks
  Saveable* all_but_model;  // lacks weights and optimizer slots
  const int64_t* epoch;
};

class Recovery {
 public:
  Recovery(Model* model, const FitParts& parts)
      : model_(*model), model_parts_(model), parts_(parts), point_(model) {}

  // Call it before each EnterView. The mode is the same for all of a run.
  void SetMode(RecoveryMode mode);

  // --- a fit begins
  // Call it after every callback's OnSetup, on every rank. Rolls this rank's
  // state back if necessary, and gives every rank the donor's state. *source
  // becomes kMemory (every rank has the donor's state), kMissing (a member has
  // trained, and none has a valid state) or kStart (none has trained).
  Status EnterView(RestoreSource* source);
  // Call it after every callback's OnTrainBegin. From here on a loss does not
  // cost the other workers their training. `in_memory` is true if the source is
  // kMemory and no callback has restored a backup.
  Status Begin(bool in_memory);

  // --- while it runs
  // The step is complete on this rank and has changed the weights. The next
  // OnBoundary makes the state valid again.
  void OnUpdate() { state_.BeginChange(); }
  // Call it at a step boundary. Copies the small part of the state
  // (StepSnapshot).
  void OnBoundary();
  // Call it at a step boundary after which callbacks may change their large
  // states. It copies these too.
  void OnWholeBoundary();
  // Copies the weights, because callbacks may change them until DropWeights. A
  // loss before DropWeights restores the copy.
  void CopyWeights();
  void DropWeights() { weights_.reset(); }
  // Call it at a boundary where all members have passed a replica check.
  void PassCheck();

  // --- a worker is lost
  // Call it before the callbacks' OnFitReturn. `overwritten` is true if a
  // backup was written over the model, completely or in part, and no state of
  // this fit belongs to the backup.
  void OnLoss(bool overwritten);
  // Waits until all ranks have formed a ring again, also after further losses.
  // An elastic job forms a view of the reachable workers. `joins` is true if
  // this worker joins a run and has not begun.
  Status Rejoin(int lost_rank, bool joins);

  bool verifies() const { return mode_ == RecoveryMode::kFromVerified; }
  // True if this rank has a valid state.
  bool has_state() const { return state_.valid(); }
  // True if the run has a state beyond its start.
  bool begun() const { return begun_; }

 private:
  bool keeps_boundaries() const { return mode_ >= RecoveryMode::kFromBoundary; }
  OnViewAction RollBack();
  StateSummary Summarize() const;
  Status Transfer(int donor, const std::vector<StateSummary>& all);
  Status CheckConflict(const std::vector<StateSummary>& all) const;

  Model& model_;
  const ModelParts model_parts_;
  const FitParts parts_;
  RecoveryMode mode_ = RecoveryMode::kOff;
  RecoveryState state_;
  StepSnapshot snapshot_;  // belongs to the weights while state_ is valid
  VerifiedPoint point_;
  bool begun_ = false;
  // The incarnation of each worker in the last view; zero if not a member.
  std::array<int64_t, kMaxElasticWorkers> incarnations_ = {};
  // The weights before callbacks change them.
  std::unique_ptr<float[]> weights_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_RECOVERY_RECOVERY_H_
