// DataBytes: the memory of a RUN.json's data.

#ifndef RINGLET_TOOLS_RINGLET_DATA_BYTES_H_
#define RINGLET_TOOLS_RINGLET_DATA_BYTES_H_

#include <cstdint>

#include "data_config.h"
#include "ringlet/status.h"

namespace ringlet {

// Adds up the files as OpenData loads them. Of data that stay on disk these are
// labels, weights and the places of a CSV's rows.
Status DataBytes(const DataConfig& data, uint64_t* bytes);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_DATA_BYTES_H_
