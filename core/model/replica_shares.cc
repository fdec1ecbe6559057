#include "replica_shares.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "../base/check.h"

namespace ringlet {
namespace {

constexpr int64_t kMostNanos = int64_t{1} << 40;  // 18 minutes

// Of a step.
int64_t LongestOf(const std::vector<int>& counts,
                  const std::vector<int64_t>& nanos) {
  int64_t longest = 0;
  for (size_t r = 0; r < counts.size(); ++r) {
    longest = std::max(longest, counts[r] * nanos[r]);
  }
  return longest;
}

}  // namespace

ReplicaShares::ReplicaShares(int workers, int replicas) {
  for (int r = 0; r < workers; ++r) {
    counts_.push_back(ReplicasOf(r, workers, replicas).count);
  }
}

ReplicaShares ReplicaShares::Own(std::vector<int> replicas) {
  const int workers = static_cast<int>(replicas.size());
  ReplicaShares shares(workers, workers);
  shares.own_ = std::move(replicas);
  return shares;
}

ReplicaRange ReplicaShares::of(int rank) const {
  RINGLET_CHECK(rank >= 0 && rank < workers());
  if (own()) return {own_[static_cast<size_t>(rank)], 1};
  const auto own = counts_.begin() + rank;
  return {std::accumulate(counts_.begin(), own, 0), *own};
}

int ReplicaShares::most() const {
  return *std::max_element(counts_.begin(), counts_.end());
}

bool ReplicaShares::Deal(const std::vector<int64_t>& nanos, int percent) {
  if (nanos.size() != counts_.size() || own()) return false;
  std::vector<int64_t> each;
  for (const int64_t n : nanos) {
    if (n <= 0) return false;
    each.push_back(std::min(n, kMostNanos));
  }
  // One after another to whom it costs the least time: the shortest step.
  std::vector<int> counts(counts_.size(), 1);
  const int replicas = std::accumulate(counts_.begin(), counts_.end(), 0);
  const int most = 4 * ((replicas + workers() - 1) / workers());
  for (int left = replicas - workers(); left > 0; --left) {
    size_t best = counts.size();
    for (size_t r = 0; r < counts.size(); ++r) {
      if (counts[r] == most) continue;
      if (best == counts.size() ||
          (counts[r] + 1) * each[r] < (counts[best] + 1) * each[best]) {
        best = r;
      }
    }
    ++counts[best];
  }
  if (LongestOf(counts_, each) * 100 <=
      LongestOf(counts, each) * (100 + percent)) {
    return false;
  }
  counts_ = counts;
  return true;
}

std::string ReplicaShares::ToString() const {
  std::string out;
  for (const int count : counts_) {
    out += (out.empty() ? "" : ", ") + std::to_string(count);
  }
  return out;
}

}  // namespace ringlet
