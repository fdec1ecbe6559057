// Layers in Keras's configuration JSON, one at a time; model_json.h puts them
// together. Not installed.

#ifndef RINGLET_IO_KERAS_LAYER_JSON_H_
#define RINGLET_IO_KERAS_LAYER_JSON_H_

#include <string>
#include <vector>

#include "../../core/layers/layers.h"
#include "keras_json.h"

namespace ringlet {

constexpr size_t kMaxLayerName = 255;  // bytes
// Beside "inbound_nodes", and of ringlet's own: the place of each call among
// all of the model's, where shared layers leave more than one order. Keras
// passes over it.
constexpr char kCallOrder[] = "call_order";

// Which call of a layer: [name, number, 0] in a functional model.
struct CallReference {
  std::string name;
  int64_t number = 0;
};

// A layer as read, with what only the model around it can check.
struct LayerEntry {
  Layer layer;
  std::string class_name;
  std::string path;        // of the layer
  bool keras2 = false;     // written by Keras 2 or TensorFlow.js
  int64_t axis = -1;       // of Concatenate, …; counts the batch
  bool has_input = false;  // batch_input_shape, or a model's input
  Shape input;
  std::vector<std::vector<CallReference>> calls;  // functional: their inputs
  std::vector<int64_t> call_order;  // of the calls; empty: not given

  Status Annotate(const Status& status) const {
    const char* c = class_name.c_str();
    return layer.name.empty()
               ? status.Annotate("a %s layer without a name", c)
               : status.Annotate("layer '%s' (%s)", layer.name.c_str(), c);
  }
};

// Reads one layer that is not a model; entry->path says where it stands.
Status ReadLayer(const Json& json, const KerasObject& object,
                 LayerEntry* entry);
// What a layer's own fields stand in.
Status ReadLayerObject(const Json& json, LayerEntry* entry,
                       KerasObject* object);
// The name within the config and, in functional models, beside it, which is at
// `json`.
Status ReadName(const Json& json, const KerasObject& object,
                FieldReader* fields, LayerEntry* entry);

Status CheckName(const std::string& name, const std::string& path);

// `batch`: the first entry stands for the batch, and is null. `low`: the
// smallest dimension, and -1 where one may be open.
void ReadShape(const char* key, bool batch, int64_t low, FieldReader* fields,
               Shape* shape);

void WriteShape(JsonWriter* w, bool batch, const Shape& shape);
void WriteDType(JsonWriter* w);

// The layer's "config".
void WriteConfig(JsonWriter* w, const Layer& layer);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_LAYER_JSON_H_
