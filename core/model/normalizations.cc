#include "normalizations.h"
#include "model_parts.h"

#include "../layers/layer_kind.h"

namespace ringlet {
namespace {

std::vector<int> NormalizationsNamed(const std::string& name,
                                     const Graph& graph) {
  std::vector<int> nodes;
  for (int node = 0; node < graph.size(); ++node) {
    const Layer& layer = graph.node(node).layer;
    if (layer.kind == Layer::Kind::kNormalization && layer.name == name) {
      nodes.push_back(node);
    }
  }
  return nodes;
}

}  // namespace

Status CheckNormalization(const std::string& layer,
                          const std::vector<float>& mean,
                          const std::vector<float>& variance,
                          const Model& model) {
  const Graph& graph = ModelParts(&model).graph();
  const std::vector<int> nodes = NormalizationsNamed(layer, graph);
  for (const int node : nodes) {
    RINGLET_RETURN_IF_ERROR(graph.CheckNormalization(node, mean, variance)
                                .Annotate("layer '%s'", layer.c_str()));
  }
  if (!nodes.empty()) return Status();
  return InvalidArgument("model '%s': there is no Normalization '%s'",
                         model.name().c_str(), layer.c_str());
}

Status SetNormalization(const std::string& layer,
                        const std::vector<float>& mean,
                        const std::vector<float>& variance, Model* model) {
  RINGLET_RETURN_IF_ERROR(CheckNormalization(layer, mean, variance, *model));
  Graph* const graph = ModelParts(model).mutable_graph();
  for (const int node : NormalizationsNamed(layer, *graph)) {
    RINGLET_RETURN_IF_ERROR(graph->SetNormalization(node, mean, variance));
  }
  return Status();
}

}  // namespace ringlet
