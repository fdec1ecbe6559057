// Pace: how fast an epoch goes, and how long it and the training will take.
//
// The rates are of the epoch's steps so far. The time that is left in all is
// known once a whole epoch, with its validation, was measured, or when the
// epoch is the last. Times are a monotonic clock's nanoseconds.

#ifndef RINGLET_IO_LOGS_PACE_H_
#define RINGLET_IO_LOGS_PACE_H_

#include <cstdint>

#include "ringlet/fit.h"

namespace ringlet {

class Pace {
 public:
  void BeginFit() { epoch_seconds_ = 0; }
  // Before the epoch's next step.
  void BeginEpoch(const FitState& fit, int64_t now) {
    begin_ = now;
    first_step_ = fit.step;
  }
  // After the epoch's validation.
  void EndEpoch(int64_t now) {
    if (first_step_ == 0) epoch_seconds_ = Seconds(now);
  }

  // The values for `done` steps of the epoch; negative if unknown.
  double StepSeconds(int64_t done, int64_t now) const {
    const int64_t made = done - first_step_;
    return made < 1 || now <= begin_ ? -1
                                     : Seconds(now) / static_cast<double>(made);
  }
  double SecondsLeftInEpoch(const FitState& fit, int64_t done,
                            int64_t now) const {
    const double step = StepSeconds(done, now);
    return step < 0 || fit.steps_per_epoch == 0
               ? -1
               : step * static_cast<double>(fit.steps_per_epoch - done);
  }
  double SecondsLeftInAll(const FitState& fit, int64_t done,
                          int64_t now) const {
    const double seconds_left = SecondsLeftInEpoch(fit, done, now);
    const int64_t epochs = fit.epochs - fit.epoch - 1;
    if (seconds_left < 0 || (epochs > 0 && epoch_seconds_ == 0)) return -1;
    return seconds_left + static_cast<double>(epochs) * epoch_seconds_;
  }

 private:
  double Seconds(int64_t now) const {
    return static_cast<double>(now - begin_) * 1e-9;
  }

  int64_t begin_ = 0;       // the time at which the epoch began
  int64_t first_step_ = 0;  // the step at that time
  // Seconds of the last whole epoch; 0 if there is none.
  double epoch_seconds_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_PACE_H_
