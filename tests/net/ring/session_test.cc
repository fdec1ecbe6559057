// One session against a peer of bytes: what a test says, frame by frame.

#include "net/ring/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/base/crc32c.h"

namespace ringlet {
namespace {

constexpr int64_t kSecond = 1000000000;

// Takes what is written, unless it is full, and keeps the last of it.
class Stream final : public ByteStream {
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
    return static_cast<int64_t>(written.size());
  }
  bool blocked() const override { return blocked_; }
  void StopReading() override {}
  void Close() override { closed = true; }
  bool is_local() const override { return false; }
  const std::string& remote() const override { return remote_; }
  const sockaddr_storage& remote_address() const override { return address_; }

  Owner* owner = nullptr;
  bool full = false;
  bool closed = false;
  std::vector<uint8_t> written;

 private:
  bool blocked_ = false;
  const std::string remote_ = "10.0.0.2:1234";
  sockaddr_storage address_ = {};
};

// Rank 0; rank 1 has greeted it.
class SessionTest : public testing::Test,
                    public Transport,
                    public Session::Owner {
 protected:
  explicit SessionTest(int size = 2)
      : options_(OptionsOf(size)), session_(options_, 1, 42, this, this, now_) {
    session_.Begin(now_);
    Greet(&stream_, 43);
  }

  static RingOptions OptionsOf(int size) {
    RingOptions options;
    for (int r = 1; r <= size; ++r) {
      options.addresses.push_back("10.0.0." + std::to_string(r) + ":1");
    }
    options.timeout_seconds = 1;
    return options;
  }

  Identity Rank1(uint64_t incarnation) const {
    Identity peer;
    peer.job = options_.job;
    peer.rank = 1;
    peer.size = static_cast<int>(options_.addresses.size());
    peer.incarnation = incarnation;
    peer.cluster_hash = ClusterHash(options_.addresses);
    peer.timeout_ms = 1000;
    peer.bytes_per_pack = static_cast<uint64_t>(options_.bytes_per_pack);
    return peer;
  }

  // A worker of rank 1 comes by this stream.
  void Greet(Stream* stream, uint64_t incarnation) {
    session_.OnAccepted(StreamPtr(stream), now_);
    Hear(stream, FrameType::kHello, 0, 1, EncodeIdentity(Rank1(incarnation)));
  }

  // A frame comes from rank 1.
  void Hear(FrameType type, uint64_t sequence, uint32_t generation = 1,
            const std::vector<uint8_t>& payload = {}) {
    Hear(&stream_, type, sequence, generation, payload);
  }
  void Hear(Stream* stream, FrameType type, uint64_t sequence,
            uint32_t generation, const std::vector<uint8_t>& payload) {
    FrameHeader header;
    header.type = type;
    header.sequence = sequence;
    header.generation = generation;
    header.source = 1;
    header.payload_bytes = static_cast<uint32_t>(payload.size());
    header.payload_crc = Crc32c(payload.data(), payload.size());
    std::vector<uint8_t> frame(kFrameHeaderBytes);
    EncodeHeader(header, frame.data());
    frame.insert(frame.end(), payload.begin(), payload.end());
    for (size_t at = 0; at < frame.size();) {
      const ByteStream::Space space = stream->owner->NextSpace();
      const size_t n = std::min(space.bytes, frame.size() - at);
      std::memcpy(space.data, frame.data() + at, n);
      stream->owner->OnRead(n, now_);
      at += n;
    }
  }
  void StartBarrier() {
    const Call barrier;
    session_.Start(&barrier, 1, now_);
  }
  // Another worker of rank 1 comes; whether it is told to try no more.
  bool RefusesForGood() {
    Stream rival;
    Greet(&rival, 44);
    FrameHeader answer;
    EXPECT_TRUE(DecodeHeader(rival.written.data(), &answer).ok());
    EXPECT_EQ(answer.type, FrameType::kReject);
    EXPECT_TRUE(rival.closed);
    return answer.sequence != 0;
  }
  // A heartbeat waits for the stream from now on.
  void BeatInVain() {
    stream_.full = true;
    now_ += kSecond / 2;
    Hear(FrameType::kHeartbeat, 1, 1, {4, 0, 0xff, 0xff});
    session_.Tick(now_);
  }

  Status Listen() override { return Status(); }
  void StopListening() override {}
  Status Resolve(int, bool* done, std::vector<Endpoint>*) override {
    *done = true;
    return Error(Code::kNotFound, "nobody");
  }
  Status Connect(const Endpoint&, StreamPtr*) override {
    return Error(Code::kUnavailable, "nobody");
  }
  void TickEvery(int64_t) override {}
  void AwaitTurn() override {}
  void OnLeft() override { left_ = true; }
  void OnRunning() override { running_ = true; }
  void OnCompleted(uint64_t sequence) override { completed_ = sequence; }
  void OnFailed(const Status& status) override { failure_ = status; }
  void OnTold() override {}
  void OnNotice(const std::string&) override {}

  int64_t now_ = 5 * kSecond;
  bool running_ = false;
  bool left_ = false;
  uint64_t completed_ = 0;
  Status failure_;
  Stream stream_;
  Stream back_;
  const RingOptions options_;
  Session session_;
};

// Rank 2 has not come yet.
class FormingSessionTest : public SessionTest {
 protected:
  FormingSessionTest() : SessionTest(3) {}
};

TEST_F(SessionTest, FramesOfAnotherGenerationAreDropped) {
  ASSERT_TRUE(running_);
  StartBarrier();
  Hear(FrameType::kBarrier, 1, 7);
  EXPECT_EQ(completed_, 0u);
  Hear(FrameType::kBarrier, 1, 0);  // of none: it is an operation
  EXPECT_EQ(completed_, 0u);
  Hear(FrameType::kBarrier, 1, 1);
  EXPECT_EQ(completed_, 1u);
  EXPECT_TRUE(failure_.ok());
}

TEST_F(SessionTest, AGoodbyeAfterTheLastOperationIsNoLoss) {
  StartBarrier();
  Hear(FrameType::kBarrier, 1);
  BeatInVain();
  Hear(FrameType::kGoodbye, 1);
  EXPECT_TRUE(failure_.ok()) << failure_.message();
  session_.Leave(now_);
  EXPECT_TRUE(left_);
  EXPECT_TRUE(stream_.closed);
}

TEST_F(SessionTest, AGoodbyeAmidAnOperationIsALoss) {
  StartBarrier();
  Hear(FrameType::kBarrier, 1);
  stream_.full = true;
  StartBarrier();
  Hear(FrameType::kGoodbye, 1);
  EXPECT_EQ(failure_.code(), Code::kPeerLost);
  EXPECT_EQ(failure_.rank(), 1);
}

TEST_F(SessionTest, SilenceIsALoss) {
  StartBarrier();
  for (int i = 0; i < 10 && failure_.ok(); ++i) {
    now_ += kSecond / 8;
    session_.Tick(now_);
  }
  EXPECT_EQ(failure_.code(), Code::kPeerLost);
  EXPECT_EQ(failure_.rank(), 1);
}

TEST_F(SessionTest, TwoOfOneRankAreTwoWhereBothAreHeard) {
  EXPECT_FALSE(RefusesForGood());
  now_ += 3 * kSecond;
  Hear(FrameType::kHeartbeat, 1, 1, {4, 0, 0xff, 0xff});
  EXPECT_TRUE(RefusesForGood());
}

// It stood still itself for that time, and has not missed the first yet.
TEST_F(SessionTest, OneThatCameBackIsNotRefusedForGood) {
  EXPECT_FALSE(RefusesForGood());
  now_ += 3 * kSecond;
  EXPECT_FALSE(RefusesForGood());
}

// It was refused, took the place once the first was gone, and connects anew
// where only its own end knows that the connection is broken.
TEST_F(FormingSessionTest, OneThatLostItsConnectionIsNotRefusedForGood) {
  EXPECT_FALSE(RefusesForGood());
  stream_.owner->OnEnded(Cause::kExited, Error(Code::kIo, "closed"), now_);
  Greet(&back_, 44);
  ASSERT_FALSE(back_.closed);
  now_ += 3 * kSecond;
  Hear(&back_, FrameType::kHeartbeat, 1, 0, {4, 0, 0xff, 0xff});
  EXPECT_FALSE(RefusesForGood());
}

}  // namespace
}  // namespace ringlet
