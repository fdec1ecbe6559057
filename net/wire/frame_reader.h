// FrameReader: cuts a stream of bytes into frames, however it was split.
//
// Internal to net/. Pure: no socket, no clock. The owner says where each
// payload goes when its header is known, so bulk data lands straight in its
// destination. A payload's checksum is known at its end: what kLand and kAdd
// have written by then is undefined after an error.

#ifndef RINGLET_NET_WIRE_FRAME_READER_H_
#define RINGLET_NET_WIRE_FRAME_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "frame.h"
#include "packed_floats.h"

namespace ringlet {

// Where a payload goes.
struct Landing {
  enum Mode : uint8_t {
    kKeep,  // small: kept and handed to OnFrame
    kLand,  // to data[0..payload_bytes)
    kAdd,   // added, as numbers, to those at data
    kSkip,  // nowhere
  };
  Mode mode = kSkip;
  // Of the payload where it is other than at `data`: floats are there.
  WireDtype dtype = WireDtype::kFloat32;
  bool integers = false;  // of kAdd: int32, and not floats
  uint8_t* data = nullptr;
};

class FrameReader {
 public:
  class Sink {
   public:
    // A header that decoded well. kKeep is for at most kEagerBytes, kAdd for
    // whole numbers. An error ends the stream.
    virtual Status OnHeader(const FrameHeader& header, Landing* landing) = 0;
    // The whole payload is where it should be and its checksum is right.
    // `payload` is null unless it was kept.
    virtual Status OnFrame(const FrameHeader& header,
                           const uint8_t* payload) = 0;

   protected:
    ~Sink() = default;
  };

  explicit FrameReader(Sink* sink) : sink_(sink) { Grow(kFirstBytes); }

  // Where the next bytes may be read to, without a copy: never empty. Call
  // Read with what arrived there before asking again.
  struct Space {
    uint8_t* data;
    size_t bytes;
  };
  Space NextSpace();
  // `bytes` have arrived in NextSpace().
  Status Read(size_t bytes);
  // These have arrived in memory that others may be changing: what is decided
  // by them is copied first, numbers are added from there. Not mixed with the
  // above but at the end of a frame.
  Status Read(const uint8_t* data, size_t bytes);
  // At the end of a frame: forgets what has arrived after it. From now on
  // payloads have no checksum.
  void TakeUnchecked() {
    begin_ = end_ = 0;
    checked_ = false;
  }

  // The payload under way no longer lands in its owner's memory, which may be
  // freed. One that is kept still goes to OnFrame.
  void ForgetMemory() {
    if (landing_.mode != Landing::kKeep) landing_.mode = Landing::kSkip;
  }

 private:
  // Bytes read at once while no more is known than that a frame follows.
  static constexpr size_t kShortRead = kFrameHeaderBytes + kEagerBytes;
  static constexpr size_t kBufferBytes = kFrameHeaderBytes + kSegmentBytes;

  struct FreeAligned {
    void operator()(uint8_t* data) const {
      operator delete[](data, kAlignment);
    }
  };
  static constexpr std::align_val_t kAlignment{64};
  static constexpr size_t kFirstBytes = 1024;

  void Grow(size_t capacity);
  bool direct() const;
  size_t number_bytes() const;
  Status Parse();
  Status Take(const uint8_t* data, size_t bytes);
  Status EndFrame();

  Sink* const sink_;
  FrameHeader header_;
  Landing landing_;
  bool checked_ = true;  // payloads, by their checksums
  bool in_payload_ = false;
  uint32_t received_ = 0;  // bytes of the payload
  uint32_t crc_ = 0;
  size_t begin_ = 0;  // buffer_[begin_..end_) is not yet consumed
  size_t end_ = 0;
  std::vector<uint8_t> kept_ = std::vector<uint8_t>(64);  // never empty
  // Grows from kFirstBytes to kBufferBytes while reads fill it: most links of a
  // large ring carry little more than heartbeats.
  size_t capacity_ = 0;
  bool filled_ = false;  // by the last read
  std::unique_ptr<uint8_t[], FreeAligned> buffer_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_FRAME_READER_H_
