// DataBytes: the bytes of memory that the data of a RUN.json take.

#ifndef RINGLET_TOOLS_RINGLET_RUN_DATA_BYTES_H_
#define RINGLET_TOOLS_RINGLET_RUN_DATA_BYTES_H_

#include <cstdint>

#include "../config/run_config.h"
#include "ringlet/status.h"

namespace ringlet {

// Adds up the files that OpenData would load. Examples that stay on disk do not
// count, but their labels, weights and the index of a CSV's rows do, and for
// pictures and sound a batch of them and the pictures that are being decoded.
// `model` is the same as for OpenData.
Status DataBytes(const DataConfig& data, const Model& model,
                 const FitConfig& fit, uint64_t* bytes);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_DATA_BYTES_H_
