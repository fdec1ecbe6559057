#include "replica_sums.h"

#include <algorithm>

#include "../base/check.h"

namespace ringlet {

void ReplicaSums::Begin(int replica, int replicas) {
  RINGLET_CHECK(replicas == 1 || sums_ != nullptr);
  first_ = replica == 0;
  last_ = replica + 1 == replicas;
}

void ReplicaSums::Add(int64_t begin, int64_t end) const {
  if (first_ && last_) return;
  float* const to = (last_ ? gradients_ : sums_) + begin;
  const float* const from = (last_ ? sums_ : gradients_) + begin;
  const int64_t count = end - begin;
  if (first_) {
    std::copy_n(from, count, to);
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace ringlet
