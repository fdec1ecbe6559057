// kMs: a millisecond in nanoseconds, the unit of clocks.

#ifndef RINGLET_TESTS_SUPPORT_NANOSECONDS_H_
#define RINGLET_TESTS_SUPPORT_NANOSECONDS_H_

#include <cstdint>

namespace ringlet {

constexpr int64_t kMs = 1000000;

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_NANOSECONDS_H_
