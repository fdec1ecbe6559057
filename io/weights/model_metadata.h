// The metadata of a model's file.
//
// The keys are part of the format (docs/checkpoint_format.md).

#ifndef RINGLET_IO_WEIGHTS_MODEL_METADATA_H_
#define RINGLET_IO_WEIGHTS_MODEL_METADATA_H_

#include <string>
#include <vector>

#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

constexpr char kModelKey[] = "model";      // its configuration, as JSON
constexpr char kCompileKey[] = "compile";  // optimizer, loss, metrics, as JSON
constexpr char kSeedKey[] = "seed";
constexpr char kVersionKey[] = "ringlet_version";  // the program's version
// The metric that ModelCheckpoint watches, "val_loss", and its value.
constexpr char kMonitorKey[] = "monitor", kMonitorValueKey[] = "monitor_value";
// A file with only the weights that training changes. The value is the digest
// of all weights that training does not change. It shows whether a model has
// the right ones.
constexpr char kTrainableOnlyKey[] = "trainable_only";
constexpr char kDataDescriptionKey[] = "data_description";  // its value is JSON

// Fails if the model has no weights to save or load.
Status CheckCompiled(const Model* model);

// A warning that names the weights from `path` with a NaN or an infinity; empty
// if all are finite.
std::string NonFiniteWeightsWarning(const std::string& path,
                                    const std::vector<Variable>& variables,
                                    const float* weights);

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_MODEL_METADATA_H_
