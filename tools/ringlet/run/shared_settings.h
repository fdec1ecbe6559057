// SharedSettings: the settings that all workers of a run must have in common.

#ifndef RINGLET_TOOLS_RINGLET_RUN_SHARED_SETTINGS_H_
#define RINGLET_TOOLS_RINGLET_RUN_SHARED_SETTINGS_H_

#include <string>

#include "../config/run_config.h"
#include "ringlet/status.h"

namespace ringlet {

// "name\tvalue\n" for each, such as "model.config.layers.0.config.units". The
// model is made (MakeModel). Without paths, threads, and what each worker may
// have alone.
std::string SharedSettings(const RunConfig& config);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_SHARED_SETTINGS_H_
