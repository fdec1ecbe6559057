// The targets of a batch, of the type that a loss or a metric takes.

#ifndef RINGLET_CORE_BASE_TARGETS_H_
#define RINGLET_CORE_BASE_TARGETS_H_

#include <cstdint>

#include "ringlet/losses.h"

namespace ringlet {

// The targets of a batch from index `first` on.
inline Targets TargetsFrom(const void* targets, bool classes, int64_t first) {
  Targets t;
  if (classes) {
    t.classes = static_cast<const int32_t*>(targets) + first;
  } else {
    t.values = static_cast<const float*>(targets) + first;
  }
  return t;
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_TARGETS_H_
