// OutputPlan: where the chief of a run writes the trained model.
//
// No file of another run is replaced. A file with the default name has its
// run's digest, so that only the same run replaces it.

#ifndef RINGLET_TOOLS_RINGLET_RUN_OUTPUT_PLAN_H_
#define RINGLET_TOOLS_RINGLET_RUN_OUTPUT_PLAN_H_

#include <memory>
#include <string>

#include "../config/run_config.h"
#include "io/files/file_system.h"
#include "ringlet/checkpoint.h"
#include "ringlet/status.h"
#include "run.h"

namespace ringlet {

struct SaveFlags {
  std::string path;  // empty for the default name
  bool no_save = false;
};

// The files that the chief writes for a run.
struct OutputPlan {
  std::string path;     // empty if nothing is saved (--no-save)
  bool writes = false;  // this worker saves when training has ended
  SaveWhenTrainedOptions options;
  std::string start_message;
  // Held until the end, so that no `train --watch` replaces the same file. Null
  // if no `train --watch` has ever replaced it.
  std::shared_ptr<HeldLock> watch_lock;
};

// "run" of "a/run.json".
std::string NameOfRun(const std::string& path);

// `run` is the path of RUN.json. Called before the data are read; after it only
// the name may change.
Status PlanOutput(const std::string& run, const RunConfig& config,
                  const SaveFlags& flags, bool chief, OutputPlan* output);
// Called after the data are read and the model is built.
Status NameOutput(const RunConfig& config, const InitFlags& init,
                  const RunData& data, int replicas, OutputPlan* output);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_OUTPUT_PLAN_H_
