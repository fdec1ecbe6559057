// SharedStream: a ByteStream through shared memory, beside the socket of the
// connection.
//
// Pure: above another ByteStream, with a SharedSegment. All bytes go by the
// socket until an owner announces the byte from which on its output is in the
// segment. After that a byte of the socket is a wake-up: read the segment. When
// the socket ends, the connection ends, once the rest of the segment was read.
// So the end of a process is noticed as with a socket alone.

#ifndef RINGLET_NET_TRANSPORT_SHARED_STREAM_H_
#define RINGLET_NET_TRANSPORT_SHARED_STREAM_H_

#include <memory>
#include <string>

#include "layered_stream.h"
#include "shared_segment.h"

namespace ringlet {

class SharedStream final : public LayeredStream, private SharedMemory {
 public:
  // For the side that connects: offers the other side a segment. Returns
  // `below` itself if the system has no segment. Both functions need a `below`
  // with descriptors().
  static StreamPtr Offer(StreamPtr below);
  // Makes the stream of the side that listens.
  static StreamPtr Expect(StreamPtr below);

  bool open() const override { return below_->open(); }
  int64_t Write(const Piece* pieces, int count) override;
  bool blocked() const override {
    return output_shared_ ? blocked_ : below_->blocked();
  }
  bool authentic() const override { return below_->authentic(); }
  SharedMemory* shared_memory() override { return this; }

 private:
  SharedStream(StreamPtr below, std::unique_ptr<SharedSegment> segment);
  ~SharedStream() override = default;

  void OnOpened(int64_t now) override;
  Space NextSpace() override;
  void OnRead(size_t bytes, int64_t now) override;
  void OnWritable(int64_t now) override;
  void OnEnded(LossCause cause, const Status& why, int64_t now) override;

  bool MapSharedMemory() override;
  void DeclineSharedMemory() override { segment_.reset(); }
  void ShareOutput() override;
  void ShareInput() override { input_shared_ = true; }
  bool Poll(int64_t now, bool wake) override;
  bool unfinished() const override { return unfinished_; }

  void Attach(std::unique_ptr<SharedSegment> segment, int out);
  bool PollSegment(int64_t now, int max_polls);
  bool ReadPiece(int64_t now);
  void Wake();

  std::unique_ptr<SharedSegment> segment_;  // null if there is none (yet)
  SharedLane in_{nullptr, nullptr};
  SharedLane out_{nullptr, nullptr};
  bool output_shared_ = false;
  bool input_shared_ = false;
  bool blocked_ = false;      // the segment has no room
  bool needs_wakeup_ = true;  // this side does not poll
  bool wake_again_ = false;   // the socket took no byte: try again
  bool broken_ = false;       // a count of the other side is impossible
  bool unfinished_ = false;
  uint8_t woken_by_[64];
};

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_SHARED_STREAM_H_
