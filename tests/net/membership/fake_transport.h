// A session's transport and owner without a network. A test delivers each frame
// to a FakeStream, which records what the session writes.

#ifndef RINGLET_TESTS_NET_MEMBERSHIP_FAKE_TRANSPORT_H_
#define RINGLET_TESTS_NET_MEMBERSHIP_FAKE_TRANSPORT_H_

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/base/crc32c.h"
#include "core/base/time_units.h"
#include "net/membership/session.h"
#include "net/wire/abort.h"

namespace ringlet {

// Records the last written frame and the last abort frame. With `full` it
// accepts nothing.
class FakeStream final : public ByteStream {
 public:
  void Start(Owner* to) override { owner = to; }
  bool open() const override { return true; }
  int64_t Write(const Piece* pieces, int count) override {
    blocked_ = full;
    written.clear();
    for (int i = 0; i < count && !full; ++i) {
      written.insert(written.end(), pieces[i].data,
                     pieces[i].data + pieces[i].bytes);
    }
    FrameHeader header;
    if (!full && DecodeHeader(written.data(), &header).ok() &&
        header.type == FrameType::kAbort) {
      abort = written;
    }
    return static_cast<int64_t>(written.size());
  }
  bool blocked() const override { return blocked_; }
  void StopReading() override {}
  void Close() override { closed = true; }
  bool authentic() const override { return false; }
  SharedMemory* shared_memory() override { return nullptr; }
  DescriptorSocket* descriptors() override { return nullptr; }
  bool is_local() const override { return false; }
  const std::string& remote() const override { return remote_; }
  const sockaddr_storage& remote_address() const override { return address_; }

  Owner* owner = nullptr;
  bool full = false;
  bool closed = false;
  std::vector<uint8_t> written;
  std::vector<uint8_t> abort;

 private:
  bool blocked_ = false;
  const std::string remote_ = "10.0.0.2:1234";
  sockaddr_storage address_ = {};
};

// The payload of a heartbeat of a worker that computes, and waits for no other.
inline const std::vector<uint8_t> kComputes = {
    static_cast<uint8_t>(FrameType::kHeartbeat), 0, 0xff, 0xff};
// The payload of a heartbeat of a worker that waits for worker 1.
inline const std::vector<uint8_t> kWaitsForWorker1 = {
    static_cast<uint8_t>(FrameType::kHeartbeat), 0, 1, 0};

// The payload of an abort: worker 2 was lost. `ended` is true if its process
// has ended.
inline std::vector<uint8_t> LossOfWorker2(bool ended) {
  AbortNotice notice;
  notice.code = Code::kPeerLost;
  notice.worker = 2;
  notice.ended = ended;
  return EncodeAbort(notice);
}

inline std::vector<uint8_t> MakeFrame(int from, FrameType type,
                                      uint64_t sequence, uint32_t generation,
                                      const std::vector<uint8_t>& payload,
                                      uint16_t to) {
  FrameHeader header;
  header.type = type;
  header.sequence = sequence;
  header.generation = generation;
  header.source = static_cast<uint16_t>(from);
  header.destination = to;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.payload_crc = Crc32c(payload.data(), payload.size());
  std::vector<uint8_t> frame(kFrameHeaderBytes);
  EncodeHeader(header, frame.data());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

// Delivers bytes to the stream's owner.
inline void Deliver(FakeStream* stream, const uint8_t* data, size_t bytes,
                    int64_t now) {
  while (bytes > 0) {
    const ByteStream::Space space = stream->owner->NextSpace();
    const size_t n = std::min(space.bytes, bytes);
    std::memcpy(space.data, data, n);
    stream->owner->OnRead(n, now);
    data += n;
    bytes -= n;
  }
}

// Delivers a frame from rank `from`.
inline void Deliver(FakeStream* stream, int from, FrameType type,
                    uint64_t sequence, uint32_t generation,
                    const std::vector<uint8_t>& payload, int64_t now,
                    uint16_t to = 0) {
  const std::vector<uint8_t> frame =
      MakeFrame(from, type, sequence, generation, payload, to);
  Deliver(stream, frame.data(), frame.size(), now);
}

// A transport on which no peer can be reached, and the owner of a session. It
// records the session's events.
class FakeTransport : public Transport, public Session::Owner {
 protected:
  Status Listen() override { return Status(); }
  void StopListening() override {}
  Status Resolve(int, bool* done, std::vector<Endpoint>*) override {
    *done = true;
    return Error(Code::kNotFound, "nobody");
  }
  Status Connect(int, const Endpoint&, StreamPtr*) override {
    return Error(Code::kUnavailable, "nobody");
  }
  void TickEvery(int64_t) override {}
  void RequestTurn() override {}
  void OnLeft() override { left_ = true; }
  void OnRunning() override { running_ = true; }
  void OnCompleted(uint64_t sequence) override { completed_ = sequence; }
  void OnFailed(const Status& status) override { failure_ = status; }
  void OnDelivered() override { delivered_ = true; }
  void OnJoiner(bool has_joiner) override { has_joiner_ = has_joiner; }
  void OnNotice(const std::string& line) override { notice_ = line; }
  void OnEvent(const Event& event) override { events_ += event.fields() + ";"; }
  void OnLongWait(const LongWait& wait) override { waits_.push_back(wait); }

  int64_t now_ = 5 * kSecond;
  bool running_ = false;
  bool delivered_ = false;
  bool left_ = false;
  bool has_joiner_ = false;
  uint64_t completed_ = 0;
  Status failure_;
  std::string notice_;
  std::string events_;
  std::vector<LongWait> waits_;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_MEMBERSHIP_FAKE_TRANSPORT_H_
