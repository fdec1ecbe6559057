// CollectiveSchedule: moves the collective operations of one rank forward.
//
// Internal to net/. Pure: frames come in and go out through Wire; no socket,
// no clock, no thread. Up to kWindow operations are under way at once, the
// rest wait in line; they complete in the order of their start.
//
// Long vectors are moved in segments straight from and to the caller's memory.
// So that a place for them is sure to exist, a receiver first says kReady.
// Short vectors are sent at once; a frame that comes before its time is kept,
// at most one of kEagerBytes for each operation and peer. Since no operation
// completes anywhere before every rank has begun it, a peer is never more than
// kWindow operations ahead: a frame beyond that is a protocol error.
//
// Every frame of an operation says what its sender was asked to do (type, root,
// bytes), and the receiver compares.

#ifndef RINGLET_NET_RING_COLLECTIVE_SCHEDULE_H_
#define RINGLET_NET_RING_COLLECTIVE_SCHEDULE_H_

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
    // Whether a borrowed frame for this peer finds room in its queue.
    virtual bool HasRoom(int peer) const = 0;
    // A frame waits for that room: Progress is to be called once it is there.
    virtual void AwaitRoom(int peer) = 0;
    // The header lacks source, destination, generation, step and checksum.
    // A borrowed payload stays valid until OnSent or Clear; any other is at
    // most kEagerBytes and copied.
    virtual void Send(int peer, const FrameHeader& header,
                      const uint8_t* payload, bool borrowed) = 0;

   protected:
    ~Wire() = default;
  };

  // Operations under way at once.
  static constexpr int kWindow = 4;

  // Floats of all-reduces by ring, beyond kEagerBytes, travel as `dtype`.
  CollectiveSchedule(int rank, int size, Algorithm algorithm, WireDtype dtype,
                     Wire* wire);
  // As new, for other ranks. Only before the first call.
  void Reset(int rank, int size);

  void Start(const Call& call);
  // Forgets everything: no memory of a call is touched any more.
  void Clear();
  // Another process takes the peer's place: what the one before it sent ahead
  // of time is dropped. Only before the ring has formed.
  void Replaced(int peer);

  // A frame from a peer, in FrameReader's two parts. kInvalidArgument: the
  // ranks' calls differ, and the message names both. kCorruption: the peer
  // sent what it must not.
  Status OnHeader(int peer, const FrameHeader& header, Landing* landing);
  Status OnFrame(int peer, const FrameHeader& header, const uint8_t* payload);
  // A borrowed frame of this operation has been written.
  void OnSent(uint64_t sequence);

  // Sends what can be sent. To be called after any of the above, and when a
  // queue has found room. Errors as above; kCorruption is the culprit's.
  Status Progress();
  int culprit() const { return culprit_; }

  uint64_t started() const { return started_; }
  uint64_t completed() const { return completed_; }
  bool idle() const { return active_ == 0 && line_begin_ == line_.size(); }
  uint64_t moved_bytes() const { return moved_bytes_; }
  // The oldest operation under way, and the rank it waits for; -1 where it
  // waits for nobody. Only while not idle().
  FrameType waiting_type() const { return oldest()->call.type; }
  int waiting_on() const;

 private:
  static constexpr int kSlots = 2 * kWindow;
  static constexpr int kPacked = 4;  // segments

  struct Operation {
    Call call;
    uint64_t sequence = 0;
    CollectivePlan plan;
    size_t send_step = 0;  // next to send
    int64_t send_segment = 0;
    size_t receive_step = 0;  // next to receive
    int64_t receive_segment = 0;
    int unsent = 0;  // borrowed frames not yet written
    bool said_ready = false;
    std::vector<uint32_t> chunks_to, chunks_from;  // by peer
  };
  // What a peer said before this rank was there.
  struct Early {
    bool ready = false;
    bool frame = false;
    FrameHeader ready_header, frame_header;
    std::vector<uint8_t> payload;
  };

  Operation* Find(uint64_t sequence);
  const Operation* oldest() const {
    return &window_[(completed_ + 1) % kWindow];
  }
  // Of a peer that has said nothing yet the first use makes the places.
  Early& EarlyOf(int peer, uint64_t sequence) {
    if (early_[peer].empty()) early_[peer].resize(kSlots);
    return early_[peer][sequence % kSlots];
  }
  bool Ready(int peer, uint64_t sequence) const {
    return !early_[peer].empty() && early_[peer][sequence % kSlots].ready;
  }
  Status Activate();
  Status CompareEarly(const Operation& op);
  void SayReady(Operation* op);
  void SkipIdleSteps(Operation* op);
  Status Compare(const Operation& op, int peer,
                 const FrameHeader& theirs) const {
    return CompareCalls(op.call, op.sequence, rank_, peer, theirs);
  }
  bool Expects(const Operation& op, int peer) const;
  Status CheckExpected(const Operation& op, int peer,
                       const FrameHeader& header) const;
  void Received(Operation* op, int peer);
  bool HasToSend(const Operation& op) const;
  int FirstUnready(const Operation& op) const;
  int FirstUnreadyBelow(const Operation& op) const;
  void SendOne(Operation* op);
  Status TakeEarlyOf(Operation* op, int peer);
  Status TakeEarly(Operation* op, bool* moved);
  bool Done(const Operation& op) const;

  int rank_;
  int size_;
  PlanOptions options_;
  Wire* const wire_;
  uint64_t started_ = 0;    // sequence of the last call
  uint64_t completed_ = 0;  // operations completed; the next is the oldest
  int active_ = 0;          // operations under way
  std::vector<Call> line_;  // line_[line_begin_..] waits
  size_t line_begin_ = 0;
  Operation window_[kWindow];
  std::vector<std::vector<Early>> early_;  // [peer][sequence % kSlots]
  // Packed segments on their way to the right neighbour, in turns.
  std::vector<uint8_t> packed_;
  uint64_t packed_begun_ = 0;
  int packed_unsent_ = 0;
  uint64_t moved_bytes_ = 0;
  int culprit_ = -1;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_COLLECTIVE_SCHEDULE_H_
