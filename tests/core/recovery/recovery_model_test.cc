// Every reachable state of small jobs keeps the promise of recovery. No job
// continues from a state, or ends with one, that has an unverified contribution
// of a lost worker.

#include "recovery_model.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace ringlet {
namespace {

void ExpectAllRight(const Space& space) {
  const Visit visit = VisitAll(space);
  EXPECT_EQ(visit.wrong, 0) << visit.first_wrong;
  EXPECT_GT(visit.right_ends, 0);
  std::printf(
      "%d workers, number %d faulty, %d steps, %d crashes, %d partitions, %d "
      "restarts: %lld states, %lld right ends, %lld of the faulty alone, %lld "
      "stopped\n",
      space.workers, space.faulty, space.steps, space.crashes, space.partitions,
      space.restarts, static_cast<long long>(visit.states),
      static_cast<long long>(visit.right_ends),
      static_cast<long long>(visit.faulty_alone),
      static_cast<long long>(visit.stopped));
}

TEST(RecoveryModelTest, VisitAll_TwoWorkers_NoStateIsWrong) {
  for (const int faulty : {0, 1}) {
    Space space;
    space.workers = 2;
    space.faulty = faulty;
    space.crashes = space.restarts = space.partitions = 2;
    ExpectAllRight(space);
  }
}

// RINGLET_ALL_STATES: more steps and faults, for minutes (make long
// RUN=states).
bool VisitsMore() { return std::getenv("RINGLET_ALL_STATES") != nullptr; }

TEST(RecoveryModelTest, VisitAll_ThreeWorkers_NoStateIsWrong) {
  for (const int faulty : {0, 2}) {
    Space space;
    space.faulty = faulty;
    if (VisitsMore()) {
      space.steps = 6;
      space.crashes = 3;
      space.restarts = 2;
    }
    ExpectAllRight(space);
  }
}

TEST(RecoveryModelTest, VisitAll_FourWorkers_NoStateIsWrong) {
  Space space;
  space.workers = 4;
  space.crashes = VisitsMore() ? 2 : 1;
  ExpectAllRight(space);
}

// Each mistake breaks the promise, and the search finds it.
TEST(RecoveryModelTest, VisitAll_OfAMistake_FindsAWrongState) {
  for (const Mistake mistake :
       {Mistake::kNoRollback, Mistake::kNoFirstCheck,
        Mistake::kForgetsInTransfer, Mistake::kVerifiesAlone,
        Mistake::kLateRollback, Mistake::kSameNumber}) {
    SCOPED_TRACE(static_cast<int>(mistake));
    Space space;
    space.mistake = mistake;
    int64_t wrong = 0;
    for (const int faulty : {0, 2}) {
      space.faulty = faulty;
      wrong += VisitAll(space).wrong;
    }
    EXPECT_GT(wrong, 0);
  }
}

}  // namespace
}  // namespace ringlet
