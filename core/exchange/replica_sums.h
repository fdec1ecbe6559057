// ReplicaSums: adds the gradients of a worker's replicas.
//
// It adds floats, in the order of the replicas.

#ifndef RINGLET_CORE_EXCHANGE_REPLICA_SUMS_H_
#define RINGLET_CORE_EXCHANGE_REPLICA_SUMS_H_

#include <algorithm>
#include <cstdint>

#include "../base/check.h"

namespace ringlet {

class ReplicaSums {
 public:
  // `sums` is as long as `gradients`. Both outlive the ReplicaSums. Null for a
  // worker with one replica, which has nothing to add.
  ReplicaSums(float* gradients, float* sums)
      : gradients_(gradients), sums_(sums) {}

  // Begins the pass of replica `replica` of `replicas`.
  void Begin(int replica, int replicas) {
    RINGLET_CHECK(replicas == 1 || sums_ != nullptr);
    first_ = replica == 0;
    last_ = replica + 1 == replicas;
  }
  // gradients[begin … end) are final in this pass; call it once for each range.
  // The last pass makes them the sums of all passes.
  void Add(int64_t begin, int64_t end) const {
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
  bool last() const { return last_; }

 private:
  float* const gradients_;
  float* const sums_;
  bool first_ = true, last_ = true;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_REPLICA_SUMS_H_
