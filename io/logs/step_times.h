// StepTimes: quantiles of the times of many steps, in a fixed memory.
//
// A time is counted in one of 32 equal parts of its power of two, so quantiles
// are within 2 %.

#ifndef RINGLET_IO_LOGS_STEP_TIMES_H_
#define RINGLET_IO_LOGS_STEP_TIMES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ringlet {

class StepTimes {
 public:
  // Adds `steps` steps of `nanos` each.
  void Add(int64_t nanos, int64_t steps) {
    nanos = std::max<int64_t>(nanos, 0);
    counts_[PlaceOf(nanos)] += static_cast<uint32_t>(steps);
    max_ = std::max(max_, nanos);
    count_ += steps;
  }
  int64_t count() const { return count_; }
  int64_t max() const { return max_; }
  // The nearest time of which at least `share` of all are not greater.
  int64_t Quantile(double share) const {
    int64_t remaining =
        static_cast<int64_t>(share * static_cast<double>(count_));
    for (size_t i = 0; i < counts_.size(); ++i) {
      remaining -= counts_[i];
      if (remaining < 0) return std::min(TimeAt(i), max_);
    }
    return max_;
  }
  void Clear() { *this = StepTimes(); }

 private:
  static constexpr int kBits = 5, kParts = 1 << kBits;

  static size_t PlaceOf(int64_t nanos) {
    if (nanos < kParts) return static_cast<size_t>(nanos);
    const int shift =
        63 - kBits - __builtin_clzll(static_cast<uint64_t>(nanos));
    return static_cast<size_t>(shift * kParts + (nanos >> shift));
  }
  // The middle of a place.
  static int64_t TimeAt(size_t place) {
    if (place < kParts) return static_cast<int64_t>(place);
    const auto shift = place / kParts - 1;
    const auto first = static_cast<int64_t>(place % kParts + kParts) << shift;
    return first + ((int64_t{1} << shift) >> 1);
  }

  std::array<uint32_t, (64 - kBits)* kParts> counts_ = {};
  int64_t count_ = 0, max_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_STEP_TIMES_H_
