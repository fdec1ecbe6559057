// ReplicaTimes: how long a replica's examples and passes take on this worker.
//
// Waiting for other ranks does not count, nor do replicas without examples, nor
// the first step of an exchange, which allocates.

#ifndef RINGLET_CORE_STEP_REPLICA_TIMES_H_
#define RINGLET_CORE_STEP_REPLICA_TIMES_H_

#include <cstdint>

namespace ringlet {

class ReplicaTimes {
 public:
  // Adds the nanoseconds that a replica has taken.
  void Add(int64_t nanos) {
    nanos_ += nanos;
    ++replicas_;
  }
  // Adds the nanoseconds that reading the next step's first examples has taken.
  void AddReading(int64_t nanos) { nanos_ += nanos; }

  // Marks the next step or round as the first of an exchange.
  void SetExchange() { warm_ = false; }
  // After a step or round: drops its times if it was the first.
  void DropCold() {
    if (!warm_) nanos_ = replicas_ = 0;
    warm_ = true;
  }

  // The average time of a replica since the last call; zero if none was added.
  int64_t Take() {
    const int64_t nanos = replicas_ == 0 ? 0 : nanos_ / replicas_;
    nanos_ = replicas_ = 0;
    return nanos;
  }
  // A running average, for rounds; zero if not known. The time since the last
  // call counts a quarter, the earlier average the rest. `soon` means that few
  // steps were measured. If the first average is from a call with `soon`, the
  // next call replaces it.
  int64_t Average(bool soon) {
    const int64_t now = Take();
    if (now == 0) return average_;
    const bool first = average_ == 0 || soon_;
    average_ = first ? now : (3 * average_ + now) / 4;
    soon_ = first && soon;
    return average_;
  }

 private:
  int64_t nanos_ = 0, replicas_ = 0;  // the sums since the last Take
  int64_t average_ = 0;
  bool soon_ = false;  // average_ is from few steps
  bool warm_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_STEP_REPLICA_TIMES_H_
