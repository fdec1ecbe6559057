#include "replica_assignment.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "../base/check.h"

namespace ringlet {
namespace {

constexpr int64_t kPercent = 5;                  // least gain of a step
constexpr int64_t kMaxNanos = int64_t{1} << 40;  // 18 minutes

// Returns the time of a step.
int64_t LongestOf(const std::vector<int>& counts,
                  const std::vector<int64_t>& nanos) {
  int64_t longest = 0;
  for (size_t r = 0; r < counts.size(); ++r) {
    longest = std::max(longest, counts[r] * nanos[r]);
  }
  return longest;
}

}  // namespace

ReplicaAssignment::ReplicaAssignment(int workers, int replicas) {
  for (int r = 0; r < workers; ++r) {
    counts_.push_back(ReplicasOf(r, workers, replicas).count);
  }
}

ReplicaAssignment ReplicaAssignment::FixedPerRank(std::vector<int> replicas) {
  const int workers = static_cast<int>(replicas.size());
  ReplicaAssignment assignment(workers, workers);
  assignment.fixed_ = std::move(replicas);
  return assignment;
}

ReplicaRange ReplicaAssignment::range(int rank) const {
  RINGLET_CHECK(rank >= 0 && rank < workers());
  if (is_fixed()) return {fixed_[static_cast<size_t>(rank)], 1};
  const auto count = counts_.begin() + rank;
  return {std::accumulate(counts_.begin(), count, 0), *count};
}

int ReplicaAssignment::max_per_rank() const {
  return *std::max_element(counts_.begin(), counts_.end());
}

bool ReplicaAssignment::Assign(const std::vector<int64_t>& nanos) {
  if (nanos.size() != counts_.size() || is_fixed()) return false;
  std::vector<int64_t> replica_nanos;
  for (const int64_t n : nanos) {
    if (n <= 0) return false;
    replica_nanos.push_back(std::min(n, kMaxNanos));
  }
  // Gives each replica to the rank that then has the least time, one after
  // another. This makes the shortest step.
  std::vector<int> counts(counts_.size(), 1);
  const int replicas = std::accumulate(counts_.begin(), counts_.end(), 0);
  const int max_count = 4 * ((replicas + workers() - 1) / workers());
  for (int remaining = replicas - workers(); remaining > 0; --remaining) {
    size_t best = counts.size();
    for (size_t r = 0; r < counts.size(); ++r) {
      if (counts[r] == max_count) continue;
      if (best == counts.size() ||
          (counts[r] + 1) * replica_nanos[r] <
              (counts[best] + 1) * replica_nanos[best]) {
        best = r;
      }
    }
    ++counts[best];
  }
  if (LongestOf(counts_, replica_nanos) * 100 <=
      LongestOf(counts, replica_nanos) * (100 + kPercent)) {
    return false;
  }
  counts_ = counts;
  return true;
}

std::string ReplicaAssignment::ToString() const {
  std::string out;
  for (const int count : counts_) {
    out += (out.empty() ? "" : ", ") + std::to_string(count);
  }
  return out;
}

}  // namespace ringlet
