// PeerTable: the links of a session.
//
// It owns every link: links of the linked workers, up or in their handshake,
// links without an accepted handshake, and closed links. The Session and its
// parts open, look up and drop links here, and send by them. A link is closed
// but not deleted during its own events. Each frame has this worker's number
// and step, and the ring's generation.

#ifndef RINGLET_NET_MEMBERSHIP_PEER_TABLE_H_
#define RINGLET_NET_MEMBERSHIP_PEER_TABLE_H_

#include <memory>
#include <vector>

#include "../transport/framed_link.h"

namespace ringlet {

class PeerTable {
 public:
  // `linked` has the workers that this worker has links with, in ascending
  // order. `owner` gets the events of all links.
  PeerTable(int worker, int size, std::vector<int> linked,
            FramedLink::Owner* owner);

  const std::vector<int>& linked() const { return linked_; }
  // Makes all other workers linked from now on.
  void LinkAll();
  // A linked worker's link, up or in its handshake; null if there is none.
  FramedLink* link(int peer) const { return peers_[peer].link.get(); }
  // A linked worker's link if it is up, otherwise null.
  FramedLink* up_link(int peer) const;
  // True if the peer is another worker, and its link is not up.
  bool IsMissing(int peer) const {
    return peer != worker_ && up_link(peer) == nullptr;
  }

  // Adds a link that another worker has opened. If there are too many without a
  // handshake, the oldest that has not shown a key is dropped.
  void Accept(StreamPtr stream, int64_t now);
  // Adds a link that this worker opens to a linked worker, or as a probe.
  void Open(int peer, StreamPtr stream, int64_t now);
  void OpenProbe(int peer, StreamPtr stream, int64_t now);
  // Assigns an accepted link to the peer that its handshake has named.
  void Adopt(int peer, FramedLink* link);

  void Drop(int peer);
  void DropUnauthenticated(FramedLink* link);
  // Drops the links without an accepted handshake that were opened before this
  // time.
  void DropUnauthenticated(int64_t before);
  // Call it at the beginning of an event, when no call of a link runs.
  void DeleteDropped() { dropped_.clear(); }

  void SetStep(uint64_t step) { step_ = step; }
  void SetGeneration(uint32_t generation) { generation_ = generation; }
  // Adds to the header source, destination and step, and the generation, except
  // to a kHello or kWelcome, which propose one.
  void Send(FramedLink* link, FrameHeader header,
            const uint8_t* payload = nullptr, bool borrowed = false);
  void Send(FramedLink* link, FrameHeader header,
            const std::vector<uint8_t>& payload) {
    header.payload_bytes = static_cast<uint32_t>(payload.size());
    Send(link, header, payload.data());
  }
  // If the peer's link is up.
  void Send(int peer, const FrameHeader& header, const uint8_t* payload,
            bool borrowed = false);
  void SendToAll(const FrameHeader& header, const uint8_t* payload);

  void BeginTurn();
  // Reads from shared memory. Returns true if bytes have arrived.
  bool Poll(int64_t now, bool wake);
  // For every tick: the peers that have read none of their queued bytes for
  // 1.5 T of this worker's own time. Their heartbeats may still arrive.
  // This tick counts only if `counts` is true.
  std::vector<int> TickStuck(bool counts);
  int stuck_ticks(int peer) const { return peers_[peer].stuck_ticks; }
  // True if no link of a linked worker has bytes to write, or if none is left.
  bool drained() const;
  bool empty() const;

 private:
  struct Peer {
    std::unique_ptr<FramedLink> link;
    uint64_t taken_bytes = 0;  // the link's count at the last tick
    int stuck_ticks = 0;       // ticks in which the count has not grown
  };

  FramedLink* NewUnauthenticated(StreamPtr stream, LinkPhase phase,
                                 int64_t now);
  void Drop(std::unique_ptr<FramedLink>* link);
  // Counts this tick of the peer. Returns true if its link is stuck.
  static bool UpdateStuck(Peer* peer, bool counts);

  const int worker_;
  FramedLink::Owner* const owner_;
  std::vector<int> linked_;
  uint64_t step_ = 0;
  uint32_t generation_ = 0;
  std::vector<Peer> peers_;  // one for each worker; this worker's stays empty
  // Links without a handshake, the oldest first.
  std::vector<std::unique_ptr<FramedLink>> unauthenticated_;
  std::vector<std::unique_ptr<FramedLink>> dropped_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_PEER_TABLE_H_
