// Keeping: where the chief of a run writes the trained model.
//
// Internal to tools/ringlet/. No file of another run is replaced: one of the
// default name carries which run it is of, so that the same run replaces it and
// no other does.

#ifndef RINGLET_TOOLS_RINGLET_KEEPING_H_
#define RINGLET_TOOLS_RINGLET_KEEPING_H_

#include <string>

#include "core/base/status.h"
#include "io/checkpoint/saving_callbacks.h"
#include "run.h"
#include "run_config.h"

namespace ringlet {

struct KeepFlags {
  std::string save;  // "": the default name
  bool no_save = false;
};

// What the chief keeps of a run, and where.
struct Keeping {
  std::string path;  // "": nothing, where --no-save says so
  SaveWhenTrainedOptions options;
  std::string said;  // of it at the start
};

// `run` is the path of RUN.json. Before the data are read; the name alone may
// change then.
Status PlanKeeping(const std::string& run, const RunConfig& config,
                   const KeepFlags& flags, bool chief, Keeping* keeping);
// Once they are read, and the model is made.
Status NameKeeping(const RunConfig& config, const InitFlags& init,
                   const RunData& data, int replicas, Keeping* keeping);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_KEEPING_H_
