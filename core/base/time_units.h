// Times in nanoseconds, as Clock has them.

#ifndef RINGLET_CORE_BASE_TIME_UNITS_H_
#define RINGLET_CORE_BASE_TIME_UNITS_H_

#include <cstdint>

namespace ringlet {

constexpr int64_t kMillisecond = 1000000;
constexpr int64_t kSecond = 1000 * kMillisecond;

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_TIME_UNITS_H_
