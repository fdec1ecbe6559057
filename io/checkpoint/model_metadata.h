// What a model's file says of itself in its metadata.
//
// Internal to io/. The keys are part of the format
// (docs/checkpoint_format.md).

#ifndef RINGLET_IO_CHECKPOINT_MODEL_METADATA_H_
#define RINGLET_IO_CHECKPOINT_MODEL_METADATA_H_

#include <string>
#include <vector>

#include "../../core/base/status.h"
#include "../../core/model/model.h"

namespace ringlet {

constexpr char kModelKey[] = "model";      // its configuration, as JSON
constexpr char kCompileKey[] = "compile";  // optimizer, loss, metrics, as JSON
constexpr char kSeedKey[] = "seed";

// Whether the model has weights to be saved or loaded.
Status CheckCompiled(const Model* model);

// A warning that names those of the weights, just read from `path`, in which a
// number is NaN or infinite; "" where there is none.
std::string NotFinite(const std::string& path,
                      const std::vector<Variable>& variables,
                      const float* weights);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_MODEL_METADATA_H_
