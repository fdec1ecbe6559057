// Fuzz entry: any bytes as the greeting of a stranger. The first byte chooses:
// - bit 0: the side that reads (0 listens, 1 connects);
// - bit 1: 0 the rest is the stream as it is; 1 it is a type and the payload of
//   one frame. The frame gets right checksums, so that the code behind them is
//   reached.
//
// For any bytes: before the handshake only a greeting is accepted, of at most
// 512 bytes. Only a greeting of this job links the two. Every refusal has a
// message of printable text.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/crc32c.h"
#include "net/wire/frame.h"
#include "net/wire/frame_reader.h"
#include "net/wire/handshake.h"

namespace {

using namespace ringlet;  // NOLINT: a test program of its own

// Worker 1 of three. It listens to worker 2 and connects to worker 0.
Identity Self() {
  Identity self;
  self.job = "ringlet";
  self.worker = 1;
  self.size = 3;
  self.cluster_hash = 0x3837363534333231;
  self.timeout_ms = 5000;
  self.bytes_per_pack = 1 << 20;
  self.byte_order = 1;
  return self;
}

class Side final : public FrameReader::Sink {
 public:
  explicit Side(bool connects)
      : phase_(connects ? LinkPhase::kAwaitWelcome : LinkPhase::kAwaitHello),
        expected_worker_(connects ? 0 : -1) {}

  Status OnHeader(const FrameHeader& header,
                  ReceiveTarget* receive_target) override {
    if (!FrameIsLegal(phase_, header.type)) {
      return Corruption("a %s frame out of turn", FrameTypeName(header.type));
    }
    RINGLET_CHECK(header.payload_bytes <= 512 || phase_ == LinkPhase::kUp);
    receive_target->mode = phase_ == LinkPhase::kUp ? ReceiveTarget::kDiscard
                                                    : ReceiveTarget::kBuffer;
    return Status();
  }

  Status OnFrame(const FrameHeader& header, const uint8_t* payload) override {
    if (phase_ == LinkPhase::kUp) return Status();
    const size_t bytes = header.payload_bytes;
    if (header.type == FrameType::kReject) {
      return Error(Code::kUnavailable, "it refused this worker: %s",
                   PrintableAscii(payload, bytes).c_str());
    }
    if (header.type == FrameType::kWithdraw) {
      Withdraw withdraw;
      RINGLET_RETURN_IF_ERROR(DecodeWithdraw(payload, bytes, &withdraw));
      RINGLET_CHECK(EncodeWithdraw(withdraw).size() <= 512);
      return withdraw.reason;
    }
    Identity peer;
    RINGLET_RETURN_IF_ERROR(DecodeIdentity(payload, bytes, &peer));
    const std::vector<uint8_t> again = EncodeIdentity(peer);
    RINGLET_CHECK(again == std::vector<uint8_t>(payload, payload + bytes));
    const Identity self = Self();
    RINGLET_RETURN_IF_ERROR(CheckPeer(self, peer, expected_worker_));
    Identity twin = self;
    twin.worker = expected_worker_ < 0 ? 2 : expected_worker_;
    twin.incarnation = peer.incarnation;
    RINGLET_CHECK(again == EncodeIdentity(twin));
    phase_ = LinkPhase::kUp;
    return Status();
  }

 private:
  LinkPhase phase_;
  const int expected_worker_;
};

Status Feed(FrameReader* reader, const uint8_t* data, size_t bytes) {
  while (bytes > 0) {
    const FrameReader::Space space = reader->NextSpace();
    RINGLET_CHECK(space.bytes > 0);
    const size_t n = std::min(bytes, space.bytes);
    std::memcpy(space.data, data, n);
    RINGLET_RETURN_IF_ERROR(reader->Read(n));
    data += n;
    bytes -= n;
  }
  return Status();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  Side side((data[0] & 1) != 0);
  FrameReader reader(&side);
  Status status;
  if ((data[0] & 2) == 0) {
    status = Feed(&reader, data + 1, size - 1);
  } else {
    FrameHeader header;
    header.type = static_cast<FrameType>(data[1]);
    header.payload_bytes = static_cast<uint32_t>(size - 2);
    header.payload_crc = Crc32c(data + 2, size - 2);
    std::vector<uint8_t> frame(kFrameHeaderBytes);
    EncodeHeader(header, frame.data());
    frame.insert(frame.end(), data + 2, data + size);
    status = Feed(&reader, frame.data(), frame.size());
  }
  if (status.ok()) return 0;
  const std::string message = status.message();
  for (const char c : message) RINGLET_CHECK(c >= 0x20 && c < 0x7f);
  return 0;
}
