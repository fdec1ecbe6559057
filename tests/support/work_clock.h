// WorkClock: a clock for each thread, which advances only by Pass. A test of
// slow work takes no real time, and gives the same result on a busy machine.

#ifndef RINGLET_TESTS_SUPPORT_WORK_CLOCK_H_
#define RINGLET_TESTS_SUPPORT_WORK_CLOCK_H_

#include "nanoseconds.h"
#include "ringlet/collective.h"

namespace ringlet {

class WorkClock final : public Clock {
 public:
  // Each method uses the time of the calling thread.
  static WorkClock* Get() {
    static WorkClock clock;
    return &clock;
  }
  static void Pass(int64_t nanos) { Now() += nanos; }
  static void PassMillis(int64_t millis) { Pass(millis * kMs); }

  int64_t MonotonicNanos() override { return Now(); }
  int64_t WallNanos() override { return Now(); }

 private:
  static int64_t& Now() {
    static thread_local int64_t now = 1000000000;
    return now;
  }
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_WORK_CLOCK_H_
