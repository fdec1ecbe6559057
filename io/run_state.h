// RunState: all that a resumed fit needs, as one Saveable.
//
// Internal to io/.

#ifndef RINGLET_IO_RUN_STATE_H_
#define RINGLET_IO_RUN_STATE_H_

#include <vector>

#include "../core/callback.h"
#include "../core/saveable.h"

namespace ringlet {

// Model, optimizer, position, running metrics, and every callback's state. A
// second callback of one kind is saved as "callback/<name>_1/...".
class RunState final : public Saveable {
 public:
  explicit RunState(FitState* fit) : fit_(fit) {}
  void AppendState(std::vector<StateSpan>* spans) override;
  Status StateLoaded() override;

 private:
  std::vector<Saveable*> Parts() const;

  FitState* const fit_;
};

// What the fit's model is, for people and for a first comparison: layers,
// shapes and the optimizer, in one line.
std::string DescribeRun(const FitState& fit);

}  // namespace ringlet

#endif  // RINGLET_IO_RUN_STATE_H_
