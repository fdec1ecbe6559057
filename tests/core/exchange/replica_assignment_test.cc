#include "core/exchange/replica_assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/nanoseconds.h"
#include "core/base/solo_collective.h"
#include "core/exchange/worker_throughput.h"

namespace ringlet {
namespace {

TEST(ReplicaAssignmentTest, Assignment_NoTimesYet_IsEven) {
  EXPECT_EQ(ReplicaAssignment(3, 8).ToString(), "2, 3, 3");
  EXPECT_EQ(ReplicaAssignment(4, 4).ToString(), "1, 1, 1, 1");
  EXPECT_EQ(ReplicaAssignment().max_per_rank(), 1);
}

TEST(ReplicaAssignmentTest, Assign_SlowWorker_GetsFewer) {
  ReplicaAssignment assignment(3, 8);
  EXPECT_TRUE(assignment.Assign({10 * kMs, 40 * kMs, 10 * kMs}));
  EXPECT_EQ(assignment.ToString(), "4, 1, 3");
  EXPECT_EQ(assignment.range(1).first, 4);
  EXPECT_EQ(assignment.range(2).first, 5);
  // The assignment moves back once worker 1 is as fast as the other workers.
  EXPECT_TRUE(assignment.Assign({10 * kMs, 10 * kMs, 10 * kMs}));
  EXPECT_EQ(assignment.ToString(), "3, 3, 2");
}

TEST(ReplicaAssignmentTest, Assign_GainBelowFivePercent_MovesNothing) {
  ReplicaAssignment assignment(2, 42);
  EXPECT_FALSE(assignment.Assign({100 * kMs, 105 * kMs}));
  EXPECT_FALSE(assignment.Assign({100 * kMs, 110 * kMs}));  // 22:20 gains 4.8 %
  EXPECT_TRUE(assignment.Assign({100 * kMs, 120 * kMs}));
  EXPECT_EQ(assignment.ToString(), "23, 19");
}

TEST(ReplicaAssignmentTest, Assign_TimesUnknown_MovesNothing) {
  ReplicaAssignment assignment(2, 8);
  for (const auto& nanos : std::vector<std::vector<int64_t>>{
           {0, kMs}, {kMs, -5}, {kMs}, {kMs, kMs, kMs}, {}}) {
    EXPECT_FALSE(assignment.Assign(nanos));
  }
  EXPECT_EQ(assignment.ToString(), "4, 4");
  EXPECT_TRUE(assignment.Assign({INT64_MAX, 1}));
  EXPECT_EQ(assignment.ToString(), "1, 7");
}

// Each worker gathers as many rows as the greatest number of replicas on one
// worker. So this number is bounded.
TEST(ReplicaAssignmentTest, Assign_AnyTimes_GivesAtMostFourTimesAnEvenShare) {
  std::vector<int64_t> nanos(16, 1000 * kMs);
  nanos[3] = 1;
  ReplicaAssignment assignment(16, 128);
  EXPECT_TRUE(assignment.Assign(nanos));
  EXPECT_EQ(assignment.max_per_rank(), 32);
  EXPECT_EQ(assignment.range(3).count, 32);
  EXPECT_EQ(assignment.range(15).first + assignment.range(15).count, 128);
}

// The step time of the best assignment, found by trying all of them.
int64_t ShortestStep(const std::vector<int64_t>& nanos, int replicas) {
  int64_t best = INT64_MAX;
  std::function<void(size_t, int, int64_t)> try_assignments =
      [&](size_t rank, int left, int64_t longest) {
        if (rank + 1 == nanos.size()) {
          best = std::min(best, std::max(longest, left * nanos[rank]));
          return;
        }
        const int others = static_cast<int>(nanos.size() - rank) - 1;
        for (int count = 1; count <= left - others; ++count) {
          try_assignments(rank + 1, left - count,
                          std::max(longest, count * nanos[rank]));
        }
      };
  try_assignments(0, replicas, 0);
  return best;
}

TEST(ReplicaAssignmentTest, Assign_AnyTimes_CoversAllWithin5PercentOfTheBest) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const int workers = 1 + static_cast<int>(random() % 4);
    const int replicas = workers + static_cast<int>(random() % 9);
    ReplicaAssignment assignment(workers, replicas);
    for (int move = 0; move < 3; ++move) {
      std::vector<int64_t> nanos;
      for (int w = 0; w < workers; ++w) {
        nanos.push_back(1 + static_cast<int64_t>(random() % 1000));
      }
      const bool moved = assignment.Assign(nanos);
      int next = 0, most = 0;
      int64_t longest = 0;
      for (int w = 0; w < workers; ++w) {
        const ReplicaRange range = assignment.range(w);
        ASSERT_EQ(range.first, next);
        ASSERT_GE(range.count, 1);
        next += range.count;
        most = std::max(most, range.count);
        longest =
            std::max(longest, range.count * nanos[static_cast<size_t>(w)]);
      }
      ASSERT_EQ(next, replicas);
      ASSERT_EQ(assignment.max_per_rank(), most);
      const int64_t best = ShortestStep(nanos, replicas);
      if (moved) {
        ASSERT_EQ(longest, best);
      } else {
        ASSERT_LE(longest * 100, best * 105);
      }
      ASSERT_FALSE(assignment.Assign(nanos));  // nothing is left to gain
    }
  }
}

TEST(WorkerThroughputTest, Shortest_ManyStepsAdded_CountsTheLastOnes) {
  using Nanos = std::vector<int64_t>;
  SoloCollective solo;
  WorkerThroughput throughput;
  Nanos nanos = {3, 5};
  ASSERT_OK(throughput.BeginView(&solo, {7, 2}, &nanos));
  EXPECT_EQ(throughput.NanosPerReplica(7), 3);
  EXPECT_EQ(throughput.NanosPerReplica(2), 5);
  EXPECT_EQ(throughput.NanosPerReplica(1), 0);
  EXPECT_EQ(throughput.Shortest(5, 0), Nanos());
  for (const int64_t n : {10, 900, 20, 0, 30}) throughput.Add({n, 2 * n});
  EXPECT_EQ(throughput.Shortest(2, 4), Nanos({20, 40}));
  EXPECT_EQ(throughput.Shortest(9, 4), Nanos({10, 20}));
  EXPECT_EQ(throughput.Shortest(2, 5), Nanos());  // 0 is no measurement
  for (size_t i = 0; i < WorkerThroughput::kKept; ++i)
    throughput.Add({1000, 0});
  EXPECT_EQ(throughput.Shortest(99, 1), Nanos({1000, 20}));
  EXPECT_EQ(throughput.NanosPerReplica(7), 1000);
  nanos = {1};
  ASSERT_OK(throughput.BeginView(&solo, {7}, &nanos));
  EXPECT_EQ(throughput.Shortest(1, 1), Nanos());
  EXPECT_EQ(throughput.NanosPerReplica(2), 40);
}

}  // namespace
}  // namespace ringlet
