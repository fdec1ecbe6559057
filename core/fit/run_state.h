// RunState: all that a resumed fit needs, as one Saveable. StepSnapshot: what a
// fit goes on from in memory after a worker was lost.
//
// Internal to ringlet. At a step boundary, the moment between two steps, every
// rank holds the same state, running metrics included.

#ifndef RINGLET_CORE_FIT_RUN_STATE_H_
#define RINGLET_CORE_FIT_RUN_STATE_H_

#include <memory>
#include <vector>

#include "../base/saveable.h"
#include "../base/status.h"
#include "callback.h"

namespace ringlet {

// Model, optimizer, position, running metrics, and every callback's state. A
// second callback of one kind is named "callback/<name>_1/...".
class RunState final : public Saveable {
 public:
  // `live`: Callback::AppendLiveState too. `rounds`: RoundState too. `model`:
  // the weights and the optimizer's slots too.
  explicit RunState(FitState* fit, bool live = false, bool rounds = true,
                    bool model = true)
      : fit_(fit), live_(live), rounds_(rounds), model_(model) {}
  void AppendState(std::vector<StateSpan>* spans) override;
  Status StateLoaded() override;

 private:
  std::vector<Saveable*> Parts() const;

  FitState* const fit_;
  const bool live_, rounds_, model_;
};

// Everything of a RunState but the weights and the optimizer's slots, which
// change only once a step is complete on this rank, as it was at the last step
// boundary. Spans of up to kSmall bytes and metrics are copied at every one, a
// callback's larger ones where callbacks may change them before the next: at an
// epoch's beginning and end.
class StepSnapshot {
 public:
  static constexpr size_t kSmall = 4096;

  // Before the first Take of a fit, and whenever callbacks were set up anew.
  void Plan(RunState* state);
  // Copies the small spans; allocates nothing.
  void Take();
  // Copies all.
  void TakeWhole();
  bool valid() const { return valid_; }
  void Invalidate() { valid_ = false; }
  // Copies the large spans, where that was not done, as they are: callbacks may
  // be set up anew after it.
  void Complete();
  // Writes what was kept into `state`, whose spans are as they were at Plan.
  Status Restore(RunState* state) const;

 private:
  struct Piece {
    StateSpan span;
    size_t at = 0;  // in copy_
  };
  void Copy(bool large);

  std::vector<Piece> pieces_;
  std::vector<unsigned char> copy_;
  bool valid_ = false;
  bool whole_ = false;  // the large spans are in copy_ too
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_RUN_STATE_H_
