// FailureDetector: finds lost members, and the cause of a standstill.
//
// It owns the times at which each other worker was heard, and this worker's
// activity. The Session reports frames and ticks to it, and gets suspects from
// it. A worker that sends in time and makes progress is never a suspect.
//
// Pure: time is an argument, in nanoseconds of a monotonic clock. The only
// setting is the timeout T. Every member sends a frame at least every T/4. A
// member is suspected if it was silent for longer than T, or its connection
// ended without a goodbye. It is also suspected if the operation has moved no
// byte for 1.5 T. A slow member that sends heartbeats and has not begun the
// operation is not suspected. A member that hears none of two or more other
// members assumes that it is isolated. If the other workers still hear it, it
// reports that before they look for the cause of the standstill.

#ifndef RINGLET_NET_MEMBERSHIP_FAILURE_DETECTOR_H_
#define RINGLET_NET_MEMBERSHIP_FAILURE_DETECTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../../core/base/long_wait.h"
#include "../../core/base/time_units.h"
#include "../collective/topology.h"
#include "../transport/loss_cause.h"
#include "../wire/heartbeat.h"

namespace ringlet {

class FailureDetector {
 public:
  struct Options {
    int worker = 0;  // this worker
    int64_t timeout_nanos = 5 * kSecond;
    std::vector<std::string> addresses;  // the address of each worker
    bool elastic = false;                // every pair is linked
  };
  FailureDetector(Options options, int64_t now);

  // The time between two calls of Tick.
  static constexpr int kTicksPerTimeout = 8;
  int64_t tick_nanos() const {
    return options_.timeout_nanos / kTicksPerTimeout;
  }

  // Sets the generation of the formed ring, for messages; it is 1 until then.
  void SetGeneration(uint32_t generation) { generation_ = generation; }
  // In an elastic ring: sets the rank of each worker, for messages. -1 means
  // the worker is not a member, and is never suspected. In other rings a rank
  // is a worker's number.
  void SetRanks(const std::vector<int>& ranks) { ranks_ = ranks; }
  void AddPeer(int peer, int64_t now);
  void RecordHeard(int peer, int64_t now);
  // Reads a heartbeat, and writes this worker's heartbeat, of kHeartbeatBytes
  // and kChainEndBytes at most.
  Status OnHeartbeatFrame(int peer, const FrameHeader& header,
                          const uint8_t* payload, int64_t now);
  void MakeHeartbeat(int64_t now, FrameHeader* header, uint8_t* payload) const;
  // Takes a heartbeat. `end` is the end of its chain, in a large ring.
  void OnHeartbeat(int peer, const Activity& activity, int64_t now,
                   const ChainEnd& end = ChainEnd());
  void RemovePeer(int peer);  // no longer watched: the peer left or was lost
  bool watched(int peer) const { return peers_[peer].watched; }
  // True if the peer is watched, and was heard within the timeout.
  bool Hears(int peer, int64_t now) const {
    return watched(peer) && now - peers_[peer].heard <= options_.timeout_nanos;
  }

  // Sets this worker's activity. `bytes_moved` counts the bytes that its
  // operations have moved. Any change of `bytes_moved` or of the activity is
  // progress.
  void SetActivity(const Activity& activity, uint64_t bytes_moved, int64_t now);
  const Activity& activity() const { return activity_; }

  struct Suspect {
    int worker = -1;  // -1 if there is none
    LossCause cause = LossCause::kSilent;
    double seconds = 0;  // how long the silence or the standstill lasted
  };
  // Call it every tick_nanos(). *beat becomes true if heartbeats are due. After
  // a late tick this worker waits longer for the other workers, by the same
  // time. If the tick is late by more than T, the suspect is this worker.
  Suspect Tick(int64_t now, bool* beat);
  // The suspect when a connection ends without a goodbye. It is this worker if
  // it was itself stalled for more than T/2 until now, for then the other
  // workers will have continued without it. Otherwise there is none.
  Suspect SelfStalled(int64_t now) const;

  struct AwaitedWorker {
    int worker = -1;
    Activity activity;
    double seconds = 0;  // time since its last report that differs
    double silent = 0;   // time since its last report; 0 if that is recent
  };
  // The chain of workers that wait for one another, from the worker that this
  // one waits for. In an elastic ring it has only members.
  std::vector<AwaitedWorker> AwaitedWorkers(int64_t now) const;
  // In a large ring, for heartbeats: the end of the chain of workers that wait
  // for each other. The chain begins with the worker that this one waits for.
  ChainEnd EndOfChain(int64_t now) const;

  // Returns the present wait, once it has lasted a second, or T/2 if that is
  // shorter. LongWait::workers then has the last worker of the chain of waiting
  // workers; otherwise it is empty. `goes_on` is true if the last call returned
  // a wait.
  LongWait CurrentLongWait(int64_t now, bool goes_on) const;

  // The time at which this worker last moved a byte or began an operation.
  int64_t progress_at() const { return progress_; }
  int64_t HeardAt(int peer) const { return peers_[peer].heard; }

  // "silent for 5.02 s", "exited: end of file".
  static std::string Reason(const Suspect& suspect, const char* detail);
  // kPeerLost, with rank, address, generation, step, phase and cause.
  Status LossError(const Suspect& suspect, const char* detail) const;

 private:
  struct Peer {
    bool watched = false;
    int64_t heard = 0;
    int64_t changed = 0;  // the time at which its activity last changed
    Activity activity;
    ChainEnd end;        // the end of its chain, in a large ring
    int64_t end_at = 0;  // the time at which it reported `end`
  };
  bool fully_connected() const {
    return options_.elastic ||
           IsFullyConnected(static_cast<int>(peers_.size()));
  }
  // True if the worker is not a member of this elastic ring.
  bool IsOutsideView(size_t worker) const {
    return !ranks_.empty() && ranks_[worker] < 0;
  }
  // Names workers in messages: see RingMembers::WorkerName.
  std::string WorkerName(int worker) const;
  // The worker that a peer waits for, by its report; -1 if there is none, or
  // if it is not a member.
  int AwaitedMemberOf(const Peer& peer) const {
    const int awaited = peer.activity.waiting_on;
    return awaited >= 0 && IsOutsideView(static_cast<size_t>(awaited))
               ? -1
               : awaited;
  }
  // The worker at the end of the chain of waiting workers, if nothing has
  // changed along the chain for too long; in a large ring only a neighbour.
  Suspect FindStalled(int64_t now) const;
  Suspect FindStalledNeighbour(int64_t now) const;
  AwaitedWorker MakeReport(int peer, int64_t now) const;
  // The times of the last change and of the oldest report in the known part of
  // the chain that begins with `peer`.
  int64_t LastProgressInChain(const Peer& peer) const;
  int64_t OldestReportInChain(const Peer& peer) const;

  const Options options_;
  uint32_t generation_ = 1;
  std::vector<int> ranks_;
  std::vector<Peer> peers_;
  Activity activity_;
  uint64_t bytes_moved_ = 0;
  int64_t progress_ = 0;  // see progress_at()
  int64_t last_tick_;
  int64_t late_ = 0;  // the delay of the last tick
  int64_t last_beat_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_FAILURE_DETECTOR_H_
