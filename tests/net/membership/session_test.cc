// One session against a simulated peer. The test writes its bytes frame by
// frame.

#include "net/membership/session.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "fake_transport.h"
#include "net/collective/topology.h"
#include "net/wire/view_frame.h"

namespace ringlet {
namespace {

// Rank 0; rank 1 has greeted it.
class SessionTest : public testing::Test, public FakeTransport {
 protected:
  explicit SessionTest(int size = 2)
      : options_(MakeOptions(size)),
        session_(options_, 1, 42, this, this, now_) {
    session_.Begin(now_);
    Greet(&stream_, 43);
  }

  static RingOptions MakeOptions(int size) {
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

  // Receives a frame of rank from_.
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
    EXPECT_OK(DecodeHeader(rival.written.data(), &answer));
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
  uint16_t to_ = 0;  // the destination of frames
  FakeStream stream_;
  FakeStream back_;
  FakeStream streams_[17];  // the streams of a large ring, by rank
  const RingOptions options_;
  Session session_;
};

// Rank 2 has not connected yet.
class FormingSessionTest : public SessionTest {
 protected:
  FormingSessionTest() : SessionTest(3) {}
};

// Ranks 2 and 3 have greeted rank 0 too.
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
  ReceiveReport(13, AtLevel(3, 1));  // the level that this rank needs
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
  ASSERT_OK(DecodeFormationReport(stream_.written.data() + kFrameHeaderBytes,
                                  stream_.written.size() - kFrameHeaderBytes,
                                  17, 0, &report));
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
  Receive(FrameType::kBarrier, 1, 0);  // generation 0 is of no view
  EXPECT_EQ(completed_, 0u);
  Receive(FrameType::kBarrier, 1, 1);
  EXPECT_EQ(completed_, 1u);
  EXPECT_OK(failure_);
}

TEST_F(FourSessionTest, Events_ChainOfWaits_NamesEachWorker) {
  EXPECT_EQ(
      events_,
      "\"event\":\"view\",\"rank\":0,\"members\":[\"0\",\"1\",\"2\",\"3\"],"
      "\"view\":1,\"step\":0;");
  events_.clear();
  waits_.clear();
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
  ASSERT_EQ(waits_.size(), 1u);
  EXPECT_EQ(waits_[0].workers, std::vector<int>{3});
  EXPECT_EQ(waits_[0].since, now_ - kSecond / 2);
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

TEST_F(SessionTest, LongWait_OperationCompletes_EndsWithIt) {
  waits_.clear();
  StartBarrier();
  session_.Tick(now_);
  EXPECT_TRUE(waits_.empty());
  now_ += kSecond / 2;
  Receive(FrameType::kHeartbeat, 1, 1, kComputes);
  session_.Tick(now_);
  session_.Tick(now_);
  ASSERT_EQ(waits_.size(), 1u);
  EXPECT_EQ(waits_[0].workers, std::vector<int>{1});
  Receive(FrameType::kBarrier, 1);
  ASSERT_EQ(waits_.size(), 2u);
  EXPECT_TRUE(waits_[1].workers.empty());
}

TEST(SessionStartTest, LongWait_WorkersAreMissing_NamesThem) {
  struct Start : FakeTransport {
    void Run() {
      RingOptions options;
      options.addresses = {"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"};
      Session session(options, 1, 42, this, this, now_);
      session.Begin(now_);
      session.Tick(now_ + kSecond);
      ASSERT_EQ(waits_.size(), 1u);
      EXPECT_EQ(waits_[0].workers, (std::vector<int>{1, 2}));
      EXPECT_EQ(waits_[0].since, now_);
    }
  };
  Start().Run();
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

// The other tests' workers send no version, as earlier programs do not.
TEST_F(FormingSessionTest, Hello_OfAnotherVersion_EndsBoth) {
  FakeStream second;
  from_ = 2;
  session_.OnAccepted(StreamPtr(&second), now_);
  Receive(&second, FrameType::kHello, ProgramVersion() + 1, 1,
          EncodeIdentity(Other(44)));
  FrameHeader answer;
  ASSERT_OK(DecodeHeader(second.written.data(), &answer));
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
