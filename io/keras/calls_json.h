// What a layer of a functional model was called with, in Keras's JSON.
//
// Internal to io/keras.

#ifndef RINGLET_IO_KERAS_CALLS_JSON_H_
#define RINGLET_IO_KERAS_CALLS_JSON_H_

#include <vector>

#include "field_reader.h"
#include "layer_json.h"

namespace ringlet {

// "inbound_nodes" of a layer, Keras 3's and Keras 2's.
Status ReadCalls(const Json& json, LayerEntry* entry);
// kCallOrder, where ringlet wrote the file.
Status ReadCallOrder(const Json& json, LayerEntry* entry);
// config.input_layers or output_layers: one, a list, or by name.
void ReadEnds(const char* key, FieldReader* fields,
              std::vector<CallReference>* ends);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_CALLS_JSON_H_
