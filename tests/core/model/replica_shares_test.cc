#include "core/model/replica_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/model/known_speeds.h"

namespace ringlet {
namespace {

constexpr int64_t kMs = 1000000;

TEST(ReplicaSharesTest, BeginEven) {
  EXPECT_EQ(ReplicaShares(3, 8).ToString(), "2, 3, 3");
  EXPECT_EQ(ReplicaShares(4, 4).ToString(), "1, 1, 1, 1");
  EXPECT_EQ(ReplicaShares().most(), 1);
}

TEST(ReplicaSharesTest, ASlowBoardGetsFewer) {
  ReplicaShares shares(3, 8);
  EXPECT_TRUE(shares.Deal({10 * kMs, 40 * kMs, 10 * kMs}));
  EXPECT_EQ(shares.ToString(), "4, 1, 3");
  EXPECT_EQ(shares.of(1).first, 4);
  EXPECT_EQ(shares.of(2).first, 5);
  // And back, once it is as fast as the others.
  EXPECT_TRUE(shares.Deal({10 * kMs, 10 * kMs, 10 * kMs}));
  EXPECT_EQ(shares.ToString(), "3, 3, 2");
}

TEST(ReplicaSharesTest, ALittleGainMovesNothing) {
  ReplicaShares shares(2, 42);
  EXPECT_FALSE(shares.Deal({100 * kMs, 105 * kMs}));
  EXPECT_FALSE(shares.Deal({100 * kMs, 110 * kMs}));  // 22:20 gains 4.8 %
  EXPECT_TRUE(shares.Deal({100 * kMs, 120 * kMs}));
  EXPECT_EQ(shares.ToString(), "23, 19");
}

TEST(ReplicaSharesTest, WhatIsNotKnownMovesNothing) {
  ReplicaShares shares(2, 8);
  for (const auto& nanos : std::vector<std::vector<int64_t>>{
           {0, kMs}, {kMs, -5}, {kMs}, {kMs, kMs, kMs}, {}}) {
    EXPECT_FALSE(shares.Deal(nanos));
  }
  EXPECT_EQ(shares.ToString(), "4, 4");
  EXPECT_TRUE(shares.Deal({INT64_MAX, 1}));
  EXPECT_EQ(shares.ToString(), "1, 7");
}

// What the others gather has a row for each replica of the largest share.
TEST(ReplicaSharesTest, NobodyGetsMoreThanFourTimesAnEvenShare) {
  std::vector<int64_t> nanos(16, 1000 * kMs);
  nanos[3] = 1;
  ReplicaShares shares(16, 128);
  EXPECT_TRUE(shares.Deal(nanos));
  EXPECT_EQ(shares.most(), 32);
  EXPECT_EQ(shares.of(3).count, 32);
  EXPECT_EQ(shares.of(15).first + shares.of(15).count, 128);
}

// The longest of a step by any deal there is.
int64_t ShortestStep(const std::vector<int64_t>& nanos, int replicas) {
  int64_t best = INT64_MAX;
  std::function<void(size_t, int, int64_t)> deal = [&](size_t rank, int left,
                                                       int64_t longest) {
    if (rank + 1 == nanos.size()) {
      best = std::min(best, std::max(longest, left * nanos[rank]));
      return;
    }
    const int others = static_cast<int>(nanos.size() - rank) - 1;
    for (int count = 1; count <= left - others; ++count) {
      deal(rank + 1, left - count, std::max(longest, count * nanos[rank]));
    }
  };
  deal(0, replicas, 0);
  return best;
}

TEST(ReplicaSharesTest, AnyDealCoversAllAndNoneIsShorter) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const int workers = 1 + static_cast<int>(random() % 4);
    const int replicas = workers + static_cast<int>(random() % 9);
    ReplicaShares shares(workers, replicas);
    for (int move = 0; move < 3; ++move) {
      std::vector<int64_t> nanos;
      for (int w = 0; w < workers; ++w) {
        nanos.push_back(1 + static_cast<int64_t>(random() % 1000));
      }
      const bool moved = shares.Deal(nanos);
      int next = 0, most = 0;
      int64_t longest = 0;
      for (int w = 0; w < workers; ++w) {
        const ReplicaRange range = shares.of(w);
        ASSERT_EQ(range.first, next);
        ASSERT_GE(range.count, 1);
        next += range.count;
        most = std::max(most, range.count);
        longest =
            std::max(longest, range.count * nanos[static_cast<size_t>(w)]);
      }
      ASSERT_EQ(next, replicas);
      ASSERT_EQ(shares.most(), most);
      const int64_t best = ShortestStep(nanos, replicas);
      if (moved) {
        ASSERT_EQ(longest, best);
      } else {
        ASSERT_LE(longest * 100, best * 105);
      }
      ASSERT_FALSE(shares.Deal(nanos));  // nothing is left to gain
    }
  }
}

TEST(KnownSpeedsTest, TheLastStepsCount) {
  using Nanos = std::vector<int64_t>;
  SoloCollective solo;
  KnownSpeeds speeds;
  Nanos nanos = {3, 5};
  ASSERT_TRUE(speeds.Meet(&solo, {7, 2}, &nanos).ok());
  EXPECT_EQ(speeds.Of(7), 3);
  EXPECT_EQ(speeds.Of(2), 5);
  EXPECT_EQ(speeds.Of(1), 0);
  EXPECT_EQ(speeds.Medians(0), Nanos());
  EXPECT_EQ(speeds.Shortest(5, 0), Nanos());
  for (const int64_t n : {10, 900, 20, 0, 30}) speeds.Add({n, 2 * n});
  EXPECT_EQ(speeds.Medians(4), Nanos({20, 40}));
  EXPECT_EQ(speeds.Shortest(2, 4), Nanos({20, 40}));
  EXPECT_EQ(speeds.Shortest(9, 4), Nanos({10, 20}));
  EXPECT_EQ(speeds.Medians(5), Nanos());  // 0 is no measurement
  EXPECT_EQ(speeds.Shortest(2, 5), Nanos());
  for (size_t i = 0; i < KnownSpeeds::kKept; ++i) speeds.Add({1000, 0});
  EXPECT_EQ(speeds.Medians(1), Nanos({1000, 40}));
  EXPECT_EQ(speeds.Shortest(99, 1), Nanos({1000, 20}));
  EXPECT_EQ(speeds.Of(7), 1000);
  nanos = {1};
  ASSERT_TRUE(speeds.Meet(&solo, {7}, &nanos).ok());
  EXPECT_EQ(speeds.Medians(1), Nanos());
  EXPECT_EQ(speeds.Of(2), 40);
}

}  // namespace
}  // namespace ringlet
