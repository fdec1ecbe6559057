// Fuzz entry: any bytes as what a peer sends. The first byte chooses: even, the
// rest is the stream as it is; odd, the rest is cut into frames with right
// checksums, so that what is behind them is reached; from 128 on, long
// all-reduces travel in half precision. Whatever comes, nothing is
// written beyond the operations' vectors, and no error is without a message.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/base/check.h"
#include "core/base/crc32c.h"
#include "net/ring/collective_schedule.h"
#include "net/ring/failure_detector.h"
#include "net/wire/frame.h"
#include "net/wire/frame_reader.h"
#include "net/wire/handshake.h"
#include "net/wire/met.h"
#include "net/wire/view.h"

namespace {

using namespace ringlet;  // NOLINT: a test program of its own

class NoWire final : public CollectiveSchedule::Wire {
 public:
  bool HasRoom(int) const override { return true; }
  void AwaitRoom(int) override {}
  void Send(int, const FrameHeader&, const uint8_t*, bool) override {}
};

// Rank 1 of 3, with operations of every kind under way.
class Receiver final : public FrameReader::Sink {
 public:
  explicit Receiver(WireDtype dtype)
      : schedule_(1, 3, Algorithm::kAuto, dtype, &wire_) {
    const uint64_t sizes[] = {40, 100000, 80000, 0, 9000, 70001, 12};
    const FrameType types[] = {FrameType::kAllReduce,     FrameType::kAllReduce,
                               FrameType::kAllReduceInts, FrameType::kBarrier,
                               FrameType::kAllGather,     FrameType::kBroadcast,
                               FrameType::kAllGather};
    for (int i = 0; i < 7; ++i) {
      const bool gathers = types[i] == FrameType::kAllGather;
      vectors_.emplace_back(sizes[i] * (gathers ? 3 : 1));
      schedule_.Start({types[i], vectors_.back().data(), sizes[i], 0});
    }
    RINGLET_CHECK(schedule_.Progress().ok());
  }

  Status OnHeader(const FrameHeader& header, Landing* landing) override {
    uint8_t bytes[kFrameHeaderBytes];
    FrameHeader again;
    EncodeHeader(header, bytes);
    RINGLET_CHECK(DecodeHeader(bytes, &again).ok());
    if (IsData(header.type) || header.type == FrameType::kReady) {
      return schedule_.OnHeader(header.source % 2 * 2, header, landing);
    }
    landing->mode = Landing::kKeep;
    return Status();
  }

  Status OnFrame(const FrameHeader& header, const uint8_t* payload) override {
    const size_t bytes = header.payload_bytes;
    if (IsData(header.type) || header.type == FrameType::kReady) {
      RINGLET_RETURN_IF_ERROR(
          schedule_.OnFrame(header.source % 2 * 2, header, payload));
      return schedule_.Progress();
    }
    if (header.type == FrameType::kHeartbeat) {
      Activity activity;
      ChainEnd end;
      return DecodeHeartbeat(header, payload, 3, &activity, &end);
    }
    if (header.type == FrameType::kMet) {
      Met met;
      RINGLET_RETURN_IF_ERROR(DecodeMet(payload, bytes, 3, 1, &met));
      RINGLET_CHECK(EncodeMet(met).size() <= bytes);
      return Status();
    }
    if (header.type == FrameType::kView) {
      ViewFrame view;
      uint8_t again[kViewBytes];
      const int workers = bytes == kViewBytes ? 64 : 3;
      RINGLET_RETURN_IF_ERROR(DecodeView(payload, bytes, workers, 1, &view));
      EncodeView(view, again);
      RINGLET_CHECK(std::memcmp(again, payload, bytes) == 0);
      return Status();
    }
    Identity identity;
    RINGLET_RETURN_IF_ERROR(DecodeIdentity(payload, bytes, &identity));
    const std::vector<uint8_t> again = EncodeIdentity(identity);
    RINGLET_CHECK(again == std::vector<uint8_t>(payload, payload + bytes));
    return CheckPeer(Identity(), identity, -1);
  }

 private:
  NoWire wire_;
  std::vector<std::vector<uint8_t>> vectors_;
  CollectiveSchedule schedule_;
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

// A frame from a record of 16 bytes; its payload repeats the last of them.
std::vector<uint8_t> FrameFrom(const uint8_t* record) {
  FrameHeader header;
  header.type = static_cast<FrameType>(record[0]);
  header.source = record[1];
  header.flags = record[2];
  header.sequence = record[3];
  header.chunk = record[4];
  header.total = LoadLittle<uint32_t>(record + 5);
  header.payload_bytes = LoadLittle<uint32_t>(record + 9) & 0x1ffff;
  std::vector<uint8_t> payload(header.payload_bytes, record[15]);
  const size_t head = std::min<size_t>(payload.size(), 3);
  std::copy(record + 13, record + 13 + head, payload.begin());
  header.payload_crc = Crc32c(payload.data(), payload.size());
  std::vector<uint8_t> frame(kFrameHeaderBytes);
  EncodeHeader(header, frame.data());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  // Mostly float32, as a corpus from before the others has it.
  Receiver receiver(data[0] < 128   ? WireDtype::kFloat32
                    : data[0] < 192 ? WireDtype::kBfloat16
                                    : WireDtype::kFloat16);
  FrameReader reader(&receiver);
  Status status;
  if (data[0] % 2 == 0) {
    status = data[0] % 4 == 0 ? Feed(&reader, data + 1, size - 1)
                              : reader.Read(data + 1, size - 1);
  } else {
    for (size_t at = 1; at + 16 <= size && status.ok(); at += 16) {
      const std::vector<uint8_t> frame = FrameFrom(data + at);
      status = Feed(&reader, frame.data(), frame.size());
    }
  }
  RINGLET_CHECK(status.ok() || *status.message() != '\0');
  return 0;
}
