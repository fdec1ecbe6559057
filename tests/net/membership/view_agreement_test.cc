#include "net/membership/view_agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../support/worker_set.h"
#include "view_agreement_options.h"

namespace ringlet {
namespace {

ViewFrame MakeFrame(ViewMessage message, uint64_t workers,
                    uint32_t generation) {
  ViewFrame frame;
  frame.message = message;
  frame.workers = workers;
  frame.generation = generation;
  return frame;
}

// A network without delays. Frames wait until a test delivers them.
class ScriptedNetwork {
 public:
  ScriptedNetwork(int size, int min_workers) {
    for (int w = 0; w < size; ++w)
      AddWorker(w, MakeOptions(w, size, min_workers));
  }
  void AddWorker(int w, const ViewAgreement::Options& options) {
    workers_.resize(std::max<size_t>(workers_.size(), w + 1));
    workers_[w] = std::make_unique<ViewAgreement>(options, now_);
  }
  ViewAgreement& at(int w) { return *workers_[w]; }
  bool alive(int w) const { return workers_[w] != nullptr; }

  void Link(int a, int b) {
    const uint32_t counts[] = {at(a).next_count(), at(b).next_count()};
    at(a).AddPeer(b, counts[1], now_);
    at(b).AddPeer(a, counts[0], now_);
    Collect();
  }
  void Disconnect(int a, int b) {
    Forget(a, b);
    if (alive(a)) at(a).RemovePeer(b, now_);
    if (alive(b)) at(b).RemovePeer(a, now_);
    Collect();
  }
  void LinkAll() {
    for (int a = 0; a < Size(); ++a) {
      for (int b = 0; b < a; ++b) Link(b, a);
    }
  }
  // Kills a worker. with_frames: the frames that it has sent still arrive; else
  // they are lost.
  void Kill(int w, bool with_frames) {
    workers_[w].reset();
    if (!with_frames) {
      for (int v = 0; v < Size(); ++v) Forget(w, v);
    }
    for (int v = 0; v < Size(); ++v) {
      if (v != w) Drain(w, v);
    }
    for (int v = 0; v < Size(); ++v) {
      if (!alive(v)) continue;
      Forget(v, w);
      at(v).RemovePeer(w, now_);
    }
    Collect();
  }
  // Delivers the oldest frame of this type from `from` to `to`, and all frames
  // before it. False if there is none.
  bool DeliverUpTo(int from, int to, ViewMessage type) {
    std::deque<ViewFrame>& queue = queues_[{from, to}];
    while (!queue.empty() && alive(to)) {
      const ViewFrame frame = queue.front();
      queue.pop_front();
      at(to).OnFrame(from, frame, now_);
      Collect();
      if (frame.message == type) return true;
    }
    return false;
  }
  // Delivers frames from `from` to `to` as long as there is a hears among them.
  void DeliverAllHears(int from, int to) {
    while (DeliverUpTo(from, to, ViewMessage::kHears)) {
    }
  }
  // Delivers a frame that `from` has not sent.
  void DeliverForged(int from, int to, ViewMessage message, uint64_t workers,
                     uint32_t generation) {
    at(to).OnFrame(from, MakeFrame(message, workers, generation), now_);
  }
  void Drop(int from, int to) { queues_[{from, to}].clear(); }
  // Delivers all lists of heard workers that are not behind another frame.
  void DeliverHeardLists() {
    for (bool some = true; some;) {
      some = false;
      for (int a = 0; a < Size(); ++a) {
        for (int b = 0; b < Size(); ++b) {
          std::deque<ViewFrame>& queue = queues_[{a, b}];
          if (queue.empty() || queue.front().message != ViewMessage::kHears)
            continue;
          some = DeliverUpTo(a, b, ViewMessage::kHears);
        }
      }
    }
  }
  // All hear each other, 0 has proposed, and worker 1 has acknowledged.
  void ProposeToOne() {
    LinkAll();
    DeliverHeardLists();
    EXPECT_TRUE(DeliverUpTo(0, 1, ViewMessage::kPropose));
    EXPECT_TRUE(DeliverUpTo(1, 0, ViewMessage::kAck));
  }
  void DeliverAll() {
    for (bool some = true; some;) {
      some = false;
      for (int a = 0; a < Size(); ++a) {
        for (int b = 0; b < Size(); ++b) some = Drain(a, b) || some;
      }
    }
  }
  void Pass(int64_t time) {
    for (const int64_t end = now_ + time; now_ < end; now_ += kT / 40) {
      for (int w = 0; w < Size(); ++w) {
        if (alive(w)) at(w).Tick(now_);
      }
      Collect();
      DeliverAll();
    }
  }
  void TickOnly(int w, int64_t time) {
    now_ += time;
    at(w).Tick(now_);
    Collect();
  }
  // The members of w's view as "0 1", or "-" if it is in none.
  std::string Sees(int w) {
    if (!at(w).running()) return "-";
    std::string out;
    for (int v = 0; v < Size(); ++v) {
      if (!at(w).view().has(v)) continue;
      out += (out.empty() ? "" : " ") + std::to_string(v);
    }
    return out;
  }
  int Size() const { return static_cast<int>(workers_.size()); }
  int64_t now_ = 0;

 private:
  void Forget(int a, int b) {
    queues_[{a, b}].clear();
    queues_[{b, a}].clear();
  }
  bool Drain(int from, int to) {
    bool some = false;
    std::deque<ViewFrame>& queue = queues_[{from, to}];
    while (!queue.empty() && alive(to)) {
      const ViewFrame frame = queue.front();
      queue.pop_front();
      at(to).OnFrame(from, frame, now_);
      Collect();
      some = true;
    }
    return some;
  }
  void Collect() {
    for (int w = 0; w < Size(); ++w) {
      if (!alive(w)) continue;
      for (const ViewAgreement::Out& out : at(w).out) {
        // As in a session, only frames that the decoder accepts are delivered.
        uint8_t bytes[kViewBytes];
        ViewFrame frame;
        EncodeView(out.frame, bytes);
        EXPECT_TRUE(
            DecodeView(bytes, ViewBytes(Size()), Size(), w, &frame).ok());
        queues_[{w, out.to}].push_back(frame);
      }
      at(w).out.clear();
    }
  }

  std::vector<std::unique_ptr<ViewAgreement>> workers_;
  std::map<std::pair<int, int>, std::deque<ViewFrame>> queues_;
};

TEST(ViewAgreementTest, View_AllAreLinked_IsAgreedImmediately) {
  ScriptedNetwork network(4, 2);
  network.LinkAll();
  network.DeliverAll();
  for (int w = 0; w < 4; ++w) {
    EXPECT_EQ(network.Sees(w), "0 1 2 3");
    EXPECT_EQ(network.at(w).view().generation, ViewGeneration(1, 0));
    EXPECT_FALSE(network.at(w).has_joiner());
  }
}

TEST(ViewAgreementTest, Generation_MemberKnowsLaterViews_IsGreaterThanThose) {
  ScriptedNetwork network(3, 1);
  ViewAgreement::Options options = MakeOptions(2, 3, 1);
  options.count = 7;
  network.AddWorker(2, options);
  network.LinkAll();
  network.DeliverAll();
  EXPECT_EQ(network.at(1).view().generation, ViewGeneration(7, 0));
  EXPECT_EQ(network.at(1).next_count(), 8u);
}

TEST(ViewAgreementTest, View_WorkerIsMissing_FormsWithoutItAfterTheWait) {
  ScriptedNetwork network(3, 2);
  network.Link(1, 2);
  network.DeliverAll();
  network.Pass(kT / 2 - kT / 20);
  EXPECT_EQ(network.Sees(1), "-");
  network.Pass(kT / 10);
  EXPECT_EQ(network.Sees(1), "1 2");
  EXPECT_EQ(network.Sees(2), "1 2");
}

// One of them has only just begun to wait, and need not be waited for.
TEST(ViewAgreementTest, View_OneMemberHasWaitedLongEnough_Forms) {
  ScriptedNetwork network(3, 2);
  for (const int w : {0, 1}) {
    ViewAgreement::Options options = MakeOptions(w, 3, 2);
    options.partial_view_at = w == 0 ? 100 * kT : kT / 2;
    network.AddWorker(w, options);
  }
  network.Link(0, 1);
  network.Pass(kT);
  EXPECT_EQ(network.Sees(0), "0 1");
}

TEST(ViewAgreementTest, View_FewerThanMinWorkers_FormsOnceThereAreEnough) {
  ScriptedNetwork network(4, 3);
  network.Link(0, 1);
  network.Pass(20 * kT);
  EXPECT_EQ(network.Sees(0), "-");
  EXPECT_EQ(network.at(0).present(), 2);
  network.Link(0, 2);
  network.Link(1, 2);
  network.Pass(kT);
  EXPECT_EQ(network.Sees(2), "0 1 2");
}

TEST(ViewAgreementTest, View_MinWorkersIsOne_FormsOfOneWorker) {
  ScriptedNetwork network(3, 1);
  network.Pass(kT);
  for (int w = 0; w < 3; ++w) {
    EXPECT_EQ(network.Sees(w), std::to_string(w));
    EXPECT_FALSE(network.at(w).has_joiner());
  }
}

TEST(ViewAgreementTest, Wait_PeerFlaps_Ends) {
  ScriptedNetwork network(3, 2);
  network.Link(0, 1);
  for (int i = 0; i < 30 && network.Sees(0) == "-"; ++i) {
    network.Pass(kT / 10);
    network.Link(0, 2);
    network.Pass(kT / 10);
    network.Disconnect(0, 2);
  }
  EXPECT_EQ(network.Sees(0), "0 1");
}

// Each time: a worker that was nearly in a view long ago waits for quiet too.
TEST(ViewAgreementTest, QuietWait_EarlierOneWasInterrupted_BeginsAgain) {
  ScriptedNetwork network(4, 3);
  network.Link(0, 1);
  network.Pass(kT);
  for (const int w : {0, 1}) network.Link(w, 2);
  network.DeliverAll();
  for (const int w : {0, 1}) network.Disconnect(w, 2);
  network.Pass(5 * kT);
  for (const int w : {0, 1}) network.Link(w, 2);
  network.Pass(kT / 8);
  EXPECT_EQ(network.Sees(0), "-");
  for (const int w : {0, 1, 2}) network.Link(w, 3);
  network.DeliverAll();
  EXPECT_EQ(network.Sees(0), "0 1 2 3");
}

TEST(ViewAgreementTest, View_NotAllAreLinked_LeavesOutAsFewAsPossible) {
  ScriptedNetwork network(5, 1);
  network.LinkAll();
  // 3 hears neither 2 nor 4: without it the other four hear each other.
  network.Disconnect(3, 2);
  network.Disconnect(3, 4);
  network.Pass(kT);
  for (const int w : {0, 1, 2, 4}) EXPECT_EQ(network.Sees(w), "0 1 2 4");
  // Worker 3 hears only some of that view, so the view cannot take it in.
  EXPECT_EQ(network.Sees(3), "3");
  EXPECT_FALSE(network.at(0).has_joiner());
  EXPECT_FALSE(network.at(3).has_joiner());
  network.Link(3, 2);
  network.DeliverAll();
  EXPECT_FALSE(network.at(0).has_joiner());
  network.Link(3, 4);
  network.DeliverAll();
  for (int w = 0; w < 5; ++w) EXPECT_TRUE(network.at(w).has_joiner()) << w;
}

// 0 hears 1 alone, which is not enough; the other workers are enough.
TEST(ViewAgreementTest, LowerWorker_HearsTooFew_DelaysNoView) {
  ScriptedNetwork network(4, 3);
  network.Link(0, 1);
  network.Link(1, 2);
  network.Link(1, 3);
  network.Link(2, 3);
  network.Pass(kT);
  EXPECT_EQ(network.Sees(0), "-");
  for (const int w : {1, 2, 3}) EXPECT_EQ(network.Sees(w), "1 2 3");
}

TEST(ViewAgreementTest, Proposer_EndsBeforeAnAck_IsReplaced) {
  ScriptedNetwork network(3, 1);
  network.Link(0, 1);
  network.Link(0, 2);
  network.Link(1, 2);
  network.DeliverHeardLists();
  EXPECT_TRUE(network.DeliverUpTo(0, 1, ViewMessage::kPropose));
  network.Kill(0, /*with_frames=*/false);
  network.Pass(kT);
  EXPECT_EQ(network.Sees(1), "1 2");
  EXPECT_EQ(network.Sees(2), "1 2");
}

// The START has reached worker 1 only.
TEST(ViewAgreementTest, Start_ReachesOneMemberOnly_EndsThere) {
  ScriptedNetwork network(3, 1);
  network.ProposeToOne();
  EXPECT_TRUE(network.DeliverUpTo(0, 2, ViewMessage::kPropose));
  EXPECT_TRUE(network.DeliverUpTo(2, 0, ViewMessage::kAck));
  EXPECT_EQ(network.Sees(0), "0 1 2");
  EXPECT_TRUE(network.DeliverUpTo(0, 1, ViewMessage::kStart));
  network.Drop(0, 2);
  network.Kill(0, /*with_frames=*/false);
  network.DeliverAll();
  // Worker 1 has lost a member: its session ends the view. Worker 2, which has
  // given it up, reports that to a worker that counts it in.
  EXPECT_EQ(network.Sees(1), "0 1 2");
  EXPECT_EQ(network.at(1).departed_member(), 2);
  EXPECT_EQ(network.Sees(2), "-");
}

TEST(ViewAgreementTest, Ack_OfAReplacedProposal_IsVoid) {
  ScriptedNetwork network(4, 1);
  for (const int w : {1, 2, 3}) network.Link(0, w);
  network.Link(1, 2);
  network.Link(1, 3);
  network.Link(2, 3);
  network.DeliverHeardLists();
  EXPECT_TRUE(network.DeliverUpTo(0, 1, ViewMessage::kPropose));
  const uint32_t first = network.at(1).view().generation;
  ASSERT_EQ(first, ViewGeneration(1, 0));
  EXPECT_TRUE(network.DeliverUpTo(0, 2, ViewMessage::kPropose));
  EXPECT_TRUE(network.DeliverUpTo(2, 0, ViewMessage::kAck));
  network.Disconnect(0, 3);
  EXPECT_EQ(network.at(0).view().generation, 0u);
  EXPECT_TRUE(network.DeliverUpTo(1, 0, ViewMessage::kAck));
  EXPECT_EQ(network.Sees(0), "-");
  network.Pass(kT);
  for (const int w : {0, 1, 2}) {
    EXPECT_EQ(network.Sees(w), "0 1 2");
    EXPECT_GT(network.at(w).view().generation, first);
  }
}

// Worker 0 proposes the same members again before worker 1 has answered.
TEST(ViewAgreementTest, Ack_OfAnOlderProposal_DoesNotCount) {
  ScriptedNetwork network(3, 1);
  network.LinkAll();
  network.DeliverHeardLists();
  EXPECT_TRUE(network.DeliverUpTo(0, 1, ViewMessage::kPropose));
  network.TickOnly(0, kT / 2);
  ASSERT_EQ(network.at(0).view().generation, ViewGeneration(2, 0));
  EXPECT_TRUE(network.DeliverUpTo(1, 0, ViewMessage::kAck));
  for (int proposal = 1; proposal <= 2; ++proposal) {
    EXPECT_TRUE(network.DeliverUpTo(0, 2, ViewMessage::kPropose));
    EXPECT_TRUE(network.DeliverUpTo(2, 0, ViewMessage::kAck));
  }
  EXPECT_EQ(network.Sees(0), "-");
  network.DeliverAll();
  EXPECT_EQ(network.Sees(0), "0 1 2");
}

// The link of workers 1 and 2 ends while the proposal is on its way to
// worker 1.
TEST(ViewAgreementTest, Acknowledge_HearsNotAllMembers_IsLeftOut) {
  ScriptedNetwork network(3, 1);
  network.LinkAll();
  network.DeliverHeardLists();
  network.Disconnect(1, 2);
  EXPECT_TRUE(network.DeliverUpTo(0, 1, ViewMessage::kPropose));
  EXPECT_EQ(network.at(1).view().generation, 0u);
  EXPECT_TRUE(network.DeliverUpTo(0, 2, ViewMessage::kPropose));
  EXPECT_EQ(network.at(2).view().generation, 0u);
  network.DeliverAll();
  EXPECT_EQ(network.Sees(0), "-");
  network.Pass(kT);
  EXPECT_EQ(network.Sees(0), "0 1");
  EXPECT_EQ(network.Sees(1), "0 1");
  EXPECT_EQ(network.Sees(2), "2");
}

TEST(ViewAgreementTest, View_NotAllHaveAcknowledged_DoesNotStart) {
  ScriptedNetwork network(3, 1);
  network.ProposeToOne();
  EXPECT_EQ(network.Sees(0), "-");
  const uint32_t generation = network.at(0).view().generation;
  // A refusal leads to the next proposal.
  network.DeliverForged(2, 0, ViewMessage::kHears, Workers({0, 1, 2}),
                        generation);
  EXPECT_EQ(network.at(0).view().generation, 0u);
  network.DeliverForged(2, 0, ViewMessage::kAck, Workers({0, 1, 2}),
                        generation);
  EXPECT_EQ(network.Sees(0), "-");
  network.Drop(0, 2);
  network.Pass(kT);
  EXPECT_EQ(network.Sees(0), "0 1 2");
  EXPECT_GT(network.at(0).view().generation, generation);
}

// Worker 2 acknowledges two proposals, and worker 1 starts its view then:
//
//   time | event                                  | expected
//   1    | 1 proposes {1, 2}; 2 acknowledges it   | 2 waits for its start
//   2    | 2 hears worker 0, and 0 hears 2        |
//   3    | 0 proposes {0, 2}; 2 acknowledges it   | 2 waits for this start
//   4    | the acknowledgement of 2 reaches 1     | 1 is in its view
//   5    | 1 sends the start to 2                 | 2 is in no view
//   6    | 2 refuses it                           | 1 knows that 2 has departed
TEST(ViewAgreementTest, Start_OfAnotherProposal_IsRefused) {
  ScriptedNetwork network(3, 1);
  network.Link(1, 2);
  network.DeliverHeardLists();
  network.TickOnly(1, kT);
  network.DeliverHeardLists();
  EXPECT_TRUE(network.DeliverUpTo(1, 2, ViewMessage::kPropose));
  ASSERT_EQ(ViewProposer(network.at(2).view().generation), 1);

  network.Link(0, 2);
  EXPECT_TRUE(network.DeliverUpTo(0, 2, ViewMessage::kHears));
  network.DeliverAllHears(2, 0);

  const uint32_t second = ViewGeneration(/*count=*/9, /*proposer=*/0);
  network.DeliverForged(0, 2, ViewMessage::kPropose, Workers({0, 2}), second);
  EXPECT_EQ(network.at(2).view().generation, second);

  EXPECT_TRUE(network.DeliverUpTo(2, 1, ViewMessage::kAck));
  EXPECT_EQ(network.Sees(1), "1 2");
  EXPECT_TRUE(network.DeliverUpTo(1, 2, ViewMessage::kStart));
  EXPECT_EQ(network.Sees(2), "-");
  EXPECT_EQ(network.at(2).view().generation, second);
  network.DeliverAllHears(2, 1);
  EXPECT_EQ(network.at(1).departed_member(), 2);
}

TEST(ViewAgreementTest, Joiner_OfARunningView_ProposesNothing) {
  ScriptedNetwork network(3, 1);
  network.Link(1, 2);
  network.Pass(kT);
  ASSERT_EQ(network.Sees(1), "1 2");
  ViewAgreement::Options options = MakeOptions(0, 3, 1);
  options.partial_view_at = 0;
  network.AddWorker(0, options);
  network.Link(0, 1);
  network.DeliverAll();
  EXPECT_FALSE(network.at(1).has_joiner());
  network.Link(0, 2);
  network.Pass(5 * kT);
  EXPECT_TRUE(network.at(1).has_joiner());
  EXPECT_TRUE(network.at(2).has_joiner());
  EXPECT_TRUE(network.at(0).join_pending());
  EXPECT_EQ(network.Sees(0), "-");
  // The awaited worker ends. It may return; otherwise the wait for it ends.
  network.Kill(1, /*with_frames=*/true);
  network.Kill(2, /*with_frames=*/true);
  network.Pass(kT);
  EXPECT_EQ(network.Sees(0), "-");
  network.Pass(2 * kT);
  EXPECT_EQ(network.Sees(0), "0");
}

// Workers 1 and 2 have ended their view and still compute. Worker 0 waits for
// both.
TEST(ViewAgreementTest, Wait_MemberLingers_IsJoinPending) {
  ScriptedNetwork network(3, 1);
  network.Link(1, 2);
  network.Pass(kT);
  ASSERT_EQ(network.Sees(1), "1 2");
  network.at(1).Linger(network.now_);
  network.at(2).Linger(network.now_);
  ViewAgreement::Options options = MakeOptions(0, 3, 1);
  options.partial_view_at = 0;
  network.AddWorker(0, options);
  network.Link(0, 1);
  network.Link(0, 2);
  network.Pass(10 * kT);
  EXPECT_TRUE(network.at(0).join_pending());
  EXPECT_EQ(network.Sees(0), "-");
  // Worker 1 ends, or forms another view.
  network.Kill(1, /*with_frames=*/true);
  network.Pass(10 * kT);
  EXPECT_EQ(network.Sees(0), "-");
  network.Kill(2, /*with_frames=*/true);
  network.Pass(kT);
  EXPECT_EQ(network.Sees(0), "-");
  network.Pass(2 * kT);
  EXPECT_EQ(network.Sees(0), "0");
}

// A worker with the report that the other workers have ended does not wait for
// them, nor for quiet.
TEST(ViewAgreementTest, Propose_AllExpectedArePresent_IsImmediate) {
  ScriptedNetwork network(4, 1);
  for (int w = 0; w < 3; ++w) {
    ViewAgreement::Options options = MakeOptions(w, 4, 1);
    options.awaited_mask = Workers({0, 1, 2});
    network.AddWorker(w, options);
  }
  network.Link(0, 1);
  network.DeliverAll();
  EXPECT_EQ(network.Sees(0), "-");  // one is still missing
  network.Link(0, 2);
  network.DeliverAll();
  EXPECT_EQ(network.Sees(0), "-");  // 1 and 2 do not hear each other
  network.Link(1, 2);
  network.DeliverAll();
  for (int w = 0; w < 3; ++w) EXPECT_EQ(network.Sees(w), "0 1 2");
}

// One worker was expected in vain: the other workers form the view that they
// would form without it.
TEST(ViewAgreementTest, Propose_ExpectedWorkerIsAbsent_SettlesWithoutIt) {
  ScriptedNetwork network(4, 1);
  for (int w = 0; w < 2; ++w) {
    ViewAgreement::Options options = MakeOptions(w, 4, 1);
    options.awaited_mask = Workers({0, 1, 2});
    network.AddWorker(w, options);
  }
  network.Link(0, 1);
  network.DeliverAll();
  EXPECT_EQ(network.Sees(0), "-");
  network.Pass(kT);
  EXPECT_EQ(network.Sees(0), "0 1");
  EXPECT_EQ(network.Sees(1), "0 1");
}

// Worker 0 waits for worker 1, which still computes, and continues as soon as
// worker 1 comes.
TEST(ViewAgreementTest, Propose_ExpectedWorkerLingers_WaitsForIt) {
  ScriptedNetwork network(3, 1);
  network.Link(1, 2);
  network.Pass(kT);
  ASSERT_EQ(network.Sees(1), "1 2");
  network.Kill(2, /*with_frames=*/true);
  network.at(1).Linger(network.now_);
  const auto enter = [&](int w) {
    ViewAgreement::Options options = MakeOptions(w, 3, 1);
    options.partial_view_at = network.now_ + kT / 2;
    options.awaited_mask = Workers({0, 1});
    network.AddWorker(w, options);
  };
  enter(0);
  network.Link(0, 1);
  network.DeliverAll();
  EXPECT_TRUE(network.at(0).join_pending());
  network.Kill(1, /*with_frames=*/true);
  network.Pass(kT);
  EXPECT_EQ(network.Sees(0), "-");
  enter(1);
  network.Link(0, 1);
  network.DeliverAll();
  for (int w = 0; w < 2; ++w) EXPECT_EQ(network.Sees(w), "0 1");
}

// Fewer than min_workers are no view, for any expected workers.
TEST(ViewAgreementTest, Propose_FewerThanMinWorkers_IsNoView) {
  ScriptedNetwork network(4, 3);
  for (int w = 0; w < 2; ++w) {
    ViewAgreement::Options options = MakeOptions(w, 4, 3);
    options.awaited_mask = Workers({0, 1});
    network.AddWorker(w, options);
  }
  network.Link(0, 1);
  network.Pass(5 * kT);
  EXPECT_EQ(network.Sees(0), "-");
}

// A lingering worker does not disturb workers that have formed a view without
// it.
TEST(ViewAgreementTest, Lingering_OthersFormedAView_DisturbsNone) {
  ScriptedNetwork network(3, 1);
  network.LinkAll();
  network.DeliverAll();
  ASSERT_EQ(network.Sees(2), "0 1 2");
  network.at(2).Linger(network.now_);
  for (const int w : {0, 1}) network.Disconnect(w, 2);
  for (const int w : {0, 1}) network.AddWorker(w, MakeOptions(w, 3, 1));
  network.Link(0, 1);
  network.Pass(2 * kT);
  ASSERT_EQ(network.Sees(0), "0 1");
  for (const int w : {0, 1}) network.Link(w, 2);
  network.Pass(kT);
  EXPECT_FALSE(network.at(0).has_joiner() || network.at(1).has_joiner());
}

TEST(ViewAgreementTest, Frames_OutOfTurn_ChangeNothing) {
  ScriptedNetwork network(3, 1);
  network.LinkAll();
  network.DeliverAll();
  const View view = network.at(1).view();
  for (const ViewMessage type : {ViewMessage::kAck, ViewMessage::kStart}) {
    network.DeliverForged(0, 1, type, Workers({0, 1, 2}), view.generation);
    EXPECT_EQ(network.at(1).departed_member(), -1);
  }
  const uint32_t later = ViewGeneration(/*count=*/0x77, /*proposer=*/0);
  network.DeliverForged(0, 1, ViewMessage::kAck, Workers({0, 1}), later);
  EXPECT_EQ(network.Sees(1), "0 1 2");
  EXPECT_EQ(network.at(1).departed_member(), -1);
  // A member that is in another view, or in none, has left this one.
  ScriptedNetwork other(3, 1);
  other.LinkAll();
  other.DeliverAll();
  const uint32_t latest = ViewGeneration(/*count=*/0x777, /*proposer=*/0);
  other.DeliverForged(0, 1, ViewMessage::kRuns, Workers({0}), latest);
  EXPECT_EQ(other.at(1).departed_member(), 0);
  network.DeliverForged(2, 1, ViewMessage::kHears, Workers({0, 1, 2}),
                        view.generation);
  EXPECT_EQ(network.at(1).departed_member(), 2);
}

}  // namespace
}  // namespace ringlet
