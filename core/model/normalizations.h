// The mean and variance of a model's Normalization layers, by name.

#ifndef RINGLET_CORE_MODEL_NORMALIZATIONS_H_
#define RINGLET_CORE_MODEL_NORMALIZATIONS_H_

#include <string>
#include <vector>

#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

// Sets mean and variance of a Normalization, "normalization" or
// "body/normalization".
Status SetNormalization(const std::string& layer,
                        const std::vector<float>& mean,
                        const std::vector<float>& variance, Model* model);
// Returns the error that SetNormalization would return, and changes no layer.
Status CheckNormalization(const std::string& layer,
                          const std::vector<float>& mean,
                          const std::vector<float>& variance,
                          const Model& model);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_NORMALIZATIONS_H_
