// Chooses the donor: the member of a view that sends its state to the other
// members.
//
// Pure functions of the summaries that all members exchange, so every rank gets
// the same result. Any valid state would be correct. The state with the most
// progress is chosen, to repeat the fewest steps.

#ifndef RINGLET_CORE_RECOVERY_DONOR_H_
#define RINGLET_CORE_RECOVERY_DONOR_H_

#include <cstdint>
#include <vector>

#include "state_progress.h"

namespace ringlet {

// A rank's summary of its state when a view forms, after a rollback
// (RecoveryState::EnterView). Sent as 64-bit numbers.
struct StateSummary {
  int64_t has_trained = 0;  // 1 if the run has a state beyond its start
  int64_t valid = 0;        // 1 if the rank holds a valid state
  StateProgress progress;
  // The fit's epoch. The boundaries before and after the callbacks of an
  // epoch's end have the same step and different epochs.
  int64_t epoch = 0;
  int64_t digest = 0;  // the digest of weights and optimizer slots
  // The verified point: its steps, -1 if the rank has none, and its digest.
  int64_t point_step = -1;
  int64_t point_epoch = 0;
  int64_t point_digest = 0;
};

// The rank with a valid state of the greatest (verified step, step, epoch); the
// lowest rank among equals. -1 if no rank has a valid state.
int ChooseDonor(const std::vector<StateSummary>& all);

// True if `rank` has the donor's state already.
bool HoldsStateOf(const StateSummary& donor, const StateSummary& rank);

// Finds two ranks with verified points of the same boundary and different
// digests. No check has found the fault that caused this. False if there are no
// such ranks.
bool FindConflict(const std::vector<StateSummary>& all, int* first,
                  int* second);

}  // namespace ringlet

#endif  // RINGLET_CORE_RECOVERY_DONOR_H_
