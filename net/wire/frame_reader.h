// FrameReader: cuts a stream of bytes into frames, however it was split.
//
// Pure: no socket, no clock. The owner returns the target of each payload when
// its header is known, so bulk data goes directly to its destination. A
// payload's checksum is known at its end: what kCopy and kReduce have written
// by then is undefined after an error.
//
// Between two reads the reader holds at most one incomplete unit: a part of a
// header, or a part of a number. The unit of a payload (a byte, or one number)
// is chosen when its header arrives. It does not change, even if
// DropReceiveTarget is called later.

#ifndef RINGLET_NET_WIRE_FRAME_READER_H_
#define RINGLET_NET_WIRE_FRAME_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "frame.h"
#include "ringlet/collective.h"

namespace ringlet {

// The destination of a payload.
struct ReceiveTarget {
  enum Mode : uint8_t {
    kBuffer,   // small: kept and handed to OnFrame
    kCopy,     // copies to data[0..payload_bytes)
    kReduce,   // added, as numbers, to those at data
    kDiscard,  // nowhere
  };
  Mode mode = kDiscard;
  // The type of the payload's numbers on the wire. The numbers at `data` are
  // floats.
  WireDtype dtype = WireDtype::kFloat32;
  bool integers = false;  // a kReduce adds int32 in place of floats
  uint8_t* data = nullptr;
};

class FrameReader {
 public:
  class Sink {
   public:
    // Called for a valid header. An error ends the stream. So does a payload of
    // more than kEagerBytes for kBuffer, and a payload with a part of a number
    // for kReduce.
    virtual Status OnHeader(const FrameHeader& header,
                            ReceiveTarget* receive_target) = 0;
    // The whole payload is where it should be and its checksum is right.
    // `payload` is null unless it was kept.
    virtual Status OnFrame(const FrameHeader& header,
                           const uint8_t* payload) = 0;

   protected:
    ~Sink() = default;
  };

  explicit FrameReader(Sink* sink) : sink_(sink) { Grow(kFirstBytes); }

  // The memory for the next bytes, to read them without a copy; never empty.
  // Pass the number of bytes that arrived there to Read before the next call.
  struct Space {
    uint8_t* data;
    size_t bytes;
  };
  Space NextSpace();
  // `bytes` have arrived in NextSpace(), and DropReceiveTarget was not called
  // since.
  Status Read(size_t bytes);
  // `data` may be shared memory that another process changes. Headers are
  // copied before they are checked; numbers are added directly from `data`.
  Status Read(const uint8_t* data, size_t bytes);
  // At the end of a frame: drops the bytes that have arrived after it. From now
  // on payloads have no checksum.
  void SkipChecksums() {
    drops_rest_ = true;
    checked_ = false;
  }

  // The payload under way no longer lands in its owner's memory, which may be
  // freed. A payload in a buffer still goes to OnFrame.
  void DropReceiveTarget() {
    if (receive_target_.mode != ReceiveTarget::kBuffer)
      receive_target_.mode = ReceiveTarget::kDiscard;
    space_ = {};
  }

 private:
  // The bytes of a read while the length of the next frame is not known.
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
  // The payload is copied as it is, so reads need no buffer.
  bool reads_into_target() const;
  Status ReadHeader(const uint8_t* data, size_t bytes, size_t* used);
  Status ReadPayload(const uint8_t* data, size_t bytes, size_t* used);
  // The payload is allowed for the receive target.
  bool Fits(uint32_t payload_bytes) const;
  size_t Fill(size_t unit, const uint8_t* data, size_t bytes);
  void Take(const uint8_t* data, size_t bytes);
  Status EndFrame();

  Sink* const sink_;
  FrameHeader header_;
  ReceiveTarget receive_target_;
  bool checked_ = true;  // payloads, by their checksums
  bool drops_rest_ = false;
  bool in_payload_ = false;
  // The bytes of a unit of the present payload: 1, or the size of a number.
  size_t unit_ = 1;
  uint32_t received_ = 0;  // bytes of the payload, without the incomplete unit
  uint32_t crc_ = 0;
  // The incomplete unit, of a header or a number. Always less than a unit.
  uint8_t part_[kFrameHeaderBytes];
  size_t part_bytes_ = 0;
  std::vector<uint8_t> kept_ = std::vector<uint8_t>(64);  // never empty
  Space space_ = {};  // the result of NextSpace, until the next Read
  // Grows from kFirstBytes to kBufferBytes while reads fill it: most links of a
  // large ring carry little more than heartbeats.
  size_t capacity_ = 0;
  bool filled_ = false;  // the last read filled the buffer
  std::unique_ptr<uint8_t[], FreeAligned> buffer_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_FRAME_READER_H_
