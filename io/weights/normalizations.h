// The mean and variance of Normalizations, in the metadata of ringlet's files
// with weights. They belong to the weights, and are not tensors.

#ifndef RINGLET_IO_WEIGHTS_NORMALIZATIONS_H_
#define RINGLET_IO_WEIGHTS_NORMALIZATIONS_H_

#include <functional>
#include <string>
#include <vector>

#include "ringlet/checkpoint.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

constexpr char kNormalizationsKey[] =
    "normalizations";  // a key of the metadata

// As JSON, by the layers' names; empty if the model has none, or too many for a
// file's header.
std::string NormalizationsToJson(const Model& model);
// Prints a note if it has too many. `where` names the file or folder.
void PrintNormalizationsLeftOut(const Model& model, const char* where);

// Finds that JSON in the metadata of a file of weights, a backup or a model; ""
// if there is none.
Status FindNormalizationsJson(const Metadata& metadata, std::string* json);

struct LayerStatistics {
  std::string layer;
  std::vector<float> mean, variance;
};

// Finds the statistics for the model's Normalizations that the metadata of a
// file of weights, a backup or a model have; SetNormalization takes each. A
// layer keeps a mean and variance of its configuration. `skip`, if not null, is
// called with a message for a layer that they do not fit, in place of an error.
Status FindStatistics(const Metadata& metadata, const std::string& path,
                      const std::function<void(const std::string&)>& skip,
                      const Model& model, std::vector<LayerStatistics>* found);

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_NORMALIZATIONS_H_
