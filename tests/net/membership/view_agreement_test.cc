#include "net/membership/view_agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../../support/nanoseconds.h"
#include "../../support/random_cases.h"
#include "../../support/worker_set.h"

namespace ringlet {
namespace {

constexpr int64_t kT = 1000 * kMs;

ViewAgreement::Options OptionsOf(int worker, int size, int min_workers) {
  ViewAgreement::Options options;
  options.worker = worker;
  options.size = size;
  options.min_workers = min_workers;
  options.partial_view_at = kT / 2;
  options.quiet = kT / 4;
  options.timeout = kT;
  return options;
}

ViewFrame FrameOf(ViewMessage message, uint64_t workers, uint32_t generation) {
  ViewFrame frame;
  frame.message = message;
  frame.workers = workers;
  frame.generation = generation;
  return frame;
}

int Members(const View& view) { return __builtin_popcountll(view.members); }

// A network without delays. Frames wait until a test delivers them.
class ScriptedNetwork {
 public:
  ScriptedNetwork(int size, int min_workers) {
    for (int w = 0; w < size; ++w)
      AddWorker(w, OptionsOf(w, size, min_workers));
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
    at(to).OnFrame(from, FrameOf(message, workers, generation), now_);
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
  ViewAgreement::Options options = OptionsOf(2, 3, 1);
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
    ViewAgreement::Options options = OptionsOf(w, 3, 2);
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

// 0 hears 1 alone, which is not enough; the others are.
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
  network.Kill(0, false);
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
  network.Kill(0, false);
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
  ViewAgreement::Options options = OptionsOf(0, 3, 1);
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
  network.Kill(1, true);
  network.Kill(2, true);
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
  ViewAgreement::Options options = OptionsOf(0, 3, 1);
  options.partial_view_at = 0;
  network.AddWorker(0, options);
  network.Link(0, 1);
  network.Link(0, 2);
  network.Pass(10 * kT);
  EXPECT_TRUE(network.at(0).join_pending());
  EXPECT_EQ(network.Sees(0), "-");
  network.Kill(1, true);  // or it goes to form another
  network.Pass(10 * kT);
  EXPECT_EQ(network.Sees(0), "-");
  network.Kill(2, true);
  network.Pass(kT);
  EXPECT_EQ(network.Sees(0), "-");
  network.Pass(2 * kT);
  EXPECT_EQ(network.Sees(0), "0");
}

// A worker with the report that the others have ended does not wait for them,
// nor for quiet.
TEST(ViewAgreementTest, Propose_AllExpectedArePresent_IsImmediate) {
  ScriptedNetwork network(4, 1);
  for (int w = 0; w < 3; ++w) {
    ViewAgreement::Options options = OptionsOf(w, 4, 1);
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

// One worker was expected in vain: the others form the view that they would
// form without it.
TEST(ViewAgreementTest, Propose_ExpectedWorkerIsAbsent_SettlesWithoutIt) {
  ScriptedNetwork network(4, 1);
  for (int w = 0; w < 2; ++w) {
    ViewAgreement::Options options = OptionsOf(w, 4, 1);
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
  network.Kill(2, true);
  network.at(1).Linger(network.now_);
  const auto enter = [&](int w) {
    ViewAgreement::Options options = OptionsOf(w, 3, 1);
    options.partial_view_at = network.now_ + kT / 2;
    options.awaited_mask = Workers({0, 1});
    network.AddWorker(w, options);
  };
  enter(0);
  network.Link(0, 1);
  network.DeliverAll();
  EXPECT_TRUE(network.at(0).join_pending());
  network.Kill(1, true);
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
    ViewAgreement::Options options = OptionsOf(w, 4, 3);
    options.awaited_mask = Workers({0, 1});
    network.AddWorker(w, options);
  }
  network.Link(0, 1);
  network.Pass(5 * kT);
  EXPECT_EQ(network.Sees(0), "-");
}

// Nor does it disturb workers that have formed a view without it.
TEST(ViewAgreementTest, Lingering_OthersFormedAView_DisturbsNone) {
  ScriptedNetwork network(3, 1);
  network.LinkAll();
  network.DeliverAll();
  ASSERT_EQ(network.Sees(2), "0 1 2");
  network.at(2).Linger(network.now_);
  for (const int w : {0, 1}) network.Disconnect(w, 2);
  for (const int w : {0, 1}) network.AddWorker(w, OptionsOf(w, 3, 1));
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

// Workers that crash and restart, over links with delays, some of which break.
// The class does a small part of a session's work: it ends a view that has lost
// a member, and forms the next one. If there is a joiner, it does so soon.
class RandomNetwork {
 public:
  explicit RandomNetwork(uint64_t seed) : random_(seed) {
    const bool large = seed % 200 == 199;
    size_ = large ? 17 + static_cast<int>(Random(48))
                  : 2 + static_cast<int>(Random(7));
    min_ = 1 + static_cast<int>(Random(Chance(2) ? 1 : size_));
    workers_.resize(size_);
    links_.resize(size_ * size_);
    cut_.resize(size_ * size_);
    last_fault_ = 6 * kT;
  }

  std::string Run() {
    for (int w = 0; w < size_; ++w) {
      At(Random(kT), [this, w] { Start(w, 1, 4 * kT); });
    }
    for (int64_t n = Random(12); n > 0; --n) {
      At(Random(last_fault_), [this] { Fault(); });
    }
    At(last_fault_, [this] { Heal(); });
    At(0, [this] { Connect(); });
    const int64_t end = last_fault_ + kBound;
    while (violation_.empty() && now_ < end && !together_) {
      Event event = events_.top();
      events_.pop();
      now_ = event.when;
      event.what();
    }
    if (violation_.empty() && !together_) CheckEnd();
    return violation_;
  }
  int views() const { return views_; }

 private:
  // The longest time until all workers are in one view after the last fault.
  static constexpr int64_t kBound = 16 * kT;

  struct Worker {
    std::unique_ptr<ViewAgreement> agreement;
    uint64_t session = 0;      // events of an older one are void
    uint64_t life = 0;         // of the process
    uint64_t started_by = 0;   // the proposer's life
    bool down = true;          // its process has ended
    bool failed = false;       // its view has, and it will form the next
    bool joiner_seen = false;  // its view has a joiner
    uint32_t seen = 0;
    int64_t paused_until = 0;
  };
  struct Direction {    // from one to the other, as the receiver sees it
    uint64_t link = 0;  // 0: none
    int64_t last = 0;
    bool lossy = false;
  };
  struct Event {
    int64_t when;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  int64_t Random(int64_t n) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  }
  bool Chance(int n) { return Random(n) == 0; }
  void At(int64_t when, std::function<void()> what) {
    events_.push({std::max(when, now_), order_++, std::move(what)});
  }
  // Calls `what` in this session of w, or later if its process is paused.
  void In(int w, int64_t when, std::function<void()> what) {
    const uint64_t session = workers_[w].session;
    At(when, [this, w, session, what = std::move(what)]() mutable {
      if (workers_[w].session != session) return;
      if (now_ < workers_[w].paused_until) {
        return In(w, workers_[w].paused_until, std::move(what));
      }
      what();
    });
  }
  Direction& DirectionOf(int from, int to) { return links_[from * size_ + to]; }
  bool Parted(int a, int b) { return cut_[a * size_ + b]; }

  void Start(int w, uint32_t count, int64_t settle) {
    Worker& worker = workers_[w];
    ++worker.session;
    worker.down = worker.failed = worker.joiner_seen = false;
    ViewAgreement::Options options = OptionsOf(w, size_, min_);
    options.count = count;
    options.partial_view_at = now_ + settle;
    // The worker is right or wrong about the workers that have ended.
    if (count > 1 && Chance(2)) {
      options.awaited_mask = uint64_t{1} << w;
      for (int v = 0; v < size_; ++v) {
        const bool there = workers_[v].agreement != nullptr;
        if (there != Chance(8)) options.awaited_mask |= uint64_t{1} << v;
      }
    }
    worker.agreement = std::make_unique<ViewAgreement>(options, now_);
    worker.seen = 0;
    Tick(w);
  }
  void Tick(int w) {
    In(w, now_ + kT / 20 + Random(kT / 20), [this, w] {
      workers_[w].agreement->Tick(now_);
      After(w);
      if (workers_[w].agreement != nullptr) Tick(w);
    });
  }
  void Stop(int w) {
    ++workers_[w].session;
    workers_[w].agreement.reset();
    for (int v = 0; v < size_; ++v) {
      if (v == w) continue;
      DirectionOf(v, w).link = 0;
      const uint64_t link = DirectionOf(w, v).link;
      if (link != 0) End(w, v, link, now_ + Random(kT / 4));
    }
  }
  // The end of a link as `to` sees it, behind what was sent before.
  void End(int from, int to, uint64_t link, int64_t when) {
    Direction& direction = DirectionOf(from, to);
    direction.last = std::max(direction.last, when);
    In(to, direction.last, [this, from, to, link] {
      if (DirectionOf(from, to).link != link) return;
      DirectionOf(from, to).link = 0;
      if (workers_[to].agreement == nullptr) return;
      ViewAgreement& agreement = *workers_[to].agreement;
      const bool member = agreement.running() && agreement.view().has(from);
      agreement.RemovePeer(from, now_);
      if (member) Fail(to);
      After(to);
    });
  }
  void Fail(int w) {
    if (workers_[w].failed) return;
    workers_[w].failed = true;
    In(w, now_ + Random(kT / 4), [this, w] {
      const uint32_t count = workers_[w].agreement->next_count();
      Stop(w);
      At(now_ + Random(kT / 20),
         [this, w, session = workers_[w].session, count] {
           if (workers_[w].session == session) Start(w, count, kT / 2);
         });
    });
  }
  bool Free(int w) const {
    return workers_[w].agreement != nullptr && !workers_[w].failed &&
           now_ >= workers_[w].paused_until;
  }
  bool Takes(int w, int v) const {
    const ViewAgreement& agreement = *workers_[w].agreement;
    return !agreement.running() || !agreement.view().has(v);
  }
  void Connect() {
    for (int a = 0; a < size_; ++a) {
      for (int b = a + 1; b < size_; ++b) {
        if (!Free(a) || !Free(b) || Parted(a, b) ||
            DirectionOf(a, b).link != 0 || DirectionOf(b, a).link != 0 ||
            !Takes(a, b) || !Takes(b, a)) {
          continue;
        }
        const bool rarely = workers_[b].agreement->running();
        if (Chance(rarely ? 10 : 2)) Join(a, b);
      }
    }
    if (now_ > last_fault_) {
      CheckEnd();
      together_ = violation_.empty() && AllLive() >= min_;
      violation_.clear();
    }
    At(now_ + kT / 20, [this] { Connect(); });
  }
  void Join(int a, int b) {
    const uint64_t link = ++next_link_;
    const uint32_t counts[] = {workers_[a].agreement->next_count(),
                               workers_[b].agreement->next_count()};
    DirectionOf(b, a) = {link, now_, false};
    DirectionOf(a, b) = {link, now_ + Random(kT / 50), false};
    workers_[a].agreement->AddPeer(b, counts[1], now_);
    const uint64_t session = workers_[b].session;
    In(b, DirectionOf(a, b).last,
       [this, a, b, link, session, count = counts[0]] {
         if (DirectionOf(a, b).link != link || workers_[b].session != session)
           return;
         if (!Takes(b, a)) return Break(a, b, false);
         workers_[b].agreement->AddPeer(a, count, now_);
         After(b);
       });
    After(a);
  }
  void Break(int a, int b, bool silent) {
    for (int side = 0; side < 2; ++side) {
      const uint64_t link = DirectionOf(a, b).link;
      DirectionOf(a, b).lossy = DirectionOf(a, b).lossy || silent || Chance(2);
      if (link != 0) End(a, b, link, now_ + (silent ? kT : 0) + Random(kT / 4));
      std::swap(a, b);
    }
  }
  void After(int w) {
    Worker& worker = workers_[w];
    if (worker.agreement == nullptr) return;
    std::vector<ViewAgreement::Out> out;
    out.swap(worker.agreement->out);
    for (const ViewAgreement::Out& one : out) SendTo(w, one.to, one.frame);
    const View& view = worker.agreement->view();
    if (!worker.agreement->running()) return;
    if (worker.seen != view.generation) CheckView(w, view);
    worker.seen = view.generation;
    if (worker.agreement->departed_member() >= 0) Fail(w);
    if (!worker.agreement->has_joiner() || worker.joiner_seen) return;
    worker.joiner_seen = true;
    In(w, now_ + Random(kT / 2), [this, w] { Fail(w); });
  }
  void SendTo(int from, int to, const ViewFrame& frame) {
    Direction& direction = DirectionOf(from, to);
    const auto key = std::make_pair(frame.generation, workers_[from].life);
    if (frame.message == ViewMessage::kPropose)
      acknowledged_[key] |= uint64_t{1} << from;
    if (frame.message == ViewMessage::kAck) CheckAck(from, to, frame);
    if (direction.lossy) return;
    direction.last =
        std::max(direction.last, now_ + 1 + Random(kT / (Chance(8) ? 4 : 100)));
    const uint64_t link = direction.link;
    const uint64_t life = workers_[from].life;
    In(to, direction.last, [this, from, to, link, frame, life] {
      if (DirectionOf(from, to).link != link || link == 0 ||
          workers_[to].agreement == nullptr || workers_[to].failed) {
        return;
      }
      if (frame.message == ViewMessage::kStart) workers_[to].started_by = life;
      workers_[to].agreement->OnFrame(from, frame, now_);
      After(to);
    });
  }

  void Fault() {
    const int a = static_cast<int>(Random(size_));
    const int b = static_cast<int>(Random(size_));
    const int64_t lasts = Random(3 * kT);
    switch (Random(4)) {
      case 0:
        if (workers_[a].down) return;
        ++workers_[a].life;
        Stop(a);
        workers_[a].down = true;
        if (Chance(4)) return;  // permanently
        return At(now_ + lasts, [this, a] {
          if (workers_[a].down) Start(a, 1, 4 * kT);
        });
      case 1:
        if (a != b) Break(a, b, Chance(2));
        return;
      case 2:
        workers_[a].paused_until = now_ + Random(kT / 2);
        return;
      default:  // a part of them hears the other no more
        for (int v = 0; v < size_; ++v) {
          if (v == a || (b != a && Chance(2))) continue;
          cut_[a * size_ + v] = cut_[v * size_ + a] = true;
          Break(a, v, Chance(2));
        }
    }
  }
  int AllLive() const {
    return static_cast<int>(
        std::count_if(workers_.begin(), workers_.end(),
                      [](const Worker& worker) { return !worker.down; }));
  }
  void Heal() { std::fill(cut_.begin(), cut_.end(), false); }

  void CheckAck(int from, int to, const ViewFrame& frame) {
    acknowledged_[{frame.generation, workers_[to].life}] |= uint64_t{1} << from;
    for (int w = 0; w < size_; ++w) {
      if (w != from && (frame.workers >> w & 1) != 0 &&
          DirectionOf(w, from).link == 0) {
        violation_ = "an ack of one that does not hear all";
      }
    }
  }
  void CheckView(int w, const View& view) {
    ++views_;
    const bool own = ViewProposer(view.generation) == w;
    const auto key = std::make_pair(
        view.generation, own ? workers_[w].life : workers_[w].started_by);
    if (!own && known_.count(key) == 0) {
      violation_ = "a view that its proposer has not started";
    }
    if (own && Members(view) > 1 && acknowledged_[key] != view.members) {
      violation_ = "a view that a member has not acknowledged";
    }
    const uint64_t first = known_.emplace(key, view.members).first->second;
    if (first != view.members) violation_ = "two views of one generation";
    if (!view.has(w)) violation_ = "a view without this worker";
    if (Members(view) < min_) violation_ = "too small a view";
  }
  void CheckEnd() {
    uint64_t live = 0;
    int count = 0;
    for (int w = 0; w < size_; ++w) {
      if (workers_[w].down) continue;
      live |= uint64_t{1} << w;
      ++count;
    }
    if (count < min_) return;
    uint32_t generation = 0;
    for (int w = 0; w < size_; ++w) {
      if (workers_[w].down) continue;
      const ViewAgreement* agreement = workers_[w].agreement.get();
      if (agreement == nullptr || !agreement->running() ||
          agreement->view().members != live ||
          (generation != 0 && agreement->view().generation != generation)) {
        violation_ = "worker " + std::to_string(w) +
                     " is not in one view with all that live";
        return;
      }
      generation = agreement->view().generation;
    }
  }

  std::mt19937_64 random_;
  int size_;
  int min_;
  int64_t now_ = 0;
  int64_t last_fault_;
  uint64_t order_ = 0;
  uint64_t next_link_ = 0;
  int views_ = 0;
  std::priority_queue<Event> events_;
  std::vector<Worker> workers_;
  std::vector<Direction> links_;
  std::vector<char> cut_;
  // By generation, and life of its proposer.
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> known_;
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> acknowledged_;
  bool together_ = false;
  std::string violation_;
};

TEST(ViewAgreementTest, Agreement_EverySeed_HasNoViolation) {
  RandomCases cases("RINGLET_VIEW");
  int views = 0;
  while (cases.Next()) {
    SCOPED_TRACE(cases.command());
    RandomNetwork network(cases.number());
    ASSERT_EQ(network.Run(), "");
    views += network.views();
  }
  std::printf("%d views\n", views);
}

}  // namespace
}  // namespace ringlet
