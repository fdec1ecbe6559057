// Shutdown: the last messages of a session, and when the other workers have
// them.
//
// It owns what is left to deliver: an abort, or a goodbye and its deadline. The
// Session calls SendAbort or SendGoodbye, and TakeDeliveredEvent and
// TakeLeftEvent after each event of a link. These two return true once. After a
// goodbye all links are closed by the deadline.

#ifndef RINGLET_NET_MEMBERSHIP_SHUTDOWN_H_
#define RINGLET_NET_MEMBERSHIP_SHUTDOWN_H_

#include <cstdint>

#include "../wire/abort.h"
#include "failure_detector.h"
#include "peer_table.h"
#include "ring_members.h"
#include "session_state.h"

namespace ringlet {

class Shutdown {
 public:
  Shutdown(const SessionState* state, const RingMembers* members,
           PeerTable* links, FailureDetector* detector)
      : state_(state), members_(members), links_(links), detector_(detector) {}

  // Sends the notice of the session's failure. `ran` is true if the ring had
  // formed. With `notifies` the other workers get the notice. Keeps the links
  // that the failed session needs.
  void SendAbort(const AbortNotice& notice, bool ran, bool notifies);
  // TakeDeliveredEvent() is true once, when the other workers have all frames.
  void AwaitDelivery() { delivering_ = true; }
  // True at the first call after the delivery; false from then on.
  bool TakeDeliveredEvent();

  // Sends a goodbye with the number of completed operations.
  void SendGoodbye(uint64_t completed, int64_t deadline);
  void Tick(int64_t now);
  // True at the first call after all links are closed; false from then on.
  bool TakeLeftEvent();

 private:
  const SessionState* const state_;
  const RingMembers* const members_;
  PeerTable* const links_;
  FailureDetector* const detector_;
  bool delivering_ = false;
  bool leaving_ = false;
  int64_t deadline_ = INT64_MAX;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_SHUTDOWN_H_
