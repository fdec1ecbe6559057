#include "lora_alphas.h"

#include <memory>

#include "../../core/base/json.h"
#include "../../core/layers/basic/lora.h"
#include "model_metadata.h"
#include "safetensors.h"

namespace ringlet {
namespace {

Status ReadOwn(const std::string& text, LoraAlphas* alphas) {
  Json json;
  RINGLET_RETURN_IF_ERROR(
      Json::Parse(text, kLoraAlphasKey, &json, /*max_depth=*/2));
  bool fit = json.is_object();
  for (Json layer = json.first(); fit && layer; layer = layer.next()) {
    int64_t& alpha = (*alphas)[layer.key()];
    fit = layer.ToInt64(&alpha) && alpha > 0;
  }
  if (fit) return Status();
  return InvalidArgument("%s: must be an object of whole numbers from 1",
                         kLoraAlphasKey);
}

}  // namespace

LoraAlphas CollectLoraAlphas(const Model& model) {
  LoraAlphas alphas;
  for (int node = 0; node < model.num_nodes(); ++node) {
    const Layer* layer = &model.layer(node);
    const std::string& name = layer->name;
    while (layer->layer != nullptr) layer = layer->layer.get();
    if (layer->lora_rank > 0) alphas[name] = LoraAlpha(*layer);
  }
  return alphas;
}

void AddLoraAlphas(const LoraAlphas& alphas, Metadata* metadata) {
  if (alphas.empty()) return;
  JsonWriter w;
  w.BeginObject();
  for (const auto& [layer, alpha] : alphas) w.Key(layer).Int(alpha);
  (*metadata)[kLoraAlphasKey] = w.EndObject().text();
}

Status ReadLoraAlphas(const Metadata& metadata, LoraAlphas* alphas) {
  const auto entry = metadata.find(kLoraAlphasKey);
  if (entry != metadata.end()) return ReadOwn(entry->second, alphas);
  const auto json = metadata.find(kModelKey);
  // A model without LoRA may have layers that cannot be made here.
  const bool has = IsRinglets(metadata) && json != metadata.end() &&
                   json->second.find("\"lora_rank\"") != std::string::npos;
  if (!has) return Status();
  std::unique_ptr<Model> model;
  RINGLET_RETURN_IF_ERROR(ModelFromJson(json->second, &model));
  *alphas = CollectLoraAlphas(*model);
  return Status();
}

}  // namespace ringlet
