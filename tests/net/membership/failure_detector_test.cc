#include "net/membership/failure_detector.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/nanoseconds.h"
#include "net/collective/topology.h"
#include "net/collective/wait_report.h"

namespace ringlet {
namespace {

constexpr int64_t kTimeout = 1000 * kMs;

// The text of the detector's wait, in a ring in which a worker's number is its
// rank.
std::string WaitText(const FailureDetector& detector, int rank, int64_t now,
                     double seconds,
                     const std::vector<std::string>& addresses) {
  WaitChain chain;
  chain.rank = rank;
  chain.activity = detector.activity();
  for (const auto& awaited : detector.AwaitedWorkers(now)) {
    chain.entries.push_back(
        {awaited.worker, awaited.activity, awaited.seconds, awaited.silent});
  }
  return WaitMessage(chain, seconds, addresses);
}

// Rank 0 of four, timeout 1 s, which ticks when the test requests it.
class FailureDetectorTest : public testing::Test {
 protected:
  FailureDetectorTest() : members_(MakeOptions(), now_) {
    for (int r = 1; r < 4; ++r) members_.AddPeer(r, now_);
  }
  static FailureDetector::Options MakeOptions() {
    FailureDetector::Options options;
    options.timeout_nanos = kTimeout;
    options.addresses = {"a:1", "b:2", "c:3", "d:4"};
    return options;
  }

  // Time passes; all but `silent` are heard from at every tick.
  FailureDetector::Suspect Pass(int64_t nanos, int silent = -1) {
    const int64_t end = now_ + nanos;
    while (now_ < end) {
      now_ += members_.tick_nanos();
      for (int r = 1; r < 4; ++r) {
        if (r != silent) members_.RecordHeard(r, now_);
      }
      bool beat = false;
      const FailureDetector::Suspect suspect = members_.Tick(now_, &beat);
      beats_ += beat;
      if (suspect.worker >= 0) return suspect;
    }
    return FailureDetector::Suspect();
  }

  void WaitOn(int rank, uint64_t sequence = 5, uint64_t moved = 0) {
    Activity activity;
    activity.step = 17;
    activity.sequence = sequence;
    activity.type = FrameType::kAllReduce;
    activity.waiting_on = rank;
    members_.SetActivity(activity, moved, now_);
  }
  void ReceiveHeartbeat(int rank, uint64_t sequence, FrameType type,
                        int waiting_on) {
    Activity activity;
    activity.sequence = sequence;
    activity.type = type;
    activity.waiting_on = waiting_on;
    members_.OnHeartbeat(rank, activity, now_);
  }

  int64_t now_ = 5000 * kMs;
  int beats_ = 0;
  FailureDetector members_;
};

TEST_F(FailureDetectorTest, Tick_AllAreHeard_SuspectsNone) {
  EXPECT_EQ(Pass(100 * kTimeout).worker, -1);
}

TEST_F(FailureDetectorTest, Tick_AllAreHeard_BeatsEveryQuarterOfTheTimeout) {
  Pass(10 * kTimeout);
  EXPECT_EQ(beats_, 40);
}

TEST_F(FailureDetectorTest, Tick_PeerSilentLongerThanTheTimeout_SuspectsIt) {
  const int64_t start = now_;
  const FailureDetector::Suspect suspect = Pass(10 * kTimeout, 2);
  EXPECT_EQ(suspect.worker, 2);
  EXPECT_EQ(suspect.cause, LossCause::kSilent);
  EXPECT_GT(now_ - start, kTimeout);
  EXPECT_LE(now_ - start, kTimeout + members_.tick_nanos());
}

TEST_F(FailureDetectorTest, Tick_SilentPeerHasGone_SuspectsNone) {
  members_.RemovePeer(2);
  EXPECT_EQ(Pass(10 * kTimeout, 2).worker, -1);
}

TEST_F(FailureDetectorTest, Tick_AllAreSilent_SuspectsTheLongestSilent) {
  EXPECT_EQ(Pass(kTimeout * 3 / 4, 2).worker, -1);
  // From here on all ranks are silent; rank 2 was silent long before the
  // others.
  bool beat;
  for (;;) {
    now_ += members_.tick_nanos();
    const FailureDetector::Suspect suspect = members_.Tick(now_, &beat);
    if (suspect.worker < 0) continue;
    EXPECT_EQ(suspect.worker, 2);
    break;
  }
}

TEST_F(FailureDetectorTest, Tick_HearsNoOther_SuspectsItself) {
  // The last heartbeats came up to a quarter of the timeout apart.
  bool beat;
  for (int r : {3, 1, 2}) {
    members_.RecordHeard(r, now_);
    now_ += members_.tick_nanos();
    EXPECT_EQ(members_.Tick(now_, &beat).worker, -1);
  }
  const int64_t start = now_;
  FailureDetector::Suspect suspect;
  while (suspect.worker < 0) {
    now_ += members_.tick_nanos();
    suspect = members_.Tick(now_, &beat);
  }
  EXPECT_EQ(suspect.worker, 0);
  EXPECT_EQ(suspect.cause, LossCause::kIsolated);
  EXPECT_LE(now_ - start, kTimeout);
}

TEST_F(FailureDetectorTest, Tick_OnlyOtherRankIsSilent_SuspectsIt) {
  members_.RemovePeer(1);
  members_.RemovePeer(3);
  const FailureDetector::Suspect suspect = Pass(10 * kTimeout, 2);
  EXPECT_EQ(suspect.worker, 2);
  EXPECT_EQ(suspect.cause, LossCause::kSilent);
}

TEST_F(FailureDetectorTest, Tick_Standstill_IsSuspectedAfterASilenceWouldBe) {
  WaitOn(1, 5);
  ReceiveHeartbeat(1, 5, FrameType::kAllReduce, 0);
  const int64_t start = now_;
  EXPECT_EQ(Pass(10 * kTimeout).cause, LossCause::kStalled);
  // If a rank was heard for T/4 more, the next tick finds its silence.
  EXPECT_GT(now_ - start, kTimeout * 5 / 4 + members_.tick_nanos());
  EXPECT_LE(now_ - start, kTimeout * 7 / 4);
}

TEST_F(FailureDetectorTest, Tick_ALittleEarly_IsInTimeForAHeartbeat) {
  int beats = 0;
  for (int i = 0; i < 80; ++i) {
    now_ += members_.tick_nanos() + (i % 2 == 0 ? kMs : -2 * kMs);
    for (int r = 1; r < 4; ++r) members_.RecordHeard(r, now_);
    bool beat = false;
    members_.Tick(now_, &beat);
    beats += beat;
  }
  EXPECT_EQ(beats, 40);
}

TEST_F(FailureDetectorTest, Tick_AwaitedPeerComputes_SuspectsNone) {
  WaitOn(1, 5);
  ReceiveHeartbeat(1, 4, FrameType::kHeartbeat,
                   -1);  // computes, has done operation 4
  EXPECT_EQ(Pass(100 * kTimeout).worker, -1);
}

TEST_F(FailureDetectorTest, Tick_EndOfTheChainComputes_SuspectsNone) {
  WaitOn(1, 5);
  ReceiveHeartbeat(1, 5, FrameType::kAllReduce, 2);
  ReceiveHeartbeat(2, 5, FrameType::kAllReduce, 3);
  ReceiveHeartbeat(3, 4, FrameType::kHeartbeat, -1);
  EXPECT_EQ(Pass(100 * kTimeout).worker, -1);
}

TEST_F(FailureDetectorTest, Tick_ChainMakesNoProgress_SuspectsItsEnd) {
  WaitOn(1, 5);
  ReceiveHeartbeat(1, 5, FrameType::kAllReduce, 2);
  ReceiveHeartbeat(2, 5, FrameType::kAllReduce, 3);
  // Rank 3 reports that operation 5 is done.
  ReceiveHeartbeat(3, 5, FrameType::kHeartbeat, -1);
  const FailureDetector::Suspect suspect = Pass(100 * kTimeout);
  EXPECT_EQ(suspect.worker, 3);
  EXPECT_EQ(suspect.cause, LossCause::kStalled);
}

// Rank 2 has just begun the operation for which this rank and the other ranks
// have long waited. The last report of rank 3, which waits for this rank, is
// older.
TEST_F(FailureDetectorTest, Tick_PeerHasJustBegun_IsNoStandstillYet) {
  WaitOn(1, 5);
  ReceiveHeartbeat(1, 5, FrameType::kAllReduce, 2);
  ReceiveHeartbeat(3, 5, FrameType::kAllReduce, 0);
  ReceiveHeartbeat(2, 4, FrameType::kHeartbeat, -1);
  EXPECT_EQ(Pass(10 * kTimeout).worker, -1);
  ReceiveHeartbeat(2, 5, FrameType::kAllReduce, 3);
  EXPECT_EQ(Pass(kTimeout).worker, -1);
  EXPECT_EQ(Pass(kTimeout).worker, 3);  // no rank has made progress since
}

TEST_F(FailureDetectorTest, Tick_BytesMove_SuspectsNoneUntilTheyStop) {
  ReceiveHeartbeat(1, 5, FrameType::kAllReduce, -1);
  for (int i = 0; i < 100; ++i) {
    WaitOn(1, 5, 1000 + i);
    ASSERT_EQ(Pass(kTimeout / 2).worker, -1);
  }
  EXPECT_EQ(Pass(2 * kTimeout).worker, 1);
}

TEST_F(FailureDetectorTest, Tick_CircleOfWaits_SuspectsARankInTheEnd) {
  WaitOn(1, 5);
  ReceiveHeartbeat(1, 5, FrameType::kAllReduce, 2);
  ReceiveHeartbeat(2, 5, FrameType::kAllReduce, 1);
  EXPECT_GE(Pass(100 * kTimeout).worker, 1);
}

TEST_F(FailureDetectorTest, Tick_OwnProcessStoodStill_SuspectsItself) {
  bool beat;
  now_ += 3 * kTimeout;
  const FailureDetector::Suspect suspect = members_.Tick(now_, &beat);
  EXPECT_EQ(suspect.worker, 0);
  EXPECT_EQ(suspect.cause, LossCause::kSelfStalled);
}

TEST_F(FailureDetectorTest, ConnectionEnd_SelfStalled_SuspectsItself) {
  EXPECT_EQ(members_.SelfStalled(now_).worker, -1);
  now_ += members_.tick_nanos() + kTimeout * 9 / 10;
  // The worker suspects itself from before the late tick until the next tick.
  EXPECT_EQ(members_.SelfStalled(now_).worker, 0);
  bool beat;
  EXPECT_EQ(members_.Tick(now_, &beat).worker, -1);
  EXPECT_EQ(members_.SelfStalled(now_).worker, 0);
  now_ += members_.tick_nanos();
  members_.Tick(now_, &beat);
  EXPECT_EQ(members_.SelfStalled(now_).worker, -1);
}

// After a stall while a ring forms: the worker has not read yet the frames that
// arrived meanwhile, and some of the other workers may have been stalled too.
TEST_F(FailureDetectorTest, SelfStalled_Later_DoesNotCountThatTime) {
  bool beat;
  now_ += 3 * kTimeout;
  members_.Tick(now_, &beat);
  now_ += members_.tick_nanos();
  EXPECT_EQ(members_.Tick(now_, &beat).worker, -1);
  EXPECT_TRUE(members_.Hears(1, now_));
  EXPECT_EQ(Pass(2 * kTimeout, 1).worker, 1);
}

// While this worker was stalled it read no frame of the other workers.
TEST_F(FailureDetectorTest, Progress_OneTickIsLate_IsAsRecentAsBefore) {
  bool beat;
  ReceiveHeartbeat(1, 5, FrameType::kAllReduce, -1);
  ASSERT_EQ(Pass(kTimeout).worker, -1);
  WaitOn(1, 5, /*moved=*/1000);
  ASSERT_EQ(Pass(kTimeout * 6 / 5).worker, -1);
  now_ += members_.tick_nanos() + kTimeout * 9 / 10;
  EXPECT_EQ(members_.Tick(now_, &beat).worker, -1);
}

TEST_F(FailureDetectorTest, Tick_OwnTicksLateByLessThanATimeout_SuspectsNone) {
  bool beat;
  // Late by 0.9 T, again and again, with the peers' beats unread meanwhile.
  now_ += members_.tick_nanos() + kTimeout * 9 / 10;
  EXPECT_EQ(members_.Tick(now_, &beat).worker, -1);
  for (int r = 1; r < 4; ++r) members_.RecordHeard(r, now_);
  now_ += members_.tick_nanos() + kTimeout * 9 / 10;
  EXPECT_EQ(members_.Tick(now_, &beat).worker, -1);
}

TEST_F(FailureDetectorTest, Lost_RankInAnOperation_NamesRankCauseAndOperation) {
  WaitOn(1, 5);
  members_.SetGeneration(7);
  const Status status =
      members_.LossError({2, LossCause::kSilent, 1.25}, "no heartbeat");
  EXPECT_EQ(status.code(), Code::kPeerLost);
  EXPECT_EQ(status.rank(), 2);
  EXPECT_STREQ(status.message(),
               "rank 2 (c:3) was lost: silent for 1.25 s: no heartbeat, "
               "generation 7, step 17, in operation 5 (all-reduce) as seen "
               "from rank 0");
}

TEST(HeartbeatTest, Decode_EncodedHeartbeat_GivesTheSameActivity) {
  for (int on : {-1, 0, 3}) {
    Activity activity;
    activity.step = 123456789012;
    activity.sequence = 42;
    activity.type = FrameType::kBroadcast;
    activity.waiting_on = on;
    FrameHeader header;
    uint8_t payload[kHeartbeatBytes];
    EncodeHeartbeat(activity, &header, payload);
    Activity back;
    ASSERT_OK(DecodeHeartbeat(header, payload, 4, &back));
    EXPECT_EQ(back.step, activity.step);
    EXPECT_EQ(back.sequence, 42u);
    EXPECT_EQ(back.type, FrameType::kBroadcast);
    EXPECT_EQ(back.waiting_on, on);
  }
}

TEST(HeartbeatTest, Decode_WrongRankTypeOrLength_IsRejected) {
  FrameHeader header;
  uint8_t payload[kHeartbeatBytes];
  Activity activity;
  activity.waiting_on = 4;  // the ranks are 0 to 3
  EncodeHeartbeat(activity, &header, payload);
  EXPECT_FALSE(DecodeHeartbeat(header, payload, 4, &activity).ok());
  activity.waiting_on = 1;
  EncodeHeartbeat(activity, &header, payload);
  for (int type = 0; type < 256; ++type) {
    payload[0] = static_cast<uint8_t>(type);
    EXPECT_EQ(DecodeHeartbeat(header, payload, 4, &activity).ok(),
              type == 4 || (type >= 16 && type <= 20));
  }
  header.payload_bytes = 3;
  payload[0] = 4;
  EXPECT_FALSE(DecodeHeartbeat(header, payload, 4, &activity).ok());
}

ChainEnd EndExample() {
  ChainEnd end;
  end.worker = 3;
  end.activity.step = 123456789012;
  end.activity.sequence = 42;
  end.activity.type = FrameType::kBroadcast;
  end.activity.waiting_on = 2;
  end.reported_for_ms = 0x01020304;
  end.unchanged_for_ms = 0xfffffffe;
  end.oldest_report_ms = 7;
  return end;
}

TEST(HeartbeatTest, Decode_HeartbeatWithAChainEnd_GivesTheChainEnd) {
  FrameHeader header;
  uint8_t payload[kHeartbeatBytes + kChainEndBytes];
  EncodeHeartbeat(Activity(), &header, payload, EndExample());
  ASSERT_EQ(header.payload_bytes, sizeof(payload));
  EXPECT_EQ(header.payload_bytes, MaxPayload(FrameType::kHeartbeat));
  Activity back;
  ChainEnd end;
  ASSERT_OK(DecodeHeartbeat(header, payload, 4, &back, &end));
  EXPECT_EQ(end.worker, 3);
  EXPECT_TRUE(end.activity == EndExample().activity);
  EXPECT_EQ(end.reported_for_ms, 0x01020304u);
  EXPECT_EQ(end.unchanged_for_ms, 0xfffffffeu);
  EXPECT_EQ(end.oldest_report_ms, 7u);
  EXPECT_FALSE(DecodeHeartbeat(header, payload, 4, &back).ok())
      << "a small ring has no such end";
  EXPECT_FALSE(DecodeHeartbeat(header, payload, 3, &back, &end).ok());
  EXPECT_EQ(end.worker, -1);
  payload[kHeartbeatBytes + 7] = 1;
  EXPECT_FALSE(DecodeHeartbeat(header, payload, 4, &back, &end).ok());
  EncodeHeartbeat(Activity(), &header, payload);
  ASSERT_OK(DecodeHeartbeat(header, payload, 4, &back, &end));
  EXPECT_EQ(end.worker, -1);
}

// Some ranks of a ring of 32, in which heartbeats pass between linked ranks.
class LargeRingTest : public testing::Test {
 protected:
  static constexpr int kSize = 32;
  LargeRingTest() {
    FailureDetector::Options options;
    options.timeout_nanos = kTimeout;
    options.addresses.resize(kSize, "a:1");
    for (int r = 0; r < kSize; ++r) {
      options.worker = r;
      ranks_.emplace_back(options, now_);
      for (const int peer : LinksOf(r, kSize)) ranks_[r].AddPeer(peer, now_);
      Does(r, FrameType::kHeartbeat, 4, -1);
    }
  }
  void Does(int rank, FrameType type, uint64_t sequence, int waiting_on) {
    Activity activity;
    activity.sequence = sequence;
    activity.type = type;
    activity.waiting_on = waiting_on;
    ranks_[rank].SetActivity(activity, 0, now_);
  }
  // All beat; `moves` is done at every tick. Returns each rank's suspect.
  std::map<int, int> Pass(int64_t nanos, const std::function<void()>& moves) {
    std::map<int, int> suspects;
    const int64_t end = now_ + nanos;
    while (now_ < end && suspects.empty()) {
      now_ += ranks_[0].tick_nanos();
      moves();
      for (int r = 0; r < kSize; ++r) {
        bool beat = false;
        const FailureDetector::Suspect suspect = ranks_[r].Tick(now_, &beat);
        if (suspect.worker >= 0) suspects[r] = suspect.worker;
        if (beat) Beat(r);
      }
    }
    return suspects;
  }
  void Beat(int from) {
    FrameHeader header;
    uint8_t payload[kHeartbeatBytes + kChainEndBytes];
    EncodeHeartbeat(ranks_[from].activity(), &header, payload,
                    ranks_[from].EndOfChain(now_));
    for (const int to : LinksOf(from, kSize)) {
      Activity activity;
      ChainEnd end;
      ASSERT_OK(DecodeHeartbeat(header, payload, kSize, &activity, &end));
      ranks_[to].RecordHeard(from, now_);
      ranks_[to].OnHeartbeat(from, activity, now_, end);
    }
  }

  int64_t now_ = 5000 * kMs;
  std::vector<FailureDetector> ranks_;
};

// Every rank waits for its left neighbour, and the last one computes.
TEST_F(LargeRingTest, LongChain_ItsEndComputes_IsWaitedForAndNamed) {
  for (int r = 1; r < kSize; ++r) Does(r, FrameType::kAllReduce, 5, r - 1);
  EXPECT_TRUE(Pass(60 * kTimeout, [] {}).empty());
  const std::vector<std::string> addresses(kSize, "a:1");
  EXPECT_EQ(WaitText(ranks_[31], 31, now_, 60, addresses),
            "rank 31 has waited 60 s in operation 5 (all-reduce), step 0, for "
            "rank 30 (a:1), which has been in operation 5 (all-reduce), step "
            "0, for 60 s, waiting for rank 29; at the end of that is rank 0 "
            "(a:1), which has computed for 60 s, step 0, after operation 4");
}

TEST_F(LargeRingTest, StuckRank_StillBeats_IsSuspectedByItsNeighbour) {
  for (int r = 1; r < kSize; ++r) Does(r, FrameType::kAllReduce, 5, r - 1);
  Does(0, FrameType::kAllReduce, 5, -1);
  const std::map<int, int> suspects = Pass(3 * kTimeout, [] {});
  EXPECT_EQ(suspects, (std::map<int, int>{{1, 0}}));
}

TEST_F(LargeRingTest, CircleOfWaits_NoProgress_IsSuspected) {
  for (int r = 0; r < kSize; ++r) {
    Does(r, FrameType::kAllReduce, 5, (r + kSize - 1) % kSize);
  }
  EXPECT_FALSE(Pass(20 * kTimeout, [] {}).empty());
}

// Reports of a circle of waits that may never have existed: the oldest report
// is from before the last wait began.
TEST_F(LargeRingTest, CircleOfWaits_OldReport_IsNoStandstill) {
  for (const uint32_t seen_ms : {100u, 400u, 600u, 5000u}) {
    now_ += 10 * kTimeout;
    Activity waits;
    waits.sequence = 5;
    waits.type = FrameType::kAllReduce;
    waits.waiting_on = 29;
    Does(31, FrameType::kAllReduce, 5, 30);
    for (int i = 0; i < 17; ++i) {  // 2.1 timeouts
      now_ += ranks_[31].tick_nanos();
      ChainEnd end;
      end.worker = 31;
      end.unchanged_for_ms = 2000;
      end.oldest_report_ms = seen_ms;
      ranks_[31].OnHeartbeat(30, waits, now_, end);
      for (const int peer : LinksOf(31, kSize))
        ranks_[31].RecordHeard(peer, now_);
      bool beat = false;
      const FailureDetector::Suspect suspect = ranks_[31].Tick(now_, &beat);
      if (i < 16) continue;
      EXPECT_EQ(suspect.worker, seen_ms < 500 ? 30 : -1) << seen_ms;
    }
    Does(31, FrameType::kHeartbeat, 5, -1);
  }
}

TEST_F(FailureDetectorTest, WaitText_PeerSilentOrComputing_ReportsItsActivity) {
  const std::vector<std::string> addresses = {"a:1", "b:2", "c:3", "d:4"};
  Activity computes;
  computes.step = 16;
  computes.sequence = 4;
  WaitOn(2);
  members_.OnHeartbeat(2, computes, now_);
  now_ += 7000 * kMs;
  EXPECT_EQ(WaitText(members_, 0, now_, 5, addresses),
            "rank 0 has waited 5.0 s in operation 5 (all-reduce), step 17, for "
            "rank 2 (c:3), silent for 7.0 s, which last reported that it "
            "computes, step 16, after operation 4");
  members_.RecordHeard(2, now_);
  EXPECT_EQ(
      WaitText(members_, 0, now_, 5, addresses),
      "rank 0 has waited 5.0 s in operation 5 (all-reduce), step 17, for "
      "rank 2 (c:3), which has computed for 7 s, step 16, after operation "
      "4");
}

TEST_F(FailureDetectorTest, WaitText_ChainOfWaits_NamesItsEnd) {
  const std::vector<std::string> addresses = {"a:1", "b:2", "c:3", "d:4"};
  WaitOn(3);
  ReceiveHeartbeat(3, 5, FrameType::kAllReduce, 2);
  ReceiveHeartbeat(2, 5, FrameType::kAllReduce, 1);
  ReceiveHeartbeat(1, 4, FrameType::kHeartbeat, -1);
  now_ += 60000 * kMs;
  for (const int peer : {1, 2, 3}) members_.RecordHeard(peer, now_);
  EXPECT_EQ(
      WaitText(members_, 0, now_, 61.4, addresses),
      "rank 0 has waited 61 s in operation 5 (all-reduce), step 17, for rank 3 "
      "(d:4), which has been in operation 5 (all-reduce), step 0, for 60 s, "
      "waiting for rank 2; at the end of that is rank 1 (b:2), which has "
      "computed for 60 s, step 0, after operation 4");
}

TEST_F(FailureDetectorTest, WaitsFor_SilentRankInTheChain_EndsThere) {
  const std::vector<std::string> addresses = {"a:1", "b:2", "c:3", "d:4"};
  WaitOn(1);
  ReceiveHeartbeat(1, 3, FrameType::kAllReduce, 2);
  now_ += 20 * kTimeout;
  ReceiveHeartbeat(2, 5, FrameType::kAllReduce, 1);
  members_.RecordHeard(2, now_);
  const auto waiting = members_.AwaitedWorkers(now_);
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].worker, 1);
  EXPECT_GT(waiting[0].silent, 0);
}

TEST_F(FailureDetectorTest, WaitsFor_CircleOfWaits_GivesAChainThatEnds) {
  WaitOn(1);
  ReceiveHeartbeat(1, 5, FrameType::kAllReduce, 2);
  ReceiveHeartbeat(2, 5, FrameType::kAllReduce,
                   1);  // a peer that lies makes no endless
  const auto waiting = members_.AwaitedWorkers(now_);
  EXPECT_LE(waiting.size(), 4u);
  ReceiveHeartbeat(2, 5, FrameType::kAllReduce, 0);
  EXPECT_EQ(members_.AwaitedWorkers(now_).size(), 2u);
  WaitOn(-1);
  EXPECT_EQ(WaitText(members_, 0, now_, 2, {"a:1"}),
            "rank 0 has waited 2.0 s in operation 5 (all-reduce), step 17, for "
            "the network to accept its data");
}

TEST(ReminderTest, Next_AfterTheTimeout_ComesLessAndLessOften) {
  const auto times = [](double timeout) {
    std::vector<double> all;
    Reminder reminder(timeout);
    for (int i = 0; i < 8; ++i) {
      all.push_back(reminder.next());
      reminder.Advance();
    }
    return all;
  };
  EXPECT_EQ(times(5), (std::vector<double>{5, 10, 20, 40, 80, 140, 200, 260}));
  EXPECT_EQ(times(100),
            (std::vector<double>{100, 200, 300, 400, 500, 600, 700, 800}));
}

}  // namespace
}  // namespace ringlet
