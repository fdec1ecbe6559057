// Functional models of Keras's JSON: a graph of layers by name.
//
// Internal to io/keras. Layers stand in any order, each naming its inputs; the
// model takes them with every layer after its inputs.

#ifndef RINGLET_IO_KERAS_FUNCTIONAL_JSON_H_
#define RINGLET_IO_KERAS_FUNCTIONAL_JSON_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "../../core/model/model.h"
#include "layer_json.h"

namespace ringlet {

struct LayerGraph {
  struct Call {
    int entry = 0, number = 0;       // of the entry's calls
    std::vector<int> inputs, users;  // numbers in `calls`, one per use
  };
  std::vector<LayerEntry> entries;
  std::map<std::string, int> by_name;
  std::set<int> counts_from_1;  // entries
  std::vector<Call> calls;      // those of each entry together
  std::vector<int> first_call;  // of each entry
  std::vector<int> inputs, outputs;  // calls: the model's
};

// Adds the layers of graph->entries, which were read of `layers`, to *model.
// Every layer is on a way from an input to an output.
Status BuildFunctional(const Json& layers, LayerGraph* graph,
                       FieldReader* fields, Functional* model);

// After the layer was added as the model's last.
Status CheckAdded(const LayerEntry& entry, const Model& model);
// The layer to be added behind node `input`: a Softmax over what turns out to
// be the last axis is an activation.
Layer LayerBehind(const LayerEntry& entry, const Model& model, int input);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_FUNCTIONAL_JSON_H_
