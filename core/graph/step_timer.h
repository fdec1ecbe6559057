// StepTimer: reports the time of a step's pieces to a StepObserver, if there is
// one.

#ifndef RINGLET_CORE_GRAPH_STEP_TIMER_H_
#define RINGLET_CORE_GRAPH_STEP_TIMER_H_

#include <cstdint>

#include "ringlet/collective.h"
#include "ringlet/model.h"

namespace ringlet {

struct StepTimer {
  StepObserver* observer = nullptr;

  // Without an observer it returns 0, and does not read the clock.
  int64_t Now() const {
    return observer == nullptr ? 0 : Clock::System()->MonotonicNanos();
  }
  void Report(const char* part, const char* phase, int64_t begin) const {
    if (observer != nullptr) observer->OnPart(part, phase, begin, Now());
  }
};

}  // namespace ringlet

#endif  // RINGLET_CORE_GRAPH_STEP_TIMER_H_
