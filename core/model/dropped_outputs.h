// Which outputs a step does not keep for its backward pass, but makes again.
//
// Internal to core/.

#ifndef RINGLET_CORE_MODEL_DROPPED_OUTPUTS_H_
#define RINGLET_CORE_MODEL_DROPPED_OUTPUTS_H_

#include <vector>

#include "graph.h"
#include "step_plan.h"

namespace ringlet {

// Those that cost little are dropped where the step takes less memory for it;
// with Options::recompute so are others.
StepPlan::Choice ChooseForStep(const Graph& graph,
                               const StepPlan::Options& options);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_DROPPED_OUTPUTS_H_
