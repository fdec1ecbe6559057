// CheckPace: the number of steps between two replica checks of an elastic job.
//
// A check takes time, and a loss costs the steps since the last check. So a
// check follows two seconds of steps. It comes later if checks would take more
// than 5 % of the time, and earlier if less than 1 %.

#ifndef RINGLET_CORE_FIT_CHECK_PACE_H_
#define RINGLET_CORE_FIT_CHECK_PACE_H_

#include <algorithm>
#include <cstdint>

#include "../base/time_units.h"

namespace ringlet {

// The time of a step and of a check on a rank, in nanoseconds. Zero if unknown.
struct CheckTimes {
  int64_t step = 0;
  int64_t check = 0;
};

class CheckPace {
 public:
  static constexpr int64_t kFirst = 10;  // steps, while the times are unknown
  static constexpr int64_t kMax = 10000;

  // `now` is the time at which a check of the state after `step` steps begins,
  // or has ended.
  void BeginCheck(int64_t step, int64_t now) {
    begun_ = now;
    if (ended_ > 0 && step > checked_) {
      own_times_.step =
          std::max<int64_t>((now - ended_) / (step - checked_), 1);
    }
  }
  void EndCheck(int64_t step, int64_t now) {
    own_times_.check = std::max<int64_t>(now - begun_, 1);
    checked_ = step;
    ended_ = now;
  }
  const CheckTimes& own_times() const { return own_times_; }

  // Call it when a view has formed: the time of the loss is not the time of a
  // step.
  void EnterView() { ended_ = 0; }

  // Chooses the number of steps between two checks. `times` and `every` (the
  // largest number of any rank) are the same on all ranks, so all choose the
  // same. A single slow check does not delay the next one much: the number at
  // most doubles. The first choice has more room, or a job would make four
  // checks before it has the right number.
  void Choose(const CheckTimes& times, int64_t every) {
    every_ = every;
    if (times.step <= 0) return;
    constexpr int64_t kTwoSeconds = 2 * kSecond;
    const auto share = [&](int64_t hundredths) {
      return times.check * 100 / (times.step * hundredths) + 1;
    };
    const int64_t next =
        std::clamp(kTwoSeconds / times.step, share(5), share(1));
    every_ = std::min({next, (every == kFirst ? 8 : 2) * every, kMax});
  }
  int64_t every() const { return every_; }
  bool due(int64_t step) const { return step - checked_ >= every_; }

 private:
  int64_t begun_ = 0, ended_ = 0;
  int64_t checked_ = 0;
  int64_t every_ = kFirst;
  CheckTimes own_times_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_CHECK_PACE_H_
