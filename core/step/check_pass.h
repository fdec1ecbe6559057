// CheckPass: the pass of a replica check, which all workers make.
//
// A training pass over generated examples. They follow from seed and
// iterations, and are the same on every rank. So correct machines compute the
// same losses, metrics, gradients and changes of state.

#ifndef RINGLET_CORE_STEP_CHECK_PASS_H_
#define RINGLET_CORE_STEP_CHECK_PASS_H_

#include <cstdint>

#include "../exchange/compile_config.h"
#include "../graph/graph.h"
#include "../graph/model_memory.h"
#include "stepper.h"
#include "updater.h"

namespace ringlet {

struct PassDigests {
  uint64_t metrics = 0;    // and losses
  uint64_t gradients = 0;  // and changes of state
};

class CheckPass {
 public:
  // All arguments outlive the CheckPass.
  CheckPass(const Graph* graph, const CompileConfig* config,
            const ModelMemory* memory, const Updater* updater, Stepper* stepper)
      : graph_(*graph),
        config_(*config),
        memory_(*memory),
        updater_(*updater),
        stepper_(*stepper) {}

  // Call between two steps. It changes only the gradients' memory.
  PassDigests Compute(int64_t examples);

 private:
  Batch MakeBatch(int64_t count) const;

  const Graph& graph_;
  const CompileConfig& config_;
  const ModelMemory& memory_;
  const Updater& updater_;
  Stepper& stepper_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_STEP_CHECK_PASS_H_
