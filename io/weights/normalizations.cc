// The statistics are JSON in the metadata, by layer's name. A file has a
// header of 1 MiB at most, so large ones are left out with a note. A whole
// model's file has them in its model's JSON instead, where they are looked for
// if the key is absent.

#include "normalizations.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "../../core/base/json.h"
#include "../../core/base/text.h"
#include "../../core/model/normalizations.h"
#include "../keras/field_reader.h"
#include "../keras/number_list_json.h"
#include "model_metadata.h"
#include "safetensors.h"

namespace ringlet {
namespace {

struct Statistics {
  std::vector<float> mean, variance;
};
// A header of a file has 1 MiB, which must hold the tensors' names too.
constexpr size_t kMaxNormalizationsBytes = 512 << 10;

using ByLayer = std::map<std::string, Statistics>;

ByLayer StatisticsOf(const Model& model) {
  ByLayer all;
  for (int node = 0; node < model.num_nodes(); ++node) {
    const Layer& layer = model.layer(node);
    if (layer.kind != Layer::Kind::kNormalization || layer.means.empty()) {
      continue;
    }
    all[layer.name] = {layer.means, layer.variances};
  }
  return all;
}

Status ReadStatistics(const std::string& text, ByLayer* all) {
  Json json;
  RINGLET_RETURN_IF_ERROR(
      Json::Parse(text, kNormalizationsKey, &json, /*max_depth=*/4));
  for (Json layer = json.first(); layer; layer = layer.next()) {
    Statistics& statistics = (*all)[layer.key()];
    FieldReader fields(layer, layer.key());
    fields.Require("mean");
    fields.Require("variance");
    ReadNumbers("mean", kAnyNumber, &fields, &statistics.mean);
    ReadNumbers("variance", kNotNegative, &fields, &statistics.variance);
    RINGLET_RETURN_IF_ERROR(fields.Finish());
  }
  return Status();
}

// Returns the statistics under the layer's name, or the only statistics with
// more or fewer names of outer models, as for weights.
const Statistics* FindStatisticsOf(const ByLayer& all,
                                   const std::string& layer) {
  const auto exact = all.find(layer);
  if (exact != all.end()) return &exact->second;
  const Statistics* found = nullptr;
  for (const auto& [name, statistics] : all) {
    if (!EndsWith(name, "/" + layer) && !EndsWith(layer, "/" + name)) continue;
    if (found != nullptr) return nullptr;
    found = &statistics;
  }
  return found;
}

// True for the values of Keras's layer that has not adapted, too.
bool TakesStatistics(const Layer& layer) {
  const bool initial = layer.means == std::vector<float>{0} &&
                       layer.variances == std::vector<float>{1};
  return layer.kind == Layer::Kind::kNormalization && (layer.adapt || initial);
}

Status ReadMetadata(const Metadata& metadata, ByLayer* all) {
  const auto entry = metadata.find(kNormalizationsKey);
  if (entry != metadata.end()) return ReadStatistics(entry->second, all);
  const auto json = metadata.find(kModelKey);
  if (json == metadata.end()) return Status();
  std::unique_ptr<Model> trained;
  RINGLET_RETURN_IF_ERROR(ModelFromJson(json->second, &trained));
  *all = StatisticsOf(*trained);
  return Status();
}

}  // namespace

void PrintNormalizationsLeftOut(const Model& model, const char* where) {
  if (StatisticsOf(model).empty() || !NormalizationsToJson(model).empty()) {
    return;
  }
  Notice(
      "note: %s: has no mean and variance of the Normalization layers, which "
      "take more than 512 KiB there; a whole model's file has them up to 1 MiB",
      where);
}

std::string NormalizationsToJson(const Model& model) {
  const ByLayer all = StatisticsOf(model);
  if (all.empty()) return "";
  JsonWriter w;
  w.BeginObject();
  for (const auto& [layer, statistics] : all) {
    w.Key(layer).BeginObject().Key("mean");
    WriteNumbers(&w, statistics.mean);
    w.Key("variance");
    WriteNumbers(&w, statistics.variance);
    w.EndObject();
  }
  const std::string text = w.EndObject().text();
  return text.size() <= kMaxNormalizationsBytes ? text : "";
}

Status FindNormalizationsJson(const Metadata& metadata, std::string* json) {
  const auto entry = metadata.find(kNormalizationsKey);
  if (entry != metadata.end()) *json = entry->second;
  const auto model = metadata.find(kModelKey);
  // A model with none may have layers that cannot be made here.
  const bool has = entry == metadata.end() && IsRinglets(metadata) &&
                   model != metadata.end() &&
                   model->second.find("\"Normalization\"") != std::string::npos;
  if (!has) return Status();
  std::unique_ptr<Model> trained;
  RINGLET_RETURN_IF_ERROR(ModelFromJson(model->second, &trained));
  *json = NormalizationsToJson(*trained);
  return Status();
}

Status FindStatistics(const Metadata& metadata, const std::string& path,
                      const std::function<void(const std::string&)>& skip,
                      const Model& model, std::vector<LayerStatistics>* found) {
  std::vector<std::string> layers;
  for (int node = 0; node < model.num_nodes(); ++node) {
    const Layer& layer = model.layer(node);
    if (TakesStatistics(layer)) layers.push_back(layer.name);
  }
  if (layers.empty()) return Status();
  ByLayer all;
  RINGLET_RETURN_IF_ERROR(
      ReadMetadata(metadata, &all).Annotate("%s", path.c_str()));
  for (const std::string& layer : layers) {
    const Statistics* const statistics = FindStatisticsOf(all, layer);
    if (statistics == nullptr) continue;
    const Status fits =
        CheckNormalization(layer, statistics->mean, statistics->variance, model)
            .Annotate("%s", path.c_str());
    if (fits.ok()) {
      found->push_back({layer, statistics->mean, statistics->variance});
      continue;
    }
    if (!skip) return fits;
    skip(std::string("skipped: ") + fits.message());
  }
  return Status();
}

}  // namespace ringlet
