// Frames: the fixed header in front of everything one worker sends another.
//
// Little-endian, 56 bytes; the payload follows.
//
//   OFFSET SIZE
//    0      4   magic "RGLT"
//    4      1   version, kWireVersion
//    5      1   type, FrameType
//    6      2   root, of kBroadcast and its kReady; 0 elsewhere
//    8      4   payload length, at most MaxPayload(type)
//   12      4   generation of the ring; 0 before it has formed; in kHello and
//               kWelcome the proposed generation
//   16      8   training step, for messages
//   24      8   sequence: number of the operation, counted from 1; in kReject
//               the Code with which the refused worker must end, or 0 if it may
//               try again; in kHello and kWelcome the program's version, see
//               handshake.h
//   32      8   total: bytes of the whole operation, as its caller gave them;
//               for its use in kWelcome see handshake.h
//   40      2   source: the number of the sending worker
//   42      2   destination: the number of the receiving worker
//   44      4   chunk: counts the frames of one operation from source to
//               destination; in kReady the operation's type; in kHello and
//               kWelcome the kFeature... bits of the sender; 0 elsewhere
//   48      4   CRC32C of the payload; 0 in shared memory
//   52      4   CRC32C of bytes 0..51
//
// Magic and version keep their place in every future version.

#ifndef RINGLET_NET_WIRE_FRAME_H_
#define RINGLET_NET_WIRE_FRAME_H_

#include <cstddef>
#include <cstdint>

#include "../../core/base/byte_order.h"
#include "ringlet/status.h"

namespace ringlet {

constexpr uint32_t kWireMagic = 0x544C4752;    // "RGLT"
constexpr uint32_t kSealedMagic = 0x534C4752;  // "RGLS", in a job with a key
// The version of the frames, and of the values that the library's own
// operations gather in them.
constexpr uint8_t kWireVersion = 2;
constexpr size_t kFrameHeaderBytes = 56;
// The most payload bytes of a bulk frame.
constexpr uint32_t kSegmentBytes = 64 << 10;
// The most payload bytes of a frame that may arrive before its receiver is
// ready.
constexpr uint32_t kEagerBytes = 8 << 10;

// Values are part of the format.
enum class FrameType : uint8_t {
  kHello = 1,      // the first frame of the connecting side
  kWelcome = 2,    // the first frame of the listening side
  kReject = 3,     // instead of kWelcome: the reason, as text
  kHeartbeat = 4,  // the sender's activity, and the worker that it waits for
  kGoodbye = 5,    // the sender has finished; nothing follows
  kAbort = 6,      // the job has failed: code, worker and text
  kReady = 7,      // the sender has memory for the operation's data
  kWithdraw = 8,   // instead of kHello: why the sender cannot take part
  kFormationReport =
      9,         // large rings: how many ranks are known to be connected
  kShared = 10,  // later bytes are in the memory that both sides share
  kView = 11,    // elastic rings: the members of a view
  kDoctor = 12,  // between two `ringlet doctor`: see net/doctor/exchange.h
  kAllReduce = 16,
  kBroadcast = 17,
  kAllGather = 18,
  kBarrier = 19,
  kAllReduceInts = 20,
};

// Features. A kHello has the features that the sender can use, a kWelcome the
// features that both sides use from now on. Unknown bits are not examined.
constexpr uint32_t kFeatureShares = 1;  // shared memory, see shared_stream.h
// In a kHello to a higher rank: the sender only compares the two lists. If they
// are equal, the receiver closes the connection. Otherwise it sends a kReject.
constexpr uint32_t kFeatureProbes = 2;
// The sender is a `ringlet doctor`. A job answers its kHello as a probe.
constexpr uint32_t kFeatureDoctor = 4;

// A worker's number as payloads store it. A negative one is kNoWorker.
constexpr uint16_t kNoWorker = 0xffff;
inline uint16_t WorkerOnWire(int worker) {
  return worker < 0 ? kNoWorker : static_cast<uint16_t>(worker);
}

// True if `type` belongs to an operation. It may be any number.
inline bool IsOperation(uint32_t type) { return type >= 16 && type <= 20; }
inline bool IsOperation(FrameType type) {
  return IsOperation(static_cast<uint32_t>(type));
}
// The type's name in messages, such as "all-reduce".
const char* FrameTypeName(FrameType type);
uint32_t MaxPayload(FrameType type);

struct FrameHeader {
  FrameType type = FrameType::kHeartbeat;
  uint16_t root = 0;
  uint32_t payload_bytes = 0;
  uint32_t generation = 0;
  uint64_t step = 0;
  uint64_t sequence = 0;
  uint64_t total = 0;
  uint16_t source = 0;
  uint16_t destination = 0;
  uint32_t chunk = 0;
  uint32_t payload_crc = 0;
};

// For some types sequence, total and chunk have another meaning. The following
// functions return these fields.
//
// The type of the operation that a kReady belongs to; IsOperation(header.chunk)
// must be true. For any other frame its own type.
inline FrameType OperationOf(const FrameHeader& header) {
  return header.type == FrameType::kReady ? static_cast<FrameType>(header.chunk)
                                          : header.type;
}
// The kFeature... bits of a kHello or kWelcome, and its program's version.
inline uint32_t FeaturesOf(const FrameHeader& header) { return header.chunk; }
inline uint64_t ProgramVersionOf(const FrameHeader& header) {
  return header.sequence;
}
// In a kWelcome that answers a kWithdraw: bit w is set if worker w has been
// informed.
inline uint64_t InformedWorkersOf(const FrameHeader& header) {
  return header.total;
}
// In a kReject: the Code with which the refused worker must end, or 0 if it may
// try again.
inline uint64_t RefusalCodeOf(const FrameHeader& header) {
  return header.sequence;
}

void EncodeHeader(const FrameHeader& header, uint8_t* out);
// kCorruption names the wrong field: magic, checksum, type, root or length.
// kUnimplemented is a different version of the wire. If it returns OK,
// EncodeHeader makes the same bytes of the header.
Status DecodeHeader(const uint8_t* in, FrameHeader* header);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_FRAME_H_
