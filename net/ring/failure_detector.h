// FailureDetector: who is still there, and whose fault a standstill is.
//
// Internal to net/. Pure: time comes in as an argument, in nanoseconds of a
// monotonic clock. One knob, the timeout T. Every member says something at
// least every T/4; silence longer than T, a connection that ended without a
// goodbye, or an operation that has moved no byte for 1.5 T makes a suspect. A
// slow member that still says it is alive and has not begun the operation is
// waited for. A member that hears none of two or more others takes itself for
// the one that is cut off: where it can still be heard, it says so before they
// look for a culprit of the standstill.

#ifndef RINGLET_NET_RING_FAILURE_DETECTOR_H_
#define RINGLET_NET_RING_FAILURE_DETECTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../wire/heartbeat.h"
#include "topology.h"
#include "wait_report.h"

namespace ringlet {

// How a member was lost.
enum class Cause : uint8_t {
  kExited,    // its end of the connection was closed without a goodbye
  kSilent,    // nothing heard for T
  kRefused,   // its host answers that nobody listens
  kCut,       // the network gave up on the connection
  kStalled,   // it is alive, and the operation stands still because of it
  kLeft,      // it said goodbye while others still need it
  kProtocol,  // it sent what it must not
  kHeldUp,    // this worker itself stood still for longer than T
  kDeaf,      // this worker itself has heard none of the others for T
};
const char* CauseName(Cause cause);

class FailureDetector {
 public:
  struct Options {
    int rank = 0;
    int64_t timeout_nanos = 5000000000;
    std::vector<std::string> addresses;  // by rank
    bool elastic = false;                // every pair is linked
  };
  FailureDetector(Options options, int64_t now);

  // Times between two calls of Tick.
  int64_t tick_nanos() const { return options_.timeout_nanos / 8; }

  // Of the ring that has formed, for messages; 1 until then.
  void SetGeneration(uint32_t generation) { generation_ = generation; }
  // Of an elastic ring: the ranks by worker, by which messages name them, -1 of
  // those that take no part, who are not judged. Elsewhere a rank is a worker's
  // number.
  void SetRanks(const std::vector<int>& ranks) { ranks_ = ranks; }
  void Joined(int peer, int64_t now);
  void Heard(int peer, int64_t now);
  // `end`: in a large ring, as the heartbeat has it.
  void Beat(int peer, const Activity& activity, int64_t now,
            const ChainEnd& end = ChainEnd());
  void Gone(int peer);  // no longer watched: it left or was lost
  bool joined(int peer) const { return peers_[peer].joined; }
  // It is watched, and was heard within the timeout.
  bool Hears(int peer, int64_t now) const {
    return joined(peer) && now - peers_[peer].heard <= options_.timeout_nanos;
  }

  // What this worker does. `moved` counts the bytes its operations have moved;
  // any change of it, or of the activity, is progress.
  void SetActivity(const Activity& activity, uint64_t moved, int64_t now);
  const Activity& activity() const { return activity_; }

  struct Suspect {
    int rank = -1;  // -1: nobody
    Cause cause = Cause::kSilent;
    double seconds = 0;  // how long the silence or the standstill lasted
  };
  // To be called every tick_nanos(). `beat` says whether heartbeats are due.
  // A tick that comes late makes this worker more patient by as much; one that
  // comes later than T makes it the suspect itself.
  Suspect Tick(int64_t now, bool* beat);
  // Whom to name when a connection ends without a word: this worker, where it
  // stood still for more than T/2 just now, for then the others will have gone
  // on without it; else nobody.
  Suspect HeldUp(int64_t now) const;

  Waiting WaitsFor(int64_t now) const;
  // In a large ring, for heartbeats: the end of the chain of those who wait for
  // one another, beginning with the one this rank waits for.
  ChainEnd EndOfChain(int64_t now) const;

  // Since its operations moved a byte, or it began another.
  int64_t StillSince() const { return progress_; }
  int64_t HeardAt(int peer) const { return peers_[peer].heard; }

  // "silent for 5.02 s", "exited: end of file".
  static std::string Reason(const Suspect& suspect, const char* detail);
  // kPeerLost, naming rank, address, generation, step, phase and cause.
  Status Lost(const Suspect& suspect, const char* detail) const;

 private:
  struct Peer {
    bool joined = false;
    int64_t heard = 0;
    int64_t changed = 0;  // when its activity last changed
    Activity activity;
    ChainEnd end;        // of its chain, in a large ring
    int64_t end_at = 0;  // when it said so
  };
  bool EveryPairLinked() const {
    return options_.elastic || EveryPair(static_cast<int>(peers_.size()));
  }
  bool Outside(size_t worker) const {
    return !ranks_.empty() && ranks_[worker] < 0;
  }
  int RankOf(int worker) const {
    return ranks_.empty() || ranks_[worker] < 0 ? worker : ranks_[worker];
  }
  // Whom a peer says it waits for; -1: nobody, or one that takes no part.
  int WaitsOn(const Peer& peer) const {
    const int on = peer.activity.waiting_on;
    return on >= 0 && Outside(static_cast<size_t>(on)) ? -1 : on;
  }
  Suspect FindStalled(int64_t now) const;
  Suspect FindStalledBeside(int64_t now) const;
  Waiting::Other Told(int peer, int64_t now) const;
  // Along the chain that begins with `peer`, as far as this rank knows it: when
  // something last changed, and when the oldest word of it was said.
  int64_t MovedBeside(const Peer& peer) const;
  int64_t SeenBeside(const Peer& peer) const;

  const Options options_;
  uint32_t generation_ = 1;
  std::vector<int> ranks_;
  std::vector<Peer> peers_;
  Activity activity_;
  uint64_t moved_ = 0;
  int64_t progress_ = 0;  // when something last moved
  int64_t last_tick_;
  int64_t late_ = 0;  // by how much the last tick was
  int64_t last_beat_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_FAILURE_DETECTOR_H_
