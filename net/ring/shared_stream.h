// SharedStream: a ByteStream through memory that both sides share, beside the
// socket by which they met.
//
// Internal to net/. Pure: above another ByteStream, with a SharedSegment. All
// goes by the socket until an owner says from which byte on its output, and the
// other's, is in the segment. Afterwards a byte of the socket means: look at
// the segment; and the socket's end is the end of the connection, once what is
// still in the segment was read. So who dies is noticed as ever.

#ifndef RINGLET_NET_RING_SHARED_STREAM_H_
#define RINGLET_NET_RING_SHARED_STREAM_H_

#include <memory>
#include <string>

#include "byte_stream.h"
#include "shared_segment.h"

namespace ringlet {

class SharedStream final : public ByteStream, private ByteStream::Owner {
 public:
  // Of the side that connects: offers the other a segment, where the system
  // has one. `below` itself where it does not.
  static StreamPtr Offer(StreamPtr below);
  // Of the side that listens.
  static StreamPtr Expect(StreamPtr below);

  void Start(ByteStream::Owner* owner) override;
  bool open() const override { return below_->open(); }
  int64_t Write(const Piece* pieces, int count) override;
  bool blocked() const override {
    return output_shared_ ? blocked_ : below_->blocked();
  }
  void StopReading() override;
  void Close() override;
  bool CanShare() override;
  void ShareNothing() override { segment_.reset(); }
  void ShareOutput() override;
  void ShareInput() override { input_shared_ = true; }
  bool Poll(int64_t now, bool wake) override;
  bool unfinished() const override { return unfinished_; }
  bool is_local() const override { return below_->is_local(); }
  const std::string& remote() const override { return below_->remote(); }
  const sockaddr_storage& remote_address() const override {
    return below_->remote_address();
  }

 private:
  SharedStream(StreamPtr below, std::unique_ptr<SharedSegment> segment);
  ~SharedStream() override = default;

  void OnOpened(int64_t now) override;
  Space NextSpace() override;
  void OnRead(size_t bytes, int64_t now) override;
  void OnBytes(const uint8_t*, size_t, int64_t) override {}
  void OnWritable(int64_t now) override;
  void OnEnded(Cause cause, const Status& why, int64_t now) override;

  void Use(std::unique_ptr<SharedSegment> segment, int out);
  bool Look(int64_t now, int most);
  bool ReadPiece(int64_t now);
  void Wake();
  void Leave();

  StreamPtr below_;  // null: closed
  ByteStream::Owner* owner_ = nullptr;
  std::unique_ptr<SharedSegment> segment_;  // null: none, or none yet
  SharedLane in_{nullptr, nullptr};
  SharedLane out_{nullptr, nullptr};
  bool output_shared_ = false;
  bool input_shared_ = false;
  bool blocked_ = false;     // the segment has no room
  bool wake_me_ = true;      // nobody on this side goes on looking
  bool wake_again_ = false;  // the socket took no byte
  bool broken_ = false;      // a count of the other side's cannot be
  bool reading_ = true;
  bool unfinished_ = false;
  int depth_ = 0;  // of calls that need this object until they return
  uint8_t woken_by_[64];
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_SHARED_STREAM_H_
