// Clock: the seam through which ringlet reads time.
//
// Public. The product reads the system's clocks; tests step a fake one.

#ifndef RINGLET_CORE_BASE_CLOCK_H_
#define RINGLET_CORE_BASE_CLOCK_H_

#include <cstdint>

namespace ringlet {

class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes back; unrelated to the date. Nanoseconds.
  virtual int64_t MonotonicNanos() = 0;
  // Since 1970 UTC; may jump. Nanoseconds.
  virtual int64_t WallNanos() = 0;

  static Clock* System();  // lives for ever
};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_CLOCK_H_
