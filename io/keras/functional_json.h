// Functional models in Keras's JSON: a graph of layers by name.
//
// Layers are in any order, and each names its inputs. They are added to the
// model in an order with inputs first.

#ifndef RINGLET_IO_KERAS_FUNCTIONAL_JSON_H_
#define RINGLET_IO_KERAS_FUNCTIONAL_JSON_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "field_reader.h"
#include "layer_json.h"
#include "ringlet/model.h"

namespace ringlet {

struct LayerGraph {
  struct Call {
    int entry = 0, number = 0;       // index among the entry's calls
    std::vector<int> inputs, users;  // indices in `calls`, one for each use
  };
  std::vector<LayerEntry> entries;
  std::map<std::string, int> by_name;
  std::set<int> counts_from_1;       // entries
  std::vector<Call> calls;           // grouped by entry
  std::vector<int> first_call;       // the first call of each entry
  std::vector<int> inputs, outputs;  // calls of the model
};

// Adds the layers of graph->entries, which were read from `layers`, to *model.
// Every layer must be on a path from an input to an output.
Status BuildFunctional(const Json& layers, LayerGraph* graph,
                       FieldReader* fields, Functional* model);

// Reads "inbound_nodes" of a layer, as Keras 3 and Keras 2 write it. Makes the
// layer of an operation.
Status ReadCalls(const Json& json, LayerEntry* entry);
// Reads kCallOrder, which only ringlet writes.
Status ReadCallOrder(const Json& json, LayerEntry* entry);
// Reads config.input_layers or output_layers: one, a list, or an object by
// name.
void ReadEnds(const char* key, FieldReader* fields,
              std::vector<CallReference>* ends);

// Call it after the layer was added as the model's last.
Status CheckAdded(const LayerEntry& entry, const Model& model);
// The layer to add after node `input`: a Softmax over the last axis becomes an
// activation.
Layer LayerBehind(const LayerEntry& entry, const Model& model, int input);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_FUNCTIONAL_JSON_H_
