// Operations: the collective operations of a ring, over its members' links.
//
// It owns the CollectiveSchedule, which uses ranks, and the count of completed
// operations. The Session gives it calls and frames, and calls Progress after
// each event. Each frame goes to the worker of the rank, and FailureDetector
// gets what this worker waits for.

#ifndef RINGLET_NET_MEMBERSHIP_OPERATIONS_H_
#define RINGLET_NET_MEMBERSHIP_OPERATIONS_H_

#include <atomic>
#include <cstdint>

#include "../cluster/ring_options.h"
#include "../collective/collective_schedule.h"
#include "../collective/wait_report.h"
#include "../transport/transport.h"
#include "failure_detector.h"
#include "peer_table.h"
#include "ring_members.h"
#include "session_state.h"

namespace ringlet {

class Operations final : private CollectiveSchedule::Wire {
 public:
  Operations(const RingOptions& options, const SessionState* state,
             const RingMembers* members, Transport* transport, PeerTable* links,
             FailureDetector* detector);

  void SetStep(uint64_t step) { step_ = step; }
  // Call it when the ring has other members, and before the first call of an
  // operation.
  void Reset() { schedule_.Reset(members_->rank(worker_), members_->count()); }
  void Start(const Call& call) {
    if (schedule_.idle()) progress_at_ = now_;
    schedule_.Start(call);
  }
  // Drops all operations, and no longer uses the memory of any call.
  void Clear() { schedule_.Clear(); }
  // Another process takes the worker's place, before the ring has formed.
  void DropUnexpected(int worker);

  // Takes frames from a worker, as in CollectiveSchedule.
  Status OnHeader(int worker, const FrameHeader& header,
                  ReceiveTarget* receive_target) {
    return schedule_.OnHeader(members_->rank(worker), header, receive_target);
  }
  Status OnFrame(int worker, const FrameHeader& header,
                 const uint8_t* payload) {
    return schedule_.OnFrame(members_->rank(worker), header, payload);
  }
  void OnSent(uint64_t sequence) { schedule_.OnSent(sequence); }

  // Sends all that can be sent. kCorruption: faulty_worker() has sent a
  // forbidden frame. *completed becomes true if operations have completed.
  Status Progress(bool* completed);
  int faulty_worker() const {
    return members_->worker(schedule_.faulty_peer());
  }
  // The number of operations completed since the session's start.
  uint64_t completed() const { return completed_; }
  // True if a worker that has completed `completed` operations takes part in
  // the one under way.
  bool NeedsWorkerAt(uint64_t completed) const {
    return !schedule_.idle() && schedule_.started() > completed;
  }
  // The worker that the oldest operation waits for; -1 if there is none.
  int waiting_on() const;

  // The sum of all times of 1 ms or more in which this worker's operations made
  // no progress. May be called from any thread.
  int64_t idle_nanos() const { return idle_nanos_; }
  // Call it before Start and Progress.
  void SetTime(int64_t now) { now_ = now; }

  // Reports this worker's activity to the failure detector.
  void UpdateActivity(int64_t now);
  // The chain of this worker's present wait, by ranks, for the caller of the
  // operation.
  WaitChain CurrentWait(int64_t now);

 private:
  bool HasRoom(int rank) const override;
  void RequestRoomEvent(int rank) override;
  void Send(int rank, const FrameHeader& header, const uint8_t* payload,
            bool borrowed) override;

  const int worker_;  // this worker's number
  const SessionState* const state_;
  const RingMembers* const members_;
  Transport* const transport_;
  PeerTable* const links_;
  FailureDetector* const detector_;
  uint64_t step_ = 0;
  uint64_t completed_ = 0;
  int64_t now_ = 0;          // see SetTime
  int64_t progress_at_ = 0;  // the time of the last progress
  uint64_t moved_bytes_ = 0;
  std::atomic<int64_t> idle_nanos_{0};
  CollectiveSchedule schedule_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_OPERATIONS_H_
