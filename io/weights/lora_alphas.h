// The alpha of each layer with LoRA beside weights in ringlet's files: with
// another alpha the same matrices are another function.

#ifndef RINGLET_IO_WEIGHTS_LORA_ALPHAS_H_
#define RINGLET_IO_WEIGHTS_LORA_ALPHAS_H_

#include <cstdint>
#include <map>
#include <string>

#include "ringlet/checkpoint.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

constexpr char kLoraAlphasKey[] = "lora_alphas";  // a key of the metadata

// The keys are the layers' names.
using LoraAlphas = std::map<std::string, int64_t>;

LoraAlphas CollectLoraAlphas(const Model& model);

// Adds them to a file's metadata, as JSON {"dense": 8}; nothing for none.
void AddLoraAlphas(const LoraAlphas& alphas, Metadata* metadata);
// Reads the alphas of the metadata of a file of weights, a backup or a model.
// Files of earlier versions may have none.
Status ReadLoraAlphas(const Metadata& metadata, LoraAlphas* alphas);

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_LORA_ALPHAS_H_
