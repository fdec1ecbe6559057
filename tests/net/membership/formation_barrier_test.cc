#include "net/membership/formation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "net/collective/topology.h"

namespace ringlet {
namespace {

// The reports of all ranks that are under way, in order for each pair.
class Ring {
 public:
  Ring(int size, uint32_t seed) : size_(size), random_(seed) {
    for (int r = 0; r < size; ++r) {
      proposals_.push_back(1 + random_() % 9);
      greatest_ = std::max(greatest_, proposals_.back());
      ranks_.emplace_back(r, size, proposals_.back());
    }
    sent_.resize(size);
  }

  void Link(int a, int b) {
    ranks_[a].AddLink(b, proposals_[b]);
    ranks_[b].AddLink(a, proposals_[a]);
    up_.insert({a, b});
    up_.insert({b, a});
    Send(a, b);
    Send(b, a);
    Tell(a);
    Tell(b);
  }
  void Unlink(int a, int b) {
    ranks_[a].RemoveLink(b);
    ranks_[b].RemoveLink(a);
    up_.erase({a, b});
    up_.erase({b, a});
    queues_[{a, b}].clear();
    queues_[{b, a}].clear();
    Tell(a);
    Tell(b);
  }
  void LinkAllBut(int x, int y) {
    for (int a = 0; a < size_; ++a) {
      for (const int b : LinksOf(a, size_)) {
        if (a < b && !(a == x && b == y)) Link(a, b);
      }
    }
  }
  // Delivers at most `most` reports, each of a random pair.
  void Deliver(int64_t most = INT64_MAX) {
    while (most-- > 0 && !busy_.empty()) {
      std::swap(busy_[random_() % busy_.size()], busy_.back());
      const auto link = busy_.back();
      busy_.pop_back();
      if (queues_[link].empty()) continue;  // the link has gone meanwhile
      ranks_[link.second].SetReport(link.first, queues_[link].front());
      queues_[link].pop_front();
      Tell(link.second);
    }
  }
  int Complete() const {
    int n = 0;
    for (const FormationBarrier& rank : ranks_) n += rank.complete();
    return n;
  }
  const FormationBarrier& rank(int r) const { return ranks_[r]; }
  uint32_t greatest() const { return greatest_; }

 private:
  void Tell(int r) {
    const FormationReport report = ranks_[r].OwnReport();
    if (report.level == sent_[r].level && report.missing == sent_[r].missing &&
        report.generation == sent_[r].generation) {
      return;
    }
    sent_[r] = report;
    for (const int to : ranks_[r].receivers()) Send(r, to);
  }
  void Send(int from, int to) {
    if (up_.count({from, to}) == 0) return;
    queues_[{from, to}].push_back(sent_[from]);
    busy_.push_back({from, to});
  }

  const int size_;
  std::mt19937 random_;
  uint32_t greatest_ = 0;
  std::vector<uint32_t> proposals_;
  std::vector<FormationBarrier> ranks_;
  std::vector<FormationReport> sent_;
  std::set<std::pair<int, int>> up_;
  std::map<std::pair<int, int>, std::deque<FormationReport>> queues_;
  std::vector<std::pair<int, int>> busy_;  // one for each in queues_, at least
};

TEST(FormationBarrierTest, LastLink_Up_AllAreDoneAndNotBefore) {
  for (const int size : {2, 16, 17, 18, 24, 32, 33, 100}) {
    for (uint32_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE(testing::Message() << size << " ranks, seed " << seed);
      Ring ring(size, seed);
      const int last = static_cast<int>(seed) % (size - 1);
      ring.LinkAllBut(last, last + 1);
      ring.Deliver();
      // In a fully connected ring the others need no report of these two.
      EXPECT_EQ(ring.Complete(), IsFullyConnected(size) ? size - 2 : 0);
      for (int r = 0; r < size && !IsFullyConnected(size); ++r) {
        const int missing = ring.rank(r).OwnReport().missing;
        EXPECT_TRUE(missing == last || missing == last + 1) << missing;
      }
      ring.Link(last, last + 1);
      ring.Deliver();
      ASSERT_EQ(ring.Complete(), size);
      for (int r = 0; r < size; ++r) {
        EXPECT_EQ(ring.rank(r).OwnReport().generation, ring.greatest());
      }
    }
  }
}

// Links that come and go while reports are under way.
TEST(FormationBarrierTest, Losses_Meanwhile_NoRankIsDoneWithoutALink) {
  for (const int size : {17, 24, 33}) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      SCOPED_TRACE(testing::Message() << size << " ranks, seed " << seed);
      Ring ring(size, seed);
      std::mt19937 random(seed);
      ring.LinkAllBut(0, 1);  // never before the end
      for (int i = 0; i < 20; ++i) {
        const int a = 2 + static_cast<int>(random() % (size - 3));
        ring.Unlink(a, a + 1);
        ring.Deliver(random() % 200);
        ASSERT_EQ(ring.Complete(), 0);
        ring.Link(a, a + 1);
        ring.Deliver(random() % 200);
        ASSERT_EQ(ring.Complete(), 0);
      }
      ring.Link(0, 1);
      ring.Deliver();
      ASSERT_EQ(ring.Complete(), size);
    }
  }
}

// Every rank that was done relies on a rank that takes its report back.
TEST(FormationBarrierTest, LinkLoss_AllWereDone_ReachesEveryRank) {
  constexpr int kSize = 24;
  Ring ring(kSize, 1);
  ring.LinkAllBut(-1, -1);
  ring.Deliver();
  ring.Unlink(4, 5);
  ring.Deliver();
  EXPECT_EQ(ring.Complete(), 0);
  for (int r = 0; r < kSize; ++r) {
    bool deserted = r == 4 || r == 5;
    for (const int peer : LinksOf(r, kSize)) {
      deserted = deserted || ring.rank(r).HasDeparted(peer);
    }
    EXPECT_TRUE(deserted) << r;
  }
}

}  // namespace
}  // namespace ringlet
