// Reads the calls of the layers of a functional model in Keras's JSON.

#ifndef RINGLET_IO_KERAS_CALLS_JSON_H_
#define RINGLET_IO_KERAS_CALLS_JSON_H_

#include <vector>

#include "field_reader.h"
#include "layer_json.h"

namespace ringlet {

// Reads "inbound_nodes" of a layer, as Keras 3 and Keras 2 write it. Makes the
// layer of an operation.
Status ReadCalls(const Json& json, LayerEntry* entry);
// Reads kCallOrder, which only ringlet writes.
Status ReadCallOrder(const Json& json, LayerEntry* entry);
// Reads config.input_layers or output_layers: one, a list, or an object by
// name.
void ReadEnds(const char* key, FieldReader* fields,
              std::vector<CallReference>* ends);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_CALLS_JSON_H_
