// ReplicaSums: the sum of the gradients of a worker's own replicas.
//
// Internal to core/. Floats, added in the order of the replicas.

#ifndef RINGLET_CORE_MODEL_REPLICA_SUMS_H_
#define RINGLET_CORE_MODEL_REPLICA_SUMS_H_

#include <cstdint>

namespace ringlet {

class ReplicaSums {
 public:
  // `sums` has as many floats as `gradients`; both outlive it. Null where the
  // worker computes one replica: there is nothing to add.
  ReplicaSums(float* gradients, float* sums)
      : gradients_(gradients), sums_(sums) {}

  // The pass of number `replica` of `replicas` begins.
  void Begin(int replica, int replicas);
  // gradients[begin … end) are final of this pass; each is so once. In the last
  // one they become the sums of all passes.
  void Add(int64_t begin, int64_t end) const;
  bool last() const { return last_; }

 private:
  float* const gradients_;
  float* const sums_;
  bool first_ = true, last_ = true;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_REPLICA_SUMS_H_
