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

// A layer as read, with what only the model around it can check.
struct LayerEntry {
  Layer layer;
  std::string class_name;
  std::string path;        // of the layer
  int64_t axis = -1;       // of Softmax, Concatenate; counts the batch
  bool has_input = false;  // batch_input_shape
  Shape input;
  std::vector<std::string> inputs;  // functional

  Status Annotate(const Status& status) const {
    const char* c = class_name.c_str();
    return layer.name.empty()
               ? status.Annotate("a %s layer without a name", c)
               : status.Annotate("layer '%s' (%s)", layer.name.c_str(), c);
  }
};

// Reads one layer; entry->path says where it stands.
Status ReadLayer(const Json& json, LayerEntry* entry);

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
