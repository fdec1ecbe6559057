// One session against a simulated peer. The test writes its bytes frame by
// frame.

#include "net/membership/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/worker_set.h"
#include "core/base/crc32c.h"
#include "net/collective/topology.h"
#include "net/wire/abort.h"
#include "net/wire/view_frame.h"

namespace ringlet {
namespace {

constexpr int64_t kSecond = 1000000000;

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
const std::vector<uint8_t> kComputes = {
    static_cast<uint8_t>(FrameType::kHeartbeat), 0, 0xff, 0xff};
// The payload of a heartbeat of a worker that waits for worker 1.
const std::vector<uint8_t> kWaitsForWorker1 = {
    static_cast<uint8_t>(FrameType::kHeartbeat), 0, 1, 0};

// The payload of an abort: worker 2 was lost. `ended`: its process has ended.
std::vector<uint8_t> LossOfWorker2(bool ended) {
  AbortNotice notice;
  notice.code = Code::kPeerLost;
  notice.worker = 2;
  notice.ended = ended;
  return EncodeAbort(notice);
}

std::vector<uint8_t> FrameOf(int from, FrameType type, uint64_t sequence,
                             uint32_t generation,
                             const std::vector<uint8_t>& payload, uint16_t to) {
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
void Deliver(FakeStream* stream, const uint8_t* data, size_t bytes,
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
void Deliver(FakeStream* stream, int from, FrameType type, uint64_t sequence,
             uint32_t generation, const std::vector<uint8_t>& payload,
             int64_t now, uint16_t to = 0) {
  const std::vector<uint8_t> frame =
      FrameOf(from, type, sequence, generation, payload, to);
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

  int64_t now_ = 5 * kSecond;
  bool running_ = false;
  bool delivered_ = false;
  bool left_ = false;
  bool has_joiner_ = false;
  uint64_t completed_ = 0;
  Status failure_;
  std::string notice_;
  std::string events_;
};

// Rank 0; rank 1 has greeted it.
class SessionTest : public testing::Test, public FakeTransport {
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

  Identity Other(uint64_t incarnation) const {
    Identity peer;
    peer.job = options_.job;
    peer.worker = from_;
    peer.size = static_cast<int>(options_.addresses.size());
    peer.links = IsFullyConnected(peer.size) ? 0 : 1;
    peer.incarnation = incarnation;
    peer.cluster_hash = ClusterHash(options_.addresses);
    peer.timeout_ms = 1000;
    peer.bytes_per_pack = static_cast<uint64_t>(options_.bytes_per_pack);
    return peer;
  }

  // A worker of rank from_ connects by this stream.
  void Greet(FakeStream* stream, uint64_t incarnation) {
    session_.OnAccepted(StreamPtr(stream), now_);
    Receive(stream, FrameType::kHello, 0, 1,
            EncodeIdentity(Other(incarnation)));
  }

  // A frame comes from rank from_.
  void Receive(FrameType type, uint64_t sequence, uint32_t generation = 1,
               const std::vector<uint8_t>& payload = {}) {
    Receive(&stream_, type, sequence, generation, payload);
  }
  void Receive(FakeStream* stream, FrameType type, uint64_t sequence,
               uint32_t generation, const std::vector<uint8_t>& payload) {
    Deliver(stream, from_, type, sequence, generation, payload, now_, to_);
  }
  void StartBarrier() {
    const Call barrier;
    session_.Start(&barrier, 1, now_);
  }
  // Another process of rank 1 connects. Returns true if the refusal is final.
  bool RefusesForGood() {
    FakeStream rival;
    Greet(&rival, 44);
    FrameHeader answer;
    EXPECT_TRUE(DecodeHeader(rival.written.data(), &answer).ok());
    EXPECT_EQ(answer.type, FrameType::kReject);
    EXPECT_TRUE(rival.closed);
    return RefusalCodeOf(answer) != 0;
  }
  // A heartbeat waits for the stream from now on.
  void BeatInVain() {
    stream_.full = true;
    now_ += kSecond / 2;
    Receive(FrameType::kHeartbeat, 1, 1, kComputes);
    session_.Tick(now_);
  }

  int from_ = 1;
  uint16_t to_ = 0;  // the rank that they mean
  FakeStream stream_;
  FakeStream back_;
  FakeStream streams_[17];  // of a large ring, by rank
  const RingOptions options_;
  Session session_;
};

// Rank 2 has not come yet.
class FormingSessionTest : public SessionTest {
 protected:
  FormingSessionTest() : SessionTest(3) {}
};

// Ranks 2 and 3 are there too.
class FourSessionTest : public SessionTest {
 protected:
  FourSessionTest() : SessionTest(4) {
    for (from_ = 2; from_ < 4; ++from_) Greet(&streams_[from_], 43);
  }
};

// Rank 0 of 17, with all its links.
class LargeSessionTest : public SessionTest {
 protected:
  LargeSessionTest() : SessionTest(17) {
    for (const int peer : LinksOf(0, 17)) {
      from_ = peer;
      if (peer != 1) Greet(&streams_[peer], 43);
    }
  }
  void ReceiveReport(int peer, const FormationReport& report) {
    from_ = peer;
    Receive(peer == 1 ? &stream_ : &streams_[peer], FrameType::kFormationReport,
            0, 0, EncodeFormationReport(report));
  }
  static FormationReport AtLevel(int level, uint32_t generation) {
    FormationReport report;
    report.level = level;
    report.generation = generation;
    return report;
  }
  // Reports in generation 1 that rank 11 was lost.
  static FormationReport LoweredTo(int level) {
    FormationReport report = AtLevel(level, 1);
    report.lowered = true;
    report.why = {Code::kPeerLost, 11, -1, "rank 11 was lost"};
    return report;
  }
  // The levels on which rank 0 relies: of the ranks 1, 2, 4, 8, 16 below.
  void ReceiveReports(uint32_t generation) {
    int level = 1;
    for (const int peer : {16, 15, 13, 9, 1}) {
      EXPECT_FALSE(running_);
      ReceiveReport(peer, AtLevel(level++, generation));
    }
  }
};

TEST_F(LargeSessionTest, Session_AllPeersHaveReported_Runs) {
  ReceiveReports(3);
  EXPECT_TRUE(running_);
  EXPECT_EQ(session_.generation(), 3u);
  ReceiveReport(13, AtLevel(6, 3));
  EXPECT_OK(failure_);
}

TEST_F(LargeSessionTest, Report_PeerTakesItBack_IsALoss) {
  ReceiveReports(1);
  ReceiveReport(13, AtLevel(3, 1));  // as much as it needs
  EXPECT_OK(failure_);
  ReceiveReport(13, LoweredTo(2));
  EXPECT_EQ(failure_.code(), Code::kPeerLost);
  EXPECT_EQ(failure_.rank(), 11);
  EXPECT_STREQ(failure_.message(), "rank 11 was lost (reported by rank 13)");
}

TEST_F(LargeSessionTest, Report_OfAnotherGeneration_IsALoss) {
  ReceiveReports(1);
  ReceiveReport(9, AtLevel(6, 2));
  EXPECT_EQ(failure_.code(), Code::kPeerLost);
  EXPECT_EQ(failure_.rank(), 9);
}

TEST_F(LargeSessionTest,
       Report_LossWhileTheRingForms_IsPassedOnAndEndsNothing) {
  ReceiveReport(16, AtLevel(1, 1));
  FormationReport lowered = LoweredTo(0);
  lowered.missing = 11;
  ReceiveReport(16, lowered);
  EXPECT_OK(failure_);
  // To rank 1, which relies on this one: level 1 again, and why.
  ASSERT_GT(stream_.written.size(), kFrameHeaderBytes);
  FormationReport report;
  ASSERT_TRUE(DecodeFormationReport(stream_.written.data() + kFrameHeaderBytes,
                                    stream_.written.size() - kFrameHeaderBytes,
                                    17, 0, &report)
                  .ok());
  EXPECT_EQ(report.level, 1);
  EXPECT_EQ(report.missing, 11);
  EXPECT_TRUE(report.lowered);
  EXPECT_EQ(report.why.worker, 11);
}

TEST_F(SessionTest, FormationReport_InASmallRing_IsALoss) {
  Receive(FrameType::kFormationReport, 0, 1,
          EncodeFormationReport(FormationReport()));
  EXPECT_EQ(failure_.code(), Code::kPeerLost);
}

TEST_F(SessionTest, Frame_OfAnotherGeneration_IsDropped) {
  ASSERT_TRUE(running_);
  StartBarrier();
  Receive(FrameType::kBarrier, 1, 7);
  EXPECT_EQ(completed_, 0u);
  Receive(FrameType::kBarrier, 1, 0);  // of none: it is an operation
  EXPECT_EQ(completed_, 0u);
  Receive(FrameType::kBarrier, 1, 1);
  EXPECT_EQ(completed_, 1u);
  EXPECT_TRUE(failure_.ok());
}

TEST_F(FourSessionTest, Events_ChainOfWaits_NamesEachWorker) {
  EXPECT_EQ(
      events_,
      "\"event\":\"view\",\"rank\":0,\"members\":[\"0\",\"1\",\"2\",\"3\"],"
      "\"view\":1,\"step\":0;");
  events_.clear();
  StartBarrier();
  session_.Tick(now_);
  EXPECT_EQ(events_, "");  // no news within a tick
  now_ += kSecond / 2;
  Activity activity;
  activity.sequence = 1;
  activity.type = FrameType::kBarrier;
  activity.waiting_on = 3;
  FrameHeader header;
  uint8_t payload[kHeartbeatBytes];
  EncodeHeartbeat(activity, &header, payload);
  from_ = 1;
  Receive(FrameType::kHeartbeat, 1, 1, {payload, payload + kHeartbeatBytes});
  session_.Tick(now_);
  const std::string waits = events_;
  EXPECT_EQ(waits,
            "\"event\":\"wait\",\"for\":\"1\",\"last\":\"3\","
            "\"waited_seconds\":0.5,\"operation\":1,\"view\":1,\"step\":0;");
  session_.Tick(now_);
  EXPECT_EQ(events_, waits);  // once
  from_ = 3;
  streams_[3].owner->OnEnded(LossCause::kExited, Status(), now_);
  EXPECT_EQ(failure_.rank(), 3);
  EXPECT_EQ(events_.substr(waits.size()),
            "\"event\":\"loss\",\"lost\":[\"3\"],\"reason\":\"exited\","
            "\"last_heard_seconds\":0.125,\"waiting_for\":\"1\","
            "\"waited_seconds\":0.125,\"operation\":1,\"view\":1,\"step\":0;");
}

TEST_F(SessionTest, Goodbye_AfterTheLastOperation_IsNoLoss) {
  StartBarrier();
  Receive(FrameType::kBarrier, 1);
  BeatInVain();
  Receive(FrameType::kGoodbye, 1);
  EXPECT_OK(failure_);
  session_.Leave(now_);
  EXPECT_TRUE(left_);
  EXPECT_TRUE(stream_.closed);
}

TEST_F(SessionTest, Goodbye_DuringAnOperation_IsALoss) {
  StartBarrier();
  Receive(FrameType::kBarrier, 1);
  stream_.full = true;
  StartBarrier();
  Receive(FrameType::kGoodbye, 1);
  EXPECT_EQ(failure_.code(), Code::kPeerLost);
  EXPECT_EQ(failure_.rank(), 1);
}

// The peer has completed the barrier that this rank is still in, and has not
// read this worker's heartbeat.
TEST_F(FourSessionTest, Goodbye_PeerHasCompletedTheOperation_IsNoLoss) {
  ASSERT_TRUE(running_);
  StartBarrier();
  from_ = 1;
  Receive(FrameType::kBarrier, 1);
  BeatInVain();
  Receive(FrameType::kGoodbye, 1);
  EXPECT_OK(failure_);
  EXPECT_EQ(completed_, 0u);
  from_ = 2;
  Receive(&streams_[2], FrameType::kBarrier, 1, 1, {});
  EXPECT_EQ(completed_, 1u);
  EXPECT_OK(failure_);
}

TEST_F(SessionTest, Peer_Silent_IsLost) {
  StartBarrier();
  for (int i = 0; i < 10 && failure_.ok(); ++i) {
    now_ += kSecond / 8;
    session_.Tick(now_);
  }
  EXPECT_EQ(failure_.code(), Code::kPeerLost);
  EXPECT_EQ(failure_.rank(), 1);
}

TEST_F(SessionTest, Hello_FirstIsStillHeard_IsRefusedPermanently) {
  EXPECT_FALSE(RefusesForGood());
  now_ += 3 * kSecond;
  Receive(FrameType::kHeartbeat, 1, 1, kComputes);
  EXPECT_TRUE(RefusesForGood());
}

// An attacker between the hosts can redirect connections. A worker that reached
// the wrong rank is no second worker with its number, and may try again.
TEST_F(SessionTest, Hello_ToTheWrongRank_MayTryAgain) {
  to_ = 1;
  EXPECT_FALSE(RefusesForGood());
  now_ += 3 * kSecond;
  to_ = 0;
  Receive(FrameType::kHeartbeat, 1, 1, kComputes);
  to_ = 1;
  EXPECT_FALSE(RefusesForGood());
}

// This worker was itself stalled for 3 s. It has not noticed yet that the first
// worker is silent, so the second one may try again.
TEST_F(SessionTest, Hello_FirstIsSilent_MayTryAgain) {
  EXPECT_FALSE(RefusesForGood());
  now_ += 3 * kSecond;
  EXPECT_FALSE(RefusesForGood());
}

// The silence of the first worker during this worker's stall does not count,
// also after a Tick.
TEST_F(FormingSessionTest, Hello_FirstIsSilentLater_MayTryAgain) {
  EXPECT_FALSE(RefusesForGood());
  session_.Tick(now_ += 3 * kSecond);
  EXPECT_FALSE(RefusesForGood());
}

// The second process was refused, and took the place when the first was gone.
// It connects again, because only its own side has noticed that the connection
// broke.
TEST_F(FormingSessionTest, Hello_ConnectionBrokenOnOneSide_MayTryAgain) {
  EXPECT_FALSE(RefusesForGood());
  stream_.owner->OnEnded(LossCause::kExited, Error(Code::kIo, "closed"), now_);
  Greet(&back_, 44);
  ASSERT_FALSE(back_.closed);
  now_ += 3 * kSecond;
  Receive(&back_, FrameType::kHeartbeat, 1, 0, kComputes);
  EXPECT_FALSE(RefusesForGood());
}

// Rank 0 of an elastic ring of three. Workers 1 and 2 have greeted it and
// reported that they hear each other.
class ElasticSessionTest : public testing::Test, public FakeTransport {
 protected:
  ElasticSessionTest() : session_(Options(), 1, 42, this, this, now_) {
    session_.Begin(now_);
  }

  static RingOptions Options() {
    RingOptions options;
    for (const char* host : {"a:1", "b:1", "c:1"}) {
      options.addresses.push_back(host);
    }
    options.timeout_seconds = 1;
    options.start_timeout_seconds = 2;
    options.min_workers = 2;
    return options;
  }
  void Greet(int from, uint32_t count = 1) {
    Identity peer;
    peer.job = Options().job;
    peer.worker = from;
    peer.size = 3;
    peer.incarnation = 43;
    peer.cluster_hash = ClusterHash(Options().addresses);
    peer.timeout_ms = 1000;
    peer.bytes_per_pack = static_cast<uint64_t>(Options().bytes_per_pack);
    peer.min_workers = 2;
    session_.OnAccepted(StreamPtr(&streams_[from]), now_);
    Receive(from, FrameType::kHello, 0, count, EncodeIdentity(peer));
  }
  void ReceiveView(int from, ViewMessage type, uint64_t workers,
                   uint32_t generation) {
    std::vector<uint8_t> payload(kViewBytes);
    EncodeView({type, type == ViewMessage::kHears, type == ViewMessage::kHears,
                workers, generation},
               payload.data());
    payload.resize(ViewBytes(3));
    Receive(from, FrameType::kView, 0, 0, payload);
  }
  void Receive(int from, FrameType type, uint64_t sequence, uint32_t generation,
               const std::vector<uint8_t>& payload = {}) {
    Deliver(&streams_[from], from, type, sequence, generation, payload, now_);
  }
  void StartBarrier() {
    const Call barrier;
    session_.Start(&barrier, 1, now_);
  }
  // A barrier with worker 2, which completes.
  void Pass() {
    StartBarrier();
    Receive(2, FrameType::kBarrier, 1, kView);
    EXPECT_EQ(completed_, 1u);
  }
  void Ends(int from) {
    streams_[from].owner->OnEnded(LossCause::kExited, Error(Code::kIo, "ended"),
                                  now_);
  }
  // Runs with worker 2 only: 1 has not come in time.
  void RunWithTwo() {
    Greet(2);
    for (int i = 0; i < 10; ++i) {
      ReceiveView(2, ViewMessage::kHears, Workers({0, 2}), 0);
      now_ += kSecond / 4;
      session_.Tick(now_);
      Receive(2, FrameType::kHeartbeat, 0, 0, kComputes);
      ReceiveView(2, ViewMessage::kAck, Workers({0, 2}), ViewGeneration(1, 0));
      if (running_) break;
    }
    ASSERT_TRUE(running_);
    EXPECT_EQ(session_.workers(), (std::vector<int>{0, 2}));
    EXPECT_EQ(session_.generation(), kView);
  }

  // Runs with both others, and completes a barrier with them.
  void RunWithAll() {
    for (const int from : {1, 2}) Greet(from);
    for (const int from : {1, 2})
      ReceiveView(from, ViewMessage::kHears, Workers({0, 1, 2}), 0);
    for (const int from : {1, 2})
      ReceiveView(from, ViewMessage::kAck, Workers({0, 1, 2}), kView);
    ASSERT_TRUE(running_);
    StartBarrier();
    for (const int from : {1, 2}) Receive(from, FrameType::kBarrier, 1, kView);
    ASSERT_EQ(completed_, 1u);
  }

  // Expects that both others get the loss of worker 2, which still runs.
  void ExpectLossReported() {
    EXPECT_EQ(failure_.rank(), 2) << failure_.message();
    EXPECT_TRUE(streams_[2].closed);
    EXPECT_EQ(session_.remaining_workers(), 0u);
    for (const int to : {1, 2}) {
      ASSERT_GT(streams_[to].abort.size(), kFrameHeaderBytes + 2) << to;
      EXPECT_EQ(streams_[to].abort[kFrameHeaderBytes + 1], 0);
      EXPECT_EQ(streams_[to].abort[kFrameHeaderBytes + 2], 2);
    }
  }

  static constexpr uint32_t kView = 1u << 4;
  FakeStream streams_[3];
  Session session_;
};

TEST_F(ElasticSessionTest, Data_OfAnotherGeneration_IsDropped) {
  RunWithTwo();
  EXPECT_EQ(notice_, "the worker at a:1 continues with 2 of 3, without b:1");
  StartBarrier();
  for (const uint32_t other : {0u, 1u, kView + 1, 2 * kView}) {
    Receive(2, FrameType::kBarrier, 1, other);
    EXPECT_EQ(completed_, 0u);
  }
  Receive(2, FrameType::kBarrier, 1, kView);
  EXPECT_EQ(completed_, 1u);
  EXPECT_OK(failure_);
}

TEST_F(ElasticSessionTest, Data_OfAMemberBeforeTheStart_IsKept) {
  Greet(1);
  Greet(2);
  Receive(1, FrameType::kBarrier, 1, kView);  // nothing is agreed on yet
  for (const int from : {1, 2})
    ReceiveView(from, ViewMessage::kHears, Workers({0, 1, 2}), 0);
  ReceiveView(1, ViewMessage::kAck, Workers({0, 1, 2}), kView);
  Receive(1, FrameType::kBarrier, 1, kView);
  Receive(1, FrameType::kBarrier, 2, 2 * kView);
  EXPECT_FALSE(running_);
  ReceiveView(2, ViewMessage::kAck, Workers({0, 1, 2}), kView);
  ASSERT_TRUE(running_);
  StartBarrier();
  Receive(2, FrameType::kBarrier, 1, kView);
  // Rank 2 of three hands over to 0, which waits for 1 as well: it was there.
  EXPECT_EQ(completed_, 1u);
  EXPECT_OK(failure_);
}

TEST_F(ElasticSessionTest, Joiner_WhileTheViewRuns_IsReportedAndNotJudged) {
  RunWithTwo();
  Greet(1);
  EXPECT_FALSE(streams_[1].closed);
  EXPECT_FALSE(has_joiner_);
  ReceiveView(1, ViewMessage::kHears, Workers({0, 1}), 0);
  EXPECT_FALSE(has_joiner_);  // it does not hear worker 2 yet
  ReceiveView(1, ViewMessage::kHears, Workers({0, 1, 2}), 0);
  EXPECT_TRUE(has_joiner_);
  const std::vector<uint8_t> abort = LossOfWorker2(/*ended=*/false);
  Receive(1, FrameType::kAbort, 0, 0, abort);
  Receive(1, FrameType::kBarrier, 1, kView);
  EXPECT_OK(failure_);
  for (int i = 0; i < 12; ++i) {  // it falls silent
    now_ += kSecond / 8;
    Receive(2, FrameType::kHeartbeat, 0, kView, kComputes);
    session_.Tick(now_);
  }
  EXPECT_TRUE(streams_[1].closed);
  EXPECT_FALSE(has_joiner_);
  EXPECT_OK(failure_);
  // The member stops reading, which is a loss. Callers get it as rank 1.
  for (int i = 0; i < 12; ++i) session_.Tick(now_ += kSecond / 8);
  EXPECT_EQ(failure_.code(), Code::kPeerLost);
  EXPECT_EQ(failure_.rank(), 1);
  EXPECT_TRUE(Contains(failure_, "rank 1 (c:1) was lost"));
}

TEST_F(ElasticSessionTest, Goodbye_OfAJoiner_IsNoLoss) {
  RunWithTwo();
  Greet(1);
  Receive(1, FrameType::kGoodbye, 0, 0);
  EXPECT_TRUE(streams_[1].closed);
  EXPECT_OK(failure_);
}

TEST_F(ElasticSessionTest, Member_TakesNoPartInTheView_IsLost) {
  RunWithTwo();
  ReceiveView(2, ViewMessage::kHears, Workers({0, 2}), 0);
  EXPECT_OK(failure_);
  ReceiveView(2, ViewMessage::kHears, Workers({0, 2}), kView);
  EXPECT_EQ(failure_.code(), Code::kPeerLost);
  EXPECT_EQ(failure_.rank(), 1);
}

// The schedule did not get the header, which belonged to no view.
TEST_F(ElasticSessionTest, Frame_BegunBeforeItsView_IsSkippedWhole) {
  Greet(1);
  Greet(2);
  ReceiveView(1, ViewMessage::kHears, Workers({0, 1, 2}), 0);
  const std::vector<uint8_t> frame =
      FrameOf(1, FrameType::kAllReduce, 1, kView, {1, 2, 3, 4, 5, 6, 7, 8}, 0);
  const size_t part = frame.size() - 4;
  Deliver(&streams_[1], frame.data(), part, now_);
  ReceiveView(2, ViewMessage::kHears, Workers({0, 1, 2}),
              0);  // the view is proposed
  EXPECT_EQ(session_.view_generation(), kView);
  Deliver(&streams_[1], frame.data() + part, 4, now_);
  for (const int from : {1, 2})
    ReceiveView(from, ViewMessage::kAck, Workers({0, 1, 2}), kView);
  EXPECT_TRUE(running_);
  EXPECT_OK(failure_);
}

// A member reports that it waits for a worker that is not a member.
TEST_F(ElasticSessionTest, NoMember_Silent_IsNotWaitedFor) {
  for (const bool join_pending : {false, true}) {
    SCOPED_TRACE(join_pending);
    if (join_pending) {
      Greet(1);
    } else {
      RunWithTwo();
      StartBarrier();
    }
    Receive(2, FrameType::kHeartbeat, 1, kView, kWaitsForWorker1);
    const WaitChain waiting = session_.CurrentWait(now_);
    ASSERT_EQ(waiting.entries.size(), 1u);
    EXPECT_EQ(waiting.entries[0].rank, 1);
    EXPECT_EQ(waiting.entries[0].activity.waiting_on, -1);
  }
  for (int i = 0; i < 32 && failure_.ok(); ++i) {
    now_ += kSecond / 8;
    Receive(1, FrameType::kHeartbeat, 0, kView, kComputes);
    Receive(2, FrameType::kHeartbeat, 1, kView, kWaitsForWorker1);
    session_.Tick(now_);
  }
  EXPECT_EQ(failure_.code(), Code::kPeerLost);
  EXPECT_EQ(failure_.rank(), 1) << failure_.message();  // worker 2
}

// No worker could propose a greater one.
TEST_F(ElasticSessionTest, Generation_FarAhead_IsIgnored) {
  RunWithTwo();
  const uint32_t newest = session_.newest_generation();
  for (const uint32_t count : {newest + (2u << 20), 1u << 27, 1u << 31}) {
    streams_[1].closed = false;
    Greet(1, count);
    EXPECT_TRUE(streams_[1].closed) << count;
  }
  streams_[1].closed = false;
  Greet(1, 5);
  EXPECT_FALSE(streams_[1].closed);
  ReceiveView(1, ViewMessage::kHears, Workers({1}),
              ViewGeneration(kGreatestViewCount, 1));
  EXPECT_TRUE(streams_[1].closed);
  EXPECT_LE(session_.newest_generation(), 5u);
  EXPECT_OK(failure_);
}

// No end of another member's process is known.
TEST_F(ElasticSessionTest, LinkEnd_WithoutGoodbye_MeansItsProcessEnded) {
  RunWithTwo();
  Pass();
  EXPECT_EQ(session_.remaining_workers(), 0u);
  Ends(2);
  EXPECT_EQ(failure_.code(), Code::kPeerLost);
  EXPECT_EQ(session_.remaining_workers(), Workers({0}));
  streams_[2].closed = false;
  Greet(2);  // it is back, while this worker stands
  EXPECT_EQ(session_.remaining_workers(), Workers({0, 2}));
}

// The report of the loss may arrive before the end of the lost worker's own
// connection.
TEST_F(ElasticSessionTest, Loss_AbortWithAnEndedProcess_IsRecorded) {
  RunWithAll();
  Receive(1, FrameType::kAbort, 0, kView, LossOfWorker2(/*ended=*/true));
  EXPECT_EQ(failure_.rank(), 2) << failure_.message();
  EXPECT_EQ(session_.remaining_workers(), Workers({0, 1}));
  ASSERT_GT(streams_[1].abort.size(), kFrameHeaderBytes + 1);
  EXPECT_EQ(streams_[1].abort[kFrameHeaderBytes + 1], 1);
}

TEST_F(ElasticSessionTest, Loss_AbortWithASilence_RecordsNoEndedProcess) {
  RunWithAll();
  Receive(1, FrameType::kAbort, 0, kView, LossOfWorker2(/*ended=*/false));
  EXPECT_EQ(failure_.rank(), 2) << failure_.message();
  EXPECT_EQ(session_.remaining_workers(), 0u);
}

TEST_F(ElasticSessionTest, LinkEnd_WithoutGoodbye_IsSentToTheOthers) {
  RunWithAll();
  Ends(2);
  EXPECT_EQ(session_.remaining_workers(), Workers({0, 1}));
  ASSERT_GT(streams_[1].abort.size(), kFrameHeaderBytes + 1);
  EXPECT_EQ(streams_[1].abort[kFrameHeaderBytes + 1], 1);
}

// Members get the reason first. Otherwise the closed connection would look like
// the end of this worker's process.
TEST_F(ElasticSessionTest, Peer_BreaksTheProtocol_GetsTheReason) {
  RunWithAll();
  Receive(2, FrameType::kWelcome, 0, kView);
  ExpectLossReported();
}

TEST_F(ElasticSessionTest, Peer_RecordThatDoesNotOpen_GetsTheReason) {
  RunWithAll();
  streams_[2].owner->OnEnded(LossCause::kProtocol, Corruption("damaged"), now_);
  ExpectLossReported();
}

TEST_F(ElasticSessionTest, LinkEnd_AfterAGoodbye_IsNoEndedProcess) {
  RunWithTwo();
  Pass();
  session_.Leave(now_);
  Ends(2);
  EXPECT_TRUE(left_);
  EXPECT_EQ(session_.remaining_workers(), 0u);
}

// All others receive the report of a loss, and answer.
TEST_F(ElasticSessionTest, Loss_PeerSendsNothing_HasEnded) {
  RunWithAll();
  Ends(2);
  session_.Leave(now_);
  Ends(1);
  EXPECT_EQ(session_.remaining_workers(), Workers({0}));
}

TEST_F(ElasticSessionTest, Loss_PeerHasFailedToo_HasNotEnded) {
  RunWithAll();
  Ends(2);
  session_.Leave(now_);
  Receive(1, FrameType::kAbort, 0, kView, LossOfWorker2(/*ended=*/true));
  Ends(1);
  EXPECT_EQ(session_.remaining_workers(), Workers({0, 1}));
}

TEST_F(ElasticSessionTest, LinkEnd_PeerNotInTheViewYet_HasNotEnded) {
  RunWithTwo();
  StartBarrier();
  Ends(2);
  EXPECT_EQ(failure_.code(), Code::kPeerLost);
  EXPECT_EQ(session_.remaining_workers(), 0u);
}

// This worker was stalled. The others have continued without it, so a closed
// connection does not show that a process has ended.
TEST_F(ElasticSessionTest, SelfStalled_LinkEnds_RecordsNoEndedProcess) {
  RunWithTwo();
  Pass();
  now_ += 3 * kSecond / 2;
  Ends(2);
  EXPECT_EQ(failure_.rank(), 0) << failure_.message();
  EXPECT_EQ(session_.remaining_workers(), 0u);
}

// This worker was stalled, and has not read yet the frames that arrived
// meanwhile.
TEST_F(ElasticSessionTest, SelfStalled_OthersSilent_LosesNone) {
  Greet(1);
  Greet(2);
  session_.Tick(now_ += 3 * kSecond / 2);
  for (const int from : {1, 2}) {
    EXPECT_FALSE(streams_[from].closed);
    Receive(from, FrameType::kHeartbeat, 0, 0, kComputes);
  }
  session_.Tick(now_ += kSecond / 50);
  for (const int from : {1, 2}) EXPECT_FALSE(streams_[from].closed);
}

TEST_F(ElasticSessionTest, Wait_FewerThanMinWorkers_EndsAtTheDeadline) {
  for (int i = 0; i < 9 && failure_.ok(); ++i)
    session_.Tick(now_ += kSecond / 4);
  EXPECT_EQ(failure_.code(), Code::kDeadlineExceeded);
}

// Enough workers are connected, so the session waits longer, and reports how
// long.
TEST_F(ElasticSessionTest, Wait_PeersReachNoOther_Ends) {
  Greet(1);
  for (int i = 0; i < 40 && failure_.ok(); ++i) {
    ReceiveView(1, ViewMessage::kHears, Workers({1}), 0);
    session_.Tick(now_ += kSecond / 4);
  }
  EXPECT_EQ(failure_.code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(Contains(failure_, "waited 6 s for"));
}

TEST_F(ElasticSessionTest, Wait_PeerComputes_HasNoLimit) {
  for (const bool computes : {false, true}) {
    if (computes) {
      Greet(1);
      ReceiveView(1, ViewMessage::kRuns, Workers({1}), 2 * kView + 1);
    }
    now_ += 11 * kSecond / 10;
    if (computes) Receive(1, FrameType::kHeartbeat, 0, 0, kComputes);
    session_.Tick(now_ += 10 * kSecond * computes);
    EXPECT_EQ(notice_.find("it ends after 2 s") != std::string::npos, !computes)
        << notice_;
    EXPECT_OK(failure_);
  }
}

// Rank 1 of two, in a view of itself.
class AloneSessionTest : public testing::Test, public FakeTransport {
 protected:
  AloneSessionTest() : session_(Options(), 1, 42, this, this, now_) {
    session_.Begin(now_);
  }
  static RingOptions Options() {
    RingOptions options;
    options.addresses = {"a:1", "b:1"};
    options.worker = 1;
    options.timeout_seconds = 1;
    options.start_timeout_seconds = 2;
    options.min_workers = 1;
    return options;
  }
  Status Resolve(int peer, bool* done, std::vector<Endpoint>* out) override {
    longest_ = std::max(longest_, now_ - sought_);
    sought_ = now_;
    return FakeTransport::Resolve(peer, done, out);
  }

  int64_t sought_ = now_, longest_ = 0;
  Session session_;
};

// A restarted worker waits for half a timeout and then trains alone. So it must
// be dialled more often than that.
TEST_F(AloneSessionTest, Redial_PeerMayBeBack_IsEarly) {
  for (int i = 0; i < 100; ++i) session_.Tick(now_ += kSecond / 8);
  ASSERT_TRUE(running_);
  longest_ = 0;
  for (int i = 0; i < 100; ++i) session_.Tick(now_ += kSecond / 8);
  EXPECT_GT(longest_, 0);
  EXPECT_LT(longest_, kSecond / 2);
}

// The other tests' workers send no version, as earlier programs do not.
TEST_F(FormingSessionTest, Hello_OfAnotherVersion_EndsBoth) {
  FakeStream second;
  from_ = 2;
  session_.OnAccepted(StreamPtr(&second), now_);
  Receive(&second, FrameType::kHello, ProgramVersion() + 1, 1,
          EncodeIdentity(Other(44)));
  FrameHeader answer;
  ASSERT_TRUE(DecodeHeader(second.written.data(), &answer).ok());
  EXPECT_EQ(answer.type, FrameType::kReject);
  EXPECT_EQ(RefusalCodeOf(answer),
            static_cast<uint64_t>(Code::kInvalidArgument));
  EXPECT_EQ(failure_.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(failure_, "worker 2 is ringlet "));
}

// Rank 0 of two. The other's name has a local socket and two addresses.
class ProbingSessionTest : public testing::Test, public FakeTransport {
 protected:
  ProbingSessionTest() : session_(Options(), 1, 42, this, this, now_) {
    session_.Begin(now_);
  }
  static RingOptions Options() {
    RingOptions options;
    options.addresses = {"a:1", "b:1"};
    options.start_timeout_seconds = 100;
    return options;
  }
  Status Resolve(int, bool* done, std::vector<Endpoint>* out) override {
    *done = true;
    out->resize(3);
    for (size_t i = 0; i < out->size(); ++i) {
      (*out)[i].address.ss_family = static_cast<sa_family_t>(i);
      (*out)[i].local = i == 0;
    }
    return Status();
  }
  Status Connect(int, const Endpoint& to, StreamPtr*) override {
    tried_.push_back(to.address.ss_family);
    return Error(Code::kUnavailable, "no route");
  }

  std::vector<int> tried_;
  Session session_;
};

TEST_F(ProbingSessionTest, Probe_NameOfTwoAddresses_TriesBoth) {
  for (int i = 0; i < 100 && tried_.empty(); ++i) {
    session_.Tick(now_ += kSecond / 8);
  }
  EXPECT_EQ(tried_, (std::vector<int>{1, 2}));
}

// Rank 0 of two, which withdraws.
class WithdrawingSessionTest : public testing::Test, public FakeTransport {
 protected:
  WithdrawingSessionTest() : session_(Options(), 1, 42, this, this, now_) {
    session_.BeginWithdrawal(InvalidArgument("no data"), now_);
  }
  static RingOptions Options() {
    RingOptions options;
    options.addresses = {"10.0.0.1:1", "10.0.0.2:1"};
    options.start_timeout_seconds = 1000;
    return options;
  }

  FakeStream stream_;
  Session session_;
};

// The session does not wait for an answer: each withdrawal answers the other.
TEST_F(WithdrawingSessionTest, Withdrawal_PeerWithdrawsToo_EndsWithoutAWait) {
  session_.Tick(now_ += kSecond / 8);
  EXPECT_FALSE(delivered_);
  Withdraw peer;
  peer.identity.job = Options().job;
  peer.identity.worker = 1;
  peer.identity.size = 2;
  peer.identity.cluster_hash = ClusterHash(Options().addresses);
  peer.reason = InvalidArgument("no data here either");
  session_.OnAccepted(StreamPtr(&stream_), now_);
  Deliver(&stream_, 1, FrameType::kWithdraw, 0, 0, EncodeWithdraw(peer), now_);
  session_.Tick(now_ += kSecond / 8);
  EXPECT_TRUE(delivered_);
}

TEST_F(SessionTest, ViewFrame_InARingThatIsNotElastic_IsALoss) {
  Receive(FrameType::kView, 0, 1, {1, 0, 3, 0, 0, 0, 0, 0});
  EXPECT_EQ(failure_.code(), Code::kPeerLost);
}

}  // namespace
}  // namespace ringlet
