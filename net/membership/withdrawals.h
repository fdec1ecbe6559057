// Withdrawals: workers that cannot take part, and the reasons that they send.
//
// It owns this worker's own reason, and which workers have it. The Session
// gives it kWithdraw frames, and in a withdrawing session the links that have
// connected and all greetings. A reason is sent until every worker has it. A
// reason ends the wait of a worker only while this worker forms its first ring.

#ifndef RINGLET_NET_MEMBERSHIP_WITHDRAWALS_H_
#define RINGLET_NET_MEMBERSHIP_WITHDRAWALS_H_

#include <cstdint>
#include <vector>

#include "handshakes.h"

namespace ringlet {

class Withdrawals : private SessionParts {
 public:
  Withdrawals(const SessionParts& parts, Strangers* strangers,
              Handshakes* handshakes, Strangers::Owner* owner)
      : SessionParts(parts),
        strangers_(strangers),
        handshakes_(handshakes),
        owner_(owner),
        informed_(options_.addresses.size()) {}

  // Begins a withdrawing session: sends the reason to all other workers.
  void Begin(const Status& reason);
  // Dials the workers that do not have the reason. Returns true if all have it.
  bool Tick(int64_t now);
  void SendReason(FramedLink* link);
  Status OnHello(FramedLink* link, const FrameHeader& header,
                 const uint8_t* payload);
  Status OnWelcome(FramedLink* link, const FrameHeader& header,
                   const uint8_t* payload);

  // Handles the kWithdraw of another worker, in any session.
  Status OnWithdraw(FramedLink* link, const FrameHeader& header,
                    const uint8_t* payload, int64_t now);

 private:
  Status Answer(FramedLink* link, int peer, const Status& reason, int64_t now);

  Strangers* const strangers_;
  Handshakes* const handshakes_;
  Strangers::Owner* const owner_;
  Status reason_;
  std::vector<bool> informed_;  // true for each informed worker
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_WITHDRAWALS_H_
