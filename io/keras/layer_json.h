// Single layers in Keras's configuration JSON.
//
// model_json.cc combines them into a model.

#ifndef RINGLET_IO_KERAS_LAYER_JSON_H_
#define RINGLET_IO_KERAS_LAYER_JSON_H_

#include <string>
#include <vector>

#include "../../core/base/text.h"
#include "keras_json.h"
#include "ringlet/layers.h"

namespace ringlet {

constexpr size_t kMaxLayerName = 255;  // bytes

// A field of ringlet's own beside "inbound_nodes": the index of each call among
// all calls of the model. It is written if shared layers permit more than one
// order. Keras ignores it.
constexpr char kCallOrder[] = "call_order";

// A reference to a call of a layer: [name, number, tensor] in a functional
// model. Or numbers, as in x + 3.
struct CallReference {
  std::string name;
  int64_t number = 0;
  int64_t tensor = 0;          // not 0 for a recurrent layer's states alone
  std::vector<float> numbers;  // empty, one, or one for each channel
  int rank = 0;                // the rank of the numbers
};

// Arithmetic in a functional model that is not a layer in Keras
// (operation_json.h).
enum class Operation : uint8_t {
  kNone,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kNegate,
  kPower,
  kNotEqual,  // these make masks (mask_json.h)
  kAny,
  kOr
};

// The mask of a call: which numbers of a tensor are not `value`, or which of
// its rows have such a number.
struct MaskReference {
  size_t call = 0;  // index in LayerEntry::calls
  int input = 0;    // the input that has the mask
  CallReference from;
  float value = 0;
  bool over_features = false;
};

// A layer from JSON, with the fields that only the model around it can check.
struct LayerEntry {
  Layer layer;
  Operation operation = Operation::kNone;
  int rank = 0;  // the rank of an operation's numbers
  std::string class_name;
  std::string path;     // the layer's path
  bool keras2 = false;  // written by Keras 2 or TensorFlow.js
  int64_t axis = -1;    // the axis of Concatenate, …; counts the batch
  bool has_dtype = false;
  bool from_ops = false;   // of keras.ops, as x + y
  bool has_adapt = false;  // "adapt", of a Normalization, is in the file
  bool has_input = false;  // batch_input_shape, or a model's input
  Shape input;             // a size may be kOpenSize
  // Functional: the inputs of the calls.
  std::vector<std::vector<CallReference>> calls;
  std::vector<MaskReference> masks;
  std::vector<int64_t> call_order;  // the calls' order; empty if not given

  Status Annotate(const Status& status) const {
    return layer.name.empty()
               ? status.Annotate("%s without a name",
                                 WithArticle(class_name).c_str())
               : status.Annotate("layer '%s' (%s)", layer.name.c_str(),
                                 class_name.c_str());
  }
};

// True for a model. A layer has another class.
bool IsModel(const KerasObject& object);

// Reads one layer that is not a model. entry->path is its place.
Status ReadLayer(const Json& json, const KerasObject& object,
                 LayerEntry* entry);
// Reads a model as a layer.
Status ReadNested(const Json& json, const KerasObject& object,
                  LayerEntry* entry);
// Reads the fields around a layer's config.
Status ReadLayerObject(const Json& json, LayerEntry* entry,
                       KerasObject* object);
// Reads the name in the config and, in functional models, the name beside it in
// `json`.
Status ReadName(const Json& json, const KerasObject& object,
                FieldReader* fields, LayerEntry* entry);

Status CheckName(const std::string& name, const std::string& path);

// With `batch` the first entry is the batch, and is null. `low` is the smallest
// permitted dimension, or kOpenSize if sizes may be open. `sizes` describes the
// dimensions.
constexpr int64_t kOpenSize = -1;
void ReadShape(const char* key, bool batch, int64_t low, FieldReader* fields,
               Shape* shape, const char* sizes = "");

void WriteShape(JsonWriter* w, bool batch, const Shape& shape);
void WriteDType(JsonWriter* w, DTypePolicy policy);

// Writes a layer, or a model as a layer, with its class and module.
void WriteLayerObject(JsonWriter* w, const Layer& layer);
// Writes the layer's "config".
void WriteConfig(JsonWriter* w, const Layer& layer);
// The module of a layer's class: "keras.layers" or "keras_hub.layers".
const char* ModuleOfClass(const Layer& layer);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_LAYER_JSON_H_
