// Fuzz entry: any bytes as the stream of a peer. The first byte chooses:
// - even: the rest is the stream as it is;
// - odd: the rest is cut into frames with right checksums, so that the code
//   behind the checksums is reached;
// - from 128 on: long all-reduces travel in half precision.
//
// For any bytes nothing is written beyond the operations' vectors, and every
// error has a message.
//
// Each input is read in every way in which a stream delivers: into the reader's
// space (plain, relayed), from memory in records (sealed), and from shared
// memory. The operations may be dropped at any byte. For valid frames all ways
// give the same result.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/crc32c.h"
#include "net/collective/collective_schedule.h"
#include "net/membership/failure_detector.h"
#include "net/wire/formation_report.h"
#include "net/wire/frame.h"
#include "net/wire/frame_reader.h"
#include "net/wire/handshake.h"
#include "net/wire/view_frame.h"

namespace {

using namespace ringlet;  // NOLINT: a test program of its own

class NoWire final : public CollectiveSchedule::Wire {
 public:
  bool HasRoom(int) const override { return true; }
  void RequestRoomEvent(int) override {}
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

  // Drops the operations as a session does at a loss. Later no memory of a call
  // is used.
  void DropOperations() {
    dropped_ = true;
    schedule_.Clear();
    vectors_.clear();
  }
  // A checksum of the received data.
  uint32_t digest() const {
    uint32_t crc = digest_;
    for (const auto& v : vectors_) crc = Crc32c(v.data(), v.size(), crc);
    return crc;
  }

  Status OnHeader(const FrameHeader& header,
                  ReceiveTarget* receive_target) override {
    uint8_t bytes[kFrameHeaderBytes];
    FrameHeader again;
    EncodeHeader(header, bytes);
    RINGLET_CHECK(DecodeHeader(bytes, &again).ok());
    if (IsOperation(header.type) || header.type == FrameType::kReady) {
      receive_target->mode = ReceiveTarget::kDiscard;
      if (dropped_) return Status();
      return schedule_.OnHeader(header.source % 2 * 2, header, receive_target);
    }
    receive_target->mode = ReceiveTarget::kBuffer;
    return Status();
  }

  Status OnFrame(const FrameHeader& header, const uint8_t* payload) override {
    const size_t bytes = header.payload_bytes;
    digest_ = Crc32c(&header.type, sizeof(header.type), digest_);
    if (payload != nullptr) digest_ = Crc32c(payload, bytes, digest_);
    if (IsOperation(header.type) || header.type == FrameType::kReady) {
      if (dropped_) return Status();
      RINGLET_RETURN_IF_ERROR(
          schedule_.OnFrame(header.source % 2 * 2, header, payload));
      return schedule_.Progress();
    }
    if (header.type == FrameType::kHeartbeat) {
      Activity activity;
      ChainEnd end;
      return DecodeHeartbeat(header, payload, 3, &activity, &end);
    }
    if (header.type == FrameType::kFormationReport) {
      FormationReport report;
      RINGLET_RETURN_IF_ERROR(
          DecodeFormationReport(payload, bytes, 3, 1, &report));
      RINGLET_CHECK(EncodeFormationReport(report).size() <= bytes);
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
  bool dropped_ = false;
  uint32_t digest_ = 0;  // a digest of the frames
  NoWire wire_;
  std::vector<std::vector<uint8_t>> vectors_;
  CollectiveSchedule schedule_;
};

enum class Stream { kPlain, kSealed, kShared };

// The most that a stream delivers in one piece.
size_t MostOf(Stream stream) {
  return stream == Stream::kSealed ? size_t{16384} : size_t{kSegmentBytes};
}

// Input is an end of a connection: a reader, and the current operations.
class Input {
 public:
  Input(Stream stream, WireDtype dtype)
      : stream_(stream), receiver_(dtype), reader_(&receiver_) {
    if (!checked()) reader_.SkipChecksums();
  }

  bool checked() const { return stream_ == Stream::kPlain; }
  void Drop() {
    reader_.DropReceiveTarget();
    receiver_.DropOperations();
  }
  Status Feed(const uint8_t* data, size_t bytes) {
    while (bytes > 0) {
      const size_t n = std::min(bytes, MostOf(stream_));
      RINGLET_RETURN_IF_ERROR(checked() ? FeedSpace(data, n)
                                        : FeedMemory(data, n));
      data += n;
      bytes -= n;
    }
    return Status();
  }
  uint32_t digest() const { return receiver_.digest(); }

 private:
  Status FeedSpace(const uint8_t* data, size_t bytes) {
    while (bytes > 0) {
      const FrameReader::Space space = reader_.NextSpace();
      RINGLET_CHECK(space.bytes > 0);
      const size_t n = std::min(bytes, space.bytes);
      std::memcpy(space.data, data, n);
      RINGLET_RETURN_IF_ERROR(reader_.Read(n));
      data += n;
      bytes -= n;
    }
    return Status();
  }
  // Feeds from memory of exactly `bytes`, which is freed after the call.
  Status FeedMemory(const uint8_t* data, size_t bytes) {
    const std::unique_ptr<uint8_t[]> record(new uint8_t[bytes]);
    std::memcpy(record.get(), data, bytes);
    return reader_.Read(record.get(), bytes);
  }

  const Stream stream_;
  Receiver receiver_;
  FrameReader reader_;
};

// A frame from a record of 16 bytes; its payload repeats the last of them.
std::vector<uint8_t> FrameFrom(const uint8_t* record, bool checked) {
  FrameHeader header;
  header.type = static_cast<FrameType>(record[0]);
  header.source = record[1];
  header.root = record[2];
  header.sequence = record[3];
  header.chunk = record[4];
  header.total = LoadLittle<uint32_t>(record + 5);
  header.payload_bytes = LoadLittle<uint32_t>(record + 9) & 0x1ffff;
  std::vector<uint8_t> payload(header.payload_bytes, record[15]);
  const size_t head = std::min<size_t>(payload.size(), 3);
  std::copy(record + 13, record + 13 + head, payload.begin());
  if (checked) header.payload_crc = Crc32c(payload.data(), payload.size());
  std::vector<uint8_t> frame(kFrameHeaderBytes);
  EncodeHeader(header, frame.data());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

// Feeds the frame of a record. The high bits of the record's length give the
// place where the stream cuts the frame, and whether operations are dropped
// there.
Status FeedRecord(Input* input, const uint8_t* record) {
  const std::vector<uint8_t> frame = FrameFrom(record, input->checked());
  const uint32_t high = LoadLittle<uint32_t>(record + 9) >> 17;
  const size_t cut = (high & 0x3fff) % (frame.size() + 1);
  RINGLET_RETURN_IF_ERROR(input->Feed(frame.data(), cut));
  if (high >> 14 != 0) input->Drop();
  return input->Feed(frame.data() + cut, frame.size() - cut);
}

Status FeedAll(Input* input, const uint8_t* data, size_t size) {
  Status status;
  if (data[0] % 2 != 0) {
    for (size_t at = 1; at + 16 <= size && status.ok(); at += 16) {
      status = FeedRecord(input, data + at);
    }
    return status;
  }
  // Feeds the input unchanged, and may drop the operations in its middle.
  const bool drops = data[0] % 4 != 0;
  const size_t half = 1 + (size - 1) / 2;
  RINGLET_RETURN_IF_ERROR(input->Feed(data + 1, half - 1));
  if (drops) input->Drop();
  return input->Feed(data + half, size - half);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  // Mostly float32, as in a corpus from before the other types.
  const WireDtype dtype = data[0] < 128   ? WireDtype::kFloat32
                          : data[0] < 192 ? WireDtype::kBfloat16
                                          : WireDtype::kFloat16;
  Status first;
  uint32_t digest = 0;
  for (const Stream stream :
       {Stream::kPlain, Stream::kSealed, Stream::kShared}) {
    Input input(stream, dtype);
    const Status status = FeedAll(&input, data, size);
    RINGLET_CHECK(status.ok() || *status.message() != '\0');
    if (stream == Stream::kPlain) {
      first = status;
      digest = input.digest();
    } else if (data[0] % 2 != 0) {
      RINGLET_CHECK(status.code() == first.code());
      RINGLET_CHECK(input.digest() == digest);
    }
  }
  return 0;
}
