// Dialer: makes the connections to other workers, and tries again.
//
// It owns the endpoints of each worker, and the times to try them. The Session
// and its parts choose the worker to dial, and report which link has failed.
// After a failed try the worker's next endpoint has its turn, and the reason is
// in the message about missing workers.

#ifndef RINGLET_NET_MEMBERSHIP_DIALER_H_
#define RINGLET_NET_MEMBERSHIP_DIALER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../cluster/ring_options.h"
#include "../transport/transport.h"
#include "missing_peer_report.h"
#include "peer_table.h"

namespace ringlet {

class Dialer {
 public:
  Dialer(const RingOptions& options, Transport* transport, PeerTable* links,
         MissingPeerReport* missing);
  // In an elastic ring, where a restarted worker waits for half a timeout, and
  // then continues alone.
  void ShortenPauses() { longest_pause_ = timeout_ / 4; }

  // True if the peer has no link, and the next try is due.
  bool IsDue(int peer, int64_t now) const {
    return links_->link(peer) == nullptr && peers_[peer].endpoints.IsDue(now);
  }
  // True for T/4 after all endpoints of the peer have failed.
  bool IsResting(int peer, int64_t now) const {
    return peers_[peer].endpoints.empty() && now < peers_[peer].rests_until;
  }
  void Dial(int peer, int64_t now);
  // `why` is the error of the last endpoint, or empty if it is not worth a
  // message.
  void Redial(int peer, const std::string& why, int64_t now);
  // The link to the peer is up.
  void RecordSuccess(int peer);
  // A handshake has kHandshakeSeconds. Through a relay it takes ten latencies
  // to it, and may wait for the other worker: it has at least the timeout.
  void ExpireHandshakes(int64_t now);

  // For the end of a message: which workers are missing, and why they may not
  // reach this worker.
  std::string MissingText(int64_t now) const;

 private:
  struct Peer {
    EndpointList endpoints;
    int64_t rests_until = 0;
  };

  const char* NoAnswerText(LinkPhase phase) const;

  Transport* const transport_;
  PeerTable* const links_;
  MissingPeerReport* const missing_report_;
  const bool by_relay_;
  const bool has_keys_;
  const int64_t timeout_;
  int64_t longest_pause_ = INT64_MAX;
  std::vector<Peer> peers_;  // the peer of each worker
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_DIALER_H_
