// The least and the most steps of a round of local updates with a measured
// length; see fitter_rounds.cc.

#ifndef RINGLET_CORE_FIT_AUTO_STEPS_H_
#define RINGLET_CORE_FIT_AUTO_STEPS_H_

#include <cstdint>

namespace ringlet {

// Fewer steps are too short for a new optimizer state. More were not shown to
// reach the same accuracy.
constexpr int64_t kFewestAutoSteps = 8, kMaxAutoSteps = 512;

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_AUTO_STEPS_H_
