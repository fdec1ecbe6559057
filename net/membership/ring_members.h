// RingMembers: the workers of a session's ring, their ranks, and what is known
// of their ends.
//
// Pure. It owns the ring's members and generation, and which workers have left,
// have ended or wait to join. The Session and its parts write each change here,
// and read the result. A frame is stale if it is of another ring. Functions
// take and return workers by their numbers in the job's list. The rank of a
// worker is its number in the present view. In an elastic ring the members of
// the view have the ranks 0, 1 and so on, in the order of their numbers. In
// other rings a worker's number is its rank.

#ifndef RINGLET_NET_MEMBERSHIP_RING_MEMBERS_H_
#define RINGLET_NET_MEMBERSHIP_RING_MEMBERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../wire/frame.h"
#include "ringlet/status.h"
#include "view_agreement.h"

namespace ringlet {

// "rank R", or "worker N" if `rank` is negative.
inline std::string RankOrWorkerName(int rank, int worker) {
  return rank >= 0 ? "rank " + std::to_string(rank)
                   : "worker " + std::to_string(worker);
}

class RingMembers {
 public:
  // All of `size` workers are members, until SetView.
  RingMembers(int size, bool elastic);

  // Sets the members of a proposed, acknowledged or formed view.
  void SetView(const View& view);
  // The view's generation; 0 if there is none.
  uint32_t generation() const { return generation_; }

  // Records that the ring has formed with this generation; zero if not yet.
  void SetFormed(uint32_t generation) { formed_ = generation; }
  uint32_t formed() const { return formed_; }
  // True if a worker's frame is of another ring, and must be ignored. A frame
  // of generation 0 that is not of an operation is accepted: its sender may not
  // have formed the ring yet. `lingering` is true if this worker's ring has
  // ended.
  bool IsStale(int worker, const FrameHeader& header, bool lingering) const;

  // The members, by rank.
  const std::vector<int>& workers() const { return workers_; }
  int worker(int rank) const { return workers_[static_cast<size_t>(rank)]; }
  int count() const { return static_cast<int>(workers_.size()); }
  // The rank of each worker; -1 if not a member.
  const std::vector<int>& ranks() const { return ranks_; }
  int rank(int worker) const { return ranks_[static_cast<size_t>(worker)]; }
  bool is_member(int worker) const { return rank(worker) >= 0; }
  // A name for messages: "rank R" of a member, "worker N" of another worker.
  std::string WorkerName(int worker) const {
    return RankOrWorkerName(rank(worker), worker);
  }
  // In an elastic ring, replaces a lost worker's number in the error by its
  // rank, or the reverse.
  Status ForCaller(const Status& status) const;
  Status FromCaller(const Status& status) const;

  // Records that a worker has sent a goodbye, or the report of its failure.
  void SetLeft(int worker) { left_[static_cast<size_t>(worker)] = true; }
  bool left(int worker) const { return left_[static_cast<size_t>(worker)]; }
  void SetAborted(int worker) { aborted_[static_cast<size_t>(worker)] = true; }
  // In an elastic ring: records that a member's connection has ended. Without a
  // goodbye or an abort before, its process has ended.
  void SetEnded(int worker);
  bool ended(int worker) const {
    return any_ended_ && (ended_ & Bit(worker)) != 0;
  }
  // In an elastic ring: records that a worker has connected. `joins` is true if
  // the worker waits for the next view.
  void SetConnected(int worker, bool joins);
  // Records the loss of a joining worker.
  void SetLost(int worker) { joining_ &= ~Bit(worker); }
  // Records whether the other workers have continued without this worker.
  void SetLeftBehind(bool left_behind) { left_behind_ = left_behind; }
  // If a process has ended: the other members and the joining workers, as bits.
  // Returns 0 if none has ended, or if this worker is left behind.
  uint64_t remaining_workers() const;

 private:
  static uint64_t Bit(int worker) { return uint64_t{1} << worker; }

  const bool elastic_;
  uint32_t generation_ = 0;
  uint32_t formed_ = 0;
  std::vector<int> workers_, ranks_;
  std::vector<bool> left_, aborted_;
  bool left_behind_ = false;
  bool any_ended_ = false;  // a process has ended since the session's start
  uint64_t ended_ = 0;
  uint64_t joining_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_RING_MEMBERS_H_
