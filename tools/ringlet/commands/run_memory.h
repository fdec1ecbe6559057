// MemoryOfRun: the memory of a run, as `ringlet plan` computes it.

#ifndef RINGLET_TOOLS_RINGLET_COMMANDS_RUN_MEMORY_H_
#define RINGLET_TOOLS_RINGLET_COMMANDS_RUN_MEMORY_H_

#include <cstdint>
#include <string>

#include "../config/run_config.h"
#include "ringlet/status.h"

namespace ringlet {

// Makes the model of *config, which was read from `path`. *bytes: of the model
// and the program, without the data.
Status MemoryOfRun(const std::string& path, int64_t workers, RunConfig* config,
                   uint64_t* bytes);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_COMMANDS_RUN_MEMORY_H_
