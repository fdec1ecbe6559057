#include "refusal_limits.h"

#include <algorithm>

namespace ringlet {

bool RefusalLimits::Admit(const std::string& key, int64_t now) {
  for (const Past& past : last_) {
    if (past.key == key && now - past.at < kSame) return false;
  }
  if (in_window_ > 0 && now - window_begin_ >= window_) {
    window_ =
        in_window_ < kMax ? kWindow : std::min(2 * window_, kLongestWindow);
    in_window_ = 0;
  }
  if (in_window_ == kMax) {
    ++held_back_;
    return false;
  }
  if (in_window_++ == 0) window_begin_ = now;
  last_[oldest_] = {key, now};
  oldest_ = (oldest_ + 1) % kMax;
  return true;
}

}  // namespace ringlet
