// Standard input as a file, for data that are read more than once.

#ifndef RINGLET_TOOLS_RINGLET_RUN_STANDARD_INPUT_H_
#define RINGLET_TOOLS_RINGLET_RUN_STANDARD_INPUT_H_

#include "../config/data_config.h"
#include "ringlet/status.h"

namespace ringlet {

// If a path of data with a memory is /dev/stdin, and that is a pipe: copies it
// to a file without a name in the current folder, and replaces the path. The
// file's room is free again when the process ends.
Status CopyStandardInput(DataConfig* data);

// Returns an error if several workers would each read a part of one standard
// input. With the policy "off" each worker has a standard input of its own.
Status CheckStandardInput(const DataConfig& data, int workers);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_STANDARD_INPUT_H_
