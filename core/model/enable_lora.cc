// EnableLora: a model's layers with LoRA, in a new model.
//
// The layers of nested models have paths, as "body/dense". A nested model with
// a layer that is trained must be trainable itself.

#include <algorithm>
#include <set>

#include "../base/text.h"
#include "../layers/basic/lora.h"
#include "../layers/layer_table.h"
#include "../layers/nested_model.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

bool HasLora(const Layer& layer) {
  return layer.kind == Layer::Kind::kDense ||
         layer.kind == Layer::Kind::kEmbedding;
}

class LoraEnabler {
 public:
  explicit LoraEnabler(const LoraOptions& options)
      : options_(options),
        unmatched_(options.layers.begin(), options.layers.end()) {}

  // Gives LoRA to a model's layers. Their paths begin with `before`.
  Status EnableInModel(const std::string& before, NestedModel* model) {
    for (Layer& layer : model->layers) {
      RINGLET_RETURN_IF_ERROR(EnableInLayer(before + layer.name, &layer));
    }
    return Status();
  }

  Status CheckAllFound() const {
    if (!unmatched_.empty()) {
      return InvalidArgument(
          "there is no layer '%s'; ringlet summary lists the layers",
          unmatched_.begin()->c_str());
    }
    if (enabled_) return Status();
    return InvalidArgument("the model has no Dense and no Embedding");
  }

 private:
  Status EnableInLayer(const std::string& path, Layer* layer) {
    const bool named = unmatched_.erase(path) > 0;
    if (layer->model != nullptr && !named) {
      auto inner = std::make_shared<NestedModel>(*layer->model);
      inner->weights = nullptr;
      layer->trainable = true;
      RINGLET_RETURN_IF_ERROR(EnableInModel(path + "/", inner.get()));
      layer->model = std::move(inner);
      return Status();
    }
    if (named && !HasLora(*layer)) {
      return InvalidArgument(
          "layer '%s' is %s; only Dense and Embedding have LoRA", path.c_str(),
          WithArticle(ClassName(*layer)).c_str());
    }
    layer->trainable = HasLora(*layer) && (named || options_.layers.empty());
    if (!layer->trainable) return Status();
    if (options_.alpha != 0 && layer->lora_rank > 0 &&
        options_.alpha != LoraAlpha(*layer)) {
      return InvalidArgument(
          "layer '%s' has LoRA with alpha %lld already, and with alpha %lld "
          "its matrices would be another function; leave alpha out",
          path.c_str(), static_cast<long long>(LoraAlpha(*layer)),
          static_cast<long long>(options_.alpha));
    }
    layer->LoraRank(options_.rank);
    if (options_.alpha != 0) layer->LoraAlpha(options_.alpha);
    enabled_ = true;
    return Status();
  }

  const LoraOptions& options_;
  std::set<std::string> unmatched_;  // paths that are not found yet
  bool enabled_ = false;
};

Status AddLayers(const NestedModel& from, Sequential* to) {
  for (const Layer& layer : from.layers) to->Add(layer);
  return to->status();
}

Status AddLayers(const NestedModel& from, Functional* to) {
  std::vector<int> node_of_call, first(from.layers.size(), -1);
  for (const NestedModel::Call& call : from.calls) {
    std::vector<int> inputs;
    for (const int input : call.inputs) {
      inputs.push_back(node_of_call[static_cast<size_t>(input)]);
    }
    int& node = first[static_cast<size_t>(call.layer)];
    const bool was_added = node >= 0;
    const int new_node =
        was_added
            ? to->CallAgain(node, inputs)
            : to->Add(from.layers[static_cast<size_t>(call.layer)], inputs);
    if (!was_added) node = new_node;
    node_of_call.push_back(new_node);
  }
  std::vector<int> outputs;
  for (const int call : from.outputs) {
    outputs.push_back(node_of_call[static_cast<size_t>(call)]);
  }
  to->Outputs(outputs);
  return to->status();
}

template <typename Class>
Status BuildModel(const NestedModel& from, const std::string& name,
                  std::unique_ptr<Model>* model) {
  auto new_model = std::make_unique<Class>();
  new_model->set_name(name);
  RINGLET_RETURN_IF_ERROR(AddLayers(from, new_model.get()));
  *model = std::move(new_model);
  return Status();
}

}  // namespace

Status EnableLora(const Model& model, const LoraOptions& options,
                  std::unique_ptr<Model>* tuned) {
  if (options.rank < 1) {
    return InvalidArgument("the rank of LoRA must be at least 1, not %lld",
                           static_cast<long long>(options.rank));
  }
  const Layer root = model.AsLayer(/*with_weights=*/false);
  NestedModel changed = *root.model;
  RINGLET_RETURN_IF_ERROR(changed.status);
  LoraEnabler enabler(options);
  RINGLET_RETURN_IF_ERROR(enabler.EnableInModel("", &changed));
  RINGLET_RETURN_IF_ERROR(enabler.CheckAllFound());
  return changed.class_name == "Sequential"
             ? BuildModel<Sequential>(changed, model.name(), tuned)
             : BuildModel<Functional>(changed, model.name(), tuned);
}

}  // namespace ringlet
