// StopRequests: how one rank's request to end a fit reaches every rank.
//
// Internal to core/. A request is what a callback or a signal has made of
// FitState's stop_training, interrupted and signal on this rank, or that the
// collective lets another worker in when it is formed anew. In a job of several
// ranks it travels with the report of the next step and needs no message of its
// own. That step is then given up on all ranks before it has changed anything,
// so all of them leave after the step that the request followed. A rank that
// asks reads no batch for it and runs no layer (Stepper::GiveUp): what follows
// a stop may not fail it. Where no step follows the ranks agree at once.

#ifndef RINGLET_CORE_FIT_STOP_REQUESTS_H_
#define RINGLET_CORE_FIT_STOP_REQUESTS_H_

#include <cstdint>
#include <vector>

#include "../base/collective.h"
#include "../base/status.h"
#include "callback.h"

namespace ringlet {

class StopRequests {
 public:
  // Before an epoch's first step: a rank whose fit stops already takes none.
  void BeginEpoch(const Collective& collective, const FitState& fit);
  // After a step that another one follows: the request becomes note(). Until
  // the ranks have agreed `fit` is not interrupted, since callbacks act on that
  // together. Nothing to do in a job of one.
  void Defer(const Collective& collective, FitState* fit);
  // For the next step's report; 0: no request.
  unsigned char note() const { return note_; }
  // By the last agreement another worker waits to take part, so that the ranks
  // are to meet anew (Collective::visited).
  bool meets_anew() const { return meets_anew_; }

  // `notes` are those of all ranks: their requests become the fit's. One that
  // was made since the notes were sent waits for the next agreement.
  void Merge(const std::vector<unsigned char>& notes, FitState* fit);
  // Gathers the ranks' requests at once. Every rank calls it.
  Status Agree(Collective* collective, FitState* fit);

  // The fit ends before an agreement: puts this rank's request back into `fit`.
  void Restore(FitState* fit) const;
  // The fit goes on, once the ranks have met, with the interruption that `fit`
  // asks for.
  void Keep(const FitState& fit);
  // The state that the request belongs to is lost.
  void Clear() { note_ = 0; }
  // The fit goes on from where its model is. A request to stop that followed a
  // later step is made again, or is not, where that step is.
  void GoOnFrom(const FitState& fit);
  // They have met.
  void HaveMet();

 private:
  void Note(unsigned char note, const FitState& fit);

  unsigned char note_ = 0;
  int64_t stops_after_ = 0;  // the model's steps as note_ came to say stop
  bool meets_anew_ = false;
  std::vector<unsigned char> notes_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_STOP_REQUESTS_H_
