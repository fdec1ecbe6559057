// StopRequests: brings one rank's request to end a fit to every rank.
//
// A request is a change of FitState's stop_training, interrupted or signal on
// this rank, by a callback or a signal. A waiting joining worker is a request
// for a new view. In a job of several ranks the request is sent in the report
// of the next step, without a message of its own. All ranks give up that step
// before it has changed anything. So all of them leave after the step that the
// request followed. A rank with a request reads no batch for the step, and runs
// only the layers that sum over the ranks (Stepper::GiveUp). If no step
// follows, the ranks agree immediately.

#ifndef RINGLET_CORE_FIT_STOP_REQUESTS_H_
#define RINGLET_CORE_FIT_STOP_REQUESTS_H_

#include <cstdint>
#include <vector>

#include "ringlet/collective.h"
#include "ringlet/fit.h"
#include "ringlet/status.h"

namespace ringlet {

class StopRequests {
 public:
  // Call it before the first step of an epoch, or of the rest of an epoch. If
  // the fit stopped in the middle of the epoch, no further step is made. A
  // request from OnEpochBegin takes effect after that epoch's first step, as in
  // Keras.
  void BeginEpoch(const Collective& collective, const FitState& fit);
  // Call it after a step if another step of the epoch follows. request()
  // becomes the request of `fit`. Until the ranks have agreed `fit` is not
  // interrupted, since callbacks act on that together. Does nothing in a job of
  // one worker.
  void Defer(const Collective& collective, FitState* fit);
  // The request for the next step's report; 0 if there is none.
  unsigned char request() const { return request_; }
  // True if a joining worker waited at the last agreement, so that the ranks
  // must form a new view (Collective::has_joiner).
  bool needs_new_view() const { return needs_new_view_; }

  // `requests` has the requests of all ranks, and becomes the request of the
  // fit. A request that was made after they were sent waits for the next
  // agreement.
  void Merge(const std::vector<unsigned char>& requests, FitState* fit);
  // Gathers the ranks' requests now. Every rank calls it.
  Status Agree(Collective* collective, FitState* fit);

  // Call it if the fit ends before an agreement. Restores this rank's request
  // in `fit`.
  void Restore(FitState* fit) const;
  // Keeps the interruption in `fit` until the ranks have formed a view, in
  // which the fit continues.
  void Keep(const FitState& fit);
  // Drops the request, because the state that had it is lost.
  void Clear() { request_ = 0; }
  // Call it when the fit continues from the position of its model. A request to
  // stop after a later step is dropped; that step may make it again.
  void DropLaterStop(const FitState& fit);
  // Call it when the ranks have formed a view.
  void ViewFormed();

 private:
  void SetRequest(unsigned char request, const FitState& fit);

  unsigned char request_ = 0;
  int64_t stops_after_ = 0;  // the model's steps when request_ became a stop
  bool needs_new_view_ = false;
  std::vector<unsigned char> all_requests_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_STOP_REQUESTS_H_
