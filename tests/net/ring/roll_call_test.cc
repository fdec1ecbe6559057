#include "net/ring/roll_call.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace ringlet {
namespace {

constexpr int64_t kSecond = RollCall::kSecond;
constexpr int64_t kTick = kSecond / 50;

std::vector<std::string> Addresses(int size) {
  std::vector<std::string> addresses;
  for (int r = 0; r < size; ++r) {
    addresses.push_back("10.0.0." + std::to_string(r) + ":7000");
  }
  return addresses;
}

TEST(RollCallTest, WhoIsMissingIsSaidAfterASecondAndThenEveryTen) {
  RollCall roll(1, Addresses(3), 120);
  const int64_t begin = 5 * kSecond;
  roll.Begin(begin);
  std::vector<double> at;
  std::string first;
  for (int64_t now = begin; now < begin + 35 * kSecond; now += kTick) {
    if (now == begin + 4 * kSecond) roll.Came(2);
    if (now == begin + 4 * kSecond) roll.Trouble(0, "cannot connect");
    const std::string line = roll.Due(now);
    if (line.empty()) continue;
    if (first.empty()) first = line;
    at.push_back(static_cast<double>(now - begin) / 1e9);
  }
  EXPECT_EQ(at, (std::vector<double>{1, 11, 21, 31}));
  EXPECT_EQ(first,
            "rank 1 of 3 (10.0.0.1:7000) waits for rank 0 (10.0.0.0:7000), "
            "missing for 1 s: has not connected; rank 2 (10.0.0.2:7000), "
            "missing for 1 s: has not connected (it gives up after 120 s)");
  EXPECT_EQ(roll.Missing(begin + 40 * kSecond),
            "rank 0 (10.0.0.0:7000), missing for 40 s: cannot connect");
  EXPECT_EQ(roll.Complete(begin + 41 * kSecond),
            "rank 1 of 3 (10.0.0.1:7000) has waited 41 s: all workers are "
            "there");
}

// A process that was stopped does not say all that it missed.
TEST(RollCallTest, ALateCallIsOneLineAndKeepsStep) {
  RollCall roll(0, Addresses(2), 120);
  roll.Begin(0);
  EXPECT_NE(roll.Due(47 * kSecond), "");
  EXPECT_EQ(roll.Due(47 * kSecond + kTick), "");
  EXPECT_EQ(roll.Due(51 * kSecond - 1), "");
  EXPECT_NE(roll.Due(51 * kSecond), "");
}

TEST(RollCallTest, AQuickStartSaysNothing) {
  RollCall roll(0, Addresses(2), 120);
  roll.Begin(0);
  EXPECT_EQ(roll.Due(kSecond - 1), "");
  EXPECT_EQ(roll.Complete(kSecond - 1), "");
}

TEST(RollCallTest, OneThatWasThereIsMissingSinceItWasLost) {
  RollCall roll(0, Addresses(3), 120);
  roll.Begin(0);
  roll.Came(1);
  roll.Came(2);
  roll.Lost(1, 30 * kSecond);
  roll.Lost(1, 35 * kSecond);  // tried again
  roll.Trouble(1, "it was there and fell silent");
  EXPECT_EQ(roll.Missing(40 * kSecond),
            "rank 1 (10.0.0.1:7000), missing for 10 s: it was there and fell "
            "silent");
}

TEST(RollCallTest, OfManyTheFirstAreNamed) {
  RollCall roll(0, Addresses(1024), 120);
  roll.Begin(0);
  const std::string line = roll.Due(kSecond);
  EXPECT_LT(line.size(), 1000u);
  EXPECT_NE(line.find("rank 8 ("), std::string::npos);
  EXPECT_NE(line.find("; and 11 more"), std::string::npos) << line;
}

TEST(RollCallTest, WhoIsMissingLongestIsNamedFirst) {
  RollCall roll(0, Addresses(16), 60);
  roll.Begin(0);
  for (int r = 1; r < 15; ++r) {
    roll.Came(r);
    roll.Lost(r, 60 * kSecond);
  }
  EXPECT_EQ(roll.Missing(60 * kSecond).find("rank 15 ("), 0u);
  EXPECT_NE(roll.Missing(60 * kSecond).find("; and 7 more"), std::string::npos);
}

// One whose own links are there waits for what others say.
// All give up at the deadline, the first a moment before the last.
TEST(RollCallTest, InALargeRingWhoGivesUpFirstHidesNobody) {
  RollCall roll(0, Addresses(20), 60);
  roll.Begin(0);
  for (int r = 1; r < 20; ++r) roll.Came(r);
  roll.Elsewhere(11, kSecond);
  roll.Elsewhere(3, 60 * kSecond - kTick);  // which gave up before
  roll.Trouble(2, "it was there and gave up");
  roll.Lost(2, 60 * kSecond);
  roll.Elsewhere(2, 60 * kSecond);
  EXPECT_EQ(roll.Missing(60 * kSecond),
            "rank 2 (10.0.0.2:7000), missing for 0 s: it was there and gave "
            "up; rank 11 (10.0.0.11:7000), whom others missed before");
  roll.Came(2);
  roll.Elsewhere(-1, 61 * kSecond);
  roll.Elsewhere(-1, 62 * kSecond);
  EXPECT_EQ(roll.Missing(60 * kSecond), "workers that others miss");
}

TEST(RollCallTest, InALargeRingOneThatIsMissingElsewhereIsNamed) {
  RollCall roll(0, Addresses(24), 120);
  roll.Begin(0);
  for (int r = 1; r < 24; ++r) roll.Came(r);
  EXPECT_EQ(roll.Missing(kSecond), "workers that others miss");
  roll.Elsewhere(11, kSecond);
  EXPECT_EQ(roll.Missing(kSecond),
            "rank 11 (10.0.0.11:7000), whom others miss");
  roll.Lost(4, kSecond);
  EXPECT_EQ(roll.Missing(kSecond).find("rank 4 ("), 0u);
}

TEST(RollCallTest, ARefusalIsSaidAtOnceAndNotAgainForAMinute) {
  RollCall roll(0, Addresses(2), 120);
  roll.Begin(0);
  EXPECT_EQ(roll.Refused("10.0.0.9:55000", "another list", kSecond),
            "warning: rank 0 of 2 (10.0.0.0:7000) refused a connection from "
            "10.0.0.9:55000: another list");
  // From another port, as each try is.
  for (int64_t now = kSecond; now < 60 * kSecond; now += kSecond) {
    EXPECT_EQ(roll.Refused("10.0.0.9:55001", "another list", now), "");
  }
  EXPECT_NE(roll.Refused("10.0.0.9:55002", "another list", 62 * kSecond), "");
  EXPECT_NE(roll.Missing(kSecond).find("; the last connection refused here, "
                                       "from 10.0.0.9:55002: another list"),
            std::string::npos);
  EXPECT_EQ(roll.RefusedBy(1, "another list", kSecond),
            "warning: rank 1 (10.0.0.1:7000) refused this worker, rank 0 of 2 "
            "(10.0.0.0:7000): another list");
}

TEST(RollCallTest, WhatIsQuietIsRememberedAndNotSaid) {
  RollCall roll(0, Addresses(2), 120);
  roll.Begin(0);
  EXPECT_EQ(roll.Refused("10.0.0.9:1", "not a ringlet frame", 0, true), "");
  EXPECT_NE(roll.Missing(0).find("not a ringlet frame"), std::string::npos);
}

// A stranger who always says something else: a bounded number of lines, fewer
// and fewer, and the number of those that were kept back.
TEST(RollCallTest, AFloodIsAFewLines) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    std::mt19937 random(seed);
    RollCall roll(0, Addresses(2), 1e6);
    roll.Begin(0);
    int64_t said = 0, tried = 0, told = 0;
    for (int64_t now = 0; now < 3600 * kSecond; now += 1 + random() % kTick) {
      ++tried;
      const std::string line =
          roll.Refused("x", "nonsense " + std::to_string(random()), now);
      if (line.empty()) continue;
      ++said;
      const size_t at = line.find("(and ");
      told +=
          1 + (at == std::string::npos ? 0 : std::stoll(line.substr(at + 5)));
    }
    EXPECT_GT(tried, 100000);
    EXPECT_LE(said, 65) << seed;
    EXPECT_GE(said, 5) << seed;
    EXPECT_LE(told, tried);
    EXPECT_GE(told, tried / 2) << seed;  // the rest is of the last window
  }
}

TEST(RollCallTest, HowManySufficeIsSaid) {
  RollCall roll(0, {"a:1", "b:1", "c:1"}, 120, 2);
  roll.Begin(0);
  EXPECT_NE(roll.Due(RollCall::kFirst)
                .find(" (2 workers suffice, else it gives up after 120 s)"),
            std::string::npos);
}

}  // namespace
}  // namespace ringlet
