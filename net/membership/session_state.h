// SessionState: the phase of a session between its start and its goodbye.
//
// It owns the one state that all parts of a session read. The Session alone
// changes it. Each predicate of the state is here, so no part combines states
// by itself.
//
// starting -> running -> leaving. An error in the first two leads to failed ->
// leaving. A worker that cannot take part has withdrawing -> leaving instead.
// A session of an elastic ring that has failed by a loss is *lingering* instead
// of failed. It keeps and makes links until its caller has learned of the loss,
// and leaves. So joining workers see that this worker runs, and wait for it.

#ifndef RINGLET_NET_MEMBERSHIP_SESSION_STATE_H_
#define RINGLET_NET_MEMBERSHIP_SESSION_STATE_H_

#include <cstdint>

namespace ringlet {

class SessionState {
 public:
  enum Phase : uint8_t {
    kStarting,
    kRunning,
    kLingering,
    kFailed,
    kWithdrawing,
    kLeaving
  };

  SessionState(bool forms_first_ring, bool elastic)
      : forms_first_ring_(forms_first_ring), elastic_(elastic) {}
  void Set(Phase phase) { phase_ = phase; }

  bool starting() const { return phase_ == kStarting; }
  bool running() const { return phase_ == kRunning; }
  bool lingering() const { return phase_ == kLingering; }
  bool withdrawing() const { return phase_ == kWithdrawing; }
  bool leaving() const { return phase_ == kLeaving; }

  bool live() const { return starting() || running(); }
  // True while the session makes its first connections.
  bool connecting() const { return starting() || withdrawing(); }
  // True if this worker has or had a view, and keeps links with workers that
  // are not members.
  bool keeps_outside_links() const {
    return lingering() || (running() && elastic_);
  }
  // True if this worker forms its first ring, so it has no trained state.
  bool forms_first_ring() const { return forms_first_ring_; }

 private:
  const bool forms_first_ring_;
  const bool elastic_;
  Phase phase_ = kStarting;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_SESSION_STATE_H_
