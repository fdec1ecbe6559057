// Functional models of Keras's JSON: a graph of layers by name.
//
// Internal to io/keras. Layers stand in any order, each naming its inputs; the
// model takes them with every layer after its inputs.

#ifndef RINGLET_IO_KERAS_FUNCTIONAL_JSON_H_
#define RINGLET_IO_KERAS_FUNCTIONAL_JSON_H_

#include <map>
#include <string>
#include <vector>

#include "../../core/model/model.h"
#include "layer_json.h"

namespace ringlet {

struct LayerGraph {
  std::vector<LayerEntry> entries;
  std::map<std::string, int> by_name;
  std::vector<std::vector<int>> users;  // of each entry, one per use
};

// Adds the layers of graph->entries, which were read of `layers`, to *model.
// One input, one output, and every layer on a way between them.
Status BuildFunctional(const Json& layers, LayerGraph* graph,
                       FieldReader* fields, Functional* model);

// After the layer was added as the model's last.
Status CheckAdded(const LayerEntry& entry, const Model& model);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_FUNCTIONAL_JSON_H_
