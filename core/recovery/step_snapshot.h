// StepSnapshot: a copy in memory of a fit's position, metrics and callbacks.

#ifndef RINGLET_CORE_RECOVERY_STEP_SNAPSHOT_H_
#define RINGLET_CORE_RECOVERY_STEP_SNAPSHOT_H_

#include <cstddef>
#include <vector>

#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// True if the span has weights or optimizer slots, which change only when a
// step is complete on this rank. False for the optimizer's iterations and rate,
// and the scales of exact sums.
bool IsModelState(const StateSpan& span);

// A fit's state without the model state, from the last step boundary. Spans of
// up to kMaxSmallBytes bytes and metrics are copied at every boundary. A
// callback's larger spans are copied if callbacks may change them before the
// next boundary: at an epoch's beginning and end.
class StepSnapshot {
 public:
  static constexpr size_t kMaxSmallBytes = 4096;

  // Call it before the first Take of a fit, and after callbacks were set up
  // again.
  void Plan(Saveable* state);
  // Copies the small spans; allocates nothing.
  void Take();
  // Copies the large spans as they are now, unless the last Take has them
  // already. Must come before a callback changes them or is set up again.
  void CopyLargeSpans();
  // Writes the copy into `state`, which has the spans that it had at Plan.
  Status Restore(Saveable* state) const;

 private:
  struct Piece {
    StateSpan span;
    size_t at = 0;  // the place in copy_
  };
  void Copy(bool large);

  std::vector<Piece> pieces_;
  std::vector<unsigned char> copy_;
  bool taken_ = false;  // true if one was taken since Plan
  bool whole_ = false;  // the large spans are in copy_ too
};

}  // namespace ringlet

#endif  // RINGLET_CORE_RECOVERY_STEP_SNAPSHOT_H_
