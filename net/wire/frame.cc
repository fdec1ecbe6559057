// A change of the layout needs a new kWireVersion, docs/wire_format.md and
// tests/net/wire. A new type needs its name, its largest payload, and
// MayHaveRoot if it has a root. The header's checksum is compared before any
// field but magic and version is used.

#include "frame.h"

#include "../../core/base/crc32c.h"
#include "../../core/base/named.h"
#include "other_protocol.h"
#include "view_frame.h"

namespace ringlet {

constexpr Named<FrameType> kFrameTypes[] = {
    {"hello", FrameType::kHello},
    {"welcome", FrameType::kWelcome},
    {"reject", FrameType::kReject},
    {"heartbeat", FrameType::kHeartbeat},
    {"goodbye", FrameType::kGoodbye},
    {"abort", FrameType::kAbort},
    {"ready", FrameType::kReady},
    {"withdraw", FrameType::kWithdraw},
    {"formation report", FrameType::kFormationReport},
    {"shared", FrameType::kShared},
    {"view", FrameType::kView},
    {"doctor", FrameType::kDoctor},
    {"all-reduce", FrameType::kAllReduce},
    {"broadcast", FrameType::kBroadcast},
    {"all-gather", FrameType::kAllGather},
    {"barrier", FrameType::kBarrier},
    {"all-reduce of integers", FrameType::kAllReduceInts},
};

const char* FrameTypeName(FrameType type) { return NameIn(kFrameTypes, type); }

namespace {

bool IsKnown(uint8_t type) {
  return (type >= 1 && type <= 12) || IsOperation(uint32_t{type});
}

// True if a frame of this type may have a root.
bool MayHaveRoot(FrameType type) {
  return type == FrameType::kBroadcast || type == FrameType::kReady;
}

}  // namespace

uint32_t MaxPayload(FrameType type) {
  switch (type) {
    case FrameType::kHello:
    case FrameType::kWelcome:
    case FrameType::kReject:
    case FrameType::kAbort:
    case FrameType::kWithdraw:
    case FrameType::kFormationReport:
      return 512;
    case FrameType::kView:
      return kViewBytes;
    case FrameType::kHeartbeat:
      return 40;
    case FrameType::kReady:
    case FrameType::kShared:
    case FrameType::kGoodbye:
    case FrameType::kBarrier:
      return 0;
    case FrameType::kAllReduce:
    case FrameType::kAllReduceInts:
    case FrameType::kBroadcast:
    case FrameType::kAllGather:
    case FrameType::kDoctor:
      return kSegmentBytes;
  }
  return 0;
}

void EncodeHeader(const FrameHeader& header, uint8_t* out) {
  StoreLittle(kWireMagic, out);
  out[4] = kWireVersion;
  out[5] = static_cast<uint8_t>(header.type);
  StoreLittle(header.root, out + 6);
  StoreLittle(header.payload_bytes, out + 8);
  StoreLittle(header.generation, out + 12);
  StoreLittle(header.step, out + 16);
  StoreLittle(header.sequence, out + 24);
  StoreLittle(header.total, out + 32);
  StoreLittle(header.source, out + 40);
  StoreLittle(header.destination, out + 42);
  StoreLittle(header.chunk, out + 44);
  StoreLittle(header.payload_crc, out + 48);
  StoreLittle(Crc32c(out, 52), out + 52);
}

Status DecodeHeader(const uint8_t* in, FrameHeader* header) {
  if (LoadLittle<uint32_t>(in) == kSealedMagic) {
    return Error(Code::kUnavailable, "it has a key, and this worker has none");
  }
  if (LoadLittle<uint32_t>(in) != kWireMagic) {
    return Corruption("not a ringlet frame (it starts %02x %02x %02x %02x)%s",
                      in[0], in[1], in[2], in[3], OtherProtocol(in));
  }
  if (in[4] != kWireVersion) {
    return Error(Code::kUnimplemented,
                 "wire version %d, this worker uses %d: run the same version "
                 "of ringlet on every worker",
                 in[4], kWireVersion);
  }
  if (LoadLittle<uint32_t>(in + 52) != Crc32c(in, 52)) {
    return Corruption("the checksum of a frame's header is wrong");
  }
  if (!IsKnown(in[5])) return Corruption("unknown frame type %d", in[5]);
  FrameHeader h;
  h.type = static_cast<FrameType>(in[5]);
  h.root = LoadLittle<uint16_t>(in + 6);
  h.payload_bytes = LoadLittle<uint32_t>(in + 8);
  h.generation = LoadLittle<uint32_t>(in + 12);
  h.step = LoadLittle<uint64_t>(in + 16);
  h.sequence = LoadLittle<uint64_t>(in + 24);
  h.total = LoadLittle<uint64_t>(in + 32);
  h.source = LoadLittle<uint16_t>(in + 40);
  h.destination = LoadLittle<uint16_t>(in + 42);
  h.chunk = LoadLittle<uint32_t>(in + 44);
  h.payload_crc = LoadLittle<uint32_t>(in + 48);
  if (h.root != 0 && !MayHaveRoot(h.type)) {
    return Corruption("a %s frame with root %d, must be 0",
                      FrameTypeName(h.type), h.root);
  }
  if (h.payload_bytes > MaxPayload(h.type)) {
    return Corruption("a %s frame of %lu bytes, at most %lu are allowed",
                      FrameTypeName(h.type),
                      static_cast<unsigned long>(h.payload_bytes),
                      static_cast<unsigned long>(MaxPayload(h.type)));
  }
  *header = h;
  return Status();
}

}  // namespace ringlet
