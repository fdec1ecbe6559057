// RefusalLimits: decides which refusals are reported.
//
// Pure: time is an argument, in nanoseconds of a monotonic clock. The same
// refusal is reported again after a minute at the earliest. At most kMax are
// reported within a window of time, so a stranger cannot fill a log. After a
// window with kMax reports the next window is twice as long.

#ifndef RINGLET_NET_MEMBERSHIP_REFUSAL_LIMITS_H_
#define RINGLET_NET_MEMBERSHIP_REFUSAL_LIMITS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "../../core/base/time_units.h"

namespace ringlet {

class RefusalLimits {
 public:
  static constexpr int kMax = 5;
  static constexpr int64_t kWindow = 10 * kSecond;
  static constexpr int64_t kLongestWindow = 640 * kSecond;
  static constexpr int64_t kSame = 60 * kSecond;

  // True if a refusal is to be reported now. Equal refusals have equal keys.
  bool Admit(const std::string& key, int64_t now);
  // The refusals beyond kMax since the last call.
  int64_t TakeHeldBack() { return std::exchange(held_back_, 0); }

 private:
  struct Past {
    std::string key;
    int64_t at = 0;
  };
  Past last_[kMax];
  int oldest_ = 0;
  int64_t window_ = kWindow;
  int64_t window_begin_ = 0;
  int in_window_ = 0;
  int64_t held_back_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_REFUSAL_LIMITS_H_
