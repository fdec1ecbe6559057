// Times in nanoseconds, as Clock has them.

#ifndef RINGLET_CORE_BASE_TIME_UNITS_H_
#define RINGLET_CORE_BASE_TIME_UNITS_H_

#include <cstdint>

namespace ringlet {

constexpr int64_t kMillisecond = 1000000;
constexpr int64_t kSecond = 1000 * kMillisecond;

// `seconds` is less than 9.2e9, which is 292 years.
constexpr int64_t Nanos(double seconds) {
  return static_cast<int64_t>(seconds * 1e9);
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_TIME_UNITS_H_
