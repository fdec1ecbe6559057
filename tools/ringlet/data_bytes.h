// DataBytes: the memory of a RUN.json's data.

#ifndef RINGLET_TOOLS_RINGLET_DATA_BYTES_H_
#define RINGLET_TOOLS_RINGLET_DATA_BYTES_H_

#include <cstdint>

#include "data_config.h"
#include "ringlet/status.h"

namespace ringlet {

// Adds up the files as OpenData loads them. Arrays that stay on disk take no
// memory.
Status DataBytes(const DataConfig& data, uint64_t* bytes);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_DATA_BYTES_H_
