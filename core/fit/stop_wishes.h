// StopWishes: how one rank's wish to end a fit becomes every rank's.
//
// Internal to core/. A wish is what a callback or a signal has made of
// FitState's stop_training, interrupted and signal on this rank. In a job of
// several it goes to the others with the report of the next step (Stepper::
// Train), which costs no message of its own. That step is then given up on all
// ranks, before it has changed anything, so that all of them leave after the
// step that the wish has followed. Where no step comes next they agree at once.

#ifndef RINGLET_CORE_FIT_STOP_WISHES_H_
#define RINGLET_CORE_FIT_STOP_WISHES_H_

#include <vector>

#include "../base/collective.h"
#include "../base/status.h"
#include "callback.h"

namespace ringlet {

class StopWishes {
 public:
  // A rank that wishes to stop before an epoch's first step takes none.
  void EpochBegins(const Collective& collective, const FitState& fit);
  // After a step that another follows: the wish goes with the report of that
  // one. Until the ranks have agreed `fit` is not interrupted, for callbacks
  // act on that together. In a job of one nothing is to be agreed on.
  void HoldBack(const Collective& collective, FitState* fit);
  // For the next step's report; 0: no wish.
  unsigned char note() const { return note_; }

  // `notes` are those of all ranks: their wishes become the fit's. One that was
  // made since the notes were sent waits for the next agreement.
  void Take(const std::vector<unsigned char>& notes, FitState* fit);
  // The same, at once. Every rank calls it.
  Status Agree(Collective* collective, FitState* fit);

  // The fit ends without an agreement: the wish is this rank's again.
  void GiveBack(FitState* fit) const;
  // The state that the wish was of is lost.
  void Forget() { note_ = 0; }

 private:
  unsigned char note_ = 0;
  std::vector<unsigned char> notes_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_STOP_WISHES_H_
