// SessionParts: what the parts of a session share.
//
// Views, Strangers, Handshakes and Withdrawals inherit SessionParts. The
// Session owns every object that a member refers to, except the transport. Only
// the Session changes *state_.

#ifndef RINGLET_NET_MEMBERSHIP_SESSION_PARTS_H_
#define RINGLET_NET_MEMBERSHIP_SESSION_PARTS_H_

#include <functional>
#include <string>

#include "../cluster/ring_options.h"
#include "../transport/transport.h"
#include "../wire/handshake.h"
#include "dialer.h"
#include "failure_detector.h"
#include "missing_peer_report.h"
#include "peer_table.h"
#include "ring_members.h"
#include "session_events.h"
#include "session_state.h"

namespace ringlet {

struct SessionParts {
  const RingOptions& options_;
  const Identity& identity_;
  const std::function<void(const std::string&)>& notify_;  // ignores ""
  const SessionState* const state_;
  Transport* const transport_;
  RingMembers* const members_;
  PeerTable* const links_;
  MissingPeerReport* const missing_report_;
  Dialer* const dialer_;
  FailureDetector* const detector_;
  SessionEvents* const events_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_SESSION_PARTS_H_
