// RunState: the complete state of a run, as one Saveable.
//
// At a step boundary, the moment between two steps, every rank has the same
// state, with running metrics.

#ifndef RINGLET_CORE_FIT_RUN_STATE_H_
#define RINGLET_CORE_FIT_RUN_STATE_H_

#include <string>
#include <vector>

#include "../recovery/step_snapshot.h"
#include "ringlet/fit.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// Model, optimizer, position, running metrics, and every callback's state. A
// second callback of one kind is named "callback/<name>_1/...".
class RunState final : public Saveable {
 public:
  // If `live`, the state includes Callback::AppendLiveState. If `model`, it
  // includes the weights and the optimizer's slots.
  explicit RunState(FitState* fit, bool live = false, bool model = true)
      : fit_(fit), live_(live), model_(model) {}
  void AppendState(std::vector<StateSpan>* spans) override;
  Status StateLoaded() override;
  // For each callback the prefix of its spans' names, such as
  // "callback/early_stopping". Empty for a callback without spans.
  std::vector<std::string> CallbackParts() const;

 private:
  std::vector<Saveable*> Parts() const;

  FitState* const fit_;
  const bool live_, model_;
};

// True if a callback in the list restores after a loss
// (Callback::RestoresAfterLoss).
bool AnyRestoresAfterLoss(
    const std::vector<std::shared_ptr<Callback>>& callbacks);

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_RUN_STATE_H_
