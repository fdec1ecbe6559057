// CollectiveSchedule: moves the collective operations of one rank forward.
//
// Pure: frames arrive by OnHeader and OnFrame, and leave by Wire. There is no
// socket, no clock and no thread. Up to kWindow operations are under way at the
// same time, and the rest wait. They complete in the order of their start.
//
// Long vectors are moved in segments directly from and to the caller's memory.
// A receiver first sends kReady: it has memory for them. Short vectors are sent
// immediately. A frame that arrives before its operation has begun is kept, at
// most one message of kEagerBytes for each operation and peer. No operation
// completes on a rank before every rank has begun it. So a peer is never more
// than kWindow operations ahead, and a later frame is a protocol error.
//
// Every frame of an operation has the arguments of its sender's call (type,
// root, bytes), and the receiver compares them.

#ifndef RINGLET_NET_COLLECTIVE_COLLECTIVE_SCHEDULE_H_
#define RINGLET_NET_COLLECTIVE_COLLECTIVE_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../wire/frame.h"
#include "../wire/frame_reader.h"
#include "collective_plan.h"

namespace ringlet {

class CollectiveSchedule {
 public:
  class Wire {
   public:
    // True if the queue of this peer has room for a borrowed frame.
    virtual bool HasRoom(int peer) const = 0;
    // A frame waits for room: call Progress when the queue has room.
    virtual void RequestRoomEvent(int peer) = 0;
    // The header lacks source, destination, generation, step and checksum.
    // A borrowed payload stays valid until OnSent or Clear. Any other payload
    // has at most kEagerBytes and is copied.
    virtual void Send(int peer, const FrameHeader& header,
                      const uint8_t* payload, bool borrowed) = 0;

   protected:
    ~Wire() = default;
  };

  // Operations under way at the same time.
  static constexpr int kWindow = 4;

  // All-reduces by ring send floats beyond kEagerBytes as `dtype`.
  CollectiveSchedule(int rank, int size, Algorithm algorithm, WireDtype dtype,
                     Wire* wire);
  // Begins again, for other ranks. Only before the first call.
  void Reset(int rank, int size);

  void Start(const Call& call);
  // Drops all operations, and no longer uses the memory of any call.
  void Clear();
  // Call it when another process takes the peer's place: it drops the
  // unexpected frames of the previous process. Only before the ring has formed.
  void DropUnexpected(int peer);

  // Takes a frame from a peer, in FrameReader's two parts. kInvalidArgument:
  // the ranks' calls differ, and the message names both. kCorruption: the peer
  // sent a forbidden frame.
  Status OnHeader(int peer, const FrameHeader& header,
                  ReceiveTarget* receive_target);
  Status OnFrame(int peer, const FrameHeader& header, const uint8_t* payload);
  // Call it when a borrowed frame of this operation has been written.
  void OnSent(uint64_t sequence);

  // Sends all that can be sent. Call it after any of the above, and when a
  // queue has room again. Errors as above; for kCorruption see faulty_peer().
  Status Progress();
  int faulty_peer() const { return faulty_peer_; }

  uint64_t started() const { return started_; }
  uint64_t completed() const { return completed_; }
  bool idle() const {
    return active_ == 0 && pending_begin_ == pending_.size();
  }
  uint64_t moved_bytes() const { return moved_bytes_; }
  // The oldest operation under way, and the rank it waits for; -1 if it waits
  // for none. Only while not idle().
  FrameType waiting_type() const { return oldest()->call.type; }
  int waiting_on() const;

 private:
  static constexpr int kSlots = 2 * kWindow;
  static constexpr int kPackedSegments = 4;

  struct Operation {
    Call call;
    uint64_t sequence = 0;
    CollectivePlan plan;
    size_t send_step = 0;  // next to send
    int64_t send_segment = 0;
    size_t receive_step = 0;  // next to receive
    int64_t receive_segment = 0;
    int unsent = 0;  // borrowed frames not yet written
    bool sent_ready = false;
    std::vector<uint32_t> chunks_to, chunks_from;  // the chunks of each peer
  };
  // The frames that a peer sent before this rank began the operation.
  struct Unexpected {
    bool ready = false;
    bool frame = false;
    FrameHeader ready_header, frame_header;
    std::vector<uint8_t> payload;
  };

  Operation* Find(uint64_t sequence);
  const Operation* oldest() const {
    return &window_[(completed_ + 1) % kWindow];
  }
  // The first use for a peer makes its slots.
  Unexpected& FindOrAddUnexpected(int peer, uint64_t sequence) {
    if (unexpected_[peer].empty()) unexpected_[peer].resize(kSlots);
    return unexpected_[peer][sequence % kSlots];
  }
  bool IsPeerReady(int peer, uint64_t sequence) const {
    return !unexpected_[peer].empty() &&
           unexpected_[peer][sequence % kSlots].ready;
  }
  Status Activate();
  Status CompareUnexpected(const Operation& op);
  void SendReady(Operation* op);
  void SkipIdleSteps(Operation* op);
  Status Compare(const Operation& op, int peer,
                 const FrameHeader& theirs) const {
    return CompareCalls(op.call, op.sequence, rank_, peer, theirs);
  }
  bool IsExpected(const Operation& op, int peer) const;
  Status CheckExpected(const Operation& op, int peer,
                       const FrameHeader& header) const;
  void AdvanceReceive(Operation* op, int peer);
  bool HasToSend(const Operation& op) const;
  int FirstUnready(const Operation& op) const;
  int FirstUnreadyChild(const Operation& op) const;
  void SendOne(Operation* op);
  Status ReceivePendingFrom(Operation* op, int peer);
  Status ReceivePending(Operation* op, bool* moved);
  bool IsDone(const Operation& op) const;

  int rank_;
  int size_;
  PlanOptions options_;
  Wire* const wire_;
  uint64_t started_ = 0;       // sequence of the last call
  uint64_t completed_ = 0;     // operations completed; the next is the oldest
  int active_ = 0;             // operations under way
  std::vector<Call> pending_;  // pending_[pending_begin_..] waits
  size_t pending_begin_ = 0;
  Operation window_[kWindow];
  std::vector<std::vector<Unexpected>>
      unexpected_;  // [peer][sequence % kSlots]
  // Packed segments for the right neighbour, used in turns.
  std::vector<uint8_t> packed_;
  uint64_t packed_begun_ = 0;
  int packed_unsent_ = 0;
  uint64_t moved_bytes_ = 0;
  int faulty_peer_ = -1;
};

}  // namespace ringlet

#endif  // RINGLET_NET_COLLECTIVE_COLLECTIVE_SCHEDULE_H_
