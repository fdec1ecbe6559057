// FramedLink: one connection between two workers, in frames.
//
// It owns the ByteStream below it. The Session above owns and outlives the
// link. Pure: each event has its time.
//
// Sending never keeps a pointer into a caller's memory beyond DropBorrowed or
// Close. The queue is bounded: kMaxBorrowed bulk frames and kMaxFrames in all.

#ifndef RINGLET_NET_TRANSPORT_FRAMED_LINK_H_
#define RINGLET_NET_TRANSPORT_FRAMED_LINK_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../wire/frame_reader.h"
#include "../wire/handshake.h"
#include "byte_stream.h"

namespace ringlet {

class FramedLink final : private FrameReader::Sink, private ByteStream::Owner {
 public:
  // An event without a time follows an event with a time in the same turn of
  // the loop. The owner may close the link in any event, and delete it in none.
  class Owner {
   public:
    virtual void OnConnected(FramedLink* link, int64_t now) = 0;
    // Bytes were received.
    virtual void OnHeard(FramedLink* link, int64_t now) = 0;
    virtual Status OnHeader(FramedLink* link, const FrameHeader& header,
                            ReceiveTarget* receive_target) = 0;
    virtual Status OnFrame(FramedLink* link, const FrameHeader& header,
                           const uint8_t* payload) = 0;
    // A burst of reads, or a wait for the kernel, is over.
    virtual void OnTurn(FramedLink* link, int64_t now) = 0;
    // A borrowed payload of this operation has been written.
    virtual void OnSent(FramedLink* link, uint64_t sequence) = 0;
    // The connection has failed or ended, not by Close(). Called once, and
    // never from inside a call of the owner. Close the link.
    virtual void OnDown(FramedLink* link, LossCause cause, const Status& why,
                        int64_t now) = 0;

   protected:
    ~Owner() = default;
  };

  static constexpr int kMaxBorrowed = 4;
  static constexpr int kMaxFrames = 64;
  static constexpr uint32_t kTurnBytes = 2 * kSegmentBytes;

  // `phase` is kConnecting for the side that connects, and kAwaitHello for the
  // other side.
  FramedLink(StreamPtr stream, LinkPhase phase, Owner* owner);
  FramedLink(const FramedLink&) = delete;
  FramedLink& operator=(const FramedLink&) = delete;

  LinkPhase phase() const { return phase_; }
  bool up() const { return phase_ == LinkPhase::kUp; }
  // Sets the phase. A phase that PhaseMayFollow refuses is a broken invariant.
  void SetPhase(LinkPhase next);
  // True if the stream was open from the beginning: no OnConnected follows.
  bool open() const { return stream_ != nullptr && stream_->open(); }

  // Copies the payload.
  void Send(FrameHeader header, const uint8_t* payload);
  // Sends the caller's own payload, which must not change until OnSent.
  void SendBorrowed(FrameHeader header, const uint8_t* payload);
  // True if the queue has room for a frame of an operation. Half of the queue
  // is for control frames, which are few: a heartbeat in the queue gets the
  // content of a newer one.
  bool has_room() const {
    return borrowed_ < kMaxBorrowed && count_ < kMaxFrames / 2;
  }
  // True if it is the turn of reading. Sending and reading take turns:
  // otherwise one side's data fill the kernel's buffers and leave the caches.
  bool turn_is_used_up() const { return !shared_ && turn_bytes_ >= kTurnBytes; }
  void BeginTurn() { turn_bytes_ = 0; }
  bool drained() const {
    return count_ == 0 && (stream_ == nullptr || !stream_->blocked());
  }
  // Bytes that the stream has taken. If the queue is not empty and this count
  // stays the same, the other side does not read.
  uint64_t taken_bytes() const { return taken_bytes_; }
  // True if a frame found no room in the queue; no frame is sent any more.
  bool overflowed() const { return overflowed_; }

  // See SharedMemory of the stream. Bytes that are sent after a kShared frame
  // go through shared memory.
  bool MapSharedMemory() const {
    return memory_ != nullptr && memory_->MapSharedMemory();
  }
  void DeclineSharedMemory() {
    if (memory_ != nullptr) memory_->DeclineSharedMemory();
  }
  bool Poll(int64_t now, bool wake) {
    return memory_ != nullptr && memory_->Poll(now, wake);
  }
  bool shared() const { return shared_ && input_shared_; }
  bool unfinished() const {
    return memory_ != nullptr && memory_->unfinished();
  }

  // Drops queued bulk frames, and the frames that their operations sent later.
  // After it the link uses no memory of callers, for sending or for receiving.
  void DropBorrowed();
  // Idempotent. No event follows.
  void Close();
  bool closed() const { return stream_ == nullptr; }

  // The stream below. Call it only while not closed().
  const ByteStream& stream() const { return *stream_; }

  // Fields for the owner.
  int peer = -1;
  bool skips_frame = false;  // the frame being received is of another ring
  bool is_probe = false;     // the link only compares the peers' lists
  int64_t opened_at = 0;

 private:
  struct Out {
    uint8_t header[kFrameHeaderBytes];
    const uint8_t* payload = nullptr;
    uint32_t payload_bytes = 0;
    uint64_t sequence = 0;
    bool borrowed = false;
    bool heartbeat = false;
    bool data = false;    // the frame is of an operation
    bool shares = false;  // all later frames go through shared memory
    std::vector<uint8_t> copy;
  };

  Status OnHeader(const FrameHeader& header,
                  ReceiveTarget* receive_target) override;
  Status OnFrame(const FrameHeader& header, const uint8_t* payload) override;
  void OnOpened(int64_t now) override { owner_->OnConnected(this, now); }
  ByteStream::Space NextSpace() override;
  void OnRead(size_t bytes, int64_t now) override;
  void OnBytes(const uint8_t* data, size_t bytes, int64_t now) override;
  void OnWritable(int64_t now) override;
  void OnEnded(LossCause cause, const Status& why, int64_t now) override;

  Status InputIsShared();
  void AfterRead(const Status& status, int64_t now);
  void Enqueue(FrameHeader* header, const uint8_t* payload, bool borrowed);
  Out* NextOut(FrameType type);
  void GrowQueue();
  int Gather(ByteStream::Piece* pieces);
  void Pump();
  void Advance(size_t bytes);
  void StopWriting();
  Out& at(int i) {
    return queue_[static_cast<size_t>(first_ + i) % queue_.size()];
  }

  Owner* const owner_;
  StreamPtr stream_;      // null if closed
  SharedMemory* memory_;  // the stream's shared memory; null if none or closed
  LinkPhase phase_;
  bool broken_ = false;  // writing has failed; OnEnded will get the reason
  bool overflowed_ = false;
  bool pumping_ = false;
  bool shared_ = false;  // frames queued from now on go by shared memory
  bool input_shared_ = false;

  std::vector<Out> queue_;  // a ring that grows to kMaxFrames
  int first_ = 0;
  int count_ = 0;
  int borrowed_ = 0;
  uint32_t turn_bytes_ = 0;  // the bytes of bulk frames in this turn
  size_t written_ = 0;       // bytes of the front frame, header first
  uint64_t taken_bytes_ = 0;
  FrameReader reader_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_FRAMED_LINK_H_
