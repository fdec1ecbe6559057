// Chooses the outputs that a step drops and computes again for its backward
// pass. Pure.

#ifndef RINGLET_CORE_GRAPH_DROPPED_OUTPUTS_H_
#define RINGLET_CORE_GRAPH_DROPPED_OUTPUTS_H_

#include <vector>

#include "graph.h"
#include "step_plan.h"

namespace ringlet {

// Drops cheap outputs where this saves memory. With Options::recompute it
// considers the others too.
StepPlan::Choice ChooseForStep(const Graph& graph,
                               const StepPlan::Options& options);

}  // namespace ringlet

#endif  // RINGLET_CORE_GRAPH_DROPPED_OUTPUTS_H_
