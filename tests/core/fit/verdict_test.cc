// Fits of workers, as threads, one of whose machines is named, or of whom one
// is lost as they compare: who was cut off then ends with the right bits too.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "../../support/one_bit_job.h"

namespace ringlet {
namespace {

// --- who does not hear it

TEST(VerdictTest, OneThatDoesNotHearItFollowsThoseWhoDo) {
  for (const int deaf : {0, 1, 2}) {
    SCOPED_TRACE(deaf);
    ElasticJob job;
    const auto runs = Play(&job, 3, [&](Actor* a) {
      if (a->number == 2) a->BreaksAt(170);
      if (a->number == deaf) {
        a->At(199, [a] { a->collective->LoseGather(kOfACheck); });
      }
    });
    ExpectEnd(runs, 2, Code::kOutOfSync);
    ExpectRight(runs, {0, 1});
    for (const int w : {0, 1}) ExpectSavedIsRight(runs[w], {});
  }
}

TEST(VerdictTest, OneThatDoesNotHearThatAllStopStops) {
  for (const int deaf : {0, 1}) {
    SCOPED_TRACE(deaf);
    ElasticJob job;
    const auto runs = Play(&job, 2, [&](Actor* a) {
      if (a->number == 1) a->BreaksAt(170);
      if (a->number == deaf) {
        a->At(199, [a] { a->collective->LoseGather(kOfACheck); });
      }
    });
    for (const int w : {0, 1}) ExpectEnd(runs, w, Code::kOutOfSync);
  }
}

// Where nobody was there to compare with since a comparison long ago, and one
// that comes is lost before it has compared.
TEST(VerdictTest, OneThatWasAloneGoesBackNoFurtherThanAHundredSteps) {
  for (const Rounds& rounds : {Rounds(0), Rounds(5, /*is_sparse=*/true)}) {
    SCOPED_TRACE(rounds.steps);
    constexpr int64_t kComes = 320;
    ElasticJob job;
    for (int w = 0; w < 2; ++w) job.Arrive(w);
    std::atomic<bool> called{false};
    std::thread other([&] {
      for (const bool again : {false, true}) {
        if (again) Await(called);
        job.Arrive(0);
        const Trained run = Live(&job, 0, [&](Actor* a) {
          a->way.rounds = rounds;
          if (again) a->collective->DieInGather(kOfACheck);
          a->DiesAt(5);
        });
        EXPECT_EQ(run.status.code(), Code::kInternal) << run.status.message();
      }
    });
    std::atomic<int64_t> least{kComes};
    const Trained run = Live(&job, 1, [&](Actor* a) {
      a->way.rounds = rounds;
      a->SeesFrom(called, &least);
      a->ReceivesAt(kComes, &job, &called);
    });
    ExpectRight({run}, {0}, rounds);
    other.join();
    EXPECT_GE(least, kComes - 120);
  }
}

// What a check has found that failed is no history: one that is cut off then,
// and passes that step alone, has the history that the others have.
TEST(VerdictTest, AFailedCheckIsNoHistory) {
  ElasticJob job, other;
  std::atomic<bool> waits{false};
  const auto runs = Play(&job, 4, [&](Actor* a) {
    if (a->number == 0) a->ReceivesAt(230, &job, &waits);
    if (a->number == 3) a->BreaksAt(170);
    if (a->number != 2) return;
    a->returned = [&, a](int times) {
      if (times == 1) a->collective->MoveTo(&other);
    };
    a->MovesAt(250, &job, waits);
  });
  ExpectEnd(runs, 3, Code::kOutOfSync);
  ExpectRight(runs, {0, 1, 2});
}

// --- who missed it, with the wrong numbers in its weights

// It meets the others when all have taken the state of those that went back. It
// has gone further, and has nothing to give; nor is it at fault for another
// history, where the others have the steps that it has made too.
TEST(VerdictTest, WhoMissedItTakesTheOthersState) {
  for (const int64_t meets : {120, 220}) {
    SCOPED_TRACE(meets);
    ElasticJob job, other;
    std::atomic<bool> waits{false};
    std::atomic<int64_t> least{1 << 20};
    const auto runs = Play(&job, 4, [&](Actor* a) {
      if (a->number == 3) a->BreaksAt(110);
      if (a->number == 0) {
        a->MovesAt(150, &other);
        a->MovesAt(250, &job, waits);
      }
      if (a->number != 1) return;
      a->SeesFrom(waits, &least);
      if (meets < 150) a->At(meets, [] {});  // not yet
      a->ReceivesAt(meets, &job, &waits);
    });
    EXPECT_GE(least, meets);
    ExpectEnd(runs, 3, Code::kOutOfSync);
    ExpectRight(runs, {0, 1, 2});
  }
}

// … also where those are lost while their state travels: it has heard by then
// that it may not go on from what it has.
TEST(VerdictTest, WhoMissedItDoesNotGoOnAlone) {
  ElasticJob job, other;
  std::atomic<bool> waits{false};
  const auto runs = Play(&job, 4, [&](Actor* a) {
    if (a->number == 3) a->BreaksAt(110);
    if (a->number == 0) {
      a->MovesAt(150, &other);
      a->MovesAt(250, &job, waits);
    } else if (a->number == 2) {
      a->At(110, [] {});
      a->DiesAt(110);  // once it has gone back
    } else if (a->number == 1) {
      a->At(120, [] {});
      a->At(120, [&, a] {
        waits = true;
        AwaitVisitor(&job);
        a->collective->DieInBroadcast(1);
      });
    }
  });
  ExpectEnd(runs, 0, Code::kCancelled);
}

// … or where one that has heard it has nothing to give.
TEST(VerdictTest, WhoMissedItGivesNothing) {
  ElasticJob job, other;
  std::atomic<bool> calls{false}, heard{false};
  std::vector<Trained> runs(4);
  std::vector<std::thread> threads;
  for (const int w : {0, 1, 3}) job.Arrive(w);
  for (int w = 0; w < 4; ++w) {
    threads.emplace_back([&, w] {
      if (w == 2) {
        Await(calls);
        job.Arrive(2);
      }
      runs[static_cast<size_t>(w)] = Live(&job, w, [&](Actor* a) {
        if (w == 3) a->BreaksAt(110);
        if (w == 1) {
          a->returned = [&, a](int times) {
            if (times != 2) return;
            heard = true;
            AwaitVisitor(&job);
            a->collective->DieInNextCall();
          };
        }
        if (w != 0) return;
        a->At(150, [&, a] {
          calls = true;
          AwaitVisitor(&job);
          a->collective->MoveTo(&other);
        });
        a->MovesAt(160, &job, heard);
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectEnd(runs, 3, Code::kOutOfSync);
  for (const int w : {0, 2}) ExpectEnd(runs, w, Code::kCancelled);
}

// A machine that was named, mended and let in again is wrong again.
TEST(VerdictTest, WhoMissedTheSecondTimeTakesTheOthersState) {
  ElasticJob job, other;
  std::atomic<bool> called{false}, waits{false};
  for (int w = 0; w < 4; ++w) job.Arrive(w);
  Trained named[2];
  std::thread wrong([&] {
    const int64_t breaks[] = {110, 230};
    for (const int time : {0, 1}) {
      if (time > 0) {
        Await(called);
        job.Arrive(3);
      }
      named[time] = Live(&job, 3, [&](Actor* a) { a->BreaksAt(breaks[time]); });
    }
  });
  const auto runs = Play(&job, 3, [&](Actor* a) {
    if (a->number == 1) {
      a->At(150, [] {});
      a->ReceivesAt(150, &job, &called);  // once it has gone back
      a->ReceivesAt(260, &job, &waits);
    } else if (a->number == 0) {
      a->MovesAt(250, &other);
      a->MovesAt(320, &job, waits);
    }
  });
  wrong.join();
  for (const Trained& run : named) {
    EXPECT_EQ(run.status.code(), Code::kOutOfSync) << run.status.message();
  }
  ExpectRight(runs, {0, 1, 2});
}

// Two were cut off right after a comparison. One of them, which is wrong, comes
// back and is named; the other has its numbers of fewer steps than the others
// have made, and then goes further than they.
TEST(VerdictTest, WhoWasApartWithTheWrongOneTakesTheOthersState) {
  ElasticJob job, other;
  std::atomic<bool> waits[2] = {};
  const auto runs = Play(&job, 5, [&](Actor* a) {
    if (a->number == 1) {
      a->ReceivesAt(230, &job, &waits[0]);
      a->ReceivesAt(240, &job, &waits[1]);
    }
    if (a->number < 3) return;
    a->At(200, [&, a] {
      for (const int there : {3, 4}) other.Arrive(there);
      a->collective->MoveTo(&other);
    });
    if (a->number == 3) a->BreaksAt(205);
    const bool wrong = a->number == 3;
    a->MovesAt(wrong ? 215 : 290, &job, waits[wrong ? 0 : 1]);
  });
  ExpectEnd(runs, 3, Code::kOutOfSync);
  ExpectRight(runs, {0, 1, 2, 4});
}

// --- what it costs the others

// Nobody goes back for one that was wrong elsewhere, nor does who comes later.
TEST(VerdictTest, ThatOnAnotherHistoryCostsNoSteps) {
  ElasticJob job, others[2];
  std::atomic<bool> waits[2] = {}, back{false};
  std::atomic<int64_t> least{1 << 20};
  const auto runs = Play(&job, 4, [&](Actor* a) {
    if (a->number == 1) {
      a->ReceivesAt(230, &job, &waits[0]);
      a->ReceivesAt(260, &job, &waits[1]);
    } else if (a->number == 3) {
      a->BreaksAsItMovesAt(120, &others[0]);
      a->MendedItMovesAt(250, &job, waits[0]);
    } else if (a->number == 0) {
      a->MovesAt(150, &others[1]);
      a->MovesAt(310, &job, waits[1]);
      a->sees = [&](int64_t step) {
        if (step == 310) back = true;
        if (back) least = std::min(least.load(), step);
      };
    }
  });
  ExpectEnd(runs, 3, Code::kOutOfSync);
  EXPECT_GE(least, 310);
  ExpectRight(runs, {0, 1, 2});
}

// What one has that was cut off before the machine's last right comparison is
// gone on from.
TEST(VerdictTest, WhoWasCutOffBeforeItWasWrongKeepsItsLead) {
  ElasticJob job, other;
  std::atomic<bool> waits{false}, back{false};
  std::atomic<int64_t> least{1 << 20};
  const auto runs = Play(&job, 4, [&](Actor* a) {
    if (a->number == 3) a->BreaksAt(210);
    if (a->number == 0) {
      a->sees = [&](int64_t step) {
        if (step == 320) back = true;
        if (back) least = std::min(least.load(), step);
      };
      a->MovesAt(150, &other);
      a->MovesAt(320, &job, waits);
    } else if (a->number == 1) {
      a->ReceivesAt(250, &job, &waits);  // once it has gone back
    }
  });
  ExpectEnd(runs, 3, Code::kOutOfSync);
  EXPECT_GE(least, 320);
  ExpectRight(runs, {0, 1, 2});
}

// One that died before the others compared is wrong when it comes back, and
// with it one comes that has kept nothing to go back to.
TEST(VerdictTest, AComerCostsTheOthersNothingByIt) {
  ElasticJob job;
  std::atomic<bool> calls{false};
  std::atomic<int64_t> least{1 << 20};
  std::vector<Trained> runs(5);
  std::vector<std::thread> threads;
  for (const int w : {0, 1, 2, 3}) job.Arrive(w);
  for (int w = 0; w < 5; ++w) {
    threads.emplace_back([&, w] {
      Trained* const run = &runs[static_cast<size_t>(w)];
      if (w < 4) {
        *run = Live(&job, w, [&](Actor* a) {
          if (w == 3) a->DiesAt(150);
          if (w != 1) return;
          a->SeesFrom(calls, &least);
          a->At(230, [&] {
            for (const int comes : {3, 4}) job.Arrive(comes);
            calls = true;
            AwaitVisitor(&job);
          });
        });
      }
      if (w < 3) return;
      Await(calls);
      *run = Live(&job, w, [&](Actor* a) {
        if (w == 3) a->layer->Break();
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectEnd(runs, 3, Code::kOutOfSync);
  EXPECT_GE(least, 230);
  ExpectRight(runs, {0, 1, 2, 4});
}

// … nor does one that takes the state of one that is named then, and had gone
// further alone: it cannot know up to where that one was right, but they do.
TEST(VerdictTest, AComerBelievesWhatTheOthersKeep) {
  ElasticJob job, other;
  std::atomic<bool> calls{false};
  std::vector<Trained> runs(4);
  std::vector<std::thread> threads;
  for (const int w : {0, 1, 3}) job.Arrive(w);
  for (int w = 0; w < 4; ++w) {
    threads.emplace_back([&, w] {
      if (w == 2) Await(calls);
      runs[static_cast<size_t>(w)] = Live(&job, w, [&](Actor* a) {
        if (w == 3) {
          a->BreaksAt(290);
          a->MovesAt(90, &other);
          a->MovesAt(295, &job, calls);
        } else if (w == 1) {
          a->At(220, [&] {
            for (const int comes : {2, 3}) job.Arrive(comes);
            calls = true;
            AwaitVisitor(&job);
          });
        }
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectEnd(runs, 3, Code::kOutOfSync);
  ExpectRight(runs, {0, 1, 2});
}

// `still` stands still from step 105 until it is received at step 298. What
// happens to `other` then costs less than the steps since.
template <typename Direct>
void ExpectLittleIsLost(int still, Code ends, const Direct& other) {
  ElasticJob job, nobody;
  std::atomic<bool> waits{false};
  std::atomic<int64_t> least{1 << 20};
  const auto runs = Play(&job, 4, [&](Actor* a) {
    if (a->number == still) {
      a->MovesAt(105, &nobody);
      a->returned = [&, a](int times) {
        if (times == 1) a->StandsStill(&job, waits);
      };
    } else if (a->number == 1) {
      a->SeesFrom(waits, &least);
      a->ReceivesAt(298, &job, &waits);
    } else if (a->number == 3) {
      other(a);
    }
  });
  ExpectEnd(runs, 3, ends);
  EXPECT_GE(least, 200);
  ExpectRight(runs, {0, 1, 2});
}

// What one has found right long ago is as right as what the others have since
// then, and so they go back no further than to that.
TEST(VerdictTest, WhoWasAwayForLongCostsNoSteps) {
  ExpectLittleIsLost(0, Code::kOutOfSync, [](Actor* a) { a->BreaksAt(295); });
}

// Another one dies as they compare: that it may have been wrong is no reason to
// go back to what the one had that stood still.
TEST(VerdictTest, WhoStoodStillDoesNotDecideInDoubt) {
  ExpectLittleIsLost(2, Code::kInternal, [](Actor* a) {  // dead
    a->At(298, [a] { a->collective->DieInGather(kOfACheck); });
  });
}

// … nor is what the other one had that was alone since then: that one is there,
// and compares again. The first time one of them did not hear the other.
TEST(VerdictTest, WhoStoodStillDoesNotDoubtOneThatIsThere) {
  ElasticJob job, other;
  std::atomic<bool> waits{false};
  std::atomic<int64_t> least{1 << 20};
  const auto runs = Play(&job, 2, [&](Actor* a) {
    a->SeesFrom(waits, &least);
    if (a->number == 0) return a->ReceivesAt(298, &job, &waits);
    a->MovesAt(105, &other);
    a->returned = [&, a](int times) {
      if (times != 1) return;
      a->StandsStill(&job, waits);
      a->collective->MoveInGather(kOfACheck, &job);
    };
  });
  EXPECT_GE(least, 200);
  ExpectRight(runs, {0, 1});
}

}  // namespace
}  // namespace ringlet
