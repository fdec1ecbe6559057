#include "core/fit/check_pace.h"

#include <gtest/gtest.h>

#include "../../support/nanoseconds.h"
#include "../../support/tiny_model.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

int64_t Chosen(int64_t step, int64_t check) {
  CheckPace pace;
  for (int i = 0; i < 20; ++i) pace.Choose({step, check}, pace.every());
  return pace.every();
}

TEST(CheckPaceTest, Choose_TimesUnknown_IsTheFirst) {
  EXPECT_EQ(Chosen(0, 0), CheckPace::kFirst);
  EXPECT_EQ(Chosen(0, kMs), CheckPace::kFirst);
}

// Two seconds of steps, if checks take between 1 % and 5 % of the time then.
TEST(CheckPaceTest, Choose_AnyTimes_TakesOneToFivePercent) {
  EXPECT_EQ(Chosen(20 * kMs, 20 * kMs), 100);
  EXPECT_EQ(Chosen(50 * kMs, 50 * kMs), 40);
  EXPECT_EQ(Chosen(kMs, kMs), 101);               // 1 %
  EXPECT_EQ(Chosen(1000 * kMs, 1000 * kMs), 21);  // 5 %
  EXPECT_EQ(Chosen(1, 1000 * kMs), CheckPace::kMax);
}

TEST(CheckPaceTest, Choose_FirstKnownTimes_GrowsEightfold) {
  CheckPace pace;
  pace.Choose({20 * kMs, 20 * kMs}, pace.every());
  EXPECT_EQ(pace.every(), 80);
}

TEST(CheckPaceTest, Choose_OneLongCheck_AtMostDoubles) {
  CheckPace pace;
  for (int i = 0; i < 20; ++i) pace.Choose({20 * kMs, 20 * kMs}, pace.every());
  pace.Choose({20 * kMs, 10000 * kMs}, pace.every());
  EXPECT_EQ(pace.every(), 200);
  pace.Choose({20 * kMs, 20 * kMs}, pace.every());
  EXPECT_EQ(pace.every(), 100);
}

TEST(CheckPaceTest, Due_AfterARollback_CountsFromTheLastCheck) {
  CheckPace pace;
  pace.BeginCheck(100, 1000 * kMs);
  pace.EndCheck(100, 1001 * kMs);
  EXPECT_FALSE(pace.due(100 + CheckPace::kFirst - 1));
  EXPECT_TRUE(pace.due(100 + CheckPace::kFirst));
  pace.BeginCheck(110, 1101 * kMs);
  EXPECT_EQ(pace.own_times().step, 10 * kMs);
  pace.EndCheck(110, 1103 * kMs);
  EXPECT_EQ(pace.own_times().check, 2 * kMs);
  // A view forms after a loss, with fewer steps.
  pace.BeginCheck(50, 1200 * kMs);
  pace.EndCheck(50, 1201 * kMs);
  EXPECT_EQ(pace.own_times().step, 10 * kMs);
  EXPECT_FALSE(pace.due(59));
  EXPECT_TRUE(pace.due(60));
}

TEST(CheckPaceTest, Fit_EveryBelowTheLeast_IsRefused) {
  auto model = TinyModel();
  FitOptions options = Quiet(1);
  options.check_replicas_every = -2;
  EXPECT_EQ(model->Fit(Points(8).Batch(4), options).status().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace ringlet
