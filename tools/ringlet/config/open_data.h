// OpenData: a DataConfig's examples, as the model takes them.

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_OPEN_DATA_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_OPEN_DATA_H_

#include "data_config.h"
#include "ringlet/dataset.h"
#include "ringlet/model.h"

namespace ringlet {

// Opens the examples, scaled, not yet in batches; without `targets` x alone.
// The compiled model names the parts: its inputs and outputs.
Dataset OpenData(const DataConfig& data, const Model& model,
                 bool targets = true);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_OPEN_DATA_H_
