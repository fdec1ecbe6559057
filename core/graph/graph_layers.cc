// The tree of a graph's layers: nested models, names, and the trained layers.
// layers_ is in pre-order, so the layers of a model are a range.

#include <algorithm>

#include "../base/text.h"
#include "../layers/layer_kind.h"
#include "graph.h"

namespace ringlet {

std::string Graph::UniqueName(const Layer& layer) {
  if (!layer.name.empty()) return layer.name;
  const std::string base = SnakeCase(ClassName(layer));
  if (names_.count(base) == 0) return base;
  for (int& i = numbers_[base];;) {
    const std::string numbered = base + "_" + std::to_string(++i);
    if (names_.count(numbered) == 0) return numbered;
  }
}

// Appends the layer and all layers in it.
Status Graph::AddLayer(const Layer& layer, int parent) {
  const size_t number = layers_.size();
  GraphLayer added;
  added.layer = layer;
  added.parent = parent;
  added.path =
      parent < 0 ? layer.name : layers_[parent].path + "/" + layer.name;
  added.trainable_next = layer.trainable;
  added.trained = layer.trainable && (parent < 0 || layers_[parent].trained);
  const bool is_model = layer.kind == Layer::Kind::kModel;
  const bool is_inner_input = parent >= 0 && layer.kind == Layer::Kind::kInput;
  added.ordinal = num_ordinals_;
  if (!is_model && !is_inner_input) ++num_ordinals_;
  if (!names_.insert(added.path).second) {
    return InvalidArgument(
        "two layers have this name%s%s; rename one with Name()",
        parent < 0 ? "" : ": ", parent < 0 ? "" : added.path.c_str());
  }
  layers_.push_back(std::move(added));
  if (is_model) {
    for (const Layer& inner : layer.model->layers) {
      RINGLET_RETURN_IF_ERROR(AddLayer(inner, static_cast<int>(number)));
    }
  }
  layers_[number].end = static_cast<int>(layers_.size());
  return Status();
}

// Returns the indices of a model's own layers.
std::vector<int> Graph::ListLayers(int model) const {
  std::vector<int> own;
  for (int i = model + 1; i < layers_[model].end; i = layers_[i].end) {
    own.push_back(i);
  }
  return own;
}

Status Graph::SetTrainable(const std::string& layer, bool trainable) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i].path != layer) continue;
    for (int k = static_cast<int>(i); k < layers_[i].end; ++k) {
      layers_[k].trainable_next = trainable;
      if (!complete_) layers_[k].layer.trainable = trainable;
    }
    if (!complete_) ChooseTrained(&GraphLayer::trainable_next);
    return Status();
  }
  return InvalidArgument("model '%s': there is no layer '%s'", name_.c_str(),
                         layer.c_str());
}

// Makes the Op of a Normalization with this mean and variance.
Status Graph::MakeNormalization(int node, const std::vector<float>& mean,
                                const std::vector<float>& variance,
                                std::unique_ptr<Op>* op) const {
  const GraphNode& normalization = nodes_[node];
  Layer changed = normalization.layer;
  changed.means = mean;
  changed.variances = variance;
  return Op::Make(changed, {nodes_[normalization.inputs[0]].output}, op);
}

Status Graph::CheckNormalization(int node, const std::vector<float>& mean,
                                 const std::vector<float>& variance) const {
  std::unique_ptr<Op> op;
  return MakeNormalization(node, mean, variance, &op);
}

Status Graph::SetNormalization(int node, const std::vector<float>& mean,
                               const std::vector<float>& variance) {
  std::unique_ptr<Op> op;
  RINGLET_RETURN_IF_ERROR(MakeNormalization(node, mean, variance, &op));
  GraphNode& normalization = nodes_[node];
  normalization.op = std::move(op);
  for (Layer* layer :
       {&layers_[normalization.layer_index].layer, &normalization.layer}) {
    layer->means = mean;
    layer->variances = variance;
    layer->adapt = true;  // they are of data, and other data may follow
  }
  return Status();
}

int Graph::FindUnadapted(int from) const {
  for (int i = from; i < size(); ++i) {
    const Layer& layer = nodes_[i].layer;
    if (layer.kind == Layer::Kind::kNormalization && layer.means.empty()) {
      return i;
    }
  }
  return -1;
}

Status Graph::CheckAdapted() const {
  const int node = FindUnadapted();
  if (node < 0) return Status();
  return InvalidArgument(
      "layer '%s' (Normalization): has no mean and variance yet; Fit or "
      "Model::Adapt computes them, and a saved model has them",
      nodes_[node].layer.name.c_str());
}

// The stream depends on the order of layers and of the calls of each, which a
// file stores. It does not depend on the order of calls of different layers.
// The factor keeps the streams of a layer's calls away from the streams of
// other layers. It must stay: the bits of runs depend on it.
uint64_t Graph::RandomStreamOf(int node) const {
  const auto call = static_cast<uint64_t>(nodes_[node].call_index);
  return static_cast<uint64_t>(layers_[nodes_[node].layer_index].ordinal) +
         call * 0xD1B54A32D192ED03u;
}

int64_t Graph::GradientOffset(const GraphNode& node) const {
  for (int v = 0; v < node.num_variables; ++v) {
    const Variable& variable = variables_[node.first_variable + v];
    if (variable.trained()) return variable.gradient_offset;
  }
  return -1;
}

bool Graph::SharesTrained(int node) const {
  const GraphNode& graph_node = nodes_[node];
  if (layers_[graph_node.layer_index].calls < 2) return false;
  for (int v = 0; v < graph_node.num_variables; ++v) {
    if (variables_[graph_node.first_variable + v].trained()) return true;
  }
  return false;
}

// Returns the layer in its present state. The layers of a nested model have
// their final names, and their present `trainable`.
Layer Graph::Snapshot(int layer) const {
  Layer copy = layers_[layer].layer;
  if (copy.model == nullptr) return copy;
  auto model = std::make_shared<NestedModel>(*copy.model);
  const std::vector<int> own = ListLayers(layer);
  for (size_t i = 0; i < own.size(); ++i) model->layers[i] = Snapshot(own[i]);
  copy.model = std::move(model);
  return copy;
}

void Graph::FreeNestedWeights() {
  for (GraphLayer& layer : layers_) {
    if (layer.layer.model == nullptr) continue;
    auto model = std::make_shared<NestedModel>(*layer.layer.model);
    model->weights = nullptr;
    layer.layer.model = std::move(model);
  }
}

NestedModel Graph::AsNested() const {
  NestedModel model;
  model.status = CheckWhole();
  model.class_name = class_name_;
  std::map<int, int> numbers;
  for (int i = 0; i < static_cast<int>(layers_.size()); i = layers_[i].end) {
    numbers[i] = static_cast<int>(model.layers.size());
    model.layers.push_back(Snapshot(i));
    const NestedModel* inner = layers_[i].layer.model.get();
    if (inner != nullptr) model.depth = std::max(model.depth, inner->depth + 1);
  }
  for (NestedModel::Call call : calls_) {
    call.layer = numbers[call.layer];
    model.calls.push_back(std::move(call));
  }
  model.num_inputs = num_inputs_;
  for (const int node : outputs_) {
    model.outputs.push_back(call_of_node_[node]);
  }
  model.num_nodes = size() - num_inputs_;
  return model;
}

}  // namespace ringlet
