// StepTimer: tells a StepObserver, if there is one, how long pieces of a step
// took.
//
// Internal to core/.

#ifndef RINGLET_CORE_MODEL_STEP_TIMER_H_
#define RINGLET_CORE_MODEL_STEP_TIMER_H_

#include <cstdint>

#include "../base/clock.h"
#include "model.h"

namespace ringlet {

struct StepTimer {
  StepObserver* observer = nullptr;

  // 0 where nobody watches: a clock is not read for nothing.
  int64_t Now() const {
    return observer == nullptr ? 0 : Clock::System()->MonotonicNanos();
  }
  void Piece(const char* what, const char* phase, int64_t begin) const {
    if (observer != nullptr) observer->Piece(what, phase, begin, Now());
  }
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_STEP_TIMER_H_
