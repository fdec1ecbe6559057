// FramedLink: one connection between two workers, in frames.
//
// Internal to net/. Above a ByteStream, which it owns; below a Session, which
// owns it and outlives it. Pure: what it knows of time comes with the events.
//
// Sending never keeps a pointer into a caller's memory beyond DropBorrowed or
// Close. What is queued is bounded: kMaxBorrowed bulk frames and kMaxFrames in
// all.

#ifndef RINGLET_NET_RING_FRAMED_LINK_H_
#define RINGLET_NET_RING_FRAMED_LINK_H_

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
  // The first event of a turn of the loop is one with a time; what has none
  // follows it. The link may be closed in any of them, and deleted in none.
  class Owner {
   public:
    virtual void OnConnected(FramedLink* link, int64_t now) = 0;
    // Some bytes have come.
    virtual void OnHeard(FramedLink* link, int64_t now) = 0;
    virtual Status OnHeader(FramedLink* link, const FrameHeader& header,
                            Landing* landing) = 0;
    virtual Status OnFrame(FramedLink* link, const FrameHeader& header,
                           const uint8_t* payload) = 0;
    // A burst of reads, or a wait for the kernel, is over.
    virtual void OnTurn(FramedLink* link, int64_t now) = 0;
    // A borrowed payload of this operation has been written.
    virtual void OnSent(FramedLink* link, uint64_t sequence) = 0;
    // The connection is of no more use, not by Close(). Called once, and
    // never from inside a call of the owner's own. Close it.
    virtual void OnDown(FramedLink* link, Cause cause, const Status& why,
                        int64_t now) = 0;

   protected:
    ~Owner() = default;
  };

  static constexpr int kMaxBorrowed = 4;
  static constexpr int kMaxFrames = 64;
  static constexpr uint32_t kTurnBytes = 2 * kSegmentBytes;

  // `phase`: kConnecting of the side that connects, else kAwaitHello.
  FramedLink(StreamPtr stream, LinkPhase phase, Owner* owner);
  FramedLink(const FramedLink&) = delete;
  FramedLink& operator=(const FramedLink&) = delete;

  LinkPhase phase() const { return phase_; }
  bool up() const { return phase_ == LinkPhase::kUp; }
  // The one way from phase to phase; one that PhaseMayFollow refuses is a
  // broken invariant.
  void SetPhase(LinkPhase next);
  // Whether the stream was there from the beginning: no OnConnected follows.
  bool open() const { return stream_ != nullptr && stream_->open(); }

  // Copies the payload.
  void Send(FrameHeader header, const uint8_t* payload);
  // The payload stays the caller's, untouched, until OnSent.
  void SendBorrowed(FrameHeader header, const uint8_t* payload);
  // For a frame of an operation; the rest of the queue is the control frames',
  // which are few: a heartbeat that waits takes the next one's content.
  bool has_room() const {
    return borrowed_ < kMaxBorrowed && count_ < kMaxFrames / 2;
  }
  // Sending takes turns with reading, or what one side sends piles up in the
  // kernel, out of every cache, while nobody reads.
  bool turn_over() const { return !shared_ && turn_bytes_ >= kTurnBytes; }
  void NewTurn() { turn_bytes_ = 0; }
  bool drained() const {
    return count_ == 0 && (stream_ == nullptr || !stream_->blocked());
  }
  // Bytes that the stream has taken. Where the queue is not empty and these
  // stay as they are, the other side does not read.
  uint64_t taken_bytes() const { return taken_bytes_; }
  // A frame found no room, and none is sent any more.
  bool overflowed() const { return overflowed_; }

  // Of the stream. What is sent behind a kShared goes through shared memory.
  bool CanShare() const { return stream_->CanShare(); }
  void ShareNothing() { stream_->ShareNothing(); }
  bool Poll(int64_t now, bool wake) {
    return stream_ != nullptr && stream_->Poll(now, wake);
  }
  bool shared() const { return shared_ && input_shared_; }
  bool unfinished() const {
    return stream_ != nullptr && stream_->unfinished();
  }

  // Drops queued bulk frames, and with each what its operations sent after it,
  // and lets go of the callers' memory, here and where a payload was landing.
  void DropBorrowed();
  // Idempotent. No event follows.
  void Close();
  bool closed() const { return stream_ == nullptr; }

  // Of the stream; while not closed().
  const ByteStream& stream() const { return *stream_; }

  // The owner's notes.
  int peer = -1;
  bool skips = false;  // the frame that comes: it was of another ring
  int64_t opened_at = 0;

 private:
  struct Out {
    uint8_t header[kFrameHeaderBytes];
    const uint8_t* payload = nullptr;
    uint32_t payload_bytes = 0;
    uint64_t sequence = 0;
    bool borrowed = false;
    bool heartbeat = false;
    bool data = false;    // of an operation
    bool shares = false;  // all that follows is in shared memory
    std::vector<uint8_t> copy;
  };

  Status OnHeader(const FrameHeader& header, Landing* landing) override;
  Status OnFrame(const FrameHeader& header, const uint8_t* payload) override;
  void OnOpened(int64_t now) override { owner_->OnConnected(this, now); }
  ByteStream::Space NextSpace() override;
  void OnRead(size_t bytes, int64_t now) override;
  void OnBytes(const uint8_t* data, size_t bytes, int64_t now) override;
  void OnWritable(int64_t now) override;
  void OnEnded(Cause cause, const Status& why, int64_t now) override;

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
  StreamPtr stream_;  // null: closed
  LinkPhase phase_;
  bool broken_ = false;  // writing has failed; the read side will say why
  bool overflowed_ = false;
  bool pumping_ = false;
  bool shared_ = false;  // what is queued from now on
  bool input_shared_ = false;

  std::vector<Out> queue_;  // a ring that grows to kMaxFrames
  int first_ = 0;
  int count_ = 0;
  int borrowed_ = 0;
  uint32_t turn_bytes_ = 0;  // of bulk frames
  size_t written_ = 0;       // bytes of the front frame, header first
  uint64_t taken_bytes_ = 0;
  FrameReader reader_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_FRAMED_LINK_H_
