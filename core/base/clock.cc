// The system's clock and the wall clock: Clock of ringlet/collective.h.

#include "ringlet/collective.h"

#include <ctime>

#include "time_units.h"

namespace ringlet {
namespace {

int64_t NanosOfClock(clockid_t id) {
  timespec t;
  clock_gettime(id, &t);
  return int64_t{t.tv_sec} * kSecond + t.tv_nsec;
}

class SystemClock final : public Clock {
 public:
  int64_t MonotonicNanos() override { return NanosOfClock(CLOCK_MONOTONIC); }
  int64_t WallNanos() override { return NanosOfClock(CLOCK_REALTIME); }
};

}  // namespace

Clock* Clock::System() {
  static SystemClock clock;
  return &clock;
}

}  // namespace ringlet
