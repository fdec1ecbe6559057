// Interval: the permitted numbers of a setting.

#ifndef RINGLET_CORE_BASE_INTERVAL_H_
#define RINGLET_CORE_BASE_INTERVAL_H_

#include <cfloat>
#include <string>

namespace ringlet {

// Numbers between two ends. An end is included unless it is open. An end of
// FLT_MAX or more means no limit.
struct Interval {
  double low = -FLT_MAX, high = FLT_MAX;
  bool low_open = false, high_open = false;
  bool Holds(double number) const {
    return (low_open ? number > low : number >= low) &&
           (high_open ? number < high : number <= high);
  }
};
// "a number in [0, 1)"
std::string ToString(const Interval& interval);

constexpr Interval kAnyNumber = {};
constexpr Interval kNotNegative = {0, FLT_MAX};
constexpr Interval kPositive = {0, FLT_MAX, /*low_open=*/true};
constexpr Interval kFraction = {0, 1};
constexpr Interval kFractionBelow1 = {0, 1, /*low_open=*/false,
                                      /*high_open=*/true};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_INTERVAL_H_
