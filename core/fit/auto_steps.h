// What a round of local updates has at the least and at the most where the link
// says how many steps; see fitter_rounds.cc.
//
// Internal to ringlet.

#ifndef RINGLET_CORE_FIT_AUTO_STEPS_H_
#define RINGLET_CORE_FIT_AUTO_STEPS_H_

#include <cstdint>

namespace ringlet {

// Fewer leave the fresh state of an optimizer little time; more were not shown
// to reach the same accuracy.
constexpr int64_t kFewestAutoSteps = 8, kMostAutoSteps = 512;

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_AUTO_STEPS_H_
