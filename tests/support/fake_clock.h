// A clock that only changes when a test moves it.

#ifndef RINGLET_TESTS_SUPPORT_FAKE_CLOCK_H_
#define RINGLET_TESTS_SUPPORT_FAKE_CLOCK_H_

#include "ringlet/collective.h"

namespace ringlet {

class FakeClock final : public Clock {
 public:
  int64_t MonotonicNanos() override { return monotonic; }
  int64_t WallNanos() override { return wall; }
  void Advance(double seconds) {
    monotonic += static_cast<int64_t>(seconds * 1e9);
    wall += static_cast<int64_t>(seconds * 1e9);
  }

  int64_t monotonic = 1000000000;
  int64_t wall = 1700000000000000000;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_FAKE_CLOCK_H_
