// One session of an elastic ring against simulated peers.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/worker_set.h"
#include "fake_transport.h"
#include "net/membership/session.h"
#include "net/wire/view_frame.h"

namespace ringlet {
namespace {

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
    Greet(from, count, &streams_[from], 2);
  }
  void Greet(int from, uint32_t count, FakeStream* stream,
             uint8_t min_workers) {
    Identity peer;
    peer.job = Options().job;
    peer.worker = from;
    peer.size = 3;
    peer.incarnation = 43;
    peer.cluster_hash = ClusterHash(Options().addresses);
    peer.timeout_ms = 1000;
    peer.bytes_per_pack = static_cast<uint64_t>(Options().bytes_per_pack);
    peer.min_workers = min_workers;
    session_.OnAccepted(StreamPtr(stream), now_);
    Deliver(stream, from, FrameType::kHello, 0, count, EncodeIdentity(peer),
            now_);
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
  EXPECT_FALSE(has_joiner_);  // worker 1 does not hear worker 2 yet
  ReceiveView(1, ViewMessage::kHears, Workers({0, 1, 2}), 0);
  EXPECT_TRUE(has_joiner_);
  const std::vector<uint8_t> abort = LossOfWorker2(/*ended=*/false);
  Receive(1, FrameType::kAbort, 0, 0, abort);
  Receive(1, FrameType::kBarrier, 1, kView);
  EXPECT_OK(failure_);
  for (int i = 0; i < 12; ++i) {  // worker 1 sends nothing more
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

// A worker with other options tries again every quarter of a second.
TEST_F(ElasticSessionTest, Joiner_OtherOptions_IsAnEventOnceAMinute) {
  RunWithTwo();
  events_.clear();
  FakeStream tries[9], later, scanner;
  for (FakeStream& stream : tries) {
    now_ += kSecond / 4;
    Greet(1, 1, &stream, 3);
    EXPECT_TRUE(stream.closed);
  }
  const std::string refused =
      "\"event\":\"refused\",\"refused\":\"1\",\"from\":\"10.0.0.2:1234\","
      "\"reason\":\"worker 1 was given min_workers (0: all workers are waited "
      "for) 3, worker 0 2: give every worker the same\",\"view\":1,\"step\":0;";
  EXPECT_EQ(events_, refused);
  EXPECT_TRUE(Contains(notice_, "refused a connection from 10.0.0.2:1234"));
  now_ += 60 * kSecond;
  Greet(1, 1, &later, 3);
  EXPECT_EQ(events_, refused + refused);

  // Bytes that are no frame name no worker, and give no line.
  events_.clear();
  notice_.clear();
  session_.OnAccepted(StreamPtr(&scanner), now_);
  const std::vector<uint8_t> noise(kFrameHeaderBytes, 'x');
  Deliver(&scanner, noise.data(), noise.size(), now_);
  EXPECT_TRUE(Contains(
      events_, "\"event\":\"refused\",\"from\":\"10.0.0.2:1234\",\"reason\":"));
  EXPECT_EQ(notice_, "");
  EXPECT_OK(failure_);
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
  const std::vector<uint8_t> frame = MakeFrame(
      1, FrameType::kAllReduce, 1, kView, {1, 2, 3, 4, 5, 6, 7, 8}, 0);
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
  Greet(2);  // worker 2 is back, and this worker is in no view
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

// This worker was stalled. The other workers have continued without it, so a
// closed connection does not show that a process has ended.
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

}  // namespace
}  // namespace ringlet
