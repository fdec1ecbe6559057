#include "net/collective/collective_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "net/collective/topology.h"

namespace ringlet {
namespace {

using Vector = std::vector<float>;

// Carries out the steps of all ranks under the rules of collective_steps.h,
// each rank as far as possible before the next. Returns false if no rank can
// continue.
bool RunSteps(const std::vector<std::vector<Step>>& lists,
              std::vector<Vector>* data) {
  const int size = static_cast<int>(lists.size());
  std::map<std::pair<int, int>, std::vector<Vector>> frames_of;
  std::map<std::pair<int, int>, size_t> taken;
  std::vector<size_t> at(size, 0);
  std::vector<bool> sent(size, false);
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < size; ++r) {
      while (at[r] < lists[r].size()) {
        const Step& step = lists[r][at[r]];
        Vector& v = (*data)[r];
        if (step.send_to >= 0 && !sent[r]) {
          EXPECT_NE(step.send_to, r);
          frames_of[{r, step.send_to}].emplace_back(
              v.begin() + step.send.begin,
              v.begin() + step.send.begin + step.send.count);
          sent[r] = moved = true;
        }
        if (step.receive_from >= 0) {
          const std::pair<int, int> link{step.receive_from, r};
          if (taken[link] == frames_of[link].size()) break;
          const Vector& in = frames_of[link][taken[link]++];
          if (static_cast<int64_t>(in.size()) != step.receive.count) {
            return false;
          }
          for (size_t i = 0; i < in.size(); ++i) {
            float& to = v[step.receive.begin + i];
            to = step.add ? to + in[i] : in[i];
          }
        }
        ++at[r];
        sent[r] = false;
        moved = true;
      }
    }
  }
  for (int r = 0; r < size; ++r) {
    if (at[r] != lists[r].size()) return false;
  }
  for (const auto& [link, frames] : frames_of) {
    if (taken[link] != frames.size()) return false;
  }
  return true;
}

float Value(int rank, int64_t i) {
  return static_cast<float>((rank + 1) * 0.37 + i * 0.011);
}

using Algorithm =
    std::function<void(int rank, int size, int64_t n, std::vector<Step>*)>;

void ExpectSums(const Algorithm& algorithm, int size, int64_t n) {
  SCOPED_TRACE(testing::Message() << size << " ranks, " << n << " elements");
  std::vector<std::vector<Step>> lists(size);
  std::vector<Vector> data(size, Vector(n));
  for (int r = 0; r < size; ++r) {
    algorithm(r, size, n, &lists[r]);
    for (int64_t i = 0; i < n; ++i) data[r][i] = Value(r, i);
  }
  ASSERT_TRUE(RunSteps(lists, &data));
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int r = 0; r < size; ++r) sum += Value(r, i);
    ASSERT_NEAR(data[0][i], sum, 1e-5 * sum);
  }
  for (int r = 1; r < size; ++r) {
    ASSERT_EQ(std::memcmp(data[r].data(), data[0].data(), n * sizeof(float)),
              0);
  }
}

TEST(CollectiveStepsTest, Blocks_EveryLengthAndWorld_CoverItOnce) {
  for (int size = 1; size <= 9; ++size) {
    for (int64_t n = 0; n <= 1000; ++n) {
      int64_t at = 0;
      for (int b = 0; b < size; ++b) {
        const Slice slice = BlockOf(n, size, b);
        ASSERT_EQ(slice.begin, at);
        ASSERT_LE(slice.count, n / size + 1);
        at += slice.count;
      }
      ASSERT_EQ(at, n);
    }
  }
}

TEST(CollectiveStepsTest, RingAllReduce_EveryLengthAndWorld_IsTheSum) {
  for (int size = 1; size <= 9; ++size) {
    for (int64_t n = 1; n <= 1000; ++n) ExpectSums(RingAllReduce, size, n);
  }
}

TEST(CollectiveStepsTest, RingAllReduce_FiveRanks_SendsNoMoreThanItMust) {
  std::vector<Step> steps;
  RingAllReduce(2, 5, 1000, &steps);
  int64_t moved = 0;
  for (const Step& step : steps) moved += step.send.count;
  EXPECT_EQ(moved, 2 * 4 * 1000 / 5);
}

TEST(CollectiveStepsTest, DoublingAllReduce_EveryLengthAndWorld_IsTheSum) {
  const Algorithm whole = [](int rank, int size, int64_t n,
                             std::vector<Step>* out) {
    DoublingAllReduce(rank, size, n, 2048, out);
  };
  const Algorithm pieces = [](int rank, int size, int64_t n,
                              std::vector<Step>* out) {
    DoublingAllReduce(rank, size, n, 64, out);
  };
  for (int size = 1; size <= 9; ++size) {
    for (int64_t n = 0; n <= 1000; ++n) {
      ExpectSums(whole, size, n);
      if (n % 7 == 0) ExpectSums(pieces, size, n);
    }
  }
}

TEST(CollectiveStepsTest, DoublingAllReduce_EightRanks_TakesThreeSteps) {
  std::vector<Step> steps;
  DoublingAllReduce(3, 8, 1, 2048, &steps);
  EXPECT_EQ(steps.size(), 3u);
}

void ExpectGathered(const Algorithm& algorithm, int size, int64_t n) {
  SCOPED_TRACE(testing::Message() << size << " ranks, " << n << " elements");
  std::vector<std::vector<Step>> lists(size);
  std::vector<Vector> data(size, Vector(n * size, -1));
  for (int r = 0; r < size; ++r) {
    algorithm(r, size, n, &lists[r]);
    for (int64_t i = 0; i < n; ++i) data[r][r * n + i] = Value(r, i);
  }
  ASSERT_TRUE(RunSteps(lists, &data));
  for (int r = 0; r < size; ++r) {
    for (int64_t i = 0; i < n * size; ++i) {
      ASSERT_EQ(data[r][i], Value(static_cast<int>(i / n), i % n));
    }
  }
}

TEST(CollectiveStepsTest, AllGather_EveryLengthAndWorld_BringsEveryPart) {
  for (int size = 1; size <= 9; ++size) {
    for (int64_t n = 1; n <= 40; ++n) {
      ExpectGathered(RingAllGather, size, n);
      ExpectGathered(DirectAllGather, size, n);
    }
    ExpectGathered(DirectAllGather, size, 0);
  }
  for (const int size : {1, 2, 3, 4, 7, 8, 16, 17, 24, 33, 100}) {
    for (const int64_t n : {0, 1, 3}) ExpectGathered(TreeAllGather, size, n);
  }
}

TEST(CollectiveStepsTest, Broadcast_EveryRootAndWorld_ReachesEveryRank) {
  for (int size = 1; size <= 9; ++size) {
    for (int root = 0; root < size; ++root) {
      std::vector<std::vector<Step>> lists(size);
      std::vector<Vector> data(size, Vector(3, -1));
      for (int r = 0; r < size; ++r) {
        TreeBroadcast(r, size, root, 3, &lists[r]);
        ASSERT_LE(lists[r].size(), 4u);
      }
      data[root] = {1, 2, 3};
      ASSERT_TRUE(RunSteps(lists, &data));
      for (int r = 0; r < size; ++r) ASSERT_EQ(data[r], data[root]);
    }
  }
}

// The steps of all operations that a large ring uses.
TEST(CollectiveStepsTest, Steps_LargeRings_AreBetweenLinkedRanks) {
  for (const int size : {17, 18, 24, 33, 64, 100, 1000}) {
    for (int rank = 0; rank < size; ++rank) {
      std::vector<Step> all, steps;
      const auto add = [&] {
        all.insert(all.end(), steps.begin(), steps.end());
      };
      RingAllGather(rank, size, 1, &steps), add();
      DoublingAllReduce(rank, size, 1, 1, &steps), add();
      TreeAllGather(rank, size, 1, &steps), add();
      for (const int root : {0, 1, 7, size / 2, size - 1}) {
        TreeBroadcast(rank, size, root, 1, &steps), add();
      }
      for (const Step& step : all) {
        for (const int peer : {step.send_to, step.receive_from}) {
          ASSERT_TRUE(peer < 0 || AreLinked(size, rank, peer))
              << size << " ranks, " << rank << " and " << peer;
        }
      }
    }
  }
}

TEST(TopologyTest, Links_AnySize_AreMutualAndFew) {
  for (const int size : {2, 16, 17, 18, 24, 33, 64, 100, 1000}) {
    size_t most = 0;
    for (int a = 0; a < size; ++a) {
      most = std::max(most, LinksOf(a, size).size());
      EXPECT_FALSE(AreLinked(size, a, a));
      for (int b = 0; b < size; ++b) {
        ASSERT_EQ(AreLinked(size, a, b), AreLinked(size, b, a));
        ASSERT_TRUE(AreLinked(size, a, b) || a == b ||
                    size > kMaxFullyConnected);
      }
    }
    EXPECT_TRUE(size < 1000 || most == 20) << most;
  }
}

}  // namespace
}  // namespace ringlet
