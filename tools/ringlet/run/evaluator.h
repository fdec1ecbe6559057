// Evaluator: the task "evaluator" of a job, as Keras's SidecarEvaluator. It
// evaluates each file that the run's ModelCheckpoints write, once.

#ifndef RINGLET_TOOLS_RINGLET_RUN_EVALUATOR_H_
#define RINGLET_TOOLS_RINGLET_RUN_EVALUATOR_H_

#include <memory>
#include <string>

#include "../config/run_config.h"
#include "ringlet/fit.h"
#include "ringlet/status.h"
#include "ringlet/strategy.h"
#include "run.h"

namespace ringlet {

// Evaluates the files, the oldest first, and waits for new ones until the chief
// has reported the end of the run. `run` is the path of RUN.json. Writes a row
// per file to <name of RUN>-evaluations.csv in the current folder, which also
// tells a restarted evaluator what is done, and scalars for TensorBoard if
// RUN.json has that callback. A file that cannot be read, or that is removed
// meanwhile, is left out with a message.
//   kInvalidArgument  RUN.json has no ModelCheckpoint or no validation data, or
//                     the rows are of other metrics
//   kAlreadyExists    another evaluator writes the rows
Status EvaluateCheckpoints(const std::string& run, const ClusterConfig& cluster,
                           const InitFlags& init, RunConfig* config);

// A callback: the chief reports the end of the run to the evaluator, by a file
// beside the files of the first ModelCheckpoint. Null if the environment lists
// no evaluator, or RUN.json no ModelCheckpoint.
std::shared_ptr<Callback> ReportEndToEvaluator(const std::string& run,
                                               const ClusterConfig& cluster,
                                               const RunConfig& config);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_EVALUATOR_H_
