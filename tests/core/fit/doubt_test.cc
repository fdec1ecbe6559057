// Fits of workers, as threads, of whom some were cut off and found alone that
// what they have is right, or are in doubt whether it is, for one was lost as
// they compared: all end with the right bits.

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "../../support/one_bit_job.h"

namespace ringlet {
namespace {

// --- what one has found right alone

// Worker 3 computes wrong, and 0 is away for a few steps that have its numbers.
void CutsOffWithWrongNumbers(Actor* a, ElasticJob* job, ElasticJob* other) {
  if (a->number == 3) a->BreaksAt(110);
  if (a->number != 0) return;
  a->MovesAt(150, other);
  a->MovesAt(155, job);
}

// It is back as the others compare: what it has is later than what all had.
TEST(DoubtTest, WhatOneFoundRightAloneIsNotGoneBackTo) {
  ElasticJob job, other;
  std::atomic<bool> back{false};
  const auto runs = Play(&job, 4, [&](Actor* a) {
    CutsOffWithWrongNumbers(a, &job, &other);
    a->returned = [&, a](int times) {
      if (a->number != 0) return Await(back);
      if (times != 2) return;
      job.Arrive(0);
      back = true;
    };
  });
  ExpectEnd(runs, 3, Code::kOutOfSync);
  ExpectRight(runs, {0, 1, 2});
}

// … nor where the others are in doubt alone, for who heard the verdict is lost,
// or the only one who lives and heard it is that one.
TEST(DoubtTest, WhatOneFoundRightAloneIsNotGoneBackToInDoubt) {
  for (const bool hears : {false, true}) {
    SCOPED_TRACE(hears);
    ElasticJob job, other;
    std::atomic<bool> back{false};
    const auto runs = Play(&job, 4, [&](Actor* a) {
      CutsOffWithWrongNumbers(a, &job, &other);
      a->returned = [&, a](int times) {
        if (a->number == 0 && times == 2) {
          job.Arrive(0);
          back = true;
        }
        if (a->number == 1 && times == 1) a->collective->LoseGather(kOfACheck);
        if (a->number != 0 && (hears || times == 2)) Await(back);
        if (a->number == 2 && times == 2) a->collective->DieInNextCall();
      };
    });
    ExpectEnd(runs, 3, Code::kOutOfSync);
    ExpectEnd(runs, 2, Code::kInternal);  // dead
    ExpectRight(runs, {0, 1});
  }
}

// … nor where three did, as many as had compared what is right.
TEST(DoubtTest, WhatAPartFoundRightWithoutItIsNotGoneBackTo) {
  ElasticJob job, other;
  std::atomic<int> back{0};
  std::atomic<bool> calls{false};
  std::vector<Trained> runs(5);
  std::vector<std::thread> threads;
  for (const int w : {0, 1, 2}) job.Arrive(w);
  for (int w = 0; w < 5; ++w) {
    threads.emplace_back([&, w] {
      const bool late = w > 2, moves = late || w == 0;
      if (late) Await(calls);
      const auto direct = [&](Actor* a) {
        if (w == 2) a->BreaksAt(110);
        if (w == 0) {
          a->At(150, [&, a] {
            for (const int there : {0, 3, 4}) other.Arrive(there);
            calls = true;
            a->collective->MoveTo(&other);
          });
        }
        if (moves) a->MovesAt(155, &job);
        a->returned = [&, w, moves, late](int times) {
          if (moves && times == (late ? 1 : 2)) {
            job.Arrive(w);
            ++back;
          }
          while (!moves && back < 3) std::this_thread::yield();
        };
      };
      runs[static_cast<size_t>(w)] = Live(late ? &other : &job, w, direct);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectEnd(runs, 2, Code::kOutOfSync);
  ExpectRight(runs, {0, 1, 3, 4});
}

// … nor where it has heard the verdict, and is cut off once more: what it goes
// back to is further, and goes on.
TEST(DoubtTest, WhatOneFoundRightAloneDoesNotCountLater) {
  ElasticJob job, other, third;
  std::atomic<bool> back{false}, waits{false};
  const auto runs = Play(&job, 4, [&](Actor* a) {
    CutsOffWithWrongNumbers(a, &job, &other);
    if (a->number == 0) {
      a->MovesAt(290, &job, waits);
    } else if (a->number == 1) {
      a->ReceivesAt(180, &job, &waits);
    }
    a->returned = [&, a](int times) {
      if (a->number != 0) return Await(back);
      if (times == 2) {
        job.Arrive(0);
        back = true;
      } else if (times == 3) {
        a->collective->MoveTo(&third);
      }
    };
  });
  ExpectEnd(runs, 3, Code::kOutOfSync);
  ExpectRight(runs, {0, 1, 2});
}

// But where who has gone back is lost on the way, what one found right alone is
// all that is left.
TEST(DoubtTest, WhatOneFoundRightAloneIsKeptUntilTheOthersIsThere) {
  int lost = 0;
  for (int cut = 1; cut <= 12; ++cut) {
    SCOPED_TRACE(cut);
    ElasticJob job, other;
    std::atomic<bool> cut_off{false}, back{false};
    const auto runs = Play(&job, 3, [&](Actor* a) {
      if (a->number == 2) {
        a->At(199, [a] { a->collective->DieInGather(kOfACheck); });
      } else if (a->number == 0) {
        a->MovesAt(150, &other);
        a->MovesAt(155, &job, cut_off);
      }
      a->returned = [&, a](int times) {
        if (a->number == 0 && times == 2) {
          job.Arrive(0);
          back = true;
        }
        if (a->number != 1 || times != 2) return;
        cut_off = true;
        Await(back);
        a->collective->DieInBroadcast(cut);
      };
    });
    ExpectEnd(runs, 2, Code::kInternal);  // dead
    lost += runs[1].status.code() == Code::kInternal;
    ExpectRight(runs, {0});
  }
  EXPECT_GT(lost, 3);
}

// The others lose a comparison, of which 3 would have been named, and wait for
// 0, whose state all take then, since 3 is there.
template <typename Then>
std::vector<Trained> TakesWhatIsInDoubt(const Then& then) {
  ElasticJob job, other;
  std::atomic<bool> back{false};
  return Play(&job, 4, [&](Actor* a) {
    CutsOffWithWrongNumbers(a, &job, &other);
    a->returned = [&, a](int times) {
      if (a->number == 0 && times == 2) {
        job.Arrive(0);
        back = true;
      }
      if (a->number == 1 && times == 1) {
        a->collective->MoveInGather(kOfACheck, &job);
      }
      if (a->number != 0 && times == 2) Await(back);
      then(a, times);
    };
  });
}

// It dies before it has compared again.
TEST(DoubtTest, WhoDiesBeforeItComparesIsInDoubtAgain) {
  for (int calls = 1; calls <= 20; ++calls) {
    SCOPED_TRACE(calls);
    const auto runs = TakesWhatIsInDoubt([calls](Actor* a, int times) {
      if (a->number != 3 || times != 2) return;
      a->collective->DieAfterReform(calls);
    });
    ExpectRight(runs, {0, 1, 2});
  }
}

// It is named, and those who could have gone back die.
TEST(DoubtTest, WhatWasInDoubtOfOneThatIsNamedIsNotGoneOnFrom) {
  const auto runs = TakesWhatIsInDoubt([](Actor* a, int times) {
    const bool dies = a->number == 1 || a->number == 2;
    if (dies && times == 3) a->collective->DieInNextCall();
  });
  ExpectEnd(runs, 3, Code::kOutOfSync);
  ExpectEnd(runs, 0, Code::kCancelled);
}

// --- where nobody was named

// One that did not hear a verdict, and went back in doubt, is where the others
// are.
TEST(DoubtTest, WhoWentBackInDoubtHasTheStateToo) {
  ElasticJob job;
  const auto runs = Play(&job, 3, [&](Actor* a) {
    if (a->number == 2) a->BreaksAt(170);
    if (a->number == 1) {
      a->At(199, [a] { a->collective->LoseGather(kOfACheck); });
    }
    a->returned = [a](int) {
      constexpr size_t kOfAnOffer = (6 + 2 * 64) * sizeof(int64_t);
      if (a->number == 0) a->collective->DieInGather(kOfAnOffer);
    };
  });
  ExpectEnd(runs, 2, Code::kOutOfSync);
  ExpectEnd(runs, 0, Code::kInternal);  // dead
  ExpectRight(runs, {1});
}

// One that was cut off as they compared has what it kept alone where the others
// are lost as they give it theirs.
TEST(DoubtTest, WhoWasInDoubtKeepsWhatItHas) {
  for (int dies = 1; dies < 8; ++dies) {
    SCOPED_TRACE(dies);
    ElasticJob job, other;
    std::atomic<bool> waits{false};
    const auto runs = Play(&job, 2, [&](Actor* a) {
      if (a->number == 1) {
        a->At(199, [&, a] { a->collective->MoveInGather(kOfACheck, &other); });
        a->MovesAt(320, &job, waits);
        return;
      }
      a->At(325, [&, a] {
        waits = true;
        AwaitVisitor(&job);
        a->collective->DieInBroadcast(dies);
      });
    });
    ExpectRight(runs, {1});
  }
}

// One that was cut off, and computed wrong where nobody could see it, has
// another history than the others when it hears them again.
TEST(DoubtTest, AnotherHistoryIsRefusedWherePartsMeet) {
  ElasticJob job, other;
  std::atomic<bool> waits{false};
  const auto runs = Play(&job, 4, [&](Actor* a) {
    a->way = {};
    if (a->number == 0) a->ReceivesAt(230, &job, &waits);
    if (a->number != 3) return;
    a->BreaksAsItMovesAt(120, &other);
    a->MendedItMovesAt(250, &job, waits);
  });
  const std::string said = runs[3].status.message();
  ExpectEnd(runs, 3, Code::kOutOfSync);
  EXPECT_NE(said.find("after 200 steps, while the workers were apart: rank 3"),
            std::string::npos)
      << said;
  ExpectRight(runs, {0, 1, 2});
}

// … also where it was cut off as they compared, and went on alone.
TEST(DoubtTest, AnotherHistoryOfOneInDoubtIsRefused) {
  ElasticJob job, other;
  std::atomic<bool> waits{false};
  const auto runs = Play(&job, 4, [&](Actor* a) {
    if (a->number == 0) a->ReceivesAt(230, &job, &waits);
    if (a->number != 3) return;
    a->At(99, [&, a] { a->collective->MoveInGather(kOfACheck, &other); });
    a->BreaksAt(120);
    a->MendedItMovesAt(250, &job, waits);
  });
  ExpectEnd(runs, 3, Code::kOutOfSync);
  ExpectRight(runs, {0, 1, 2});
}

}  // namespace
}  // namespace ringlet
