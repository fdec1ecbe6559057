// Handshakes: the greetings by which a link becomes the link of a worker.
//
// It owns the record of duplicate workers. The Session gives it the links that
// have connected, and their kHello, kWelcome and kReject frames. It calls
// OnJoined for each link that is up: its worker has the same list and options,
// and no other link.

#ifndef RINGLET_NET_MEMBERSHIP_HANDSHAKES_H_
#define RINGLET_NET_MEMBERSHIP_HANDSHAKES_H_

#include <cstdint>
#include <vector>

#include "session_parts.h"
#include "strangers.h"
#include "views.h"

namespace ringlet {

// DuplicateWorkers: second processes with the index of a connected worker.
//
// Pure. It owns the first request of each second process. Handshakes records
// requests here. RecordRequest returns the time since the first request,
// without the time before a stall of this worker. After a crash the restarted
// process often connects before the loss of the first one is noticed. So a
// second process is an error only if it still connects after the time that it
// takes to notice a loss.
class DuplicateWorkers {
 public:
  explicit DuplicateWorkers(int size) : seen_(static_cast<size_t>(size)) {}

  // Records that a process with this incarnation connects as `peer`. Returns
  // the time since its first connection, in nanoseconds.
  int64_t RecordRequest(int peer, uint64_t incarnation, int64_t now) {
    Process& process = seen_[static_cast<size_t>(peer)];
    if (process.incarnation != incarnation) process = {incarnation, now};
    return now - process.since;
  }
  // Call it when the peer has connected: a second process may have become the
  // first one.
  void Remove(int peer, int64_t now) {
    seen_[static_cast<size_t>(peer)] = {0, now};
  }
  // Call it after a stall of this worker, which could not notice the end of a
  // first process.
  void ResetTimes(int64_t now) {
    for (Process& process : seen_) process.since = now;
  }

 private:
  struct Process {
    uint64_t incarnation = 0;  // 0 if none is known
    int64_t since = 0;
  };
  std::vector<Process> seen_;  // the last process of each worker
};

class Handshakes : private SessionParts {
 public:
  class Owner : public Strangers::Owner {
   public:
    // The link to the peer is up. It proposes a generation.
    virtual void OnJoined(int peer, uint32_t proposal) = 0;

   protected:
    ~Owner() = default;
  };

  Handshakes(const SessionParts& parts, const Views* views,
             Strangers* strangers, Owner* owner)
      : SessionParts(parts),
        views_(views),
        strangers_(strangers),
        owner_(owner),
        duplicates_(options_.size()) {}

  void Greet(FramedLink* link);
  Status OnHello(FramedLink* link, const FrameHeader& header,
                 const uint8_t* payload, int64_t now);
  Status OnWelcome(FramedLink* link, const FrameHeader& header,
                   const uint8_t* payload, int64_t now);
  Status OnReject(FramedLink* link, const FrameHeader& header,
                  const uint8_t* payload, int64_t now);
  // In a kWelcome that answers kWithdraw, `informed` has the workers to which
  // this worker sends the reason.
  void SendIdentity(FramedLink* link, FrameType type, uint64_t informed = 0,
                    uint32_t features = 0);
  // Call it after a stall of this worker, which may have missed the end of a
  // process.
  void RecordStall(int64_t now) { duplicates_.ResetTimes(now); }

 private:
  void SendShared(FramedLink* link);
  bool Accepts(int peer) const;
  void RefuseDuplicate(FramedLink* link, const Identity& peer, int64_t now);
  void Join(FramedLink* link, uint32_t proposal, int64_t now);

  const Views* const views_;
  Strangers* const strangers_;
  Owner* const owner_;
  DuplicateWorkers duplicates_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_HANDSHAKES_H_
